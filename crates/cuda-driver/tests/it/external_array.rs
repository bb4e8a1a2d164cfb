//! Images of another API, which are files here: contiguous rows, level after level.

#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{ArrayError, Error, RangeError, Status};
use cuda_driver::graph::EagerCapture;
use cuda_driver::memory::ExternalMemory;
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    Array, ArrayFlags, ArrayShape, MipmappedArray, ResourceView, Sampler, Texture,
};
use cuda_sim::Builder;

use crate::external::{import, random_programs};
use crate::other_api::{File, file};
use crate::support::{COPY, Fixture, late, late_devices, launch_copy, software};
use crate::texture::{Kernels, N, PLANE, plain, plane};

const WORDS: usize = N as usize;
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 4 * WORDS;

/// Maps an image with the shape of `PLANE`.
fn image(memory: &ExternalMemory, stream: &Stream, start: usize) -> Array<u32> {
    map(memory, stream, start..start + BYTES).unwrap()
}

fn map(
    memory: &ExternalMemory,
    stream: &Stream,
    range: std::ops::Range<usize>,
) -> cuda_driver::Result<Array<u32>> {
    // SAFETY: the range must hold an image of this shape ← the software device takes contiguous
    // rows of the file, or refuses them.
    unsafe { memory.map_array(stream, range, &PLANE, ArrayFlags::SURFACE) }
}

fn words(file: &File, offset: usize, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * count];
    file.read_exact_at(&mut bytes, offset as u64).unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks_exact(4).map(word).collect()
}

fn write_words(file: &File, offset: usize, words: &[u32]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&bytes, offset as u64).unwrap();
}

fn counted(from: u32, count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| from + 3 * i).collect()
}

#[test]
fn images_of_another_api_are_used_as_arrays() {
    for builder in [Builder::new(), late(2), late(3)] {
        let fixture = software(builder);
        let kernels = Kernels::new(&fixture.context);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let file = file(4096);
        write_words(&file, 256, &counted(5, WORDS));
        let memory = import(&fixture, &file, 4096).unwrap();
        let mut array = image(&memory, &stream, 256);
        memory.close().unwrap();
        assert_eq!((array.shape(), array.flags()), (PLANE, ArrayFlags::SURFACE));
        assert_eq!(array.to_vec().unwrap(), counted(5, WORDS));
        let mut result = plane(&other, 0);
        let texture = plain(&array);
        kernels.mix(&other, &texture, &mut result, 1).unwrap();
        drop(texture);
        // The write follows the read on the other stream.
        kernels.update(&stream, &mut array, 9).unwrap();
        let doubled = |add: u32| -> Vec<u32> {
            counted(5, WORDS)
                .iter()
                .map(|word| 2 * word + add)
                .collect()
        };
        assert_eq!(result.to_vec().unwrap(), doubled(1));
        // The unmapping waits for the uses.
        drop(array);
        assert_eq!(words(&file, 256, WORDS), doubled(9));
        assert_eq!(words(&file, 0, 64), [0; 64]);
        assert_eq!(words(&file, 256 + BYTES, 64), [0; 64]);
        let live = fixture.simulator.as_ref().unwrap().live();
        assert_eq!(
            (live.external_memory, live.mipmapped_arrays),
            (0, 0),
            "{live}"
        );
    }
}

