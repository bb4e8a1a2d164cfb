//! Functions: the kernels of a module with their attributes and settings.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;

use cuda_sys::{
    CUfunc_cache, CUfunc_st, CUfunction_attribute, CUfunctionLoadingState, CUmodule, CUsharedconfig,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::function::Function;
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, Status};

exports! {
    cuFuncGetAttribute => func_get_attribute;
    cuFuncSetAttribute => func_set_attribute;
    cuFuncSetCacheConfig => func_set_cache_config;
    cuFuncSetSharedMemConfig => func_set_shared_mem_config;
    cuFuncGetModule => func_get_module;
    cuFuncGetName => func_get_name;
    cuFuncGetParamInfo => func_get_param_info;
    cuFuncGetParamCount => func_get_param_count;
    cuFuncIsLoaded => func_is_loaded;
    cuFuncLoad => func_load;
}

impl Call {
    /// Returns the function of a handle. The handle of a library's kernel is accepted too.
    pub(in crate::driver) fn function(&self, handle: u64) -> Status<Arc<Function>> {
        let function = match self.functions.get(handle) {
            Some(function) => function,
            None => match self.function_of_kernel(handle) {
                Err(INVALID_HANDLE) => return Err(self.unknown_handle(handle)),
                function => function?,
            },
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
        let function = self.function(function.handle())?;
        value.set(function.on_device()?.attribute(attribute)?)
    }

    fn func_set_attribute(
        &self,
        function: Out<CUfunc_st>,
        attribute: CUfunction_attribute,
        value: c_int,
    ) -> Status {
        self.function(function.handle())?
            .on_device()?
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

    /// `cuFuncGetName()`—The string lives as long as the module is loaded.
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
