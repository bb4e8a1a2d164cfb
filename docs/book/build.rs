//! Compiles `kernels/scale.cu`, and writes `scale.rs` with a method for each kernel.

use cuda_build::{Arch, Kernels};

fn main() -> Result<(), cuda_build::Error> {
    Kernels::new("kernels/scale.cu")
        .arch(Arch::compute(7, 5)) // PTX for every device from compute capability 7.5 on
        .arch(Arch::sm(9, 0)) // machine code for 9.0
        .committed_ptx("kernels/scale.ptx")
        .generate()
}
