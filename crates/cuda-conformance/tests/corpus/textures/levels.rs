//! Mipmap levels: selected explicitly and by gradients, nearest and interpolated.

use cuda_sys::{CUDA_RESOURCE_VIEW_DESC, CUfilter_mode};

use super::elements::{Elements, Format, filter, place};
use super::exact::direction;
use super::owners::{
    CLAMP, CUBEMAP, LAYERED, Mipmap, NORMALIZED, Texture, WRAP, filtering, reading,
};
use super::{look, must_be_near};
use crate::support::{everywhere, numbers};

/// Levels of random numbers; extents of 0 and the number of layers are the same in each level.
fn levels(extent: [usize; 3], flags: u32, count: usize) -> Vec<Elements> {
    (0..count)
        .map(|level| {
            let mut extent = extent;
            let halved = if flags & (LAYERED | CUBEMAP) == 0 {
                3
            } else {
                2
            };
            for axis in extent.iter_mut().take(halved).filter(|axis| **axis > 0) {
                *axis = (*axis >> level).max(1);
            }
            Elements::random(Format::F32, 1, extent, 50 + level as u64)
        })
        .collect()
}

/// Reads the nearest level and its nearest element, at points that are not between two.
#[test]
fn nearest_ones() {
    let mut random = numbers(60);
    for fixture in everywhere() {
        for (extent, flags, kernel, axes) in [
            ([32, 0, 0], 0, "line_lod", 1),
            ([32, 24, 0], 0, "plane_lod", 2),
            ([12, 10, 8], 0, "space_lod", 3),
            ([16, 16, 3], LAYERED, "planes_lod", 2),
            ([32, 0, 3], LAYERED, "lines_lod", 1),
        ] {
            let all = levels(extent, flags, 4);
            let mipmap = Mipmap::new(&fixture, &all, flags);
            let mut desc = reading(WRAP, NORMALIZED);
            desc.maxMipmapLevelClamp = 10.0;
            let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
            let chosen: Vec<(usize, [usize; 3], f32)> = (0..200)
                .map(|_| {
                    let level = random.usize(0..4);
                    let at = all[level].size().map(|axis| random.usize(0..axis));
                    (level, at, level as f32 + random.f32() * 0.8 - 0.4)
                })
                .collect();
            let at: Vec<_> = chosen
                .iter()
                .map(|(level, at, detail)| {
                    let size = all[*level].size();
                    let [x, y, z] =
                        [0, 1, 2].map(|axis| (at[axis] as f32 + 0.3) / size[axis] as f32);
                    let z = if flags == LAYERED { at[2] as f32 } else { z };
                    [x, y, z, *detail]
                })
                .collect();
            let found = look::<[f32; 4]>(&texture, kernel, &at);
            for (found, (level, at, detail)) in found.iter().zip(chosen) {
                let mut at = at;
                for (axis, at) in at.iter_mut().enumerate().skip(axes) {
                    let is_layer = axis == 2 && flags == LAYERED;
                    *at = if is_layer { *at } else { 0 };
                }
                let expected = [all[level].number(at, 0)];
                must_be_near(&found[..1], &expected, 0.0, &format!("{kernel} {detail}"));
            }
        }
    }
}

/// Reads levels of detail outside of the range, and with the bias and the clamps of the sampler.
#[test]
fn bias_and_bounds() {
    let all = levels([64, 64, 0], 0, 5);
    let details = [-3.0, 0.0, 1.0, 2.0, 3.0, 4.0, 9.0_f32];
    let at: Vec<_> = details.map(|detail| [0.3, 0.7, 0.0, detail]).into();
    for fixture in everywhere() {
        let mipmap = Mipmap::new(&fixture, &all, 0);
        for (bias, least, most) in [
            (0.0, 0.0, 10.0),
            (1.0, 0.0, 10.0),
            (-2.0, 0.0, 10.0),
            (0.0, 1.0, 3.0),
            (2.0, 1.0, 3.0),
            (0.0, 0.0, 0.0),
        ] {
            let mut desc = reading(CLAMP, NORMALIZED);
            desc.mipmapLevelBias = bias;
            (desc.minMipmapLevelClamp, desc.maxMipmapLevelClamp) = (least, most);
            let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
            let found = look::<[f32; 4]>(&texture, "plane_lod", &at);
            for (found, detail) in found.iter().zip(details) {
                let level = (detail + bias).clamp(least, most).clamp(0.0, 4.0) as usize;
                let [width, height, _] = all[level].size();
                let at = [
                    (0.3 * width as f32) as usize,
                    (0.7 * height as f32) as usize,
                    0,
                ];
                let expected = [all[level].number(at, 0)];
                let what = format!("{detail} + {bias} in {least}..{most} on {}", fixture.name);
                must_be_near(&found[..1], &expected, 0.0, &what);
            }
        }
    }
}

