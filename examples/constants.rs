//! Teaches: variables of a module: a table in constant memory that the host sets, and a counter
//! that kernels update.
//!
//! Prints the number of verified elements, and the value of the counter.
//!
//! `cargo run -p examples --example constants`

use cuda_driver::launch::Using;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify, verify_equal};

const SOURCE: &str = r#"
extern "C" {
__constant__ float coefficients[4] = {1.0f, 0.0f, 0.0f, 0.0f};
__device__ unsigned negative = 0;

// Evaluates a polynomial, and counts the negative results.
__global__ void polynomial(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 3; k >= 0; k--) sum = fmaf(sum, x[i], coefficients[k]);
    y[i] = sum;
    if (sum < 0.0f) atomicAdd(&negative, 1);
}
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let safe = SafeModule::from_source(&session.context, SOURCE)?;
    let polynomial = safe.kernel("polynomial")?;
    let module = safe.module();

    // Both variables are used on `stream`, so their uses run in the order of the calls.
    let mut coefficients = module.global::<f32>("coefficients", stream)?;
    println!("constants: the source sets {:?}", coefficients.to_vec()?);
    let table = [-2.0_f32, 1.0, 0.5, 0.25];
    coefficients.copy_from_host(&table)?;
    let mut negative = module.global::<u32>("negative", stream)?;

    let n = 10_000_u32;
    let x: Vec<f32> = (0..n).map(|i| i as f32 / 1000.0 - 5.0).collect();
    let x_device = DeviceBuffer::from_host(stream, &x)?;
    let mut y = DeviceBuffer::<f32>::zeroed(stream, n as usize)?;
    let config = LaunchConfig::for_num_elems(n)?;
    // A kernel that is launched without `unsafe` gets its variables along with the arguments.
    let variables = (&coefficients, &mut negative);
    let args = Using::new((&x_device, &mut y, n), variables);
    stream.launch_safe(&polynomial, config, args)?;

    let value = |x: &f32| {
        table
            .iter()
            .rev()
            .fold(0.0_f32, |sum, c| sum.mul_add(*x, *c))
    };
    let want: Vec<f32> = x.iter().map(value).collect();
    let below = want.iter().filter(|value| **value < 0.0).count();
    verify("constants", &y.to_vec()?, &want, 0.0)?;
    println!("constants: {below} results are negative");
    verify_equal("constants, counter", &negative.to_vec()?, &[below as u32])
}
