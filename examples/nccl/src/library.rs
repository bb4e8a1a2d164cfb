//! NCCL, loaded at run time: the functions that the program uses, and the types that they take.
//!
//! The declarations are those of `nccl.h`. There are bindings for Rust in the crate `cudarc`, but
//! they take neither the path of the library nor the version of its header at run time.

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::path::PathBuf;

use libloading::Library;

use crate::Result;

/// The variable with the path of the library.
const VARIABLE: &str = "NCCL_LIBRARY";

/// The name under which the toolkit and the Python package `nvidia-nccl-cu13` install the library.
const NAME: &str = "libnccl.so.2";

/// The oldest supported version, the first one with communicators that do not block: 2.18.
const OLDEST: c_int = 21_800;

/// The status of a call that succeeded.
pub(crate) const SUCCESS: c_int = 0;
/// The status of a call that has not ended yet.
pub(crate) const IN_PROGRESS: c_int = 7;

/// The handle of a communicator.
pub type RawCommunicator = *mut c_void;

/// The id of a communicator: all ranks get the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// The settings of a communicator, as NCCL 2.18 declares them. Later versions, which have more
/// settings, accept it: it contains its size and its version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: c_int,
    /// 0 if calls return before they have ended.
    pub blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

impl Config {
    /// Returns the settings of a communicator whose calls do not block.
    pub(crate) fn non_blocking() -> Self {
        let default = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: OLDEST,
            blocking: 0,
            cga_cluster_size: default,
            min_ctas: default,
            max_ctas: default,
            net_name: std::ptr::null(),
            split_share: default,
        }
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal: fn($($ty:ty),*) -> $result:ty;)*) => {
        /// The functions of NCCL that the program uses.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "each field has the name of the function in `nccl.h`")]
        pub struct Functions {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($ty),*) -> $result,)*
        }

        impl Functions {
            /// Finds the functions. The error is the name of one that the library lacks.
            ///
            /// # Safety
            ///
            /// The library must be NCCL and must stay loaded.
            unsafe fn load(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the type must be that of the function ← the library is NCCL,
                        // and the signature is that of `nccl.h`.
                        let found = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                        *found.map_err(|_| $name)?
                    },)*
                })
            }
        }
    };
}

functions! {
    get_version = "ncclGetVersion": fn(*mut c_int) -> c_int;
    get_unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
    get_error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
    get_last_error = "ncclGetLastError": fn(RawCommunicator) -> *const c_char;
    comm_init_rank_config = "ncclCommInitRankConfig":
        fn(*mut RawCommunicator, c_int, UniqueId, c_int, *const Config) -> c_int;
    comm_get_async_error = "ncclCommGetAsyncError": fn(RawCommunicator, *mut c_int) -> c_int;
    comm_finalize = "ncclCommFinalize": fn(RawCommunicator) -> c_int;
    comm_destroy = "ncclCommDestroy": fn(RawCommunicator) -> c_int;
    comm_abort = "ncclCommAbort": fn(RawCommunicator) -> c_int;
    /// The source, the destination, the number of elements, their type, the operation, the
    /// communicator and the stream.
    all_reduce = "ncclAllReduce": fn(
        *const c_void, *mut c_void, usize, c_int, c_int, RawCommunicator, *mut c_void
    ) -> c_int;
}

/// NCCL.
#[derive(Clone, Copy)]
pub struct Nccl {
    pub(crate) functions: Functions,
    version: c_int,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nccl").field(&self.version()).finish()
    }
}

