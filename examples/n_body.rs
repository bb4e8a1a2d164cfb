//! Teaches: vector types, and tiles in shared memory: each block loads a tile of bodies once, and
//! all of its threads use it.
//!
//! Prints the number of interactions per second and the number of verified coordinates. With a
//! path, it writes the tracks of the bodies as a PNG file.
//!
//! `cargo run -p examples --example n_body -- n_body.png`

use std::f32::consts::TAU;
use std::time::Instant;

use cuda_driver::prelude::*;
use cuda_driver::vector::Float4;
use examples::{Result, Session, verify};
use image::{Rgb, RgbImage};

const SOURCE: &str = r#"
#define TILE 128
// One time step of n bodies, a multiple of TILE. A body is (x, y, z, mass).
extern "C" __global__ void step(const float4 *from, float4 *to, float4 *velocity, unsigned n,
                                float dt) {
    __shared__ float4 tile[TILE];
    unsigned i = blockIdx.x * TILE + threadIdx.x;
    float4 body = from[i], v = velocity[i];
    float3 a = make_float3(0.0f, 0.0f, 0.0f);
    for (unsigned first = 0; first < n; first += TILE) {
        tile[threadIdx.x] = from[first + threadIdx.x];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) {
            float x = tile[k].x - body.x, y = tile[k].y - body.y, z = tile[k].z - body.z;
            float inverse = rsqrtf(x * x + y * y + z * z + 1e-3f);
            float pull = tile[k].w * inverse * inverse * inverse;
            a.x += pull * x;
            a.y += pull * y;
            a.z += pull * z;
        }
        __syncthreads();
    }
    v = make_float4(v.x + dt * a.x, v.y + dt * a.y, v.z + dt * a.z, 0.0f);
    velocity[i] = v;
    to[i] = make_float4(body.x + dt * v.x, body.y + dt * v.y, body.z + dt * v.z, body.w);
}
"#;
const TILE: u32 = 128;
const DT: f32 = 0.004;
const STEPS: u32 = 150;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let step = SafeModule::from_source(context, SOURCE)?.kernel("step")?;

    let n: u32 = if session.is_software() { 256 } else { 8192 };
    let (bodies, velocities) = galaxies(n);
    let mut from = DeviceBuffer::from_host(stream, &bodies)?;
    let mut to = DeviceBuffer::<Float4>::zeroed(stream, n as usize)?;
    let mut velocity = DeviceBuffer::from_host(stream, &velocities)?;

    let mut tracks = Vec::new();
    let start = Instant::now();
    for _ in 0..STEPS {
        let config = LaunchConfig::new(n / TILE, TILE);
        stream.launch_safe(&step, config, (&from, &mut to, &mut velocity, n, DT))?;
        std::mem::swap(&mut from, &mut to);
        tracks.push(from.to_vec()?);
    }
    let pairs = f64::from(n).powi(2) * f64::from(STEPS);
    let rate = pairs / start.elapsed().as_secs_f64() / 1e6;
    println!("n_body: {n} bodies, {rate:.0} million interactions per second");

    if let Some(path) = std::env::args().nth(1) {
        draw(&tracks).save(&path)?;
        println!("n_body: wrote {path}");
    }

    // Rounding differences grow with each step, so only the first step is compared.
    let flat = |bodies: &[Float4]| -> Vec<f32> {
        bodies
            .iter()
            .flat_map(|body| [body.x, body.y, body.z])
            .collect()
    };
    let want = reference(&bodies, &velocities);
    verify("n_body", &flat(&tracks[0]), &flat(&want), 1e-5)
}

/// Returns two discs of bodies that fall towards each other: bodies and velocities.
fn galaxies(n: u32) -> (Vec<Float4>, Vec<Float4>) {
    let body = |i: u32| {
        let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        // The angles and radii of a sunflower: evenly spread over the disc.
        let (angle, part) = (2.399_963 * i as f32, i as f32 / n as f32);
        let radius = 0.05 + 0.4 * part.sqrt();
        let (sin, cos) = (angle % TAU).sin_cos();
        // The mass within the radius determines the speed of a circular orbit.
        let speed = (0.5 * part / radius).sqrt();
        let position = Float4 {
            x: 0.7 * side + radius * cos,
            y: 0.25 * side + radius * sin,
            z: 0.05 * side,
            w: 1.0 / n as f32,
        };
        let velocity = Float4 {
            x: -0.5 * side - speed * sin,
            y: speed * cos,
            z: 0.0,
            w: 0.0,
        };
        (position, velocity)
    };
    (0..n).map(body).unzip()
}

/// Computes one step on the host, in double precision.
fn reference(bodies: &[Float4], velocities: &[Float4]) -> Vec<Float4> {
    let next = |(body, velocity): (&Float4, &Float4)| {
        let mut a = [0.0_f64; 3];
        for other in bodies {
            let distance = [other.x - body.x, other.y - body.y, other.z - body.z].map(f64::from);
            let square: f64 = distance.iter().map(|it| it * it).sum();
            let pull = f64::from(other.w) * (square + 1e-3).powf(-1.5);
            a.iter_mut()
                .zip(distance)
                .for_each(|(a, it)| *a += pull * it);
        }
        let moved = |at: f32, v: f32, a: f64| at + DT * (v + DT * a as f32);
        Float4 {
            x: moved(body.x, velocity.x, a[0]),
            y: moved(body.y, velocity.y, a[1]),
            z: moved(body.z, velocity.z, a[2]),
            w: body.w,
        }
    };
    bodies.iter().zip(velocities).map(next).collect()
}

/// Draws each body of each step as a point. Later points are brighter, and the two galaxies have
/// different colours.
fn draw(tracks: &[Vec<Float4>]) -> RgbImage {
    let (width, height) = (640, 400);
    let mut picture = RgbImage::new(width, height);
    for (time, bodies) in tracks.iter().enumerate() {
        let light = 40.0 * (1.0 + time as f32) / tracks.len() as f32;
        for (i, body) in bodies.iter().enumerate() {
            let x = width as f32 * (0.5 + body.x / 3.2);
            let y = height as f32 * (0.5 + body.y / 2.0);
            if (0.0..width as f32).contains(&x) && (0.0..height as f32).contains(&y) {
                let Rgb(parts) = picture.get_pixel_mut(x as u32, y as u32);
                let tint = if i % 2 == 0 {
                    [1.0, 2.0, 4.0]
                } else {
                    [4.0, 2.0, 1.0]
                };
                for (part, tint) in parts.iter_mut().zip(tint) {
                    *part = part.saturating_add((light * tint) as u8);
                }
            }
        }
    }
    picture
}
