//! Arrays: shapes, copies in all directions, and errors.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_driver::error::{ArrayError, Error, Status};
use cuda_driver::memory::{Extent, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    Array, ArrayFlags, ArrayShape, ChannelFormat, MipmappedArray, Sampler, Texel, Texture,
};
use cuda_driver::vector::Float4;
use cuda_sim::Builder;

use crate::borrowed::{Foreign, alive};
use crate::support::{everywhere, late, late_devices, new_stream, software};

fn counted(extent: Extent) -> Vec<u32> {
    (0..extent.width * extent.height * extent.depth)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761))
        .collect()
}

/// A box of an extent.
type Cut = [Range<usize>; 3];

/// Returns the indices of the elements of a box, in order.
fn indices(extent: Extent, [x, y, z]: &Cut) -> Vec<usize> {
    let mut all = Vec::new();
    for z in z.clone() {
        for y in y.clone() {
            let row = (z * extent.height + y) * extent.width;
            all.extend(row + x.start..row + x.end);
        }
    }
    all
}

fn random_cut(extent: Extent, random: &mut fastrand::Rng) -> Cut {
    [extent.width, extent.height, extent.depth].map(|len| {
        let start = random.usize(..len);
        start..random.usize(start + 1..=len)
    })
}

const SHAPES: [ArrayShape; 7] = [
    ArrayShape::one_d(37),
    ArrayShape::two_d(13, 9),
    ArrayShape::three_d(7, 5, 6),
    ArrayShape::one_d_layered(11, 4),
    ArrayShape::two_d_layered(8, 5, 3),
    ArrayShape::cube(5),
    ArrayShape::cube_layered(4, 2),
];

#[test]
fn copies_in_all_directions_match_a_model() {
    for (seed, fixture) in late_devices(6).enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let streams = [fixture.stream(), fixture.stream()];
        for shape in SHAPES {
            let extent = shape.extent();
            let mut model = counted(extent);
            let mut array = Array::from_host(&streams[0], &shape, &model).unwrap();
            assert_eq!((array.shape(), array.extent()), (shape, extent));
            let mut other = Array::<u32>::zeroed(&streams[1], &shape, ArrayFlags::empty()).unwrap();
            let mut other_model = vec![0_u32; model.len()];
            for step in 0..24_u32 {
                let cut = random_cut(extent, &mut random);
                let [x, y, z] = cut.clone();
                let at = indices(extent, &cut);
                let size: Extent = (x.len(), y.len(), z.len()).into();
                let stream = &streams[random.usize(..2)];
                let words: Vec<u32> = (0..at.len() as u32).map(|i| step << 16 | i).collect();
                let part = array.region_mut(x.clone(), y.clone(), z.clone()).unwrap();
                assert_eq!(part.extent(), size);
                let mut part = part;
                match step % 8 {
                    0 => part.copy_from_host_on(&words, stream).unwrap(),
                    1 => {
                        let buffer = DeviceBuffer::from_host(stream, &words).unwrap();
                        part.copy_from_on(&buffer, stream).unwrap();
                    }
                    2 => {
                        let rows = PitchedBuffer::from_host(stream, size, &words).unwrap();
                        part.copy_from_on(&rows, stream).unwrap();
                    }
                    3 => {
                        let pinned =
                            PinnedBuffer::from_host(&fixture.context, &words, PinnedFlags::DEFAULT);
                        part.copy_from_pinned(&pinned.unwrap()).unwrap();
                    }
                    // To other memory; the array does not change.
                    4 => {
                        let from = other.region_mut(x, y, z).unwrap();
                        array
                            .region(cut[0].clone(), cut[1].clone(), cut[2].clone())
                            .unwrap()
                            .copy_to_on(from, stream)
                            .unwrap();
                        at.iter().for_each(|&at| other_model[at] = model[at]);
                        continue;
                    }
                    5 => {
                        let part = array.region(x, y, z).unwrap();
                        let mut rows = PitchedBuffer::<u32>::zeroed(stream, size).unwrap();
                        part.copy_to_on(&mut rows, stream).unwrap();
                        let mut buffer = DeviceBuffer::<u32>::zeroed(stream, at.len()).unwrap();
                        part.copy_to(&mut buffer).unwrap();
                        let mut pinned =
                            PinnedBuffer::from_host(&fixture.context, &words, PinnedFlags::DEFAULT)
                                .unwrap();
                        part.copy_to_pinned(&mut pinned).unwrap();
                        let mut host = words.clone();
                        part.copy_to_host_on(&mut host, stream).unwrap();
                        let expected: Vec<u32> = at.iter().map(|&at| model[at]).collect();
                        assert_eq!(host, expected, "{}", fixture.name);
                        assert_eq!(*pinned, expected[..], "{}", fixture.name);
                        assert_eq!(buffer.to_vec().unwrap(), expected, "{}", fixture.name);
                        assert_eq!(rows.as_slice().to_vec().unwrap(), expected);
                        continue;
                    }
                    // From the other array.
                    _ => {
                        let from = other.region(x, y, z).unwrap();
                        part.copy_from_on(from, stream).unwrap();
                        at.iter().for_each(|&at| model[at] = other_model[at]);
                        continue;
                    }
                }
                at.iter()
                    .zip(&words)
                    .for_each(|(&at, word)| model[at] = *word);
            }
            assert_eq!(
                array.to_vec().unwrap(),
                model,
                "{shape} on {}",
                fixture.name
            );
            assert_eq!(other.to_vec().unwrap(), other_model, "{shape}");
            other.copy_from(&array).unwrap();
            drop(array);
            let mut copy = vec![0; model.len()];
            other.as_slice().copy_to_host(&mut copy).unwrap();
            assert_eq!(copy, model);
        }
    }
}

