//! Image columns through tensor maps (`im2col`): the matrix of a convolution compared with the
//! loops that define it.

use cuda_driver::prelude::*;
use cuda_driver::tensor_map::{Im2col, TensorDataType, TensorLayout, TensorMap, TensorSwizzle};
use cuda_nvrtc::{Options, Program};

use crate::nvrtc::nvrtc;
use crate::support::{Fixture, skip};
use crate::tensor_map::{made, with_memory};

/// Kernels for images of `$rank` dimensions. A block copies the column `blockIdx.x` of the pixels
/// for the filter tap `blockIdx.y` and the channels `blockIdx.z`. `shape` lists, each for width,
/// height and depth, the number of filters of an image, stride, padding, taps and dilation; then
/// the channels, the pixels and the bytes of a block.
const KERNELS: &str = include_str!("kernels/columns.cu");

/// Returns the source for images of `rank` dimensions.
fn source(rank: usize) -> String {
    let numbered = |from: usize, count: usize| {
        let names: Vec<String> = (from..from + count).map(|i| format!("%{i}")).collect();
        names.join(", ")
    };
    // Channels, then width, height and depth as far as they exist, then images.
    let places = [0, 1, 2, 3, 4]
        .into_iter()
        .filter(|d| d + 1 < rank || *d == 4);
    let places = places.map(|d| format!("\"r\"(place.at[{d}])"));
    let offsets = (0..rank - 2).map(|d| format!("\"h\"(place.offset[{d}])"));
    let places: Vec<String> = places.chain(offsets).collect();
    let mut source = KERNELS.replace("$places", &places.join(", "));
    for (index, before) in [1, 2, 3].into_iter().enumerate() {
        source = source
            .replace(&format!("$at{index}"), &numbered(before, rank))
            .replace(
                &format!("$offsets{index}"),
                &numbered(before + rank, rank - 2),
            );
    }
    let map = "struct alignas(64) TensorMap { unsigned long long opaque[16]; };\n";
    format!("{map}{}", source.replace("$rank", &rank.to_string()))
}

/// A convolution. Arrays of three are for width, height and depth, in this order.
#[derive(Clone, Copy, Debug)]
struct Convolution {
    rank: usize,
    data_type: TensorDataType,
    /// The size of an element in bytes.
    size: usize,
    swizzle: TensorSwizzle,
    channels: usize,
    image: [usize; 3],
    images: usize,
    /// The number of unused bytes after each pixel, row and so on.
    gap: usize,
    taps: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
    /// The padding before the first pixel and after the last one.
    padding: [[usize; 2]; 3],
    /// The number of channels and of pixels in one copy.
    block: (usize, usize),
}

impl Convolution {
    /// Returns the distance between the first and the last tap of a filter.
    fn reach(&self, d: usize) -> usize {
        (self.taps[d] - 1) * self.dilation[d]
    }

    /// Returns the number of filters along a dimension of an image.
    fn filters(&self, d: usize) -> usize {
        let [before, behind] = self.padding[d];
        (before + self.image[d] + behind - self.reach(d) - 1) / self.stride[d] + 1
    }

    /// Returns the distances in bytes between adjacent pixels, rows, planes and images.
    fn strides(&self) -> [usize; 4] {
        let mut strides = [(self.channels * self.size).next_multiple_of(16) + self.gap; 4];
        for d in 0..3 {
            strides[d + 1] = strides[d] * self.image[d];
            // Only dimensions larger than 1 have a gap.
            if self.image[d] > 1 {
                strides[d + 1] += self.gap;
            }
        }
        strides
    }

    fn bytes(&self) -> usize {
        self.strides()[3] * self.images
    }

    /// Returns the number of channels that are written, rounded up to 16 bytes.
    fn written(&self) -> usize {
        (self.channels * self.size).next_multiple_of(16) / self.size
    }

    /// Returns the byte offset of an element of a pixel in the tensor, if the pixel is inside.
    fn element(&self, channel: usize, pixel: [i64; 3], image: usize) -> Option<usize> {
        let strides = self.strides();
        let mut at = channel * self.size + image * strides[3];
        for d in 0..3 {
            let place = usize::try_from(pixel[d])
                .ok()
                .filter(|&at| at < self.image[d]);
            at += place? * strides[d];
        }
        (image < self.images).then_some(at)
    }

