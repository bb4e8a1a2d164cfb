//! The late schedule: unordered operations are observed in different orders, ordered ones never
//! are, and a seed reproduces a schedule.

use std::collections::BTreeSet;

use crate::support::{Bench, bench, late, ok};

/// Writes to the same word from four streams, and returns the last writer.
fn race(bench: &Bench) -> u32 {
    let word = bench.upload(&[0_u32]);
    let streams: Vec<_> = (0..4).map(|_| bench.stream(1)).collect();
    for (number, &stream) in (1..).zip(&streams) {
        unsafe { ok(bench.cuMemsetD32Async(word, number, 1, stream)) };
    }
    ok(bench.sync());
    bench.download::<u32>(word, 1)[0]
}

#[test]
fn a_race_has_every_outcome() {
    let outcomes: BTreeSet<u32> = (0..64).map(|seed| race(&bench(late(seed)))).collect();
    assert_eq!(outcomes, BTreeSet::from([1, 2, 3, 4]));
}

#[test]
fn a_seed_repeats_its_order() {
    for seed in 0..16 {
        let runs: Vec<Vec<u32>> = (0..3)
            .map(|_| {
                let bench = bench(late(seed));
                (0..8).map(|_| race(&bench)).collect()
            })
            .collect();
        assert_eq!(runs[0], runs[1], "seed {seed}");
        assert_eq!(runs[0], runs[2], "seed {seed}");
    }
}

#[test]
fn nothing_runs_until_somebody_waits() {
    let bench = bench(late(9));
    let (one, two) = (bench.stream(1), bench.stream(1));
    let word = bench.pinned(4).cast::<u32>();
    unsafe { word.write(5) };
    let source = bench.upload(&[6_u32]);
    for stream in [one, two] {
        unsafe { ok(bench.cuMemcpyDtoHAsync_v2(word.cast(), source, 4, stream)) };
    }
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(bench.simulator.pending(), 2);
    assert_eq!(unsafe { word.read_volatile() }, 5);
    unsafe { ok(bench.cuStreamSynchronize(one)) };
    assert_eq!(unsafe { word.read_volatile() }, 6);
    ok(bench.sync());
    assert_eq!(bench.simulator.pending(), 0);
}

#[test]
fn waits_that_are_over_are_as_many_as_one_likes() {
    let bench = bench(late(3));
    let (word, stream) = (bench.upload(&[1_u32]), bench.stream(1));
    for _ in 0..10_000 {
        unsafe { ok(bench.cuStreamWaitValue32_v2(stream, word, 0, 0)) };
    }
    unsafe { ok(bench.cuMemsetD32Async(word, 2, 1, stream)) };
    unsafe { ok(bench.cuStreamSynchronize(stream)) };
    assert_eq!(bench.download::<u32>(word, 1), [2]);
}

#[test]
fn a_wait_does_not_always_run_the_rest() {
    let left: BTreeSet<usize> = (0..32)
        .map(|seed| {
            let bench = bench(late(seed));
            let (one, two) = (bench.stream(1), bench.stream(1));
            let addr = bench.alloc(64);
            for _ in 0..4 {
                unsafe { ok(bench.cuMemsetD8Async(addr, 1, 16, two)) };
            }
            unsafe {
                ok(bench.cuMemsetD8Async(addr + 32, 1, 16, one));
                ok(bench.cuStreamSynchronize(one));
            }
            bench.simulator.pending()
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
        let bench = bench(late(seed));
        let (one, two) = (bench.stream(1), bench.stream(1));
        let data = bench.upload(&[0_u32]);
        let out = bench.pinned(4);
        unsafe {
            ok(bench.cuMemsetD32Async(data, 1, 1, one));
            ok(bench.cuMemcpyDtoHAsync_v2(out.cast(), data, 4, two));
            ok(bench.cuStreamSynchronize(two));
            out.cast::<u32>().read() == 0
        }
    });
    assert!(stale.count() > 8);
}

#[test]
fn chains_over_streams_keep_their_order() {
    for seed in 0..50 {
        let bench = bench(late(seed));
        let streams: Vec<_> = (0..3).map(|_| bench.stream(1)).collect();
        let cells = bench.upload(&[0_u32; 32]);
        let event = bench.event(2);
        unsafe { ok(bench.cuMemsetD32Async(cells, 7, 1, streams[0])) };
        for step in 1..32_u64 {
            let (from, to) = (streams[(step as usize - 1) % 3], streams[step as usize % 3]);
            unsafe {
                ok(bench.cuEventRecord(event, from));
                ok(bench.cuStreamWaitEvent(to, event, 0));
                ok(bench.cuMemcpyDtoDAsync_v2(cells + 4 * step, cells + 4 * step - 4, 4, to));
            }
        }
        unsafe { ok(bench.cuStreamSynchronize(streams[31 % 3])) };
        assert_eq!(bench.download::<u32>(cells, 32), [7; 32], "seed {seed}");
    }
}
