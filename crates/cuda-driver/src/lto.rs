//! Linking of LTO-IR, through nvJitLink: the driver's own linker takes none that CUDA 12.0 and
//! later make.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use cuda_sys::image::{Cubin, LtoIr, Ptx};
use cuda_sys::log::Log;
use cuda_sys::nvjitlink::{
    NvJitLinkLibrary, NvJitLinkTable, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult,
};

use crate::device::ComputeCapability;
use crate::error::{Error, Result};
use crate::linker::Linked;
use crate::module::JitLog;

/// A link of LTO-IR under way: inputs are optimised together, as if they were one file. It needs no
/// device.
///
/// ```no_run
/// # use cuda_driver::{ComputeCapability, LtoLinker};
/// # fn f(kernels: &cuda_sys::image::LtoIr, functions: &cuda_sys::image::LtoIr) -> cuda_driver::Result<()> {
/// let library = cuda_sys::nvjitlink::NvJitLinkLibrary::system(13)?;
/// let hopper = ComputeCapability { major: 9, minor: 0 };
/// let mut linker = LtoLinker::new(&library, hopper, &["-O3"])?;
/// linker.add_lto_ir(kernels, "kernels")?;
/// linker.add_lto_ir(functions, "functions")?;
/// let cubin = linker.complete()?.cubin;
/// # Ok(())
/// # }
/// ```
///
/// The library is of the major version of the compiler that made the LTO-IR, and not older than it.
pub struct LtoLinker {
    handle: nvJitLinkHandle,
    library: Arc<NvJitLinkLibrary>,
    /// It stays on its thread: NVIDIA's manual does not say that a link may move.
    thread: PhantomData<*const ()>,
}

/// A call of nvJitLink that failed, with what it wrote.
#[derive(Clone, PartialEq, Eq)]
pub struct LtoError {
    status: nvJitLinkResult,
    call: &'static str,
    log: JitLog,
}

impl LtoError {
    /// The status.
    #[must_use]
    pub fn status(&self) -> nvJitLinkResult {
        self.status
    }

    /// The C function that answered it.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// What the linker wrote.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        &self.log
    }
}

impl fmt::Display for LtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.status)?;
        for line in self.log.to_string().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LtoError {}

impl LtoLinker {
    /// `nvJitLinkCreate(-lto, -arch, options)`—Begins a link for an architecture.
    ///
    /// # Errors
    ///
    /// [`Error::Lto`] for an option that it does not know, or an architecture; [`Error::NulByte`]
    /// if there is one in an option.
    #[doc(alias = "nvJitLinkCreate")]
    pub fn new(
        library: &Arc<NvJitLinkLibrary>,
        target: ComputeCapability,
        options: &[&str],
    ) -> Result<Self> {
        let ComputeCapability { major, minor } = target;
        let arch = format!("-arch=sm_{major}{minor}");
        let options = ["-lto", &arch]
            .into_iter()
            .chain(options.iter().copied())
            .map(|option| c_string(option, "an option of the linker"))
            .collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = u32::try_from(pointers.len()).map_err(|_| Error::Unsupported {
            what: "such a number of options",
        })?;
        let mut linker = Self {
            handle: ptr::null_mut(),
            library: Arc::clone(library),
            thread: PhantomData,
        };
        let create = linker.table().create;
        // SAFETY: there must be as many strings as told, the place of the handle writable ← they
        // are locals, as it is.
        let status = unsafe { create(&raw mut linker.handle, count, pointers.as_ptr()) };
        linker.check(status, "nvJitLinkCreate")?;
        Ok(linker)
    }

    /// `nvJitLinkAddData(LTOIR, input, name)`—Adds LTO-IR; the log calls it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Lto`], for instance if it was made by a compiler newer than the linker;
    /// [`Error::NulByte`] if there is one in the name.
    #[doc(alias = "nvJitLinkAddData")]
    pub fn add_lto_ir(&mut self, input: &LtoIr, name: &str) -> Result<()> {
        self.add(
            nvJitLinkInputType::NVJITLINK_INPUT_LTOIR,
            input.as_bytes(),
            name,
        )
    }

    /// `nvJitLinkAddData(PTX, input, name)`—Adds PTX, which is compiled and not optimised with the
    /// rest.
    ///
    /// # Errors
    ///
    /// As [`add_lto_ir`](Self::add_lto_ir).
    #[doc(alias = "nvJitLinkAddData")]
    pub fn add_ptx(&mut self, input: &Ptx, name: &str) -> Result<()> {
        let text = input.as_c_str().to_bytes_with_nul();
        self.add(nvJitLinkInputType::NVJITLINK_INPUT_PTX, text, name)
    }

