//! nvJitLink: NVIDIA's linker of LTO-IR. Its few functions, by hand, as its header comes with no
//! toolkit's `cuda.h`.
//!
//! Each function is exported once for each release of its major version, under a name that ends
//! with it. All of them are there from the first release of the major version on, so that one is
//! asked for.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::attempt;
use super::places::{self, Candidate, Wanted};
use crate::{LoadError, Version};

const NAME: &str = "nvJitLink";

const WANTED: Wanted = Wanted {
    library: NAME,
    variable: "CUDA_NVJITLINK_LIBRARY",
    hint: "\nInstall the CUDA toolkit or NVIDIA's Python package of nvJitLink, or set CUDA_NVJITLINK_LIBRARY to \
           the file.",
};

/// A link under way.
pub type nvJitLinkHandle = *mut c_void;

/// What a call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct nvJitLinkResult(pub c_int);

/// What is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct nvJitLinkInputType(pub c_int);

macro_rules! results {
    ($($name:ident = $value:literal, $what:literal;)*) => {
        impl nvJitLinkResult {
            $(
                #[doc = concat!("`", stringify!($name), "`: ", $what, ".")]
                pub const $name: Self = Self($value);
            )*

            /// Name and meaning of a code that is known here.
            fn known(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    $($value => Some((stringify!($name), $what)),)*
                    _ => None,
                }
            }
        }
    };
}

results! {
    NVJITLINK_SUCCESS = 0, "success";
    NVJITLINK_ERROR_UNRECOGNIZED_OPTION = 1, "an option that it does not know";
    NVJITLINK_ERROR_MISSING_ARCH = 2, "no architecture was given";
    NVJITLINK_ERROR_INVALID_INPUT = 3, "what was added is not valid";
    NVJITLINK_ERROR_PTX_COMPILE = 4, "PTX did not compile";
    NVJITLINK_ERROR_NVVM_COMPILE = 5, "LTO-IR did not compile";
    NVJITLINK_ERROR_INTERNAL = 6, "the linker is at fault";
    NVJITLINK_ERROR_THREADPOOL = 7, "trouble with threads";
    NVJITLINK_ERROR_UNRECOGNIZED_INPUT = 8, "what was added is of no known kind";
    NVJITLINK_ERROR_FINALIZE = 9, "the code could not be finished";
    NVJITLINK_ERROR_NULL_INPUT = 10, "a null pointer";
    NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS = 11, "options that do not go together";
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12, "what was added is of another kind";
    NVJITLINK_ERROR_ARCH_MISMATCH = 13, "what was added is of another architecture";
    NVJITLINK_ERROR_OUTDATED_LIBRARY = 14, "what was added is newer than the linker";
    NVJITLINK_ERROR_MISSING_FATBIN = 15, "there is no fat binary in what was added";
    NVJITLINK_ERROR_UNRECOGNIZED_ARCH = 16, "an architecture that it does not know";
    NVJITLINK_ERROR_UNSUPPORTED_ARCH = 17, "an architecture that it does not support";
    NVJITLINK_ERROR_LTO_NOT_ENABLED = 18, "LTO-IR without the option -lto";
}

impl nvJitLinkInputType {
    /// A cubin.
    pub const NVJITLINK_INPUT_CUBIN: Self = Self(1);
    /// PTX.
    pub const NVJITLINK_INPUT_PTX: Self = Self(2);
    /// LTO-IR.
    pub const NVJITLINK_INPUT_LTOIR: Self = Self(3);
    /// A fat binary.
    pub const NVJITLINK_INPUT_FATBIN: Self = Self(4);
    /// An object file of the host.
    pub const NVJITLINK_INPUT_OBJECT: Self = Self(5);
    /// An archive of them.
    pub const NVJITLINK_INPUT_LIBRARY: Self = Self(6);
}

impl fmt::Display for nvJitLinkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((name, what)) => write!(f, "{name}: {what}"),
            None => write!(f, "nvJitLink status {}", self.0),
        }
    }
}

