//! Libraries: device code for all contexts, which the driver loads into each context on first use.

mod kernel;

pub use kernel::LibraryKernel;

use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUkernel, CUlibrary};

use crate::driver::{Driver, call};
use crate::error::{JitError, Result};
use crate::function::{kernel_name, names_of, not_found};
use crate::global::Global;
use crate::handle::Handle;
use crate::memory::DeviceRepr;
use crate::module::{Compilation, Image, JitOptions, LibraryInner, image_of, read_image};
use crate::stream::Stream;
use crate::types::{JitLog, SendPtr};

/// Device code for all contexts of a driver. Cloning it creates another handle of the same code.
///
/// The driver loads the code into a context when it is first used there. The code is unloaded when
/// the last handle, the last kernel and the last function of it are dropped. Unloading waits for
/// the uses of its variables and for every context in which it was used. The library keeps those
/// contexts alive.
///
/// ```
/// use cuda_driver::{DeviceBuffer, LaunchConfig, Library, Ptx};
/// use cuda_driver::jit::JitOptions;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// let library = Library::load(&driver, &mix, &JitOptions::new())?;
/// let kernel = library.kernel("mix")?;
/// for device in driver.devices()? {
///     let stream = device.primary_context()?.default_stream()?;
///     let mut x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
///     let y = DeviceBuffer::from_host(&stream, &[10_u32, 20, 30])?;
///     let mix = kernel.function(stream.context())?;
///     // SAFETY: the kernel reads 3 words of `y`, and reads and writes 3 words of `x`.
///     unsafe { stream.launch(&mix, LaunchConfig::for_num_elems(3)?, (&mut x, &y, 3_u32)) }?;
///     assert_eq!(x.to_vec()?, [12, 24, 36]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Library(Arc<LibraryInner>);

