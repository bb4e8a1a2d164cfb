//! Reads of single elements: every format, every shape, every address mode.

use cuda_sys::{CUDA_RESOURCE_VIEW_DESC, CUaddress_mode, CUresourceViewFormat};

use super::elements::{Elements, Format, place};
use super::owners::{
    Array, BORDER, CLAMP, CUBEMAP, GATHER, INTEGER, LAYERED, MIRROR, NORMALIZED, SRGB, Texture,
    WRAP, memory, reading, rows,
};
use super::{look, must_be_near};
use crate::support::{everywhere, numbers};

/// The allowed error of integers that are converted to numbers.
const NEAR: f64 = 1e-6;

/// Checks the elements that a texture returns, read by a kernel for floats, one for signed and one
/// for unsigned integers.
fn must_be_elements(
    texture: &Texture<'_>,
    kernels: [&str; 3],
    elements: &Elements,
    is_integer: bool,
    points: &[[f32; 4]],
    places: &[Option<[usize; 3]>],
) {
    let what = format!("{:?} × {}", elements.format, elements.channels);
    let channels = 0..elements.channels;
    if elements.format.is_float() || !is_integer {
        let bound = if elements.format.is_float() {
            0.0
        } else {
            NEAR
        };
        for (found, place) in look::<[f32; 4]>(texture, kernels[0], points)
            .iter()
            .zip(places)
        {
            let number = |channel| place.map_or(0.0, |place| elements.number(place, channel));
            let expected: Vec<f64> = channels.clone().map(number).collect();
            must_be_near(&found[..elements.channels], &expected, bound, &what);
        }
        return;
    }
    let kernel = kernels[if elements.format.is_signed() { 1 } else { 2 }];
    for (found, place) in look::<[u32; 4]>(texture, kernel, points).iter().zip(places) {
        let integer = |channel| place.map_or(0, |place| elements.integer(place, channel));
        let expected: Vec<u32> = channels.clone().map(integer).collect();
        assert_eq!(found[..elements.channels], expected, "{what}");
    }
}

/// Each format in every way in which it can be read: its elements, and whether they stay integers.
fn formats(extent: [usize; 3]) -> Vec<(Elements, bool)> {
    let mut all = Vec::new();
    for (number, format) in Format::ALL.into_iter().enumerate() {
        for channels in [1, 2, 4] {
            let elements = Elements::random(format, channels, extent, 10 * number as u64);
            if format.is_small() {
                all.push((elements.clone(), false));
            }
            all.push((elements, true));
        }
    }
    all
}

#[test]
fn memory_by_element() {
    // All channels are zero outside of the memory.
    let points: Vec<[f32; 4]> = (-3..40).map(|x: i16| [x.into(), 0.0, 0.0, 0.0]).collect();
    let places: Vec<_> = (-3..40)
        .map(|x| {
            usize::try_from(x)
                .ok()
                .filter(|x| *x < 37)
                .map(|x| [x, 0, 0])
        })
        .collect();
    for fixture in everywhere() {
        for (elements, is_integer) in formats([37, 0, 0]) {
            let buffer = fixture.upload(&elements.bytes());
            fixture.stream.synchronize().unwrap();
            let resource = memory(buffer.as_raw(), &elements);
            let flags = if is_integer { INTEGER } else { 0 };
            let texture = Texture::new(&fixture, &resource, &reading(CLAMP, flags));
            let kernels = ["fetch", "fetch_int", "fetch_uint"];
            must_be_elements(&texture, kernels, &elements, is_integer, &points, &places);
        }
    }
}

/// Points within elements, not near their edges, from before the first element to after the last.
fn around(size: [usize; 2], seed: u64) -> Vec<([i64; 2], [f32; 2])> {
    let mut random = numbers(seed);
    (0..200)
        .map(|_| {
            let at = size.map(|axis| random.i64(-(axis as i64) * 2..axis as i64 * 3));
            let inside = at.map(|at| at as f32 + 0.1 + 0.8 * random.f32());
            (at, inside)
        })
        .collect()
}

#[test]
fn planes_by_element() {
    let points = around([13, 7], 1);
    let at: Vec<_> = points
        .iter()
        .map(|(_, [x, y])| [*x, *y, 0.0, 0.0])
        .collect();
    let places: Vec<_> = points
        .iter()
        .map(|([x, y], _)| Some([place(CLAMP, *x, 13)?, place(CLAMP, *y, 7)?, 0]))
        .collect();
    for fixture in everywhere() {
        for (elements, is_integer) in formats([13, 7, 0]) {
            let array = Array::new(&fixture, &elements, 0);
            let flags = if is_integer { INTEGER } else { 0 };
            let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, flags));
            let kernels = ["plane", "plane_int", "plane_uint"];
            must_be_elements(&texture, kernels, &elements, is_integer, &at, &places);
        }
    }
}

