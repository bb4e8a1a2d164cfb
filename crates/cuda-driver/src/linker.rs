//! The linker of the driver, which links several images into one cubin.

use std::ffi::{CString, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use cuda_sys::image::{Archive, Cubin, Fatbin, LoadableError, Object, Ptx, Signature};
use cuda_sys::{CUjitInputType, CUlinkState, CUlinkState_st};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, JitError, Result};
use crate::handle::{Destroy, Handle};
use crate::module::{Compilation, JitOptions, check_text, read};
use crate::types::{JitLog, SendPtr};

/// A link in progress. Add images, then call [`complete`](Self::complete) to link them into a
/// cubin. Symbols that one image declares `extern` are resolved to definitions in the others.
///
/// ```
/// use cuda_driver::{Module, Ptx};
/// use cuda_driver::jit::{JitOptions, Linker};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let kernels = Ptx::new(std::fs::read("tests/it/kernels/link_caller.ptx")?)?;
/// # let functions = Ptx::new(std::fs::read("tests/it/kernels/link_callee.ptx")?)?;
/// // The first image calls `weigh`, which the second one defines: `3 * x + 11`.
/// let mut linker = Linker::new(&context, &JitOptions::new())?;
/// linker.add(&kernels, "kernels")?.add(&functions, "functions")?;
/// let linked = linker.complete()?;
/// let module = Module::load(&context, &linked.cubin)?;
/// assert!(module.function("weigh_all").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The linker does not accept LTO-IR of CUDA 12.0 and newer: use
/// [`LtoLinker`](crate::jit::LtoLinker).
pub struct Linker {
    /// The kernel parameters of all inputs, if all inputs describe them.
    signatures: Option<Vec<Signature>>,
    link: Link,
    /// Declared last, so that it is dropped after the link.
    context: Context,
}

/// The result of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Linked {
    /// Machine code for the device of the context, or for the [target](JitOptions::target).
    pub cubin: Cubin,
    /// The log of the compiler and linker.
    pub log: JitLog,
}

