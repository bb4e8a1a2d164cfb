//! Textures and surfaces, which the safe layer does not have: the calls are those of C, the kernels
//! as any others.
//!
//! Elements that are read as they are must be right in every bit, and integers that become numbers
//! within 1e-6. What a linear filter gives must be within 1/256 of the range of the elements for
//! each dimension and between levels, which is what weights with 8 bits of fraction leave open.

mod elements;
mod exact;
mod filtered;
mod levels;
mod owners;
mod surfaces;

use crate::support::{Bench, Source};
use cuda_driver::prelude::*;
use owners::Texture;

const SOURCE: Source = Source::new("textures.cu", include_str!("../kernels/textures.cu"));

/// What a kernel of looks gives for each point.
fn look<O: DeviceRepr>(texture: &Texture<'_>, name: &str, points: &[[f32; 4]]) -> Vec<O> {
    let bench: &Bench = texture.bench;
    let kernel = bench.kernel(&SOURCE, name);
    let (at, mut out) = (bench.upload(points), bench.zeroed::<O>(points.len()));
    let config = LaunchConfig::for_num_elems(points.len() as u32);
    let args = (texture.raw, &at, &mut out, points.len() as u32);
    // SAFETY: the kernel reads a point and writes four words for each index below n ← so many are
    // in both; the texture lives until the results are here.
    unsafe { bench.stream.launch(&kernel, config, args) }.unwrap();
    bench.values(&out, name)
}

/// That numbers are within `bound` of those that the host computed.
#[track_caller]
fn must_be_near(found: &[f32], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= bound, "{what}: {found}, not {expected}");
    }
}
