//! An array has one, two or four channels of 8, 16 or 32 bits.

use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayShape};

fn doubles(stream: &Stream) {
    let _ = Array::from_host(stream, &ArrayShape::one_d(2), &[1.0_f64, 2.0]);
}

fn three_channels(stream: &Stream) {
    let _ = Array::from_host(stream, &ArrayShape::one_d(1), &[[1.0_f32; 3]]);
}

fn main() {}
