//! The NVRTC library, which is found and loaded at run time.
//! [`library_candidates`](cuda_sys::nvrtc::library_candidates) describes where it is searched for.

use std::ffi::c_int;
use std::mem;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cuda_sys::nvrtc::{NvrtcTable, calls, nvrtcResult};
use cuda_sys::{Function, NvrtcLibrary, Version};

use crate::{Arch, Error};

/// A loaded NVRTC library. Clones share it.
///
/// NVRTC needs no GPU and no driver.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    library: Arc<NvrtcLibrary>,
}

impl Nvrtc {
    /// Loads the NVRTC of this system, once per process.
    ///
    /// The environment variable `CUDA_NVRTC_LIBRARY` names the file. Without it, these places are
    /// tried in order: the search path of the dynamic loader, the toolkits, Python's packages, and
    /// `cuda-setup` in the target folder around the program.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] with every place that was tried. A later call tries again.
    pub fn load() -> Result<Self, Error> {
        static SYSTEM: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(nvrtc) = SYSTEM.get() {
            return Ok(nvrtc.clone());
        }
        let nvrtc = Self::from_library(NvrtcLibrary::system()?);
        Ok(SYSTEM.get_or_init(|| nvrtc).clone())
    }

    /// Loads the NVRTC in the file `path`. One process can load several versions.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if the file cannot be loaded, is not NVRTC, or is older than 12.0.
    ///
    /// # Safety
    ///
    /// If the file is a library, running its initializers must be sound. If it exports functions
    /// with the names of NVRTC's functions, it must be NVRTC.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        // SAFETY: the file must be NVRTC ← the caller guarantees it.
        let library = unsafe { NvrtcLibrary::open(path) }?;
        Ok(Self::from_library(Arc::new(library)))
    }

    fn from_library(library: Arc<NvrtcLibrary>) -> Self {
        load_builtins(&library);
        Self { library }
    }

    /// `nvrtcVersion`—Returns the version of CUDA to which this NVRTC belongs.
    #[doc(alias = "nvrtcVersion")]
    #[must_use]
    pub fn version(&self) -> Version {
        self.library.version()
    }

    /// Returns the path of the loaded file, as it was passed to the system's loader.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.library.origin()
    }

    /// `nvrtcGetSupportedArchs`—Returns the virtual architectures that this NVRTC supports, in
    /// ascending order.
    ///
    /// Each also exists as a real architecture ([`Arch::to_real`]). NVRTC accepts architectures
    /// with a suffix (`sm_90a`) but does not list them.
    ///
    /// # Errors
    ///
    /// [`Error::Status`] if NVRTC fails to list them.
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
        // SAFETY: the pointer must be writable ← it points to a local.
        let status = unsafe { count_of(&raw mut count) };
        check(status, calls::nvrtcGetNumSupportedArchs)?;
        let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the array must have room for all numbers ← `numbers` has the length that the call
        // above returned, and the count of a library does not change.
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

    /// Returns the raw library, for functions that this crate does not wrap.
    #[must_use]
    pub fn as_raw(&self) -> &Arc<NvrtcLibrary> {
        &self.library
    }

    pub(crate) fn table(&self) -> &NvrtcTable {
        self.library.table()
    }

    /// Returns the function pointer in `slot`, or an error that names `function` if it is absent.
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

/// Loads the library of built-in functions from the folder of `library`. NVRTC loads it by its bare
/// name and then finds it loaded already. Some packages (those of 13.0) lack the entry that makes
/// the loader search the folder of NVRTC.
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
    // SAFETY: running the initializers must be sound ← the file is the second half of NVRTC, in the
    // folder of the first half, which is loaded and would itself load it.
    if let Ok(builtins) = unsafe { libloading::Library::new(path) } {
        // The library is never closed, like NVRTC itself. NVRTC reports a failure when it needs the
        // library.
        mem::forget(builtins);
    }
}
