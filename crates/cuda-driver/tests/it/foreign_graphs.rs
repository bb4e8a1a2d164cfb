//! Work of other code on memory that graphs and aliases use as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_driver::{DeviceSliceMut, Result};

use crate::foreign::{N, raw_copy};
use crate::support::{Fixture, assert_all, everywhere, filled, late_devices};

/// The time in which a call that does not wait has returned.
const SHORT: Duration = Duration::from_millis(30);

/// Returns an executable graph that fills `buffer` with `value`.
fn fills(fixture: &Fixture, buffer: &mut DeviceBuffer<u32>, value: u32) -> GraphExec {
    let mut graph = Graph::new(&fixture.context).unwrap();
    graph.add_fill(&[], buffer, value).unwrap();
    graph.instantiate().unwrap()
}

/// Returns an executable graph that copies `from` to `to`.
fn copies(fixture: &Fixture, from: &DeviceBuffer<u32>, to: &mut DeviceBuffer<u32>) -> GraphExec {
    let mut graph = Graph::new(&fixture.context).unwrap();
    graph.add_copy(&[], to, from).unwrap();
    graph.instantiate().unwrap()
}

/// Calls `then` in a closure of `using`.
fn inside<R>(
    stream: &Stream,
    uses: impl cuda_driver::launch::KernelArgs,
    then: impl FnOnce() -> R,
) -> R {
    // SAFETY: the closures queue work only by calls of this crate, which order it themselves.
    unsafe { stream.using(uses, |_| then()) }.unwrap()
}

#[test]
fn work_of_other_code_is_ordered_with_replays() {
    for fixture in late_devices(32) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut source = filled(&one, N, 0);
        let mut target = filled(&two, N, 0);
        let before = fills(&fixture, &mut source, 1);
        let after = fills(&fixture, &mut source, 2);
        let mut last = filled(&one, N, 0);
        let result = copies(&fixture, &target, &mut last);
        before.launch(&one).unwrap();
        raw_copy(&two, &source, &mut target).unwrap();
        after.launch(&one).unwrap();
        result.launch(&one).unwrap();
        // The write waits for the last replay, and the next replay for the write.
        raw_copy(&two, &source, &mut target).unwrap();
        assert_all(&last, 1, &fixture.name);
        assert_all(&target, 2, &fixture.name);
        result.launch(&one).unwrap();
        assert_all(&last, 2, &fixture.name);
    }
}

#[test]
fn a_replay_on_another_thread_waits_for_the_closure() {
    for fixture in late_devices(8) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut source = filled(&one, N, 1);
        let mut target = filled(&two, N, 0);
        let exec = fills(&fixture, &mut source, 2);
        let is_launched = AtomicBool::new(false);
        let begun = Barrier::new(2);
        let table = fixture.context.driver().library().clone();
        let (from, to) = (source.as_raw(), target.as_raw());
        thread::scope(|scope| {
            scope.spawn(|| {
                begun.wait();
                exec.launch(&one).unwrap();
                is_launched.store(true, Ordering::SeqCst);
            });
            let copy = |raw| {
                begun.wait();
                thread::sleep(SHORT);
                assert!(!is_launched.load(Ordering::SeqCst), "{}", fixture.name);
                // SAFETY: both ranges have N words, which the stream may use meanwhile.
                unsafe { table.cuMemcpyDtoDAsync_v2(to, from, 4 * N as usize, raw) }
            };
            // SAFETY: the copy is queued on the stream, reads `source` and writes `target`.
            let status = unsafe { two.using((&source, &mut target), copy) }.unwrap();
            assert_eq!(status, Status::CUDA_SUCCESS);
        });
        assert!(is_launched.into_inner());
        assert_all(&target, 1, &fixture.name);
        assert_all(&source, 2, &fixture.name);
    }
}

#[test]
fn a_replay_inside_the_closure_is_an_error_if_it_conflicts() {
    for fixture in everywhere() {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut read = filled(&one, N, 1);
        let mut written = filled(&one, N, 1);
        let mut other = filled(&one, N, 1);
        let writes = fills(&fixture, &mut read, 2);
        let reads = copies(&fixture, &read, &mut other);
        let of_written = copies(&fixture, &written, &mut other);
        inside(&two, (&read, &mut written), || {
            assert_eq!(writes.launch(&one).unwrap_err(), Error::UsedByOtherCode);
            assert_eq!(of_written.launch(&one).unwrap_err(), Error::UsedByOtherCode);
            // Both only read.
            reads.launch(&one).unwrap();
            assert_all(&read, 1, &fixture.name);
            assert_all(&filled(&two, N, 6), 6, &fixture.name);
        });
        writes.launch(&one).unwrap();
        of_written.launch(&one).unwrap();
        assert_all(&read, 2, &fixture.name);
    }
}

/// Returns a writable alias of the words.
fn alias(buffer: &DeviceBuffer<u32>) -> DeviceSliceMut<'_, u32> {
    // SAFETY: each call receives one view of the words, whose aliases were allowed before, and no
    // code relies on unchanged words.
    unsafe { buffer.alias_mut() }.unwrap()
}

#[test]
fn aliases_wait_for_the_closure_or_are_refused_in_it() {
    for fixture in late_devices(8) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut shared = filled(&one, N, 1);
        shared.allow_aliases().unwrap();
        let mut target = filled(&two, N, 0);
        let is_filled = AtomicBool::new(false);
        let begun = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                begun.wait();
                alias(&shared).fill(5).unwrap();
                is_filled.store(true, Ordering::SeqCst);
            });
            inside(&two, (&shared, &mut target), || {
                begun.wait();
                thread::sleep(SHORT);
                assert!(!is_filled.load(Ordering::SeqCst), "{}", fixture.name);
                assert_eq!(alias(&shared).fill(3).unwrap_err(), Error::UsedByOtherCode);
                assert_all(&shared, 1, &fixture.name);
            });
        });
        assert_all(&shared, 5, &fixture.name);
        // A closure may write through an alias.
        inside(&two, (alias(&shared),), || {
            assert_eq!(shared.to_vec().unwrap_err(), Error::UsedByOtherCode);
        });
        assert_all(&shared, 5, &fixture.name);
    }
}

#[test]
fn a_panicking_closure_ends_its_uses() {
    for fixture in everywhere() {
        let (one, two) = (fixture.stream(), fixture.stream());
        let mut buffer = filled(&one, N, 1);
        let exec = fills(&fixture, &mut buffer, 2);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            inside(&two, (&mut buffer,), || panic!("in the closure"));
        }));
        assert!(panicked.is_err());
        exec.launch(&one).unwrap();
        assert_all(&buffer, 2, &fixture.name);
    }
}

#[test]
fn two_closures_that_wait_for_each_other_are_an_error() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffers = [0, 0].map(|value| filled(&stream, N, value));
        let execs = [1, 2].map(|value| fills(&fixture, &mut buffers[value as usize - 1], value));
        let both = Barrier::new(2);
        let launch_other = |own: usize| -> Result<()> {
            let stream = fixture.stream();
            inside(&stream, (&buffers[own],), || {
                both.wait();
                let launched = execs[1 - own].launch(&stream);
                both.wait();
                launched
            })
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| launch_other(0));
            assert_eq!(launch_other(1).unwrap_err(), Error::UsedByOtherCode);
            let first = first.join().unwrap();
            assert_eq!(first.unwrap_err(), Error::UsedByOtherCode);
        });
        execs.iter().for_each(|exec| exec.launch(&stream).unwrap());
        assert_all(&buffers[0], 1, &fixture.name);
        assert_all(&buffers[1], 2, &fixture.name);
    }
}
