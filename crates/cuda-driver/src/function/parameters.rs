//! What a kernel takes.

use cuda_sys::image::Parameter;
use cuda_sys::{CUfunction, CUresult, calls};

use crate::driver::{Driver, call};
use crate::error::DriverError;
use crate::module::ModuleInner;

/// The parameters of a kernel, without making the driver fail where that can be avoided: tools that watch it, such as
/// compute-sanitizer, report each failed call.
pub(super) fn parameters_of(
    module: &ModuleInner,
    raw: CUfunction,
    name: &str,
) -> Result<Option<Vec<Parameter>>, DriverError> {
    let driver = module.context().driver();
    let told = module.signature(name);
    let count = match told {
        Some(parameters) => Some(parameters.len()),
        None => parameter_count(driver, raw)?,
    };
    let mut known = Vec::new();
    while count.is_none_or(|count| known.len() < count) {
        let (mut offset, mut size) = (0, 0);
        let table = driver.table_for(calls::cuFuncGetParamInfo)?;
        // SAFETY: the pointers must be writable and the function alive ← locals, and its module is borrowed.
        let status =
            unsafe { table.cuFuncGetParamInfo(raw, known.len(), &raw mut offset, &raw mut size) };
        match status {
            CUresult::CUDA_SUCCESS => known.push(Parameter { offset, size }),
            // Before CUDA 12.4 the driver cannot say, and what the compiler said has to do.
            CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => return Ok(told.map(<[_]>::to_vec)),
            // One past the last: that is how a driver before CUDA 13.2 tells the count.
            CUresult::CUDA_ERROR_INVALID_VALUE => break,
            _ => driver.check(status, calls::cuFuncGetParamInfo)?,
        }
    }
    Ok(Some(known))
}

/// `cuFuncGetParamCount`; `None` where the driver has no such function.
fn parameter_count(driver: &Driver, raw: CUfunction) -> Result<Option<usize>, DriverError> {
    let mut count = 0;
    // SAFETY: the pointer must be writable and the function alive ← a local, and the caller has it.
    match unsafe { call!(driver, cuFuncGetParamCount(raw, &raw mut count)) } {
        Ok(()) => Ok(Some(count)),
        Err(error) if error.status() == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => Ok(None),
        Err(error) => Err(error),
    }
}
