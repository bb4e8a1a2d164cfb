//! Libraries: device code that belongs to no context, loaded into each when it is first used there.

mod kernel;

pub use kernel::LibraryKernel;

use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cuda_sys::image::Signature;
use cuda_sys::{CUkernel, CUlib_st, CUlibrary};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, JitError, Result};
use crate::global::Global;
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::memory::DeviceRepr;
use crate::module::{
    Compilation, Image, JitLog, JitOptions, ModuleInner, Shared, Unloading, image_of, kernel_name,
    not_found, read_image,
};
use crate::stream::{SendPtr, Stream};

/// Device code for all contexts of a driver. Cloning it gives another handle of the same code.
///
/// The driver loads it into a context when something of it is first used there. It is unloaded when
/// the last handle, the last kernel and the last function of it are gone; that waits for the uses
/// of its variables and for every context that it was used in. It keeps those contexts.
#[derive(Clone)]
pub struct Library(Arc<LibraryInner>);

pub(crate) struct LibraryInner {
    /// Before the contexts in it end, the library goes.
    handle: ManuallyDrop<Handle<RawLibrary>>,
    log: JitLog,
    /// What the image says of its kernels, if it says anything.
    signatures: Option<Vec<Signature>>,
    /// The contexts that it was used in. What is there once for each comes first: its streams go
    /// before the context.
    places: Mutex<Vec<(Arc<Shared>, Context)>, { rank::LIBRARY_CONTEXTS }>,
}

struct RawLibrary;

impl Destroy for RawLibrary {
    type Raw = SendPtr<CUlib_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the library must be loaded, none of its kernels may run and nothing may use its
        // variables ← the handle owns it, and `Unloading` has waited for both.
        unsafe { call!(driver, cuLibraryUnload(raw.0)) }
    }
}

