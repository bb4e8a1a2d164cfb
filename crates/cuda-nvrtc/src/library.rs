//! The NVRTC library: found and loaded at run time. Where it is looked for is told by
//! [`library_candidates`](cuda_sys::nvrtc::library_candidates).

use std::ffi::c_int;
use std::mem;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cuda_sys::nvrtc::{NvrtcTable, calls, nvrtcResult};
use cuda_sys::{Function, NvrtcLibrary, Version};

use crate::{Arch, Error};

/// A loaded NVRTC. Clones share it.
///
/// It needs no GPU and no driver.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    library: Arc<NvrtcLibrary>,
}

impl Nvrtc {
    /// Loads the NVRTC of this system, once for the process.
    ///
    /// The environment variable `CUDA_NVRTC_LIBRARY` names the file; without it the system loader's
    /// path, the toolkits, Python's packages and what `cargo xtask setup` fetched are tried in this
    /// order.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] that lists every place that was tried. A failure is not remembered.
    pub fn load() -> Result<Self, Error> {
        static SYSTEM: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(nvrtc) = SYSTEM.get() {
            return Ok(nvrtc.clone());
        }
        let nvrtc = Self::from_library(NvrtcLibrary::system()?);
        Ok(SYSTEM.get_or_init(|| nvrtc).clone())
    }

    /// Loads the NVRTC in the file `path`. Several versions can live in one process.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if it cannot be loaded, is something else, or is older than 12.0.
    ///
    /// # Safety
    ///
    /// The file, if it is a library at all, has initialisers that are sound to run, and if it
    /// exports functions of NVRTC's names, then it is NVRTC.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        // SAFETY: the file must be NVRTC ← the caller says so.
        let library = unsafe { NvrtcLibrary::open(path) }?;
        Ok(Self::from_library(Arc::new(library)))
    }

    fn from_library(library: Arc<NvrtcLibrary>) -> Self {
        load_builtins(&library);
        Self { library }
    }

    /// `nvrtcVersion`—The version of CUDA that this NVRTC belongs to.
    #[doc(alias = "nvrtcVersion")]
    #[must_use]
    pub fn version(&self) -> Version {
        self.library.version()
    }

    /// The file that was loaded, as it was given to the system's loader.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.library.origin()
    }

    /// `nvrtcGetSupportedArchs`—The virtual architectures that this NVRTC compiles for, in
    /// ascending order.
    ///
    /// Each also exists as a real one ([`Arch::to_real`]). Those with a suffix (`sm_90a`) are
    /// accepted, but NVRTC does not list them.
    ///
    /// # Errors
    ///
    /// [`Error::Status`] if NVRTC does not answer.
    #[doc(alias = "nvrtcGetSupportedArchs")]
    #[doc(alias = "nvrtcGetNumSupportedArchs")]
    pub fn supported_archs(&self) -> Result<Vec<Arch>, Error> {
        let count_of = self.function(
            self.table().nvrtcGetNumSupportedArchs,
            calls::nvrtcGetNumSupportedArchs,
        )?;
        let list = self.function(
            self.table().nvrtcGetSupportedArchs,
            calls::nvrtcGetSupportedArchs,
        )?;
        let mut count: c_int = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        let status = unsafe { count_of(&raw mut count) };
        check(status, calls::nvrtcGetNumSupportedArchs)?;
        let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there must be room for as many numbers as the call above said ← `numbers` has
        // that length, and the count of a library does not change.
        let status = unsafe { list(numbers.as_mut_ptr()) };
        check(status, calls::nvrtcGetSupportedArchs)?;
        let mut archs: Vec<Arch> = numbers
            .into_iter()
            .filter_map(|number| u32::try_from(number).ok())
            .map(|number| Arch::compute(number / 10, number % 10))
            .collect();
        archs.sort_unstable();
        Ok(archs)
    }

    /// The raw library, for what this crate does not wrap.
    #[must_use]
    pub fn as_raw(&self) -> &Arc<NvrtcLibrary> {
        &self.library
    }

    pub(crate) fn table(&self) -> &NvrtcTable {
        self.library.table()
    }

    /// The function in `slot`, which is the one that `function` describes.
    pub(crate) fn function<F>(
        &self,
        slot: Option<F>,
        function: &'static Function,
    ) -> Result<F, Error> {
        slot.ok_or(Error::MissingFunction {
            function,
            found: self.version(),
        })
    }
}

pub(crate) fn check(status: nvrtcResult, function: &'static Function) -> Result<(), Error> {
    match status {
        nvrtcResult::NVRTC_SUCCESS => Ok(()),
        status => Err(Error::Status { function, status }),
    }
}

/// Loads the library of built-in functions that lies beside `library`, so that NVRTC, which asks
/// for it by its bare name, finds it loaded: some packages (13.0's) lack the entry that makes the
/// loader look beside NVRTC.
fn load_builtins(library: &NvrtcLibrary) {
    let version = library.version();
    let name = format!("libnvrtc-builtins.so.{version}");
    let Some(dir) = Path::new(library.origin()).parent() else {
        return;
    };
    let path = dir.join(name);
    if !cfg!(target_os = "linux") || dir.as_os_str().is_empty() || !path.is_file() {
        return;
    }
    // SAFETY: the initialisers must be sound to run ← it is the second half of NVRTC, in the folder
    // of the first, which is loaded and would load it itself.
    if let Ok(builtins) = unsafe { libloading::Library::new(path) } {
        // Never closed, as NVRTC is not. A failure is NVRTC's to report, when it needs the library.
        mem::forget(builtins);
    }
}
