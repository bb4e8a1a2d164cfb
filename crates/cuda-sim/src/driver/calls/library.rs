//! Libraries: programs that do not belong to a context and are loaded into each context on first
//! use.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use cuda_sys::{
    CUdevice, CUdeviceptr, CUfunc_cache, CUfunction, CUfunction_attribute, CUjit_option, CUkern_st,
    CUkernel, CUlib_st, CUlibrary, CUlibraryOption, CUmodule,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::context::Context;
use crate::driver::objects::function::Function;
use crate::driver::objects::jit::Options;
use crate::driver::objects::kernel::OnDevice;
use crate::driver::objects::library::Library;
use crate::driver::objects::module::Module;
use crate::driver::status::{
    FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NO_DEVICE, NOT_FOUND, NOT_SUPPORTED, Status,
};
use crate::lock::lock;

exports! {
    cuLibraryLoadData => library_load_data;
    cuLibraryLoadFromFile => library_load_from_file;
    cuLibraryUnload => library_unload;
    cuLibraryGetKernel => library_get_kernel;
    cuLibraryGetKernelCount => library_get_kernel_count;
    cuLibraryEnumerateKernels => library_enumerate_kernels;
    cuLibraryGetModule => library_get_module;
    cuLibraryGetGlobal => library_get_global;
    cuLibraryGetManaged => library_get_managed;
    cuLibraryGetUnifiedFunction => library_get_unified_function;
    cuKernelGetFunction => kernel_get_function;
    cuKernelGetLibrary => kernel_get_library;
    cuKernelGetName => kernel_get_name;
    cuKernelGetParamInfo => kernel_get_param_info;
    cuKernelGetParamCount => kernel_get_param_count;
    cuKernelGetAttribute => kernel_get_attribute;
    cuKernelSetAttribute => kernel_set_attribute;
    cuKernelSetCacheConfig => kernel_set_cache_config;
}

impl Call {
    fn library(&self, handle: u64) -> Status<Arc<Library>> {
        self.libraries.get(handle).ok_or(INVALID_HANDLE)
    }

    /// Returns the library and the number of a kernel.
    fn kernel(&self, handle: u64) -> Status<(Arc<Library>, usize)> {
        let find = |library: Arc<Library>| {
            let index = library
                .kernels
                .iter()
                .position(|&(kernel, _)| kernel == handle)?;
            Some((library, index))
        };
        self.libraries
            .all()
            .into_iter()
            .find_map(find)
            .ok_or(INVALID_HANDLE)
    }

    /// Returns the library's module in a context, and loads it on first use.
    fn module_in(&self, library: &Library, context: &Arc<Context>) -> Status<Arc<Module>> {
        let mut modules = lock(&library.modules);
        let known = modules
            .get(&context.handle)
            .and_then(|&handle| self.modules.get(handle));
        if let Some(module) = known {
            return Ok(module);
        }
        let module = self.load(Arc::clone(&library.code), context, Some(library.handle))?;
        modules.insert(context.handle, module.handle);
        Ok(module)
    }

