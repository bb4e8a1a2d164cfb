//! Buffers that grow and shrink while they are in use, and memory that is mapped again.

use std::mem;

use cuda_driver::error::Error;
use cuda_driver::memory::{GrowableBuffer, PhysicalKind, PhysicalMemory, Reservation};
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// Returns a buffer whose elements are `value`, unless the device has no virtual memory.
fn growable(case: &Case, stream: &Stream, value: u32) -> Option<GrowableBuffer<u32>> {
    if !case.context.device().has_virtual_memory().unwrap() {
        return None;
    }
    let mut buffer = GrowableBuffer::new(stream, 1 << 21).unwrap();
    buffer.grow_to(case.n).unwrap();
    buffer.as_mut_slice().fill(value).unwrap();
    Some(buffer)
}

/// Claim: no memory is unmapped before its last use. The buffer shrinks after its uses on several
/// streams were queued, and after the last handle of a graph that uses it was dropped.
#[test]
fn memory_is_unmapped_after_queued_uses() {
    Attack::new().run(|case| {
        let (one, two) = (case.stream(), case.stream());
        let Some(mut buffer) = growable(case, &one, 7) else {
            return;
        };
        let (mut a, mut b) = (case.filled(&one, 0), case.filled(&two, 0));
        let n = case.n;
        case.hold_up(&two);
        case.copy(&two, a.as_mut_slice(), buffer.slice(..n).unwrap())
            .unwrap();
        buffer.grow_to(1 << 20).unwrap();
        let graph = Graph::capture(&case.context, |scope| {
            scope.copy(&mut b, buffer.slice(..n)?).map(drop)
        });
        let exec = graph.unwrap().instantiate().unwrap();
        case.launch_late(&exec, &two);
        drop(exec);
        // The graph keeps the memory until its last launch is complete.
        let mut buffer = buffer;
        let shrink = |buffer: &mut GrowableBuffer<u32>| match buffer.shrink_to(0) {
            Ok(()) => true,
            Err(Error::StillInUse { .. }) => false,
            Err(error) => panic!("{}: {error}", case.title),
        };
        if !shrink(&mut buffer) {
            two.synchronize().unwrap();
        }
        case.expect(&a, 7);
        case.expect(&b, 7);
        drop(buffer);
    });
}

/// Claim: a buffer unmaps its own memory only. Two buffers are exchanged while kernels use them.
#[test]
fn exchanged_buffers_keep_their_memory() {
    Attack::new().run(|case| {
        let (one, two) = (case.stream(), case.stream());
        let (Some(mut first), Some(mut second)) =
            (growable(case, &one, 1), growable(case, &two, 2))
        else {
            return;
        };
        let mut out = case.filled(&one, 0);
        case.hold_up(&one);
        case.copy(&one, out.as_mut_slice(), second.as_slice())
            .unwrap();
        mem::swap(&mut first, &mut second);
        drop(first);
        second.shrink_to(0).unwrap();
        second.grow_to(case.n).unwrap();
        case.expect(&out, 2);
        case.expect(&second, 0);
    });
}

/// Claim: two buffers never have the same memory. The program forgets a buffer of mapped memory,
/// and maps the memory again.
#[test]
fn forgotten_memory_is_not_mapped_again() {
    Attack::new().leaks().run(|case| {
        if !case.context.device().has_virtual_memory().unwrap() {
            return;
        }
        let stream = case.stream();
        let kind = PhysicalKind::of_device(case.context.device());
        let memory = PhysicalMemory::new(&kind, 1).unwrap();
        let addresses = Reservation::new(case.context.driver(), 2 * memory.bytes(), 0).unwrap();
        let buffer = addresses.map(0, &memory).unwrap();
        mem::forget(buffer.zeroed::<u32>(&stream).unwrap());
        let error = addresses.map(memory.bytes(), &memory).unwrap_err();
        assert!(matches!(error, Error::StillInUse { .. }), "{error}");
    });
}
