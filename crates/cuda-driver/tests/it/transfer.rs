//! Transfers: copies of page-locked memory that continue after the call has returned.

use std::future::Future;
use std::ops::Bound;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use cuda_driver::error::{Error, RangeError, Status};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{MIX, block, everywhere, late, software};
use crate::task::{Count, block_on, until};

const N: usize = 10_000;
const SECOND: Duration = Duration::from_secs(1);

fn pinned(context: &Context, value: u32) -> PinnedBuffer<u32> {
    PinnedBuffer::from_host(context, &vec![value; N], PinnedFlags::empty()).unwrap()
}

#[test]
fn a_completed_transfer_returns_the_memory() {
    for fixture in everywhere() {
        let (owner, copying) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(MIX, "mix");
        let mut x = DeviceBuffer::<u32>::zeroed(&owner, N).unwrap();
        let up = x
            .copy_from_pinned_async(pinned(&fixture.context, 5), &copying)
            .unwrap();
        let y = DeviceBuffer::from_host(&owner, &vec![3_u32; N]).unwrap();
        let (config, n) = (LaunchConfig::for_num_elems(N as u32).unwrap(), N as u32);
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { owner.launch(&kernel, config, (&mut x, &y, n)) }.unwrap();
        let source = up.wait().unwrap();
        assert!(source.iter().all(|&word| word == 5));
        let down = x.copy_to_pinned_async(source, &copying).unwrap();
        let result = block_on(down, 10 * SECOND).unwrap();
        assert!(result.iter().all(|&word| word == 13), "{}", fixture.name);
        // Registered memory and views work as well, and the buffer may be dropped at once.
        let registered =
            RegisteredBuffer::from_vec(&fixture.context, vec![0_u32; 10], RegisterFlags::empty());
        let view = x.slice(5..15).unwrap();
        let down = view.copy_to_pinned_async(registered.unwrap(), &copying);
        let down = down.unwrap();
        drop(x);
        let next = DeviceBuffer::from_host(&owner, &vec![77_u32; N]).unwrap();
        assert_eq!(down.wait().unwrap().into_vec().unwrap(), [13; 10]);
        assert_eq!(next.to_vec().unwrap(), vec![77; N]);
    }
}

#[test]
fn empty_transfers_make_no_driver_calls() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let empty = || PinnedBuffer::<u32>::zeroed(&fixture.context, 0, PinnedFlags::empty()).unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
    simulator.reset_calls();
    let up = buffer.copy_from_pinned_async(empty(), &stream).unwrap();
    assert!(up.is_done().unwrap());
    up.wait().unwrap();
    let down = buffer.copy_to_pinned_async(empty(), &stream).unwrap();
    block_on(down, SECOND).unwrap();
    drop(buffer.copy_to_pinned_async(empty(), &stream).unwrap());
    assert_eq!(simulator.calls().values().sum::<u64>(), 0);
}

#[test]
fn dropped_transfer_frees_after_its_copy_without_waiting() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
        // Staging blocks are whole pages, so the remainder counts other memory.
        let live = || {
            let simulator = fixture.simulator.as_ref();
            simulator.map_or(0, |it| it.live().host_bytes % 4096)
        };
        assert_eq!(live(), 0);
        let open = block(&stream);
        let up = buffer
            .copy_from_pinned_async(pinned(&fixture.context, 9), &stream)
            .unwrap();
        assert!(!up.is_done().unwrap());
        drop(up);
        if fixture.simulator.is_some() {
            assert_eq!(live(), (N * 4) as u64 % 4096);
        }
        open.send(()).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vec![9; N], "{}", fixture.name);
        until("the memory is freed", 4 * SECOND, || live() == 0);
    }
}

#[test]
fn a_polled_transfer_may_be_dropped_or_waited_for() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
        let open = block(&stream);
        let mut start = |value| -> Transfer<_> {
            let memory = pinned(&fixture.context, value);
            buffer.copy_from_pinned_async(memory, &stream).unwrap()
        };
        let (mut dropped, mut kept) = (start(1), start(2));
        let waker = Waker::from(Arc::<Count>::default());
        for transfer in [&mut dropped, &mut kept] {
            let poll = Pin::new(transfer).poll(&mut TaskContext::from_waker(&waker));
            assert!(poll.is_pending());
        }
        drop(dropped);
        open.send(()).unwrap();
        let memory = block_on(&mut kept, 10 * SECOND).unwrap();
        assert_eq!(memory[N - 1], 2);
        let again = block_on(&mut kept, SECOND).unwrap_err();
        assert!(matches!(again.error(), Error::AlreadyTaken { .. }));
        assert_eq!(buffer.to_vec().unwrap(), vec![2; N]);
    }
}

