//! Tensor maps: their limits, their memory, and tiles that are copied through them.

use cuda_driver::error::{Error, Status, TensorMapError};
use cuda_driver::prelude::*;
use cuda_driver::tensor_map::*;
use cuda_sim::Builder;

use crate::support::{Fixture, everywhere, skip, software};

const F32: TensorDataType = TensorDataType::F32;

/// A valid layout of `F32` that takes `BYTES` bytes.
fn fine() -> TensorLayout {
    TensorLayout::new(F32, &[64, 8, 4])
}

const BYTES: usize = 64 * 8 * 4 * 4;

/// Returns devices that support tensor maps, each with a stream and a buffer of `BYTES` bytes.
#[track_caller]
pub(crate) fn with_memory() -> impl Iterator<Item = (Fixture, Stream, DeviceBuffer<u8>)> {
    let able = move |fixture: &Fixture| {
        let capability = fixture.context.device().compute_capability().unwrap();
        if capability.major < 9 {
            skip(&format!("on {}: {capability}", fixture.name));
        }
        capability.major >= 9
    };
    everywhere().filter(able).map(|fixture| {
        let stream = fixture.stream();
        let memory = DeviceBuffer::zeroed(&stream, BYTES).unwrap();
        (fixture, stream, memory)
    })
}

/// Unwraps a new map; `None` if the software device does not support tensor maps.
#[track_caller]
pub(crate) fn made(fixture: &Fixture, map: Result<TensorMap, Error>) -> Option<TensorMap> {
    match map {
        Err(error)
            if fixture.simulator.is_some()
                && error.status() == Some(Status::CUDA_ERROR_NOT_SUPPORTED) =>
        {
            skip(&format!("on {}: {error}", fixture.name));
            None
        }
        map => Some(map.unwrap()),
    }
}

fn limit(map: Result<TensorMap, Error>) -> TensorMapError {
    match map {
        Err(Error::TensorMap(error)) => *error,
        other => panic!("expected a tensor map limit: {other:?}"),
    }
}

fn range(
    what: &'static str,
    dimension: Option<usize>,
    given: i64,
    (least, most): (i64, i64),
) -> TensorMapError {
    TensorMapError::OutOfRange {
        what,
        dimension,
        given,
        least,
        most,
    }
}

fn multiple(what: &'static str, dimension: Option<usize>, given: u64, of: u64) -> TensorMapError {
    TensorMapError::NotMultiple {
        what,
        dimension,
        given,
        of,
    }
}

