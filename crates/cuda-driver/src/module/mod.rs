//! Modules: device code that was loaded into a context.

mod code;
mod functions;
mod image;
mod log;
mod options;
mod unload;

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUmod_st, CUmodule, CUresult};

use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, JitError, Result};
use crate::function::Function;
use crate::handle::Handle;
use crate::stream::SendPtr;
pub(crate) use code::{ModuleInner, Shared, find_signature};
pub use functions::LoadingMode;
pub use image::Image;
pub(crate) use image::{image_of, read, read_image};
pub(crate) use log::Compilation;
pub use log::JitLog;
pub use options::{JitCacheMode, JitFallback, JitOptions, JitTarget, OptimizationLevel};
pub(crate) use unload::Unloading;

/// Device code in a context. Cloning it gives another handle of the same code.
///
/// It is unloaded when the last handle and the last [`Function`] of it are gone; that waits for the
/// uses of its [variables](crate::Global), also by other contexts, and for its context, as a kernel
/// of it may still run. A [`Library`](crate::Library) is the same for all contexts at once.
#[derive(Clone)]
pub struct Module {
    raw: SendPtr<CUmod_st>,
    inner: Arc<ModuleInner>,
}

impl Module {
    /// `cuModuleLoadDataEx(image)`—Loads PTX, a cubin or a fat binary into `context`.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log of the driver's compiler: for PTX that is wrong, that was
    /// written by a compiler newer than the driver (the text says which versions met), or for a
    /// cubin of another architecture.
    #[doc(alias = "cuModuleLoadData")]
    #[doc(alias = "cuModuleLoadDataEx")]
    #[doc(alias = "cuModuleLoadFatBinary")]
    pub fn load<'a>(context: &Context, image: impl Into<Image<'a>>) -> Result<Self> {
        Self::load_with(context, image, &JitOptions::new())
    }

    /// `cuModuleLoadDataEx(image, options)`—The same with options for the driver's compiler.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); [`Error::Unsupported`] for an option that the driver is too old
    /// for.
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load_with<'a>(
        context: &Context,
        image: impl Into<Image<'a>>,
        options: &JitOptions,
    ) -> Result<Self> {
        let image = image.into();
        let driver = context.driver();
        let mut compilation = Compilation::new(options, driver.version())?;
        let mut raw: CUmodule = ptr::null_mut();
        let current = context.enter()?;
        // SAFETY: the data must be a whole image, the options and buffers valid for the call ← a
        // `Ptx` ends with NUL, a `Cubin` and a `Fatbin` are whole by their contracts; there are as
        // many values as options, and the buffers are of the sizes given.
        let result = unsafe {
            call!(
                driver,
                cuModuleLoadDataEx(
                    &raw mut raw,
                    image.data(),
                    compilation.len(),
                    compilation.names(),
                    compilation.values(),
                )
            )
        };
        drop(current);
        let log = compilation.log();
        if let Err(source) = result {
            return Err(JitError::error(source, log, image.ptx_version()));
        }
        // SAFETY: nobody else must unload it ← it was loaded just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let inner = ModuleInner::of_module(context, handle, log, image.signatures());
        let raw = SendPtr(raw);
        Ok(Self { raw, inner })
    }

    /// `cuModuleLoadDataEx(image, options)`—Loads the file at `path`: PTX, a cubin or a fat binary,
    /// as it begins.
    ///
    /// PTX alone needs no `unsafe`: read the text, make a [`Ptx`](crate::Ptx) of it, and
    /// [`load`](Self::load) that.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, [`Error::Image`] if it is no image; else as
    /// [`load_with`](Self::load_with).
    ///
    /// # Safety
    ///
    /// If the file is a cubin or a fat binary: it is whole and unaltered since a compiler or linker
    /// of NVIDIA's made it.
    #[doc(alias = "cuModuleLoad")]
    pub unsafe fn load_file(
        context: &Context,
        path: impl AsRef<Path>,
        options: &JitOptions,
    ) -> Result<Self> {
        // SAFETY: machine code must be whole and unaltered ← the caller says so.
        let image = unsafe { read_image(path.as_ref()) }?;
        Self::load_with(context, image_of(&image)?, options)
    }

    /// `cuModuleGetFunction(name)`—The kernel of this name, as it stands in the image (C++ names
    /// mangled).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`], or [`Error::NulByte`] if there is one in the name.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> Result<Function> {
        let c_name = kernel_name(name)?;
        let mut raw = ptr::null_mut();
        let _current = self.context().enter()?;
        // SAFETY: pointer and name must be valid, the module loaded ← locals, and `self` owns it.
        let result = unsafe {
            call!(
                self.context().driver(),
                cuModuleGetFunction(&raw mut raw, self.as_raw(), c_name.as_ptr())
            )
        };
        result.map_err(|error| not_found(error, name))?;
        Function::new(&self.inner, raw, name)
    }

    pub(crate) fn inner(&self) -> &Arc<ModuleInner> {
        &self.inner
    }

    /// What the driver's compiler wrote while it loaded the module.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        self.inner.log()
    }

    /// The context of the module.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.inner.context()
    }

    /// The raw module. It stays loaded as long as a handle or a function of it.
    #[must_use]
    pub fn as_raw(&self) -> CUmodule {
        self.raw.0
    }
}

/// The name of a kernel, as C takes it.
pub(crate) fn kernel_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|error| Error::NulByte {
        what: "the name of the kernel",
        position: error.nul_position(),
    })
}

/// Names the kernel that was not found.
pub(crate) fn not_found(error: DriverError, name: &str) -> Error {
    match error.status() {
        CUresult::CUDA_ERROR_NOT_FOUND => Error::NoSuchFunction {
            name: name.to_owned(),
        },
        _ => error.into(),
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.as_raw())
    }
}