#[test]
fn address_modes() {
    let elements = Elements::random(Format::S32, 4, [13, 7, 0], 20);
    let border = [-5_i32, 6, i32::MAX, i32::MIN];
    let points = around([13, 7], 2);
    // Unnormalized coordinates support only two address modes.
    let element = |mode: CUaddress_mode| match mode {
        BORDER => BORDER,
        _ => CLAMP,
    };
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, 0);
        for mode in [WRAP, CLAMP, MIRROR, BORDER] {
            for (flags, mode_meant) in [(0, element(mode)), (NORMALIZED, mode)] {
                let mut desc = reading(mode, flags | INTEGER);
                desc.borderColor = border.map(|value| f32::from_bits(value as u32));
                let texture = Texture::new(&fixture, &array.resource(), &desc);
                let scale = if flags == 0 { [1.0; 2] } else { [13.0, 7.0] };
                let at: Vec<_> = points
                    .iter()
                    .map(|(_, [x, y])| [x / scale[0], y / scale[1], 0.0, 0.0])
                    .collect();
                let found = look::<[i32; 4]>(&texture, "plane_int", &at);
                for (found, ([x, y], _)) in found.iter().zip(&points) {
                    let (x, y) = (place(mode_meant, *x, 13), place(mode_meant, *y, 7));
                    let expected = match x.zip(y) {
                        Some((x, y)) => [0, 1, 2, 3].map(|c| elements.integer([x, y, 0], c) as i32),
                        None => border,
                    };
                    assert_eq!(*found, expected, "{mode:?} {flags} on {}", fixture.name);
                }
            }
        }
    }
}

#[test]
fn rows_with_gaps() {
    let elements = Elements::random(Format::U16, 2, [21, 9, 0], 21);
    let pitch = 96;
    let mut bytes = vec![0xEE; pitch * 9];
    for (row, line) in elements.bytes().chunks(84).enumerate() {
        bytes[row * pitch..][..84].copy_from_slice(line);
    }
    let points = around([21, 9], 3);
    let at: Vec<_> = points
        .iter()
        .map(|(_, [x, y])| [*x, *y, 0.0, 0.0])
        .collect();
    for fixture in everywhere() {
        let buffer = fixture.upload(&bytes);
        fixture.stream.synchronize().unwrap();
        let resource = rows(buffer.as_raw(), &elements, pitch);
        let texture = Texture::new(&fixture, &resource, &reading(CLAMP, INTEGER));
        let found = look::<[u32; 4]>(&texture, "plane_uint", &at);
        for (found, ([x, y], _)) in found.iter().zip(&points) {
            let at = [x.clamp(&0, &20), y.clamp(&0, &8), &0].map(|at| *at as usize);
            let expected = [elements.integer(at, 0), elements.integer(at, 1)];
            assert_eq!(found[..2], expected);
        }
    }
}

#[test]
fn layers_and_spaces() {
    for fixture in everywhere() {
        for (extent, flags, kernel) in [
            ([17, 0, 0], 0, "line"),
            ([17, 0, 5], LAYERED, "lines"),
            ([9, 8, 5], LAYERED, "planes"),
            ([9, 8, 5], 0, "space"),
        ] {
            let elements = Elements::random(Format::F32, 2, extent, 22);
            let array = Array::new(&fixture, &elements, flags);
            let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, 0));
            let [width, height, depth] = elements.size();
            let places: Vec<[usize; 3]> = (0..width * height * depth)
                .map(|at| [at % width, at / width % height, at / width / height])
                .collect();
            let at: Vec<_> = places
                .iter()
                .map(|at| {
                    let [x, y, z] = at.map(|at| at as f32 + 0.25);
                    [x, y, z, z.floor()]
                })
                .collect();
            let found = look::<[f32; 4]>(&texture, kernel, &at);
            for (found, at) in found.iter().zip(places) {
                let expected = [0, 1].map(|channel| elements.number(at, channel));
                must_be_near(&found[..2], &expected, 0.0, kernel);
            }
        }
    }
}

/// The direction that hits a face at `s` and `t`, from -1 to 1, with the length `long` along its
/// main axis.
pub(super) fn direction(face: usize, [s, t]: [f32; 2], long: f32) -> [f32; 3] {
    let [x, y, z] = match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    };
    [x * long, y * long, z * long]
}

#[test]
fn cubes() {
    let size = 8;
    for fixture in everywhere() {
        // With one level the gradient of the direction does not matter.
        for (layers, flags, kernel) in [
            (6, CUBEMAP, "cube"),
            (18, CUBEMAP | LAYERED, "cubes"),
            (6, CUBEMAP, "cube_grad"),
            (18, CUBEMAP | LAYERED, "cubes_grad"),
        ] {
            let elements = Elements::random(Format::F32, 1, [size, size, layers], 23);
            let array = Array::new(&fixture, &elements, flags);
            let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, NORMALIZED));
            let places: Vec<[usize; 3]> = (0..size * size * layers)
                .map(|at| [at % size, at / size % size, at / size / size])
                .collect();
            let at: Vec<_> = places
                .iter()
                .map(|[x, y, layer]| {
                    let spot = [*x, *y].map(|at| (at as f32 + 0.4) / 4.0 - 1.0);
                    let [x, y, z] = direction(layer % 6, spot, 1.0 + *layer as f32);
                    [x, y, z, (layer / 6) as f32]
                })
                .collect();
            let found = look::<[f32; 4]>(&texture, kernel, &at);
            for (found, place) in found.iter().zip(places) {
                let expected = [elements.number(place, 0)];
                must_be_near(&found[..1], &expected, 0.0, &format!("{kernel} {place:?}"));
            }
        }
    }
}