/// Interpolates between two levels, and in each between its elements.
#[test]
fn between_levels() {
    let all = levels([40, 36, 0], 0, 4);
    let mut random = numbers(61);
    let at: Vec<[f32; 4]> = (0..300)
        .map(|_| {
            let [x, y] = [(); 2].map(|()| random.f32() * 3.0 - 1.0);
            [x, y, 0.0, random.f32() * 3.0]
        })
        .collect();
    let range = all.iter().map(|level| level.range(0.0)).fold(0.0, f64::max);
    for fixture in everywhere() {
        let mipmap = Mipmap::new(&fixture, &all, 0);
        let mut desc = filtering(WRAP, NORMALIZED);
        desc.mipmapFilterMode = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
        desc.maxMipmapLevelClamp = 10.0;
        // `CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION`
        desc.flags |= 0x20;
        let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
        for (found, at) in look::<[f32; 4]>(&texture, "plane_lod", &at).iter().zip(&at) {
            let [x, y, _, detail] = at.map(f64::from);
            let value = |level: usize| {
                let [width, height, _] = all[level].size();
                let at = [x * width as f64, y * height as f64];
                filter(&all[level], WRAP, 0.0, &at, 0, 0)
            };
            let (first, rest) = (detail.floor() as usize, detail - detail.floor());
            let expected = (1.0 - rest) * value(first) + rest * value((first + 1).min(3));
            // Two dimensions and the levels.
            let bound = range * 3.0 / 256.0 + 1e-6;
            must_be_near(
                &found[..1],
                &[expected],
                bound,
                &format!("{at:?} on {}", fixture.name),
            );
        }
    }
}

/// A level has half as many elements per dimension as the previous one: twice the gradient selects
/// the next level.
#[test]
fn by_gradients() {
    let all = levels([64, 32, 0], 0, 5);
    let line = levels([64, 0, 0], 0, 5);
    let mut random = numbers(62);
    let chosen: Vec<(usize, bool)> = (0..200)
        .map(|_| (random.usize(0..5), random.bool()))
        .collect();
    // The steps between points, in elements of the largest level, not near the switch to the next
    // level.
    let steps: Vec<f32> = chosen
        .iter()
        .map(|(level, _)| (*level as f32 + random.f32() * 0.6 - 0.3).exp2())
        .collect();
    let spots: Vec<[f32; 2]> = chosen
        .iter()
        .map(|_| [(); 2].map(|()| random.f32()))
        .collect();
    for fixture in everywhere() {
        for (kernel, all) in [("plane_grad", &all), ("line_grad", &line)] {
            let size = all[0].size();
            let mipmap = Mipmap::new(&fixture, all, 0);
            let mut desc = reading(CLAMP, NORMALIZED);
            desc.maxMipmapLevelClamp = 10.0;
            let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
            let height = if kernel == "line_grad" {
                size[0]
            } else {
                size[1]
            };
            let at: Vec<_> = chosen
                .iter()
                .zip(&steps)
                .zip(&spots)
                .map(|(((level, in_x), step), spot)| {
                    // The centre of an element of that level.
                    let middle = |axis: usize| {
                        let size = all[*level].size()[axis] as f32;
                        ((spot[axis] * size).floor().min(size - 1.0) + 0.5) / size
                    };
                    let (x, y) = (step / size[0] as f32, step / height as f32);
                    let (x, y) = if *in_x { (x, y / 3.0) } else { (x / 3.0, y) };
                    [middle(0), middle(1), x, y]
                })
                .collect();
            let found = look::<[f32; 4]>(&texture, kernel, &at);
            for ((found, at), (level, _)) in found.iter().zip(&at).zip(&chosen) {
                let size = all[*level].size();
                let [x, y] = [0, 1].map(|axis| {
                    let at = (at[axis] * size[axis] as f32) as i64;
                    place(CLAMP, at, size[axis]).unwrap()
                });
                let expected = [all[*level].number([x, y, 0], 0)];
                must_be_near(&found[..1], &expected, 0.0, &format!("{kernel} {at:?}"));
            }
        }
    }
}