/// A row of 2 MiB does not fit in a block of page-locked memory.
#[test]
fn rows_wider_than_a_staging_block_are_copied() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let len = 1 << 17;
        let words: Vec<[u32; 4]> = (0..len).map(|i| [i, i * 3, !i, i ^ 0xABCD]).collect();
        let shape = ArrayShape::one_d(len as usize);
        let mut array = Array::from_host(&stream, &shape, &words).unwrap();
        assert!(array.to_vec().unwrap() == words, "{}", fixture.name);
        array.copy_from_host(&words).unwrap();
        let zeros = Array::<[u32; 4]>::zeroed(&stream, &shape, ArrayFlags::empty()).unwrap();
        assert!(zeros.to_vec().unwrap().iter().all(|it| *it == [0; 4]));
    }
}

#[test]
fn zeroed_arrays_are_zero_in_all_planes() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        // More bytes than are allocated at once.
        let shape = ArrayShape::three_d(512, 256, 17);
        let array = Array::<Float4>::zeroed(&stream, &shape, ArrayFlags::SURFACE).unwrap();
        assert_eq!(array.flags(), ArrayFlags::SURFACE);
        assert_eq!(array.stream().as_raw(), stream.as_raw());
        assert!(!array.as_raw().is_null());
        let zero = Float4::default();
        assert!(
            array.to_vec().unwrap().iter().all(|it| *it == zero),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn levels_have_half_the_size_and_their_own_elements() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for shape in SHAPES {
            let flags = ArrayFlags::empty();
            let mut pyramid = MipmappedArray::<u16>::zeroed(&stream, &shape, 3, flags).unwrap();
            assert_eq!((pyramid.levels(), pyramid.shape()), (3, shape));
            assert!(!pyramid.as_raw().is_null());
            assert_eq!(pyramid.stream().as_raw(), stream.as_raw());
            for level in 0..3_u16 {
                let mut view = pyramid.level_mut(level.into()).unwrap();
                let extent = view.extent();
                assert_eq!(extent.width, (shape.extent().width >> level).max(1));
                let len = extent.width * extent.height * extent.depth;
                view.copy_from_host(&vec![level + 1; len]).unwrap();
            }
            for level in 0..3_u16 {
                let found = pyramid.level(level.into()).unwrap().to_vec().unwrap();
                assert!(
                    found.iter().all(|it| *it == level + 1),
                    "{shape} level {level}"
                );
            }
            let Err(Error::OutOfRange(_)) = pyramid.level(3) else {
                panic!("there is a level 3");
            };
        }
    }
}

