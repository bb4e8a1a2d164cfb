//! The driver's linker: several images become one cubin.

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
use crate::module::{Compilation, JitLog, JitOptions, read};
use crate::pending;
use crate::stream::SendPtr;

/// A link under way: images are added, then [`complete`](Self::complete) makes a cubin of them, in
/// which what one declares `extern` is what another defines.
///
/// ```no_run
/// # use cuda_driver::{Context, JitOptions, Linker, Module, Ptx};
/// # fn f(context: &Context, kernels: &Ptx, functions: &Ptx) -> cuda_driver::Result<()> {
/// let mut linker = Linker::new(context, &JitOptions::new())?;
/// linker.add(kernels, "kernels")?.add(functions, "functions")?;
/// let linked = linker.complete()?;
/// let module = Module::load(context, &linked.cubin)?;
/// # Ok(())
/// # }
/// ```
///
/// It takes no LTO-IR of CUDA 12.0 and newer: that is for [`LtoLinker`](crate::LtoLinker).
pub struct Linker {
    /// Of what was added, if all of it tells them.
    signatures: Option<Vec<Signature>>,
    link: Link,
    /// Last: it goes behind the link.
    context: Context,
}

/// What came of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Linked {
    /// Machine code for the device of the context, or for the [target](JitOptions::target).
    pub cubin: Cubin,
    /// What compiler and linker wrote.
    pub log: JitLog,
}

/// What a [`Linker`] takes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LinkInput<'a> {
    /// Compiled first.
    Ptx(&'a Ptx),
    /// Of the architecture that is linked for.
    Cubin(&'a Cubin),
    /// What fits in it is taken.
    Fatbin(&'a Fatbin),
    /// The device code in an object file of the host.
    Object(&'a Object),
    /// The device code in an archive of them.
    Archive(&'a Archive),
}

/// What a file is, for [`Linker::add_file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkFile {
    /// PTX.
    Ptx,
    /// A cubin.
    Cubin,
    /// A fat binary.
    Fatbin,
    /// An object file of the host.
    Object,
    /// An archive of object files.
    Archive,
}

/// The driver's link, and the buffers that it writes to until it is destroyed.
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
        // SAFETY: it must not be used again ← this is its end.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        // SAFETY: as above.
        let compilation = unsafe { ManuallyDrop::take(&mut self.compilation) };
        let driver = handle.driver().clone();
        pending::in_turn(&driver, move || {
            let _ = handle.close();
            drop(compilation);
        });
    }
}

struct RawLink;

impl Destroy for RawLink {
    type Raw = SendPtr<CUlinkState_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: it must be alive and not used after ← the handle owns it, and this is its end.
        unsafe { call!(driver, cuLinkDestroy(raw.0)) }
    }
}

impl Linker {
    /// `cuLinkCreate(options)`—Begins a link, for the device of `context` unless `options` say
    /// otherwise.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for an option that the driver is too old for, or what the call
    /// answers.
    #[doc(alias = "cuLinkCreate")]
    pub fn new(context: &Context, options: &JitOptions) -> Result<Self> {
        let driver = context.driver();
        let mut compilation = Compilation::new(options, driver.version())?;
        let mut raw: CUlinkState = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: options and buffers must be valid as long as the link ← they are dropped behind
        // it ([`Link`]), and do not move when `compilation` does; there are as many values as
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
        // SAFETY: nobody else must destroy it ← it was made just now.
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

    /// `cuLinkAddData(input, name)`—Adds an image; the log calls it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log: PTX that is wrong, machine code of another architecture.
    /// [`Error::NulByte`] if there is one in the name.
    #[doc(alias = "cuLinkAddData")]
    pub fn add<'a>(&mut self, input: impl Into<LinkInput<'a>>, name: &str) -> Result<&mut Self> {
        let input = input.into();
        let c_name = CString::new(name).map_err(|error| Error::NulByte {
            what: "the name of what is linked",
            position: error.nul_position(),
        })?;
        let (kind, bytes) = input.raw();
        let data: *mut c_void = bytes.as_ptr().cast_mut().cast();
        let current = self.context.enter()?;
        // SAFETY: the data must be a whole image of its kind, the name a string ← a `Ptx` ends with
        // NUL, which is counted, and the others are whole by their contracts; the driver copies
        // both and writes to neither.
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

    /// `cuLinkAddData(input)`—Adds the file at `path`, under that name. It is read here, as driver
    /// and program may not agree on what a path is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, [`Error::Image`] if it is nothing of that kind; else
    /// as [`add`](Self::add).
    ///
    /// # Safety
    ///
    /// Unless it is PTX: the file is of that kind, whole and unaltered since a compiler or linker
    /// made it.
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
                // SAFETY: it must be an unaltered fat binary ← the caller says so.
                let fatbin = unsafe { Fatbin::from_bytes(bytes) };
                let fatbin = fatbin.map_err(LoadableError::Fatbin).map_err(image)?;
                self.add(&fatbin, &name)
            }
            LinkFile::Cubin => {
                // SAFETY: it must be a whole cubin ← the caller says so.
                self.add(&unsafe { Cubin::from_bytes(bytes) }, &name)
            }
            LinkFile::Object => {
                // SAFETY: it must be a whole object file ← the caller says so.
                self.add(&unsafe { Object::from_bytes(bytes) }, &name)
            }
            LinkFile::Archive => {
                // SAFETY: it must be a whole archive ← the caller says so.
                self.add(&unsafe { Archive::from_bytes(bytes) }, &name)
            }
        }
    }

    /// `cuLinkComplete()`—Makes the cubin, and ends the link.
    ///
    /// # Errors
    ///
    /// [`Error::Jit`] with the log: a name that nobody defines, or that two define.
    #[doc(alias = "cuLinkComplete")]
    pub fn complete(self) -> Result<Linked> {
        let (mut data, mut size) = (ptr::null_mut(), 0);
        let _current = self.context.enter()?;
        // SAFETY: the pointers must be writable, the link alive ← locals, and `self` owns it.
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
        // SAFETY: so many bytes must be there, and not change meanwhile ← the driver says so, and
        // they stay as they are until the link ends, at the end of this function.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast_const().cast::<u8>(), size) };
        // SAFETY: they must be a whole cubin ← a linker of the driver has made them just now.
        let cubin = unsafe { Cubin::from_bytes(bytes.to_vec()) };
        // SAFETY: they must be those of its kernels ← all that was linked told them.
        let cubin = unsafe { cubin.with_signatures(self.signatures) };
        Ok(Linked { cubin, log })
    }

    /// What compiler and linker have written so far.
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