impl Nccl {
    /// Loads the library: the file that the variable `NCCL_LIBRARY` names or, without it, the one
    /// that the system's loader finds, that of the active virtual environment of Python
    /// (`VIRTUAL_ENV` or `CONDA_PREFIX`), or that of the toolkit (`CUDA_PATH`).
    ///
    /// # Errors
    ///
    /// Fails with the places that were tried, or if the library is too old.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        if let Some(path) = named {
            // SAFETY: the file must be NCCL ← the user says so.
            return unsafe { Self::open(path) };
        }
        let mut tried = Vec::new();
        for place in places() {
            let shown = place.to_string_lossy().into_owned();
            // SAFETY: the file must be NCCL ← it has its name and is in a place for libraries.
            match unsafe { Library::new(&place) } {
                // SAFETY: as above.
                Ok(library) => return unsafe { Self::from_library(library, &shown) },
                Err(_) => tried.push(shown),
            }
        }
        Err(format!(
            "NCCL was not found in {}; install the Python package nvidia-nccl-cu13, or set \
             {VARIABLE} to the path of {NAME}",
            tried.join(", ")
        )
        .into())
    }

    /// Loads the library in the file `path`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be loaded, lacks a function, or is too old.
    ///
    /// # Safety
    ///
    /// The file must be NCCL, if it has functions of NCCL's names.
    pub unsafe fn open(path: impl Into<OsString>) -> Result<Self> {
        let path = path.into();
        let shown = path.to_string_lossy();
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(|error| format!("{shown} cannot be loaded: {error}"))?;
        // SAFETY: the library must be NCCL ← the caller guarantees it.
        unsafe { Self::from_library(library, &shown) }
    }

    /// # Safety
    ///
    /// The library must be NCCL, if it has functions of NCCL's names.
    unsafe fn from_library(library: Library, name: &str) -> Result<Self> {
        // SAFETY: the library must stay loaded ← it is never closed; see below.
        let functions = unsafe { Functions::load(&library) };
        // The library may have started threads.
        mem::forget(library);
        let functions = functions
            .map_err(|missing| format!("{name} is not NCCL {OLDEST_TEXT}: it has no {missing}"))?;
        // SAFETY: the functions must be those of NCCL ← the caller guarantees it.
        unsafe { Self::from_functions(functions) }
    }

    /// Creates a library from its functions.
    ///
    /// # Errors
    ///
    /// Fails if the library is too old.
    ///
    /// # Safety
    ///
    /// The functions must have the behaviour that NCCL documents for their names.
    pub unsafe fn from_functions(functions: Functions) -> Result<Self> {
        let mut version = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        let status = unsafe { (functions.get_version)(&raw mut version) };
        let this = Self { functions, version };
        this.check(status, std::ptr::null_mut())?;
        if version < OLDEST {
            let found = this.version();
            return Err(
                format!("NCCL {found} is too old; this program needs {OLDEST_TEXT}").into(),
            );
        }
        Ok(this)
    }

    /// Returns the version as NCCL writes it.
    #[must_use]
    pub fn version(&self) -> String {
        let version = self.version;
        format!(
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        )
    }

    /// Creates the id of a communicator, which all ranks must get.
    ///
    /// # Errors
    ///
    /// Fails with the error of NCCL.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the pointer must be writable ← it is to a local.
        let status = unsafe { (self.functions.get_unique_id)(&raw mut id) };
        self.check(status, std::ptr::null_mut())?;
        Ok(id)
    }

    /// Returns an error unless `status` says that the call succeeded or is in progress.
    pub(crate) fn check(&self, status: c_int, communicator: RawCommunicator) -> Result<()> {
        if status == SUCCESS || status == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: no requirements.
        let text = unsafe { (self.functions.get_error_string)(status) };
        // SAFETY: the communicator must be alive or null ← the caller just used it.
        let last = unsafe { (self.functions.get_last_error)(communicator) };
        let [text, last] = [text, last].map(|text| {
            if text.is_null() {
                return String::new();
            }
            // SAFETY: the text must end with a zero and not change ← NCCL returns such texts; the
            // last error is that of this thread or of a communicator that only it uses.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().trim().to_owned()
        });
        let colon = if last.is_empty() { "" } else { ": " };
        Err(format!("NCCL: {text} (status {status}){colon}{last}").into())
    }
}

const OLDEST_TEXT: &str = "2.18 or newer";

/// Returns the places of the library, in the order of the search.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(NAME)];
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(environment) = std::env::var_os(variable) else {
            continue;
        };
        // `lib/python3.12`, for example.
        let versions = PathBuf::from(environment).join("lib").read_dir();
        for version in versions.into_iter().flatten().flatten() {
            let packages = version.path().join("site-packages");
            places.push(packages.join("nvidia/nccl/lib").join(NAME));
        }
    }
    if let Some(toolkit) = std::env::var_os("CUDA_PATH") {
        places.push(PathBuf::from(toolkit).join("lib64").join(NAME));
    }
    places
}
