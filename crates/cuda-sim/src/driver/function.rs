//! Functions: kernels of a module, and what is known and set of them.

use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use cuda_sys::{
    CUfunc_cache, CUfunc_st, CUfunction, CUfunction_attribute, CUfunctionLoadingState, CUmodule,
    CUsharedconfig,
};

use super::arg::Out;
use super::export::{Call, exports};
use super::handle::{fresh, pointer};
use super::module::Module;
use super::status::{INVALID_HANDLE, INVALID_VALUE, Status};
use crate::vm::Kernel;

exports! {
    cuFuncGetAttribute => func_get_attribute(
        value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute => func_set_attribute(
        function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuFuncSetCacheConfig => func_set_cache_config(function: CUfunction, config: CUfunc_cache);
    cuFuncSetSharedMemConfig => func_set_shared_mem_config(
        function: CUfunction, config: CUsharedconfig);
    cuFuncGetModule => func_get_module(module: *mut CUmodule, function: CUfunction);
    cuFuncGetName => func_get_name(name: *mut *const c_char, function: CUfunction);
    cuFuncGetParamInfo => func_get_param_info(
        function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
    cuFuncGetParamCount => func_get_param_count(function: CUfunction, count: *mut usize);
    cuFuncIsLoaded => func_is_loaded(state: *mut CUfunctionLoadingState, function: CUfunction);
    cuFuncLoad => func_load(function: CUfunction);
}

/// What can be set of a kernel.
#[derive(Debug)]
pub(super) struct Settings {
    /// Dynamic shared memory that a launch may ask for.
    pub(super) max_dynamic_shared: AtomicI32,
    carveout: AtomicI32,
    non_portable_cluster: AtomicI32,
    cluster_policy: AtomicI32,
}

/// A kernel in a module.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) handle: u64,
    pub(super) module: Arc<Module>,
    pub(super) index: usize,
    pub(super) settings: Settings,
    name: CString,
}

impl Function {
    pub(super) fn new(module: &Arc<Module>, index: usize) -> Self {
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
            settings: Settings {
                max_dynamic_shared: AtomicI32::new(module.context.device.limits.shared_per_block),
                carveout: AtomicI32::new(-1),
                non_portable_cluster: AtomicI32::new(0),
                cluster_policy: AtomicI32::new(0),
            },
            // PTX names have no NUL.
            name: CString::new(name.unwrap_or_default()).unwrap_or_default(),
        }
    }

    /// What is known without running it.
    pub(super) fn kernel(&self) -> Status<&Kernel> {
        self.module
            .code
            .program
            .kernels()
            .get(self.index)
            .ok_or(INVALID_HANDLE)
    }

    /// Threads that a block may have.
    pub(super) fn max_threads(&self) -> Status<u32> {
        let kernel = self.kernel()?;
        let bound = kernel.thread_bound().unwrap_or(1024).clamp(1, 1024);
        Ok((bound as u32).min(65536 / kernel.registers.clamp(1, 255) / 32 * 32))
    }

    /// Blocks that a cluster may have.
    pub(super) fn max_cluster(&self) -> u64 {
        match self.settings.non_portable_cluster.load(Ordering::Relaxed) {
            0 => 8,
            _ => 16,
        }
    }

    /// The most dynamic shared memory of a launch.
    pub(super) fn dynamic_shared_limit(&self) -> Status<i32> {
        let kernel = self.kernel()?;
        let set = self.settings.max_dynamic_shared.load(Ordering::Relaxed);
        let device = &self.module.context.device.limits;
        // Until it is raised, static and dynamic memory share the default.
        Ok(if set > device.shared_per_block {
            set
        } else {
            set.min(kernel.dynamic_room(device.shared_per_block))
        })
    }

    pub(super) fn name(&self) -> &CString {
        &self.name
    }

    pub(super) fn attribute(&self, attribute: CUfunction_attribute) -> Status<i32> {
        type A = CUfunction_attribute;
        let kernel = self.kernel()?;
        let (major, minor) = self.module.context.device.capability;
        let cluster = kernel.cluster.unwrap_or_default();
        Ok(match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => self.max_threads()? as i32,
            A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.static_shared as i32,
            A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => kernel.const_bytes as i32,
            A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => kernel.local_bytes as i32,
            A::CU_FUNC_ATTRIBUTE_NUM_REGS => kernel.registers as i32,
            A::CU_FUNC_ATTRIBUTE_PTX_VERSION => self.module.code.ptx_target,
            A::CU_FUNC_ATTRIBUTE_BINARY_VERSION => (10 * major + minor) as i32,
            A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => self.dynamic_shared_limit()?,
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                self.settings.carveout.load(Ordering::Relaxed)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET => i32::from(kernel.cluster.is_some()),
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => cluster[0] as i32,
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => cluster[1] as i32,
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => cluster[2] as i32,
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                self.settings.non_portable_cluster.load(Ordering::Relaxed)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                self.settings.cluster_policy.load(Ordering::Relaxed)
            }
            _ => return Err(INVALID_VALUE),
        })
    }

    pub(super) fn set_attribute(&self, attribute: CUfunction_attribute, value: i32) -> Status {
        type A = CUfunction_attribute;
        let optin = self.module.context.device.limits.shared_optin;
        let room = self.kernel()?.dynamic_room(optin);
        let (place, range) = match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                (&self.settings.max_dynamic_shared, 0..=room)
            }
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                (&self.settings.carveout, -1..=100)
            }
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                (&self.settings.non_portable_cluster, 0..=1)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                (&self.settings.cluster_policy, 0..=2)
            }
            _ => return Err(INVALID_VALUE),
        };
        if !range.contains(&value) {
            return Err(INVALID_VALUE);
        }
        place.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Offset and size of a parameter.
    pub(super) fn param(&self, index: usize) -> Status<(usize, usize)> {
        let param = self.kernel()?.params.get(index).ok_or(INVALID_VALUE)?;
        Ok((param.offset as usize, param.size as usize))
    }
}

