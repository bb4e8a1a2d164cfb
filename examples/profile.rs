//! Teaches: where the time goes: a profile of the training of a small network.
//!
//! Each step copies a batch on one stream, computes on another, and updates the weights with a
//! graph.
//!
//! Prints a table, and that the trained weights are those that the host computes. With a folder, it
//! writes a page (`profile.html`), a timeline for <https://ui.perfetto.dev> (`profile.json`) and
//! the statistics (`profile.csv`) there.
//!
//! `cargo run -p examples --example profile -- FOLDER`

use std::fs;
use std::path::Path;

use cuda_driver::prelude::*;
use cuda_driver::profile::Profiler;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
// c = a * b, where a is m x k and b is k x n; either can be transposed in memory.
extern "C" __global__ void matmul(float *c, const float *a, const float *b,
                                  unsigned m, unsigned n, unsigned k,
                                  unsigned a_is_transposed, unsigned b_is_transposed) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, i = at / n, j = at % n;
    if (i >= m) return;
    float sum = 0;
    for (unsigned l = 0; l < k; ++l)
        sum += (a_is_transposed ? a[l * m + i] : a[i * k + l]) *
               (b_is_transposed ? b[j * k + l] : b[l * n + j]);
    c[at] = sum;
}

extern "C" __global__ void relu(float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] > 0 ? x[i] : 0;
}

extern "C" __global__ void subtract(float *x, const float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] -= y[i];
}

extern "C" __global__ void mask(float *x, const float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0) x[i] = 0;
}

extern "C" __global__ void update(float *weights, const float *gradient, unsigned n, float rate) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) weights[i] -= rate * gradient[i];
}
"#;

const STEPS: usize = 3;
const BATCH: usize = 64;
const INPUTS: usize = 32;
const HIDDEN: usize = 32;
const OUTPUTS: usize = 8;
const RATE: f32 = 0.001;

/// The shape of a product: rows, columns, and the length of the sums; and which of the factors are
/// transposed in memory.
type Shape = (usize, usize, usize, bool, bool);

const TO_HIDDEN: Shape = (BATCH, HIDDEN, INPUTS, false, false);
const TO_OUTPUTS: Shape = (BATCH, OUTPUTS, HIDDEN, false, false);
const OF_OUTPUT_WEIGHTS: Shape = (HIDDEN, OUTPUTS, BATCH, true, false);
const BACK_TO_HIDDEN: Shape = (BATCH, HIDDEN, OUTPUTS, false, true);
const OF_HIDDEN_WEIGHTS: Shape = (INPUTS, HIDDEN, BATCH, true, false);

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let module = session.load("network.cu", SOURCE)?;
    let matmul = module.kernel("matmul")?;
    let [relu, subtract, mask, update] =
        ["relu", "subtract", "mask", "update"].map(|name| module.kernel(name));
    let (relu, subtract, mask, update) = (relu?, subtract?, mask?, update?);
    let config = |n: usize| LaunchConfig::for_num_elems(n as u64);
    let multiply =
        |c: &mut DeviceBuffer<f32>, a: &DeviceBuffer<f32>, b: &DeviceBuffer<f32>, shape: Shape| {
            let (m, n, k, of_a, of_b) = shape;
            let flags = (u32::from(of_a), u32::from(of_b));
            let args = (c, a, b, m as u32, n as u32, k as u32, flags.0, flags.1);
            stream.launch_safe(&matmul, config(m * n)?, args)
        };

    let copies = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
    let mut weights = [values(INPUTS * HIDDEN, 1), values(HIDDEN * OUTPUTS, 2)];
    let on_device = |values: &[f32]| DeviceBuffer::from_host(stream, values);
    let (mut first, mut second) = (on_device(&weights[0])?, on_device(&weights[1])?);
    let zeroed = |len: usize| DeviceBuffer::<f32>::zeroed(stream, len);
    let (mut hidden, mut outputs) = (zeroed(BATCH * HIDDEN)?, zeroed(BATCH * OUTPUTS)?);
    let mut back = zeroed(BATCH * HIDDEN)?;
    let (mut of_first, mut of_second) = (zeroed(INPUTS * HIDDEN)?, zeroed(HIDDEN * OUTPUTS)?);

    // The weights change in the same way in each step: a graph.
    let mut graph = Graph::new(context)?;
    let pairs = [(&mut first, &of_first), (&mut second, &of_second)];
    for (weights, gradient) in pairs {
        let n = weights.len();
        let args = (weights, gradient, n as u32, RATE);
        graph.add_kernel_safe(&[], &update, config(n)?, args)?;
    }
    let learn = graph.instantiate()?;

    let batches: Vec<_> = (0..STEPS).map(|step| batch(step as u32)).collect();
    let profiler = Profiler::start(context)?;
    for (step, (input, target)) in batches.iter().enumerate() {
        profiler.range(&format!("step {step}"), || -> Result<()> {
            // These buffers belong to the other stream: the launches below wait for the copies.
            let (x, t) = profiler.range("batch", || -> Result<_> {
                let x = DeviceBuffer::from_host(&copies, input)?;
                Ok((x, DeviceBuffer::from_host(&copies, target)?))
            })?;
            profiler.range("forward", || -> Result<()> {
                multiply(&mut hidden, &x, &first, TO_HIDDEN)?;
                let n = hidden.len();
                stream.launch_safe(&relu, config(n)?, (&mut hidden, n as u32))?;
                multiply(&mut outputs, &hidden, &second, TO_OUTPUTS)?;
                Ok(())
            })?;
            profiler.range("backward", || -> Result<()> {
                let n = outputs.len();
                stream.launch_safe(&subtract, config(n)?, (&mut outputs, &t, n as u32))?;
                multiply(&mut of_second, &hidden, &outputs, OF_OUTPUT_WEIGHTS)?;
                multiply(&mut back, &outputs, &second, BACK_TO_HIDDEN)?;
                let n = back.len();
                stream.launch_safe(&mask, config(n)?, (&mut back, &hidden, n as u32))?;
                multiply(&mut of_first, &x, &back, OF_HIDDEN_WEIGHTS)?;
                Ok(learn.launch(stream)?)
            })
        })?;
    }
    let profile = profiler.finish()?;
    println!("{}", profile.table());
    if let Some(folder) = std::env::args().nth(1) {
        let folder = Path::new(&folder);
        fs::write(folder.join("profile.html"), profile.html())?;
        fs::write(folder.join("profile.csv"), profile.csv())?;
        profile.write_trace(fs::File::create(folder.join("profile.json"))?)?;
        println!("profile: wrote {}", folder.join("profile.html").display());
    }

    for (input, target) in &batches {
        train(&mut weights, input, target);
    }
    verify("profile", &first.to_vec()?, &weights[0], 1e-3)?;
    verify("profile", &second.to_vec()?, &weights[1], 1e-3)
}

