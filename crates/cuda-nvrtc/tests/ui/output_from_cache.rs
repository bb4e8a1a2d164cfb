//! What the cache stores is trusted, so safe code must not make an image of stored bytes.

use cuda_nvrtc::Output;

fn forge<T: Output>(bytes: Vec<u8>) -> T {
    T::from_stored(bytes, None).unwrap()
}

fn main() {}
