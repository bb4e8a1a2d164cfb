//! A clone of a storage shares the memory: a writable view needs the only handle, and exclusively.

use cuda_driver::memory::Storage;

fn write(storage: &Storage) {
    let _ = storage.view_mut::<u32>(..);
    let _ = storage.alias_mut::<u32>(..);
}

fn main() {}