#[test]
fn by_gradients_in_other_shapes() {
    let mut random = numbers(63);
    for fixture in everywhere() {
        for (extent, flags, kernel) in [
            ([32, 16, 32], 0, "space_grad"),
            ([32, 16, 3], LAYERED, "planes_grad"),
            ([32, 0, 3], LAYERED, "lines_grad"),
        ] {
            let all = levels(extent, flags, 4);
            let mipmap = Mipmap::new(&fixture, &all, flags);
            let mut desc = reading(CLAMP, NORMALIZED);
            desc.maxMipmapLevelClamp = 10.0;
            let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
            let chosen: Vec<(usize, [usize; 3])> = (0..200)
                .map(|_| {
                    let level = random.usize(0..4);
                    (level, all[level].size().map(|axis| random.usize(0..axis)))
                })
                .collect();
            let at: Vec<_> = chosen
                .iter()
                .map(|(level, at)| {
                    let size = all[*level].size();
                    let middle = |axis: usize| (at[axis] as f32 + 0.5) / size[axis] as f32;
                    let z = if flags == LAYERED {
                        at[2] as f32
                    } else {
                        middle(2)
                    };
                    let step = (*level as f32 + random.f32() * 0.6 - 0.3).exp2() / 32.0;
                    [middle(0), middle(1), z, step]
                })
                .collect();
            let found = look::<[f32; 4]>(&texture, kernel, &at);
            for (found, (level, at)) in found.iter().zip(chosen) {
                let expected = [all[level].number(at, 0)];
                must_be_near(
                    &found[..1],
                    &expected,
                    0.0,
                    &format!("{kernel} {level} {at:?}"),
                );
            }
        }
    }
}

#[test]
fn cube_maps() {
    for fixture in everywhere() {
        for (layers, flags, kernel) in [
            (6, CUBEMAP, "cube_lod"),
            (12, CUBEMAP | LAYERED, "cubes_lod"),
        ] {
            let all = levels([16, 16, layers], flags, 3);
            let mipmap = Mipmap::new(&fixture, &all, flags);
            let mut desc = reading(CLAMP, NORMALIZED);
            desc.maxMipmapLevelClamp = 10.0;
            let texture = Texture::new(&fixture, &mipmap.resource(), &desc);
            for (level, elements) in all.iter().enumerate() {
                let size = elements.size()[0];
                let places: Vec<[usize; 3]> = (0..size * size * layers)
                    .map(|at| [at % size, at / size % size, at / size / size])
                    .collect();
                let at: Vec<_> = places
                    .iter()
                    .map(|[x, y, layer]| {
                        let spot = [*x, *y].map(|at| (at as f32 + 0.6) / size as f32 * 2.0 - 1.0);
                        let [x, y, z] = direction(layer % 6, spot, 0.5);
                        [x, y, z, (layer / 6 * 16 + level) as f32]
                    })
                    .collect();
                let found = look::<[f32; 4]>(&texture, kernel, &at);
                for (found, place) in found.iter().zip(places) {
                    let expected = [elements.number(place, 0)];
                    must_be_near(
                        &found[..1],
                        &expected,
                        0.0,
                        &format!("{kernel} {level} {place:?}"),
                    );
                }
            }
        }
    }
}

/// Views the levels 1 to 2 of four: the first of them becomes level 0.
#[test]
fn a_view_of_levels() {
    let all = levels([32, 32, 0], 0, 4);
    // SAFETY: zero is a valid value of each field.
    let mut view: CUDA_RESOURCE_VIEW_DESC = unsafe { std::mem::zeroed() };
    view.format = cuda_sys::CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32;
    (view.width, view.height) = (32, 32);
    (view.firstMipmapLevel, view.lastMipmapLevel) = (1, 2);
    let at: Vec<_> = [0.0, 1.0, 5.0].map(|detail| [0.6, 0.2, 0.0, detail]).into();
    for fixture in everywhere() {
        let mipmap = Mipmap::new(&fixture, &all, 0);
        let mut desc = reading(CLAMP, NORMALIZED);
        desc.maxMipmapLevelClamp = 10.0;
        let resource = mipmap.resource();
        let texture = Texture::with_view(&fixture, &resource, &desc, Some(&view));
        let found = look::<[f32; 4]>(&texture, "plane_lod", &at);
        for (found, level) in found.iter().zip([1, 2, 2]) {
            let size = all[level].size()[0] as f32;
            let at = [(0.6 * size) as usize, (0.2 * size) as usize, 0];
            must_be_near(&found[..1], &[all[level].number(at, 0)], 0.0, "view");
        }
    }
}
