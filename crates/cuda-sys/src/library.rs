//! Loads a library and fills its table.
//!
//! A library, once loaded, stays: its threads and exit handlers may outlive every owner here.

use std::any::Any;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::ops::Deref;
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

pub(crate) mod nvjitlink;
#[cfg(feature = "nvrtc")]
pub(crate) mod nvrtc;
mod places;

const NAME: &str = "the CUDA driver";

const WANTED: Wanted = Wanted {
    library: NAME,
    variable: "CUDA_DRIVER_LIBRARY",
    hint: "\nInstall NVIDIA's driver, or set CUDA_DRIVER_LIBRARY to its libcuda.so.1.",
};

/// Where Windows puts the driver for its Linux.
const WSL_DRIVER: &str = "/usr/lib/wsl/lib/libcuda.so.1";

/// The oldest driver that has what the loader itself needs: `cuGetProcAddress_v2`.
const OLDEST: Version = Version::new(12000);

/// `cuGetProcAddress_v2`: the one function from which every other is found.
pub type GetProcAddress = unsafe extern "C" fn(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: cuuint64_t,
    symbolStatus: *mut CUdriverProcAddressQueryResult,
) -> CUresult;

/// A CUDA driver: its table of functions, its version, and where it came from.
///
/// Dereferences to its [`DriverTable`]. A process can hold several (a real one and software ones).
pub struct DriverLibrary {
    table: DriverTable,
    version: Version,
    origin: String,
    _keep: Box<dyn Any + Send + Sync>,
}

impl DriverLibrary {
    /// Loads the driver of this system, once for the process.
    ///
    /// If the environment variable `CUDA_DRIVER_LIBRARY` is set and not empty, the file that it
    /// names is loaded and nothing else is tried. Otherwise `libcuda.so.1` is searched for by the
    /// system's loader (`nvcuda.dll` on Windows), and then where Windows puts it for its Linux.
    /// `libcuda.so` is never tried: a toolkit's stub may have that name. The variable is ignored in
    /// a program that runs with more rights than the user who started it.
    ///
    /// # Errors
    ///
    /// [`LoadError::Variable`] if the environment variable names a file that is not a driver of
    /// CUDA 12.0 or newer. Otherwise [`LoadError::NotFound`] with every place that was tried,
    /// [`LoadError::UnsupportedPlatform`] where NVIDIA has no driver, [`LoadError::NotTheLibrary`]
    /// or [`LoadError::TooOld`]. A failure is not remembered: the next call tries again.
    pub fn system() -> Result<Arc<Self>, LoadError> {
        static SYSTEM: OnceCell<Arc<DriverLibrary>> = OnceCell::new();
        SYSTEM.get_or_try_init(Self::load_system).cloned()
    }

    fn load_system() -> Result<Arc<Self>, LoadError> {
        let candidates = || {
            if cfg!(target_os = "windows") {
                Ok(vec![Candidate::Load("nvcuda.dll".into())])
            } else if cfg!(target_os = "linux") {
                Ok(vec![
                    Candidate::Load("libcuda.so.1".into()),
                    Candidate::at(Path::new(WSL_DRIVER)),
                ])
            } else {
                Err(LoadError::UnsupportedPlatform { library: NAME })
            }
        };
        WANTED.load(candidates, Self::from_library).map(Arc::new)
    }

