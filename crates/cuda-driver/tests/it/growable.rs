//! Buffers that grow in place.

use std::time::{Duration, Instant};

use cuda_driver::Error;
use cuda_driver::error::{RangeError, Status};
use cuda_driver::graph::Graph;
use cuda_driver::launch::{Reads, Writes};
use cuda_driver::memory::{GrowableBuffer, PhysicalKind};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{
    COPY, Fixture, assert_all, block, everywhere, filled, gpu, has_virtual_memory, late, software,
};

fn devices() -> impl Iterator<Item = Fixture> {
    everywhere().filter(|fixture| has_virtual_memory(&fixture.context))
}

/// The number of words in the smallest piece of mapped memory.
fn words(buffer: &GrowableBuffer<u32>) -> usize {
    buffer.granularity() / 4
}

#[test]
fn a_buffer_grows_in_place_and_keeps_its_contents() {
    for fixture in devices() {
        let stream = fixture.stream();
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 5_000_000).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
        assert_eq!(buffer.max_len(), 5_000_000);
        assert!(buffer.to_vec().unwrap().is_empty());
        let address = buffer.as_raw();
        let step = words(&buffer);

        buffer.grow_to(10).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (10, step));
        buffer.as_mut_slice().fill(1).unwrap();
        buffer.grow_to(step + 5).unwrap();
        assert_eq!(buffer.as_raw(), address);
        assert_eq!(buffer.capacity(), 2 * step);
        let mut expected = vec![0; step + 5];
        expected[..10].fill(1);
        assert!(buffer.to_vec().unwrap() == expected, "{}", fixture.name);

        buffer.grow_to(7).unwrap();
        assert_eq!(buffer.len(), step + 5, "a shorter length changes nothing");
        buffer.grow_to(5_000_000).unwrap();
        assert_eq!(buffer.capacity(), 5_000_000);
        buffer.slice_mut(4_999_999..).unwrap().fill(3).unwrap();
        assert_eq!(buffer.slice(4_999_998..).unwrap().to_vec().unwrap(), [0, 3]);
        buffer.close().unwrap();
    }
}

#[test]
fn growing_does_not_wait_for_kernels() {
    for fixture in devices() {
        let (one, two) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let copy = copy.typed::<(Reads<u32>, Writes<u32>, u32)>().unwrap();
        let mut buffer = GrowableBuffer::<u32>::new(&one, 1 << 22).unwrap();
        buffer.grow_to(100).unwrap();
        buffer.as_mut_slice().fill(4).unwrap();
        let mut out = filled(&two, 100, 0);
        let release = block(&two);
        let config = LaunchConfig::for_num_elems(100).unwrap();
        // SAFETY: the kernel reads 100 words of one buffer and writes as many of the other.
        unsafe { copy.launch(&two, config, (&buffer, &mut out, 100)) }.unwrap();
        // The kernel waits for the host, so a call that waited for it would not return in time.
        let start = Instant::now();
        buffer.grow_to(1 << 22).unwrap();
        assert!(start.elapsed().as_secs() < 15, "{}", fixture.name);
        // SAFETY: as above.
        unsafe { copy.launch(&two, config, (&out, &mut buffer, 100)) }.unwrap();
        drop(release);
        assert_all(&out, 4, &fixture.name);
        assert_eq!(buffer.slice(99..101).unwrap().to_vec().unwrap(), [4, 0]);
    }
}

