//! Mistakes in CUDA C++ that is compiled here.

use cuda_driver::nvrtc::{Cache, CacheMode, Nvrtc, Source};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::SOURCES;
use crate::cases::{Texts, fixture, text};

const SCALE: &str = r#"
extern "C" __global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
template <typename T> __global__ void add(T *x, T a) { x[threadIdx.x] += a; }
namespace n { __constant__ float c[4]; }
"#;

/// Returns the last line of the text of the error: the others are those of the compiler.
fn advice<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    let text = text(result);
    text.lines().last().unwrap_or_default().to_owned()
}

/// Returns the texts, or reports a skipped test if this machine has no NVRTC.
pub(crate) fn all() -> Option<Texts> {
    let nvrtc = match Nvrtc::load() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            test_needs::skipped(&format!("mistakes in CUDA C++: {error}"));
            return None;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::builder(folder.path()).mode(CacheMode::Off).open();
    let fixture = fixture(Builder::new());
    let (context, stream) = (&fixture.context, &fixture.stream);
    let source = |text: &str| Source::new(text).nvrtc(&nvrtc).cache(&cache);
    let load = |source| SafeModule::from_source(context, source);
    let known = source(SCALE)
        .name_expression("add<float>")
        .name_expression("&n::c");
    let module = load(known).unwrap();
    // The address of the variable is its name expression.
    assert!(module.module().global::<[f32; 4]>("n::c", stream).is_ok());
    let config = LaunchConfig::new(1, 64);
    let mut doubles = DeviceBuffer::<f64>::zeroed(stream, 64).unwrap();
    let scale = module.kernel("scale").unwrap();
    let wrong = stream.launch_safe(&scale, config, (&mut doubles, 2.0_f32));
    let line = |source: Source| {
        let mut few = DeviceBuffer::<f32>::zeroed(stream, 4).unwrap();
        let scale = load(source).unwrap().kernel("scale").unwrap();
        let launch = stream.launch_safe(&scale, config, (&mut few, 2.0_f32));
        // The line in the PTX text depends on the version of the compiler.
        let text = text(launch.unwrap().wait());
        let (before, rest) = text.split_once("PTX line ").unwrap();
        let (_, after) = rest.split_once(',').unwrap();
        format!("{before}PTX line …,{after}")
    };
    let wrong = text(wrong);
    let texts = [
        wrong,
        text(load(source("\u{feff}__global__ void k() {}"))),
        advice(load(source("#include <stdio.h>\n__global__ void k() {}"))),
        advice(load(source("#include <stdint.h>\n__global__ void k() {}"))),
        advice(load(
            source("#include \"mine.h\"\n__global__ void k() {}")
                .options(cuda_driver::nvrtc::Options::new().include_dir("/no/such/folder")),
        )),
        text(module.kernel("add<double>")),
        line(source(SCALE)),
        line(source(SCALE).name("kernels/scale.cu")),
        text(load(
            source("#include \"a.h\"\n__global__ void k() {}")
                .header("a.h", "")
                .header("a.h", ""),
        )),
    ];
    Some(SOURCES.into_iter().zip(texts).collect())
}
