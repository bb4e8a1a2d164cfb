//! The time at which the driver loads the code of modules.

use cuda_sys::CUmoduleLoadingMode;

use crate::driver::{Driver, call};
use crate::error::Result;

/// The time at which the driver loads the code of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadingMode(pub u32);

impl LoadingMode {
    /// All code is loaded with the module.
    pub const EAGER: Self = Self(CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING.0);
    /// Each kernel is loaded when it is first used. Loading may wait for the device, and can
    /// deadlock kernels that wait for each other: [`Function::load`](crate::Function::load) loads a
    /// kernel beforehand.
    pub const LAZY: Self = Self(CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING.0);
}

/// When the driver loads kernels.
impl Driver {
    /// `cuModuleGetLoadingMode()`—Returns the loading mode of this process, which the environment
    /// variable `CUDA_MODULE_LOADING` sets.
    #[doc(alias = "cuModuleGetLoadingMode")]
    pub fn module_loading_mode(&self) -> Result<LoadingMode> {
        let mut mode = CUmoduleLoadingMode(0);
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(self, cuModuleGetLoadingMode(&raw mut mode)) }?;
        Ok(LoadingMode(mode.0))
    }
}
