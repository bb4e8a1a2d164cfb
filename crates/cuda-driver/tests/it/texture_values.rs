//! The values that textures return: all formats, filters, address modes and dimensions, compared
//! with the formulas of the programming guide, and a GPU compared with the software device.

use std::collections::HashMap;
use std::sync::Arc;

use cuda_driver::memory::{PitchedBuffer, SharedSlice};
use cuda_driver::prelude::*;
use cuda_driver::texture::{
    AddressMode, Array, ArrayShape, Filter, ReadMode, Sampler, Texel, Texture,
};
use half::f16;

use crate::support::{Fixture, gpu, software};
use crate::texture_model::{Image, Point, direction, is_float, is_small_integer};

const TEXTURE: &str = include_str!("kernels/texture.ptx");

/// The points at which each texture is read.
const POINTS: usize = 48;

/// The memory of a texture, and the coordinates with which it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Dim {
    OneD,
    TwoD,
    ThreeD,
    OneDLayered,
    TwoDLayered,
    Cube,
    CubeLayered,
    Pitched,
    Linear,
}

const DIMS: [Dim; 9] = [
    Dim::OneD,
    Dim::TwoD,
    Dim::ThreeD,
    Dim::OneDLayered,
    Dim::TwoDLayered,
    Dim::Cube,
    Dim::CubeLayered,
    Dim::Pitched,
    Dim::Linear,
];

impl Dim {
    fn shape(self) -> ArrayShape {
        match self {
            Self::OneD => ArrayShape::one_d(23),
            Self::Linear => ArrayShape::one_d(64),
            Self::TwoD | Self::Pitched => ArrayShape::two_d(13, 9),
            Self::ThreeD => ArrayShape::three_d(7, 6, 5),
            Self::OneDLayered => ArrayShape::one_d_layered(17, 3),
            Self::TwoDLayered => ArrayShape::two_d_layered(9, 7, 3),
            Self::Cube => ArrayShape::cube(8),
            Self::CubeLayered => ArrayShape::cube_layered(6, 2),
        }
    }

    fn is_cube(self) -> bool {
        matches!(self, Self::Cube | Self::CubeLayered)
    }

    /// The number of coordinates that select an element.
    fn axes(self) -> usize {
        match self {
            Self::OneD | Self::OneDLayered | Self::Linear => 1,
            Self::ThreeD => 3,
            _ => 2,
        }
    }

    fn kernel(self, is_number: bool) -> String {
        let name = match self {
            Self::OneD => "look_1d",
            Self::TwoD | Self::Pitched => "look_2d",
            Self::ThreeD => "look_3d",
            Self::OneDLayered => "look_1d_layered",
            Self::TwoDLayered => "look_2d_layered",
            Self::Cube => "look_cube",
            Self::CubeLayered => "look_cube_layered",
            Self::Linear => "fetch",
        };
        format!("{name}{}", if is_number { "" } else { "_int" })
    }
}

/// One way to read a texture.
#[derive(Clone, Copy, Debug)]
struct How {
    dim: Dim,
    filter: Filter,
    read: ReadMode,
    mode: AddressMode,
    is_normalized: bool,
}

