//! Teaches: a two-dimensional launch whose result becomes a picture.
//!
//! Prints how long the kernel took, and the number of pixels that were compared with the host. With
//! a path, it writes the picture as a PNG file.
//!
//! `cargo run -p examples --example mandelbrot -- mandelbrot.png`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};
use image::{Rgb, RgbImage};

const SOURCE: &str = r#"
// Counts the steps of z = z * z + c until |z| > 2. Each `fmaf` rounds once, as `mul_add` does.
extern "C" __global__ void mandelbrot(unsigned *steps, unsigned width, unsigned height,
                                      unsigned limit) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    float pixel = 2.5f / height;
    float cx = fmaf((float)column, pixel, -2.4f), cy = fmaf((float)row, pixel, -1.25f);
    float x = 0.0f, y = 0.0f;
    unsigned n = 0;
    while (n < limit && fmaf(x, x, y * y) <= 4.0f) {
        float next = fmaf(x, x, fmaf(-y, y, cx));
        y = fmaf(2.0f * x, y, cy);
        x = next;
        n++;
    }
    steps[row * width + column] = n;
}
"#;
const LIMIT: u32 = 100;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let mandelbrot = SafeModule::from_source(context, SOURCE)?.kernel("mandelbrot")?;

    let (width, height): (u32, u32) = match session.is_software() {
        true => (480, 320),
        false => (1920, 1280),
    };
    let mut steps = DeviceBuffer::<u32>::zeroed(stream, (width * height) as usize)?;
    let config = LaunchConfig::new((width.div_ceil(16), height.div_ceil(16)), (16, 16));
    let start = stream.record_event()?;
    stream.launch_safe(&mandelbrot, config, (&mut steps, width, height, LIMIT))?;
    let end = stream.record_event()?;
    let steps = steps.to_vec()?;
    println!(
        "mandelbrot: {width} x {height} pixels in {:?}",
        end.elapsed_since(&start)?
    );

    if let Some(path) = std::env::args().nth(1) {
        let picture = RgbImage::from_fn(width, height, |column, row| {
            color(steps[(row * width + column) as usize])
        });
        picture.save(&path)?;
        println!("mandelbrot: wrote {path}");
    }

    // The host is slow, so it computes every 16th row.
    let rows = (0..height).step_by(16);
    let (got, want): (Vec<u32>, Vec<u32>) = rows
        .flat_map(|row| (0..width).map(move |column| (column, row)))
        .map(|(column, row)| {
            let got = steps[(row * width + column) as usize];
            (got, count(column, row, height))
        })
        .unzip();
    verify_equal("mandelbrot", &got, &want)
}

/// Computes what the kernel computes for one pixel.
fn count(column: u32, row: u32, height: u32) -> u32 {
    let pixel = 2.5 / height as f32;
    let cx = (column as f32).mul_add(pixel, -2.4);
    let cy = (row as f32).mul_add(pixel, -1.25);
    let (mut x, mut y) = (0.0_f32, 0.0_f32);
    let mut n = 0;
    while n < LIMIT && x.mul_add(x, y * y) <= 4.0 {
        let next = x.mul_add(x, (-y).mul_add(y, cx));
        y = (2.0 * x).mul_add(y, cy);
        x = next;
        n += 1;
    }
    n
}

/// Returns the colour of a pixel: black inside of the set, and from blue over white to orange
/// outside of it.
fn color(steps: u32) -> Rgb<u8> {
    if steps == LIMIT {
        return Rgb([0, 0, 0]);
    }
    let t = (steps as f32 / LIMIT as f32).sqrt();
    let part = |at: f32| (255.0 * (1.0 - (2.2 * (t - at)).powi(2)).clamp(0.0, 1.0)) as u8;
    Rgb([part(0.75), part(0.55), part(0.35)])
}