#[test]
fn levels_of_an_image_are_levels_of_an_array() {
    for fixture in late_devices(4).filter(|fixture| fixture.simulator.is_some()) {
        let stream = fixture.stream();
        let file = file(4096);
        // Levels of 8 x 4, 4 x 2 and 2 x 1 elements.
        write_words(&file, 0, &counted(100, 32 + 8 + 2));
        let memory = import(&fixture, &file, 4096).unwrap();
        let (levels, flags) = (3, ArrayFlags::SURFACE | ArrayFlags::COLOR_ATTACHMENT);
        // SAFETY: the range must hold an image of this shape and these levels ← see above.
        let pyramid =
            unsafe { memory.map_mipmapped_array::<u32>(&stream, ..4 * 42, &PLANE, levels, flags) };
        let mut pyramid: MipmappedArray<u32> = pyramid.unwrap();
        drop(memory);
        assert_eq!(pyramid.levels(), 3);
        let all = counted(100, 42);
        for (level, range) in [(0, 0..32), (1, 32..40), (2, 40..42)] {
            let view = pyramid.level(level).unwrap();
            assert_eq!(view.to_vec().unwrap(), all[range], "level {level}");
        }
        let sampler = Sampler::new().normalized_coordinates();
        let view = ResourceView::new().levels(1..=1);
        let texture = Texture::with_view(&pyramid, &sampler, &view).unwrap();
        let mut last = pyramid.level_mut(2).unwrap();
        last.copy_from_host(&[1, 2]).unwrap();
        drop(pyramid);
        // The texture keeps the array, and the array the memory.
        let live = || fixture.simulator.as_ref().unwrap().live();
        assert_eq!((live().external_memory, live().mipmapped_arrays), (1, 1));
        drop(texture);
        assert_eq!((live().external_memory, live().mipmapped_arrays), (0, 0));
        assert_eq!(words(&file, 0, 42), [&all[..40], &[1, 2]].concat());
    }
}

#[test]
fn arrays_and_buffers_never_map_a_common_byte() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let file = file(4096);
    let memory = import(&fixture, &file, 4096).unwrap();
    // The image has more bytes than its elements.
    let mut array = map(&memory, &stream, 1024..2048).unwrap();
    let overlap = |error: Error, range| {
        let wanted = RangeError::Mapped {
            range,
            mapped: 1024..2048,
        };
        assert!(
            matches!(&error, Error::OutOfRange(it) if **it == wanted),
            "{error}"
        );
    };
    overlap(memory.map::<u32>(&stream, 2044, 1).unwrap_err(), 2044..2048);
    overlap(map(&memory, &stream, 1000..1128).unwrap_err(), 1000..1128);
    let mut after = memory.map::<u32>(&stream, 2048, WORDS).unwrap();
    let refused = map(&memory, &stream, 2048..2048 + BYTES).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange(_)), "{refused}");
    array.copy_from_host(&[4; WORDS]).unwrap();
    after.fill(6).unwrap();
    drop((array, after));
    // Now the array has the bytes of the buffer, and the buffer those of the array.
    let array = map(&memory, &stream, 2048..2048 + BYTES).unwrap();
    let buffer = memory.map::<u32>(&stream, 1024, WORDS).unwrap();
    assert_eq!(array.to_vec().unwrap(), [6; WORDS]);
    assert_eq!(buffer.to_vec().unwrap(), [4; WORDS]);
}

#[test]
fn wrong_images_are_refused_by_name() {
    let fixture = software(Builder::new().devices(2));
    let stream = fixture.stream();
    let file = file(4096);
    let memory = import(&fixture, &file, 4096).unwrap();
    let text = |result: cuda_driver::Result<Array<u32>>| result.unwrap_err().to_string();
    assert_eq!(
        text(map(&memory, &stream, 0..100)),
        "the number of bytes of the range of external memory for this array is 100; 128 to 4096 \
         is allowed; use at least 128"
    );
    let outside = text(map(&memory, &stream, 4000..4200));
    assert!(outside.contains("4096 bytes"), "{outside}");
    let flags = ArrayFlags::SPARSE;
    // SAFETY: the call fails.
    let sparse = unsafe { memory.map_array::<u32>(&stream, .., &PLANE, flags) };
    assert_eq!(
        text(sparse),
        "an array in external memory cannot have ArrayFlags::SPARSE or \
         ArrayFlags::DEFERRED_MAPPING; leave out the flag"
    );
    for levels in [0, 5] {
        let flags = ArrayFlags::empty();
        // SAFETY: the call fails.
        let refused =
            unsafe { memory.map_mipmapped_array::<u32>(&stream, .., &PLANE, levels, flags) };
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::Array(it) if matches!(**it, ArrayError::Size { .. })),
            "{error}"
        );
    }
    // The software device stores whole elements at multiples of their size.
    let error = map(&memory, &stream, 2..130).unwrap_err();
    let Error::Driver(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_INVALID_VALUE);
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let foreign = Stream::new(&other, StreamFlags::NON_BLOCKING, 0).unwrap();
    let error = map(&memory, &foreign, 0..BYTES).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let capture = EagerCapture::begin(&stream).unwrap();
    let error = map(&memory, &stream, 0..BYTES).unwrap_err();
    assert!(
        matches!(&error, Error::EagerCapture { call, .. } if *call == "ExternalMemory::map_array"),
        "{error}"
    );
    drop(capture);
    // A refused range is free again.
    map(&memory, &stream, 0..BYTES).unwrap();
}

