//! The lookup of kernels in a module, and the time at which their code is loaded.

use std::any::Any;
use std::ffi::{CStr, CString, c_uint};
use std::ptr;

use cuda_sys::image::Signature;
use cuda_sys::{CUfunc_cache, CUfunction, CUfunctionLoadingState, CUresult};

use super::Function;
use crate::context::{CacheConfig, Context};
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::module::Module;

/// The kernels of the module.
impl Module {
    /// `cuModuleGetFunction(name)`—Returns the kernel with this name: the name in the image, where
    /// C++ names are mangled, or a name expression with which the module was compiled, such as
    /// `scale<float>`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`], or [`Error::NulByte`] if the name contains a NUL byte. A
    /// [`SafeModule`](crate::safe::SafeModule) leaves out the kernels that cannot be launched
    /// safely; for these, the error is [`Error::SafeLaunch`] with the reason.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> Result<Function> {
        let name = self.name_in_image(name);
        let c_name = kernel_name(name)?;
        let mut raw = ptr::null_mut();
        let _current = self.context().enter()?;
        // SAFETY: the pointer and the name must be valid, and the module loaded ← they are locals,
        // and `self` owns the module.
        let result = unsafe {
            call!(
                self.context().driver(),
                cuModuleGetFunction(&raw mut raw, self.as_raw(), c_name.as_ptr())
            )
        };
        result.map_err(|error| match self.left_out(name) {
            Some(reason) => Error::SafeLaunch(Box::new(reason.clone())),
            None => not_found(error, name, || self.kernel_names()),
        })?;
        let function = Function::new(self.inner(), raw, name)?;
        Ok(match self.pointees(name) {
            Some(pointees) => function.with_pointees(pointees),
            None => function,
        })
    }

    /// Returns the names of the kernels, if the image or the driver lists them.
    fn kernel_names(&self) -> Option<Vec<String>> {
        let names = match self.inner().signatures() {
            Some(signatures) => names_of(signatures),
            None => {
                let functions = self.functions().ok()?;
                functions.iter().map(|it| it.name().to_owned()).collect()
            }
        };
        let shown = names.into_iter().map(|name| self.expression_of(name));
        Some(shown.collect())
    }

    /// `cuModuleEnumerateFunctions()`, `cuFuncLoad()`—Loads and returns all kernels of the module,
    /// with their names as in the image.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4.
    #[doc(alias = "cuModuleEnumerateFunctions")]
    #[doc(alias = "cuModuleGetFunctionCount")]
    #[doc(alias = "cuFuncGetName")]
    #[doc(alias = "cudaFuncGetName")]
    pub fn functions(&self) -> Result<Vec<Function>> {
        let driver = self.context().driver();
        let _current = self.context().enter()?;
        let mut count: c_uint = 0;
        // SAFETY: the pointer must be writable, and the module loaded ← the pointer is to a local,
        // and `self` owns the module.
        unsafe {
            call!(
                driver,
                cuModuleGetFunctionCount(&raw mut count, self.as_raw())
            )
        }?;
        let mut raw: Vec<CUfunction> = vec![ptr::null_mut(); count as usize];
        // SAFETY: there must be room for `count` functions, and the module must be loaded ← the
        // vector has that length, and `self` owns the module.
        unsafe {
            call!(
                driver,
                cuModuleEnumerateFunctions(raw.as_mut_ptr(), count, self.as_raw())
            )
        }?;
        let mut functions = Vec::with_capacity(raw.len());
        for raw in raw {
            let mut name = ptr::null();
            // SAFETY: the pointer must be writable, and the module of the function loaded ← the
            // pointer is to a local, and `self` owns the module.
            unsafe { call!(driver, cuFuncGetName(&raw mut name, raw)) }?;
            // SAFETY: the string must be alive while it is used ← it belongs to the driver and
            // lives as long as the module.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            // The driver returns no attributes of a function that is enumerated but not loaded.
            // SAFETY: the module of the function must be loaded ← `self` owns it.
            unsafe { call!(driver, cuFuncLoad(raw)) }?;
            functions.push(Function::new(self.inner(), raw, &name)?);
        }
        Ok(functions)
    }
}

/// Converts the name of a kernel to a C string.
pub(crate) fn kernel_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|error| Error::NulByte {
        what: "the name of the kernel",
        position: error.nul_position(),
    })
}

/// Returns the names of the kernels that an image describes.
pub(crate) fn names_of(signatures: &[Signature]) -> Vec<String> {
    signatures.iter().map(|it| it.kernel.clone()).collect()
}

