//! Pitched memory, in rows and planes.

use std::ops::Range;

use cuda_driver::error::{Error, Status};
use cuda_driver::memory::{Extent, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{COPY, Fixture, everywhere, late, software};

fn counted(extent: Extent) -> Vec<u32> {
    (0..extent.width * extent.height * extent.depth)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761))
        .collect()
}

fn whole(extent: Extent) -> [Range<usize>; 3] {
    [0..extent.width, 0..extent.height, 0..extent.depth]
}

/// Returns the elements of a box of `all`, in order.
fn cut(all: &[u32], extent: Extent, [x, y, z]: &[Range<usize>; 3]) -> Vec<u32> {
    let mut part = Vec::new();
    for z in z.clone() {
        for y in y.clone() {
            let row = (z * extent.height + y) * extent.width;
            part.extend(&all[row + x.start..row + x.end]);
        }
    }
    part
}

fn paste(all: &mut [u32], extent: Extent, [x, y, z]: &[Range<usize>; 3], part: &[u32]) {
    let mut rows = part.chunks(x.len().max(1));
    for z in z.clone() {
        for y in y.clone() {
            let row = (z * extent.height + y) * extent.width;
            all[row + x.start..row + x.end].copy_from_slice(rows.next().unwrap_or(&[]));
        }
    }
}

/// Extents: small, a row longer than a staging block, many rows, many planes, and odd sizes.
const EXTENTS: [(usize, usize, usize); 7] = [
    (1, 1, 1),
    (7, 5, 1),
    (200_003, 3, 2),
    (1000, 777, 1),
    (33, 129, 61),
    (128, 1, 500),
    (1, 3000, 2),
];

#[test]
fn downloaded_rows_equal_the_uploaded_ones() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for extent in EXTENTS.map(Extent::from) {
            let source = counted(extent);
            let buffer = PitchedBuffer::from_host(&stream, extent, &source).unwrap();
            assert_eq!(buffer.extent(), extent);
            assert!(buffer.pitch() >= extent.width * 4);
            assert!(
                buffer.to_vec().unwrap() == source,
                "{extent} on {}",
                fixture.name
            );
            let zeros = PitchedBuffer::<u32>::zeroed(&stream, extent).unwrap();
            assert!(zeros.to_vec().unwrap().iter().all(|&element| element == 0));
            buffer.close().unwrap();
        }
    }
}

fn random_box(random: &mut fastrand::Rng, extent: Extent) -> [Range<usize>; 3] {
    [extent.width, extent.height, extent.depth].map(|most| {
        let len = random.usize(..=most);
        let start = random.usize(..=most - len);
        start..start + len
    })
}

#[test]
fn random_boxes_are_those_of_a_vec() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut random = fastrand::Rng::with_seed(11);
        for extent in [(61, 43, 1), (300, 70, 9), (17, 5, 230)].map(Extent::from) {
            let mut model = counted(extent);
            let mut buffer = PitchedBuffer::from_host(&stream, extent, &model).unwrap();
            for _ in 0..40 {
                let part = random_box(&mut random, extent);
                let [x, y, z] = part.clone();
                let len = x.len() * y.len() * z.len();
                match random.u32(..5) {
                    0 => {
                        let source: Vec<u32> = (0..len).map(|_| random.u32(..)).collect();
                        let mut view = buffer.region_mut(x, y, z).unwrap();
                        view.copy_from_host(&source).unwrap();
                        paste(&mut model, extent, &part, &source);
                    }
                    1 => {
                        let view = buffer.region(x, y, z).unwrap();
                        assert!(view.to_vec().unwrap() == cut(&model, extent, &part));
                    }
                    2 => {
                        let mut pinned = PinnedBuffer::<u32>::zeroed(
                            &fixture.context,
                            len,
                            PinnedFlags::empty(),
                        )
                        .unwrap();
                        let view = buffer.region(x, y, z).unwrap();
                        view.copy_to_pinned(&mut pinned).unwrap();
                        assert!(*pinned == cut(&model, extent, &part));
                    }
                    3 => {
                        let source: Vec<u32> = (0..len).map(|_| random.u32(..)).collect();
                        let flags = RegisterFlags::empty();
                        let pinned =
                            RegisteredBuffer::from_vec(&fixture.context, source, flags).unwrap();
                        let mut view = buffer.region_mut(x, y, z).unwrap();
                        view.copy_from_pinned(&pinned).unwrap();
                        paste(&mut model, extent, &part, &pinned);
                    }
                    _ => {
                        // Copies through another buffer with another pitch.
                        let small = Extent::from((x.len(), y.len(), z.len()));
                        let mut other = PitchedBuffer::<u32>::zeroed(&stream, small).unwrap();
                        let view = buffer.region(x, y, z).unwrap();
                        other.as_mut_slice().copy_from(&view).unwrap();
                        assert!(other.to_vec().unwrap() == cut(&model, extent, &part));
                    }
                }
            }
            let all = whole(extent);
            assert!(buffer.to_vec().unwrap() == cut(&model, extent, &all));
        }
    }
}

