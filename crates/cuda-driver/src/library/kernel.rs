//! The kernels of a library, which belong to no context. Each of them returns a function for a
//! context.

use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::image::Parameter;
use cuda_sys::{CUfunc_cache, CUkern_st, CUkernel, calls};

use crate::context::{CacheConfig, Context};
use crate::device::Device;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::function::{Function, FunctionAttribute, parameters};
use crate::module::{LibraryInner, find_signature};
use crate::types::SendPtr;

/// A kernel of a [`Library`](super::Library), which it keeps loaded. Cloning it is cheap.
#[derive(Clone)]
pub struct LibraryKernel {
    raw: SendPtr<CUkern_st>,
    name: Arc<str>,
    library: Arc<LibraryInner>,
}

impl LibraryKernel {
    pub(super) fn new(library: &Arc<LibraryInner>, raw: CUkernel, name: &str) -> Self {
        Self {
            raw: SendPtr(raw),
            name: name.into(),
            library: Arc::clone(library),
        }
    }

    /// `cuKernelGetName()`—Creates a kernel with the name that the driver returns.
    pub(super) fn named(library: &Arc<LibraryInner>, raw: CUkernel) -> Result<Self> {
        let mut name = ptr::null();
        // SAFETY: the pointer must be writable, and the library of the kernel loaded ← the pointer
        // is to a local, and `library` owns it.
        unsafe { call!(library.driver(), cuKernelGetName(&raw mut name, raw)) }?;
        // SAFETY: the string must be alive while it is used ← it belongs to the driver and lives as
        // long as the library.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Ok(Self::new(library, raw, &name))
    }

    /// `cuKernelGetFunction()`—Returns the function of the kernel in `context`, for launches on the
    /// streams of that context. Loads the library into the context if necessary.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the context belongs to another driver; the error of the driver's
    /// compiler, if the image was not compiled before.
    #[doc(alias = "cuKernelGetFunction")]
    pub fn function(&self, context: &Context) -> Result<Function> {
        let place = self.library.place(context)?;
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, and the kernel alive ← the pointer is to a local,
        // and `self` keeps the library of the kernel.
        unsafe {
            call!(
                context.driver(),
                cuKernelGetFunction(&raw mut raw, self.as_raw())
            )
        }?;
        Function::new(&place, raw, &self.name)
    }

    /// The name by which the kernel was looked up.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `cuKernelGetParamInfo()`—Returns the parameters of the kernel, as described by its image or
    /// else by the driver; `None` if neither describes them, as with [`Function::parameters`].
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_CONTEXT` if the image does not describe the parameters and no context is
    /// current on this thread.
    #[doc(alias = "cuKernelGetParamInfo")]
    #[doc(alias = "cuKernelGetParamCount")]
    pub fn parameters(&self) -> Result<Option<Vec<Parameter>>> {
        let (driver, kernel) = (self.library.driver(), self.as_raw());
        let signatures = self.library.signatures();
        let described = signatures.and_then(|signatures| find_signature(signatures, &self.name));
        let count = || {
            let mut count = 0;
            // SAFETY: the pointer must be writable, the kernel alive ← a local, and `self` keeps
            // its library.
            unsafe { call!(driver, cuKernelGetParamCount(kernel, &raw mut count)) }?;
            Ok(count)
        };
        if let Some(described) = described {
            return Ok(Some(described.to_vec()));
        }
        let known = parameters::collect(driver, None, count, |index, offset, size| {
            let table = driver.table_for(calls::cuKernelGetParamInfo)?;
            // SAFETY: the pointers must be writable, and the kernel alive ← the pointers are to
            // locals of `collect`, and `self` keeps the library of the kernel.
            let status = unsafe { table.cuKernelGetParamInfo(kernel, index, offset, size) };
            Ok((status, calls::cuKernelGetParamInfo))
        });
        Ok(known?)
    }

    /// `cuKernelGetAttribute(attribute, device)`—Returns an attribute of the kernel on a device, as
    /// the driver reports it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if this driver does not know the attribute,
    /// [`Error::OtherContext`] if the device belongs to another driver.
    #[doc(alias = "cuKernelGetAttribute")]
    pub fn attribute(&self, attribute: FunctionAttribute, device: &Device) -> Result<i32> {
        let driver = self.driver_of(device)?;
        let mut value = 0;
        // SAFETY: the pointer must be writable, and the kernel alive ← the pointer is to a local,
        // and `self` keeps the library of the kernel.
        unsafe {
            call!(
                driver,
                cuKernelGetAttribute(&raw mut value, attribute, self.as_raw(), device.as_raw())
            )
        }?;
        Ok(value)
    }

    /// `cuKernelSetAttribute(attribute, value, device)`—Sets an attribute of the kernel on a
    /// device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the attribute cannot be set, or not to this value.
    /// [`Error::Unsupported`] for the limit of dynamic shared memory: launches raise it
    /// automatically, and lowering it would break launches of other threads.
    #[doc(alias = "cuKernelSetAttribute")]
    pub fn set_attribute(
        &self,
        attribute: FunctionAttribute,
        value: i32,
        device: &Device,
    ) -> Result<()> {
        if attribute == FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
            return Err(Error::Unsupported {
                what: "setting the limit of dynamic shared memory; launches raise it automatically",
            });
        }
        let driver = self.driver_of(device)?;
        // SAFETY: the kernel must be alive ← `self` keeps its library.
        Ok(unsafe {
            call!(
                driver,
                cuKernelSetAttribute(attribute, value, self.as_raw(), device.as_raw())
            )
        }?)
    }

    /// `cuKernelSetCacheConfig(config, device)`—Sets the cache preference of the kernel on a
    /// device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know the preference.
    #[doc(alias = "cuKernelSetCacheConfig")]
    pub fn set_cache_config(&self, config: CacheConfig, device: &Device) -> Result<()> {
        let driver = self.driver_of(device)?;
        let config = CUfunc_cache(config.0);
        // SAFETY: the kernel must be alive ← `self` keeps its library.
        Ok(unsafe {
            call!(
                driver,
                cuKernelSetCacheConfig(self.as_raw(), config, device.as_raw())
            )
        }?)
    }

    /// Returns the driver of the library, or an error if the device belongs to another driver.
    fn driver_of(&self, device: &Device) -> Result<&crate::Driver> {
        let driver = self.library.driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        Ok(driver)
    }

    /// The raw kernel. It stays alive as long as any handle of it exists.
    #[must_use]
    pub fn as_raw(&self) -> CUkernel {
        self.raw.0
    }
}

impl fmt::Debug for LibraryKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LibraryKernel({})", self.name())
    }
}
