//! Modules: device code that was loaded.

use std::ffi::{CString, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sys::image::{Cubin, Parameter, Ptx, Signature};
use cuda_sys::{CUjit_option, CUmod_st, CUmodule, CUresult};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, JitError, Result};
use crate::function::Function;
use crate::global::Globals;
use crate::handle::{Destroy, Handle};
use crate::stream::SendPtr;

/// Device code that the driver can load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Image<'a> {
    /// Compiled by the driver for its device.
    Ptx(&'a Ptx),
    /// Loaded as it is.
    Cubin(&'a Cubin),
}

impl<'a> From<&'a Ptx> for Image<'a> {
    fn from(ptx: &'a Ptx) -> Self {
        Self::Ptx(ptx)
    }
}

impl<'a> From<&'a Cubin> for Image<'a> {
    fn from(cubin: &'a Cubin) -> Self {
        Self::Cubin(cubin)
    }
}

/// Device code in a context. Cloning it gives another handle of the same code.
///
/// It is unloaded when the last handle and the last [`Function`] of it are gone; that waits for the context, as a
/// kernel of it may still run.
#[derive(Clone)]
pub struct Module(Arc<ModuleInner>);

pub(crate) struct ModuleInner {
    /// Before `context`, as the module itself: their streams go before it.
    globals: Globals,
    handle: ManuallyDrop<Handle<RawModule>>,
    context: Context,
    log: String,
    /// What the image says of its kernels, if it says anything.
    signatures: Option<Vec<Signature>>,
    /// Held while a function's limit of shared memory is raised.
    raising: Mutex<()>,
}

struct RawModule;

impl Destroy for RawModule {
    type Raw = SendPtr<CUmod_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the module must be loaded, and none of its kernels may run ← the handle owns it, and
        // `ModuleInner::drop` has waited.
        unsafe { call!(driver, cuModuleUnload(raw.0)) }
    }
}

/// How much of the log of the driver's compiler is kept.
const LOG_BYTES: usize = 16 << 10;

impl Module {
    /// `cuModuleLoadDataEx(image)`—Loads PTX or a cubin into `context`.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log of the driver's compiler: for PTX that is wrong, that was written by a compiler
    /// newer than the driver (the text says which versions met), or for a cubin of another architecture.
    #[doc(alias = "cuModuleLoadData")]
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load<'a>(context: &Context, image: impl Into<Image<'a>>) -> Result<Self> {
        let image = image.into();
        let driver = context.driver();
        let data: *const c_void = match image {
            Image::Ptx(ptx) => ptx.as_c_str().as_ptr().cast(),
            Image::Cubin(cubin) => cubin.as_bytes().as_ptr().cast(),
        };
        let (mut info, mut errors) = (Log::new(), Log::new());
        let mut options = [
            CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [info.pointer(), Log::size(), errors.pointer(), Log::size()];
        let mut raw: CUmodule = ptr::null_mut();
        let current = context.enter()?;
        // SAFETY: the data must be a whole image, the options and buffers valid for the call ← a `Ptx` ends with
        // NUL and a `Cubin` is whole by its contract; there are as many values as options; the buffers are locals
        // of the size given.
        let result = unsafe {
            call!(
                driver,
                cuModuleLoadDataEx(
                    &raw mut raw,
                    data,
                    options.len() as c_uint,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            )
        };
        drop(current);
        if let Err(source) = result {
            let ptx_version = match image {
                Image::Ptx(ptx) => ptx.version(),
                Image::Cubin(_) => None,
            };
            return Err(Error::Jit(Box::new(JitError {
                source,
                log: errors.text(),
                ptx_version,
            })));
        }
        // SAFETY: nobody else must unload it ← it was loaded just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        let signatures = match image {
            Image::Ptx(ptx) => ptx.signatures(),
            Image::Cubin(cubin) => cubin.signatures().map(<[_]>::to_vec),
        };
        let (context, log) = (context.clone(), info.text());
        Ok(Self(Arc::new(ModuleInner {
            globals: Globals::default(),
            handle: ManuallyDrop::new(handle),
            context,
            log,
            signatures,
            raising: Mutex::default(),
        })))
    }

    /// `cuModuleGetFunction(name)`—The kernel of this name, as it stands in the image (C++ names mangled).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`], or [`Error::NulByte`] if there is one in the name.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> Result<Function> {
        let c_name = CString::new(name).map_err(|error| Error::NulByte {
            what: "the name of the kernel",
            position: error.nul_position(),
        })?;
        let mut raw = ptr::null_mut();
        let _current = self.0.context.enter()?;
        // SAFETY: pointer and name must be valid, the module loaded ← locals, and `self` owns it.
        let result = unsafe {
            call!(
                self.0.context.driver(),
                cuModuleGetFunction(&raw mut raw, self.as_raw(), c_name.as_ptr())
            )
        };
        match result {
            Ok(()) => Function::new(&self.0, raw, name),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_FOUND => {
                Err(Error::NoSuchFunction {
                    name: name.to_owned(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<ModuleInner> {
        &self.0
    }

    /// What the driver's compiler wrote while it loaded the module.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.0.log
    }

    /// The context of the module.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The raw module. It stays loaded as long as a handle or a function of it.
    #[must_use]
    pub fn as_raw(&self) -> CUmodule {
        self.0.handle.raw().0
    }
}

impl ModuleInner {
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn globals(&self) -> &Globals {
        &self.globals
    }

    pub(crate) fn raising(&self) -> MutexGuard<'_, ()> {
        self.raising.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the image says of a kernel's parameters.
    pub(crate) fn signature(&self, kernel: &str) -> Option<&[Parameter]> {
        let signatures = self.signatures.as_deref()?;
        let found = signatures
            .iter()
            .find(|signature| signature.kernel == kernel)?;
        Some(&found.parameters)
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        // A kernel of the module may still run; its launch is queued, and no handle remembers it.
        let is_idle = self.context.synchronize().is_ok();
        // SAFETY: it must not be used or dropped again ← this is the end of `self`, and a `ManuallyDrop` stays.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        if !is_idle {
            // It stays loaded until its context goes.
            handle.abandon();
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.as_raw())
    }
}

/// A buffer that the driver's compiler writes to.
struct Log(Vec<u8>);

impl Log {
    fn new() -> Self {
        Self(vec![0; LOG_BYTES])
    }

    fn pointer(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    /// The size, in the form of an option's value.
    fn size() -> *mut c_void {
        ptr::without_provenance_mut(LOG_BYTES)
    }

    fn text(self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    }
}