#[test]
fn linear_memory_is_copied_as_rows() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let extent = Extent::from((40, 30));
        let source = counted(extent);
        let mut linear = DeviceBuffer::from_host(&stream, &source).unwrap();
        assert!(linear.as_slice().rows(0).is_err());
        assert!(linear.as_slice().rows(41).is_err());
        let empty = linear.slice(..0).unwrap();
        assert!(empty.rows(usize::MAX).is_err());
        let part = [3..20, 5..25, 0..1];
        let [x, y, z] = part.clone();
        let view = linear.as_slice().rows(40).unwrap();
        let view = view.region(x.clone(), y.clone(), z.clone()).unwrap();
        assert!(view.to_vec().unwrap() == cut(&source, extent, &part));
        let mut pitched = PitchedBuffer::<u32>::zeroed(&stream, (17, 20)).unwrap();
        pitched.as_mut_slice().copy_from(&view).unwrap();
        assert!(pitched.to_vec().unwrap() == cut(&source, extent, &part));
        // Copies back to another position.
        let rows = linear.as_mut_slice().into_rows(40).unwrap();
        let mut view = rows.into_region(20..37, 0..20, ..).unwrap();
        view.copy_from(&pitched.as_slice()).unwrap();
        let mut model = source.clone();
        let moved = cut(&source, extent, &part);
        paste(&mut model, extent, &[20..37, 0..20, 0..1], &moved);
        assert!(linear.to_vec().unwrap() == model, "{}", fixture.name);
    }
}

#[test]
fn kernels_find_rows_at_the_pitch() {
    for fixture in everywhere() {
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let other = fixture.stream();
        let source = counted(Extent::from((100, 3)));
        let input = PitchedBuffer::from_host(&stream, (100, 3), &source).unwrap();
        let words = input.pitch() / 4;
        let mut output = DeviceBuffer::<u32>::zeroed(&other, words).unwrap();
        let second = input.region(.., 1.., ..).unwrap();
        assert_eq!(second.as_raw(), input.as_raw() + input.pitch() as u64);
        // SAFETY: the kernel reads a row including its padding and writes as many words.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::for_num_elems(words as u32).unwrap(),
                (&second, &mut output, words as u32),
            )
        }
        .unwrap();
        let output = output.to_vec().unwrap();
        assert_eq!(output[..100], source[100..200], "{}", fixture.name);
    }
}

