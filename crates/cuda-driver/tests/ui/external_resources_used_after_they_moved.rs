//! An import consumes its handle, and graphs share ownership of the semaphores that they use.

use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;

fn imported_twice(context: &Context, handle: std::os::fd::OwnedFd) {
    // SAFETY: this program must not compile.
    unsafe { ExternalMemory::import(context, handle, 8, ExternalMemoryFlags::empty()) }.unwrap();
    // SAFETY: this program must not compile.
    unsafe { ExternalMemory::import(context, handle, 8, ExternalMemoryFlags::empty()) }.unwrap();
}

fn borrowed_by_a_graph(graph: &mut Graph, semaphore: &ExternalSemaphore) {
    graph.add_external_signal(&[], semaphore, 1).unwrap();
}

fn used_after_close(stream: &Stream, semaphore: ExternalSemaphore) {
    semaphore.close().unwrap();
    stream.signal_external(&semaphore, 1).unwrap();
}

fn main() {}
