//! Memory for other processes. The contracts of the `unsafe` calls that open and reclaim it are
//! kept.

use std::os::fd::AsFd;

use cuda_driver::memory::{ExportedBuffer, ImportedPool, MemoryHandle, MemoryPool, Unpooled};
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

const WHY: &str = "a process does not open its own memory on a GPU";

fn open(
    imported: &ImportedPool,
    stream: &Stream,
    buffer: &ExportedBuffer<u32>,
) -> DeviceBuffer<u32> {
    let MemoryHandle::Pool(pointer) = buffer.handle() else {
        panic!("{:?}", buffer.handle());
    };
    // SAFETY: the memory has as many words, and its buffer is not freed before this one.
    unsafe { imported.open(stream, pointer, buffer.len()) }.unwrap()
}

fn pools(case: &Case) -> (MemoryPool, ImportedPool) {
    let device = case.context.device();
    let pool = MemoryPool::exportable(device).unwrap();
    let descriptor = pool.export().unwrap();
    // SAFETY: the descriptor is that of a pool.
    let imported = unsafe { ImportedPool::import(device, descriptor.as_fd()) }.unwrap();
    (pool, imported)
}

/// Claim: nothing frees the memory of an exported buffer: not dropping it, its pool and its stream
/// while work uses it, nor allocations that follow.
#[test]
fn dropped_exports_keep_their_memory() {
    Attack::new().leaks().on_software(WHY).run(|case| {
        let (owner, reader) = (case.stream(), case.stream());
        let (pool, imported) = pools(case);
        let mut opened = Vec::new();
        for value in 1..5 {
            let words = vec![value; case.n];
            let buffer = DeviceBuffer::from_host_in(&pool, &owner, &words).unwrap();
            let buffer = buffer.export().unwrap();
            owner.synchronize().unwrap();
            opened.push(open(&imported, &reader, &buffer));
            case.hold_up(&owner);
            drop(buffer);
        }
        drop((owner, pool));
        let others: Vec<_> = (0..16).map(|_| case.filled(&reader, 99)).collect();
        for (value, buffer) in (1..).zip(&opened) {
            case.expect(buffer, value);
        }
        drop(others);
    });
}

/// Claim: uses of opened memory are ordered like those of any buffer, and it is closed behind them.
#[test]
fn opened_memory_is_closed_behind_its_uses() {
    Attack::new().on_software(WHY).run(|case| {
        let (owner, other, reader) = (case.stream(), case.stream(), case.stream());
        let (pool, imported) = pools(case);
        let mut results: Vec<_> = (0..8).map(|_| case.filled(&reader, 0)).collect();
        for (value, result) in (1..).zip(&mut results) {
            let words = vec![0; case.n];
            let buffer = DeviceBuffer::from_host_in(&pool, &owner, &words).unwrap();
            let buffer = buffer.export().unwrap();
            owner.synchronize().unwrap();
            let mut same = open(&imported, &other, &buffer);
            case.hold_up(&other);
            same.fill(value).unwrap();
            case.copy(&reader, result.as_mut_slice(), same.as_slice())
                .unwrap();
            drop(same);
            other.synchronize().unwrap();
            // SAFETY: the memory was closed, and the stream has reached that point.
            drop(unsafe { buffer.reclaim() });
        }
        for (value, result) in (1..).zip(&results) {
            case.expect(result, value);
        }
    });
}

/// Claim: a reclaimed buffer is freed behind the uses that it had while it was exported.
#[test]
fn reclaimed_buffers_are_freed_in_order() {
    Attack::new().run(|case| {
        let (owner, reader) = (case.stream(), case.stream());
        let mut results: Vec<_> = (0..8).map(|_| case.filled(&reader, 0)).collect();
        for (value, result) in (1..).zip(&mut results) {
            let words = vec![value; case.n];
            let buffer = DeviceBuffer::from_host_in(&Unpooled, &owner, &words).unwrap();
            let buffer = buffer.export().unwrap();
            case.hold_up(&reader);
            case.copy(&reader, result.as_mut_slice(), buffer.as_slice())
                .unwrap();
            // SAFETY: no other process has the handle.
            drop(unsafe { buffer.reclaim() });
            let mut next = DeviceBuffer::zeroed_in(&Unpooled, &owner, case.n).unwrap();
            next.fill(0xBAD_u32).unwrap();
        }
        for (value, result) in (1..).zip(&results) {
            case.expect(result, value);
        }
    });
}