/// Converts the error of a lookup; names the kernel, and those that exist, if it was not found.
pub(crate) fn not_found(
    error: DriverError,
    name: &str,
    kernels: impl FnOnce() -> Option<Vec<String>>,
) -> Error {
    match error.status() {
        CUresult::CUDA_ERROR_NOT_FOUND => Error::NoSuchFunction {
            name: name.to_owned(),
            kernels: kernels(),
        },
        _ => error.into(),
    }
}

/// Kernels of other code.
impl Function {
    /// `cuFuncGetModule()`, `cuFuncGetName()`—Borrows a kernel of a module that other code loaded.
    ///
    /// `owner` keeps the module loaded, and is dropped after the last handle of the kernel and
    /// after its launches are complete, as for [`Module::borrow_raw`].
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_HANDLE` if the driver does not know the function. On a driver older than
    /// CUDA 12.3, which does not report names, the name is empty.
    ///
    /// # Safety
    ///
    /// - `raw` is a function of a module that was loaded in `context`.
    /// - The module is loaded as long as `owner` has not been dropped.
    /// - The other requirements of [`Module::borrow_raw`] apply to the module.
    #[doc(alias = "cuFuncGetModule")]
    #[doc(alias = "cuFuncGetName")]
    #[doc(alias = "cudaFuncGetName")]
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUfunction,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let driver = context.driver();
        let (mut module, mut name) = (ptr::null_mut(), ptr::null());
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable and the function alive ← the pointer is to a local;
        // the caller guarantees the latter as long as `owner` exists.
        unsafe { call!(driver, cuFuncGetModule(&raw mut module, raw)) }?;
        // SAFETY: as above.
        let named = unsafe { call!(driver, cuFuncGetName(&raw mut name, raw)) };
        let name = match named {
            // SAFETY: the string must be alive while it is used ← it belongs to the driver and
            // lives as long as the module.
            Ok(()) => unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned(),
            Err(error) if error.status() == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => {
                String::new()
            }
            Err(error) => return Err(error.into()),
        };
        // The driver returns no attributes of a function that is not loaded.
        // SAFETY: the function must be alive ← as above.
        let loaded = unsafe { call!(driver, cuFuncLoad(raw)) };
        match loaded {
            Err(error) if error.status() != CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => {
                return Err(error.into());
            }
            _ => {}
        }
        // SAFETY: the module must be loaded as long as `owner` exists ← the caller guarantees it.
        let module = unsafe { Module::borrow_raw(context, module, owner) };
        Self::new(module.inner(), raw, &name)
    }
}

/// Lazy loading, and the cache configuration.
impl Function {
    /// `cuFuncIsLoaded()`—Returns whether the code of the kernel is on the device. It always is,
    /// unless loading is [lazy](crate::jit::LoadingMode::LAZY).
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4.
    #[doc(alias = "cuFuncIsLoaded")]
    pub fn is_loaded(&self) -> Result<bool> {
        let mut state = CUfunctionLoadingState(0);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable, and the function alive ← the pointer is to a local,
        // and `self` keeps the module of the function.
        unsafe { call!(self.driver(), cuFuncIsLoaded(&raw mut state, self.as_raw())) }?;
        Ok(state == CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }

    /// `cuFuncLoad()`—Loads the code of the kernel now, if it is not loaded, so that the first
    /// launch does not have to wait for loading.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4, or with `CUDA_ERROR_OUT_OF_MEMORY`.
    #[doc(alias = "cuFuncLoad")]
    pub fn load(&self) -> Result<()> {
        let _current = self.context().enter()?;
        // SAFETY: the function must be alive ← `self` keeps its module.
        Ok(unsafe { call!(self.driver(), cuFuncLoad(self.as_raw())) }?)
    }

    /// `cuFuncSetCacheConfig(config)`—Sets the cache preference of this kernel, which overrides the
    /// preference of its [context](crate::Context). A launch may wait for the device if it changes
    /// the configuration.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know the preference.
    #[doc(alias = "cuFuncSetCacheConfig")]
    #[doc(alias = "cudaFuncSetCacheConfig")]
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<()> {
        let config = CUfunc_cache(config.0);
        // SAFETY: the function must be alive ← `self` keeps its module.
        Ok(unsafe { call!(self.driver(), cuFuncSetCacheConfig(self.as_raw(), config)) }?)
    }
}