    fn map(&self, memory: &DeviceSlice<'_, u8>) -> Result<TensorMap, cuda_driver::Error> {
        let inner = self.rank - 2;
        let with_ends =
            |first: u64, inner: Vec<u64>, last: u64| [&[first][..], &inner, &[last]].concat();
        let sizes = self.image[..inner].iter().map(|&n| n as u64).collect();
        let dims = with_ends(self.channels as u64, sizes, self.images as u64);
        let strides = self.strides();
        let mut bytes: Vec<u64> = strides[..inner].iter().map(|&n| n as u64).collect();
        bytes.push(strides[3] as u64);
        let steps: Vec<u32> = with_ends(
            1,
            self.stride[..inner].iter().map(|&n| n as u64).collect(),
            1,
        )
        .iter()
        .map(|&n| n as u32)
        .collect();
        let lower: Vec<i32> = (0..inner).map(|d| -(self.padding[d][0] as i32)).collect();
        let upper = |d: usize| self.padding[d][1] as i32 - self.reach(d) as i32;
        let upper: Vec<i32> = (0..inner).map(upper).collect();
        let layout = TensorLayout::new(self.data_type, &dims)
            .strides(&bytes)
            .element_strides(&steps)
            .swizzle(self.swizzle);
        let im2col = Im2col {
            lower_corner: &lower,
            upper_corner: &upper,
            channels_per_pixel: self.block.0 as u32,
            pixels_per_column: self.block.1 as u32,
        };
        TensorMap::im2col(memory, &layout, &im2col)
    }

    fn block_bytes(&self) -> usize {
        self.block.0 * self.block.1 * self.size
    }

    /// Returns the number of pixel blocks, taps and channel blocks.
    fn grid(&self) -> (usize, usize, usize) {
        let pixels = self.images * (0..3).map(|d| self.filters(d)).product::<usize>();
        (
            pixels.div_ceil(self.block.1),
            self.taps.iter().product(),
            self.channels.div_ceil(self.block.0),
        )
    }

    fn config(&self) -> LaunchConfig {
        let (x, y, z) = self.grid();
        LaunchConfig::new((x as u32, y as u32, z as u32), 64)
    }

    /// Returns the numbers that the kernels take as `shape`.
    fn shape(&self) -> Vec<i32> {
        let filters = [0, 1, 2].map(|d| self.filters(d));
        let before = self.padding.map(|[before, _]| before);
        [filters, self.stride, before, self.taps, self.dilation]
            .concat()
            .into_iter()
            .chain([self.block.0, self.block.1, self.block_bytes()])
            .map(|number| number as i32)
            .collect()
    }

    /// Runs the loops of the convolution, where each pixel has `channels` channels, and calls
    /// `tell` for each element of the matrix with its offset in shared memory (block after block)
    /// and, if it is inside, its offset in the tensor.
    fn each_element(&self, channels: usize, mut tell: impl FnMut(usize, Option<usize>)) {
        let (blocks, taps, chunks) = self.grid();
        let [q, p, o] = [0, 1, 2].map(|d| self.filters(d));
        for channel in 0..chunks * self.block.0 {
            for tap in 0..taps {
                let (s, r, t) = (
                    tap % self.taps[0],
                    tap / self.taps[0] % self.taps[1],
                    tap / self.taps[0] / self.taps[1],
                );
                let mut row = 0;
                // Includes images after the last one, whose pixels are all outside.
                for image in 0..=self.images + self.block.1 {
                    for (z, y, x) in (0..o)
                        .flat_map(|z| (0..p).flat_map(move |y| (0..q).map(move |x| (z, y, x))))
                    {
                        if row == blocks * self.block.1 {
                            break;
                        }
                        let along = |d: usize, filter: usize, tap: usize| {
                            let first = filter * self.stride[d] + tap * self.dilation[d];
                            first as i64 - self.padding[d][0] as i64
                        };
                        let pixel = [along(0, x, s), along(1, y, r), along(2, z, t)];
                        let chunk = channel / self.block.0 * taps + tap;
                        let block = chunk * blocks + row / self.block.1;
                        let shared = self.in_shared(row % self.block.1, channel % self.block.0);
                        let place = self.element(channel, pixel, image);
                        tell(
                            block * self.block_bytes() + shared,
                            place.filter(|_| channel < channels),
                        );
                        row += 1;
                    }
                }
                assert_eq!(row, blocks * self.block.1);
            }
        }
    }