#[test]
fn shrinking_waits_for_every_use() {
    let schedules = (0..20).map(|seed| software(late(seed).unmap_waits(false)));
    for fixture in schedules
        .chain(gpu())
        .filter(|fixture| has_virtual_memory(&fixture.context))
    {
        let (one, two) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let mut buffer = GrowableBuffer::<u32>::new(&one, 1 << 21).unwrap();
        let step = words(&buffer);
        buffer.grow_to(step).unwrap();
        buffer.grow_to(2 * step).unwrap();
        buffer.as_mut_slice().fill(6).unwrap();
        let n = u32::try_from(2 * step).unwrap();
        let mut out = filled(&two, n, 0);
        let config = LaunchConfig::for_num_elems(n).unwrap();
        // SAFETY: the kernel reads `n` words of one buffer and writes as many of the other.
        unsafe { two.launch(&kernel, config, (&buffer, &mut out, n)) }.unwrap();
        buffer.shrink_to(10).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (10, step));
        assert_all(&out, 6, &fixture.name);
        buffer.shrink_to(10).unwrap();
        buffer.shrink_to(0).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
        // What a shorter buffer gave up is zeroed when it comes back.
        buffer.grow_to(20).unwrap();
        buffer.as_mut_slice().fill(8).unwrap();
        buffer.shrink_to(5).unwrap();
        buffer.grow_to(8).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [8, 8, 8, 8, 8, 0, 0, 0]);
    }
}

#[test]
fn shrinking_is_refused_while_a_graph_uses_the_buffer() {
    for fixture in devices() {
        let stream = fixture.stream();
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 1 << 20).unwrap();
        buffer.grow_to(100).unwrap();
        buffer.as_mut_slice().fill(2).unwrap();
        let mut out = filled(&stream, 100, 0);
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.copy(&mut out, &buffer)?;
            let error = buffer.shrink_to(50).unwrap_err();
            assert!(matches!(error, Error::StillInUse { .. }), "{error}");
            // Growing changes nothing that the graph uses.
            buffer.grow_to(200)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        drop(graph);
        exec.launch(&stream).unwrap();
        let error = buffer.shrink_to(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the growable buffer is still in use by graphs, which must be dropped first"
        );
        assert_eq!(buffer.len(), 200);
        assert_all(&out, 2, &fixture.name);
        exec.close().unwrap();
        stream.synchronize().unwrap();
        let start = Instant::now();
        while let Err(error) = buffer.shrink_to(0) {
            assert!(matches!(error, Error::StillInUse { .. }), "{error}");
            assert!(start.elapsed().as_secs() < 10);
        }
    }
}

#[test]
fn a_graph_keeps_the_memory_of_a_dropped_buffer() {
    for fixture in devices() {
        let stream = fixture.stream();
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 1 << 20).unwrap();
        buffer.grow_to(100).unwrap();
        buffer.as_mut_slice().fill(2).unwrap();
        let mut out = filled(&stream, 100, 0);
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.copy(&mut out, &buffer).map(drop)
        })
        .unwrap();
        drop(buffer);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&out, 2, &fixture.name);
    }
}

#[test]
fn lengths_beyond_the_reservation_are_refused() {
    for fixture in devices() {
        let stream = fixture.stream();
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 100).unwrap();
        let error = buffer.grow_to(101).unwrap_err();
        let Error::OutOfRange(range) = error else {
            panic!("{error}");
        };
        assert!(matches!(
            *range,
            RangeError::TooMany {
                given: 101,
                most: 100,
                ..
            }
        ));
        buffer.grow_to(100).unwrap();
        assert_eq!(
            buffer.capacity(),
            100,
            "the rest of the page is not counted"
        );
        let error = GrowableBuffer::<u64>::new(&stream, usize::MAX / 8).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
        let empty = GrowableBuffer::<u32>::new(&stream, 0).unwrap();
        assert_eq!(empty.max_len(), 0);
    }
}

#[test]
fn a_buffer_without_room_keeps_its_length() {
    let fixture = software(Builder::new().memory(8 << 20));
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let stream = fixture.stream();
    let mut buffer = GrowableBuffer::<u8>::new(&stream, 64 << 20).unwrap();
    buffer.grow_to(1000).unwrap();
    let error = buffer.grow_to(32 << 20).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!((buffer.len(), buffer.capacity()), (1000, 2 << 20));
    buffer.grow_to(2000).unwrap();
    assert!(buffer.to_vec().unwrap() == [0; 2000]);
}