impl Library {
    /// `cuLibraryLoadData(image, options)`—Loads PTX, a cubin or a fat binary.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`](crate::Error::Jit) with the log of the driver's compiler. The driver may
    /// postpone compilation until the first use in a context; that call then returns the error,
    /// without the log. [`Error::Unsupported`](crate::Error::Unsupported) if the driver is too old
    /// for an option. [`Error::Ptx`](crate::Error::Ptx) as for
    /// [`Module::load`](crate::Module::load).
    #[doc(alias = "cuLibraryLoadData")]
    #[doc(alias = "cudaLibraryLoadData")]
    pub fn load<'a>(
        driver: &Driver,
        image: impl Into<Image<'a>>,
        options: &JitOptions,
    ) -> Result<Self> {
        let image = image.into();
        image.check()?;
        #[cfg(feature = "tracing")]
        let _span = image.span().entered();
        // The library must not depend on the liveness of a context.
        let driver = &driver.without_context();
        let mut compilation = Compilation::new(options, driver.version())?;
        let mut raw: CUlibrary = ptr::null_mut();
        // SAFETY: the data must be a whole image, and the options and buffers must be valid for the
        // call ← a `Ptx` ends with NUL, and a `Cubin` and a `Fatbin` are whole by their contracts;
        // there are as many values as options, and the buffers have the given sizes. Without
        // library options, the driver copies the image.
        let result = unsafe {
            call!(
                driver,
                cuLibraryLoadData(
                    &raw mut raw,
                    image.data(),
                    compilation.names(),
                    compilation.values(),
                    compilation.len(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                    0,
                )
            )
        };
        let log = compilation.log();
        if let Err(source) = result {
            return Err(JitError::error(source, log, image.ptx_version()));
        }
        // SAFETY: no other owner may unload the library ← it was loaded just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        Ok(Self(LibraryInner::new(handle, log, image.signatures())))
    }

    /// `cuLibraryLoadData(image, options)`—Loads the file at `path`. The first bytes of the file
    /// determine whether it is PTX, a cubin or a fat binary.
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) if the file cannot be read,
    /// [`Error::Image`](crate::Error::Image) if it is not an image. Otherwise fails as
    /// [`load`](Self::load) does.
    ///
    /// # Safety
    ///
    /// If the file is a cubin or a fat binary, it must be complete and unmodified since a compiler
    /// or linker of NVIDIA created it.
    #[doc(alias = "cuLibraryLoadFromFile")]
    #[doc(alias = "cudaLibraryLoadFromFile")]
    pub unsafe fn load_file(
        driver: &Driver,
        path: impl AsRef<Path>,
        options: &JitOptions,
    ) -> Result<Self> {
        // SAFETY: machine code must be complete and unmodified ← this is the contract of the
        // caller.
        let image = unsafe { read_image(path.as_ref()) }?;
        Self::load(driver, image_of(&image)?, options)
    }

    /// `cuLibraryGetKernel(name)`—Returns the kernel with this name. C++ names are mangled, as in
    /// the image.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`](crate::Error::NoSuchFunction), or
    /// [`Error::NulByte`](crate::Error::NulByte) if the name contains a NUL byte.
    #[doc(alias = "cuLibraryGetKernel")]
    #[doc(alias = "cudaLibraryGetKernel")]
    pub fn kernel(&self, name: &str) -> Result<LibraryKernel> {
        let c_name = kernel_name(name)?;
        let mut raw: CUkernel = ptr::null_mut();
        // SAFETY: the pointer and the name must be valid, and the library loaded ← they are locals,
        // and `self` owns the library.
        let result = unsafe {
            call!(
                self.0.driver(),
                cuLibraryGetKernel(&raw mut raw, self.as_raw(), c_name.as_ptr())
            )
        };
        result.map_err(|error| not_found(error, name, || self.kernel_names()))?;
        Ok(LibraryKernel::new(&self.0, raw, name))
    }

    /// Returns the names of the kernels, if the image or the driver lists them.
    fn kernel_names(&self) -> Option<Vec<String>> {
        if let Some(signatures) = self.0.signatures() {
            return Some(names_of(signatures));
        }
        let kernels = self.kernels().ok()?;
        Some(kernels.iter().map(|it| it.name().to_owned()).collect())
    }

    /// `cuLibraryEnumerateKernels()`—Returns all kernels, with their names as in the image.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 12.4.
    #[doc(alias = "cuLibraryEnumerateKernels")]
    #[doc(alias = "cudaLibraryEnumerateKernels")]
    #[doc(alias = "cuLibraryGetKernelCount")]
    #[doc(alias = "cudaLibraryGetKernelCount")]
    pub fn kernels(&self) -> Result<Vec<LibraryKernel>> {
        let driver = self.0.driver();
        let mut count = 0;
        // SAFETY: the pointer must be writable, and the library loaded ← the pointer is to a local,
        // and `self` owns the library.
        unsafe {
            call!(
                driver,
                cuLibraryGetKernelCount(&raw mut count, self.as_raw())
            )
        }?;
        let mut raw: Vec<CUkernel> = vec![ptr::null_mut(); count as usize];
        // SAFETY: there must be room for `count` kernels, and the library must be loaded ← the
        // vector has that length, and `self` owns the library.
        unsafe {
            call!(
                driver,
                cuLibraryEnumerateKernels(raw.as_mut_ptr(), count, self.as_raw())
            )
        }?;
        raw.into_iter()
            .map(|raw| LibraryKernel::named(&self.0, raw))
            .collect()
    }

    /// `cuLibraryGetGlobal(name)`—Returns the variable with this name in the context of `stream`,
    /// with `stream` as its owning stream. Each context has its own copy of the variable.
    ///
    /// The rules of [`Module::global`](crate::Module::global) apply.
    ///
    /// # Errors
    ///
    /// Fails as [`Module::global`](crate::Module::global) does.
    #[doc(alias = "cuLibraryGetGlobal")]
    #[doc(alias = "cudaLibraryGetGlobal")]
    pub fn global<T: DeviceRepr>(&self, name: &str, stream: &Stream) -> Result<Global<T>> {
        Global::of(&self.0.place(stream.context())?, name, stream)
    }

    /// The log of the driver's compiler from loading the library.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        self.0.log()
    }

    /// The driver of the library.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The raw library. It stays loaded as long as any handle, kernel or function of it exists.
    #[must_use]
    pub fn as_raw(&self) -> CUlibrary {
        self.0.as_raw()
    }
}

/// Unloading.
impl Library {
    /// `cuLibraryUnload()`—Drops this handle. If it was the last user of the code, waits as
    /// dropping it does, unloads the code, and returns the error that a drop would swallow.
    ///
    /// Other handles, kernels and functions of the library keep it loaded.
    /// Code that waits for the end of a capture, or for the end of the host function that this
    /// thread runs, is unloaded later, and this returns `Ok`.
    ///
    /// # Errors
    ///
    /// The fault of a kernel that was still running. The code then stays loaded.
    #[doc(alias = "cuLibraryUnload")]
    #[doc(alias = "cudaLibraryUnload")]
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.0).map_or(Ok(()), LibraryInner::close)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({:?})", self.as_raw())
    }
}
