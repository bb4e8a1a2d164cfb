//! Loads a library and fills its table of functions.
//!
//! A loaded library is never unloaded, because its threads and exit handlers may outlive every
//! owner.

use std::any::Any;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libloading::Library;
use once_cell::sync::OnceCell;

use crate::library::places::{Candidate, Wanted};
use crate::table::{FUNCTIONS, calls};
use crate::{
    Attempt, CUdriverProcAddress_flags, CUdriverProcAddressQueryResult, CUresult, DriverTable,
    Function, LoadError, Version, cuuint64_t,
};

pub(crate) mod cupti;
mod launch_use;
mod loaded;
mod machine_code;
pub(crate) mod nvjitlink;
#[cfg(feature = "nvrtc")]
pub(crate) mod nvrtc;
pub(crate) mod nvtx;
mod places;

pub use launch_use::LaunchUse;
pub use loaded::LoadedLibrary;

const WANTED: Wanted = Wanted {
    library: "the CUDA driver",
    variable: "CUDA_DRIVER_LIBRARY",
    hint: "\nInstall NVIDIA's driver, or set CUDA_DRIVER_LIBRARY to its libcuda.so.1. Without a GPU, use \
           the software device: `cuda_sim::gpu_or_software` of the crate cuda-sim.",
};

/// The path of the driver in the Windows Subsystem for Linux.
const WSL_DRIVER: &str = "/usr/lib/wsl/lib/libcuda.so.1";

/// The oldest driver that has the function which the loader needs: `cuGetProcAddress_v2`.
const OLDEST: Version = Version::new(12000);

/// The type of `cuGetProcAddress_v2`, through which all other functions are found.
pub type GetProcAddress = unsafe extern "C" fn(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: cuuint64_t,
    symbolStatus: *mut CUdriverProcAddressQueryResult,
) -> CUresult;

/// A CUDA driver: its table of functions, its version and its origin.
///
/// It dereferences to its [`DriverTable`]. A process can hold several drivers, such as a real one
/// and software ones.
pub type DriverLibrary = LoadedLibrary<DriverTable>;

impl DriverLibrary {
    /// Loads the driver of this system, once per process.
    ///
    /// If the environment variable `CUDA_DRIVER_LIBRARY` is set and not empty, the file that it
    /// names is loaded and no other place is tried. Otherwise the system's loader searches for
    /// `libcuda.so.1` (`nvcuda.dll` on Windows), and then the path of the Windows Subsystem for
    /// Linux is tried. `libcuda.so` is never tried, because a toolkit's stub may have that name.
    /// The variable is ignored in a program that runs with more rights than the user who started
    /// it.
    ///
    /// # Errors
    ///
    /// - [`LoadError::Variable`] if the environment variable names a file that is not a driver of
    ///   CUDA 12.0 or newer.
    /// - [`LoadError::NotFound`] with every place that was tried.
    /// - [`LoadError::UnsupportedPlatform`] if NVIDIA has no driver for this operating system.
    /// - [`LoadError::NotTheLibrary`] or [`LoadError::TooOld`] if the library is not a driver of
    ///   CUDA 12.0 or newer.
    ///
    /// A later call after a failure tries again.
    pub fn system() -> Result<Arc<Self>, LoadError> {
        static SYSTEM: OnceCell<Arc<DriverLibrary>> = OnceCell::new();
        SYSTEM.get_or_try_init(Self::load_system).cloned()
    }

    fn load_system() -> Result<Arc<Self>, LoadError> {
        let candidates = || {
            if cfg!(target_os = "windows") {
                return vec![Candidate::Load("nvcuda.dll".into())];
            }
            vec![
                Candidate::Load("libcuda.so.1".into()),
                Candidate::at(Path::new(WSL_DRIVER)),
            ]
        };
        WANTED.load(candidates, Self::from_library)
    }

