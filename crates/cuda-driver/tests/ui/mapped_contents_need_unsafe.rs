//! The contents of new physical memory are undefined and must not be read.

use cuda_driver::memory::Mapping;
use cuda_driver::prelude::*;

fn secrets(stream: &Stream, mapping: Mapping) -> Vec<u8> {
    mapping.into_buffer(stream).unwrap().to_vec().unwrap()
}

fn main() {}