    /// Returns the function of a kernel in the current context.
    pub(in crate::driver) fn function_of_kernel(&self, handle: u64) -> Status<Arc<Function>> {
        let (library, index) = self.kernel(handle)?;
        let context = self.home()?;
        Ok(self.function_of(&self.module_in(&library, &context)?, index))
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn library_load_data(
        &self,
        library: Out<CUlibrary>,
        image: In<c_void>,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
        count: c_uint,
        library_options: Out<CUlibraryOption>,
        _library_values: Out<*mut c_void>,
        library_count: c_uint,
    ) -> Status {
        library.required()?;
        for index in 0..library_count as usize {
            let option = library_options.get_at(index)?;
            if option != CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED {
                return Err(NOT_SUPPORTED);
            }
        }
        let device = self.devices.first().ok_or(NO_DEVICE)?;
        let code = self.compile(
            image,
            Some(Options {
                count,
                names,
                values,
            }),
            device,
        )?;
        let kernels = code.program.kernels().iter();
        let loaded = Library {
            handle: fresh(),
            kernels: kernels
                // PTX names cannot contain a NUL.
                .map(|kernel| {
                    (
                        fresh(),
                        CString::new(kernel.name.as_str()).unwrap_or_default(),
                    )
                })
                .collect(),
            code,
            modules: Mutex::default(),
        };
        let handle = loaded.handle;
        self.libraries.insert(handle, Arc::new(loaded));
        library.set(pointer(handle))
    }

    #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
    fn library_load_from_file(
        &self,
        library: Out<CUlibrary>,
        path: In<c_char>,
        names: Out<CUjit_option>,
        values: Out<*mut c_void>,
        count: c_uint,
        library_options: Out<CUlibraryOption>,
        library_values: Out<*mut c_void>,
        library_count: c_uint,
    ) -> Status {
        let mut image = std::fs::read(path.text()?).map_err(|_| FILE_NOT_FOUND)?;
        image.push(0);
        // SAFETY: the pointer must point to an image that outlives all uses of the wrapper ←
        // `image` ends with the NUL that terminates text, and lives until the end of this method.
        let data = unsafe { crate::driver::arg::Arg::wrap(image.as_ptr().cast::<c_void>()) };
        self.library_load_data(
            library,
            data,
            names,
            values,
            count,
            library_options,
            library_values,
            library_count,
        )
    }

    /// `cuLibraryUnload()`—Waits for the contexts into which the library is loaded, as unloading
    /// each of its modules does.
    fn library_unload(&self, library: Out<CUlib_st>) -> Status {
        let library = self
            .libraries
            .remove(library.handle())
            .ok_or(INVALID_HANDLE)?;
        let contexts: Vec<u64> = lock(&library.modules).keys().copied().collect();
        for context in contexts {
            self.drain_context(context);
        }
        self.unload_modules(|module| module.library == Some(library.handle));
        Ok(())
    }

    fn library_get_kernel(
        &self,
        kernel: Out<CUkernel>,
        library: Out<CUlib_st>,
        name: In<c_char>,
    ) -> Status {
        kernel.required()?;
        let library = self.library(library.handle())?;
        let name = name.c_str()?;
        let found = library
            .kernels
            .iter()
            .find(|(_, known)| known.as_c_str() == name);
        kernel.set(pointer(found.ok_or(NOT_FOUND)?.0))
    }

    fn library_get_kernel_count(&self, count: Out<c_uint>, library: Out<CUlib_st>) -> Status {
        count.required()?;
        count.set(self.library(library.handle())?.kernels.len() as c_uint)
    }

    fn library_enumerate_kernels(
        &self,
        kernels: Out<CUkernel>,
        count: c_uint,
        library: Out<CUlib_st>,
    ) -> Status {
        kernels.required()?;
        let library = self.library(library.handle())?;
        for (index, &(handle, _)) in library.kernels.iter().take(count as usize).enumerate() {
            kernels.set_at(index, pointer(handle));
        }
        Ok(())
    }

    fn library_get_module(&self, module: Out<CUmodule>, library: Out<CUlib_st>) -> Status {
        module.required()?;
        let library = self.library(library.handle())?;
        let context = self.home()?;
        module.set(pointer(self.module_in(&library, &context)?.handle))
    }

    fn library_get_global(
        &self,
        dptr: Out<CUdeviceptr>,
        bytes: Out<usize>,
        library: Out<CUlib_st>,
        name: In<c_char>,
    ) -> Status {
        let library = self.library(library.handle())?;
        let context = self.home()?;
        let name = name.text()?;
        if dptr.is_null() && bytes.is_null() {
            return Err(INVALID_VALUE);
        }
        let module = self.module_in(&library, &context)?;
        let (addr, size) = module.global(name).ok_or(NOT_FOUND)?;
        dptr.set_if(addr);
        bytes.set_if(size as usize);
        Ok(())
    }

    /// `cuLibraryGetManaged()`—Fails for every variable: the host cannot access variables of the
    /// software device.
    fn library_get_managed(
        &self,
        dptr: Out<CUdeviceptr>,
        bytes: Out<usize>,
        library: Out<CUlib_st>,
        name: In<c_char>,
    ) -> Status {
        let library = self.library(library.handle())?;
        let name = name.text()?;
        if dptr.is_null() && bytes.is_null() {
            return Err(INVALID_VALUE);
        }
        let variables = library.code.program.globals();
        let mut managed = variables.iter().filter(|variable| variable.managed);
        Err(if managed.any(|variable| variable.name == name) {
            NOT_SUPPORTED
        } else {
            NOT_FOUND
        })
    }

    /// `cuLibraryGetUnifiedFunction()`—Finds no function, because the software devices do not have
    /// `CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS`.
    fn library_get_unified_function(
        &self,
        function: Out<*mut c_void>,
        library: Out<CUlib_st>,
        name: In<c_char>,
    ) -> Status {
        function.required()?;
        self.library(library.handle())?;
        name.c_str()?;
        Err(INVALID_VALUE)
    }

    fn kernel_get_function(&self, function: Out<CUfunction>, kernel: Out<CUkern_st>) -> Status {
        function.required()?;
        function.set(pointer(self.function_of_kernel(kernel.handle())?.handle))
    }

    fn kernel_get_library(&self, library: Out<CUlibrary>, kernel: Out<CUkern_st>) -> Status {
        library.required()?;
        library.set(pointer(self.kernel(kernel.handle())?.0.handle))
    }

    /// `cuKernelGetName()`—The string lives as long as the library is loaded.
    fn kernel_get_name(&self, name: Out<*const c_char>, kernel: Out<CUkern_st>) -> Status {
        name.required()?;
        if kernel.is_null() {
            return Err(INVALID_VALUE);
        }
        let (library, index) = self.kernel(kernel.handle())?;
        let (_, text) = library.kernels.get(index).ok_or(INVALID_HANDLE)?;
        name.set(text.as_ptr())
    }

    /// `cuKernelGetParamInfo()`—Needs a current context, as NVIDIA's tests of cuda-core expect.
    fn kernel_get_param_info(
        &self,
        kernel: Out<CUkern_st>,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) -> Status {
        self.current()?;
        let (library, number) = self.kernel(kernel.handle())?;
        let kernel = library
            .code
            .program
            .kernels()
            .get(number)
            .ok_or(INVALID_HANDLE)?;
        let param = kernel.params.get(index).ok_or(INVALID_VALUE)?;
        offset.set(param.offset as usize)?;
        size.set_if(param.size as usize);
        Ok(())
    }

    fn kernel_get_param_count(&self, kernel: Out<CUkern_st>, count: Out<usize>) -> Status {
        let (library, number) = self.kernel(kernel.handle())?;
        let kernel = library
            .code
            .program
            .kernels()
            .get(number)
            .ok_or(INVALID_HANDLE)?;
        count.set(kernel.params.len())
    }

    /// Calls `f` with a kernel on a device. This needs no context.
    fn on_device<T>(
        &self,
        kernel: u64,
        dev: CUdevice,
        f: impl FnOnce(OnDevice<'_>) -> Status<T>,
    ) -> Status<T> {
        let (library, index) = self.kernel(kernel)?;
        let device = self.device(dev)?;
        let code = &library.code;
        let settings = code.settings(index, device.ordinal);
        f(OnDevice {
            code,
            kernel: code.program.kernels().get(index).ok_or(INVALID_HANDLE)?,
            device,
            settings: [&settings; 2],
        })
    }

    fn kernel_get_attribute(
        &self,
        value: Out<c_int>,
        attribute: CUfunction_attribute,
        kernel: Out<CUkern_st>,
        dev: CUdevice,
    ) -> Status {
        value.required()?;
        value.set(self.on_device(kernel.handle(), dev, |kernel| kernel.attribute(attribute))?)
    }

    fn kernel_set_attribute(
        &self,
        attribute: CUfunction_attribute,
        value: c_int,
        kernel: Out<CUkern_st>,
        dev: CUdevice,
    ) -> Status {
        self.on_device(kernel.handle(), dev, |kernel| {
            kernel.set_attribute(attribute, value)
        })
    }

    fn kernel_set_cache_config(
        &self,
        kernel: Out<CUkern_st>,
        config: CUfunc_cache,
        dev: CUdevice,
    ) -> Status {
        self.kernel(kernel.handle())?;
        self.device(dev)?;
        if config.0 > 3 {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }
}
