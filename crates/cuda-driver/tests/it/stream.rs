//! Streams: properties, the default streams, forks, and threads that share the per-thread stream.

use std::thread;

use cuda_driver::error::{Error, RangeError, Status};
use cuda_driver::launch::{AccessProperty, MemSyncDomain};
use cuda_driver::prelude::*;
use cuda_driver::stream::{
    AccessPolicyWindow, MemSyncDomainMap, StreamPool, SynchronizationPolicy, ValueBatch,
    WaitCondition,
};

use crate::support::{
    COPY, MIX, assert_all, everywhere, filled, late, late_devices, software, unpooled,
};

const N: u32 = 1 << 14;

/// Computes `x = 2 * x + y` on `stream`.
fn mix(kernel: &Function, stream: &Stream, x: &mut DeviceBuffer<u32>, y: &DeviceBuffer<u32>) {
    // SAFETY: the kernel reads and writes N words of `x` and reads N of `y`; each has N.
    unsafe { stream.launch(kernel, LaunchConfig::for_num_elems(N).unwrap(), (x, y, N)) }.unwrap();
}

#[test]
fn a_stream_reports_its_flags_and_priority() {
    for fixture in everywhere() {
        let range = fixture.context.stream_priority_range().unwrap();
        let greatest = range.greatest;
        assert!(greatest <= range.least, "{range:?}");
        assert!(range.contains(greatest) && range.contains(range.least));
        assert!(!range.contains(greatest - 1) && !range.contains(range.least + 1));
        assert_eq!(range.is_supported(), greatest < range.least);
        assert_eq!(StreamFlags::DEFAULT.bits(), 0);
        for flags in [StreamFlags::empty(), StreamFlags::NON_BLOCKING] {
            let stream = Stream::new(&fixture.context, flags, greatest).unwrap();
            assert_eq!(stream.flags().unwrap(), flags);
            assert_eq!(stream.priority().unwrap(), greatest);
            let fork = stream.fork().unwrap();
            assert_ne!(fork, stream);
            assert_eq!(fork.flags().unwrap(), flags);
            assert_eq!(fork.priority().unwrap(), greatest);
            assert_ne!(fork.id().unwrap(), stream.id().unwrap());
            assert_eq!(stream.clone().id().unwrap(), stream.id().unwrap());
        }
        // A priority out of range is clamped.
        for priority in [i32::MIN, i32::MAX] {
            let stream =
                Stream::new(&fixture.context, StreamFlags::NON_BLOCKING, priority).unwrap();
            assert_eq!(stream.priority().unwrap(), range.clamp(priority));
        }
    }
}

#[test]
fn close_destroys_the_stream_if_it_is_the_last_handle() {
    let fixture = software(late(0));
    let simulator = fixture.simulator.as_ref().unwrap();
    let before = simulator.live().streams;
    let stream = fixture.stream();
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
    stream.close().unwrap();
    assert_eq!(simulator.live().streams, before + 1);
    assert_eq!(buffer.to_vec().unwrap(), [0]);
    drop(buffer);
    assert_eq!(simulator.live().streams, before);
    fixture.stream().close().unwrap();
    assert_eq!(simulator.live().streams, before);
    let rule = cuda_sim::Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamDestroy_v2");
    let stream = fixture.stream();
    simulator.add_rule(rule);
    let error = stream.close().unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_UNKNOWN));
}

#[test]
fn default_streams_are_each_one_for_all_handles_of_the_context() {
    let fixture = software(late(0));
    let again = fixture.context.device().primary_context().unwrap();
    assert_eq!(fixture.context.legacy_stream(), again.legacy_stream());
    assert_eq!(
        fixture.context.per_thread_stream(),
        again.per_thread_stream()
    );
    assert_ne!(fixture.context.legacy_stream(), again.per_thread_stream());
    assert_ne!(
        fixture.context.legacy_stream(),
        again.default_stream().unwrap()
    );
}

