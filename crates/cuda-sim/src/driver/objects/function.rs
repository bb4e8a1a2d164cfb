//! Functions: the kernels of a module, with their settings.

use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::driver::handle::fresh;
use crate::driver::objects::kernel::{OnDevice, Settings};
use crate::driver::objects::module::Module;
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, Status};
use crate::lock::lock;
use crate::vm::Kernel;

/// A kernel in a module.
#[derive(Debug)]
pub(in crate::driver) struct Function {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) module: Arc<Module>,
    pub(in crate::driver) index: usize,
    settings: Settings,
    /// The settings of the kernel that apply in all contexts of the device.
    of_device: Arc<Settings>,
    name: CString,
    legacy: Mutex<LegacyLaunch>,
}

/// The shape and the parameters of the next launch by `cuLaunchGrid`.
#[derive(Clone, Debug, Default)]
pub(in crate::driver) struct LegacyLaunch {
    /// The shape of a block; zeros if it was not set.
    pub(in crate::driver) block: [u32; 3],
    /// The bytes of dynamic shared memory.
    pub(in crate::driver) shared: u32,
    /// The parameter buffer, as far as it was written.
    pub(in crate::driver) params: Vec<u8>,
    /// The size of the parameters that `cuParamSetSize` states.
    pub(in crate::driver) param_bytes: usize,
}

impl Function {
    pub(in crate::driver) fn new(module: &Arc<Module>, index: usize) -> Self {
        let name = module
            .code
            .program
            .kernels()
            .get(index)
            .map(|kernel| kernel.name.clone());
        Self {
            handle: fresh(),
            module: Arc::clone(module),
            index,
            settings: Settings::default(),
            of_device: module.code.settings(index, module.context.device.ordinal),
            // PTX names cannot contain a NUL.
            name: CString::new(name.unwrap_or_default()).unwrap_or_default(),
            legacy: Mutex::default(),
        }
    }

    /// Returns the settings of the next launch by `cuLaunchGrid`.
    pub(in crate::driver) fn legacy(&self) -> MutexGuard<'_, LegacyLaunch> {
        lock(&self.legacy)
    }

    /// Returns the static properties of the kernel.
    pub(in crate::driver) fn kernel(&self) -> Status<&Kernel> {
        self.module
            .code
            .program
            .kernels()
            .get(self.index)
            .ok_or(INVALID_HANDLE)
    }

    /// Returns the kernel together with the device of its context.
    pub(in crate::driver) fn on_device(&self) -> Status<OnDevice<'_>> {
        Ok(OnDevice {
            code: &self.module.code,
            kernel: self.kernel()?,
            device: &self.module.context.device,
            settings: [&self.settings, &self.of_device],
        })
    }

    pub(in crate::driver) fn name(&self) -> &CString {
        &self.name
    }

    /// Returns the offset and the size of a parameter in bytes.
    pub(in crate::driver) fn param(&self, index: usize) -> Status<(usize, usize)> {
        let param = self.kernel()?.params.get(index).ok_or(INVALID_VALUE)?;
        Ok((param.offset as usize, param.size as usize))
    }
}
