//! One kernel for each function of CUDA's headers for mathematics: each is launched safely, and the
//! results are those of the host where `std` has the function.

mod list;

use cuda_driver::nvrtc::Source;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeModule, Unproven};

use crate::nvrtc::{Folder, nvrtc};
use crate::support::{Fixture, everywhere};

use self::list::{Case, cases};

/// The number of kernels of one module.
const KERNELS: usize = 12;

/// A type of the functions.
trait Float: DeviceRepr + Copy + Default {
    /// Its name in C++, and the end of the names of its functions.
    const NAMES: [&'static str; 2];
    /// The largest relative error.
    const ERROR: f64;

    fn from_f64(number: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Float for f32 {
    const NAMES: [&'static str; 2] = ["float", "f"];
    const ERROR: f64 = 2e-6;

    fn from_f64(number: f64) -> Self {
        number as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Float for f64 {
    const NAMES: [&'static str; 2] = ["double", ""];
    const ERROR: f64 = 4e-15;

    fn from_f64(number: f64) -> Self {
        number
    }

    fn to_f64(self) -> f64 {
        self
    }
}

/// The arguments: ordinary ones, large ones for the slow parts of the functions, and the limits.
fn inputs<T: Float>() -> Vec<T> {
    let mut all = vec![
        0.0, -0.0, 0.1, 0.5, -0.5, 0.75, 1.0, -1.0, 1.25, 2.0, 3.5, -7.5, 10.0, 40.0, 88.0, -88.0,
    ];
    // Arguments that `sin` and the others reduce with the whole expansion of 2 / π, with every
    // remainder of the exponent.
    all.extend((16..90).map(|exponent| 1.37 * f64::from(exponent).exp2()));
    all.extend((16..30).map(|exponent| -1.61 * f64::from(4 * exponent).exp2()));
    all.extend([1e38, 3.4e38, 1e-38, 1e-42, 1e200, 1.7e308, 5e-324]);
    all.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    all.into_iter().map(T::from_f64).collect()
}

/// Whether two results are the same, as far as both are rounded.
fn is_near(found: f64, expected: f64, error: f64, smallest: f64) -> bool {
    let difference = (found - expected).abs();
    found == expected
        || found.is_nan() && expected.is_nan()
        || difference <= error * expected.abs()
        || difference <= smallest
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Counts {
    proven: u32,
    checked: Vec<String>,
    compared: u32,
}

/// Compiles the kernels of `cases`.
fn compile<T: Float>(fixture: &Fixture, folder: &Folder, cases: &[Case]) -> SafeModule {
    let [ty, end] = T::NAMES;
    let kernels = cases.iter().map(|case| {
        let body = case.body.replace("F_", end).replace('T', ty);
        format!(
            "extern \"C\" __global__ void k_{name}(const {ty} *x, const {ty} *y, {ty} *o, \
             unsigned n) {{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x; \
             if (i < n) {{ {ty} a = x[i], b = y[i], r; {body} o[i] = r; }} }}\n",
            name = case.name,
        )
    });
    let source = Source::from(kernels.collect::<String>()).cache(&folder.open());
    SafeModule::from_source(&fixture.context, source).unwrap()
}

/// Launches all functions of a type on one device.
fn check<T: Float>(fixture: &Fixture) -> Counts {
    let (folder, stream) = (Folder::new(), fixture.stream());
    let x = inputs::<T>();
    let y: Vec<T> = x.iter().rev().copied().collect();
    let n = x.len() as u32;
    let buffer = |values: &[T]| DeviceBuffer::from_host(&stream, values).unwrap();
    let (on_x, on_y) = (buffer(&x), buffer(&y));
    let config = LaunchConfig::for_num_elems(n).unwrap();
    let mut counts = Counts::default();
    for cases in cases().chunks(KERNELS) {
        let module = compile::<T>(fixture, &folder, cases);
        for case in cases {
            let name = format!("{}{}", case.name, T::NAMES[1]);
            let kernel = module.kernel(&format!("k_{}", case.name));
            let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {error}"));
            let run = |unproven| {
                let mut out = DeviceBuffer::<T>::zeroed(&stream, x.len()).unwrap();
                let kernel = kernel.clone().with_unproven(unproven);
                let args = (&on_x, &on_y, &mut out, n);
                let launch = stream.launch_safe(&kernel, config, args);
                let launch = launch.unwrap_or_else(|error| panic!("{name}: {error}"));
                launch
                    .wait()
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                (launch.is_checked(), out.to_vec().unwrap())
            };
            let (is_checked, found) = run(Unproven::Check);
            match is_checked {
                true => counts.checked.push(name.clone()),
                false => counts.proven += 1,
            }
            if case.has_table {
                // The bits of a NaN depend on the order of the operands in the machine code.
                let bits = |values: &[T]| -> Vec<u64> {
                    let values = values.iter().map(|value| value.to_f64());
                    let values = values.map(|it| if it.is_nan() { f64::NAN } else { it });
                    values.map(f64::to_bits).collect()
                };
                let (_, copy) = run(Unproven::CheckAll);
                assert_eq!(bits(&copy), bits(&found), "{name}: the checked copy");
            }
            let Some(host) = case.host else {
                continue;
            };
            counts.compared += 1;
            let smallest = if T::NAMES[1] == "f" { 2e-45 } else { 1e-323 };
            for ((&x, &y), found) in x.iter().zip(&y).zip(&found) {
                let expected = T::from_f64(host(x.to_f64(), y.to_f64())).to_f64();
                let is_same = is_near(found.to_f64(), expected, case.error * T::ERROR, smallest);
                let (x, y, found) = (x.to_f64(), y.to_f64(), found.to_f64());
                assert!(
                    is_same,
                    "{name}({x:e}, {y:e}) is {found:e}, not {expected:e}"
                );
            }
        }
    }
    counts
}

#[test]
fn every_function_of_the_headers_is_launched_safely() {
    if nvrtc().is_none() {
        return;
    }
    for fixture in everywhere() {
        let (float, double) = (check::<f32>(&fixture), check::<f64>(&fixture));
        for (ty, counts) in [("float", &float), ("double", &double)] {
            println!(
                "{}: {ty}: {} functions are proven, {} checked {:?}; {} compared with the host",
                fixture.name,
                counts.proven,
                counts.checked.len(),
                counts.checked,
                counts.compared
            );
        }
        assert!(float.checked.is_empty(), "{:?}", float.checked);
        // The argument of the second reduction of the Bessel functions is a sum with a product,
        // without a rounding modifier. In `sin` and `cos`, the index depends on a loop.
        let known = ["sin", "cos", "j0", "j1", "jn", "y0", "y1", "yn"];
        let mut checked = double.checked.iter();
        let are_known = checked.all(|name| known.contains(&name.as_str()));
        assert!(are_known, "{:?}", double.checked);
        assert!(float.compared >= 45 && double.compared >= 45);
    }
}