/// Windows has no dma-bufs.
#[cfg(unix)]
#[test]
fn dma_buf_holds_no_array() {
    use cuda_driver::memory::ExternalMemoryFlags;

    let fixture = software(Builder::new());
    let (stream, file) = (fixture.stream(), file(2048));
    let (context, flags) = (&fixture.context, ExternalMemoryFlags::empty());
    // SAFETY: the file has as many bytes, which are zeros.
    let memory = unsafe { ExternalMemory::import_dma_buf(context, file.into(), 2048, flags) };
    let error = map(&memory.unwrap(), &stream, 0..BYTES).unwrap_err();
    let Error::Driver(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_NOT_SUPPORTED);
}

const REGIONS: usize = 3;
const STEPS: usize = 40;

/// A region of the memory, in one of three forms.
enum Region {
    Array(Array<u32>),
    /// The second level of an array. The first one is not used.
    Level(MipmappedArray<u32>),
    Buffer(DeviceBuffer<u32>),
}

/// The bytes of a region: an image of twice the width and height, and its second level.
const REGION: usize = 5 * BYTES;
/// The offset of the words of a region.
const SECOND: usize = 4 * BYTES;

fn region(
    memory: &ExternalMemory,
    stream: &Stream,
    index: usize,
    kind: u32,
) -> cuda_driver::Result<Region> {
    let start = index * REGION;
    Ok(match kind {
        0 => Region::Array(map(memory, stream, start + SECOND..start + SECOND + BYTES)?),
        1 => {
            let shape = ArrayShape::two_d(2 * PLANE.extent().width, 2 * PLANE.extent().height);
            let (range, flags) = (start..start + REGION, ArrayFlags::SURFACE);
            // SAFETY: the range must hold an image of this shape with two levels ← the file has
            // contiguous rows.
            let image = unsafe { memory.map_mipmapped_array(stream, range, &shape, 2, flags) };
            Region::Level(image?)
        }
        _ => Region::Buffer(memory.map(stream, start + SECOND, WORDS)?),
    })
}

/// Copies `buffer` to the region.
fn write(region: &mut Region, buffer: &DeviceBuffer<u32>, on: &Stream) {
    match region {
        Region::Array(array) => array.as_mut_slice().copy_from_on(buffer, on),
        Region::Level(array) => array.level_mut(1).unwrap().copy_from_on(buffer, on),
        Region::Buffer(other) => other.copy_from_on(buffer, on),
    }
    .unwrap();
}

/// Copies the region to `buffer`.
fn read(region: &Region, buffer: &mut DeviceBuffer<u32>, on: &Stream) {
    match region {
        Region::Array(array) => array.as_slice().copy_to_on(buffer, on),
        Region::Level(array) => array.level(1).unwrap().copy_to_on(buffer, on),
        Region::Buffer(other) => buffer.copy_from_on(other, on),
    }
    .unwrap();
}

