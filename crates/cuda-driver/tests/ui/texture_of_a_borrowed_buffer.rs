//! A texture shares its memory: it does not borrow a buffer, which could be written meanwhile.

use cuda_driver::memory::PitchedBuffer;
use cuda_driver::texture::{Sampler, Texture};

fn f(rows: &PitchedBuffer<f32>) {
    let _ = Texture::new(rows, &Sampler::new());
}

fn main() {}
