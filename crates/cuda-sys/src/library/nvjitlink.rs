//! nvJitLink: NVIDIA's linker of LTO-IR. Its few functions are declared by hand, because
//! `cuda.h` does not come with its header.
//!
//! The library exports each function once for each release of its major version, under a name that
//! ends with the release. The names of the first release also exist in all later releases of the
//! major version, so this crate uses those names.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::loaded::LoadedLibrary;
use super::places::{self, Candidate, Wanted};
use crate::{LoadError, Version};

const NAME: &str = "nvJitLink";

const WANTED: Wanted = Wanted {
    library: NAME,
    variable: "CUDA_NVJITLINK_LIBRARY",
    hint: "\nInstall the CUDA toolkit or NVIDIA's Python package of nvJitLink, or set CUDA_NVJITLINK_LIBRARY to \
           the file.",
};

/// A handle to a link in progress.
pub type nvJitLinkHandle = *mut c_void;

/// The status that a function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct nvJitLinkResult(pub c_int);

/// The kind of an input.
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

            /// Returns the name and description of a known code.
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
    NVJITLINK_ERROR_UNRECOGNIZED_OPTION = 1, "unknown option";
    NVJITLINK_ERROR_MISSING_ARCH = 2, "no architecture was given";
    NVJITLINK_ERROR_INVALID_INPUT = 3, "an input is invalid";
    NVJITLINK_ERROR_PTX_COMPILE = 4, "PTX did not compile";
    NVJITLINK_ERROR_NVVM_COMPILE = 5, "LTO-IR did not compile";
    NVJITLINK_ERROR_INTERNAL = 6, "internal error of the linker";
    NVJITLINK_ERROR_THREADPOOL = 7, "error in the thread pool";
    NVJITLINK_ERROR_UNRECOGNIZED_INPUT = 8, "an input is of an unknown kind";
    NVJITLINK_ERROR_FINALIZE = 9, "the code could not be finalised";
    NVJITLINK_ERROR_NULL_INPUT = 10, "a null pointer";
    NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS = 11, "incompatible options";
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12, "an input is not of the stated kind";
    NVJITLINK_ERROR_ARCH_MISMATCH = 13, "an input is for another architecture";
    NVJITLINK_ERROR_OUTDATED_LIBRARY = 14, "an input is newer than the linker";
    NVJITLINK_ERROR_MISSING_FATBIN = 15, "an input contains no fat binary";
    NVJITLINK_ERROR_UNRECOGNIZED_ARCH = 16, "unknown architecture";
    NVJITLINK_ERROR_UNSUPPORTED_ARCH = 17, "unsupported architecture";
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
    /// A host object file.
    pub const NVJITLINK_INPUT_OBJECT: Self = Self(5);
    /// An archive of host object files.
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
            /// Returns the functions of the first release of a major version, or the name of one
            /// that is missing.
            fn of(library: &Library, major: u32) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let name = format!(concat!("__", $symbol, "_{}_0"), major);
                        // SAFETY: the symbol must be of this type ← NVIDIA's header declares the
                        // function of that name so.
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
    /// Starts a link: handle, number of options, options.
    create = "nvJitLinkCreate" (*mut nvJitLinkHandle, u32, *const *const c_char);
    /// Destroys the link and sets the handle to null.
    destroy = "nvJitLinkDestroy" (*mut nvJitLinkHandle);
    /// Adds an input: handle, kind, data, size in bytes, name.
    add_data = "nvJitLinkAddData" (nvJitLinkHandle, nvJitLinkInputType, *const c_void, usize, *const c_char);
    /// Links the inputs.
    complete = "nvJitLinkComplete" (nvJitLinkHandle);
    /// Returns the size of the cubin in bytes.
    get_linked_cubin_size = "nvJitLinkGetLinkedCubinSize" (nvJitLinkHandle, *mut usize);
    /// Copies the cubin to a buffer.
    get_linked_cubin = "nvJitLinkGetLinkedCubin" (nvJitLinkHandle, *mut c_void);
    /// Returns the size of the error log in bytes, including its NUL.
    get_error_log_size = "nvJitLinkGetErrorLogSize" (nvJitLinkHandle, *mut usize);
    /// Copies the error log to a buffer.
    get_error_log = "nvJitLinkGetErrorLog" (nvJitLinkHandle, *mut c_char);
    /// Returns the size of the information log in bytes, including its NUL.
    get_info_log_size = "nvJitLinkGetInfoLogSize" (nvJitLinkHandle, *mut usize);
    /// Copies the information log to a buffer.
    get_info_log = "nvJitLinkGetInfoLog" (nvJitLinkHandle, *mut c_char);
}

/// The nvJitLink library: its table of functions, its version and its origin.
pub type NvJitLinkLibrary = LoadedLibrary<NvJitLinkTable>;

/// The supported major versions.
const MAJORS: [u32; 2] = [13, 12];

impl NvJitLinkLibrary {
    /// Loads the nvJitLink of this system whose major version is `major`: the first of its
    /// [candidates](Self::candidates) that loads. It links images from compilers of that major
    /// version, up to its own release.
    ///
    /// # Errors
    ///
    /// - [`LoadError::Variable`] if `CUDA_NVJITLINK_LIBRARY` names a file that is not an nvJitLink
    ///   of that major version.
    /// - [`LoadError::NotFound`] with every place that was tried or skipped.
    /// - [`LoadError::NotTheLibrary`] if the library is not nvJitLink of that major version.
    /// - [`LoadError::UnsupportedPlatform`] if NVIDIA has no nvJitLink for this operating system.
    pub fn system(major: u32) -> Result<Arc<Self>, LoadError> {
        let finish = |library, origin| Self::from_library(library, origin, &[major]);
        WANTED.load(|| Self::implicit_candidates(major), finish)
    }

    /// Loads the nvJitLink in the file `path`.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if the file cannot be loaded, [`LoadError::NotTheLibrary`] if it is
    /// not nvJitLink.
    ///
    /// # Safety
    ///
    /// The file must be nvJitLink: running its initializers must be sound, and its functions must
    /// have the behaviour and signatures of their names.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let finish = |library, origin| Self::from_library(library, origin, &MAJORS);
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        unsafe { WANTED.open(path.as_ref(), finish) }
    }

    fn from_library(library: Library, origin: String, majors: &[u32]) -> Result<Self, LoadError> {
        let mut missing = "nvJitLinkCreate";
        for &major in majors {
            match NvJitLinkTable::of(&library, major) {
                Ok(table) => {
                    let version = Self::version_of(&library, major);
                    // The library is never closed, because it may keep threads and state.
                    mem::forget(library);
                    return Ok(Self::new(table, version, origin));
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

    /// Returns the release. Each release adds a name to each function, so the last existing name
    /// determines it.
    fn version_of(library: &Library, major: u32) -> Version {
        let has = |minor: &u32| {
            let name = format!("__nvJitLinkCreate_{major}_{minor}");
            // SAFETY: the symbol's type must be correct ← it is an address that is never
            // dereferenced.
            unsafe { library.get::<*mut c_void>(name.as_bytes()) }.is_ok()
        };
        let minor = (0..100).take_while(has).last().unwrap_or(0);
        Version::new(1000 * major + 10 * minor)
    }

    /// Returns the files to try, in search order. If `CUDA_NVJITLINK_LIBRARY` is set, this is only
    /// the file that it names. Otherwise they are in the same places as NVRTC, under the same
    /// conditions.
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
        places::candidates(
            &[&name],
            &[],
            &["nvidia/nvjitlink/lib", "nvidia/nvjitlink/bin"],
        )
    }
}