#[test]
fn buffers_are_ordered_between_all_kinds_of_streams() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(MIX, "mix");
        let streams = [
            fixture.stream(),
            fixture.context.legacy_stream(),
            fixture.context.per_thread_stream(),
            Stream::new(&fixture.context, StreamFlags::empty(), 0).unwrap(),
            fixture.context.default_stream().unwrap(),
        ];
        // Each kind of stream is the owning stream once and is used from every other kind.
        for owner in &streams {
            let (mut x, y) = (filled(owner, N, 1), filled(owner, N, 3));
            let mut value = 1_u32;
            for step in 0..15_usize {
                mix(&kernel, &streams[step * step % 5], &mut x, &y);
                value = value.wrapping_mul(2).wrapping_add(3);
            }
            assert_all(&x, value, &fixture.name);
        }
    }
}

#[test]
fn the_per_thread_stream_is_another_queue_on_each_thread() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(MIX, "mix");
        let stream = fixture.context.per_thread_stream();
        let owner = fixture.stream();
        // The owning stream is an ordinary stream once, and the per-thread stream of this thread
        // once.
        for mut x in [filled(&owner, N, 1), filled(&stream, N, 1)] {
            let y = filled(&stream, N, 5);
            let mut value = 1_u32;
            for _ in 0..3 {
                mix(&kernel, &stream, &mut x, &y);
                thread::scope(|scope| {
                    scope.spawn(|| mix(&kernel, &stream, &mut x, &y));
                });
                for _ in 0..2 {
                    value = value.wrapping_mul(2).wrapping_add(5);
                }
            }
            assert_all(&x, value, &fixture.name);
            thread::scope(|scope| {
                scope.spawn(|| assert_all(&x, value, &fixture.name));
            });
        }
    }
}

#[test]
fn a_buffer_of_an_ended_thread_is_freed_after_its_uses() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(COPY, "copy");
        let stream = fixture.context.per_thread_stream();
        let owner = fixture.stream();
        let mut result = filled(&owner, N, 0);
        let source = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let source = filled(&stream, N, 7);
                let args = (&source, &mut result, N);
                // SAFETY: the kernel reads N words of the one and writes N of the other; each has
                // N.
                unsafe { stream.launch(&kernel, LaunchConfig::for_num_elems(N).unwrap(), args) }
                    .unwrap();
                source
            });
            thread.join().unwrap()
        });
        // Freed on the per-thread stream of this thread, which has not waited for anything so far.
        drop(source);
        let next = filled(&stream, N, 9);
        assert_all(&result, 7, &fixture.name);
        assert_all(&next, 9, &fixture.name);
    }
}

#[test]
fn calls_on_the_default_streams_of_c_need_nothing_current() {
    let fixture = software(late(5));
    let simulator = fixture.simulator.as_ref().unwrap();
    for stream in [
        fixture.context.legacy_stream(),
        fixture.context.per_thread_stream(),
    ] {
        let event = Event::new(&fixture.context, EventFlags::empty()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                event.record(&stream).unwrap();
                stream.wait(&event).unwrap();
                stream.synchronize().unwrap();
                assert!(stream.is_done().unwrap());
                assert_eq!(stream.priority().unwrap(), 0);
                stream.flags().unwrap();
                stream.id().unwrap();
                let ordinary = stream.fork().unwrap();
                stream.join(&ordinary).unwrap();
            });
        });
    }
    // Work on an ordinary stream needs no current context.
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    // Allocates the staging blocks first.
    buffer.copy_from_host(&[0; 4]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0; 4]);
    simulator.reset_calls();
    buffer.copy_from_host(&[1, 2, 3, 4]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3, 4]);
    drop(buffer);
    let calls = simulator.calls();
    assert!(!calls.contains_key("cuCtxGetCurrent"), "{calls:?}");
}

#[test]
fn unbindable_default_stream_fails_and_queues_nothing() {
    let fixture = software(late(6));
    let kernel = fixture.kernel(COPY, "copy");
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.context.legacy_stream();
    let (input, mut output) = (filled(&stream, N, 1), filled(&stream, N, 2));
    simulator.add_rule(
        cuda_sim::Rule::new(Status::CUDA_ERROR_INVALID_CONTEXT).function("cuCtxGetCurrent"),
    );
    simulator.reset_calls();
    let args = (&input, &mut output, N);
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    let launched = unsafe { stream.launch(&kernel, LaunchConfig::for_num_elems(N).unwrap(), args) };
    let unbound = |result: Result<(), Error>| {
        assert_eq!(
            result.unwrap_err().status(),
            Some(Status::CUDA_ERROR_INVALID_CONTEXT)
        );
    };
    unbound(launched);
    unbound(stream.synchronize());
    unbound(output.to_vec().map(drop));
    let calls = simulator.calls();
    assert!(!calls.contains_key("cuLaunchKernel"), "{calls:?}");
    simulator.clear_rules();
    assert_all(&output, 2, &fixture.name);
}

