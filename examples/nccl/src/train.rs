//! Training with data parallelism: each rank computes the gradient for its part of the samples, and
//! an all-reduce adds the gradients. So all ranks have the same parameters after each step.

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;

use crate::Result;
use crate::ranks::Rank;

const INPUTS: usize = 4;
const HIDDEN: usize = 16;
/// The weights and biases of the hidden units, and those of the output.
const PARAMETERS: usize = HIDDEN * INPUTS + HIDDEN + HIDDEN + 1;
const SAMPLES: usize = 512;
const RATE: f32 = 0.1;

const SOURCE: &str = r#"
#define INPUTS 4
#define HIDDEN 16
#define B1 (HIDDEN * INPUTS)
#define W2 (B1 + HIDDEN)
#define B2 (W2 + HIDDEN)

// The activations of the hidden units, and the error of the output, of each of n samples.
extern "C" __global__ void forward(const float *p, const float *x, const float *target, float *h,
                                   float *error, unsigned n) {
    unsigned s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float y = p[B2];
    for (unsigned j = 0; j < HIDDEN; j++) {
        float a = p[B1 + j];
        for (unsigned i = 0; i < INPUTS; i++) a += p[j * INPUTS + i] * x[s * INPUTS + i];
        a = a / (1.0f + fabsf(a));
        h[s * HIDDEN + j] = a;
        y += p[W2 + j] * a;
    }
    error[s] = y - target[s];
}

// The gradient, a thread for each parameter; the last thread computes the loss.
extern "C" __global__ void backward(const float *p, const float *x, const float *h,
                                    const float *error, float *gradient, unsigned n) {
    unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k > B2 + 1) return;
    float sum = 0.0f;
    for (unsigned s = 0; s < n; s++) {
        float e = error[s];
        if (k == B2 + 1) e *= e;
        else if (k >= W2 && k < B2) e *= h[s * HIDDEN + k - W2];
        else if (k < W2) {
            unsigned j = k < B1 ? k / INPUTS : k - B1;
            float d = 1.0f - fabsf(h[s * HIDDEN + j]);
            e *= p[W2 + j] * d * d;
            if (k < B1) e *= x[s * INPUTS + k % INPUTS];
        }
        sum += e;
    }
    gradient[k] = sum;
}

extern "C" __global__ void descend(float *p, const float *gradient, float rate, unsigned n) {
    unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) p[k] -= rate * gradient[k];
}
"#;

/// Trains for a number of steps, and compares the parameters with those of the host.
pub(crate) fn run(rank: &mut Rank, steps: usize) -> Result<()> {
    let stream = rank.stream.clone();
    let module = SafeModule::from_source(stream.context(), SOURCE)?;
    let [forward, backward, descend] = ["forward", "backward", "descend"];
    let (forward, backward) = (module.kernel(forward)?, module.kernel(backward)?);
    let descend = module.kernel(descend)?;

    // The part of this rank.
    let part = rank.rank * SAMPLES / rank.ranks..(rank.rank + 1) * SAMPLES / rank.ranks;
    let n = part.len() as u32;
    let (x, targets) = samples();
    let x = DeviceBuffer::from_host(&stream, &x[part.start * INPUTS..part.end * INPUTS])?;
    let targets = DeviceBuffer::from_host(&stream, &targets[part])?;
    let mut hidden = DeviceBuffer::<f32>::zeroed(&stream, n as usize * HIDDEN)?;
    let mut errors = DeviceBuffer::<f32>::zeroed(&stream, n as usize)?;
    let mut parameters = DeviceBuffer::from_host(&stream, &start())?;
    // The gradient, then the loss. NCCL may access it from other devices.
    let mut gradient = DeviceBuffer::<f32>::zeroed_in(&Unpooled, &stream, PARAMETERS + 1)?;

    let report = (steps / 4).max(1);
    let per_sample = LaunchConfig::for_num_elems(n)?;
    let per_parameter = LaunchConfig::new(1, PARAMETERS as u32 + 1);
    let mut losses = Vec::new();
    for step in 1..=steps {
        let args = (&parameters, &x, &targets, &mut hidden, &mut errors, n);
        stream.launch_safe(&forward, per_sample, args)?;
        let args = (&parameters, &x, &hidden, &errors, &mut gradient, n);
        stream.launch_safe(&backward, per_parameter, args)?;
        rank.communicator.all_reduce(&stream, &mut gradient)?;
        let rate = RATE / SAMPLES as f32;
        let args = (&mut parameters, &gradient, rate, PARAMETERS as u32);
        stream.launch_safe(&descend, per_parameter, args)?;
        if step % 16 == 0 || step % report == 0 || step == steps {
            // Limits the queued work, and notices failures.
            rank.communicator.wait(&stream)?;
        }
        if step % report == 0 || step == 1 {
            let loss = gradient.to_vec()?[PARAMETERS] / SAMPLES as f32;
            rank.print_once(&format!("step {step}: loss {loss:.5}"));
            losses.push(loss);
        }
    }
    let got = parameters.to_vec()?;
    let want = on_host(steps);
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        // A value that is not a number fails too.
        if (got - want).abs() <= 2e-3 {
            continue;
        }
        return Err(format!("parameter {index} is {got}, expected {want}").into());
    }
    if losses.last() > losses.first() {
        return Err(format!("the loss did not decrease: {losses:?}").into());
    }
    let ranks = rank.ranks;
    rank.print_once(&format!(
        "train: {PARAMETERS} parameters verified, {ranks} ranks"
    ));
    Ok(())
}

/// Returns values from -1 to 1 that look random.
fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Returns the parameters before the first step.
fn start() -> Vec<f32> {
    let mut parameters = noise(1, PARAMETERS);
    parameters.iter_mut().for_each(|it| *it *= 0.5);
    parameters
}

/// Returns the inputs and the targets of all samples.
fn samples() -> (Vec<f32>, Vec<f32>) {
    let x = noise(2, SAMPLES * INPUTS);
    let rows = x.chunks_exact(INPUTS);
    let targets = rows.map(|x| x[0] * x[1] + 0.5 * x[2] - x[3] * x[3]);
    let targets = targets.collect();
    (x, targets)
}

/// Trains on the host with all samples.
fn on_host(steps: usize) -> Vec<f32> {
    const B1: usize = HIDDEN * INPUTS;
    const W2: usize = B1 + HIDDEN;
    const B2: usize = W2 + HIDDEN;
    let (x, targets) = samples();
    let mut p = start();
    for _ in 0..steps {
        let mut gradient = vec![0.0_f64; PARAMETERS];
        for (x, target) in x.chunks_exact(INPUTS).zip(&targets) {
            let mut h = [0.0_f32; HIDDEN];
            let mut y = p[B2];
            for (j, h) in h.iter_mut().enumerate() {
                let weights = p[j * INPUTS..].iter().zip(x);
                let a = p[B1 + j] + weights.map(|(w, x)| w * x).sum::<f32>();
                *h = a / (1.0 + a.abs());
                y += p[W2 + j] * *h;
            }
            let e = y - target;
            gradient[B2] += f64::from(e);
            for (j, h) in h.iter().enumerate() {
                let d = 1.0 - h.abs();
                let inner = e * p[W2 + j] * d * d;
                gradient[W2 + j] += f64::from(e * h);
                gradient[B1 + j] += f64::from(inner);
                for (i, x) in x.iter().enumerate() {
                    gradient[j * INPUTS + i] += f64::from(inner * x);
                }
            }
        }
        for (p, gradient) in p.iter_mut().zip(gradient) {
            *p -= RATE / SAMPLES as f32 * gradient as f32;
        }
    }
    p
}