#[test]
fn a_transfer_that_cannot_start_returns_the_memory() {
    let fixture = software(late(1));
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
    let other = software(Builder::new());
    let short = PinnedBuffer::<u32>::zeroed(&fixture.context, 3, PinnedFlags::empty()).unwrap();
    let error = buffer.copy_from_pinned_async(short, &stream).unwrap_err();
    assert_eq!(
        *error.error(),
        Error::LengthMismatch {
            source_len: 3,
            destination_len: N
        }
    );
    assert_eq!(error.into_memory().unwrap().len(), 3);
    let foreign = pinned(&other.context, 1);
    let error = buffer.copy_to_pinned_async(foreign, &stream).unwrap_err();
    assert!(matches!(error.error(), Error::OtherContext { .. }));
    let elsewhere = other.stream();
    let own = pinned(&fixture.context, 1);
    let error = buffer.copy_to_pinned_async(own, &elsewhere).unwrap_err();
    assert!(matches!(error.error(), Error::OtherContext { .. }));
    let rule = Rule::new(Status::CUDA_ERROR_INVALID_VALUE).function("cuMemcpyHtoDAsync_v2");
    simulator.add_rule(rule);
    let own = error.into_memory().unwrap();
    let error = buffer.copy_from_pinned_async(own, &stream).unwrap_err();
    assert_eq!(error.into_memory().unwrap()[0], 1);
    simulator.clear_rules();
    // No event was recorded, so the stream was waited for.
    let rule = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function("cuEventRecord");
    simulator.add_rule(rule);
    let up = buffer.copy_from_pinned_async(pinned(&fixture.context, 4), &stream);
    let up = up.unwrap();
    assert!(up.is_done().unwrap());
    up.wait().unwrap();
    simulator.clear_rules();
    assert_eq!(buffer.to_vec().unwrap(), vec![4; N]);
}

#[test]
fn memory_of_a_transfer_that_a_lost_device_ended_is_never_freed() {
    for builder in [Builder::new(), late(2)] {
        let fixture = software(builder);
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
        let before = simulator.live().host_allocations;
        let _open = block(&stream);
        let mut start = || {
            let memory = pinned(&fixture.context, 1);
            buffer.copy_from_pinned_async(memory, &stream).unwrap()
        };
        let (waited, awaited, dropped) = (start(), start(), start());
        simulator.lose_device(0, Status::CUDA_ERROR_LAUNCH_FAILED);
        drop(dropped);
        let lost = Some(Status::CUDA_ERROR_LAUNCH_FAILED);
        let error = waited.wait().unwrap_err();
        assert_eq!(error.error().status(), lost);
        assert!(error.to_string().contains("stays allocated"), "{error}");
        assert!(error.into_memory().is_none());
        let error = block_on(awaited, SECOND).unwrap_err();
        assert_eq!(error.error().status(), lost);
        assert!(error.into_memory().is_none());
        std::thread::sleep(SECOND / 4);
        assert_eq!(simulator.live().host_allocations, before + 3);
    }
}

#[test]
fn a_scope_waits_for_its_copies_even_if_it_panics() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N).unwrap();
        let (up, mut down) = (pinned(&fixture.context, 6), pinned(&fixture.context, 0));
        let mut part = pinned(&fixture.context, 1);
        let is_same_stream = stream
            .copy_scope(|scope| {
                let mut view = buffer.as_mut_slice();
                scope.copy_from_host(&mut view, &up)?;
                scope.copy_to_host(view.as_slice(), &mut down)?;
                let few = view.as_slice().slice(..10).unwrap();
                scope.copy_to_host_part(few, &mut part, 5..15)?;
                Ok(scope.stream() == &stream)
            })
            .unwrap();
        assert!(is_same_stream);
        assert!(down.iter().all(|&word| word == 6), "{}", fixture.name);
        assert_eq!(part[..20], [&[1; 5][..], &[6; 10], &[1; 5]].concat());
        buffer.copy_from_host(&vec![8; N]).unwrap();
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
            stream.copy_scope(|scope| -> cuda_driver::Result<()> {
                scope.copy_to_host(buffer.as_slice(), &mut down)?;
                panic::resume_unwind(Box::new("on purpose"));
            })
        }));
        assert!(panicked.is_err());
        assert!(down.iter().all(|&word| word == 8), "{}", fixture.name);
        let error =
            stream.copy_scope(|scope| scope.copy_to_host_part(buffer.as_slice(), &mut down, 1..));
        let mismatch = Error::LengthMismatch {
            source_len: N,
            destination_len: N - 1,
        };
        assert_eq!(error, Err(mismatch));
        let range =
            stream.copy_scope(|scope| scope.copy_to_host_part(buffer.as_slice(), &mut down, ..=N));
        let beyond = RangeError::Range {
            range: (Bound::Unbounded, Bound::Included(N)),
            len: N,
            what: "elements",
        };
        assert_eq!(range, Err(beyond.into()));
    }
}

#[test]
fn scope_without_copies_makes_no_driver_calls() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    simulator.reset_calls();
    assert_eq!(stream.copy_scope(|_| Ok(5)), Ok(5));
    assert_eq!(simulator.calls().values().sum::<u64>(), 0);
}
