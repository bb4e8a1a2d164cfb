//! The parameters of a kernel, as described by the driver (`cuFuncGetParamInfo`) or the image.

use cuda_sys::image::Parameter;
use cuda_sys::{CUfunction, CUresult, calls};

use crate::driver::{Driver, call};
use crate::error::DriverError;
use crate::module::ModuleInner;

/// Returns the parameters of a kernel in a context.
pub(super) fn parameters_of(
    module: &ModuleInner,
    raw: CUfunction,
    name: &str,
) -> Result<Option<Vec<Parameter>>, DriverError> {
    let driver = module.context().driver();
    let count = || {
        let mut count = 0;
        // SAFETY: the pointer must be writable and the function alive ← `count` is a local, and the
        // module is borrowed.
        unsafe { call!(driver, cuFuncGetParamCount(raw, &raw mut count)) }?;
        Ok(count)
    };
    collect(
        driver,
        module.signature(name),
        count,
        |index, offset, size| {
            let table = driver.table_for(calls::cuFuncGetParamInfo)?;
            // SAFETY: the pointers must be writable and the function alive ← they come from
            // references, and the module is borrowed.
            let status = unsafe { table.cuFuncGetParamInfo(raw, index, offset, size) };
            Ok((status, calls::cuFuncGetParamInfo))
        },
    )
}

/// Collects all parameters, and avoids failing driver calls where possible: tools that watch the
/// driver, such as compute-sanitizer, report each failed call.
///
/// `described` holds the parameters that the image describes; `count` and `info` query the driver.
pub(crate) fn collect(
    driver: &Driver,
    described: Option<&[Parameter]>,
    count: impl FnOnce() -> Result<usize, DriverError>,
    info: impl Fn(
        usize,
        &mut usize,
        &mut usize,
    ) -> Result<(CUresult, &'static cuda_sys::Function), DriverError>,
) -> Result<Option<Vec<Parameter>>, DriverError> {
    let count = match described {
        Some(parameters) => Some(parameters.len()),
        None => match count() {
            Ok(count) => Some(count),
            // The driver is older than CUDA 13.2.
            Err(error) if error.status() == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => None,
            Err(error) => return Err(error),
        },
    };
    let mut known = Vec::new();
    while count.is_none_or(|count| known.len() < count) {
        let (mut offset, mut size) = (0, 0);
        let (status, call) = info(known.len(), &mut offset, &mut size)?;
        match status {
            CUresult::CUDA_SUCCESS => {
                let stated = described.and_then(|parameters| parameters.get(known.len()));
                known.push(Parameter {
                    offset,
                    size,
                    ..stated.cloned().unwrap_or_default()
                });
            }
            // A driver older than CUDA 12.4 cannot describe parameters, so use what the image says.
            CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => {
                return Ok(described.map(<[_]>::to_vec));
            }
            // The index is one past the last parameter, which is how a driver older than CUDA 13.2
            // reports the count. If the count is known, this is an error.
            CUresult::CUDA_ERROR_INVALID_VALUE if count.is_none() => break,
            _ => driver.check(status, call)?,
        }
    }
    Ok(Some(known))
}