/// Returns numbers from -0.5 to 0.5.
fn values(len: usize, seed: u32) -> Vec<f32> {
    let number = |i: usize| {
        (i as u32)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(seed * 40_503)
    };
    (0..len)
        .map(|i| (number(i) >> 8) as f32 / (1 << 24) as f32 - 0.5)
        .collect()
}

/// Returns inputs, and the sums of some of them as targets.
fn batch(step: u32) -> (Vec<f32>, Vec<f32>) {
    let input = values(BATCH * INPUTS, 10 + step);
    let sums = input.chunks(INPUTS / OUTPUTS).map(|part| part.iter().sum());
    let target = sums.collect();
    (input, target)
}

/// A step on the host.
fn train(weights: &mut [Vec<f32>; 2], input: &[f32], target: &[f32]) {
    let mut hidden = product(input, &weights[0], TO_HIDDEN);
    hidden.iter_mut().for_each(|it| *it = it.max(0.0));
    let mut outputs = product(&hidden, &weights[1], TO_OUTPUTS);
    outputs.iter_mut().zip(target).for_each(|(it, t)| *it -= t);
    let of_second = product(&hidden, &outputs, OF_OUTPUT_WEIGHTS);
    let mut back = product(&outputs, &weights[1], BACK_TO_HIDDEN);
    for (it, hidden) in back.iter_mut().zip(&hidden) {
        *it = if *hidden > 0.0 { *it } else { 0.0 };
    }
    let of_first = product(input, &back, OF_HIDDEN_WEIGHTS);
    for (weights, gradient) in weights.iter_mut().zip([of_first, of_second]) {
        weights
            .iter_mut()
            .zip(gradient)
            .for_each(|(it, d)| *it -= RATE * d);
    }
}

/// The product of two matrices on the host.
fn product(a: &[f32], b: &[f32], (m, n, k, of_a, of_b): Shape) -> Vec<f32> {
    let a = |i: usize, l: usize| if of_a { a[l * m + i] } else { a[i * k + l] };
    let b = |l: usize, j: usize| if of_b { b[j * k + l] } else { b[l * n + j] };
    let sum = |at: usize| (0..k).map(|l| a(at / n, l) * b(l, at % n)).sum();
    (0..m * n).map(sum).collect()
}
