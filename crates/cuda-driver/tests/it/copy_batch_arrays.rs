//! Batches of copies of arrays, and queued copies of boxes of page-locked memory.

use std::ops::Range;

use cuda_driver::error::Error;
use cuda_driver::memory::{CopyBatch, Extent, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Texel};
use cuda_sim::Builder;

use crate::copy_batch::{is_full, revisions, words};
use crate::support::{Fixture, count_calls, late_devices, software};

const SHAPES: [ArrayShape; 7] = [
    ArrayShape::one_d(37),
    ArrayShape::two_d(13, 9),
    ArrayShape::three_d(7, 5, 6),
    ArrayShape::one_d_layered(11, 4),
    ArrayShape::two_d_layered(8, 5, 3),
    ArrayShape::cube(5),
    ArrayShape::cube_layered(4, 2),
];

/// A box of an extent.
type Cut = [Range<usize>; 3];

fn random_cut(extent: Extent, random: &mut fastrand::Rng) -> Cut {
    [extent.width, extent.height, extent.depth].map(|len| {
        let start = random.usize(..len);
        start..random.usize(start + 1..=len)
    })
}

/// Returns the indices of the elements of a box, in order.
fn indices(extent: Extent, [x, y, z]: &Cut) -> Vec<usize> {
    let rows = z.clone().flat_map(|z| y.clone().map(move |y| (y, z)));
    rows.flat_map(|(y, z)| {
        let row = (z * extent.height + y) * extent.width;
        row + x.start..row + x.end
    })
    .collect()
}

/// Copies random boxes of `source` to arrays, pitched memory, buffers and page-locked memory, each
/// in a batch, and from there to the same boxes of another array.
fn boxes_of_arrays<T: Texel + PartialEq + std::fmt::Debug>(
    fixture: &Fixture,
    shape: &ArrayShape,
    random: &mut fastrand::Rng,
    element: fn(u32) -> T,
) {
    let (stream, other) = (fixture.stream(), fixture.stream());
    let (extent, flags) = (shape.extent(), ArrayFlags::empty());
    let all: Vec<T> = words(extent.width * extent.height * extent.depth)
        .into_iter()
        .map(element)
        .collect();
    let source = Array::from_host(&stream, shape, &all).unwrap();
    let mut target = Array::<T>::zeroed(&other, shape, flags).unwrap();
    let mut want = target.to_vec().unwrap();
    for _ in 0..3 {
        let cut = random_cut(extent, random);
        let places = indices(extent, &cut);
        let elements: Vec<T> = places.iter().map(|&place| all[place]).collect();
        let [x, y, z] = cut.clone();
        let part = source.region(x.clone(), y.clone(), z.clone()).unwrap();
        let size = part.extent();
        let dims = (size.width, size.height, size.depth);
        let mut rows = PitchedBuffer::<T>::zeroed(&other, dims).unwrap();
        let mut line = DeviceBuffer::<T>::zeroed(&stream, places.len()).unwrap();
        let mut same = Array::<T>::zeroed(&other, shape, flags).unwrap();
        let pinned = |elements: &[T]| {
            PinnedBuffer::from_host(&fixture.context, elements, PinnedFlags::DEFAULT).unwrap()
        };
        let mut host = pinned(&vec![all[0]; places.len()]);
        stream
            .copy_scope(|scope| {
                let mut down = scope.batch();
                down.on_device().copy_array(&mut rows, part)?;
                down.on_device().copy_array(&mut line, part)?;
                let to = same.region_mut(x.clone(), y.clone(), z.clone())?;
                down.on_device().copy_array(to, part)?;
                down.copy_array_to_host(part, &mut host)?;
                assert!(format!("{down:?}").starts_with("CopyBatch(4 copies"));
                down.queue()
            })
            .unwrap();
        let name = &fixture.name;
        assert_eq!(line.to_vec().unwrap(), elements, "{name}: {shape}, {cut:?}");
        assert_eq!(rows.to_vec().unwrap(), elements, "{name}: {shape}, {cut:?}");
        assert_eq!(host[..], elements, "{name}: {shape}, {cut:?}");
        let mut to = target.as_mut_slice();
        let mut to = to
            .reborrow()
            .into_region(x.clone(), y.clone(), z.clone())
            .unwrap();
        match random.u32(..4) {
            0 => {
                let mut batch = CopyBatch::new();
                batch.copy_array(to, &rows).unwrap();
                batch.queue(&other).unwrap();
            }
            1 => {
                let mut batch = CopyBatch::new();
                batch.copy_array(to.reborrow(), &line).unwrap();
                batch.queue(&stream).unwrap();
            }
            2 => {
                let mut batch = CopyBatch::new();
                batch.copy_array(to, same.region(x, y, z).unwrap()).unwrap();
                batch.queue(&other).unwrap();
            }
            _ => other
                .copy_scope(|scope| {
                    let mut up = scope.batch();
                    up.copy_array_from_host(to, &host)?;
                    up.queue()
                })
                .unwrap(),
        }
        for (place, element) in places.into_iter().zip(elements) {
            want[place] = element;
        }
    }
    assert_eq!(target.to_vec().unwrap(), want, "{}: {shape}", fixture.name);
}

#[test]
fn a_batch_copies_boxes_of_arrays() {
    let rounds = if is_full() { 100 } else { 1 };
    for (seed, fixture) in revisions().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        for shape in SHAPES.iter().cycle().take(rounds * SHAPES.len()) {
            boxes_of_arrays(&fixture, shape, &mut random, |word| word);
            boxes_of_arrays(&fixture, shape, &mut random, |word| word as u8);
            boxes_of_arrays(&fixture, shape, &mut random, |word| [word, !word, 1, 2]);
        }
    }
}