#[test]
fn errors_name_the_limit_of_tiled_maps() {
    use TensorSwizzle as S;
    for (fixture, _, buffer) in with_memory() {
        let memory = buffer.as_slice();
        let tile: &[u32] = &[8, 8, 4];
        let of = |dims: &[u64]| TensorLayout::new(F32, dims);
        let strided = |bytes: &[u64]| fine().strides(bytes);
        let swizzled = |swizzle| fine().swizzle(swizzle);
        let packed = TensorLayout::new(TensorDataType::U6x16Align16, &[128, 8, 4]);
        let cases: Vec<(TensorLayout, &[u32], TensorMapError)> = vec![
            (of(&[]), &[], range("number of dimensions", None, 0, (1, 5))),
            (
                of(&[4; 6]),
                &[4; 6],
                range("number of dimensions", None, 6, (1, 5)),
            ),
            (
                of(&[64, 0, 4]),
                tile,
                range("length", Some(1), 0, (1, 1 << 31)),
            ),
            (
                of(&[64, 8, (1 << 31) + 1]),
                tile,
                range("length", Some(2), (1 << 31) + 1, (1, 1 << 31)),
            ),
            (
                strided(&[256]),
                tile,
                range("number of strides", None, 1, (2, 2)),
            ),
            (
                strided(&[264, 4096]),
                tile,
                multiple("stride in bytes", Some(1), 264, 16),
            ),
            (
                strided(&[256, 1 << 40]),
                tile,
                range("stride in bytes", Some(2), 1 << 40, (0, (1 << 40) - 1)),
            ),
            (
                fine().element_strides(&[1, 9, 1]),
                tile,
                range("element stride", Some(1), 9, (1, 8)),
            ),
            (
                fine(),
                &[8, 8],
                range("number of dimensions of the tile", None, 2, (3, 3)),
            ),
            (
                fine(),
                &[8, 257, 1],
                range("length of the tile", Some(1), 257, (1, 256)),
            ),
            (
                fine(),
                &[8, 0, 1],
                range("length of the tile", Some(1), 0, (1, 256)),
            ),
            (
                fine(),
                &[6, 8, 1],
                multiple("number of bits in a row of the tile", None, 6 * 32, 128),
            ),
            (
                swizzled(S::Bytes64),
                &[20, 8, 1],
                range(
                    "number of bytes in a swizzled row of the tile",
                    None,
                    80,
                    (1, 64),
                ),
            ),
            (
                packed.clone(),
                &[64, 8, 4],
                range(
                    "number of elements in a row of padded numbers",
                    None,
                    64,
                    (128, 128),
                ),
            ),
            (
                packed.swizzle(S::Bytes32),
                &[128, 8, 4],
                TensorMapError::Contradiction {
                    what: "6-bit numbers cannot be combined with this swizzle",
                },
            ),
            (
                fine().interleave(TensorInterleave::Bytes32),
                tile,
                TensorMapError::Contradiction {
                    what: "channels interleaved in groups of 32 bytes require a 32-byte swizzle",
                },
            ),
            (
                of(&[64, 8]).interleave(TensorInterleave::Bytes16),
                &[8, 8],
                range(
                    "number of dimensions (with interleaved channels)",
                    None,
                    2,
                    (3, 5),
                ),
            ),
            (
                TensorLayout::new(TensorDataType::I32, &[64, 8, 4]).fill(TensorFill::NanAsZeroFma),
                tile,
                TensorMapError::Contradiction {
                    what: "only a tensor of floating-point numbers can be filled with NaN",
                },
            ),
            (
                of(&[64, 8, 5]),
                tile,
                TensorMapError::Memory {
                    tensor: 64 * 8 * 5 * 4,
                    memory: BYTES as u64,
                },
            ),
        ];
        for (layout, tile, expected) in cases {
            let found = limit(TensorMap::tiled(&memory, &layout, tile));
            assert_eq!(found, expected, "{}: {layout:?}", fixture.name);
        }
        let start = buffer.as_raw();
        let aside = buffer.slice(4..).unwrap();
        let found = limit(TensorMap::tiled(&aside, &fine(), tile));
        assert_eq!(found, multiple("address", None, start + 4, 16));
        let text = Error::from(found).to_string();
        assert!(
            text.contains("address") && text.contains("not a multiple of 16"),
            "{text}"
        );
    }
}

#[test]
fn errors_name_the_limit_of_im2col_maps() {
    for (_, _, buffer) in with_memory() {
        let memory = buffer.as_slice();
        let columns = Im2col {
            lower_corner: &[0],
            upper_corner: &[0],
            channels_per_pixel: 8,
            pixels_per_column: 8,
        };
        let of = |im2col: Im2col<'_>| limit(TensorMap::im2col(&memory, &fine(), &im2col));
        let flat = TensorLayout::new(F32, &[64, 8]);
        assert_eq!(
            limit(TensorMap::im2col(&memory, &flat, &columns)),
            range("number of dimensions", None, 2, (3, 5))
        );
        assert_eq!(
            of(Im2col {
                lower_corner: &[0, 0],
                ..columns
            }),
            range("number of offsets of the lower corner", None, 2, (1, 1))
        );
        assert_eq!(
            of(Im2col {
                upper_corner: &[32768],
                ..columns
            }),
            range("upper corner", Some(1), 32768, (-32768, 32767))
        );
        assert_eq!(
            of(Im2col {
                channels_per_pixel: 257,
                ..columns
            }),
            range("number of channels per pixel", None, 257, (1, 256))
        );
        assert_eq!(
            of(Im2col {
                pixels_per_column: 1025,
                ..columns
            }),
            range("number of pixels per column", None, 1025, (1, 1024))
        );
        // The corners leave none of the eight pixels.
        assert_eq!(
            of(Im2col {
                lower_corner: &[2],
                upper_corner: &[-6],
                ..columns
            }),
            range("upper corner", Some(1), -6, (-5, 32767))
        );
        let images = TensorLayout::new(F32, &[8, 8, 8, 2, 1]);
        let corners = Im2col {
            lower_corner: &[-16, -17, 0],
            upper_corner: &[0, 0, 0],
            ..columns
        };
        assert_eq!(
            limit(TensorMap::im2col(&memory, &images, &corners)),
            range("lower corner", Some(2), -17, (-16, 15))
        );
        // Three channels of 4 bytes are written as 16 bytes, which do not fit at the last pixel.
        let narrow = |pixels| {
            let layout = TensorLayout::new(F32, &[3, pixels, 1]).strides(&[16, 16 * pixels]);
            let images = buffer.slice(..BYTES - 4).unwrap();
            TensorMap::im2col(&images, &layout, &columns)
        };
        assert_eq!(
            limit(narrow(BYTES as u64 / 16)),
            TensorMapError::Memory {
                tensor: BYTES as u64,
                memory: BYTES as u64 - 4,
            }
        );
        narrow(BYTES as u64 / 16 - 1).unwrap();
    }
}

