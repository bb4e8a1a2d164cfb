//! Only `unsafe` code imports memory and semaphores of other APIs.

use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;
use cuda_driver::texture::{ArrayFlags, ArrayShape};

fn imported(context: &Context, handle: std::os::fd::OwnedFd) {
    ExternalMemory::import(context, handle, 8, ExternalMemoryFlags::empty()).unwrap();
}

fn dma_buf(context: &Context, handle: std::os::fd::OwnedFd) {
    ExternalMemory::import_dma_buf(context, handle, 8, ExternalMemoryFlags::empty()).unwrap();
}

fn image(memory: &ExternalMemory, stream: &Stream, shape: &ArrayShape) {
    memory.map_array::<u32>(stream, .., shape, ArrayFlags::empty()).unwrap();
}

fn binary(context: &Context, handle: std::os::fd::OwnedFd) {
    ExternalSemaphore::import_binary(context, handle).unwrap();
}

fn timeline(context: &Context, handle: std::os::fd::OwnedFd) {
    ExternalSemaphore::import_timeline(context, handle).unwrap();
}

fn main() {}