impl Call {
    /// The function of a handle; that of a library's kernel will do too.
    pub(super) fn function(&self, handle: u64) -> Status<Arc<Function>> {
        let function = match self.functions.get(handle) {
            Some(function) => function,
            None => self.function_of_kernel(handle)?,
        };
        function.module.context.device.alive()?;
        Ok(function)
    }

    fn func_get_attribute(
        &self,
        value: Out<c_int>,
        attribute: CUfunction_attribute,
        function: Out<CUfunc_st>,
    ) -> Status {
        value.required()?;
        value.set(self.function(function.handle())?.attribute(attribute)?)
    }

    fn func_set_attribute(
        &self,
        function: Out<CUfunc_st>,
        attribute: CUfunction_attribute,
        value: c_int,
    ) -> Status {
        self.function(function.handle())?
            .set_attribute(attribute, value)
    }

    fn func_set_cache_config(&self, function: Out<CUfunc_st>, config: CUfunc_cache) -> Status {
        self.function(function.handle())?;
        if (config.0 as c_uint) > 3 {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    fn func_set_shared_mem_config(
        &self,
        function: Out<CUfunc_st>,
        config: CUsharedconfig,
    ) -> Status {
        self.function(function.handle())?;
        if (config.0 as c_uint) > 2 {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    fn func_get_module(&self, module: Out<CUmodule>, function: Out<CUfunc_st>) -> Status {
        module.required()?;
        function.required()?;
        module.set(pointer(self.function(function.handle())?.module.handle))
    }

    /// The text lives as long as the module is loaded.
    fn func_get_name(&self, name: Out<*const c_char>, function: Out<CUfunc_st>) -> Status {
        name.required()?;
        function.required()?;
        name.set(self.function(function.handle())?.name().as_ptr())
    }

    fn func_get_param_info(
        &self,
        function: Out<CUfunc_st>,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) -> Status {
        function.required()?;
        let (at, len) = self.function(function.handle())?.param(index)?;
        offset.set(at)?;
        size.set_if(len);
        Ok(())
    }

    fn func_get_param_count(&self, function: Out<CUfunc_st>, count: Out<usize>) -> Status {
        count.required()?;
        count.set(self.function(function.handle())?.kernel()?.params.len())
    }

    fn func_is_loaded(
        &self,
        state: Out<CUfunctionLoadingState>,
        function: Out<CUfunc_st>,
    ) -> Status {
        self.function(function.handle())?;
        state.set(CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }

    fn func_load(&self, function: Out<CUfunc_st>) -> Status {
        self.function(function.handle()).map(drop)
    }
}