fn random_program(fixture: &Fixture, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let kernels = Kernels::new(&fixture.context);
    let copy = fixture.kernel(COPY, "copy");
    let streams = [(); 3].map(|()| fixture.stream());
    let file = file((REGIONS * REGION) as u64);
    let memory = import(fixture, &file, REGIONS * REGION).unwrap();
    let mut model = vec![vec![0_u32; WORDS]; REGIONS];
    let make = |index: usize| region(&memory, &streams[index % 3], index, index as u32).unwrap();
    let mut regions: Vec<_> = (0..REGIONS).map(make).collect();
    let mut buffers: Vec<_> = streams
        .iter()
        .map(|stream| DeviceBuffer::<u32>::zeroed(stream, WORDS).unwrap())
        .collect();
    let mut contents = vec![vec![0_u32; WORDS]; buffers.len()];
    for step in 0..STEPS {
        let (at, held) = (random.usize(..REGIONS), random.usize(..3));
        let on = &streams[random.usize(..3)];
        match random.u32(..7) {
            0 => {
                let value = random.u32(..1000);
                buffers[held].fill_on(value, on).unwrap();
                contents[held].fill(value);
            }
            1 => {
                write(&mut regions[at], &buffers[held], on);
                model[at].clone_from(&contents[held]);
            }
            2 => {
                read(&regions[at], &mut buffers[held], on);
                contents[held].clone_from(&model[at]);
            }
            // A kernel changes the region.
            3 => {
                let add = random.u32(..1000);
                match &mut regions[at] {
                    Region::Array(array) => {
                        kernels.update(on, array, add).unwrap();
                        for word in &mut model[at] {
                            *word = word.wrapping_mul(2).wrapping_add(add);
                        }
                    }
                    Region::Level(_) => {}
                    Region::Buffer(buffer) => {
                        launch_copy(&copy, on, &buffers[held], buffer).unwrap();
                        model[at].clone_from(&contents[held]);
                    }
                }
            }
            // A graph copies the region, which is dropped before the graph is launched.
            4 => {
                let kind = random.u32(..3);
                if let Region::Array(array) = &regions[at] {
                    let texture = plain(array);
                    let mut result = plane(on, 0);
                    let graph = Graph::capture(&fixture.context, |scope| {
                        kernels.mix(scope, &texture, &mut result, 7)
                    });
                    let exec = graph.unwrap().instantiate().unwrap();
                    drop(texture);
                    exec.launch(on).unwrap();
                    drop(exec);
                    let doubled = |word: &u32| word.wrapping_mul(2).wrapping_add(7);
                    let wanted: Vec<_> = model[at].iter().map(doubled).collect();
                    assert_eq!(result.to_vec().unwrap(), wanted, "seed {seed}, step {step}");
                }
                replace(&memory, &mut regions, at, on, kind);
            }
            5 => replace(&memory, &mut regions, at, on, random.u32(..3)),
            // The other API changes the region, after the host has waited for all uses.
            _ => {
                fixture.context.synchronize().unwrap();
                let offset = at * REGION + SECOND;
                assert_eq!(
                    words(&file, offset, WORDS),
                    model[at],
                    "seed {seed}, step {step}"
                );
                model[at] = counted(random.u32(..1000), WORDS);
                write_words(&file, offset, &model[at]);
            }
        }
    }
    drop((regions, memory));
    for (index, wanted) in model.iter().enumerate() {
        let got = words(&file, index * REGION + SECOND, WORDS);
        assert_eq!(&got, wanted, "region {index}, seed {seed}");
    }
    for (buffer, wanted) in buffers.iter().zip(&contents) {
        assert_eq!(&buffer.to_vec().unwrap(), wanted, "seed {seed}");
    }
}

/// Drops a region, and maps it again in another form.
fn replace(
    memory: &ExternalMemory,
    regions: &mut Vec<Region>,
    at: usize,
    stream: &Stream,
    kind: u32,
) {
    drop(regions.remove(at));
    // A graph that has just been launched keeps the array until another thread drops it.
    let start = Instant::now();
    let again = loop {
        match region(memory, stream, at, kind) {
            Ok(region) => break region,
            Err(error) => assert!(start.elapsed() < LIMIT, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    };
    regions.insert(at, again);
}

#[test]
fn random_programs_with_images_match_a_model() {
    random_programs(random_program);
}