macro_rules! table {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal ($($arg:ty),*);)*) => {
        /// The functions of nvJitLink, without the release in their names.
        #[derive(Clone, Copy)]
        #[allow(missing_debug_implementations, reason = "addresses of code")]
        pub struct NvJitLinkTable {
            $(
                $(#[$doc])*
                pub $field: unsafe extern "C" fn($($arg),*) -> nvJitLinkResult,
            )*
        }

        impl NvJitLinkTable {
            /// The functions of the first release of a major version, or the name of one that is
            /// not there.
            fn of(library: &Library, major: u32) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let name = format!(concat!("__", $symbol, "_{}_0"), major);
                        // SAFETY: the symbol must be of that type ← a function of that name has it,
                        // by NVIDIA's header.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> nvJitLinkResult>(name.as_bytes())
                        };
                        *found.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

table! {
    /// Begins a link: handle, number of options, options.
    create = "nvJitLinkCreate" (*mut nvJitLinkHandle, u32, *const *const c_char);
    /// Ends it, and makes the handle null.
    destroy = "nvJitLinkDestroy" (*mut nvJitLinkHandle);
    /// Adds data: handle, kind, data, bytes, name.
    add_data = "nvJitLinkAddData" (nvJitLinkHandle, nvJitLinkInputType, *const c_void, usize, *const c_char);
    /// Links.
    complete = "nvJitLinkComplete" (nvJitLinkHandle);
    /// The bytes of the cubin.
    get_linked_cubin_size = "nvJitLinkGetLinkedCubinSize" (nvJitLinkHandle, *mut usize);
    /// The cubin.
    get_linked_cubin = "nvJitLinkGetLinkedCubin" (nvJitLinkHandle, *mut c_void);
    /// The bytes of the log of errors, with its NUL.
    get_error_log_size = "nvJitLinkGetErrorLogSize" (nvJitLinkHandle, *mut usize);
    /// The log of errors.
    get_error_log = "nvJitLinkGetErrorLog" (nvJitLinkHandle, *mut c_char);
    /// The bytes of the log of information, with its NUL.
    get_info_log_size = "nvJitLinkGetInfoLogSize" (nvJitLinkHandle, *mut usize);
    /// The log of information.
    get_info_log = "nvJitLinkGetInfoLog" (nvJitLinkHandle, *mut c_char);
}

/// nvJitLink: its functions, its version, and where it came from.
pub struct NvJitLinkLibrary {
    table: NvJitLinkTable,
    version: Version,
    origin: String,
}

/// The major versions that there are.
const MAJORS: [u32; 2] = [13, 12];

impl NvJitLinkLibrary {
    /// Loads the nvJitLink of this system whose major version is `major`: the first of its
    /// [candidates](Self::candidates) that loads. It links what compilers of that major version
    /// made, up to its own release.
    ///
    /// # Errors
    ///
    /// [`LoadError::Variable`] if `CUDA_NVJITLINK_LIBRARY` names a file that is not an nvJitLink of
    /// that major version. Otherwise [`LoadError::NotFound`] with every place that was tried or
    /// skipped, [`LoadError::NotTheLibrary`], or [`LoadError::UnsupportedPlatform`] where NVIDIA
    /// has no nvJitLink.
    pub fn system(major: u32) -> Result<Arc<Self>, LoadError> {
        let candidates = || {
            if cfg!(any(target_os = "linux", target_os = "windows")) {
                Ok(Self::implicit_candidates(major))
            } else {
                Err(LoadError::UnsupportedPlatform { library: NAME })
            }
        };
        let finish = |library, origin| Self::from_library(library, origin, &[major]);
        WANTED.load(candidates, finish).map(Arc::new)
    }

    /// Loads the nvJitLink in the file `path`.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if it cannot be loaded, [`LoadError::NotTheLibrary`] if it is
    /// something else.
    ///
    /// # Safety
    ///
    /// The file is nvJitLink: its initialisers are sound to run, and its functions are what their
    /// names say.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let library = path.as_ref().display().to_string();
        // SAFETY: the initialisers must be sound to run ← the caller says so.
        match unsafe { places::open(path.as_ref()) } {
            Ok(loaded) => Self::from_library(loaded, library, &MAJORS),
            Err(error) => Err(LoadError::NotFound {
                library: NAME,
                tried: vec![attempt(library, &error)],
                hint: "",
            }),
        }
    }

    fn from_library(library: Library, origin: String, majors: &[u32]) -> Result<Self, LoadError> {
        let mut missing = "nvJitLinkCreate";
        for &major in majors {
            match NvJitLinkTable::of(&library, major) {
                Ok(table) => {
                    let version = Self::version_of(&library, major);
                    // Never closed: it may keep threads and state of its own.
                    mem::forget(library);
                    return Ok(Self {
                        table,
                        version,
                        origin,
                    });
                }
                Err(name) => missing = name,
            }
        }
        Err(LoadError::NotTheLibrary {
            library: origin,
            missing,
            expected: "nvJitLink of that major version",
        })
    }

    /// Each release adds a name to each function: the last one tells which it is.
    fn version_of(library: &Library, major: u32) -> Version {
        let has = |minor: &u32| {
            let name = format!("__nvJitLinkCreate_{major}_{minor}");
            // SAFETY: the symbol's type must be right ← a pointer, which nobody follows.
            unsafe { library.get::<*mut c_void>(name.as_bytes()) }.is_ok()
        };
        let minor = (0..100).take_while(has).last().unwrap_or(0);
        Version::new(1000 * major + 10 * minor)
    }

    /// The files to try, in the order of the search: only the one that `CUDA_NVJITLINK_LIBRARY`
    /// names if it is set. Otherwise the same places as for NVRTC, under the same conditions.
    #[must_use]
    pub fn candidates(major: u32) -> Vec<PathBuf> {
        match cuda_places::path_variable(WANTED.variable) {
            Some(path) => vec![path],
            None => Self::implicit_candidates(major)
                .into_iter()
                .filter_map(Candidate::into_path)
                .collect(),
        }
    }

    fn implicit_candidates(major: u32) -> Vec<Candidate> {
        let name = if cfg!(target_os = "windows") {
            format!("nvJitLink_{major}0_0.dll")
        } else {
            format!("libnvJitLink.so.{major}")
        };
        places::candidates(&[&name], &["nvidia/nvjitlink/lib", "nvidia/nvjitlink/bin"])
    }

    /// The functions.
    #[must_use]
    pub fn table(&self) -> &NvJitLinkTable {
        &self.table
    }

    /// The version of CUDA that it belongs to.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The file that was loaded.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for NvJitLinkLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NvJitLinkLibrary")
            .field("origin", &self.origin)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
