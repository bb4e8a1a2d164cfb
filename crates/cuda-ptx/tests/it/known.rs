//! Exact results for well-known kernels, which NVRTC compiled.

use cuda_ptx::analysis::{Argument, LaunchValues, Verdict};

use crate::support::{analysis, input, int, launch, output};

const TEXT: &str = include_str!("kernels/known.ptx");

fn evaluate(name: &str, launch: &LaunchValues) -> Verdict {
    analysis(TEXT, name).evaluate(launch)
}

#[test]
fn show() {
    let l = |a: Vec<Argument>| launch([4, 1, 1], [256, 1, 1], a);
    let two = |a: Vec<Argument>| launch([7, 5, 1], [16, 16, 1], a);
    for (name, launch) in [
        (
            "vector_add",
            l(vec![input(4000), input(4000), output(4000), int(1000)]),
        ),
        (
            "vector_add_unguarded",
            l(vec![input(4096), input(4096), output(4096)]),
        ),
        (
            "stencil",
            two(vec![input(32000), output(32000), int(100), int(80)]),
        ),
        (
            "grid_stride",
            l(vec![input(40000), output(40000), int(10000)]),
        ),
        (
            "grid_stride_64",
            l(vec![
                input(80000),
                output(80000),
                Argument::scalar(10000u64.to_le_bytes()),
            ]),
        ),
        (
            "matmul",
            two(vec![
                input(80 * 50 * 4),
                input(50 * 112 * 4),
                output(80 * 112 * 4),
                int(80),
                int(112),
                int(50),
            ]),
        ),
        (
            "matmul_naive",
            two(vec![
                input(80 * 80 * 4),
                input(80 * 80 * 4),
                output(80 * 80 * 4),
                int(80),
            ]),
        ),
        (
            "transpose",
            launch(
                [4, 3, 1],
                [32, 8, 1],
                vec![input(100 * 80 * 4), output(100 * 80 * 4), int(100), int(80)],
            ),
        ),
        (
            "reduction",
            LaunchValues {
                dynamic_shared: 1024,
                ..l(vec![input(4000), output(16), int(1000)])
            },
        ),
        (
            "gather",
            l(vec![input(4000), input(4000), output(4000), int(1000)]),
        ),
        ("histogram", l(vec![input(4000), output(1024), int(4000)])),
        ("vectors", l(vec![input(4000), output(4000), int(1000)])),
        ("unrolled", l(vec![input(4000), output(4096), int(999)])),
        ("clamped", l(vec![input(4000), output(4000), int(1000)])),
        ("off_by_one", l(vec![input(4000), output(4000), int(1000)])),
        (
            "divided",
            l(vec![input(4000), output(4032), int(96), int(1000)]),
        ),
        ("local_array", l(vec![input(32), output(4096), int(1000)])),
    ] {
        let t = std::time::Instant::now();
        let verdict = evaluate(name, &launch);
        println!("{:?} {} {}", t.elapsed(), verdict.is_proven(), verdict);
    }
}
