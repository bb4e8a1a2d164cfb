//! Modules: programs with their variables, loaded into a context.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cuda_sys::{CUdeviceptr, CUfunction, CUjit_option, CUmod_st, CUmodule, CUmoduleLoadingMode};

use super::arg::{In, Out};
use super::context::Context;
use super::export::{Call, exports};
use super::function::Function;
use super::handle::{fresh, pointer};
use super::instance::Instance;
use super::jit::{Code, Options, code_of};
use super::status::{FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, Status};
use crate::lock::lock;
use crate::vm::Image;

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

/// A module in a context.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) handle: u64,
    pub(super) context: Arc<Context>,
    pub(super) code: Arc<Code>,
    /// Running kernels hold a read lock on it.
    pub(super) image: Arc<RwLock<Image>>,
    /// The handle of the library that it belongs to. Such a module is unloaded only with its
    /// library.
    pub(super) library: Option<u64>,
    /// The handles of functions, by kernel number.
    functions: Mutex<BTreeMap<usize, u64>>,
}

impl Module {
    pub(super) fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.image
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .global(name)
    }
}

impl Instance {
    /// Loads a program into a context and allocates its variables.
    pub(super) fn load(
        &self,
        code: Arc<Code>,
        context: &Arc<Context>,
        library: Option<u64>,
    ) -> Status<Arc<Module>> {
        let image = code
            .program
            .instantiate(&context.device.arena)
            .map_err(|error| code_of(&error))?;
        let module = Arc::new(Module {
            handle: fresh(),
            context: Arc::clone(context),
            code,
            image: Arc::new(RwLock::new(image)),
            library,
            functions: Mutex::default(),
        });
        self.modules.insert(module.handle, Arc::clone(&module));
        Ok(module)
    }

    /// Unloads the modules that `which` accepts, after waiting for their running kernels.
    pub(super) fn unload_modules(&self, which: impl Fn(&Module) -> bool) {
        for module in self.modules.drain(which) {
            self.functions
                .drain(|function| function.module.handle == module.handle);
            let mut image = module.image.write().unwrap_or_else(PoisonError::into_inner);
            image.release(&module.context.device.arena);
        }
    }

    /// Returns the function for kernel `index`; it is the same function each time.
    pub(super) fn function_of(&self, module: &Arc<Module>, index: usize) -> Arc<Function> {
        let mut handles = lock(&module.functions);
        if let Some(function) = handles
            .get(&index)
            .and_then(|&handle| self.functions.get(handle))
        {
            return function;
        }
        let function = Arc::new(Function::new(module, index));
        handles.insert(index, function.handle);
        self.functions
            .insert(function.handle, Arc::clone(&function));
        function
    }
}

impl Call {
    fn module(&self, handle: u64) -> Status<Arc<Module>> {
        let module = self.modules.get(handle).ok_or(INVALID_HANDLE)?;
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
        let context = self.current()?;
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
        let image_arg = unsafe { super::arg::Arg::wrap(image.as_ptr().cast::<c_void>()) };
        self.load_image(module, image_arg, None)
    }

    /// `cuModuleUnload()`—Waits for the context of the module and for no other context. A copy in a
    /// stream of another context that uses a variable of the module finds the memory freed or
    /// reused.
    fn module_unload(&self, module: Out<CUmod_st>) -> Status {
        let module = self.modules.get(module.handle()).ok_or(INVALID_HANDLE)?;
        if module.library.is_some() {
            return Err(super::status::NOT_PERMITTED);
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
