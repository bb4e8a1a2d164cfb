//! Teaches: templates. A name expression such as `scale<float>` instantiates one, and the module
//! finds the kernel by the same text.
//!
//! Prints the number of verified elements of each type.
//!
//! `cargo run -p examples --example templates`

use std::fmt::Debug;

use cuda_driver::nvrtc::{CppType, Source};
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
template <typename T> __global__ void scale(T *x, T factor, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let source = Source::new(SOURCE)
        .name_expression("scale<float>")
        .name_expression("scale<double>")
        .name_expression("scale<int>");
    let module = SafeModule::from_source(&session.context, source)?;

    let n = 10_000_u16;
    let (small, large) = (0..n).map(|i| (f32::from(i), f64::from(i) * 1e9)).unzip();
    scale::<f32>(&session, &module, small, 0.5)?;
    scale::<f64>(&session, &module, large, 0.25)?;
    scale::<i32>(&session, &module, (0..n).map(i32::from).collect(), -3)
}

/// Multiplies `values` by `factor` with the instance of the kernel for `T`.
fn scale<T>(session: &Session, module: &SafeModule, values: Vec<T>, factor: T) -> Result<()>
where
    T: CppType + DeviceRepr + Debug + PartialEq + std::ops::Mul<Output = T>,
{
    // `scale<float>` for `f32`.
    let name = format!("scale<{}>", T::NAME);
    let kernel = module.kernel(&name)?;
    let mut x = DeviceBuffer::from_host(&session.stream, &values)?;
    let n = values.len() as u32;
    let config = LaunchConfig::for_num_elems(n)?;
    let stream = &session.stream;
    stream.launch_safe(&kernel, config, (&mut x, factor, n))?;
    let want: Vec<T> = values.into_iter().map(|value| value * factor).collect();
    verify_equal(&name, &x.to_vec()?, &want)
}
