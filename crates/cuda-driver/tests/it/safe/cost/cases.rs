//! The launches of the kernels.

use cuda_driver::LaunchConfig;

/// The argument of a kernel. Buffers have words of 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A buffer of numbers from 0 to 1, read or updated.
    Floats(u32, Use),
    /// A buffer of numbers below a limit, read or updated.
    Indices(u32, u32, Use),
    /// A buffer of multiples of a number, which is read.
    Starts(u32, u32),
    /// A buffer of zeros, which is written.
    Out(u32),
    U32(u32),
    F32(f32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    Read,
    Update,
}

use Arg::{F32, Floats, Indices, Out, Starts, U32};
use Use::{Read, Update};

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) config: LaunchConfig,
    pub(super) args: Vec<Arg>,
}

/// A launch of at least `n` threads.
pub(super) fn line(n: u32) -> LaunchConfig {
    LaunchConfig::new(n.div_ceil(256), 256)
}

/// A launch of at least `width` by `height` threads.
fn plane(width: u32, height: u32) -> LaunchConfig {
    LaunchConfig::new((width.div_ceil(32), height.div_ceil(8)), (32, 8))
}

/// The launches: those for measurements, or small ones.
pub(super) fn cases(is_large: bool) -> Vec<Case> {
    let of = |large: u32, small: u32| if is_large { large } else { small };
    let n = of(1 << 26, 1000);
    let (w, h) = (of(8192, 72), of(8192, 50));
    let (edge, block) = (of(2048, 48), of(1024, 40));
    let (rows, row) = (of(16384, 3), of(4096, 300));
    let bodies = of(32768, 512);
    let x = |n| Floats(n, Read);
    let case = |name, config, args: &[Arg]| Case {
        name,
        config,
        args: args.to_vec(),
    };
    let in_blocks = |count: u32| LaunchConfig::new(count, 256);
    let tiles = |edge: u32, tile: u32, rows: u32| {
        let count = edge.div_ceil(tile);
        LaunchConfig::new((count, count), (tile, rows))
    };
    vec![
        case("vector_add", line(n), &[x(n), x(n), Out(n), U32(n)]),
        case(
            "saxpy",
            line(n / 4),
            &[x(n), Floats(n, Update), F32(0.5), U32(n / 4)],
        ),
        case(
            "grid_stride",
            in_blocks(of(2048, 2)),
            &[x(n), Out(n), U32(n)],
        ),
        case(
            "stencil5",
            plane(w, h),
            &[x(w * h), Out(w * h), U32(w), U32(h)],
        ),
        case(
            "stencil7",
            plane(of(512, 40), of(512, 20)),
            &[
                x(of(512 << 18, 40 * 20 * 6)),
                Out(of(512 << 18, 40 * 20 * 6)),
                U32(of(512, 40)),
                U32(of(512, 20)),
                U32(of(512, 6)),
            ],
        ),
        case(
            "matmul_tiled",
            tiles(edge, 16, 16),
            &[x(edge * edge), x(edge * edge), Out(edge * edge), U32(edge)],
        ),
        case(
            "matmul_naive",
            tiles(block, 16, 16),
            &[
                x(block * block),
                x(block * block),
                Out(block * block),
                U32(block),
            ],
        ),
        case(
            "transpose_naive",
            plane(w, h),
            &[x(w * h), Out(w * h), U32(w), U32(h)],
        ),
        case(
            "transpose",
            tiles(w.max(h), 32, 8),
            &[x(w * h), Out(w * h), U32(w), U32(h)],
        ),
        case(
            "gather",
            line(n),
            &[x(n), Indices(n, n, Read), Out(n), U32(n)],
        ),
        case(
            "scatter_add",
            line(n),
            &[Indices(n, 99, Read), Indices(n, n, Read), Out(n), U32(n)],
        ),
        case(
            "n_body",
            in_blocks(bodies / 256),
            &[x(4 * bodies), Out(4 * bodies), U32(bodies)],
        ),
        case("block_sum", line(n), &[x(n), Out(n.div_ceil(256)), U32(n)]),
        case(
            "dot",
            in_blocks(of(2048, 2)),
            &[x(n), x(n), Out(8 * of(2048, 2)), U32(n)],
        ),
        case(
            "histogram",
            in_blocks(of(2048, 2)),
            &[Indices(n, u32::MAX, Read), Out(256), U32(4 * n)],
        ),
        case(
            "softmax",
            in_blocks(rows),
            &[x(rows * row), Out(rows * row), U32(row)],
        ),
        case(
            "layer_norm",
            in_blocks(rows),
            &[x(rows * row), x(row), x(row), Out(rows * row), U32(row)],
        ),
        case(
            "rms_norm",
            in_blocks(rows),
            &[x(rows * row), x(row), Out(rows * row), U32(row / 4)],
        ),
        case("gelu", line(n), &[x(n), Out(n), U32(n)]),
        case("block_scan", line(n), &[x(n), Out(n), U32(n)]),
        case("convolve_row", line(n), &[x(n), x(9), Out(n), U32(n)]),
        case(
            "convolve",
            plane(w, h),
            &[x(w * h), x(9), Out(w * h), U32(w), U32(h)],
        ),
        case(
            "max_pool",
            plane(w / 2, h / 2),
            &[x(w * h), Out(w * h / 4), U32(w), U32(h)],
        ),
        case(
            "rope",
            LaunchConfig::new((row.div_ceil(512), rows), 256),
            &[
                Floats(rows * row, Update),
                x(row / 2),
                x(row / 2),
                U32(row),
                U32(rows),
            ],
        ),
        case(
            "embedding",
            in_blocks(rows),
            &[
                Indices(rows, 999, Read),
                x(999 * row),
                Out(rows * row),
                U32(row),
                U32(999),
            ],
        ),
        case(
            "sparse",
            line(n / 32),
            &[
                Starts(n / 32 + 1, 32),
                Indices(n, n / 32, Read),
                x(n),
                x(n / 32),
                Out(n / 32),
                U32(n / 32),
            ],
        ),
        case(
            "search",
            line(n / 8),
            &[
                Starts(n / 4, 16),
                Indices(n / 8, 4 * n, Read),
                Out(n / 8),
                U32(n / 4),
                U32(n / 8),
            ],
        ),
        case(
            "bilinear",
            plane(w, h),
            &[x(w * h), Out(w * h), U32(w), U32(h), F32(0.8)],
        ),
        case(
            "dequantize",
            line(n / 8),
            &[
                Indices(n / 8, u32::MAX, Read),
                x(n / 32 + 1),
                Out(n),
                U32(n / 8),
            ],
        ),
        case(
            "black_scholes",
            line(n),
            &[x(n), x(n), x(n), Out(n), U32(n)],
        ),
        case(
            "random_numbers",
            line(n / 64),
            &[
                Indices(n / 64, u32::MAX, Update),
                Out(n / 64 * 64),
                U32(n / 64),
                U32(64),
            ],
        ),
        case(
            "mandelbrot",
            plane(w, h),
            &[Out(w * h), U32(w), U32(h), U32(60)],
        ),
        case(
            "jacobi",
            plane(w, h),
            &[x(w * h), x(w * h), Out(w * h), U32(w), U32(h)],
        ),
        case(
            "matvec",
            in_blocks(h.div_ceil(8)),
            &[x(w * h), x(w), Out(h), U32(w), U32(h)],
        ),
        case(
            "broadcast_add",
            line(n),
            &[x(n), x(row), Out(n), U32(row), U32(n)],
        ),
        case("reverse", line(n), &[x(n), Out(n), U32(n)]),
        case(
            "split",
            line(n / 3),
            &[x(n), Out(n / 3), Out(n / 3), Out(n / 3), U32(n / 3)],
        ),
        case("to_bytes", line(n / 4), &[x(n), Out(n / 4), U32(n / 4)]),
        case(
            "scores",
            plane(of(4096, 40), of(4096, 40)),
            &[
                x(64 * of(4096, 40)),
                x(64 * of(4096, 40)),
                Out(of(4096 * 4096, 1600)),
                U32(of(4096, 40)),
            ],
        ),
        case(
            "bitonic",
            line(n),
            &[Indices(n, u32::MAX, Update), U32(n), U32(64), U32(128)],
        ),
    ]
}