#[test]
fn boxes_out_of_bounds_and_other_extents_are_errors() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = PitchedBuffer::<u32>::zeroed(&stream, (6, 4, 2)).unwrap();
        let text = |region: Result<_, Error>| region.map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            text(buffer.region(..7, .., ..)),
            "the range ..7 is out of bounds: there are 6 elements in a row"
        );
        assert_eq!(
            text(buffer.region(.., 3..5, ..)),
            "the range 3..5 is out of bounds: there are 4 rows"
        );
        assert_eq!(
            text(buffer.region(.., .., 2..=2)),
            "the range 2..=2 is out of bounds: there are 2 planes"
        );
        assert!(buffer.region(..=usize::MAX, .., ..).is_err());
        let nothing = buffer.region(6.., .., ..).unwrap();
        assert!(nothing.to_vec().unwrap().is_empty());
        let other = PitchedBuffer::<u32>::zeroed(&stream, (4, 6, 2)).unwrap();
        let error = buffer
            .as_mut_slice()
            .copy_from(&other.as_slice())
            .unwrap_err();
        assert!(matches!(error, Error::ExtentMismatch { .. }), "{error}");
        let error = buffer.as_mut_slice().copy_from_host(&[0; 47]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
        let error = buffer.as_slice().copy_to_host(&mut [0; 49]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
        for extent in [(usize::MAX, 2, 1), (1 << 62, 1, 1), (1 << 40, 1 << 24, 0)] {
            let error = PitchedBuffer::<u32>::zeroed(&stream, extent).unwrap_err();
            assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
        }
    }
}

#[test]
fn empty_boxes_make_no_driver_calls() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    for extent in [(0, 5, 5), (5, 0, 5), (5, 5, 0)] {
        let mut empty = PitchedBuffer::<u64>::from_host(&stream, extent, &[]).unwrap();
        assert!(empty.to_vec().unwrap().is_empty());
        let other = PitchedBuffer::<u64>::zeroed(&stream, extent).unwrap();
        empty.as_mut_slice().copy_from(&other.as_slice()).unwrap();
        assert!(empty.region(.., .., ..).is_ok());
        empty.close().unwrap();
    }
    let nothing = PitchedBuffer::<[u32; 0]>::zeroed(&stream, (3, 3)).unwrap();
    assert_eq!(nothing.to_vec().unwrap(), [[0_u32; 0]; 9]);
    assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
}

#[test]
fn empty_box_has_regions_of_any_offset() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    for (width, height, depth) in [(4, 0, 5), (usize::MAX / 32, 0, 1), (1, usize::MAX / 32, 0)] {
        let extent = (width, height, depth);
        let empty = PitchedBuffer::<u64>::zeroed(&stream, extent).unwrap();
        let region = empty.region(width.., height.., depth..).unwrap();
        assert!(region.to_vec().unwrap().is_empty());
        assert!(empty.region(width + 1.., .., ..).is_err());
    }
    let bytes = DeviceBuffer::from_host(&stream, &[9_u8; 64]).unwrap();
    let rows = bytes.slice(5..5).unwrap().rows(usize::MAX).unwrap();
    let region = rows.region(usize::MAX.., .., ..).unwrap();
    assert!(region.to_vec().unwrap().is_empty());
}

#[test]
fn failing_row_copies_lose_at_most_one_block() {
    for function in ["cuMemAllocPitch", "cuMemcpy2DAsync", "cuMemcpy3DAsync"] {
        for extent in [(10, 10, 3), (600, 500, 4)] {
            let fixture = software(late(4));
            let simulator = fixture.simulator.clone().unwrap();
            let stream = fixture.stream();
            let source = counted(Extent::from(extent));
            simulator.add_rule(
                Rule::new(Status::CUDA_ERROR_UNKNOWN)
                    .function(function)
                    .nth(1),
            );
            let result = PitchedBuffer::from_host(&stream, extent, &source);
            match result {
                Err(error) => assert_eq!(error.status(), Some(Status::CUDA_ERROR_UNKNOWN)),
                // The copy may use only the 2D function or only the 3D function, so the rule may
                // not apply.
                Ok(buffer) => {
                    assert_ne!(function, "cuMemAllocPitch");
                    drop(buffer);
                }
            }
            simulator.clear_rules();
            let buffer = PitchedBuffer::from_host(&stream, extent, &source).unwrap();
            assert!(buffer.to_vec().unwrap() == source);
            drop((buffer, stream, fixture));
            let live = simulator.live();
            assert_eq!((live.allocations, live.streams), (0, 0));
            assert!(live.host_bytes <= 512 << 10, "{live:?}");
        }
    }
    let fixture = software(Builder::new().memory(2 << 20));
    let error = PitchedBuffer::<u32>::zeroed(&fixture.stream(), (1000, 1000)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::OutOfMemory {
                bytes: 4_000_000,
                ..
            }
        ),
        "{error}"
    );
}

