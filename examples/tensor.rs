//! Teaches: the core of a tensor library: shared storage, kernels that are found by name, argument
//! lists whose length is known at run time, and a pool that reuses memory.
//!
//! Prints the number of allocations that reused memory, and the number of verified elements.
//!
//! `cargo run -p examples --example tensor`

use std::collections::HashMap;
use std::sync::Arc;

use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

/// The element-wise operations. Each becomes a kernel.
const OPERATIONS: [(&str, usize, &str); 4] = [
    ("add", 2, "a[i] + b[i]"),
    ("mul", 2, "a[i] * b[i]"),
    ("relu", 1, "fmaxf(a[i], 0.0f)"),
    ("mean3", 3, "(a[i] + b[i] + c[i]) / 3.0f"),
];

/// A vector on the device. Clones share the storage.
#[derive(Clone, Debug)]
struct Tensor {
    storage: Arc<DeviceBuffer<f32>>,
}

/// The device, the kernels and the memory of all tensors.
#[derive(Debug)]
struct Backend {
    stream: Stream,
    kernels: HashMap<&'static str, (usize, Function)>,
    pool: CachingPool,
}

impl Backend {
    fn new(session: &Session) -> Result<Self> {
        let mut source = String::new();
        for (name, inputs, result) in OPERATIONS {
            let inputs = ["a", "b", "c"][..inputs].join(", const float *");
            source += &format!(
                r#"extern "C" __global__ void {name}(const float *{inputs}, float *out, unsigned n) {{
                    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                    if (i < n) out[i] = {result};
                }}
                "#
            );
        }
        let module = Module::from_source(&session.context, source)?;
        let kernel = |(name, inputs, _)| Ok((name, (inputs, module.function(name)?)));
        Ok(Self {
            stream: session.stream.clone(),
            kernels: OPERATIONS.into_iter().map(kernel).collect::<Result<_>>()?,
            pool: CachingPool::new(&session.context),
        })
    }

    fn tensor(&self, values: &[f32]) -> Result<Tensor> {
        let buffer = DeviceBuffer::from_host_in(&self.pool, &self.stream, values)?;
        let storage = Arc::new(buffer);
        Ok(Tensor { storage })
    }

    /// Queues the operation `name`. Safe, because it checks what the kernel relies on.
    fn apply(&self, name: &str, inputs: &[&Tensor]) -> Result<Tensor> {
        let found = self
            .kernels
            .get(name)
            .filter(|(count, _)| *count == inputs.len());
        let (_, kernel) =
            found.ok_or(format!("no operation {name} of {} tensors", inputs.len()))?;
        let len = inputs[0].storage.len();
        if inputs.iter().any(|input| input.storage.len() != len) {
            return Err(format!("the tensors of {name} have different lengths").into());
        }
        let n = u32::try_from(len)?;
        let mut out = DeviceBuffer::<f32>::zeroed_in(&self.pool, &self.stream, len)?;
        let mut args = ArgList::new();
        for input in inputs {
            args.push(&*input.storage);
        }
        args.push(&mut out).push(n);
        // SAFETY: the kernel reads n floats of as many inputs as it has, and writes n of `out`.
        unsafe {
            self.stream
                .launch(kernel, LaunchConfig::for_num_elems(n)?, &args)?
        };
        drop(args);
        let storage = Arc::new(out);
        Ok(Tensor { storage })
    }
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let backend = Backend::new(&session)?;

    let n = 50_000;
    let a: Vec<f32> = (0..n).map(|i| (i % 100) as f32 - 50.0).collect();
    let b: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    let weight = backend.tensor(&b)?;
    let mut x = backend.tensor(&a)?;
    // The host queues all operations without a wait. Intermediate tensors are dropped while the
    // device still uses them; the pool reuses their memory on the same stream.
    for _ in 0..10 {
        let product = backend.apply("mul", &[&x, &weight])?;
        let sum = backend.apply("add", &[&product, &x])?;
        let positive = backend.apply("relu", &[&sum])?;
        x = backend.apply("mean3", &[&positive, &x, &weight])?;
    }
    let shared = x.clone();
    if backend.apply("add", &[&x]).is_ok() {
        return Err("an operation of two tensors accepted one".into());
    }
    let statistics = backend.pool.statistics();
    println!(
        "tensor: {} allocations reused memory, {} did not",
        statistics.hits, statistics.misses
    );

    let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| reference(*a, *b)).collect();
    verify("tensor", &shared.storage.to_vec()?, &want, 1e-5)
}

/// Computes one element on the host.
fn reference(a: f32, weight: f32) -> f32 {
    (0..10).fold(a, |x, _| ((x * weight + x).max(0.0) + x + weight) / 3.0)
}
