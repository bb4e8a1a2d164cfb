//! The late schedule: unordered operations are observed in different orders, ordered ones never
//! are, and a seed reproduces a schedule.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{TestDevice, late, ok, test_device};

/// Writes to the same word from four streams, and returns the last writer.
fn race(sim: &TestDevice) -> u32 {
    let word = sim.upload(&[0_u32]);
    let streams: Vec<_> = (0..4).map(|_| sim.stream(1)).collect();
    for (number, &stream) in (1..).zip(&streams) {
        unsafe { ok(sim.cuMemsetD32Async(word, number, 1, stream)) };
    }
    ok(sim.sync());
    sim.download::<u32>(word, 1)[0]
}

#[test]
fn a_race_has_every_outcome() {
    let outcomes: BTreeSet<u32> = (0..64).map(|seed| race(&test_device(late(seed)))).collect();
    assert_eq!(outcomes, BTreeSet::from([1, 2, 3, 4]));
}

#[test]
fn a_seed_repeats_its_order() {
    for seed in 0..16 {
        let runs: Vec<Vec<u32>> = (0..3)
            .map(|_| {
                let sim = test_device(late(seed));
                (0..8).map(|_| race(&sim)).collect()
            })
            .collect();
        assert_eq!(runs[0], runs[1], "seed {seed}");
        assert_eq!(runs[0], runs[2], "seed {seed}");
    }
}

#[test]
fn queued_work_runs_only_when_waited_for() {
    let sim = test_device(late(9));
    let (one, two) = (sim.stream(1), sim.stream(1));
    let word = sim.pinned(4).cast::<u32>();
    unsafe { word.write(5) };
    let source = sim.upload(&[6_u32]);
    for stream in [one, two] {
        unsafe { ok(sim.cuMemcpyDtoHAsync_v2(word.cast(), source, 4, stream)) };
    }
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(sim.simulator.pending(), 2);
    assert_eq!(unsafe { word.read_volatile() }, 5);
    unsafe { ok(sim.cuStreamSynchronize(one)) };
    assert_eq!(unsafe { word.read_volatile() }, 6);
    ok(sim.sync());
    assert_eq!(sim.simulator.pending(), 0);
}

#[test]
fn completed_waits_are_not_limited_in_number() {
    let sim = test_device(late(3));
    let (word, stream) = (sim.upload(&[1_u32]), sim.stream(1));
    for _ in 0..10_000 {
        unsafe { ok(sim.cuStreamWaitValue32_v2(stream, word, 0, 0)) };
    }
    unsafe { ok(sim.cuMemsetD32Async(word, 2, 1, stream)) };
    unsafe { ok(sim.cuStreamSynchronize(stream)) };
    assert_eq!(sim.download::<u32>(word, 1), [2]);
}

#[test]
fn a_wait_may_leave_unrelated_work_queued() {
    let left: BTreeSet<usize> = (0..32)
        .map(|seed| {
            let sim = test_device(late(seed));
            let (one, two) = (sim.stream(1), sim.stream(1));
            let addr = sim.alloc(64);
            for _ in 0..4 {
                unsafe { ok(sim.cuMemsetD8Async(addr, 1, 16, two)) };
            }
            unsafe {
                ok(sim.cuMemsetD8Async(addr + 32, 1, 16, one));
                ok(sim.cuStreamSynchronize(one));
            }
            sim.simulator.pending()
        })
        .collect();
    assert!(
        left.contains(&4),
        "no wait runs only the work that it needs: {left:?}"
    );
    assert!(
        left.len() >= 3,
        "no wait runs more work than it needs: {left:?}"
    );
}

#[test]
fn a_missing_wait_is_found() {
    // The second stream reads a word that the first one writes, without a dependency: some seed
    // shows it.
    let stale = (0..32).filter(|&seed| {
        let sim = test_device(late(seed));
        let (one, two) = (sim.stream(1), sim.stream(1));
        let data = sim.upload(&[0_u32]);
        let out = sim.pinned(4);
        unsafe {
            ok(sim.cuMemsetD32Async(data, 1, 1, one));
            ok(sim.cuMemcpyDtoHAsync_v2(out.cast(), data, 4, two));
            ok(sim.cuStreamSynchronize(two));
            out.cast::<u32>().read() == 0
        }
    });
    assert!(stale.count() > 8);
}

/// Blocks until a message arrives or its sender is dropped, but at most 5 seconds.
unsafe extern "C" fn block(gate: *mut c_void) {
    // SAFETY: the pointer is to the receiver that the test leaked.
    let gate = unsafe { &*gate.cast::<mpsc::Receiver<()>>() };
    let _ = gate.recv_timeout(Duration::from_secs(5));
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

#[test]
fn a_blocked_host_function_blocks_no_other_stream() {
    for seed in 0..24 {
        let sim = test_device(late(seed));
        let (blocked, beside, working) = (sim.stream(1), sim.stream(1), sim.stream(1));
        let word = sim.upload(&[1_u32]);
        let (open, gate) = mpsc::channel::<()>();
        let gate = Box::into_raw(Box::new(gate));
        unsafe {
            ok(sim.cuLaunchHostFunc(blocked, Some(block), gate.cast()));
            ok(sim.cuLaunchHostFunc(beside, Some(nothing), ptr::null_mut()));
        }
        let start = Instant::now();
        for value in 2..10 {
            unsafe {
                ok(sim.cuMemsetD32Async(word, value, 1, working));
                ok(sim.cuStreamSynchronize(working));
            }
        }
        assert!(start.elapsed() < Duration::from_secs(4), "seed {seed}");
        drop(open);
        ok(sim.sync());
        assert_eq!(sim.download::<u32>(word, 1), [9]);
        // SAFETY: the host function has ended, so nothing else uses the receiver.
        drop(unsafe { Box::from_raw(gate) });
    }
}

#[test]
fn chains_over_streams_keep_their_order() {
    for seed in 0..50 {
        let sim = test_device(late(seed));
        let streams: Vec<_> = (0..3).map(|_| sim.stream(1)).collect();
        let cells = sim.upload(&[0_u32; 32]);
        let event = sim.event(2);
        unsafe { ok(sim.cuMemsetD32Async(cells, 7, 1, streams[0])) };
        for step in 1..32_u64 {
            let (from, to) = (streams[(step as usize - 1) % 3], streams[step as usize % 3]);
            unsafe {
                ok(sim.cuEventRecord(event, from));
                ok(sim.cuStreamWaitEvent(to, event, 0));
                ok(sim.cuMemcpyDtoDAsync_v2(cells + 4 * step, cells + 4 * step - 4, 4, to));
            }
        }
        unsafe { ok(sim.cuStreamSynchronize(streams[31 % 3])) };
        assert_eq!(sim.download::<u32>(cells, 32), [7; 32], "seed {seed}");
    }
}
