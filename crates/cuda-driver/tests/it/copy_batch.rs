//! Batches of copies, compared with the same copies of slices.

use std::env;

use cuda_driver::error::Error;
use cuda_driver::memory::{CopyBatch, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};
use cuda_sim::Builder;

use crate::support::{
    Fixture, block, count_calls, everywhere, late, late_devices, older, software,
};

const PAGE: usize = 16;
const PAGES: usize = 24;
const LEN: usize = PAGE * PAGES;

/// Returns whether the tests run at their full size.
pub(crate) fn is_full() -> bool {
    env::var("CUDA_FULL").is_ok_and(|value| value == "1")
}

pub(crate) fn words(len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| i.wrapping_mul(0x9E37_79B9))
        .collect()
}

/// Returns software drivers without batches, with the first revision and with the second one, and
/// the devices of [`everywhere`].
pub(crate) fn revisions() -> impl Iterator<Item = Fixture> {
    let versions = [12_040, 12_080].into_iter();
    versions
        .flat_map(|version| [Builder::new(), late(1), late(2)].map(|it| it.version(version)))
        .map(software)
        .chain(everywhere())
}

/// Returns the pages of `source` in reverse order.
fn reversed(source: &[u32]) -> Vec<u32> {
    source.chunks(PAGE).rev().flatten().copied().collect()
}

