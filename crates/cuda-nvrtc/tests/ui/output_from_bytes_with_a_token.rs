//! The token that functions of sealed traits require has no public path and cannot be created.

use cuda_nvrtc::Output;

fn forge<T: Output>(bytes: Vec<u8>) -> T {
    unsafe { T::from_nvrtc(bytes, Default::default()) }.unwrap()
}

fn named<T: Output>(bytes: Vec<u8>) -> T {
    unsafe { T::from_nvrtc(bytes, cuda_nvrtc::output::sealed::TOKEN) }.unwrap()
}

fn main() {}
