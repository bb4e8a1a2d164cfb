//! Teaches: a simulation as a graph. A function that queues two time steps is captured once, and
//! each launch of the graph repeats them. The same function also runs on a stream.
//!
//! Prints the time of a step, launched by a graph and launched alone, and the number of verified
//! temperatures. With a path, it writes the plate at three times as a PNG file.
//!
//! `cargo run -p examples --example heat -- heat.png`

use std::time::Instant;

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};
use image::{Rgb, RgbImage};

const SOURCE: &str = r#"
// One step of the heat equation on a square plate. The border keeps its temperature.
extern "C" __global__ void step(const float *from, float *to, unsigned n, float rate) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= n || row >= n) return;
    unsigned at = row * n + column;
    float here = from[at];
    if (row > 0 && row < n - 1 && column > 0 && column < n - 1) {
        float around = from[at - 1] + from[at + 1] + from[at - n] + from[at + n];
        here += rate * (around - 4.0f * here);
    }
    to[at] = here;
}
"#;
const RATE: f32 = 0.24;
/// The number of graph launches before each of the three pictures. A launch is two steps.
const LAUNCHES: [u32; 3] = [0, 15, 85];

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let step = SafeModule::from_source(context, SOURCE)?.kernel("step")?;

    let n: u32 = if session.is_software() { 160 } else { 512 };
    let plate = plate(n);
    let mut even = DeviceBuffer::from_host(stream, &plate)?;
    let mut odd = DeviceBuffer::from_host(stream, &plate)?;

    let graph = Graph::capture(context, |scope| {
        two_steps(scope, &step, &mut even, &mut odd, n)
    })?;
    let exec = graph.instantiate()?;

    let mut pictures = Vec::new();
    let start = Instant::now();
    for launches in LAUNCHES {
        for _ in 0..launches {
            exec.launch(stream)?;
        }
        // The copy waits for the launches before it.
        pictures.push(even.to_vec()?);
    }
    let steps = 2 * LAUNCHES.iter().sum::<u32>();
    println!("heat: {:?} per step of a graph", start.elapsed() / steps);

    if let Some(path) = std::env::args().nth(1) {
        draw(&pictures, n).save(&path)?;
        println!("heat: wrote {path}");
    }

    // The same steps again, launched one by one.
    even.copy_from_host(&plate)?;
    let start = Instant::now();
    for _ in 0..steps / 2 {
        two_steps(stream, &step, &mut even, &mut odd, n)?;
    }
    let alone = even.to_vec()?;
    println!(
        "heat: {:?} per step launched alone",
        start.elapsed() / steps
    );

    verify("heat, graph and launches", &pictures[2], &alone, 0.0)?;
    // The host computes the steps before the second picture.
    let want = reference(plate, n as usize, 2 * LAUNCHES[1]);
    verify("heat", &pictures[1], &want, 1e-5)
}

/// Queues two steps, on a stream or as nodes of a graph. Each waits for the one before, because it
/// uses the same buffers.
fn two_steps<Q: Queue>(
    queue: &Q,
    step: &SafeKernel,
    even: &mut DeviceBuffer<f32>,
    odd: &mut DeviceBuffer<f32>,
    n: u32,
) -> cuda_driver::Result<()> {
    let config = LaunchConfig::new((n.div_ceil(16), n.div_ceil(16)), (16, 16));
    step.launch(queue, config, (&*even, &mut *odd, n, RATE))?;
    step.launch(queue, config, (&*odd, even, n, RATE)).map(drop)
}

/// Returns the temperatures at the start: a hot ring, two hot bars and a cold disc.
fn plate(n: u32) -> Vec<f32> {
    let at = |index: u32| (index as f32 + 0.5) / n as f32 - 0.5;
    let temperature = |row: u32, column: u32| {
        let (x, y) = (at(column), at(row));
        let radius = x.hypot(y);
        let bar = (x.abs() - 0.4).abs() < 0.03 && y.abs() < 0.35;
        match radius {
            _ if bar => 1.0,
            0.2..0.26 => 1.0,
            ..0.1 => 0.0,
            _ => 0.2,
        }
    };
    let rows = (0..n).flat_map(|row| (0..n).map(move |column| (row, column)));
    rows.map(|(row, column)| temperature(row, column)).collect()
}

/// Computes the steps on the host.
fn reference(mut from: Vec<f32>, n: usize, steps: u32) -> Vec<f32> {
    let mut to = from.clone();
    for _ in 0..steps {
        for at in (1..n - 1).flat_map(|row| (row * n + 1)..(row * n + n - 1)) {
            let around = from[at - 1] + from[at + 1] + from[at - n] + from[at + n];
            to[at] = from[at] + RATE * (around - 4.0 * from[at]);
        }
        std::mem::swap(&mut from, &mut to);
    }
    from
}

/// Draws the plates side by side, from black (cold) over red and yellow to white (hot).
fn draw(plates: &[Vec<f32>], n: u32) -> RgbImage {
    RgbImage::from_fn(n * plates.len() as u32, n, |x, y| {
        let heat = plates[(x / n) as usize][(y * n + x % n) as usize];
        let part = |from: f32| (255.0 * (3.0 * heat - from).clamp(0.0, 1.0)) as u8;
        Rgb([part(0.0), part(1.0), part(2.0)])
    })
}
