//! Teaches: typed kernels. The signature is checked once when the kernel is loaded, and wrong
//! arguments do not compile. The launch is safe, and a function around it checks the lengths, so
//! that a wrong one is an error before the kernel runs.
//!
//! Prints the error of a wrong signature, and the number of verified elements.
//!
//! `cargo run -p examples --example typed`

use cuda_driver::prelude::*;
use cuda_driver::safe::TypedSafeKernel;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;

/// The kernels of a library, with their signatures.
struct Blas {
    saxpy: TypedSafeKernel<(f32, Reads<f32>, Writes<f32>, u32)>,
}

impl Blas {
    fn load(context: &Context) -> Result<Self> {
        let module = SafeModule::from_source(context, SOURCE)?;
        Ok(Self {
            saxpy: module.kernel("saxpy")?.typed()?,
        })
    }

    /// Computes `y = a * x + y`.
    fn saxpy(
        &self,
        stream: &Stream,
        a: f32,
        x: &DeviceBuffer<f32>,
        y: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        if x.len() != y.len() {
            return Err(format!("x has {} elements, and y has {}", x.len(), y.len()).into());
        }
        let n = u32::try_from(x.len())?;
        let config = LaunchConfig::for_num_elems(n)?;
        self.saxpy.launch(stream, config, (a, x, y, n))?;
        Ok(())
    }
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let blas = Blas::load(&session.context)?;

    let n = 100_000_u32;
    let x: Vec<f32> = (0..n).map(|i| (i % 100) as f32).collect();
    let x_device = DeviceBuffer::from_host(stream, &x)?;
    let mut y = DeviceBuffer::filled(stream, n as usize, 1.0_f32)?;
    blas.saxpy(stream, 0.5, &x_device, &mut y)?;

    // A signature that the kernel does not have is an error before any launch.
    let kernel = blas.saxpy.kernel().clone();
    match kernel.typed::<(f64, Reads<f32>, Writes<f32>, u32)>() {
        Err(error) => println!("typed: {error}"),
        Ok(_) => return Err("a wrong signature was accepted".into()),
    }
    let short = DeviceBuffer::<f32>::zeroed(stream, 10)?;
    if blas.saxpy(stream, 0.5, &short, &mut y).is_ok() {
        return Err("buffers of different lengths were accepted".into());
    }

    let want: Vec<f32> = x.iter().map(|x| 0.5_f32.mul_add(*x, 1.0)).collect();
    verify("typed", &y.to_vec()?, &want, 0.0)
}
