//! Squares 1,000 numbers on two streams.

use cudarc::driver::{
    CudaContext, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::compile_ptx;

const SOURCE: &str = r#"
extern "C" __global__ void square(
    const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();

    let module = context.load_module(compile_ptx(SOURCE)?)?;
    let square = module.load_function("square")?;

    let host: Vec<f32> =
        (0..1000).map(|i| i as f32).collect();
    let x = stream.clone_htod(&host)?;
    let mut y = stream.alloc_zeros::<f32>(1000)?;

    // The second half on its own stream.
    let side = stream.fork()?;
    let (x_low, x_high) = x.split_at(500);
    let (mut y_low, mut y_high) = y.split_at_mut(500);
    let config = LaunchConfig::for_num_elems(500);
    let n = 500_u32;
    let mut launch = stream.launch_builder(&square);
    launch.arg(&x_low).arg(&mut y_low).arg(&n);
    unsafe { launch.launch(config) }?;
    let mut launch = side.launch_builder(&square);
    launch.arg(&x_high).arg(&mut y_high).arg(&n);
    unsafe { launch.launch(config) }?;
    drop((y_low, y_high));

    stream.join(&side)?;
    let result = stream.clone_dtoh(&y)?;
    for (x, y) in host.iter().zip(&result) {
        assert_eq!(*y, x * x);
    }
    println!("1000 squares verified");
    Ok(())
}
