//! Compiles `kernels/filters.cu`. Without NVRTC, the committed PTX is used.

use cuda_build::{Arch, Kernels};

fn main() -> Result<(), cuda_build::Error> {
    Kernels::new("kernels/filters.cu")
        .arch(Arch::compute(7, 5))
        .arch(Arch::sm(9, 0))
        .kernel("blend<float>")
        .kernel("blend<unsigned char>")
        .rust_name("blend<unsigned char>", "blend_bytes")
        .rust_type("Range", "crate::Range")
        .committed_ptx("kernels/filters.ptx")
        .generate()
}
