//! The kernels of a module, and when their code is loaded.

use std::ffi::{CStr, c_uint};
use std::ptr;

use cuda_sys::{CUfunc_cache, CUfunction, CUfunctionLoadingState, CUmoduleLoadingMode};

use super::Module;
use crate::context::CacheConfig;
use crate::driver::{Driver, call};
use crate::error::Result;
use crate::function::Function;

/// When the driver loads the code of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadingMode(pub u32);

impl LoadingMode {
    /// With the module.
    pub const EAGER: Self = Self(CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING.0);
    /// Each kernel when it is first used. That may wait for the device, and deadlock kernels that
    /// wait for each other: [`Function::load`] loads one before.
    pub const LAZY: Self = Self(CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING.0);
}

impl Driver {
    /// `cuModuleGetLoadingMode()`—When code is loaded in this process: as the variable
    /// `CUDA_MODULE_LOADING` says.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuModuleGetLoadingMode")]
    pub fn module_loading_mode(&self) -> Result<LoadingMode> {
        let mut mode = CUmoduleLoadingMode(0);
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self, cuModuleGetLoadingMode(&raw mut mode)) }?;
        Ok(LoadingMode(mode.0))
    }
}

impl Module {
    /// `cuModuleEnumerateFunctions()`, `cuFuncLoad()`—All kernels of the module, loaded, with their
    /// names as they stand in the image.
    ///
    /// # Errors
    ///
    /// That the driver lacks the call, before CUDA 12.4.
    #[doc(alias = "cuModuleEnumerateFunctions")]
    #[doc(alias = "cuModuleGetFunctionCount")]
    #[doc(alias = "cuFuncGetName")]
    pub fn functions(&self) -> Result<Vec<Function>> {
        let driver = self.context().driver();
        let _current = self.context().enter()?;
        let mut count: c_uint = 0;
        // SAFETY: the pointer must be writable, the module loaded ← a local, and `self` owns it.
        unsafe {
            call!(
                driver,
                cuModuleGetFunctionCount(&raw mut count, self.as_raw())
            )
        }?;
        let mut raw: Vec<CUfunction> = vec![ptr::null_mut(); count as usize];
        // SAFETY: there must be room for `count` functions, the module loaded ← there is; `self`
        // owns it.
        unsafe {
            call!(
                driver,
                cuModuleEnumerateFunctions(raw.as_mut_ptr(), count, self.as_raw())
            )
        }?;
        let mut functions = Vec::with_capacity(raw.len());
        for raw in raw {
            let mut name = ptr::null();
            // SAFETY: the pointer must be writable, the function of a loaded module ← a local, and
            // `self` owns it.
            unsafe { call!(driver, cuFuncGetName(&raw mut name, raw)) }?;
            // SAFETY: it must be a string that lives as long as it is used ← the driver's, which
            // lives with the module.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            // Of one that is enumerated but not loaded the driver tells no attributes.
            // SAFETY: the function must be of a loaded module ← `self` owns it.
            unsafe { call!(driver, cuFuncLoad(raw)) }?;
            functions.push(Function::new(self.inner(), raw, &name)?);
        }
        Ok(functions)
    }
}

impl Function {
    /// `cuFuncIsLoaded()`—Whether its code is on the device: always, unless loading is
    /// [lazy](LoadingMode::LAZY).
    ///
    /// # Errors
    ///
    /// That the driver lacks the call, before CUDA 12.4.
    #[doc(alias = "cuFuncIsLoaded")]
    pub fn is_loaded(&self) -> Result<bool> {
        let mut state = CUfunctionLoadingState(0);
        let _current = self.context().enter()?;
        // SAFETY: the pointer must be writable, the function alive ← a local, and `self` keeps its
        // module.
        unsafe { call!(self.driver(), cuFuncIsLoaded(&raw mut state, self.as_raw())) }?;
        Ok(state == CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }

    /// `cuFuncLoad()`—Loads its code now, if it is not loaded: the first launch then waits for
    /// nothing.
    ///
    /// # Errors
    ///
    /// That the driver lacks the call, before CUDA 12.4; `CUDA_ERROR_OUT_OF_MEMORY`.
    #[doc(alias = "cuFuncLoad")]
    pub fn load(&self) -> Result<()> {
        let _current = self.context().enter()?;
        // SAFETY: the function must be alive ← `self` keeps its module.
        Ok(unsafe { call!(self.driver(), cuFuncLoad(self.as_raw())) }?)
    }

    /// `cuFuncSetCacheConfig(config)`—What this kernel prefers, before what its
    /// [context](crate::Context) does. A launch may wait for the device where it changes the
    /// preference.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for a preference that is none.
    #[doc(alias = "cuFuncSetCacheConfig")]
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<()> {
        let config = CUfunc_cache(config.0);
        // SAFETY: the function must be alive ← `self` keeps its module.
        Ok(unsafe { call!(self.driver(), cuFuncSetCacheConfig(self.as_raw(), config)) }?)
    }
}