impl Library {
    /// `cuLibraryLoadData(image, options)`—Takes PTX, a cubin or a fat binary.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`](crate::Error::Jit) with the log of the driver's compiler. The driver may also
    /// leave the work, and this error without the log, to the first use in a context.
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an option that the driver is too old
    /// for.
    #[doc(alias = "cuLibraryLoadData")]
    pub fn load<'a>(
        driver: &Driver,
        image: impl Into<Image<'a>>,
        options: &JitOptions,
    ) -> Result<Self> {
        let image = image.into();
        // No context can take the library with it.
        let driver = &driver.of_all();
        let mut compilation = Compilation::new(options, driver.version())?;
        let mut raw: CUlibrary = ptr::null_mut();
        // SAFETY: the data must be a whole image, the options and buffers valid for the call ← a
        // `Ptx` ends with NUL, a `Cubin` and a `Fatbin` are whole by their contracts; there are as
        // many values as options, and the buffers are of the sizes given. There are no options of
        // the library: the driver copies the image.
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
        // SAFETY: nobody else must unload it ← it was loaded just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        Ok(Self(Arc::new(LibraryInner {
            handle: ManuallyDrop::new(handle),
            log,
            signatures: image.signatures(),
            places: Mutex::default(),
        })))
    }

    /// `cuLibraryLoadData(image, options)`—Takes the file at `path`: PTX, a cubin or a fat binary,
    /// as it begins.
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) if it cannot be read,
    /// [`Error::Image`](crate::Error::Image) if it is no image; else as [`load`](Self::load).
    ///
    /// # Safety
    ///
    /// If the file is a cubin or a fat binary: it is whole and unaltered since a compiler or linker
    /// of NVIDIA's made it.
    #[doc(alias = "cuLibraryLoadFromFile")]
    pub unsafe fn load_file(
        driver: &Driver,
        path: impl AsRef<Path>,
        options: &JitOptions,
    ) -> Result<Self> {
        // SAFETY: machine code must be whole and unaltered ← the caller says so.
        let image = unsafe { read_image(path.as_ref()) }?;
        Self::load(driver, image_of(&image)?, options)
    }

    /// `cuLibraryGetKernel(name)`—The kernel of this name, as it stands in the image (C++ names
    /// mangled).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`](crate::Error::NoSuchFunction), or
    /// [`Error::NulByte`](crate::Error::NulByte) if there is one in the name.
    #[doc(alias = "cuLibraryGetKernel")]
    pub fn kernel(&self, name: &str) -> Result<LibraryKernel> {
        let c_name = kernel_name(name)?;
        let mut raw: CUkernel = ptr::null_mut();
        // SAFETY: pointer and name must be valid, the library loaded ← locals, and `self` owns it.
        let result = unsafe {
            call!(
                self.0.driver(),
                cuLibraryGetKernel(&raw mut raw, self.as_raw(), c_name.as_ptr())
            )
        };
        result.map_err(|error| not_found(error, name))?;
        Ok(LibraryKernel::new(&self.0, raw, name))
    }

    /// `cuLibraryEnumerateKernels()`—All kernels, with their names as they stand in the image.
    ///
    /// # Errors
    ///
    /// That the driver lacks the call, before CUDA 12.4.
    #[doc(alias = "cuLibraryEnumerateKernels")]
    #[doc(alias = "cuLibraryGetKernelCount")]
    pub fn kernels(&self) -> Result<Vec<LibraryKernel>> {
        let driver = self.0.driver();
        let mut count = 0;
        // SAFETY: the pointer must be writable, the library loaded ← a local, and `self` owns it.
        unsafe {
            call!(
                driver,
                cuLibraryGetKernelCount(&raw mut count, self.as_raw())
            )
        }?;
        let mut raw: Vec<CUkernel> = vec![ptr::null_mut(); count as usize];
        // SAFETY: there must be room for `count` kernels, the library loaded ← there is; `self`
        // owns it.
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

    /// `cuLibraryGetGlobal(name)`—The variable of this name in the context of `stream`, at home on
    /// `stream`. Each context has its own.
    ///
    /// What holds for [`Module::global`](crate::Module::global) holds for it.
    ///
    /// # Errors
    ///
    /// As [`Module::global`](crate::Module::global).
    #[doc(alias = "cuLibraryGetGlobal")]
    pub fn global<T: DeviceRepr>(&self, name: &str, stream: &Stream) -> Result<Global<T>> {
        Global::of(&self.0.place(stream.context())?, name, stream)
    }

    /// What the driver's compiler wrote while it took the image.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        &self.0.log
    }

    /// The driver of the library.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The raw library. It stays loaded as long as a handle, a kernel or a function of it.
    #[must_use]
    pub fn as_raw(&self) -> CUlibrary {
        self.0.as_raw()
    }
}

impl LibraryInner {
    pub(crate) fn as_raw(&self) -> CUlibrary {
        self.handle.raw().0
    }

    pub(crate) fn log(&self) -> &JitLog {
        &self.log
    }

    pub(crate) fn signatures(&self) -> Option<&[Signature]> {
        self.signatures.as_deref()
    }

    fn driver(&self) -> &Driver {
        self.handle.driver()
    }

    fn places(&self) -> MutexGuard<'_, Vec<(Arc<Shared>, Context)>> {
        self.places.lock()
    }

    /// The code in that context, from now on waited for before it goes.
    fn place(self: &Arc<Self>, context: &Context) -> Result<Arc<ModuleInner>> {
        self.driver()
            .expect_handles_of(context.driver(), "the context")?;
        let mut places = self.places();
        let known = places.iter().find(|(_, known)| known == context);
        let shared = if let Some((shared, _)) = known {
            Arc::clone(shared)
        } else {
            let shared = Arc::<Shared>::default();
            places.push((Arc::clone(&shared), context.clone()));
            shared
        };
        Ok(ModuleInner::of_library(context, self, shared))
    }
}

impl Drop for LibraryInner {
    fn drop(&mut self) {
        let places = std::mem::take(&mut *self.places());
        let mut variables = Vec::new();
        let mut contexts = Vec::with_capacity(places.len());
        for (shared, context) in places {
            variables.extend(shared.take_trackers());
            contexts.push(context);
        }
        // SAFETY: it must not be used or dropped again ← this is the end of `self`, and a
        // `ManuallyDrop` stays.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        Unloading::new(handle, variables, contexts).start();
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({:?})", self.as_raw())
    }
}