    /// `nvJitLinkAddData(CUBIN, input, name)`—Adds machine code of the same architecture.
    ///
    /// # Errors
    ///
    /// As [`add_lto_ir`](Self::add_lto_ir).
    #[doc(alias = "nvJitLinkAddData")]
    pub fn add_cubin(&mut self, input: &Cubin, name: &str) -> Result<()> {
        self.add(
            nvJitLinkInputType::NVJITLINK_INPUT_CUBIN,
            input.as_bytes(),
            name,
        )
    }

    fn add(&mut self, kind: nvJitLinkInputType, bytes: &[u8], name: &str) -> Result<()> {
        let name = c_string(name, "the name of what is linked")?;
        let (add, data) = (self.table().add_data, bytes.as_ptr().cast::<c_void>());
        // SAFETY: the data must be whole and of its kind, the name a string, the handle alive ← the
        // images are by their contracts; `self` owns the handle.
        let status = unsafe { add(self.handle, kind, data, bytes.len(), name.as_ptr()) };
        self.check(status, "nvJitLinkAddData")
    }

    /// `nvJitLinkComplete()`—Optimises, links, and gives the machine code.
    ///
    /// # Errors
    ///
    /// [`Error::Lto`] with the log: a name that nobody defines, or that two define.
    #[doc(alias = "nvJitLinkComplete")]
    #[doc(alias = "nvJitLinkGetLinkedCubin")]
    pub fn complete(self) -> Result<Linked> {
        let table = self.table();
        // SAFETY: the handle must be alive ← `self` owns it.
        let status = unsafe { (table.complete)(self.handle) };
        self.check(status, "nvJitLinkComplete")?;
        let mut size = 0;
        // SAFETY: as above, and the pointer must be writable ← it is to a local.
        let status = unsafe { (table.get_linked_cubin_size)(self.handle, &raw mut size) };
        self.check(status, "nvJitLinkGetLinkedCubinSize")?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: there must be room for the cubin ← it was asked how large it is.
        let status = unsafe { (table.get_linked_cubin)(self.handle, bytes.as_mut_ptr().cast()) };
        self.check(status, "nvJitLinkGetLinkedCubin")?;
        // SAFETY: they must be a whole cubin ← NVIDIA's linker has made them just now.
        let cubin = unsafe { Cubin::from_bytes(bytes) };
        Ok(Linked {
            cubin,
            log: self.log(),
        })
    }

    /// What the linker has written so far.
    #[must_use]
    pub fn log(&self) -> JitLog {
        let table = self.table();
        let read = |size: LogSize, read: LogText| {
            let mut bytes = 0;
            // SAFETY: the handle must be alive, the pointer writable ← `self` owns it; a local.
            let status = unsafe { size(self.handle, &raw mut bytes) };
            if status != nvJitLinkResult::NVJITLINK_SUCCESS || bytes == 0 {
                return Log::default();
            }
            let mut text = vec![0_u8; bytes];
            // SAFETY: there must be room for the text ← it was asked how long it is.
            let status = unsafe { read(self.handle, text.as_mut_ptr().cast()) };
            match status {
                nvJitLinkResult::NVJITLINK_SUCCESS => Log::new(&text),
                _ => Log::default(),
            }
        };
        if self.handle.is_null() {
            return JitLog::default();
        }
        JitLog::of(
            read(table.get_info_log_size, table.get_info_log),
            read(table.get_error_log_size, table.get_error_log),
        )
    }

    fn table(&self) -> &NvJitLinkTable {
        self.library.table()
    }

    fn check(&self, status: nvJitLinkResult, call: &'static str) -> Result<()> {
        if status == nvJitLinkResult::NVJITLINK_SUCCESS {
            return Ok(());
        }
        Err(Error::Lto(Box::new(LtoError {
            status,
            call,
            log: self.log(),
        })))
    }
}

type LogSize = unsafe extern "C" fn(nvJitLinkHandle, *mut usize) -> nvJitLinkResult;
type LogText = unsafe extern "C" fn(nvJitLinkHandle, *mut c_char) -> nvJitLinkResult;

fn c_string(text: &str, what: &'static str) -> Result<CString> {
    CString::new(text).map_err(|error| Error::NulByte {
        what,
        position: error.nul_position(),
    })
}

impl Drop for LtoLinker {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let destroy = self.table().destroy;
            // SAFETY: the handle must be alive and not used after ← it is owned, and this is its
            // end.
            let _ = unsafe { destroy(&raw mut self.handle) };
        }
    }
}

impl fmt::Debug for LtoLinker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LtoLinker({:?}, {:?})", self.handle, self.library)
    }
}
