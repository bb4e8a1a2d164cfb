//! Loading modules, and finding their kernels and variables.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUfunction, CUjit_option, CUmod_st, CUmodule, CUmoduleLoadingMode};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::jit::Options;
use crate::driver::objects::module::Module;
use crate::driver::status::{FILE_NOT_FOUND, INVALID_VALUE, NOT_FOUND, Status};

exports! {
    cuModuleLoadData => module_load_data;
    cuModuleLoadDataEx => module_load_data_ex;
    cuModuleLoadFatBinary => module_load_data;
    cuModuleLoad => module_load;
    cuModuleUnload => module_unload;
    cuModuleGetFunction => module_get_function;
    cuModuleGetGlobal_v2 => module_get_global;
    cuModuleGetFunctionCount => module_get_function_count;
    cuModuleEnumerateFunctions => module_enumerate_functions;
    cuModuleGetLoadingMode => module_get_loading_mode;
}

impl Call {
    fn module(&self, handle: u64) -> Status<Arc<Module>> {
        let module = self.modules.get(handle);
        let module = module.ok_or_else(|| self.unknown_handle(handle))?;
        module.context.device.alive()?;
        Ok(module)
    }

    fn module_load_data(&self, module: Out<CUmodule>, image: In<c_void>) -> Status {
        self.load_image(module, image, None)
    }

    fn module_load_data_ex(
        &self,
        module: Out<CUmodule>,
        image: In<c_void>,
        count: c_uint,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
    ) -> Status {
        self.load_image(
            module,
            image,
            Some(Options {
                count,
                names,
                values,
            }),
        )
    }

    fn load_image(
        &self,
        module: Out<CUmodule>,
        image: In<c_void>,
        options: Option<Options>,
    ) -> Status {
        module.required()?;
        let context = self.home()?;
        let code = self.compile(image, options, &context.device)?;
        let loaded = self.load(code, &context, None)?;
        module.set(pointer(loaded.handle))
    }

    fn module_load(&self, module: Out<CUmodule>, path: In<c_char>) -> Status {
        self.current()?;
        let mut image = std::fs::read(path.text()?).map_err(|_| FILE_NOT_FOUND)?;
        image.push(0);
        // SAFETY: the pointer must point to an image that outlives all uses of the wrapper ←
        // `image` ends with the NUL that terminates text, and lives until the end of this method.
        let image_arg = unsafe { crate::driver::arg::Arg::wrap(image.as_ptr().cast::<c_void>()) };
        self.load_image(module, image_arg, None)
    }

    /// `cuModuleUnload()`—Waits for the context of the module and for no other context. A copy in a
    /// stream of another context that uses a variable of the module finds the memory freed or
    /// reused.
    fn module_unload(&self, module: Out<CUmod_st>) -> Status {
        let handle = module.handle();
        let module = self.modules.get(handle);
        let module = module.ok_or_else(|| self.unknown_handle(handle))?;
        if module.library.is_some() {
            return Err(crate::driver::status::NOT_PERMITTED);
        }
        self.potentially_unsafe()?;
        self.drain_context(module.context.handle);
        self.unload_modules(|other| other.handle == module.handle);
        module.context.device.alive()
    }

    fn module_get_function(
        &self,
        function: Out<CUfunction>,
        module: Out<CUmod_st>,
        name: In<c_char>,
    ) -> Status {
        function.required()?;
        let module = self.module(module.handle())?;
        let name = name.c_str()?.to_str().map_err(|_| NOT_FOUND)?;
        if name.is_empty() {
            return Err(INVALID_VALUE);
        }
        let index = module.code.program.kernel(name).ok_or(NOT_FOUND)?;
        function.set(pointer(self.function_of(&module, index).handle))
    }

    fn module_get_global(
        &self,
        dptr: Out<CUdeviceptr>,
        bytes: Out<usize>,
        module: Out<CUmod_st>,
        name: In<c_char>,
    ) -> Status {
        let module = self.module(module.handle())?;
        let name = name.c_str()?.to_str().map_err(|_| NOT_FOUND)?;
        if dptr.is_null() && bytes.is_null() {
            return Err(INVALID_VALUE);
        }
        let Some((addr, size)) = module.global(name) else {
            let is_kernel = module.code.program.kernel(name).is_some();
            return Err(if is_kernel { INVALID_VALUE } else { NOT_FOUND });
        };
        dptr.set_if(addr);
        bytes.set_if(size as usize);
        Ok(())
    }

    fn module_get_function_count(&self, count: Out<c_uint>, module: Out<CUmod_st>) -> Status {
        count.required()?;
        count.set(self.module(module.handle())?.code.program.kernels().len() as c_uint)
    }

    fn module_enumerate_functions(
        &self,
        functions: Out<CUfunction>,
        count: c_uint,
        module: Out<CUmod_st>,
    ) -> Status {
        functions.required()?;
        let module = self.module(module.handle())?;
        let kernels = module.code.program.kernels().len().min(count as usize);
        for index in 0..kernels {
            functions.set_at(index, pointer(self.function_of(&module, index).handle));
        }
        Ok(())
    }

    fn module_get_loading_mode(&self, mode: Out<CUmoduleLoadingMode>) -> Status {
        mode.set(CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING)
    }
}
