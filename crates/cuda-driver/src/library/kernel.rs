//! Kernels of a library: the same in every context, until they are asked for the function in one.

use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::image::Parameter;
use cuda_sys::{CUfunc_cache, CUkern_st, CUkernel, calls};

use super::LibraryInner;
use crate::context::{CacheConfig, Context};
use crate::device::Device;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::function::{Function, FunctionAttribute, parameters};
use crate::module::find_signature;
use crate::stream::SendPtr;

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

    /// `cuKernelGetName()`.
    pub(super) fn named(library: &Arc<LibraryInner>, raw: CUkernel) -> Result<Self> {
        let mut name = ptr::null();
        // SAFETY: the pointer must be writable, the kernel of a loaded library ← a local, and
        // `library` owns it.
        unsafe { call!(library.driver(), cuKernelGetName(&raw mut name, raw)) }?;
        // SAFETY: it must be a string that lives as long as it is used ← the driver's, which lives
        // with the library.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Ok(Self::new(library, raw, &name))
    }

    /// `cuKernelGetFunction()`—The kernel in `context`, to launch on its streams. Loads the library
    /// there if it is not.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the context is of another driver; what the driver's compiler has
    /// against the image, if it was not compiled before.
    #[doc(alias = "cuKernelGetFunction")]
    pub fn function(&self, context: &Context) -> Result<Function> {
        let place = self.library.place(context)?;
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, the kernel alive ← a local, and `self` keeps its
        // library.
        unsafe {
            call!(
                context.driver(),
                cuKernelGetFunction(&raw mut raw, self.as_raw())
            )
        }?;
        Function::new(&place, raw, &self.name)
    }

    /// The name that it was looked up by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `cuKernelGetParamInfo()`—The parameters of the kernel, as its image or else the driver tells
    /// them; `None` where neither does, as for [`Function::parameters`].
    ///
    /// # Errors
    ///
    /// What the calls answer: `CUDA_ERROR_INVALID_CONTEXT` where only the driver knows and no
    /// context is current on this thread.
    #[doc(alias = "cuKernelGetParamInfo")]
    #[doc(alias = "cuKernelGetParamCount")]
    pub fn parameters(&self) -> Result<Option<Vec<Parameter>>> {
        let (driver, kernel) = (self.library.driver(), self.as_raw());
        let signatures = self.library.signatures();
        let told = signatures.and_then(|signatures| find_signature(signatures, &self.name));
        let count = || {
            let mut count = 0;
            // SAFETY: the pointer must be writable, the kernel alive ← a local, and `self` keeps
            // its library.
            unsafe { call!(driver, cuKernelGetParamCount(kernel, &raw mut count)) }?;
            Ok(count)
        };
        if let Some(told) = told {
            return Ok(Some(told.to_vec()));
        }
        let known = parameters::collect(driver, None, count, |index, offset, size| {
            let table = driver.table_for(calls::cuKernelGetParamInfo)?;
            // SAFETY: as above, for two pointers.
            let status = unsafe { table.cuKernelGetParamInfo(kernel, index, offset, size) };
            Ok((status, calls::cuKernelGetParamInfo))
        });
        Ok(known?)
    }

    /// `cuKernelGetAttribute(attribute, device)`—An attribute of the kernel on a device, as the
    /// driver gives it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for an attribute that this driver does not know,
    /// [`Error::OtherContext`] for a device of another driver.
    #[doc(alias = "cuKernelGetAttribute")]
    pub fn attribute(&self, attribute: FunctionAttribute, device: &Device) -> Result<i32> {
        let driver = self.driver_of(device)?;
        let mut value = 0;
        // SAFETY: the pointer must be writable, the kernel alive ← a local, and `self` keeps its
        // library.
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
    /// `CUDA_ERROR_INVALID_VALUE` for an attribute that cannot be set, or not to this.
    /// [`Error::Unsupported`] for the limit of dynamic shared memory: launches raise it by
    /// themselves, and lowering it would break those of other threads.
    #[doc(alias = "cuKernelSetAttribute")]
    pub fn set_attribute(
        &self,
        attribute: FunctionAttribute,
        value: i32,
        device: &Device,
    ) -> Result<()> {
        if attribute == FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
            return Err(Error::Unsupported {
                what: "setting the limit of dynamic shared memory, which launches raise,",
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

    /// `cuKernelSetCacheConfig(config, device)`—What the kernel prefers on a device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for a preference that is none.
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

    /// The library's driver, if it is the device's.
    fn driver_of(&self, device: &Device) -> Result<&crate::Driver> {
        let driver = self.library.driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        Ok(driver)
    }

    /// The raw kernel. It stays alive as long as a handle of it.
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
