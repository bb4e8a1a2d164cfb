//! Linear filters, compared with the formulas of the programming guide with exact weights.

use cuda_sys::CUaddress_mode;

use super::elements::{Elements, Format, filter};
use super::exact::direction;
use super::owners::{
    Array, BORDER, CLAMP, CUBEMAP, LAYERED, MIRROR, NORMALIZED, Texture, WRAP, filtering, rows,
};
use super::{look, must_be_near};
use crate::support::{Fixture, everywhere, numbers};

/// The error bound of weights with 8 bits, in this number of dimensions.
fn bound(elements: &Elements, border: f64, axes: usize) -> f64 {
    elements.range(border) * axes as f64 / 256.0 + 1e-6
}

/// Random points in and around the elements, in units of elements, and a layer.
fn points(elements: &Elements, axes: usize, seed: u64) -> Vec<([f64; 3], usize)> {
    let (mut random, size) = (numbers(seed), elements.size());
    (0..300)
        .map(|_| {
            let at = size.map(|axis| (random.f64() * 4.0 - 1.5) * axis as f64);
            // Rounded to the float that the kernel gets.
            let at = at.map(|at| f64::from(at as f32));
            (
                at,
                if axes < 3 {
                    random.usize(0..size[2])
                } else {
                    0
                },
            )
        })
        .collect()
}

/// Compares the result of a kernel at random points with the filter.
fn must_be_filtered(
    fixture: &Fixture,
    texture: &Texture<'_>,
    elements: &Elements,
    (mode, flags, border): (CUaddress_mode, u32, f32),
    (kernel, axes): (&str, usize),
) {
    let size = elements.size();
    let mut points = points(elements, axes, 30);
    let at: Vec<_> = points
        .iter_mut()
        .map(|(at, layer)| {
            let mut given = at.map(|at| at as f32);
            if flags & NORMALIZED != 0 {
                for (axis, given) in given.iter_mut().enumerate() {
                    *given /= size[axis] as f32;
                    at[axis] = f64::from(*given) * size[axis] as f64;
                }
            }
            [given[0], given[1], given[2], *layer as f32]
        })
        .collect();
    let bound = bound(elements, border.into(), axes);
    let what = format!(
        "{kernel} {mode:?} {flags} {:?} on {}",
        elements.format, fixture.name
    );
    for (found, (at, layer)) in look::<[f32; 4]>(texture, kernel, &at).iter().zip(points) {
        let channels = 0..elements.channels;
        let expected: Vec<f64> = channels
            .map(|channel| filter(elements, mode, border.into(), &at[..axes], layer, channel))
            .collect();
        must_be_near(&found[..elements.channels], &expected, bound, &what);
    }
}

#[test]
fn planes_in_every_mode() {
    for fixture in everywhere() {
        let elements = Elements::random(Format::F32, 4, [15, 11, 0], 40);
        let array = Array::new(&fixture, &elements, 0);
        for (mode, flags) in [
            (CLAMP, 0),
            (BORDER, 0),
            (CLAMP, NORMALIZED),
            (BORDER, NORMALIZED),
            (WRAP, NORMALIZED),
            (MIRROR, NORMALIZED),
        ] {
            let border = 0.75;
            let mut desc = filtering(mode, flags);
            desc.borderColor = [border; 4];
            let texture = Texture::new(&fixture, &array.resource(), &desc);
            let how = (mode, flags, border);
            must_be_filtered(&fixture, &texture, &elements, how, ("plane", 2));
        }
    }
}

#[test]
fn every_shape() {
    for fixture in everywhere() {
        for (extent, flags, kernel, axes) in [
            ([33, 0, 0], 0, "line", 1),
            ([33, 0, 4], LAYERED, "lines", 1),
            ([9, 7, 4], LAYERED, "planes", 2),
            ([9, 7, 8], 0, "space", 3),
        ] {
            let elements = Elements::random(Format::F32, 1, extent, 41);
            let array = Array::new(&fixture, &elements, flags);
            let texture = Texture::new(&fixture, &array.resource(), &filtering(CLAMP, 0));
            let how = (CLAMP, 0, 0.0);
            must_be_filtered(&fixture, &texture, &elements, how, (kernel, axes));
        }
    }
}