    /// Returns the offset of a channel of a pixel in shared memory.
    fn in_shared(&self, pixel: usize, channel: usize) -> usize {
        let at = (pixel * self.block.0 + channel) * self.size;
        let (line, chunk, byte) = (at / 128, at / 16 % 8, at % 16);
        let flip = match self.swizzle {
            TensorSwizzle::Bytes32 => line & 1,
            TensorSwizzle::Bytes64 => line & 3,
            TensorSwizzle::Bytes128 => line & 7,
            _ => 0,
        };
        line * 128 + (chunk ^ flip) * 16 + byte
    }
}

/// Rows of 3 images, with width only: a filter of 5 taps with 2 pixels of padding.
const ROWS: Convolution = Convolution {
    rank: 3,
    data_type: TensorDataType::F32,
    size: 4,
    swizzle: TensorSwizzle::None,
    channels: 24,
    image: [37, 1, 1],
    images: 3,
    gap: 0,
    taps: [5, 1, 1],
    stride: [1, 1, 1],
    dilation: [1, 1, 1],
    padding: [[2, 2], [0, 0], [0, 0]],
    block: (8, 32),
};

/// Images whose parameters for width and height all differ.
const PLANES: Convolution = Convolution {
    rank: 4,
    image: [9, 14, 1],
    channels: 16,
    taps: [3, 2, 1],
    padding: [[1, 1], [0, 3], [0, 0]],
    block: (16, 32),
    ..ROWS
};

/// Images with width, height and depth.
const SOLIDS: Convolution = Convolution {
    rank: 5,
    image: [7, 5, 4],
    images: 2,
    channels: 8,
    taps: [2, 3, 2],
    padding: [[0, 1], [2, 1], [1, 0]],
    block: (8, 48),
    ..ROWS
};

const ALL: [Convolution; 10] = [
    ROWS,
    Convolution {
        stride: [3, 1, 1],
        dilation: [2, 1, 1],
        padding: [[4, 1], [0, 0], [0, 0]],
        ..ROWS
    },
    PLANES,
    // Large strides along each dimension, and dilated taps.
    Convolution {
        stride: [2, 3, 1],
        dilation: [1, 2, 1],
        ..PLANES
    },
    Convolution {
        swizzle: TensorSwizzle::Bytes64,
        stride: [1, 2, 1],
        ..PLANES
    },
    // Channels that end within a copy, gaps between pixels, and half floats.
    Convolution {
        data_type: TensorDataType::F16,
        size: 2,
        channels: 20,
        gap: 32,
        ..PLANES
    },
    Convolution {
        data_type: TensorDataType::U8,
        size: 1,
        channels: 128,
        block: (128, 64),
        swizzle: TensorSwizzle::Bytes128,
        ..PLANES
    },
    SOLIDS,
    Convolution {
        stride: [1, 2, 1],
        dilation: [2, 1, 1],
        swizzle: TensorSwizzle::Bytes32,
        ..SOLIDS
    },
    Convolution {
        data_type: TensorDataType::I64,
        size: 8,
        stride: [2, 1, 3],
        gap: 16,
        block: (4, 48),
        ..SOLIDS
    },
];

/// Returns the kernels for each number of dimensions from 3 on; `None` if they cannot be compiled
/// for a software device.
#[track_caller]
fn modules(fixture: &Fixture, nvrtc: &cuda_nvrtc::Nvrtc) -> Option<Vec<Module>> {
    let mut modules = Vec::new();
    for rank in 3..=5 {
        let program = Program::new(nvrtc, source(rank)).name("columns.cu");
        match Module::compile(&fixture.context, &program, &Options::new()) {
            Err(error) if fixture.simulator.is_some() => {
                skip(&format!("on {}: {error}", fixture.name));
                return None;
            }
            module => modules.push(module.unwrap()),
        }
    }
    Some(modules)
}

