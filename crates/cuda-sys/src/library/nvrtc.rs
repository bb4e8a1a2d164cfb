//! The NVRTC library: where it is searched for, and its table of functions.

use std::ffi::{c_int, c_void};
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use libloading::Library;
use once_cell::sync::OnceCell;

use super::loaded::{self, LoadedLibrary};
use super::places::{self, Candidate, Wanted};
use crate::nvrtc::{FUNCTIONS, NvrtcTable, calls, nvrtcResult};
use crate::{Function, LoadError, Version};

const NAME: &str = "NVRTC";

const WANTED: Wanted = Wanted {
    library: NAME,
    variable: "CUDA_NVRTC_LIBRARY",
    hint: "\nRun `pip install nvidia-cuda-nvrtc` in an active virtual environment, install the CUDA \
           toolkit, or set CUDA_NVRTC_LIBRARY to the file.\nThe README describes all ways in its \
           section \"Getting NVRTC and the headers\".",
};

/// The oldest NVRTC that has the functions that the safe layer needs.
const OLDEST: Version = Version::new(12000);

/// The NVRTC library: its table of functions, its version and its origin.
pub type NvrtcLibrary = LoadedLibrary<NvrtcTable>;

impl NvrtcLibrary {
    /// Loads the NVRTC of this system, once per process: the first of [`library_candidates`] that
    /// loads.
    ///
    /// # Errors
    ///
    /// - [`LoadError::Variable`] if `CUDA_NVRTC_LIBRARY` names a file that is not an NVRTC of CUDA
    ///   12.0 or newer.
    /// - [`LoadError::NotFound`] with every place that was tried or skipped.
    /// - [`LoadError::UnsupportedPlatform`] if NVIDIA has no NVRTC for this operating system.
    /// - [`LoadError::NotTheLibrary`] or [`LoadError::TooOld`] if the library is not an NVRTC of
    ///   CUDA 12.0 or newer.
    ///
    /// A later call after a failure tries again.
    pub fn system() -> Result<Arc<Self>, LoadError> {
        static SYSTEM: OnceCell<Arc<NvrtcLibrary>> = OnceCell::new();
        let load = || WANTED.load(implicit_candidates, Self::from_library);
        SYSTEM.get_or_try_init(load).cloned()
    }

    /// Loads the NVRTC in the file `path`.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if the file cannot be loaded, [`LoadError::NotTheLibrary`] if it is
    /// not NVRTC, [`LoadError::TooOld`] if it is older than 12.0.
    ///
    /// # Safety
    ///
    /// The file must be NVRTC: running its initializers must be sound, and its functions must have
    /// the behaviour and signatures of their names.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        unsafe { WANTED.open(path.as_ref(), Self::from_library) }
    }

    fn from_library(library: Library, origin: String) -> Result<Self, LoadError> {
        const {
            assert!(mem::size_of::<NvrtcTable>() == FUNCTIONS.len() * mem::size_of::<*mut c_void>())
        };
        let find = |function: &Function| {
            // SAFETY: the symbol's type must be correct ← it is only used as an address here.
            let found = unsafe { library.get::<*mut c_void>(function.name.as_bytes()) };
            found.map_or(ptr::null_mut(), |symbol| *symbol)
        };
        // SAFETY: table and FUNCTIONS must have been generated together, and `find` must return the
        // function ← they were, and their sizes agree (asserted above); it returns the export of
        // that name, and NVRTC has one revision of each function.
        let table: NvrtcTable = unsafe { loaded::fill(&FUNCTIONS, find) };
        let Some(get_version) = table.nvrtcVersion else {
            return Err(LoadError::NotTheLibrary {
                library: origin,
                missing: calls::nvrtcVersion.name,
                expected: NAME,
            });
        };
        // The library is never closed, even if the version check fails: once its code has run, it
        // may have threads and state.
        mem::forget(library);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers must be writable ← they point to locals.
        let status = unsafe { get_version(&raw mut major, &raw mut minor) };
        let version = match status {
            nvrtcResult::NVRTC_SUCCESS => number(major, minor),
            _ => None,
        };
        let Some(version) = version else {
            return Err(LoadError::VersionUnknown {
                library: origin,
                function: calls::nvrtcVersion,
                code: status.0,
            });
        };
        let version = Version::new(version);
        if version < OLDEST {
            return Err(LoadError::TooOld {
                library: origin,
                found: version,
                oldest: OLDEST,
            });
        }
        Ok(Self::new(table, version, origin))
    }
}

/// Returns the version in CUDA's encoding; `None` if the numbers are not a valid version.
fn number(major: c_int, minor: c_int) -> Option<u32> {
    let minor = u32::try_from(minor).ok().filter(|minor| *minor < 100)?;
    let major = u32::try_from(major).ok().filter(|major| *major < 1000)?;
    Some(1000 * major + 10 * minor)
}

/// Returns the files to try, in search order. If `CUDA_NVRTC_LIBRARY` is set, this is only the file
/// that it names. Otherwise the files are: the names that the system's loader searches for; those
/// in the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places; those in the site-packages of
/// Python and conda environments (`VIRTUAL_ENV`, `CONDA_PREFIX`, that of the first `python3` in
/// `PATH`, `~/.local`, `/usr/local` and `/usr`); and those in `cuda-setup` in the target folder
/// around the program.
///
/// A folder that no CUDA environment variable names is used only if no other user can write to it.
/// The error of [`NvrtcLibrary::system`] lists the folders that were skipped for this reason.
#[must_use]
pub fn library_candidates() -> Vec<PathBuf> {
    match cuda_places::path_variable(WANTED.variable) {
        Some(path) => vec![path],
        None => implicit_candidates()
            .into_iter()
            .filter_map(Candidate::into_path)
            .collect(),
    }
}

fn implicit_candidates() -> Vec<Candidate> {
    let names: &[&str] = if cfg!(target_os = "windows") {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
    } else {
        &["libnvrtc.so.13", "libnvrtc.so.12"]
    };
    places::candidates(
        names,
        &[],
        &["nvidia/cuda_nvrtc/lib", "nvidia/cuda_nvrtc/bin"],
    )
}
