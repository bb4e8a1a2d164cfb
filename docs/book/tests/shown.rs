//! Messages that the book shows: the programs that cause them, and their texts in the chapters.

use std::fs;
use std::path::Path;

use cuda_driver::nvrtc::{Options, Source};
use cuda_driver::prelude::*;
use cuda_nvrtc::Nvrtc;
use cuda_sim::Builder;

const SCALE: &str = r#"
extern "C" __global__ void scale(float *x, float factor, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"#;

const INCREMENT: &str = r#"
extern "C" __global__ void increment(int *x) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += 1; // `if (i < n)` is missing
}
"#;

/// Checks that `message` and the chapter `page` contain each of `parts`, wherever lines are broken.
fn assert_shown(page: &str, message: &str, parts: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(page);
    let text = fs::read_to_string(path).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, message) = (words(&text), words(message));
    for part in parts {
        assert!(message.contains(part), "{part}\nis not in\n{message}");
        assert!(text.contains(part), "{part}\nis not in {page}");
    }
}

/// Returns whether there is NVRTC, as the programs of the book find it.
fn has_nvrtc() -> bool {
    test_needs::found("NVRTC", Nvrtc::load()).is_some()
}

#[test]
fn getting_started_shows_the_violation_and_the_wrong_argument() {
    if !has_nvrtc() {
        return;
    }
    let driver = Driver::new(cuda_sim::gpu_or_software().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = context.default_stream().unwrap();
    let module = SafeModule::from_source(&context, SCALE).unwrap();
    let scale = module.kernel("scale").unwrap();
    let config = LaunchConfig::for_num_elems(3).unwrap();
    let mut x = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0]).unwrap();

    let args = (&mut x, 10.0_f32, 4_u32);
    stream.launch_safe(&scale, config, args).unwrap();
    let violation = x.to_vec().unwrap_err().to_string();
    let parts = [
        "kernel scale tried to read 4 bytes at 0x",
        "at offset 12 of argument 1, which has 12 bytes: pass more elements, ",
        "block (0, 0, 0), thread (3, 0, 0); no other thread has a violation",
    ];
    assert_shown("getting-started.md", &violation, &parts);
    assert_eq!(x.to_vec().unwrap(), [10.0, 20.0, 30.0]);

    let args = (&mut x, 10.0_f32, 3_u64);
    let error = stream.launch_safe(&scale, config, args).unwrap_err();
    let error = error.to_string();
    assert_shown("getting-started.md", &error, &[&error]);
}

#[test]
fn testing_shows_the_error_and_the_report_of_an_invalid_access() {
    if !has_nvrtc() {
        return;
    }
    let simulator = Builder::new().build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = context.default_stream().unwrap();
    let options = Options::new().line_info(true);
    let source = Source::new(INCREMENT).name("increment.cu").options(options);
    let module = Module::from_source(&context, source).unwrap();
    let increment = module.function("increment").unwrap();
    let mut x = DeviceBuffer::<i32>::zeroed(&stream, 100).unwrap();
    let config = LaunchConfig::for_num_elems(100).unwrap();
    // SAFETY: the kernel must access only its argument ← it does not; the software device ends it.
    unsafe { stream.launch(&increment, config, (&mut x,)) }.unwrap();

    let error = stream.synchronize().unwrap_err().to_string();
    let parts = [
        "cuStreamSynchronize: a kernel accessed an invalid address (CUDA_ERROR_ILLEGAL_ADDRESS, \
         700); to find the access, launch the kernel safely, use the software device, or run \
         compute-sanitizer; this process can no longer use device 0 (first reported by cuStreamSynchronize); \
         launches in flight, latest first: increment on Stream(",
    ];
    assert_shown("testing.md", &error, &parts);
    let reports = simulator.take_reports();
    let parts = [
        "kernel `increment`: invalid access to 4 bytes at 0x",
        "at offset 400 of the allocation of 400 bytes at 0x",
        "(block 0,0,0 thread 100,0,0, PTX line ",
        "increment.cu:4)",
    ];
    assert_shown("testing.md", &reports[0].to_string(), &parts);
}