#[test]
fn tensor_maps_fail_on_devices_without_them() {
    let old = software(Builder::new().compute_capability(8, 9));
    let memory = DeviceBuffer::<u8>::zeroed(&old.stream(), BYTES).unwrap();
    let error = TensorMap::tiled(&memory.as_slice(), &fine(), &[8, 8, 4]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");

    let wide = Im2colWide {
        lower_corner: 0,
        upper_corner: 0,
        channels_per_pixel: 8,
        pixels: WidePixels::Count(8),
    };
    let hopper = software(Builder::new().compute_capability(9, 0));
    let memory = DeviceBuffer::<u8>::zeroed(&hopper.stream(), BYTES).unwrap();
    let layout = fine().swizzle(TensorSwizzle::Bytes128);
    let error = TensorMap::im2col_wide(&memory.as_slice(), &layout, &wide).unwrap_err();
    assert!(error.to_string().contains("10.0"), "{error}");

    let blackwell = software(Builder::new().compute_capability(10, 0));
    let memory = DeviceBuffer::<u8>::zeroed(&blackwell.stream(), BYTES).unwrap();
    let found = limit(TensorMap::im2col_wide(&memory.as_slice(), &fine(), &wide));
    let text = Error::from(found).to_string();
    assert!(text.contains("wide columns require swizzle"), "{text}");
}

#[test]
fn a_map_is_an_argument_with_its_own_memory_only() {
    for (fixture, stream, mut buffer) in with_memory() {
        let map = TensorMap::tiled(&buffer.as_slice(), &fine(), &[8, 8, 4]);
        let Some(mut map) = made(&fixture, map) else {
            continue;
        };
        let mut other = DeviceBuffer::<u8>::zeroed(&stream, BYTES).unwrap();
        let wrong = map.reads(other.as_slice()).unwrap_err();
        let expected = TensorMapError::OtherMemory {
            map: buffer.as_raw(),
            map_bytes: BYTES as u64,
            given: other.as_raw(),
            given_bytes: BYTES as u64,
        };
        assert_eq!(wrong, Error::from(expected));
        assert!(map.writes(other.as_mut_slice()).is_err());
        assert!(map.reads(buffer.slice(..BYTES - 1).unwrap()).is_err()); // a byte short
        map.reads(buffer.as_slice()).unwrap();
        map.writes(buffer.as_mut_slice()).unwrap();

        let before = map.as_raw().opaque;
        assert!(map.replace_address(&other.slice(16..).unwrap()).is_err());
        assert_eq!(map.as_raw().opaque, before);
        map.replace_address(&other.as_slice()).unwrap();
        assert_ne!(map.as_raw().opaque, before);
        assert!(map.reads(buffer.as_slice()).is_err());
        map.writes(other.as_mut_slice()).unwrap();
        let fresh = TensorMap::tiled(&other.as_slice(), &fine(), &[8, 8, 4]).unwrap();
        assert_eq!(map.as_raw().opaque, fresh.as_raw().opaque); // the same as a new map
    }
}

#[cfg(feature = "nvrtc")]
mod tiles {
    use cuda_driver::Kernel;
    use cuda_driver::launch::ArgList;
    use cuda_nvrtc::{Options, Program};

    use super::*;
    use crate::nvrtc::nvrtc;

    /// Moves a tile of 32 x 8 words from one tensor to another and adds 1000 to each word.
    const MOVE: &str = r#"
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

extern "C" __global__ void move_tile(const __grid_constant__ TensorMap from,
                                     const __grid_constant__ TensorMap to,
                                     int x, int y, int to_x, int to_y) {
    __shared__ alignas(128) unsigned tile[8 * 32];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    unsigned at = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(bar), "r"((unsigned)sizeof tile) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     :: "r"(at), "l"(&from), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    }
    for (unsigned i = threadIdx.x; i < 8 * 32; i += blockDim.x) tile[i] += 1000;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&to), "r"(to_x), "r"(to_y), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"#;

    const FROM: (usize, usize) = (100, 50);
    const TO: (usize, usize) = (64, 40);
    const TILE: [u32; 2] = [32, 8];

    /// Applies a tile move to `to` on the host.
    fn moved(from: &[u32], to: &mut [u32], (x, y): (i32, i32), (to_x, to_y): (i32, i32)) {
        let at = |x: i32, y: i32, (width, height): (usize, usize)| {
            let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
            (x < width && y < height).then_some(y * width + x)
        };
        for dy in 0..8 {
            for dx in 0..32 {
                let word = at(x + dx, y + dy, FROM).map_or(0, |at| from[at]);
                if let Some(at) = at(to_x + dx, to_y + dy, TO) {
                    to[at] = word + 1000;
                }
            }
        }
    }

    #[test]
    fn tiles_are_copied_through_maps_and_beyond_the_edges_are_zeros() {
        let Some(nvrtc) = nvrtc() else { return };
        let program = Program::new(&nvrtc, MOVE).name("move.cu");
        for (fixture, owner, _) in with_memory() {
            let module = Module::compile(&fixture.context, &program, &Options::new());
            let module = match module {
                Err(error) if fixture.simulator.is_some() => {
                    skip(&format!("on {}: {error}", fixture.name));
                    continue;
                }
                module => module.unwrap(),
            };
            let function = module.function("move_tile").unwrap();
            let words: Vec<u32> = (1..=(FROM.0 * FROM.1) as u32).collect();
            let from = DeviceBuffer::from_host(&owner, &words).unwrap();
            let mut to = DeviceBuffer::filled(&owner, TO.0 * TO.1, 7_u32).unwrap();
            let layout = |(width, height): (usize, usize)| {
                TensorLayout::new(TensorDataType::U32, &[width as u64, height as u64])
            };
            let from_map = TensorMap::tiled(&from.as_slice(), &layout(FROM), &TILE);
            let Some(from_map) = made(&fixture, from_map) else {
                continue;
            };
            let to_map = TensorMap::tiled(&to.as_slice(), &layout(TO), &TILE).unwrap();
            let mut expected = vec![7; TO.0 * TO.1];
            // Tiles inside, across edges and outside. Rows are 16-byte aligned and nothing is
            // written before the first element: devices raise an illegal instruction otherwise.
            let moves = [
                ((0, 0), (0, 0)),
                ((64, 16), (32, 8)),
                ((92, 46), (16, 24)),
                ((-4, -3), (40, 36)),
                ((200, 9), (0, 16)),
                ((-32, -8), (60, 2)),
                ((0, 60), (100, 0)),
            ];
            let config = LaunchConfig::new(1, 64);
            let typed: Kernel<(TensorMap, TensorMap, i32, i32, i32, i32)> =
                function.typed().unwrap();
            for (index, (at, to_at)) in moves.into_iter().enumerate() {
                moved(&words, &mut expected, at, to_at);
                let reads = from_map.reads(from.as_slice()).unwrap();
                let writes = to_map.writes(to.as_mut_slice()).unwrap();
                let stream = fixture.stream(); // not the buffers' owning stream
                let args = (reads, writes, at.0, at.1, to_at.0, to_at.1);
                if index % 3 == 0 {
                    // SAFETY: the kernel reads `from` and writes `to` through maps of their memory.
                    unsafe { stream.launch(&function, config, args) }.unwrap();
                } else if index % 3 == 1 {
                    // SAFETY: as above.
                    unsafe { typed.launch(&stream, config, args) }.unwrap();
                } else {
                    let mut list = ArgList::new();
                    list.push(args.0).push(args.1).push(args.2).push(args.3);
                    list.push(args.4).push(args.5);
                    // SAFETY: as above.
                    unsafe { stream.launch(&function, config, &list) }.unwrap();
                }
            }
            assert_eq!(to.to_vec().unwrap(), expected, "{}", fixture.name);
            assert_eq!(from.to_vec().unwrap(), words);
        }
    }
}
