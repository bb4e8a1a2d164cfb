//! The number of driver calls that frequent operations make.
//!
//! Each test counts the calls on the software device, whose counter no code of this crate reads.

use std::collections::BTreeMap;

use cuda_driver::event::Fence;
use cuda_driver::launch::Using;
use cuda_driver::memory::{GrowableBuffer, PinnedFlags, Unpooled};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, MIX, filled, has_virtual_memory, late, new_stream, software};

/// Runs `work` and returns the calls that it made, with their numbers.
fn calls_of(fixture: &Fixture, work: impl FnOnce()) -> BTreeMap<&'static str, u64> {
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    work();
    simulator
        .calls()
        .into_iter()
        .filter(|call| call.1 > 0)
        .collect()
}

/// Fails unless `work` makes exactly these calls.
#[track_caller]
fn expect_calls(fixture: &Fixture, expected: &[(&'static str, u64)], work: impl FnOnce()) {
    let expected: BTreeMap<_, _> = expected.iter().copied().collect();
    assert_eq!(calls_of(fixture, work), expected);
}

/// Returns a software device, whose context is current on this thread until the test ends.
fn bound() -> Fixture {
    let fixture = software(Builder::new());
    fixture.context.bind_thread().unwrap();
    fixture
}

const COPY: (&str, u64) = ("cuMemcpyDtoDAsync_v2", 1);

#[test]
fn raw_copies_leave_other_copies_at_one_call() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mut to = filled(&stream, 100, 0);
    let from = filled(&stream, 100, 7);
    expect_calls(&fixture, &[COPY], || to.copy_from(&from).unwrap());
    let (target, source) = (to.as_raw(), from.as_raw());
    let calls = calls_of(&fixture, || {
        // SAFETY: both buffers have 400 bytes, and are declared.
        unsafe { stream.copy_raw(target, source, 400, (&mut to, &from)) }.unwrap();
    });
    // The addresses may be of mapped memory, so the raw copy itself needs a current context.
    assert_eq!(calls.get("cuCtxPushCurrent_v2"), Some(&1), "{calls:?}");
    expect_calls(&fixture, &[COPY], || to.copy_from(&from).unwrap());
    let size = 100;
    // SAFETY: the memory belongs to `from`, which is only read and outlives the buffer.
    let foreign = unsafe { DeviceBuffer::<u32>::from_foreign(&stream, source, size, ()) }.unwrap();
    expect_calls(&fixture, &[COPY], || to.copy_from(&from).unwrap());
    let calls = calls_of(&fixture, || to.copy_from(&foreign).unwrap());
    assert_eq!(calls.get("cuCtxPushCurrent_v2"), Some(&1), "{calls:?}");
}

#[test]
fn growable_buffers_leave_other_copies_at_one_call() {
    let fixture = software(Builder::new());
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let stream = fixture.stream();
    let mut grown = GrowableBuffer::<u32>::new(&stream, 1000).unwrap();
    grown.grow_to(100).unwrap();
    let mut to = filled(&stream, 100, 0);
    let from = filled(&stream, 100, 7);
    expect_calls(&fixture, &[COPY], || to.copy_from(&from).unwrap());
    let calls = calls_of(&fixture, || {
        let mut part = grown.slice_mut(..100).unwrap();
        part.copy_from(&from).unwrap();
    });
    assert_eq!(calls.get("cuCtxPushCurrent_v2"), Some(&1), "{calls:?}");
}

#[test]
fn frequent_operations_make_few_calls() {
    let fixture = bound();
    let context = &fixture.context;
    let (one, two) = (fixture.stream(), fixture.stream());
    let kernel = fixture.kernel(MIX, "mix");
    let mut pinned = PinnedBuffer::from_host(context, &[3_u32; 256], PinnedFlags::DEFAULT).unwrap();
    // The first fence and the first copy create what later ones use again.
    drop([one.fence().unwrap(), two.fence().unwrap()]);
    let config = LaunchConfig::for_num_elems(256).unwrap();
    let mut all = [&one, &two].map(|stream| [1, 5, 9].map(|value| filled(stream, 256, value)));
    for _ in 0..2 {
        for (stream, [x, y, z]) in [&one, &two].into_iter().zip(&mut all) {
            // Three buffers, one of which the kernel does not access.
            let args = Using::new((x, &*y, 256_u32), (&*z,));
            expect_calls(&fixture, &[("cuLaunchKernel", 1)], || {
                // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 256 words.
                unsafe { stream.launch(&kernel, config, args) }.unwrap();
            });
        }
    }
    one.synchronize().unwrap();
    two.synchronize().unwrap();
    let [[mut x, _y, _z], _] = all;
    let (to, from) = (x.as_raw(), pinned.as_ptr().expose_provenance() as u64);
    let write = calls_of(&fixture, || {
        // SAFETY: both sides have 1 KiB; the test waits for the copy before it uses `pinned`.
        unsafe { one.copy_raw(to, from, 1024, (&mut x,)) }.unwrap();
    });
    assert!(write.values().sum::<u64>() <= 2, "{write:?}");
    one.synchronize().unwrap();
    let back = pinned.as_mut_ptr().expose_provenance() as u64;
    let read = calls_of(&fixture, || {
        // SAFETY: both sides have 1 KiB; the fence is waited for before `pinned` is used.
        unsafe { one.copy_raw(back, to, 1024, (&x,)) }.unwrap();
        one.fence().unwrap().synchronize().unwrap();
    });
    assert!(read.values().sum::<u64>() <= 4, "{read:?}");
    assert_eq!(*pinned, [3; 256]);
    expect_calls(
        &fixture,
        &[("cuEventRecord", 1), ("cuStreamWaitEvent", 1)],
        || {
            two.wait_fence(&one.fence().unwrap()).unwrap();
        },
    );
    expect_calls(
        &fixture,
        &[("cuEventRecord", 1), ("cuEventSynchronize", 1)],
        || {
            one.fence().unwrap().synchronize().unwrap();
        },
    );
    expect_calls(&fixture, &[("cuStreamSynchronize", 1)], || {
        one.synchronize().unwrap()
    });
}

#[test]
fn bound_threads_only_query_the_current_context() {
    let fixture = bound();
    let calls = calls_of(&fixture, || {
        drop(PinnedBuffer::<u8>::zeroed(&fixture.context, 100, PinnedFlags::DEFAULT).unwrap());
    });
    assert_eq!(calls.get("cuCtxGetCurrent"), Some(&1), "{calls:?}");
    assert!(!calls.contains_key("cuCtxPushCurrent_v2"), "{calls:?}");
    assert!(!calls.contains_key("cuCtxPopCurrent_v2"), "{calls:?}");
}

#[test]
fn events_are_destroyed_with_one_call() {
    let fixture = software(Builder::new());
    let event = fixture
        .stream()
        .record_event_with(EventFlags::DISABLE_TIMING)
        .unwrap();
    expect_calls(&fixture, &[("cuEventDestroy_v2", 1)], || drop(event));
}

#[test]
fn frees_exchange_the_mode_while_captures_are_expected() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let free = ("cuMemFreeAsync", 1);
    let exchange = ("cuThreadExchangeStreamCaptureMode", 2);
    let buffer = filled(&stream, 100, 0);
    expect_calls(&fixture, &[free, exchange], || drop(buffer));
    let buffer = filled(&stream, 100, 0);
    fixture.context.driver().expect_foreign_captures(false);
    expect_calls(&fixture, &[free], || drop(buffer));
    // Without pools the host waits, in the same mode.
    let buffer = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 100).unwrap();
    let calls = calls_of(&fixture, || drop(buffer));
    assert!(!calls.contains_key(exchange.0), "{calls:?}");
}