    /// Loads the driver in the file `path`.
    ///
    /// # Errors
    ///
    /// As [`system`](Self::system).
    ///
    /// # Safety
    ///
    /// The file is a CUDA driver: its initialisers are sound to run, and its functions are what
    /// their names say.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let name = path.as_ref().display().to_string();
        // SAFETY: the initialisers must be sound to run ← the caller says so.
        let library =
            unsafe { places::open(path.as_ref()) }.map_err(|error| LoadError::NotFound {
                library: NAME,
                tried: vec![attempt(name.clone(), &error)],
                hint: "",
            })?;
        Self::from_library(library, name)
    }

    fn from_library(library: Library, origin: String) -> Result<Self, LoadError> {
        let symbol = |name: &'static str| {
            // SAFETY: the symbol's type must be right ← it is only tested for being there, or is
            // given the type that cuda.h declares for it below.
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
        // Never closed, whatever it answers: once code of it ran, the driver's own threads may run
        // in it.
        mem::forget(library);
        // SAFETY: the pointer must be a function of this type ← cuda.h declares it so since CUDA
        // 2.2.
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
        // SAFETY: the pointer must be a function of this type ← cuda.h declares it so since CUDA
        // 12.0, and this driver is no older.
        let root: GetProcAddress = unsafe { mem::transmute(root?) };
        // SAFETY: the functions must be what their names say ← the library is a CUDA driver.
        let table = unsafe { resolve(root, version) };
        Ok(Self {
            table,
            version,
            origin,
            _keep: Box::new(()),
        })
    }

    /// Takes a driver that is part of this program: its `cuGetProcAddress_v2`, a name to show, and
    /// what must live as long as it does.
    ///
    /// # Errors
    ///
    /// [`LoadError::VersionUnknown`] if `cuDriverGetVersion` fails, [`LoadError::NotTheLibrary`] if
    /// it is missing.
    ///
    /// # Safety
    ///
    /// `root` answers each name and version with a function of that name's C signature, or null,
    /// and what it answers stays callable until `keep` is dropped.
    pub unsafe fn from_proc_address(
        root: GetProcAddress,
        name: impl Into<String>,
        keep: impl Any + Send + Sync,
    ) -> Result<Self, LoadError> {
        let origin = name.into();
        // SAFETY: `root` must be a driver's ← the caller says so.
        let found = unsafe { lookup(root, calls::cuDriverGetVersion) };
        if found.is_null() {
            return Err(LoadError::NotTheLibrary {
                library: origin,
                missing: calls::cuDriverGetVersion.name,
                expected: "a CUDA driver",
            });
        }
        // SAFETY: the pointer must be a function of this type ← the caller says so, and it is not
        // null.
        let get_version: unsafe extern "C" fn(*mut c_int) -> CUresult =
            unsafe { mem::transmute(found) };
        let version = driver_version(get_version, &origin)?;
        // SAFETY: the functions must be what their names say ← the caller says so.
        let table = unsafe { resolve(root, version) };
        Ok(Self {
            table,
            version,
            origin,
            _keep: Box::new(keep),
        })
    }

    /// The functions.
    #[must_use]
    pub fn table(&self) -> &DriverTable {
        &self.table
    }

    /// The newest CUDA version that this driver supports.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// What was loaded: a file, or the name of a driver within this program.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Deref for DriverLibrary {
    type Target = DriverTable;

    fn deref(&self) -> &DriverTable {
        &self.table
    }
}

impl fmt::Debug for DriverLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverLibrary")
            .field("origin", &self.origin)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn driver_version(
    get: unsafe extern "C" fn(*mut c_int) -> CUresult,
    origin: &str,
) -> Result<Version, LoadError> {
    let mut version = 0;
    // SAFETY: the pointer must be writable ← `version` is a local. The call needs no cuInit.
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
/// Each is asked for at exactly its own version. There is no fallback to the library's exports: it
/// would find what an emulated older driver hides, and a slot that holds another revision's
/// function is undefined behaviour.
///
/// # Safety
///
/// `root` is `cuGetProcAddress_v2` of a driver.
unsafe fn resolve(root: GetProcAddress, version: Version) -> DriverTable {
    type Slot = Option<unsafe extern "C" fn()>;
    const { assert!(mem::size_of::<DriverTable>() == FUNCTIONS.len() * mem::size_of::<Slot>()) };
    let mut table = DriverTable::default();
    let slots = ptr::from_mut(&mut table).cast::<Slot>();
    for (index, function) in FUNCTIONS.iter().enumerate() {
        if function.since() > version {
            continue;
        }
        // SAFETY: `root` must be a driver's ← the caller says so.
        let found = unsafe { lookup(root, function) };
        // SAFETY: null is `None` and any other pointer is the function ← the layout of `Option` of
        // a function pointer, and the driver answers by name and version.
        let found = unsafe { mem::transmute::<*mut c_void, Slot>(found) };
        // SAFETY: `index` must be within the table, and the slot of this function ← the table is
        // `repr(C)`, has one pointer for each row of FUNCTIONS (asserted above), in that order
        // (generated together).
        let slot = unsafe { slots.add(index) };
        // SAFETY: the place must be writable ← it is within `table`, which is a local.
        unsafe { slot.write(found) };
    }
    table
}

/// # Safety
///
/// `root` is `cuGetProcAddress_v2` of a driver.
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
    // SAFETY: the pointers must be valid ← they are to locals; `name` ends with NUL.
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

/// The system loader's own words, which libloading keeps as a source, without the file that they
/// begin with.
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
