//! Teaches: an asynchronous pipeline. One stream uploads images, one filters them, and one
//! downloads the results, from and to page-locked memory; `.await` waits for the oldest image only.
//!
//! No call orders the three streams: the library orders all uses of the same buffer.
//!
//! Prints the number of images per second, and the number of verified pixels. With a path, it
//! writes the first image before and after both filters as a PNG file.
//!
//! `cargo run -p examples --example image_pipeline -- image_pipeline.png`

use std::collections::VecDeque;
use std::time::Instant;

use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};
use image::GrayImage;

const SOURCE: &str = r#"
__device__ int at(const unsigned char *image, int x, int y, int width, int height) {
    x = min(max(x, 0), width - 1), y = min(max(y, 0), height - 1);
    return image[y * width + x];
}

// The mean of 5 x 5 pixels.
extern "C" __global__ void blur(const unsigned char *in, unsigned char *out, int width,
                                int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int sum = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) sum += at(in, x + dx, y + dy, width, height);
    out[y * width + x] = sum / 25;
}

// The edges: horizontal plus vertical differences.
extern "C" __global__ void edges(const unsigned char *in, unsigned char *out, int width,
                                 int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int across = at(in, x + 1, y, width, height) - at(in, x - 1, y, width, height);
    int down = at(in, x, y + 1, width, height) - at(in, x, y - 1, width, height);
    out[y * width + x] = min(255, 3 * (abs(across) + abs(down)));
}
"#;
/// The number of images in progress at the same time.
const DEPTH: usize = 3;

fn main() -> Result<()> {
    pollster::block_on(run())
}

async fn run() -> Result<()> {
    let session = Session::open()?;
    let context = &session.context;
    let module = SafeModule::from_source(context, SOURCE)?;
    let (blur, edges) = (module.kernel("blur")?, module.kernel("edges")?);
    let stream = || Stream::new(context, StreamFlags::NON_BLOCKING, 0);
    let (upload, compute, download) = (stream()?, stream()?, stream()?);

    let (size, count): (u32, u32) = match session.is_software() {
        true => (160, 6),
        false => (1024, 30),
    };
    let pixels = (size * size) as usize;
    let config = LaunchConfig::new((size.div_ceil(16), size.div_ceil(16)), (16, 16));
    let pinned = || PinnedBuffer::<u8>::zeroed(context, pixels, PinnedFlags::DEFAULT);

    let mut in_progress = VecDeque::new();
    let mut results = Vec::new();
    let start = Instant::now();
    for number in 0..count {
        let mut source = pinned()?;
        source.copy_from_slice(&picture(number, size));

        let mut image = DeviceBuffer::<u8>::zeroed(&upload, pixels)?;
        let mut smooth = DeviceBuffer::<u8>::zeroed(&compute, pixels)?;
        let mut outline = DeviceBuffer::<u8>::zeroed(&compute, pixels)?;
        let sent = image.copy_from_pinned_async(source, &upload)?;
        compute.launch_safe(&blur, config, (&image, &mut smooth, size, size))?;
        compute.launch_safe(&edges, config, (&smooth, &mut outline, size, size))?;
        let smooth = smooth.copy_to_pinned_async(pinned()?, &download)?;
        let outline = outline.copy_to_pinned_async(pinned()?, &download)?;

        // Nothing has been waited for. The device buffers are freed after the queued work.
        in_progress.push_back((sent, smooth, outline));
        if in_progress.len() == DEPTH {
            results.extend(finish(in_progress.pop_front()).await?);
        }
    }
    while !in_progress.is_empty() {
        results.extend(finish(in_progress.pop_front()).await?);
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    println!("image_pipeline: {count} images of {size} x {size}, {rate:.0} per second");

    if let Some(path) = std::env::args().nth(1) {
        let picture = GrayImage::from_fn(3 * size, size, |x, y| {
            let image = &results[0][(x / size) as usize];
            image::Luma([image[(y * size + x % size) as usize]])
        });
        picture.save(&path)?;
        println!("image_pipeline: wrote {path}");
    }

    // The host computes the first and the last image.
    for number in [0, count - 1] {
        let [_, smooth, outline] = &results[number as usize];
        let (want_smooth, want_outline) = reference(&picture(number, size), size as usize);
        verify_equal("image_pipeline, blurred", smooth, &want_smooth)?;
        verify_equal("image_pipeline, edges", outline, &want_outline)?;
    }
    Ok(())
}

type Moving = Transfer<PinnedBuffer<u8>>;

/// Waits for an image, and returns its source and its results.
async fn finish(images: Option<(Moving, Moving, Moving)>) -> Result<Option<[Vec<u8>; 3]>> {
    let Some((sent, smooth, outline)) = images else {
        return Ok(None);
    };
    let images = [sent.await?, smooth.await?, outline.await?];
    Ok(Some(images.map(|image| image.to_vec())))
}

/// Draws an image: discs and stripes that move with the number of the image.
fn picture(number: u32, size: u32) -> Vec<u8> {
    let pixel = |x: u32, y: u32| {
        let (u, v) = (x as f32 / size as f32, y as f32 / size as f32);
        let shift = 0.02 * number as f32;
        let discs = [
            (0.3 + shift, 0.35, 0.22, 230),
            (0.65, 0.6 - shift, 0.25, 150),
        ];
        let disc = discs
            .iter()
            .find(|(x, y, radius, _)| (u - x).hypot(v - y) < *radius);
        let stripe = ((u + v + shift) * 12.0) as u32;
        match disc {
            Some((_, _, _, shade)) => *shade,
            None if stripe.is_multiple_of(3) => 90,
            None => 30,
        }
    };
    (0..size * size)
        .map(|at| pixel(at % size, at / size))
        .collect()
}

/// Computes both filters on the host.
fn reference(image: &[u8], size: usize) -> (Vec<u8>, Vec<u8>) {
    let at = |image: &[u8], x: i32, y: i32| {
        let inside = |it: i32| it.clamp(0, size as i32 - 1) as usize;
        i32::from(image[inside(y) * size + inside(x)])
    };
    let positions = || (0..size as i32).flat_map(|y| (0..size as i32).map(move |x| (x, y)));
    let mean = |(x, y): (i32, i32)| {
        let around = (-2..=2).flat_map(|dy| (-2..=2).map(move |dx| (x + dx, y + dy)));
        (around.map(|(x, y)| at(image, x, y)).sum::<i32>() / 25) as u8
    };
    let smooth: Vec<u8> = positions().map(mean).collect();
    let edge = |(x, y): (i32, i32)| {
        let across = at(&smooth, x + 1, y) - at(&smooth, x - 1, y);
        let down = at(&smooth, x, y + 1) - at(&smooth, x, y - 1);
        (3 * (across.abs() + down.abs())).min(255) as u8
    };
    let outline = positions().map(edge).collect();
    (smooth, outline)
}
