//! Teaches: the core of a tensor library: shared storage, kernels that are found by name, argument
//! lists whose length is known at run time, operations in place, and a pool that reuses memory.
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
    kernels: HashMap<&'static str, (usize, SafeKernel)>,
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
        let module = SafeModule::from_source(&session.context, source)?;
        let kernel = |(name, inputs, _)| Ok((name, (inputs, module.kernel(name)?)));
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

    /// Returns the kernel of the operation `name`, and the number of elements of its tensors.
    fn kernel(&self, name: &str, inputs: &[&Tensor]) -> Result<(&SafeKernel, u32)> {
        let found = self.kernels.get(name);
        let (_, kernel) = found
            .filter(|(count, _)| *count == inputs.len())
            .ok_or(format!("no operation {name} of {} tensors", inputs.len()))?;
        let len = inputs[0].storage.len();
        if inputs.iter().any(|input| input.storage.len() != len) {
            return Err(format!("the tensors of {name} have different lengths").into());
        }
        Ok((kernel, u32::try_from(len)?))
    }

    /// Queues the operation `name`.
    fn apply(&self, name: &str, inputs: &[&Tensor]) -> Result<Tensor> {
        let (kernel, n) = self.kernel(name, inputs)?;
        let mut out = DeviceBuffer::<f32>::zeroed_in(&self.pool, &self.stream, n as usize)?;
        let mut args = ArgList::new();
        for input in inputs {
            args.push(&*input.storage);
        }
        args.push(&mut out).push(n);
        let config = LaunchConfig::for_num_elems(n)?;
        self.stream.launch_safe(kernel, config, &args)?;
        drop(args);
        let storage = Arc::new(out);
        Ok(Tensor { storage })
    }

    /// Queues the operation `name` of `x` and `others`, whose result replaces `x`. If no other
    /// tensor shares the storage of `x`, it needs no new memory.
    fn apply_to(&self, x: &mut Tensor, name: &str, others: &[&Tensor]) -> Result<()> {
        let inputs: Vec<&Tensor> = [&*x].into_iter().chain(others.iter().copied()).collect();
        let (kernel, n) = self.kernel(name, &inputs)?;
        if Arc::strong_count(&x.storage) > 1 {
            *x = self.apply(name, &inputs)?;
            return Ok(());
        }
        let storage = Arc::get_mut(&mut x.storage).ok_or("the storage is shared")?;
        // SAFETY: the element-wise kernels permit that the output is an input: each thread reads
        // its elements before it writes one, and no parameter is `__restrict__`. No other tensor
        // shares the storage, so nothing relies on its elements.
        let out = unsafe { storage.alias_mut() }?;
        let mut args = ArgList::new();
        args.push(&*storage);
        for other in others {
            args.push(&*other.storage);
        }
        args.push(out).push(n);
        let config = LaunchConfig::for_num_elems(n)?;
        self.stream.launch_safe(kernel, config, &args)?;
        Ok(())
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
        let mut sum = backend.apply("mul", &[&x, &weight])?;
        backend.apply_to(&mut sum, "add", &[&x])?;
        backend.apply_to(&mut sum, "relu", &[])?;
        x = backend.apply("mean3", &[&sum, &x, &weight])?;
    }
    // The clone shares the storage, so the operation does not change it.
    let shared = x.clone();
    backend.apply_to(&mut x, "relu", &[])?;
    if backend.apply("add", &[&x]).is_ok() {
        return Err("an operation of two tensors accepted one".into());
    }
    let statistics = backend.pool.statistics();
    println!(
        "tensor: {} allocations reused memory, {} did not",
        statistics.hits, statistics.misses
    );

    let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| reference(*a, *b)).collect();
    let positive: Vec<f32> = want.iter().map(|value| value.max(0.0)).collect();
    verify("tensor, after relu", &x.storage.to_vec()?, &positive, 1e-5)?;
    verify("tensor", &shared.storage.to_vec()?, &want, 1e-5)
}

/// Computes one element on the host.
fn reference(a: f32, weight: f32) -> f32 {
    (0..10).fold(a, |x, _| ((x * weight + x).max(0.0) + x + weight) / 3.0)
}
