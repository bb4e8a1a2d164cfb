//! The host does not access managed memory that a batch discards, or keep it after `with_host`.

use cuda_driver::memory::{ManagedBatch, ManagedBuffer};
use cuda_driver::prelude::*;

fn read_before_the_discard(stream: &Stream, mut buffer: ManagedBuffer<u32>) -> u32 {
    let mut batch = ManagedBatch::new();
    batch.discard(buffer.as_mut_slice());
    let first = buffer.host().unwrap()[0];
    batch.queue(stream).unwrap();
    first
}

fn kept_after_the_closure(buffer: &mut ManagedBuffer<u32>) -> &mut [u32] {
    let mut kept: Option<&mut [u32]> = None;
    buffer.with_host(|elements| kept = Some(elements)).unwrap();
    kept.unwrap()
}

fn main() {}