#[track_caller]
fn text_of<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_the_value_the_limit_and_the_next_step() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let zeroed = |shape, flags| text_of(Array::<f32>::zeroed(&stream, &shape, flags).map(drop));
    let none = ArrayFlags::empty();
    assert_eq!(
        zeroed(ArrayShape::one_d(200_000), none),
        "the width of a one-dimensional array is 200000; 1 to 131072 is allowed; divide the \
         elements among several arrays"
    );
    for (shape, what) in [
        (
            ArrayShape::two_d(16, 0),
            "the height of a two-dimensional array is 0",
        ),
        (
            ArrayShape::three_d(8, 8, 20_000),
            "the depth of a three-dimensional array is 20000",
        ),
        (
            ArrayShape::two_d_layered(8, 8, 3000),
            "the number of layers of an array of",
        ),
        (ArrayShape::cube(0), "the width of a cube array is 0"),
        (
            ArrayShape::cube_layered(4, usize::MAX),
            "the number of faces of an array of cubes is",
        ),
    ] {
        let text = zeroed(shape, none);
        assert!(text.starts_with(what), "{text}");
    }
    assert!(zeroed(ArrayShape::one_d(8), ArrayFlags::GATHER).contains("use ArrayShape::two_d"));
    let pyramid = MipmappedArray::<f32>::zeroed(&stream, &ArrayShape::two_d(8, 8), 5, none);
    assert!(text_of(pyramid).contains("is 5; 1 to 4 is allowed; create it with fewer levels"));
    // An array without memory needs `unsafe`, and the software device has none.
    for (flags, named) in [
        (ArrayFlags::SPARSE, "sparse arrays"),
        (
            ArrayFlags::DEFERRED_MAPPING,
            "arrays whose memory is mapped later",
        ),
    ] {
        let expect_refused = |error: Error| {
            assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
            let start = format!("this device does not support {named}; ");
            assert!(error.to_string().starts_with(&start), "{error}");
        };
        let shape = ArrayShape::two_d(256, 256);
        let safe = Array::<u32>::zeroed(&stream, &shape, flags);
        assert!(matches!(safe, Err(Error::UnsafeFlags { .. })));
        let safe = Array::from_host_with(&stream, &shape, flags, &[0_u32]);
        assert!(matches!(safe, Err(Error::UnsafeFlags { .. })));
        // SAFETY: the array is not used.
        let raw = unsafe { Array::<u32>::uninit(&stream, &shape, flags) };
        expect_refused(raw.unwrap_err());
        // SAFETY: the array is not used.
        let raw = unsafe { MipmappedArray::<u32>::uninit(&stream, &shape, 2, flags) };
        expect_refused(raw.unwrap_err());
    }
}

#[test]
fn copies_of_different_sizes_are_refused() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let shape = ArrayShape::two_d(4, 3);
    let mut array = Array::from_host(&stream, &shape, &[1_u32; 12]).unwrap();
    let other = Array::from_host(&stream, &ArrayShape::two_d(3, 4), &[2_u32; 12]).unwrap();
    assert!(matches!(
        array.copy_from(&other),
        Err(Error::ExtentMismatch { .. })
    ));
    let buffer = DeviceBuffer::from_host(&stream, &[3_u32; 11]).unwrap();
    assert!(matches!(
        array.copy_from(&buffer),
        Err(Error::LengthMismatch {
            source_len: 11,
            destination_len: 12
        })
    ));
    assert!(matches!(
        array.copy_from_host(&[0; 13]),
        Err(Error::LengthMismatch { .. })
    ));
    assert!(matches!(
        array.region(..5, .., ..).map(drop),
        Err(Error::OutOfRange(_))
    ));
    // A surface needs the flag.
    let Err(Error::Array(error)) = array.surface_mut().map(drop) else {
        panic!("there is a surface");
    };
    assert!(matches!(*error, ArrayError::Contradiction { .. }));
    assert!(array.surface().is_err());
    // Empty boxes are copied without a call.
    array
        .region_mut(2..2, .., ..)
        .unwrap()
        .copy_from_host(&[])
        .unwrap();
    let empty = other.region(.., 1..1, ..).unwrap();
    let target = array.region_mut(..3, 1..1, ..).unwrap();
    empty.copy_to(target).unwrap();
    assert_eq!(array.to_vec().unwrap(), [1; 12]);
}

#[test]
fn an_array_of_another_context_is_refused() {
    let one = software(Builder::new().devices(2));
    let two = one
        .context
        .driver()
        .device(1)
        .unwrap()
        .primary_context()
        .unwrap();
    let (stream, other) = (one.stream(), two.default_stream().unwrap());
    let mut array = Array::from_host(&stream, &ArrayShape::one_d(4), &[1_u8; 4]).unwrap();
    let buffer = DeviceBuffer::from_host(&other, &[2_u8; 4]).unwrap();
    assert!(matches!(
        array.copy_from(&buffer),
        Err(Error::OtherContext { .. })
    ));
    let on_other = array.as_mut_slice().copy_from_host_on(&[3; 4], &other);
    assert!(matches!(on_other, Err(Error::OtherContext { .. })));
    assert_eq!(array.to_vec().unwrap(), [1; 4]);
}