#[test]
fn a_fork_begins_behind_and_a_join_waits_for_all() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(MIX, "mix");
        let stream = fixture.stream();
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 3));
        let (x_at, y_at) = (x.as_raw(), y.as_raw());
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel reads and writes N words of `x` and reads N words of `y`; each has N
        // and outlives its use. The arguments are plain addresses, so only fork and join order the
        // launches.
        let raw = |on: &Stream| unsafe { on.launch(&kernel, config, (x_at, y_at, N)) }.unwrap();
        raw(&stream);
        let fork = stream.fork().unwrap();
        raw(&fork);
        stream.join(&fork).unwrap();
        drop(fork);
        mix(&kernel, &stream, &mut x, &y);
        assert_all(&x, 8 + 7 * 3, &fixture.name);
    }
}

#[test]
fn attributes_are_as_they_were_set_and_copied() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        stream
            .set_synchronization_policy(SynchronizationPolicy::YIELD)
            .unwrap();
        let buffer = filled(&stream, N, 1);
        let window = AccessPolicyWindow {
            address: buffer.as_raw(),
            bytes: 4096,
            hit_ratio: 0.5,
            hit: AccessProperty::Streaming,
            miss: AccessProperty::Normal,
        };
        stream.set_access_policy_window(window).unwrap();
        other.copy_attributes(&stream).unwrap();
        // The software device accepts a window but does not store it.
        for stream in [&stream, &other] {
            match stream.access_policy_window() {
                Ok(kept) => assert_eq!(kept, window),
                Err(error) => {
                    assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
                    assert!(fixture.simulator.is_some());
                }
            }
        }
        assert_eq!(
            other.synchronization_policy().unwrap(),
            SynchronizationPolicy::YIELD
        );
        let foreign = software(late(0)).stream();
        let error = stream.copy_attributes(&foreign).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        // Memory synchronization domains require compute capability 9.0.
        if fixture.simulator.is_some() {
            stream.set_mem_sync_domain(MemSyncDomain::Remote).unwrap();
            assert_eq!(stream.mem_sync_domain().unwrap(), MemSyncDomain::Remote);
            let map = MemSyncDomainMap {
                default: 0,
                remote: 1,
            };
            stream.set_mem_sync_domain_map(map).unwrap();
        }
        assert_all(&buffer, 1, &fixture.name);
    }
}

#[test]
fn a_pool_returns_its_streams_in_rotation() {
    for fixture in everywhere() {
        let pool = StreamPool::new(&fixture.context, 3, 0).unwrap();
        let first: Vec<&Stream> = (0..3).map(|_| pool.next()).collect();
        assert_eq!(first, pool.streams().iter().collect::<Vec<_>>());
        assert_ne!(first[0], first[1]);
        assert_ne!(first[0], first[2]);
        assert_ne!(first[1], first[2]);
        assert_eq!((0..3).map(|_| pool.next()).collect::<Vec<_>>(), first);
        let mut x = filled(pool.next(), N, 1);
        let y = filled(pool.next(), N, 3);
        let kernel = fixture.kernel(MIX, "mix");
        mix(&kernel, pool.next(), &mut x, &y);
        pool.synchronize().unwrap();
        assert_all(&x, 5, &fixture.name);
        assert_eq!(
            StreamPool::new(&fixture.context, 0, 0)
                .unwrap()
                .streams()
                .len(),
            1
        );
    }
}