    /// Loads the driver in the file `path`.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if the file cannot be loaded, [`LoadError::NotTheLibrary`] if it is
    /// not a CUDA driver, [`LoadError::VersionUnknown`] if it does not report its version, and
    /// [`LoadError::TooOld`] if it is older than CUDA 12.0.
    ///
    /// # Safety
    ///
    /// The file must be a CUDA driver: running its initializers must be sound, and its functions
    /// must have the behaviour and signatures of their names.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        unsafe { WANTED.open(path.as_ref(), Self::from_library) }
    }

    fn from_library(library: Library, origin: String) -> Result<Self, LoadError> {
        let symbol = |name: &'static str| {
            // SAFETY: the symbol's type must be correct ← the pointer is only tested for null, or
            // converted below to the type that cuda.h declares for it.
            unsafe { library.get::<*mut c_void>(name.as_bytes()) }
                .map(|symbol| *symbol)
                .map_err(|_| LoadError::NotTheLibrary {
                    library: origin.clone(),
                    missing: name,
                    expected: "a CUDA driver",
                })
        };
        symbol("cuInit")?;
        let get_version = symbol("cuDriverGetVersion")?;
        let root = symbol("cuGetProcAddress_v2");
        // The library is never closed, even if the version check fails: once its code has run, its
        // own threads may run in it.
        mem::forget(library);
        // SAFETY: the pointer must be a function of this type ← cuda.h has declared it so since
        // CUDA 2.2.
        let get_version: unsafe extern "C" fn(*mut c_int) -> CUresult =
            unsafe { mem::transmute(get_version) };
        let version = driver_version(get_version, &origin)?;
        if version < OLDEST {
            return Err(LoadError::TooOld {
                library: origin,
                found: version,
                oldest: OLDEST,
            });
        }
        // SAFETY: the pointer must be a function of this type ← cuda.h has declared it so since
        // CUDA 12.0, and this driver is not older.
        let root: GetProcAddress = unsafe { mem::transmute(root?) };
        // SAFETY: `root` must be the `cuGetProcAddress_v2` of a driver ← the library is a CUDA
        // driver.
        let table = unsafe { resolve(root, version) };
        Ok(Self::new(table, version, origin))
    }

    /// Creates a driver that is part of this program from its `cuGetProcAddress_v2`, a name to
    /// display, and a value that is kept alive as long as the driver.
    ///
    /// # Errors
    ///
    /// [`LoadError::VersionUnknown`] if `cuDriverGetVersion` fails, [`LoadError::NotTheLibrary`] if
    /// it is missing.
    ///
    /// # Safety
    ///
    /// For each name and version, `root` must return null or a function with the C signature of
    /// that name, and the function must stay callable until `keep` is dropped.
    pub unsafe fn from_proc_address(
        root: GetProcAddress,
        name: impl Into<String>,
        keep: impl Any + Send + Sync,
    ) -> Result<Self, LoadError> {
        let origin = name.into();
        // SAFETY: `root` must be a driver's ← the caller guarantees it.
        let found = unsafe { lookup(root, calls::cuDriverGetVersion) };
        if found.is_null() {
            return Err(LoadError::NotTheLibrary {
                library: origin,
                missing: calls::cuDriverGetVersion.name,
                expected: "a CUDA driver",
            });
        }
        // SAFETY: the pointer must be a function of this type ← the caller guarantees it, and the
        // pointer is not null.
        let get_version: unsafe extern "C" fn(*mut c_int) -> CUresult =
            unsafe { mem::transmute(found) };
        let version = driver_version(get_version, &origin)?;
        // SAFETY: `root` must be a driver's ← the caller guarantees it.
        let table = unsafe { resolve(root, version) };
        Ok(Self {
            _keep: Some(Box::new(keep)),
            ..Self::new(table, version, origin)
        })
    }
}

fn driver_version(
    get: unsafe extern "C" fn(*mut c_int) -> CUresult,
    origin: &str,
) -> Result<Version, LoadError> {
    let mut version = 0;
    // SAFETY: the pointer must be writable ← `version` is a local. The call does not require
    // `cuInit`.
    let status = unsafe { get(&raw mut version) };
    match u32::try_from(version) {
        Ok(number) if status == CUresult::CUDA_SUCCESS => Ok(Version::new(number)),
        _ => Err(LoadError::VersionUnknown {
            library: origin.to_owned(),
            function: calls::cuDriverGetVersion,
            code: status.0,
        }),
    }
}

/// Fills the table with every revision that a driver of `version` has.
///
/// Each revision is requested with exactly its own version. The library's
/// exports are not searched: they contain functions that an emulated older driver hides, and a slot
/// that holds another revision's function is undefined behaviour.
///
/// # Safety
///
/// `root` must be the `cuGetProcAddress_v2` of a driver.
unsafe fn resolve(root: GetProcAddress, version: Version) -> DriverTable {
    const { assert!(mem::size_of::<DriverTable>() == FUNCTIONS.len() * mem::size_of::<*mut c_void>()) };
    let find = |function: &Function| {
        if function.since() > version {
            return ptr::null_mut();
        }
        // SAFETY: `root` must be a driver's ← the caller guarantees it.
        unsafe { lookup(root, function) }
    };
    // SAFETY: table and FUNCTIONS must have been generated together, and `find` must return the
    // function ← they were, and their sizes agree (asserted above); the driver looks functions up
    // by name and version.
    unsafe { loaded::fill(&FUNCTIONS, find) }
}

/// Looks up one function with `root`. Returns null if the driver does not have it.
///
/// # Safety
///
/// `root` must be the `cuGetProcAddress_v2` of a driver.
unsafe fn lookup(root: GetProcAddress, function: &Function) -> *mut c_void {
    let flags = if function.per_thread {
        CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    } else {
        CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_LEGACY_STREAM
    };
    let (Ok(name), Ok(version)) = (CString::new(function.base), c_int::try_from(function.since))
    else {
        return ptr::null_mut();
    };
    let mut found = ptr::null_mut();
    let mut query = CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // SAFETY: the pointers must be valid ← they point to locals, and `name` is NUL-terminated.
    let status = unsafe {
        root(
            name.as_ptr(),
            &raw mut found,
            version,
            u64::from(flags.0),
            &raw mut query,
        )
    };
    if status == CUresult::CUDA_SUCCESS {
        found
    } else {
        ptr::null_mut()
    }
}

/// Converts an error to an attempt with the system loader's own message, which libloading keeps as
/// the source. The file name at the start of the message is removed.
fn attempt(library: String, error: &libloading::Error) -> Attempt {
    let words = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let reason = words
        .strip_prefix(&library)
        .and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(&words)
        .to_owned();
    Attempt { library, reason }
}