/// The copy waits for the writes of its source on the other device, and later writes of the source
/// wait for the copy.
#[test]
fn arrays_are_copied_between_contexts() {
    for seed in 0..8 {
        let fixture = software(late(seed).devices(2));
        let device = fixture.context.driver().device(1).unwrap();
        let there = device.primary_context().unwrap();
        let (one, two) = (fixture.stream(), there.default_stream().unwrap());
        for shape in SHAPES {
            let (extent, flags) = (shape.extent(), ArrayFlags::empty());
            let words = counted(extent);
            let zeros = vec![0; words.len()];
            let mut source = Array::<u32>::zeroed(&one, &shape, flags).unwrap();
            let mut target = Array::<u32>::zeroed(&two, &shape, flags).unwrap();
            let buffer = DeviceBuffer::from_host(&one, &words).unwrap();
            source.copy_from(&buffer).unwrap();
            let mut view = target.as_mut_slice();
            view.copy_from_peer(&source.as_slice()).unwrap();
            source.copy_from_host(&zeros).unwrap();
            assert_eq!(target.to_vec().unwrap(), words, "{shape}, seed {seed}");
            // A part, on another stream. The source is dropped while the copy is queued.
            let other = new_stream(&there);
            let part = target.region_mut(1..3, .., ..).unwrap();
            let from = source.region(..2, .., ..).unwrap();
            let mut part = part;
            part.copy_from_peer_on(&from, &other).unwrap();
            drop(source);
            let found = target.to_vec().unwrap();
            let expected = (0..words.len()).map(|at| match at % extent.width {
                1..3 => 0,
                _ => words[at],
            });
            assert!(expected.eq(found), "{shape}, seed {seed}");
        }
        let mut small = Array::from_host(&two, &ArrayShape::one_d(2), &[1_u32; 2]).unwrap();
        let large = Array::from_host(&one, &ArrayShape::one_d(3), &[1_u32; 3]).unwrap();
        let copied = small.as_mut_slice().copy_from_peer(&large.as_slice());
        assert!(matches!(copied, Err(Error::ExtentMismatch { .. })));
    }
}

/// A copy from a borrowed context uses memory of the host. Its owner may then destroy the context,
/// and the drops of the array, its surface and its texture make no call.
#[test]
fn arrays_outlive_their_borrowed_context() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let (shape, flags) = (ArrayShape::two_d(4, 2), ArrayFlags::SURFACE);
        let words = counted(shape.extent());
        let array = Array::from_host_with(&new_stream(&context), &shape, flags, &words).unwrap();
        let texture = Texture::new(&array, &Sampler::new()).unwrap();
        let mut copy = Array::<u32>::zeroed(&fixture.stream(), &shape, flags).unwrap();
        let mut view = copy.as_mut_slice();
        view.copy_from_peer(&array.as_slice()).unwrap();
        drop(context);
        token.store(false, Ordering::SeqCst);
        drop(foreign);
        drop((array, texture));
        if let Some(simulator) = &fixture.simulator {
            let calls = simulator.calls();
            for call in [
                "cuTexObjectDestroy",
                "cuSurfObjectDestroy",
                "cuArrayDestroy",
                "cuMemcpy3DPeerAsync",
            ] {
                assert!(!calls.contains_key(call), "{call} on {}", fixture.name);
            }
        }
        assert_eq!(copy.to_vec().unwrap(), words, "{}", fixture.name);
    }
}

#[test]
fn formats_follow_the_element_type() {
    fn format<T: Texel>() -> (ChannelFormat, u32) {
        (T::FORMAT, T::CHANNELS)
    }
    assert_eq!(
        format::<u8>(),
        (ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT8, 1)
    );
    assert_eq!(
        format::<[i16; 2]>(),
        (ChannelFormat::CU_AD_FORMAT_SIGNED_INT16, 2)
    );
    assert_eq!(format::<Float4>(), (ChannelFormat::CU_AD_FORMAT_FLOAT, 4));
    #[cfg(feature = "half")]
    assert_eq!(
        format::<[half::f16; 4]>(),
        (ChannelFormat::CU_AD_FORMAT_HALF, 4)
    );
}