/// An input of a [`Linker`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LinkInput<'a> {
    /// PTX, which is compiled first.
    Ptx(&'a Ptx),
    /// A cubin for the architecture of the link.
    Cubin(&'a Cubin),
    /// A fat binary, from which the linker selects the image that fits the architecture.
    Fatbin(&'a Fatbin),
    /// The device code in a host object file.
    Object(&'a Object),
    /// The device code in an archive of host object files.
    Archive(&'a Archive),
}

/// The kind of a file, for [`Linker::add_file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkFile {
    /// PTX.
    Ptx,
    /// A cubin.
    Cubin,
    /// A fat binary.
    Fatbin,
    /// A host object file.
    Object,
    /// An archive of host object files.
    Archive,
}

/// The raw link of the driver, and the buffers that it writes to until it is destroyed.
struct Link {
    handle: ManuallyDrop<Handle<RawLink>>,
    compilation: ManuallyDrop<Compilation>,
}

impl Link {
    fn raw(&self) -> CUlinkState {
        self.handle.raw().0
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the handle must not be used again ← `self` is being dropped.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        // SAFETY: the value must not be used again ← `self` is being dropped.
        let compilation = unsafe { ManuallyDrop::take(&mut self.compilation) };
        let driver = handle.driver().clone();
        driver.run_in_order(move || {
            let _ = handle.close();
            drop(compilation);
        });
    }
}

struct RawLink;

impl Destroy for RawLink {
    type Raw = SendPtr<CUlinkState_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the link must be alive and not used afterwards ← the handle owned it, and is
        // being dropped.
        unsafe { call!(driver, cuLinkDestroy(raw.0)) }
    }
}

impl Linker {
    /// `cuLinkCreate(options)`—Begins a link, for the device of `context` unless `options` name
    /// another target.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the driver is too old for an option.
    #[doc(alias = "cuLinkCreate")]
    pub fn new(context: &Context, options: &JitOptions) -> Result<Self> {
        let driver = context.driver();
        let mut compilation = Compilation::new(options, driver.version())?;
        let mut raw: CUlinkState = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the options and buffers must be valid as long as the link ← they are dropped
        // after it ([`Link`]), and do not move when `compilation` does; there are as many values as
        // options.
        unsafe {
            call!(
                driver,
                cuLinkCreate_v2(
                    compilation.len(),
                    compilation.names(),
                    compilation.values(),
                    &raw mut raw
                )
            )
        }?;
        // SAFETY: no other owner may destroy the link ← it was created just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        Ok(Self {
            signatures: Some(Vec::new()),
            link: Link {
                handle: ManuallyDrop::new(handle),
                compilation: ManuallyDrop::new(compilation),
            },
            context: context.clone(),
        })
    }

    /// `cuLinkAddData(input, name)`—Adds an image, which the log calls `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log, if the PTX is invalid or the machine code is for another
    /// architecture. [`Error::NulByte`] if the name contains a NUL byte. [`Error::Ptx`] as for
    /// [`Module::load`](crate::Module::load).
    #[doc(alias = "cuLinkAddData")]
    pub fn add<'a>(&mut self, input: impl Into<LinkInput<'a>>, name: &str) -> Result<&mut Self> {
        let input = input.into();
        if let LinkInput::Ptx(ptx) = input {
            check_text(ptx)?;
        }
        let c_name = CString::new(name).map_err(|error| Error::NulByte {
            what: "the name of the linker input",
            position: error.nul_position(),
        })?;
        let (kind, bytes) = input.raw();
        let data: *mut c_void = bytes.as_ptr().cast_mut().cast();
        let current = self.context.enter()?;
        // SAFETY: the data must be a whole image of its kind, and the name a C string ← a `Ptx`
        // ends with NUL, which is included in the length, and the others are whole by their
        // contracts; the driver copies both and writes to neither.
        let result = unsafe {
            call!(
                self.context.driver(),
                cuLinkAddData_v2(
                    self.link.raw(),
                    kind,
                    data,
                    bytes.len(),
                    c_name.as_ptr(),
                    0,
                    ptr::null_mut(),
                    ptr::null_mut()
                )
            )
        };
        drop(current);
        let version = match input {
            LinkInput::Ptx(ptx) => ptx.version(),
            _ => None,
        };
        result.map_err(|source| JitError::error(source, self.link.compilation.log(), version))?;
        let more = match input {
            LinkInput::Ptx(ptx) => ptx.signatures(),
            LinkInput::Cubin(cubin) => cubin.signatures().map(<[_]>::to_vec),
            _ => None,
        };
        self.signatures = self.signatures.take().zip(more).map(|(mut all, more)| {
            all.extend(more);
            all
        });
        Ok(self)
    }

    /// `cuLinkAddData(input)`—Adds the file at `path`, which the log calls by its path. This crate
    /// reads the file itself, because the driver and the program may interpret a path differently.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the file cannot be read, [`Error::Image`] if it is not of the given kind.
    /// Otherwise fails as [`add`](Self::add) does.
    ///
    /// # Safety
    ///
    /// Unless the file is PTX, it is of the given kind, and complete and unmodified since a
    /// compiler or linker created it.
    #[doc(alias = "cuLinkAddFile")]
    pub unsafe fn add_file(&mut self, kind: LinkFile, path: impl AsRef<Path>) -> Result<&mut Self> {
        let path = path.as_ref();
        let bytes = read(path)?;
        let name = path.to_string_lossy();
        let image = |error| Error::Image(Box::new(error));
        match kind {
            LinkFile::Ptx => {
                let ptx = Ptx::new(bytes).map_err(LoadableError::Nul).map_err(image)?;
                self.add(&ptx, &name)
            }
            LinkFile::Fatbin => {
                // SAFETY: the bytes must be an unmodified fat binary ← this is the contract of the
                // caller.
                let fatbin = unsafe { Fatbin::from_bytes(bytes) };
                let fatbin = fatbin.map_err(LoadableError::Fatbin).map_err(image)?;
                self.add(&fatbin, &name)
            }
            LinkFile::Cubin => {
                // SAFETY: the bytes must be a complete cubin ← this is the contract of the caller.
                self.add(&unsafe { Cubin::from_bytes(bytes) }, &name)
            }
            LinkFile::Object => {
                // SAFETY: the bytes must be a complete object file ← this is the contract of the
                // caller.
                self.add(&unsafe { Object::from_bytes(bytes) }, &name)
            }
            LinkFile::Archive => {
                // SAFETY: the bytes must be a complete archive ← this is the contract of the
                // caller.
                self.add(&unsafe { Archive::from_bytes(bytes) }, &name)
            }
        }
    }

    /// `cuLinkComplete()`—Links the inputs into a cubin, and ends the link.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log, if a symbol is undefined or has two definitions.
    #[doc(alias = "cuLinkComplete")]
    pub fn complete(self) -> Result<Linked> {
        let (mut data, mut size) = (ptr::null_mut(), 0);
        let _current = self.context.enter()?;
        // SAFETY: the pointers must be writable, and the link alive ← the pointers are to locals,
        // and `self` owns the link.
        let result = unsafe {
            call!(
                self.context.driver(),
                cuLinkComplete(self.link.raw(), &raw mut data, &raw mut size)
            )
        };
        let log = self.link.compilation.log();
        if let Err(source) = result {
            return Err(JitError::error(source, log, None));
        }
        // SAFETY: `size` bytes must be readable and must not change meanwhile ← the driver returned
        // this size, and the bytes stay unchanged until the link ends, at the end of this function.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast_const().cast::<u8>(), size) };
        // SAFETY: the bytes must be a complete cubin ← the linker of the driver has created them
        // just now.
        let cubin = unsafe { Cubin::from_bytes(bytes.to_vec()) };
        // SAFETY: the signatures must be those of the kernels in the cubin ← they come from all
        // inputs of the link.
        let cubin = unsafe { cubin.with_signatures(self.signatures) };
        Ok(Linked { cubin, log })
    }

    /// Returns the log that the compiler and linker have written so far.
    #[must_use]
    pub fn log(&self) -> JitLog {
        self.link.compilation.log()
    }
}

impl<'a> LinkInput<'a> {
    fn raw(self) -> (CUjitInputType, &'a [u8]) {
        match self {
            Self::Ptx(ptx) => (
                CUjitInputType::CU_JIT_INPUT_PTX,
                ptx.as_c_str().to_bytes_with_nul(),
            ),
            Self::Cubin(cubin) => (CUjitInputType::CU_JIT_INPUT_CUBIN, cubin.as_bytes()),
            Self::Fatbin(fatbin) => (CUjitInputType::CU_JIT_INPUT_FATBINARY, fatbin.as_bytes()),
            Self::Object(object) => (CUjitInputType::CU_JIT_INPUT_OBJECT, object.as_bytes()),
            Self::Archive(archive) => (CUjitInputType::CU_JIT_INPUT_LIBRARY, archive.as_bytes()),
        }
    }
}

macro_rules! input_from {
    ($($kind:ident),*) => {
        $(
            impl<'a> From<&'a $kind> for LinkInput<'a> {
                fn from(image: &'a $kind) -> Self {
                    Self::$kind(image)
                }
            }
        )*
    };
}

input_from!(Ptx, Cubin, Fatbin, Object, Archive);

impl fmt::Debug for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linker({:?})", self.link.raw())
    }
}
