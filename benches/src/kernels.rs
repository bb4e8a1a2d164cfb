//! Kernels that do nothing, for what their launches cost.

use cuda_driver::Error;
use cuda_driver::prelude::*;

/// The numbers of parameters, each of 8 bytes, that there are kernels of.
pub const COUNTS: [usize; 4] = [0, 4, 12, 64];

/// The source of the kernels `k0`, `k4`, `k12` and `k64`, of as many parameters.
#[must_use]
pub fn empty_kernels_ptx() -> String {
    let kernel = |count: usize| {
        let parameters: Vec<String> = (0..count).map(|i| format!(".param .u64 p{i}")).collect();
        format!(
            ".visible .entry k{count}({}) {{ ret; }}\n",
            parameters.join(", ")
        )
    };
    let kernels: String = COUNTS.into_iter().map(kernel).collect();
    format!(".version 7.0\n.target sm_52\n.address_size 64\n{kernels}")
}

/// Those kernels.
///
/// # Errors
///
/// What loading them answers.
pub fn empty_kernels(context: &Context) -> cuda_driver::Result<[Function; 4]> {
    let ptx = Ptx::new(empty_kernels_ptx()).map_err(|error| Error::NulByte {
        what: "PTX",
        position: error.nul_position(),
    })?;
    let module = Module::load(context, &ptx)?;
    let [k0, k4, k12, k64] = COUNTS.map(|count| module.function(&format!("k{count}")));
    Ok([k0?, k4?, k12?, k64?])
}