impl How {
    /// All ways to read elements of `T`.
    fn all<T: Texel>() -> Vec<Self> {
        let mut all = Vec::new();
        let reads: &[ReadMode] = match is_small_integer::<T>() {
            true => &[ReadMode::Element, ReadMode::NormalizedFloat],
            false => &[ReadMode::Element],
        };
        for dim in DIMS {
            let modes: &[(AddressMode, bool)] = match dim {
                Dim::Linear => &[(AddressMode::Clamp, false)],
                Dim::Cube | Dim::CubeLayered => &[(AddressMode::Clamp, true)],
                _ => &[
                    (AddressMode::Clamp, false),
                    (AddressMode::Border, false),
                    (AddressMode::Clamp, true),
                    (AddressMode::Border, true),
                    (AddressMode::Wrap, true),
                    (AddressMode::Mirror, true),
                ],
            };
            for &(mode, is_normalized) in modes {
                for &read in reads {
                    let is_number = is_float(T::FORMAT) || read == ReadMode::NormalizedFloat;
                    for filter in [Filter::Point, Filter::Linear] {
                        if filter == Filter::Point || is_number && dim != Dim::Linear {
                            all.push(Self {
                                dim,
                                filter,
                                read,
                                mode,
                                is_normalized,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    fn is_number<T: Texel>(&self) -> bool {
        is_float(T::FORMAT) || self.read == ReadMode::NormalizedFloat
    }

    fn sampler(&self) -> Sampler {
        let sampler = Sampler::new()
            .address(self.mode)
            .filter(self.filter)
            .read(self.read);
        match self.is_normalized {
            true => sampler.normalized_coordinates(),
            false => sampler,
        }
    }

    /// Returns random points, each as the kernel gets it and in units of elements. A point of the
    /// nearest element is not close to an edge between elements.
    fn points(&self, random: &mut fastrand::Rng) -> Vec<([f32; 4], Point)> {
        let extent = self.dim.shape().extent();
        let size = [extent.width, extent.height, extent.depth];
        (0..POINTS)
            .map(|_| match self.dim {
                Dim::Linear => {
                    let index = random.usize(0..size[0]);
                    let at = [index as f64, 0.0, 0.0];
                    ([index as f32, 0.0, 0.0, 0.0], Point { at, layer: 0 })
                }
                Dim::Cube | Dim::CubeLayered => {
                    // Away from the edges of a face, where several faces contribute.
                    let width = size[0] as f32;
                    let spot = [(); 2].map(|()| {
                        let inside = random.usize(1..size[0] - 1) as f32;
                        (inside + 0.2 + 0.6 * random.f32()) / width * 2.0 - 1.0
                    });
                    let layer = random.usize(0..size[2]);
                    let [x, y, z] = direction(layer % 6, spot);
                    let at = spot.map(|at| (f64::from(at) + 1.0) / 2.0 * f64::from(width));
                    let point = Point {
                        at: [at[0], at[1], 0.0],
                        layer,
                    };
                    ([x, y, z, (layer / 6) as f32], point)
                }
                _ => {
                    let axes = self.dim.axes();
                    let layer = match axes {
                        3 => 0,
                        _ => random.usize(0..size[2]),
                    };
                    let mut given = [0.0, 0.0, 0.0, layer as f32];
                    let mut at = [0.0; 3];
                    for axis in 0..axes {
                        let whole = random.i32(-2 * size[axis] as i32..3 * size[axis] as i32);
                        let place = whole as f32 + 0.2 + 0.6 * random.f32();
                        let scale = if self.is_normalized {
                            size[axis] as f32
                        } else {
                            1.0
                        };
                        given[axis] = place / scale;
                        at[axis] = f64::from(given[axis]) * f64::from(scale);
                    }
                    (given, Point { at, layer })
                }
            })
            .collect()
    }
}

/// A device with its kernels and its results, case by case.
struct Device {
    fixture: Fixture,
    stream: Stream,
    kernels: HashMap<String, Function>,
}

impl Device {
    fn new(fixture: Fixture) -> Self {
        let stream = fixture.stream();
        let module = Module::load(&fixture.context, &Ptx::new(TEXTURE).unwrap()).unwrap();
        let names = DIMS
            .into_iter()
            .flat_map(|dim| [dim.kernel(true), dim.kernel(false)]);
        let kernels = names
            .map(|name| (name.clone(), module.function(&name).unwrap()))
            .collect();
        Self {
            fixture,
            stream,
            kernels,
        }
    }

    /// Creates a texture of `image`.
    fn texture<T: Texel>(&self, image: &Image<T>, how: &How) -> Texture {
        let (stream, sampler) = (&self.stream, how.sampler());
        match how.dim {
            Dim::Pitched => {
                let extent = image.shape.extent();
                let rows = PitchedBuffer::from_host(stream, extent, &image.texels).unwrap();
                Texture::new(&Arc::new(rows), &sampler).unwrap()
            }
            Dim::Linear => {
                let buffer = DeviceBuffer::from_host(stream, &image.texels).unwrap();
                Texture::new(&SharedSlice::from(buffer), &sampler).unwrap()
            }
            _ => {
                let array = Array::from_host(stream, &image.shape, &image.texels).unwrap();
                Texture::new(&array, &sampler).unwrap()
            }
        }
    }

    /// Reads the texture at each point. The array may have been dropped.
    fn look(&self, texture: &Texture, kernel: &str, at: &[[f32; 4]]) -> Vec<[u32; 4]> {
        let len = at.len() as u32;
        let at = DeviceBuffer::from_host(&self.stream, at).unwrap();
        let mut out = DeviceBuffer::<[u32; 4]>::zeroed(&self.stream, len as usize).unwrap();
        let config = LaunchConfig::for_num_elems(len).unwrap();
        let args = (texture, &at, &mut out, len);
        // SAFETY: the kernel reads a point and writes four words for each index below `len`.
        unsafe { self.stream.launch(&self.kernels[kernel], config, args) }.unwrap();
        out.to_vec().unwrap()
    }
}

/// Counts the results of a device.
#[derive(Default, Debug)]
struct Counts {
    cases: usize,
    values: usize,
    /// The values that are equal in every bit to those of the software device.
    equal: usize,
    /// The largest difference between a filtered value and the exact one, in parts of the bound.
    largest: f64,
}

/// Compares all ways to read elements of `T` on all devices.
fn compare<T: Texel>(devices: &[Device], counts: &mut [Counts]) {
    let mut random = fastrand::Rng::with_seed(u64::from(T::FORMAT.0) * 8 + u64::from(T::CHANNELS));
    for how in How::all::<T>() {
        let image = Image::<T>::random(how.dim.shape(), &mut random);
        let points = how.points(&mut random);
        let at: Vec<[f32; 4]> = points.iter().map(|(at, _)| *at).collect();
        let kernel = how.dim.kernel(how.is_number::<T>());
        let range = if how.is_number::<T>() {
            image.range()
        } else {
            0.0
        };
        let mut first: Option<Vec<[u32; 4]>> = None;
        for (device, counts) in devices.iter().zip(&mut *counts) {
            let texture = device.texture(&image, &how);
            let found = device.look(&texture, &kernel, &at);
            let what = format!(
                "{how:?} of {} x {:?} on {}",
                T::CHANNELS,
                T::FORMAT,
                device.fixture.name
            );
            counts.cases += 1;
            for (index, (found, (given, point))) in found.iter().zip(&points).enumerate() {
                for channel in 0..T::CHANNELS as usize {
                    let bits = found[channel];
                    let what = format!("{what}, channel {channel} at {given:?}");
                    check(&image, &how, (point, channel), (bits, range), &what, counts);
                    counts.values += 1;
                    let of_first = first.as_ref().map_or(bits, |first| first[index][channel]);
                    counts.equal += usize::from(bits == of_first);
                }
            }
            first.get_or_insert(found);
        }
    }
}

/// Compares one value with the formulas.
fn check<T: Texel>(
    image: &Image<T>,
    how: &How,
    (point, channel): (&Point, usize),
    (bits, range): (u32, f64),
    what: &str,
    counts: &mut Counts,
) {
    let axes = how.dim.axes();
    let found = f64::from(f32::from_bits(bits));
    match how.filter {
        Filter::Point => {
            let place = image.nearest(how.mode, point, axes);
            if how.is_number::<T>() && !is_float(T::FORMAT) {
                let exact = place.map_or(0.0, |at| image.number(at, channel));
                assert!(
                    (found - exact).abs() <= 1e-6,
                    "{what}: {found}, not {exact}"
                );
            } else {
                let exact = place.map_or(0, |at| image.bits(at, channel));
                assert_eq!(bits, exact, "{what}: {bits:#x}, not {exact:#x}");
            }
        }
        Filter::Linear => {
            let exact = image.filtered(how.mode, point, axes, channel);
            // The weights have 8 fraction bits in each dimension.
            let slack = if how.dim.is_cube() { 1e-5 } else { 1e-6 };
            let bound = range * axes as f64 / 256.0 + slack;
            let error = (found - exact).abs();
            assert!(
                error <= bound,
                "{what}: {found}, not {exact} within {bound}"
            );
            counts.largest = counts.largest.max(error / bound);
        }
    }
}

/// The documented bounds: the nearest element is equal in every bit, normalized integers are within
/// 1e-6, and filtered values are within 1/256 of the range of the elements for each dimension.
#[test]
fn textures_return_the_documented_values() {
    let mut devices = vec![Device::new(software(cuda_sim::Builder::new()))];
    devices.extend(gpu().map(Device::new));
    let mut counts: Vec<Counts> = devices.iter().map(|_| Counts::default()).collect();
    macro_rules! compare_all {
        ($($ty:ty)*) => {
            $(
                compare::<$ty>(&devices, &mut counts);
                compare::<[$ty; 2]>(&devices, &mut counts);
                compare::<[$ty; 4]>(&devices, &mut counts);
            )*
        };
    }
    compare_all!(u8 i8 u16 i16 u32 i32 f16 f32);
    for (device, counts) in devices.iter().zip(&counts) {
        println!(
            "{}: {} cases, {} values within the documented bounds, {} of them bit-equal to the \
             software device; the largest filter error is {:.3} of the bound",
            device.fixture.name, counts.cases, counts.values, counts.equal, counts.largest
        );
    }
    // 36 formats with their read modes, of which 18 are filtered as well. Each of these 54 is read
    // in 6 modes from 6 kinds of memory, and in 1 from 2 kinds of cubes; linear memory has no
    // filter.
    assert_eq!(counts[0].cases, 54 * 6 * 6 + 54 * 2 + 36);
}
