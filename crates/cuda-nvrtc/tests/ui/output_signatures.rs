//! A launch is checked by the signatures of a cubin, so safe code must not attach those of another.

use cuda_nvrtc::{Output, Ptx};

fn attach<T: Output>(image: T, ptx: Ptx) -> T {
    image.complete(|| Some(ptx))
}

fn main() {}
