//! Textures and surfaces, which the safe layer does not provide: they are created by C calls, and
//! the kernels are launched as any others.
//!
//! Elements that are read without conversion must be equal in every bit, and integers that are
//! converted to numbers must be within 1e-6. The results of a linear filter must be within 1/256 of
//! the range of the elements for each dimension, and for the interpolation between levels: that is
//! the precision of weights with 8 fraction bits.

mod elements;
mod exact;
mod filtered;
mod levels;
mod owners;
mod surfaces;

use crate::support::{Fixture, Source};
use cuda_driver::prelude::*;
use owners::Texture;

const SOURCE: Source = Source::new("textures.cu", include_str!("../kernels/textures.cu"));

/// The result of a texture kernel for each point.
fn look<O: DeviceRepr>(texture: &Texture<'_>, name: &str, points: &[[f32; 4]]) -> Vec<O> {
    let fixture: &Fixture = texture.fixture;
    let kernel = fixture.kernel(&SOURCE, name);
    let (at, mut out) = (fixture.upload(points), fixture.zeroed::<O>(points.len()));
    let config = LaunchConfig::for_num_elems(points.len() as u32).unwrap();
    let args = (texture.raw, &at, &mut out, points.len() as u32);
    // SAFETY: the kernel reads a point and writes four words for each index below n ← both buffers
    // have n; the texture lives until the results are copied.
    unsafe { fixture.stream.launch(&kernel, config, args) }.unwrap();
    fixture.values(&out, name)
}

/// Checks that numbers are within `bound` of those that the host computed.
#[track_caller]
fn must_be_near(found: &[f32], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= bound, "{what}: got {found}, expected {expected}");
    }
}
