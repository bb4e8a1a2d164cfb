//! Teaches: textures and surfaces. An image of bytes is rotated: a texture interpolates between its
//! pixels and returns black beyond its edges. The kernel writes an array through a surface, which
//! another texture reads at half the size. Both launches are safe ones: the handles are arguments,
//! the hardware keeps fetches in their textures, and stores to the surface are checked.
//!
//! Prints the number of verified pixels of both images.
//!
//! `cargo run -p examples --example texture`

use cuda_driver::prelude::*;
use cuda_driver::texture::{
    AddressMode, Array, ArrayFlags, ArrayShape, Filter, ReadMode, Sampler, Texture,
};
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
// Rotates the image around its middle.
extern "C" __global__ void rotate(cudaTextureObject_t in, cudaSurfaceObject_t out, int size,
                                  float cosine, float sine) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;
    float u = x + 0.5f - size / 2, v = y + 0.5f - size / 2;
    float pixel = tex2D<float>(in, cosine * u - sine * v + size / 2, sine * u + cosine * v + size / 2);
    // The first coordinate of a surface is in bytes.
    surf2Dwrite(pixel, out, x * (int)sizeof(float), y);
}

// Makes an image of half the size. At a corner of four pixels the filter returns their mean.
extern "C" __global__ void halve(cudaTextureObject_t in, float *out, int size) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;
    out[y * size + x] = tex2D<float>(in, (x + 0.5f) / size, (y + 0.5f) / size);
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let module = SafeModule::from_source(context, SOURCE)?;
    let (rotate, halve) = (module.kernel("rotate")?, module.kernel("halve")?);
    let size: u32 = if session.is_software() { 96 } else { 1024 };
    let len = size as usize;
    let (sine, cosine) = 0.5_f32.sin_cos();

    // A smooth picture, as bytes.
    let wave = |at: u32| (at as f32 / len as f32 * 12.0).sin();
    let byte = |x, y| (127.5 + 127.5 * wave(x) * wave(y)) as u8;
    let pixels: Vec<u8> = (0..size)
        .flat_map(|y| (0..size).map(move |x| byte(x, y)))
        .collect();

    let shape = ArrayShape::two_d(len, len);
    let image = Array::from_host(stream, &shape, &pixels)?;
    let mut rotated = Array::<f32>::zeroed(stream, &shape, ArrayFlags::SURFACE)?;
    let smooth = Sampler::new().filter(Filter::Linear);
    let as_number = smooth.read(ReadMode::NormalizedFloat);
    let input = Texture::new(&image, &as_number.address(AddressMode::Border))?;
    let output = Texture::new(&rotated, &smooth.normalized_coordinates())?;
    let mut small = DeviceBuffer::<f32>::zeroed(stream, len / 2 * (len / 2))?;

    let config = |size: u32| LaunchConfig::new((size.div_ceil(16), size.div_ceil(16)), (16, 16));
    let surface = rotated.surface_mut()?;
    let args = (&input, surface, size as i32, cosine, sine);
    stream.launch_safe(&rotate, config(size), args)?;
    let args = (&output, &mut small, size as i32 / 2);
    stream.launch_safe(&halve, config(size / 2), args)?;
    stream.synchronize()?;

    let got = rotated.to_vec()?;
    // The weights of the filter have 8 fraction bits in each dimension.
    let tolerance = 2.0 / 256.0 + 1e-3;
    verify(
        "rotated",
        &got,
        &rotated_on_host(&pixels, size, (cosine, sine)),
        tolerance,
    )?;
    let halved: Vec<f32> = (0..len / 2)
        .flat_map(|y| (0..len / 2).map(move |x| (2 * x, 2 * y)))
        .map(|(x, y)| {
            let at = y * len + x;
            (got[at] + got[at + 1] + got[at + len] + got[at + len + 1]) / 4.0
        })
        .collect();
    verify("halved", &small.to_vec()?, &halved, tolerance)
}

/// Rotates the image on the host, with exact weights.
fn rotated_on_host(pixels: &[u8], size: u32, (cosine, sine): (f32, f32)) -> Vec<f32> {
    let middle = (size / 2) as f32;
    let pixel = |x: i32, y: i32| match (u32::try_from(x), u32::try_from(y)) {
        (Ok(x), Ok(y)) if x < size && y < size => {
            f32::from(pixels[(y * size + x) as usize]) / 255.0
        }
        _ => 0.0,
    };
    let rotate = |x: u32, y: u32| {
        let (u, v) = (x as f32 + 0.5 - middle, y as f32 + 0.5 - middle);
        // Pixels are at the middle between whole coordinates.
        let across = cosine * u - sine * v + middle - 0.5;
        let down = sine * u + cosine * v + middle - 0.5;
        let (left, top) = (across.floor(), down.floor());
        let (right, bottom) = (across - left, down - top);
        let (x, y) = (left as i32, top as i32);
        let upper = pixel(x, y) * (1.0 - right) + pixel(x + 1, y) * right;
        let lower = pixel(x, y + 1) * (1.0 - right) + pixel(x + 1, y + 1) * right;
        upper * (1.0 - bottom) + lower * bottom
    };
    (0..size)
        .flat_map(|y| (0..size).map(move |x| (x, y)))
        .map(|(x, y)| rotate(x, y))
        .collect()
}