#[test]
fn a_batch_of_arrays_makes_one_call() {
    let versions = [
        (12_040, "cuMemcpy3DAsync_v2", 4),
        (12_080, "cuMemcpy3DBatchAsync", 1),
        (13_000, "cuMemcpy3DBatchAsync_v2", 1),
    ];
    for (version, call, count) in versions {
        let fixture = software(Builder::new().version(version));
        let stream = fixture.stream();
        let shape = ArrayShape::two_d_layered(4, 4, 4);
        let images = DeviceBuffer::from_host(&stream, &words(64)).unwrap();
        let mut layers = Array::<u32>::zeroed(&stream, &shape, ArrayFlags::empty()).unwrap();
        let mut batch = CopyBatch::new();
        batch.copy_array(&mut layers, &images).unwrap();
        batch.queue(&stream).unwrap();
        let mut back = DeviceBuffer::<u32>::zeroed(&stream, 64).unwrap();
        let mut batch = CopyBatch::new();
        for (layer, part) in back.as_mut_slice().chunks_mut(16).unwrap().enumerate() {
            let layer = layers.region(.., .., 3 - layer..4 - layer).unwrap();
            batch.copy_array(part, layer).unwrap();
        }
        let simulator = fixture.simulator.as_ref().unwrap();
        let before = count_calls(simulator, call);
        batch.queue(&stream).unwrap();
        assert_eq!(count_calls(simulator, call) - before, count, "{call}");
        let want: Vec<u32> = words(64).chunks(16).rev().flatten().copied().collect();
        assert_eq!(back.to_vec().unwrap(), want);
    }
}

#[test]
fn a_batch_of_arrays_is_ordered_with_other_streams() {
    for fixture in late_devices(12) {
        let [one, two, three] = [(); 3].map(|()| fixture.stream());
        let (shape, flags) = (ArrayShape::two_d(8, 4), ArrayFlags::empty());
        let mut source = Array::from_host(&one, &shape, &[5_u32; 32]).unwrap();
        let mut target = Array::<u32>::zeroed(&two, &shape, flags).unwrap();
        let mut batch = CopyBatch::new();
        let part = target.region_mut(..4, .., ..).unwrap();
        batch
            .copy_array(part, source.region(4.., .., ..).unwrap())
            .unwrap();
        batch.queue(&three).unwrap();
        source.copy_from_host(&[7; 32]).unwrap();
        let nines = DeviceBuffer::filled(&two, 8, 9_u32).unwrap();
        let mut row = target.region_mut(.., 3.., ..).unwrap();
        row.copy_from(&nines).unwrap();
        drop(source);
        let mut want: Vec<u32> = (0..32).map(|i| if i % 8 < 4 { 5 } else { 0 }).collect();
        want[24..].fill(9);
        assert_eq!(target.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn boxes_of_page_locked_memory_are_queued() {
    for fixture in revisions() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let pinned = |words: &[u32]| {
            PinnedBuffer::from_host(&fixture.context, words, PinnedFlags::DEFAULT).unwrap()
        };
        let shape = ArrayShape::three_d(5, 4, 3);
        let mut array = Array::<u32>::zeroed(&stream, &shape, ArrayFlags::empty()).unwrap();
        let mut rows = PitchedBuffer::<u32>::zeroed(&stream, (5, 4, 3)).unwrap();
        let source = pinned(&words(8));
        let (mut of_array, mut of_rows) = (pinned(&[0; 60]), pinned(&[0; 60]));
        other
            .copy_scope(|scope| {
                let part = array.region_mut(1..3, 2.., 1..)?;
                scope.copy_array_from_host(part, &source)?;
                let part = rows.region_mut(1..3, 2.., 1..)?;
                scope.copy_box_from_host(part, &source)?;
                scope.copy_array_to_host(array.as_slice(), &mut of_array)?;
                scope.copy_box_to_host(rows.as_slice(), &mut of_rows)
            })
            .unwrap();
        let mut want = vec![0; 60];
        for (place, word) in indices((5, 4, 3).into(), &[1..3, 2..4, 1..3])
            .into_iter()
            .zip(words(8))
        {
            want[place] = word;
        }
        assert_eq!(of_array[..], want, "{}", fixture.name);
        assert_eq!(of_rows[..], want, "{}", fixture.name);

        // The same with tokens, on another stream than that of the fills before.
        let mut cube = array.as_mut_slice();
        let up = cube.copy_from_pinned_async(pinned(&words(60)), &other);
        let used = up.unwrap().wait().unwrap();
        let up = rows.as_mut_slice().copy_from_pinned_async(used, &stream);
        drop(up.unwrap());
        let down = array.as_slice().copy_to_pinned_async(of_array, &stream);
        let rows_down = rows.as_slice().copy_to_pinned_async(of_rows, &other);
        assert_eq!(
            down.unwrap().wait().unwrap()[..],
            words(60),
            "{}",
            fixture.name
        );
        assert_eq!(
            rows_down.unwrap().wait().unwrap()[..],
            words(60),
            "{}",
            fixture.name
        );

        // Wrong lengths give the memory back.
        let error = array
            .as_slice()
            .copy_to_pinned_async(pinned(&[0; 3]), &stream);
        assert_eq!(error.unwrap_err().into_memory().unwrap()[..], [0; 3]);
        let mut short = pinned(&[0; 3]);
        let refused =
            stream.copy_scope(|scope| scope.copy_box_to_host(rows.as_slice(), &mut short));
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    }
}
