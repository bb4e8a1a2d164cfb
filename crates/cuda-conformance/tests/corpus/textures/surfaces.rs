//! Surfaces: written, read, and read back through textures.

use cuda_driver::prelude::*;

use super::elements::{Elements, Format};
use super::owners::{Array, CLAMP, CUBEMAP, INTEGER, LAYERED, SURFACE, Surface, Texture, reading};
use super::{SOURCE, look};
use crate::support::{Fixture, everywhere, numbers};

/// Copies elements in reverse order from one surface to another by a kernel; returns the target.
fn turn<'b>(fixture: &'b Fixture, elements: &Elements, flags: u32, kernel: &str) -> Array<'b> {
    let from = Array::new(fixture, elements, flags | SURFACE);
    let to = Array::new(fixture, elements, flags | SURFACE);
    let (input, output) = (Surface::new(fixture, &from), Surface::new(fixture, &to));
    let [width, height, depth] = elements.size();
    let function = fixture.kernel(&SOURCE, kernel);
    let config = LaunchConfig::for_num_elems((width * height * depth) as u32).unwrap();
    let args = (
        input.raw,
        output.raw,
        width as u32,
        height as u32,
        depth as u32,
    );
    // SAFETY: the kernel stays within the extents ← both surfaces have them, and live until the
    // stream is done.
    unsafe { fixture.stream.launch(&function, config, args) }.unwrap();
    if let Err(error) = fixture.stream.synchronize() {
        let fault = fixture
            .simulator
            .as_ref()
            .and_then(|device| device.fault(0));
        panic!("{kernel} on {}: {error}: {fault:?}", fixture.name);
    }
    to
}

/// Covers every shape, and every size of an access.
#[test]
fn turned_around() {
    for fixture in everywhere() {
        for (extent, format, channels, flags, kernel) in [
            ([37, 0, 0], Format::U8, 1, 0, "turn_line_char"),
            ([37, 0, 0], Format::F32, 2, 0, "turn_line_float2"),
            ([14, 9, 0], Format::S16, 1, 0, "turn_plane_short"),
            ([14, 9, 0], Format::U8, 4, 0, "turn_plane_uchar4"),
            ([14, 9, 0], Format::S32, 4, 0, "turn_plane_int4"),
            ([14, 9, 0], Format::S16, 4, 0, "turn_plane_short4"),
            ([8, 7, 6], Format::F32, 1, 0, "turn_space"),
            ([19, 0, 6], Format::S32, 2, LAYERED, "turn_lines"),
            ([9, 8, 5], Format::U32, 1, LAYERED, "turn_planes"),
            ([7, 7, 6], Format::F32, 1, CUBEMAP, "turn_cube"),
            ([7, 7, 12], Format::F32, 1, CUBEMAP | LAYERED, "turn_cubes"),
        ] {
            let elements = Elements::random(format, channels, extent, 70);
            let turned = turn(&fixture, &elements, flags, kernel).take(&elements);
            let one = elements.bytes_of_one();
            let bytes = elements.bytes();
            let expected: Vec<u8> = bytes.chunks(one).rev().flatten().copied().collect();
            assert_eq!(turned, expected, "{kernel} on {}", fixture.name);
        }
    }
}

#[test]
fn textures_read_what_surfaces_wrote() {
    let elements = Elements::random(Format::U8, 4, [14, 9, 0], 71);
    let at: Vec<_> = (0..14 * 9_u16)
        .map(|at| [f32::from(at % 14) + 0.5, f32::from(at / 14) + 0.5, 0.0, 0.0])
        .collect();
    for fixture in everywhere() {
        let turned = turn(&fixture, &elements, 0, "turn_plane_uchar4");
        let texture = Texture::new(&fixture, &turned.resource(), &reading(CLAMP, INTEGER));
        let found = look::<[u32; 4]>(&texture, "plane_uint", &at);
        for (place, found) in found.iter().enumerate() {
            let at = [13 - place % 14, 8 - place / 14, 0];
            let expected = [0, 1, 2, 3].map(|channel| elements.integer(at, channel));
            assert_eq!(*found, expected);
        }
    }
}

#[test]
fn accesses_out_of_bounds() {
    let elements = Elements::random(Format::S32, 1, [10, 6, 0], 72);
    let mut random = numbers(73);
    let points: Vec<[i32; 2]> = (0..200)
        .map(|_| [random.i32(-12..22), random.i32(-8..14)])
        .collect();
    let is_inside = |[x, y]: [i32; 2]| (0..10).contains(&x) && (0..6).contains(&y);
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, SURFACE);
        let surface = Surface::new(&fixture, &array);
        let kernel = fixture.kernel(&SOURCE, "around");
        let (at, mut out) = (fixture.upload(&points), fixture.zeroed::<[i32; 2]>(200));
        let config = LaunchConfig::for_num_elems(200).unwrap();
        let args = (surface.raw, &at, &mut out, 200_u32);
        // SAFETY: the kernel reads a point and writes two words for each index below n ← both
        // buffers have 200.
        unsafe { fixture.stream.launch(&kernel, config, args) }.unwrap();
        for (found, point) in fixture.values(&out, "around").iter().zip(&points) {
            let near = [
                point[0].clamp(0, 9) as usize,
                point[1].clamp(0, 5) as usize,
                0,
            ];
            let near = elements.integer(near, 0) as i32;
            let expected = [near, if is_inside(*point) { near } else { 0 }];
            assert_eq!(*found, expected, "{point:?}");
        }

        // Each element is marked at most once.
        let marks: Vec<[i32; 2]> = (0..34 * 22).map(|i| [i % 34 - 12, i / 34 - 8]).collect();
        let (kernel, at) = (fixture.kernel(&SOURCE, "mark"), fixture.upload(&marks));
        let count = marks.len() as u32;
        let config = LaunchConfig::for_num_elems(count).unwrap();
        // SAFETY: the kernel reads a point for each index below n ← the buffer has n points.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (surface.raw, &at, count))
        }
        .unwrap();
        fixture.stream.synchronize().unwrap();
        let numbers = (1_i32..).zip(&marks);
        let inside = numbers.filter(|(_, point)| is_inside(**point));
        let expected: Vec<u8> = inside
            .flat_map(|(number, _)| number.to_le_bytes())
            .collect();
        assert_eq!(array.take(&elements), expected);
    }
}