/// Fills a box of a 3-D buffer and compares all elements with a fill on the host.
fn fill_a_box<T: DeviceRepr + PartialEq + std::fmt::Debug>(
    fixture: &Fixture,
    extent: (usize, usize, usize),
    value: T,
) {
    let (owner, other) = (fixture.stream(), fixture.stream());
    let (width, height, depth) = extent;
    let mut buffer = PitchedBuffer::<T>::zeroed(&owner, extent).unwrap();
    let mut want = vec![T::zeroed(); width * height * depth];
    let (x, y, z) = (
        width / 3..width,
        height / 4..height - height / 3,
        depth / 2..depth,
    );
    let mut view = buffer.region_mut(x.clone(), y.clone(), z.clone()).unwrap();
    view.fill_on(value, &other).unwrap();
    for z in z {
        for y in y.clone() {
            let row = (z * height + y) * width;
            want[row + x.start..row + x.end].fill(value);
        }
    }
    let what = format!("{}: {extent:?} of {value:?}", fixture.name);
    assert_eq!(buffer.to_vec().unwrap(), want, "{what}");
    buffer.fill(value).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![value; want.len()], "{what}");
    buffer.as_mut_slice().set_zero().unwrap();
    assert_eq!(
        buffer.to_vec().unwrap(),
        vec![T::zeroed(); want.len()],
        "{what}"
    );
}

#[test]
fn fills_cover_the_box_and_nothing_else() {
    for fixture in everywhere() {
        for extent in [(1, 1, 1), (7, 1, 1), (7, 5, 1), (5, 8, 3), (64, 3, 4)] {
            fill_a_box(&fixture, extent, 0xA5_u8);
            fill_a_box(&fixture, extent, 0x1234_u16);
            fill_a_box(&fixture, extent, 0x1234_5678_u32);
            // The bytes of these do not repeat every 1, 2 or 4 bytes.
            fill_a_box(&fixture, extent, 0x1234_5678_9ABC_DEF0_u64);
            fill_a_box(&fixture, extent, [1_u8, 2, 3]);
            fill_a_box(&fixture, extent, [0x1111_u16, 0x2222, 0x3333]);
        }
        // Rows of a linear buffer.
        let stream = fixture.stream();
        let mut linear = DeviceBuffer::<[u8; 3]>::zeroed(&stream, 12).unwrap();
        let rows = linear.as_mut_slice().into_rows(4).unwrap();
        rows.into_region(1..3, 1.., ..)
            .unwrap()
            .fill([7; 3])
            .unwrap();
        let filled = [5, 6, 9, 10];
        for (index, element) in linear.to_vec().unwrap().into_iter().enumerate() {
            let want = if filled.contains(&index) {
                [7; 3]
            } else {
                [0; 3]
            };
            assert_eq!(element, want, "{}: {index}", fixture.name);
        }
    }
}

#[test]
fn empty_fills_make_no_driver_calls() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mut buffer = PitchedBuffer::<u64>::zeroed(&stream, (0, 5)).unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    buffer.fill(9).unwrap();
    assert_eq!(simulator.calls().values().sum::<u64>(), 0);
}