/// A filter reads one dimension as one row at y = 0: with `BORDER` as the mode of the second
/// dimension, an H100 mixes each result with as much of the border. Prints what each combination of
/// modes does.
#[test]
fn one_row_is_mixed_with_the_border_above_it() {
    let border = 0.75;
    for fixture in everywhere() {
        let mut wrong = Vec::new();
        for (depth, flags, kernel) in [(0, 0, "line"), (4, LAYERED, "lines")] {
            let elements = Elements::random(Format::F32, 1, [33, 0, depth], 46);
            let array = Array::new(&fixture, &elements, flags);
            let points = points(&elements, 1, 47);
            let at: Vec<_> = points
                .iter()
                .map(|([x, ..], layer)| [*x as f32, 0.0, 0.0, *layer as f32])
                .collect();
            for (modes, mixes) in [
                ([BORDER, BORDER, BORDER], true),
                ([BORDER, CLAMP, CLAMP], false),
                ([BORDER, CLAMP, BORDER], false),
                ([CLAMP, BORDER, CLAMP], true),
                ([CLAMP, CLAMP, BORDER], false),
            ] {
                let mut desc = filtering(CLAMP, 0);
                (desc.addressMode, desc.borderColor) = (modes, [border; 4]);
                let texture = Texture::new(&fixture, &array.resource(), &desc);
                let found = look::<[f32; 4]>(&texture, kernel, &at);
                let error = |is_mixed: bool| {
                    found
                        .iter()
                        .zip(&points)
                        .fold(0.0, |most: f64, (found, (at, layer))| {
                            let border = f64::from(border);
                            let row = filter(&elements, modes[0], border, &at[..1], *layer, 0);
                            let exact = if is_mixed { (row + border) / 2.0 } else { row };
                            most.max((f64::from(found[0]) - exact).abs())
                        })
                };
                let is_mixed = mixes && kernel == "line";
                let (mixed, alone) = (error(true), error(false));
                let line = format!(
                    "{kernel} {modes:?} on {}: {mixed:.4} from the mix, {alone:.4} from the row",
                    fixture.name
                );
                println!("{line}");
                let error = if is_mixed { mixed } else { alone };
                if error > bound(&elements, border.into(), 1) {
                    wrong.push(line);
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn every_format() {
    for fixture in everywhere() {
        for format in [
            Format::U8,
            Format::S8,
            Format::U16,
            Format::S16,
            Format::F16,
        ] {
            for channels in [1, 2, 4] {
                let elements = Elements::random(format, channels, [12, 9, 0], 42);
                let array = Array::new(&fixture, &elements, 0);
                let texture = Texture::new(&fixture, &array.resource(), &filtering(CLAMP, 0));
                let how = (CLAMP, 0, 0.0);
                must_be_filtered(&fixture, &texture, &elements, how, ("plane", 2));
            }
        }
    }
}

#[test]
fn rows_of_memory() {
    let elements = Elements::random(Format::F32, 1, [20, 6, 0], 43);
    let mut bytes = vec![0xFF; 128 * 6];
    for (row, line) in elements.bytes().chunks(80).enumerate() {
        bytes[row * 128..][..80].copy_from_slice(line);
    }
    for fixture in everywhere() {
        let buffer = fixture.upload(&bytes);
        fixture.stream.synchronize().unwrap();
        let resource = rows(buffer.as_raw(), &elements, 128);
        let texture = Texture::new(&fixture, &resource, &filtering(CLAMP, 0));
        let how = (CLAMP, 0, 0.0);
        must_be_filtered(&fixture, &texture, &elements, how, ("plane", 2));
    }
}

/// Points between the centres of the outermost elements, where only one face contributes.
#[test]
fn faces_of_cubes() {
    let elements = Elements::random(Format::F32, 2, [10, 10, 6], 44);
    let mut random = numbers(45);
    let points: Vec<(usize, [f32; 2])> = (0..300)
        .map(|at| (at % 6, [(); 2].map(|()| random.f32() * 1.7 - 0.85)))
        .collect();
    let at: Vec<_> = points
        .iter()
        .map(|(face, spot)| {
            let [x, y, z] = direction(*face, *spot, 3.0);
            [x, y, z, 0.0]
        })
        .collect();
    let bound = bound(&elements, 0.0, 2) + 1e-5;
    for fixture in everywhere() {
        let array = Array::new(&fixture, &elements, CUBEMAP);
        let texture = Texture::new(&fixture, &array.resource(), &filtering(CLAMP, NORMALIZED));
        let found = look::<[f32; 4]>(&texture, "cube", &at);
        for (found, (face, spot)) in found.iter().zip(&points) {
            let at = spot.map(|at| (f64::from(at) + 1.0) * 5.0);
            let expected = [0, 1].map(|channel| filter(&elements, CLAMP, 0.0, &at, *face, channel));
            must_be_near(&found[..2], &expected, bound, "cube");
        }
    }
}