/// Returns bytes that vary with their position, none of them zero.
fn pattern(count: usize, seed: usize) -> Vec<u8> {
    (0..count)
        .map(|i| ((i * 31 + i / 251 + seed) % 255 + 1) as u8)
        .collect()
}

#[test]
fn im2col_reads_the_elements_of_a_convolution() {
    let Some(nvrtc) = nvrtc() else { return };
    for (fixture, owner, _) in with_memory() {
        let Some(modules) = modules(&fixture, &nvrtc) else {
            continue;
        };
        for conv in &ALL {
            let bytes = pattern(conv.bytes(), conv.rank);
            let (x, y, z) = conv.grid();
            let mut expected = vec![0; x * y * z * conv.block_bytes()];
            let (mut inside, mut outside) = (0, 0);
            conv.each_element(conv.channels, |shared, place| match place {
                Some(place) => {
                    let element = &bytes[place..place + conv.size];
                    expected[shared..shared + conv.size].copy_from_slice(element);
                    inside += 1;
                }
                None => outside += 1,
            });
            assert!(
                inside > 1000 && outside > 100,
                "{conv:?}: {inside}, {outside}"
            );

            let images = DeviceBuffer::from_host(&owner, &bytes).unwrap();
            let shape = DeviceBuffer::from_host(&owner, &conv.shape()).unwrap();
            let mut out = DeviceBuffer::filled(&owner, expected.len(), 0xaa_u8).unwrap();
            let Some(map) = made(&fixture, conv.map(&images.as_slice())) else {
                continue;
            };
            let load = modules[conv.rank - 3].function(&format!("load_{}", conv.rank));
            let args = (map.reads(images.as_slice()).unwrap(), &shape, &mut out);
            // SAFETY: the kernel reads the images through a map of their memory, reads the 18
            // numbers, and writes a block of bytes for each block of the grid.
            unsafe { fixture.stream().launch(&load.unwrap(), conv.config(), args) }.unwrap();
            let found = out.to_vec().unwrap();
            let wrong = (0..found.len()).find(|&i| found[i] != expected[i]);
            assert_eq!(wrong, None, "{}: {conv:?}", fixture.name);
        }
    }
}

#[test]
fn im2col_writes_the_elements_of_a_convolution() {
    let Some(nvrtc) = nvrtc() else { return };
    for (fixture, owner, _) in with_memory() {
        let Some(modules) = modules(&fixture, &nvrtc) else {
            continue;
        };
        for conv in &ALL {
            // No write is before the first element, as a device raises an illegal instruction for
            // it.
            let conv = &Convolution {
                taps: [1; 3],
                padding: [[0, 0]; 3],
                ..*conv
            };
            let (x, y, z) = conv.grid();
            let bytes = pattern(x * y * z * conv.block_bytes(), conv.rank);
            let mut expected = vec![0xaa; conv.bytes()];
            let mut written = 0;
            conv.each_element(conv.written(), |shared, place| {
                if let Some(place) = place {
                    let element = &bytes[shared..shared + conv.size];
                    expected[place..place + conv.size].copy_from_slice(element);
                    written += 1;
                }
            });
            assert!(written > 100, "{conv:?}: {written}");

            let mut images = DeviceBuffer::filled(&owner, expected.len(), 0xaa_u8).unwrap();
            let shape = DeviceBuffer::from_host(&owner, &conv.shape()).unwrap();
            let columns = DeviceBuffer::from_host(&owner, &bytes).unwrap();
            let Some(map) = made(&fixture, conv.map(&images.as_slice())) else {
                continue;
            };
            let store = modules[conv.rank - 3].function(&format!("store_{}", conv.rank));
            let writes = map.writes(images.as_mut_slice()).unwrap();
            let args = (writes, &shape, &columns);
            // SAFETY: the kernel writes the images through a map of their memory, and reads the 18
            // numbers and a block of bytes for each block of the grid.
            unsafe {
                fixture
                    .stream()
                    .launch(&store.unwrap(), conv.config(), args)
            }
            .unwrap();
            let found = images.to_vec().unwrap();
            let wrong = (0..found.len()).find(|&i| found[i] != expected[i]);
            assert_eq!(wrong, None, "{}: {conv:?}", fixture.name);
        }
    }
}