#[test]
fn failed_calls_leave_a_usable_buffer() {
    let fixture = software(Builder::new());
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = GrowableBuffer::<u32>::new(&stream, 1 << 22).unwrap();
    let step = words(&buffer);
    buffer.grow_to(step).unwrap();
    let status = Status::CUDA_ERROR_UNKNOWN;
    let calls = [
        "cuMemGetAllocationGranularity",
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemsetD8Async",
    ];
    for call in calls {
        simulator.add_rule(Rule::new(status).function(call).nth(1));
        let error = buffer.grow_to(step + 1).unwrap_err();
        assert_eq!(error.status(), Some(status), "{call}");
        assert_eq!(buffer.len(), step, "{call}");
        simulator.clear_rules();
    }
    buffer.grow_to(step + 1).unwrap();
    buffer.grow_to(2 * step + 1).unwrap();
    // After a failed unmap, the addresses from there on stay in use.
    simulator.add_rule(Rule::new(status).function("cuMemUnmap").nth(1));
    let error = buffer.shrink_to(1).unwrap_err();
    assert_eq!(error.status(), Some(status));
    simulator.clear_rules();
    assert_eq!((buffer.len(), buffer.max_len()), (1, 2 * step));
    buffer.shrink_to(0).unwrap();
    buffer.grow_to(2 * step).unwrap();
    assert!(buffer.grow_to(2 * step + 1).is_err());
}

