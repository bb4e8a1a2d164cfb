//! Kernels that do nothing, for measuring the cost of launches.

use cuda_driver::Error;
use cuda_driver::prelude::*;

/// The numbers of 8-byte parameters for which there is a kernel.
pub const COUNTS: [usize; 4] = [0, 4, 12, 64];

/// The PTX source of the kernels `k0`, `k4`, `k12` and `k64`, named by their number of parameters.
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

/// Loads the kernels of [`COUNTS`].
///
/// # Errors
///
/// Fails if the driver does not load the module.
pub fn empty_kernels(context: &Context) -> cuda_driver::Result<[Function; 4]> {
    let ptx = Ptx::new(empty_kernels_ptx()).map_err(|error| Error::NulByte {
        what: "PTX",
        position: error.nul_position(),
    })?;
    let module = Module::load(context, &ptx)?;
    let [k0, k4, k12, k64] = COUNTS.map(|count| module.function(&format!("k{count}")));
    Ok([k0?, k4?, k12?, k64?])
}
