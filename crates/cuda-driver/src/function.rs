//! Kernels, and what the driver knows of their parameters.

use std::fmt;
use std::sync::Arc;

use cuda_sys::image::Parameter;
use cuda_sys::{CUfunction, CUfunction_attribute, CUresult, calls};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{ArgumentError, DriverError, Error, LaunchConfigError, Result};
use crate::launch::{Dim3, LaunchConfig};
use crate::module::ModuleInner;
use crate::stream::SendPtr;

/// A kernel of a [`Module`](crate::Module), which it keeps loaded. Cloning it is cheap.
#[derive(Clone)]
pub struct Function(Arc<Inner>);

struct Inner {
    raw: SendPtr<cuda_sys::CUfunc_st>,
    name: String,
    parameters: Option<Vec<Parameter>>,
    /// The sizes of `parameters` on their own, to compare at each launch.
    sizes: Vec<usize>,
    max_threads: u32,
    module: Arc<ModuleInner>,
}

impl Function {
    pub(crate) fn new(module: &Arc<ModuleInner>, raw: CUfunction, name: &str) -> Result<Self> {
        let driver = module.context().driver();
        let parameters = parameters_of(module, raw, name)?;
        let mut max_threads = 0;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        // SAFETY: the pointer must be writable and the function alive ← a local, and its module is borrowed.
        unsafe {
            call!(
                driver,
                cuFuncGetAttribute(&raw mut max_threads, attribute, raw)
            )
        }?;
        let max_threads = u32::try_from(max_threads).unwrap_or(0);
        let sizes = parameters
            .iter()
            .flatten()
            .map(|parameter| parameter.size)
            .collect();
        let (name, module) = (name.to_owned(), Arc::clone(module));
        Ok(Self(Arc::new(Inner {
            raw: SendPtr(raw),
            name,
            parameters,
            sizes,
            max_threads,
            module,
        })))
    }

    /// The name that it was looked up by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The parameters of the kernel, as the driver or its image tells them.
    ///
    /// `None` where neither does: on a driver older than CUDA 12.4 for an image without
    /// [signatures](cuda_sys::image::Signature). Arguments are not checked then.
    #[must_use]
    pub fn parameters(&self) -> Option<&[Parameter]> {
        self.0.parameters.as_deref()
    }

    /// `cuFuncGetAttribute(MAX_THREADS_PER_BLOCK)`—The most threads in a block of this kernel on its device.
    #[must_use]
    pub fn max_threads_per_block(&self) -> u32 {
        self.0.max_threads
    }

    /// The context of the kernel's module.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.module.context()
    }

    /// The raw function. It stays alive as long as a handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUfunction {
        self.0.raw.0
    }

    /// An error unless arguments of these sizes are what the kernel takes.
    #[inline]
    pub(crate) fn check_arguments(&self, sizes: &[usize]) -> Result<()> {
        match &self.0.parameters {
            Some(parameters) if self.0.sizes != sizes => {
                Err(self.argument_error(parameters, sizes))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn argument_error(&self, parameters: &[Parameter], sizes: &[usize]) -> Error {
        let kernel = self.name().to_owned();
        let (expected, given) = (parameters.len(), sizes.len());
        let differs = parameters
            .iter()
            .zip(sizes)
            .position(|(parameter, size)| parameter.size != *size);
        Error::Argument(Box::new(match differs {
            Some(index) if expected == given => ArgumentError::Size {
                kernel,
                index,
                expected: parameters[index].size,
                given: sizes[index],
            },
            _ => ArgumentError::Count {
                kernel,
                expected,
                given,
            },
        }))
    }

    /// An error unless device and kernel allow this configuration.
    #[inline]
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<()> {
        let limits = self.context().limits();
        let within = |dim: Dim3, most: [u32; 3]| {
            dim.x.wrapping_sub(1) < most[0]
                && dim.y.wrapping_sub(1) < most[1]
                && dim.z.wrapping_sub(1) < most[2]
        };
        let fine = within(config.grid, limits.grid)
            && within(config.block, limits.block)
            && config.block.count() <= u64::from(self.0.max_threads)
            && config.shared_bytes <= limits.shared;
        if fine {
            Ok(())
        } else {
            Err(self.config_error(config))
        }
    }

    #[cold]
    fn config_error(&self, config: &LaunchConfig) -> Error {
        let limits = self.context().limits();
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = *config;
        let [gx, gy, gz] = limits.grid;
        let [bx, by, bz] = limits.block;
        let facts = [
            ("grid.x", grid.x, 1, gx),
            ("grid.y", grid.y, 1, gy),
            ("grid.z", grid.z, 1, gz),
            ("block.x", block.x, 1, bx),
            ("block.y", block.y, 1, by),
            ("block.z", block.z, 1, bz),
            (
                "dynamic shared memory in bytes",
                shared_bytes,
                0,
                limits.shared,
            ),
        ];
        let broken = facts
            .into_iter()
            .find(|(_, given, least, most)| given < least || given > most);
        let (what, given, least, most) = match broken {
            Some((what, given, least, most)) => {
                (what, u64::from(given), u64::from(least), u64::from(most))
            }
            None => (
                "threads per block",
                block.count(),
                1,
                u64::from(self.0.max_threads),
            ),
        };
        let kernel = self.name().to_owned();
        Error::LaunchConfig(Box::new(LaunchConfigError {
            kernel,
            what,
            given,
            least,
            most,
        }))
    }
}

/// The parameters of a kernel, without making the driver fail where that can be avoided: tools that watch it, such as
/// compute-sanitizer, report each failed call.
fn parameters_of(
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

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name())
    }
}