#[test]
fn other_kinds_of_memory_and_other_devices_have_access() {
    let fixture = software(late(3).devices(2));
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let driver = fixture.context.driver();
    let (stream, other) = (fixture.stream(), driver.device(1).unwrap());
    let kinds = [
        PhysicalKind::of_host(driver, 0),
        PhysicalKind::of_device(&other),
        PhysicalKind::of_device(fixture.context.device()).compressible(),
    ];
    for kind in kinds {
        let mut buffer = GrowableBuffer::<u32>::new_of(&kind, &stream, 1 << 20).unwrap();
        assert_eq!(buffer.kind(), &kind);
        buffer.grow_to(10).unwrap();
        buffer.allow(&other).unwrap();
        buffer.allow(&other).unwrap();
        buffer.grow_to(1 << 20).unwrap();
        buffer.as_mut_slice().fill(1).unwrap();
        assert_all(&buffer, 1, &format!("{kind:?}"));
    }
    let another = software(Builder::new());
    let kind = PhysicalKind::of_device(another.context.device());
    let error = GrowableBuffer::<u32>::new_of(&kind, &stream, 1).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let mut buffer = GrowableBuffer::<u32>::new(&stream, 1).unwrap();
    let error = buffer.allow(another.context.device()).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn kernels_of_a_device_with_access_use_the_buffer() {
    let fixture = software(late(3).devices(2).unmap_waits(false));
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let there = fixture.context.driver().device(1).unwrap();
    let there = there.primary_context().unwrap();
    let stream = crate::support::new_stream(&there);
    let kernel = Module::load(&there, &Ptx::new(COPY).unwrap()).unwrap();
    let kernel = kernel.function("copy").unwrap();
    let mut buffer = GrowableBuffer::<u32>::new(&fixture.stream(), 1 << 20).unwrap();
    buffer.grow_to(100).unwrap();
    buffer.as_mut_slice().fill(7).unwrap();
    let error = buffer.as_slice().for_peer(&there).unwrap_err();
    assert!(
        error.to_string().contains("GrowableBuffer::allow"),
        "{error}"
    );
    buffer.allow(there.device()).unwrap();
    let mut out = filled(&stream, 100, 0);
    let input = buffer.as_slice().for_peer(&there).unwrap();
    let config = LaunchConfig::for_num_elems(100).unwrap();
    // SAFETY: the kernel reads 100 words of one buffer and writes as many of the other.
    unsafe { stream.launch(&kernel, config, (input, &mut out, 100_u32)) }.unwrap();
    // The memory is unmapped after the kernel of the other device.
    buffer.shrink_to(0).unwrap();
    drop(buffer);
    assert_all(&out, 7, "the other device");
}

#[test]
fn uninitialized_elements_may_be_written_first() {
    for fixture in devices() {
        let stream = fixture.stream();
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 100).unwrap();
        // SAFETY: the elements are written below before they are read.
        unsafe { buffer.grow_uninit_to(3) }.unwrap();
        // SAFETY: as above; the length does not change.
        unsafe { buffer.grow_uninit_to(2) }.unwrap();
        buffer.as_mut_slice().copy_from_host(&[1, 2, 3]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    }
}

/// Prints the cost of a step. `bundle/run.sh` runs tests with names like this one alone.
#[test]
#[ignore = "needs the GPU to itself"]
fn a_gpu_buffer_grows_in_small_steps_by_itself() {
    let Some(fixture) = gpu() else {
        return;
    };
    let (one, two) = (fixture.stream(), fixture.stream());
    let copy = fixture.kernel(COPY, "copy");
    let (free, _) = fixture.context.memory_info().unwrap();
    let most = (64 << 30).min(free / 4 * 3);
    let mut buffer = GrowableBuffer::<u32>::new(&one, most / 4).unwrap();
    let step = words(&buffer);
    buffer.grow_to(step).unwrap();
    buffer.as_mut_slice().fill(3).unwrap();
    let mut out = filled(&two, 1000, 0);
    let (mut steps, mut growing) = (0, Duration::ZERO);
    while buffer.len() + step <= buffer.max_len() {
        let config = LaunchConfig::for_num_elems(1000).unwrap();
        // SAFETY: the kernel reads the first 1000 words, and writes as many of the other buffer.
        unsafe { two.launch(&copy, config, (&buffer, &mut out, 1000_u32)) }.unwrap();
        let start = Instant::now();
        // SAFETY: only the last of the new elements are read, and they are written first.
        unsafe { buffer.grow_uninit_to(buffer.len() + step) }.unwrap();
        growing += start.elapsed();
        steps += 1;
    }
    let last = buffer.len() - step;
    buffer.slice_mut(last..).unwrap().fill(5).unwrap();
    assert!(buffer.slice(last..).unwrap().to_vec().unwrap() == vec![5; step]);
    assert_all(&out, 3, &fixture.name);
    println!(
        "{steps} steps of {} KiB, {:.1} µs each",
        buffer.granularity() >> 10,
        growing.as_secs_f64() * 1e6 / f64::from(steps)
    );
}

/// A driver refuses copies across the end of a mapping while no context is current.
#[test]
fn copies_cross_the_end_of_a_mapping() {
    for fixture in devices() {
        let stream = fixture.stream();
        let driver = fixture.context.driver();
        assert!(Context::current(driver).unwrap().is_none());
        let mut buffer = GrowableBuffer::<u32>::new(&stream, 5_000_000).unwrap();
        let step = words(&buffer);
        buffer.grow_to(step).unwrap();
        buffer.grow_to(2 * step).unwrap();
        let all = 0..2 * step;
        let expected: Vec<u32> = (0..2 * step as u32).collect();
        buffer.as_mut_slice().copy_from_host(&expected).unwrap();
        assert!(buffer.to_vec().unwrap() == expected, "{}", fixture.name);
        let copy = DeviceBuffer::from_host(&stream, &expected).unwrap();
        let mut back = DeviceBuffer::<u32>::zeroed(&stream, 2 * step).unwrap();
        buffer.as_mut_slice().copy_from(&copy).unwrap();
        back.copy_from(buffer.slice(all).unwrap()).unwrap();
        assert!(back.to_vec().unwrap() == expected, "{}", fixture.name);
        let (to, from, bytes) = (back.as_raw(), buffer.as_raw(), 8 * step);
        // SAFETY: both buffers have this number of bytes, and are declared.
        unsafe { stream.copy_raw(to, from, bytes, (&mut back, &buffer)) }.unwrap();
        // SAFETY: the memory belongs to `buffer`, which outlives `borrowed` and its uses.
        let borrowed =
            unsafe { DeviceBuffer::<u32>::from_foreign(&stream, buffer.as_raw(), 2 * step, ()) }
                .unwrap();
        back.copy_from(&borrowed).unwrap();
        assert!(back.to_vec().unwrap() == expected, "{}", fixture.name);
        assert!(Context::current(driver).unwrap().is_none());
    }
}
