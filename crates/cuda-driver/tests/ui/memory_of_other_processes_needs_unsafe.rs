//! Only `unsafe` code opens memory and events of other processes, and frees memory that they use.

use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{ExportedBuffer, ImportedPool, IpcMemoryHandle, PoolPointer};
use cuda_driver::prelude::*;

fn pool(pool: &ImportedPool, stream: &Stream, pointer: &PoolPointer) {
    pool.open::<u32>(stream, pointer, 8).unwrap();
}

fn memory(stream: &Stream, handle: IpcMemoryHandle) {
    handle.open::<u32>(stream, 0, 8).unwrap();
}

fn event(context: &Context, handle: &IpcEventHandle) {
    Event::open_ipc(context, handle).unwrap();
}

fn freed(buffer: ExportedBuffer<u32>) {
    drop(buffer.reclaim());
}

fn exchanged(exported: &mut ExportedBuffer<u32>, other: &mut DeviceBuffer<u32>) {
    std::mem::swap(&mut **exported, other);
}

fn main() {}