#[test]
fn a_batch_copies_each_page() {
    for fixture in revisions() {
        let stream = fixture.stream();
        let source = DeviceBuffer::from_host(&stream, &words(LEN)).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        let mut batch = CopyBatch::with_capacity(PAGES);
        assert!(batch.is_empty());
        let targets = target.as_mut_slice().chunks_mut(PAGE).unwrap();
        let sources: Vec<_> = source.as_slice().chunks(PAGE).unwrap().collect();
        for (to, from) in targets.zip(sources.into_iter().rev()) {
            batch.copy(to, from).unwrap();
        }
        assert_eq!(batch.len(), PAGES);
        assert_eq!(format!("{batch:?}"), "CopyBatch(24 copies, 1536 bytes)");
        batch.queue(&stream).unwrap();
        assert_eq!(
            target.to_vec().unwrap(),
            reversed(&words(LEN)),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_batch_makes_one_call_of_the_newest_revision() {
    let versions = [
        (12_040, "cuMemcpyDtoDAsync_v2", PAGES as u64),
        (12_080, "cuMemcpyBatchAsync", 1),
        (13_000, "cuMemcpyBatchAsync_v2", 1),
    ];
    for (version, call, count) in versions {
        let fixture = software(Builder::new().version(version));
        let stream = fixture.stream();
        let source = DeviceBuffer::from_host(&stream, &words(LEN)).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        let mut batch = CopyBatch::new();
        let targets = target.as_mut_slice().chunks_mut(PAGE).unwrap();
        for (to, from) in targets.zip(source.as_slice().chunks(PAGE).unwrap()) {
            batch.copy(to, from).unwrap();
        }
        let simulator = fixture.simulator.as_ref().unwrap();
        let before = count_calls(simulator, call);
        batch.queue(&stream).unwrap();
        assert_eq!(count_calls(simulator, call) - before, count, "{call}");
        assert_eq!(target.to_vec().unwrap(), words(LEN));
    }
}

#[test]
fn a_batch_is_ordered_with_uses_on_other_streams() {
    for fixture in late_devices(24) {
        let [one, two, three] = [(); 3].map(|()| fixture.stream());
        let mut source = DeviceBuffer::<u32>::zeroed(&one, LEN).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&two, LEN).unwrap();
        // The batch on stream three follows both fills, and the later fills follow the batch.
        source.fill(5).unwrap();
        target.fill(6).unwrap();
        let mut batch = CopyBatch::new();
        let targets = target.as_mut_slice().chunks_mut(2 * PAGE).unwrap();
        let sources = source.as_slice().chunks(2 * PAGE).unwrap();
        for (to, from) in targets.zip(sources).step_by(2) {
            batch.copy(to, from).unwrap();
        }
        batch.queue(&three).unwrap();
        source.fill(7).unwrap();
        let mut last = target.slice_mut(LEN - PAGE..).unwrap();
        last.fill(8).unwrap();
        let mut want: Vec<u32> = (0..LEN).map(|i| 5 + (i / (2 * PAGE) % 2) as u32).collect();
        want[LEN - PAGE..].fill(8);
        assert_eq!(target.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_batch_keeps_its_memory_until_it_has_run() {
    for fixture in everywhere() {
        let [one, two] = [(); 2].map(|()| fixture.stream());
        let source = DeviceBuffer::from_host(&one, &words(LEN)).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&two, LEN).unwrap();
        let open = block(&two);
        let mut batch = CopyBatch::new();
        batch.copy(&mut target, &source).unwrap();
        batch.queue(&two).unwrap();
        drop(source);
        // It may have the memory of the source, once the batch has run.
        let other = DeviceBuffer::filled(&one, LEN, 9_u32).unwrap();
        open.send(()).unwrap();
        assert_eq!(target.to_vec().unwrap(), words(LEN), "{}", fixture.name);
        drop(other);
    }
}

#[test]
fn a_scope_copies_parts_of_pinned_memory_in_a_batch() {
    for fixture in revisions() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        let mut copy = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        let flags = PinnedFlags::DEFAULT;
        let source = PinnedBuffer::from_host(&fixture.context, &words(LEN), flags).unwrap();
        let mut pages = PinnedBuffer::<u32>::zeroed(&fixture.context, LEN, flags).unwrap();
        let mut whole = PinnedBuffer::<u32>::zeroed(&fixture.context, LEN, flags).unwrap();
        let ranges = |page: usize| page * PAGE..(page + 1) * PAGE;
        stream
            .copy_scope(|scope| {
                let mut up = scope.batch();
                let parts = buffer.as_mut_slice().chunks_mut(PAGE)?.enumerate();
                let parts = parts.map(|(page, part)| (part, ranges(PAGES - 1 - page)));
                up.copy_parts_from_host(parts, &source)?;
                up.queue()?;
                let mut down = scope.batch();
                down.on_device().copy(&mut copy, &buffer)?;
                let parts = buffer.as_slice().chunks(PAGE)?.enumerate();
                let parts = parts.map(|(page, part)| (part, ranges(PAGES - 1 - page)));
                down.copy_parts_to_host(parts, &mut pages)?;
                down.copy_to_host(&buffer, &mut whole)?;
                assert!(format!("{down:?}").starts_with("CopyBatch(26 copies"));
                down.queue()
            })
            .unwrap();
        let want = words(LEN);
        assert_eq!(pages[..], want, "{}", fixture.name);
        assert_eq!(whole[..], reversed(&want), "{}", fixture.name);
        assert_eq!(copy.to_vec().unwrap(), reversed(&want), "{}", fixture.name);
        stream
            .copy_scope(|scope| {
                let mut up = scope.batch();
                up.copy_from_host(&mut buffer, &source)?;
                up.queue()
            })
            .unwrap();
        assert_eq!(buffer.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_batch_copies_boxes() {
    for fixture in revisions() {
        let stream = fixture.stream();
        let all = words(7 * 5 * 3);
        let source = PitchedBuffer::from_host(&stream, (7, 5, 3), &all).unwrap();
        let mut target = PitchedBuffer::<u32>::zeroed(&stream, (7, 5, 3)).unwrap();
        let mut batch = CopyBatch::new();
        let to = target.region_mut(0..3, 1..4, 1..3).unwrap();
        batch
            .copy_box(to, source.region(2..5, 2..5, 0..2).unwrap())
            .unwrap();
        assert_eq!(batch.len(), 1);
        batch.queue(&stream).unwrap();
        let at = |x: usize, y: usize, z: usize| (z * 5 + y) * 7 + x;
        let mut want = vec![0; all.len()];
        for (x, y, z) in (0..18).map(|i| (i % 3, i / 3 % 3, i / 9)) {
            want[at(x, y + 1, z + 1)] = all[at(x + 2, y + 2, z)];
        }
        assert_eq!(target.to_vec().unwrap(), want, "{}", fixture.name);

        let flags = PinnedFlags::DEFAULT;
        let mut back = PinnedBuffer::<u32>::zeroed(&fixture.context, 18, flags).unwrap();
        let ones = PinnedBuffer::from_host(&fixture.context, &[1_u32; 7], flags).unwrap();
        stream
            .copy_scope(|scope| {
                let mut batch = scope.batch();
                batch.copy_box_to_host(source.region(2..5, 2..5, 0..2)?, &mut back)?;
                batch.copy_box_from_host(target.region_mut(.., 0..1, 0..1)?, &ones)?;
                batch.queue()
            })
            .unwrap();
        let (mut region, mut row) = (Vec::new(), want.clone());
        region.extend((0..18).map(|i| all[at(i % 3 + 2, i / 3 % 3 + 2, i / 9)]));
        row[..7].fill(1);
        assert_eq!(back[..], region, "{}", fixture.name);
        assert_eq!(target.to_vec().unwrap(), row, "{}", fixture.name);
    }
}

#[test]
fn the_legacy_stream_is_refused() {
    for fixture in revisions() {
        let (stream, legacy) = (fixture.stream(), fixture.context.legacy_stream());
        let source = DeviceBuffer::from_host(&stream, &words(8)).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut batch = CopyBatch::new();
        batch.copy(&mut target, &source).unwrap();
        let error = batch.queue(&legacy).unwrap_err().to_string();
        assert_eq!(
            error,
            "a batch of copies on the legacy stream is not supported; use \
             `Context::default_stream`"
        );
        CopyBatch::new().queue(&legacy).unwrap();
        assert_eq!(target.to_vec().unwrap(), [0; 8]);
    }
}

#[test]
fn the_per_thread_stream_takes_batches() {
    for fixture in revisions() {
        let stream = fixture.context.per_thread_stream();
        let source = DeviceBuffer::from_host(&stream, &words(8)).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut batch = CopyBatch::new();
        batch.copy(&mut target, &source).unwrap();
        batch.queue(&stream).unwrap();
        assert_eq!(target.to_vec().unwrap(), words(8), "{}", fixture.name);
    }
}

#[test]
fn wrong_copies_are_refused_before_the_call() {
    let fixture = software(Builder::new().devices(2));
    let stream = fixture.stream();
    let other = fixture.context.driver().device(1).unwrap();
    let elsewhere = other.primary_context().unwrap().default_stream().unwrap();
    let source = DeviceBuffer::from_host(&stream, &words(8)).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&stream, 9).unwrap();
    let error = CopyBatch::new().copy(&mut target, &source).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let (shape, flags) = (ArrayShape::two_d(4, 2), ArrayFlags::empty());
    let mut array = Array::<u32>::zeroed(&stream, &shape, flags).unwrap();
    let error = CopyBatch::new()
        .copy_array(&mut array, &target)
        .unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    let tall = Array::<u32>::zeroed(&stream, &ArrayShape::two_d(2, 4), flags).unwrap();
    let error = CopyBatch::new().copy_array(&mut array, &tall).unwrap_err();
    assert!(matches!(error, Error::ExtentMismatch { .. }), "{error}");
    let mut batch = CopyBatch::new();
    batch.copy_array(&mut array, &source).unwrap();
    let error = batch.queue(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let mut batch = CopyBatch::new();
    batch.copy(target.slice_mut(..8).unwrap(), &source).unwrap();
    let error = batch.queue(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");

    let mut pages = PinnedBuffer::<u32>::zeroed(&fixture.context, 8, PinnedFlags::DEFAULT).unwrap();
    let result = stream.copy_scope(|scope| {
        let mut batch = scope.batch();
        let part = source.slice(..4)?;
        batch.copy_parts_to_host([(part, 4..8), (part, 1..5)], &mut pages)
    });
    assert_eq!(
        result.unwrap_err().to_string(),
        "the range 4..8 overlaps the range 1..5; the copies of one batch must write different \
         elements: queue the second copy in another batch"
    );
}

/// A random program of batches, single copies and fills on several streams.
fn random_program(fixture: &Fixture, seed: u64) {
    let mut state = seed;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let streams = [(); 3].map(|()| fixture.stream());
    let mut model: Vec<Vec<u32>> = (0..4).map(|_| vec![0; LEN]).collect();
    let zeroed = |index: usize| DeviceBuffer::<u32>::zeroed(&streams[index % 3], LEN).unwrap();
    let mut buffers: Vec<_> = (0..4).map(zeroed).collect();
    for step in 0..20_u32 {
        let stream = &streams[below(3)];
        let to = below(4);
        let from = (to + 1 + below(3)) % 4;
        let mut target = buffers.swap_remove(to);
        let from_now = if from == 3 { to } else { from };
        if below(3) == 0 {
            target.fill_on(step + 1, stream).unwrap();
            model[to].fill(step + 1);
        } else {
            let source = &buffers[if to == 3 { from } else { from_now }];
            let mut batch = CopyBatch::new();
            for (page, part) in target.as_mut_slice().chunks_mut(PAGE).unwrap().enumerate() {
                if below(2) == 0 {
                    let start = below(LEN - PAGE);
                    let range = start..start + PAGE;
                    batch
                        .copy(part, source.slice(range.clone()).unwrap())
                        .unwrap();
                    let words = model[from][range].to_vec();
                    model[to][page * PAGE..(page + 1) * PAGE].copy_from_slice(&words);
                }
            }
            batch.queue(stream).unwrap();
        }
        buffers.push(target);
        let last = buffers.len() - 1;
        buffers.swap(to, last);
    }
    for (buffer, words) in buffers.iter().zip(&model) {
        assert_eq!(&buffer.to_vec().unwrap(), words, "{} {seed}", fixture.name);
    }
}

#[test]
fn random_batches_match_a_model() {
    let count = if is_full() { 20_000 } else { 100 };
    for seed in 0..count {
        let version = [12_040, 12_080, 13_000][seed as usize % 3];
        random_program(&software(late(seed).version(version)), seed);
    }
    if older().is_none() {
        for fixture in everywhere() {
            (0..10).for_each(|seed| random_program(&fixture, seed));
        }
    }
}

#[test]
fn batches_leak_nothing() {
    let fixture = software(late(3));
    let stream = fixture.stream();
    let simulator = fixture.simulator.clone().unwrap();
    stream.synchronize().unwrap();
    let before = simulator.live();
    let cycles = if is_full() { 1_000_000 } else { 1_000 };
    for cycle in 0..cycles {
        let source = DeviceBuffer::filled(&stream, 64, cycle).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, 64).unwrap();
        let mut batch = CopyBatch::new();
        let parts = target.as_mut_slice().chunks_mut(8).unwrap();
        for (to, from) in parts.zip(source.as_slice().chunks(8).unwrap()) {
            batch.copy(to, from).unwrap();
        }
        batch.queue(&stream).unwrap();
        drop(source);
        if cycle % 100 == 0 {
            assert_eq!(target.to_vec().unwrap(), [cycle; 64]);
        }
    }
    // Arrays are slower to create, so there are fewer cycles of them.
    for cycle in 0..cycles / 10 {
        let (shape, flags) = (ArrayShape::two_d(8, 8), ArrayFlags::empty());
        let source = DeviceBuffer::filled(&stream, 64, cycle).unwrap();
        let mut array = Array::<u32>::zeroed(&stream, &shape, flags).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&stream, 32).unwrap();
        let mut batch = CopyBatch::new();
        batch.copy_array(&mut array, &source).unwrap();
        batch.queue(&stream).unwrap();
        drop(source);
        let mut batch = CopyBatch::new();
        let half = array.region(.., 4.., ..).unwrap();
        batch.copy_array(&mut target, half).unwrap();
        batch.queue(&stream).unwrap();
        drop(array);
        if cycle % 100 == 0 {
            assert_eq!(target.to_vec().unwrap(), [cycle; 32]);
        }
    }
    stream.synchronize().unwrap();
    let live = simulator.live();
    assert_eq!(live.arrays, before.arrays);
    assert_eq!(
        (live.allocations, live.bytes),
        (before.allocations, before.bytes)
    );
}
