//! The errors of allocations for which memory runs out: what was to be allocated, how much, and
//! the memory of the device only where it is a part of the limit.

use std::fmt::Debug;

use cuda_driver::error::{AllocationKind, Error, Result, Status};
use cuda_driver::graph::Graph;
use cuda_driver::memory::{
    GrowableBuffer, ManagedBuffer, PhysicalKind, PhysicalMemory, RegisterFlags, RegisteredBuffer,
    Reservation,
};
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, MipmappedArray};
use cuda_sim::{Builder, Rule};
use cuda_sys::CUdevice_attribute;

use crate::support::{Fixture, has_virtual_memory, software};

const TOTAL: usize = 8 << 20;
const CONCURRENT: CUdevice_attribute =
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;

/// Checks the kind and the numbers of an error; `text` is what must follow the name of the call.
#[track_caller]
fn expect<T: Debug>(result: Result<T>, want: AllocationKind, size: usize, text: &str) {
    let error = result.expect_err("memory runs out");
    let Error::OutOfMemory {
        kind,
        bytes,
        free,
        total,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((kind, bytes), (want, size), "{error}");
    let is_on_device = matches!(want, AllocationKind::Device | AllocationKind::Managed);
    assert_eq!(total, if is_on_device { TOTAL } else { 0 }, "{error}");
    assert_eq!(free > 0, is_on_device, "{error}");
    let shown = error.to_string();
    assert!(shown.contains(text), "{shown}");
    assert_eq!(
        shown.contains("free on the device"),
        is_on_device,
        "{shown}"
    );
}

fn small(builder: Builder) -> Fixture {
    software(builder.memory(TOTAL as u64).host_memory(1 << 20))
}

#[test]
fn allocations_of_the_device_state_its_memory() {
    let fixture = small(Builder::new());
    let (context, stream) = (&fixture.context, fixture.stream());
    let device = AllocationKind::Device;
    let bytes = 64 << 20;
    let text = "while allocating 67108864 bytes; ";
    expect(
        DeviceBuffer::<u8>::zeroed(&stream, bytes),
        device,
        bytes,
        text,
    );
    let flags = ArrayFlags::empty();
    let shape = ArrayShape::two_d(4096, 4096);
    expect(
        Array::<f32>::zeroed(&stream, &shape, flags),
        device,
        bytes,
        text,
    );
    let pyramid = MipmappedArray::<f32>::zeroed(&stream, &shape, 2, flags);
    expect(
        pyramid,
        device,
        bytes / 4 * 5,
        "while allocating 83886080 bytes; ",
    );
    let mut graph = Graph::new(context).unwrap();
    // SAFETY: no launch reads the memory ← the node is not added.
    let added = unsafe { graph.add_alloc::<u8>(&[], bytes) }.map(|memory| memory.len());
    expect(added, device, bytes, text);
    if has_virtual_memory(context) {
        let mut growable = GrowableBuffer::<u8>::new(&stream, bytes).unwrap();
        expect(growable.grow_to(bytes), device, bytes, text);
    }
}

#[test]
fn physical_memory_without_a_context_states_its_size() {
    let fixture = small(Builder::new());
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let kind = PhysicalKind::of_device(fixture.context.device());
    let error = PhysicalMemory::new(&kind, 64 << 20).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("while allocating 67108864 bytes"),
        "{error}"
    );
    let error = Reservation::new(fixture.context.driver(), 1 << 60, 0).unwrap_err();
    assert!(
        error.to_string().ends_with(
            "while reserving 1152921504606846976 bytes of addresses; no free range is that long: \
             reserve fewer bytes"
        ),
        "{error}"
    );
}

#[test]
fn managed_memory_may_be_on_the_host_if_the_device_moves_pages() {
    for (value, kind, text) in [
        (1, AllocationKind::Managed, "bytes of managed memory; "),
        (
            0,
            AllocationKind::Device,
            "while allocating 67108864 bytes; ",
        ),
    ] {
        let fixture = small(Builder::new().attribute(CONCURRENT, value));
        let stream = fixture.stream();
        let bytes = 64 << 20;
        let result = ManagedBuffer::<u8>::zeroed(&stream, bytes);
        expect(result, kind, bytes, text);
        let error = ManagedBuffer::<u8>::zeroed(&stream, bytes).unwrap_err();
        let says_so = error.to_string().contains("must fit on the host");
        assert_eq!(says_so, value == 1, "{error}");
    }
}

#[test]
fn page_locked_memory_is_not_limited_by_the_device() {
    let fixture = small(Builder::new());
    let context = &fixture.context;
    let host = AllocationKind::Host;
    let bytes = 2 << 20;
    let text = "while page-locking 2097152 bytes of the host; the memory of the device does not \
                limit them";
    let pinned = PinnedBuffer::<u8>::zeroed(context, bytes, PinnedFlags::empty());
    expect(pinned, host, bytes, text);
    // The software device registers any memory.
    let simulator = fixture.simulator.as_ref().unwrap();
    let rule = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY);
    simulator.add_rule(rule.function("cuMemHostRegister_v2"));
    let vec = vec![0_u8; bytes];
    let registered = RegisteredBuffer::from_vec(context, vec, RegisterFlags::empty());
    expect(registered.map_err(Error::from), host, bytes, text);
}