#[test]
fn gathered_footprints() {
    let elements = Elements::random(Format::F32, 4, [12, 10, 0], 24);
    // Not near the centres of elements, where the footprint changes.
    let mut random = numbers(25);
    let points: Vec<[f32; 4]> = (0..200)
        .map(|_| {
            let [x, y] = [12, 10].map(|size| random.i32(-2..size + 2) as f32);
            let [u, v] = [(); 2].map(|()| 0.6 + 0.8 * random.f32());
            [x + u, y + v, 0.0, 0.0]
        })
        .collect();
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, GATHER);
        let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, 0));
        for (channel, kernel) in ["gather_0", "gather_1", "gather_2", "gather_3"]
            .into_iter()
            .enumerate()
        {
            let found = look::<[f32; 4]>(&texture, kernel, &points);
            for (found, at) in found.iter().zip(&points) {
                let [x, y] = [at[0], at[1]].map(|at| (at - 0.5).floor() as i64);
                // Counter-clockwise from the lower left, with y pointing down.
                let corners = [(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)];
                let expected = corners.map(|(x, y)| {
                    let at = [x.clamp(0, 11) as usize, y.clamp(0, 9) as usize, 0];
                    elements.number(at, channel)
                });
                must_be_near(found, &expected, 0.0, kernel);
            }
        }
    }
}

#[test]
fn elements_in_memory() {
    let elements = Elements::random(Format::F32, 2, [6, 5, 0], 28);
    let at: Vec<_> = (0..30_u16)
        .map(|at| [f32::from(at % 6) + 0.5, f32::from(at / 6) + 0.5, 0.0, 0.0])
        .collect();
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, 0);
        let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, 0));
        let found = look::<[f32; 4]>(&texture, "resident", &at);
        for (place, found) in found.iter().enumerate() {
            let [x, y] = [0, 1].map(|channel| elements.number([place % 6, place / 6, 0], channel));
            must_be_near(
                &[found[0], found[1], found[3]],
                &[x, y, 1.0],
                0.0,
                "resident",
            );
        }
    }
}

/// Three layers of words, viewed as four bytes each.
#[test]
fn a_view_of_layers_in_another_format() {
    let words = Elements::random(Format::U32, 1, [6, 5, 7], 26);
    // SAFETY: zero is a valid value of each field.
    let mut view: CUDA_RESOURCE_VIEW_DESC = unsafe { std::mem::zeroed() };
    view.format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_UINT_4X8;
    (view.width, view.height, view.depth) = (6, 5, 7);
    (view.firstLayer, view.lastLayer) = (2, 4);
    for fixture in everywhere() {
        let array = Array::new(&fixture, &words, LAYERED);
        let (resource, desc) = (array.resource(), reading(CLAMP, 0));
        let texture = Texture::with_view(&fixture, &resource, &desc, Some(&view));
        let places: Vec<[usize; 3]> = (0..90).map(|at| [at % 6, at / 6 % 5, at / 30]).collect();
        let at: Vec<_> = places
            .iter()
            .map(|[x, y, z]| [*x as f32 + 0.5, *y as f32 + 0.5, 0.0, *z as f32])
            .collect();
        let found = look::<[f32; 4]>(&texture, "planes", &at);
        for (found, [x, y, z]) in found.iter().zip(places) {
            let bytes = words.bits([x, y, z + 2], 0).to_le_bytes();
            let expected = bytes.map(|byte| f64::from(byte) / 255.0);
            must_be_near(found, &expected, NEAR, "view");
        }
    }
}

/// The results are within 2^-8, the precision of an H100; the fourth channel has no gamma curve.
#[test]
fn colours_become_light() {
    let elements = Elements::random(Format::U8, 4, [256, 0, 0], 27);
    let at: Vec<_> = (0..256_u16)
        .map(|x| [f32::from(x) + 0.5, 0.0, 0.0, 0.0])
        .collect();
    let light = |value: f64| match value {
        ..=0.04045 => value / 12.92,
        _ => ((value + 0.055) / 1.055).powf(2.4),
    };
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, 0);
        let texture = Texture::new(&fixture, &array.resource(), &reading(CLAMP, SRGB));
        let found = look::<[f32; 4]>(&texture, "line", &at);
        for (x, found) in found.iter().enumerate() {
            let mut expected = [0, 1, 2, 3].map(|channel| elements.number([x, 0, 0], channel));
            must_be_near(&found[3..], &expected[3..], NEAR, "fourth");
            expected = expected.map(light);
            must_be_near(&found[..3], &expected[..3], 1.0 / 256.0, "colour");
        }
    }
}