#[test]
fn streams_wait_for_values_that_others_set() {
    for fixture in everywhere() {
        let kernel = fixture.kernel(MIX, "mix");
        let (waiting, setting) = (fixture.stream(), fixture.stream());
        let flags = unpooled(&setting, &[0_u32, 5]);
        let (mut x, y) = (filled(&waiting, N, 1), filled(&waiting, N, 3));
        let conditions = [
            (WaitCondition::EQUAL, 7, 7),
            (WaitCondition::GREATER_OR_EQUAL, 8, 9),
            (WaitCondition::AND, 0b100, 0b110),
            (WaitCondition::NOR, !0b0010, 0b0001),
        ];
        let mut value = 1_u32;
        for (condition, wanted, set) in conditions {
            waiting.wait_value(&flags, 0, condition, wanted).unwrap();
            mix(&kernel, &waiting, &mut x, &y);
            assert!(!waiting.is_done().unwrap(), "{condition:?}");
            setting.write_value(&flags, 0, set).unwrap();
            value = value.wrapping_mul(2).wrapping_add(3);
            assert_all(&x, value, &fixture.name);
        }
        // 64-bit values, batched in one call.
        let wide = unpooled(&setting, &[1_u64 << 40, 0]);
        ValueBatch::new()
            .wait(&wide, 1, WaitCondition::GREATER_OR_EQUAL, 3_u64 << 33)
            .unwrap()
            .write(&flags, 1, 6_u32)
            .unwrap()
            .write(&wide, 0, u64::MAX)
            .unwrap()
            .queue(&waiting)
            .unwrap();
        assert!(!waiting.is_done().unwrap());
        setting.write_value(&wide, 1, 3_u64 << 33).unwrap();
        waiting.synchronize().unwrap();
        assert_eq!(wide.to_vec().unwrap(), [u64::MAX, 3 << 33]);
        assert_eq!(flags.to_vec().unwrap()[1], 6);
        // An index out of range, and an empty batch.
        let error = waiting.write_value(&flags, 2, 1_u32).unwrap_err();
        assert_eq!(error, RangeError::Index { index: 2, len: 2 }.into());
        ValueBatch::new().queue(&waiting).unwrap();
        // Memory from a pool is refused.
        let pooled = DeviceBuffer::<u32>::zeroed(&setting, 1).unwrap();
        let error = waiting.write_value(&pooled, 0, 1_u32).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
    }
}

#[test]
fn values_set_on_several_streams_follow_the_writer() {
    for seed in 0..64 {
        let fixture = software(late(seed));
        let setting = [fixture.stream(), fixture.stream(), fixture.stream()];
        let waiting = fixture.stream();
        let flags = unpooled(&fixture.stream(), &[0_u32; 4]);
        for (index, stream) in (0..).zip(&setting) {
            stream.write_value(&flags, index, 7_u32).unwrap();
        }
        waiting
            .wait_value(&flags, 3, WaitCondition::EQUAL, 0_u32)
            .unwrap();
        fixture.context.synchronize().unwrap();
        assert_eq!(flags.to_vec().unwrap(), [7, 7, 7, 0], "seed {seed}");
    }
}

#[test]
fn memory_that_a_stream_waits_for_is_freed_behind_the_wait() {
    for seed in 0..16 {
        let fixture = software(late(seed));
        let (waiting, setting) = (fixture.stream(), fixture.stream());
        let flag = unpooled(&setting, &[0_u32]);
        waiting
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        setting.write_value(&flag, 0, 1_u32).unwrap();
        drop(flag);
        // This buffer probably gets the same memory.
        let next = DeviceBuffer::from_host(&setting, &[9_u32]).unwrap();
        waiting.synchronize().unwrap();
        assert_eq!(next.to_vec().unwrap(), [9]);
    }
}

#[test]
fn stream_may_wait_for_value_set_by_another_reader() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(COPY, "copy");
        for flags in [StreamFlags::NON_BLOCKING, StreamFlags::empty()] {
            let stream = || Stream::new(&fixture.context, flags, 0).unwrap();
            let (first, second) = (stream(), stream());
            let source = filled(&first, N, 7);
            let mut result = filled(&second, N, 0);
            let flag = unpooled(&second, &[0_u32]);
            first
                .wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
                .unwrap();
            let args = (&source, &mut result, N);
            // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
            unsafe { second.launch(&kernel, LaunchConfig::for_num_elems(N).unwrap(), args) }
                .unwrap();
            second.write_value(&flag, 0, 1_u32).unwrap();
            assert_all(&result, 7, &fixture.name);
            first.synchronize().unwrap();
        }
    }
}