#[test]
fn fences_order_streams_and_threads() {
    for seed in 0..4 {
        let fixture = software(late(seed));
        let (one, two) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(MIX, "mix");
        let (x, y) = (filled(&one, 64, 1), filled(&one, 64, 5));
        one.synchronize().unwrap();
        let config = LaunchConfig::for_num_elems(64).unwrap();
        let (to, from) = (x.as_raw(), y.as_raw());
        // The crate does not know these addresses, so only the fences order the launches.
        let launch = |stream: &Stream| {
            // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 64 words. The caller orders
            // the launches.
            unsafe { stream.launch(&kernel, config, (to, from, 64_u32)) }.unwrap();
        };
        for round in 0..8 {
            let streams = if round % 2 == 0 {
                [&one, &two]
            } else {
                [&two, &one]
            };
            launch(streams[0]);
            let fence: Fence = streams[0].fence().unwrap();
            let again = fence.clone();
            streams[1].wait_fence(&fence).unwrap();
            drop(fence);
            launch(streams[1]);
            let fence = streams[1].fence().unwrap();
            std::thread::spawn(move || fence.synchronize().unwrap())
                .join()
                .unwrap();
            assert!(again.is_done().unwrap());
            again.completion().wait().unwrap();
        }
        // 16 times `x = 2 * x + 5`, from 1.
        let expected = (0..16).fold(1, |x, _| 2 * x + 5);
        assert_eq!(x.to_vec().unwrap(), [expected; 64], "seed {seed}");
    }
}

#[test]
fn unwaited_streams_do_not_wait_for_fences() {
    let fixture = software(late(1));
    let (one, two) = (fixture.stream(), new_stream(&fixture.context));
    let sender = crate::support::block(&one);
    let fence = one.fence().unwrap();
    assert!(!fence.is_done().unwrap());
    two.synchronize().unwrap();
    assert!(!fence.is_done().unwrap());
    drop(sender);
    fence.synchronize().unwrap();
    assert!(fence.is_done().unwrap());
}

#[test]
fn fences_of_other_drivers_are_refused() {
    let (here, there) = (software(Builder::new()), software(Builder::new()));
    let fence = there.stream().fence().unwrap();
    let error = here.stream().wait_fence(&fence).unwrap_err();
    assert!(
        matches!(error, cuda_driver::Error::OtherContext { .. }),
        "{error:?}"
    );
}
