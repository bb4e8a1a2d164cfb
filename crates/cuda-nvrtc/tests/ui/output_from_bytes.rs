//! A driver trusts a cubin, so the `Output` bound must not let safe code create one from any bytes.

use cuda_nvrtc::Output;

fn forge<T: Output>(bytes: Vec<u8>) -> T {
    T::from_nvrtc(bytes).unwrap()
}

fn main() {}
