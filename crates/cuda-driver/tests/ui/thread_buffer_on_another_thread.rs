//! Only one thread can record an event after the uses of a `ThreadBuffer`.

use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;
use cuda_driver::stream::ThreadStream;

fn send<T: Send>(_: T) {}

fn stream(stream: ThreadStream) {
    send(stream);
}

fn buffer(buffer: ThreadBuffer<u32>) {
    send(buffer);
}

fn borrow(buffer: &ThreadBuffer<u32>) {
    std::thread::scope(|scope| {
        scope.spawn(|| buffer.to_vec());
    });
}

fn list(buffer: &ThreadBuffer<u32>) {
    let mut args = ArgList::new();
    args.push(buffer);
}

fn main() {}
