//! CUPTI: NVIDIA's interface for profilers. The few functions and records that a timeline needs are
//! declared by hand, because `cuda.h` does not come with CUPTI's headers.
//!
//! Each record here consists of the fields with which the record begins in all versions of CUPTI
//! that belong to CUDA 12 and 13. Newer versions add fields at the end and give the struct a new
//! number (`CUpti_ActivityKernel9` to `CUpti_ActivityKernel13`). A test compares the offsets with
//! the headers of each version that the machine has.

use std::ffi::{c_char, c_uint, c_void};
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::loaded::LoadedLibrary;
use super::places::{self, Candidate, Wanted};
use crate::{CUcontext, CUstream, LoadError, Version};

const NAME: &str = "CUPTI";

const WANTED: Wanted = Wanted {
    library: NAME,
    variable: "CUDA_CUPTI_LIBRARY",
    hint: "\nInstall the CUDA toolkit or NVIDIA's Python package of CUPTI, or set \
           CUDA_CUPTI_LIBRARY to the file.",
};

/// The status that a function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct CUptiResult(pub c_uint);

impl CUptiResult {
    /// Success.
    pub const CUPTI_SUCCESS: Self = Self(0);
    /// A parameter is invalid.
    pub const CUPTI_ERROR_INVALID_PARAMETER: Self = Self(1);
    /// There are no more records, or, in old versions, subscribers.
    pub const CUPTI_ERROR_MAX_LIMIT_REACHED: Self = Self(12);
    /// The library and the driver are of incompatible versions.
    pub const CUPTI_ERROR_NOT_COMPATIBLE: Self = Self(14);
    /// CUPTI could not be initialized.
    pub const CUPTI_ERROR_NOT_INITIALIZED: Self = Self(15);
    /// The user lacks privileges.
    pub const CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: Self = Self(35);
    /// Another profiler or tool uses CUPTI in this process.
    pub const CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: Self = Self(39);
}

impl fmt::Display for CUptiResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUPTI status {}", self.0)
    }
}

/// A kind of record: `CUpti_ActivityKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct CUpti_ActivityKind(pub c_uint);

impl CUpti_ActivityKind {
    /// [`CUpti_ActivityMemcpy`]
    pub const CUPTI_ACTIVITY_KIND_MEMCPY: Self = Self(1);
    /// [`CUpti_ActivityMemset`]
    pub const CUPTI_ACTIVITY_KIND_MEMSET: Self = Self(2);
    /// [`CUpti_ActivityKernel`]. Kernels do not overlap while this kind is enabled.
    pub const CUPTI_ACTIVITY_KIND_KERNEL: Self = Self(3);
    /// [`CUpti_ActivityKernel`]. Kernels can overlap.
    pub const CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: Self = Self(10);
    /// [`CUpti_ActivityMemcpyPtoP`]
    pub const CUPTI_ACTIVITY_KIND_MEMCPY2: Self = Self(22);
}

/// A subscriber of callbacks.
pub type CUpti_SubscriberHandle = *mut c_void;

/// A domain of callbacks: `CUpti_CallbackDomain`.
pub type CUpti_CallbackDomain = c_uint;

/// The functions of `cuda.h`.
pub const CUPTI_CB_DOMAIN_DRIVER_API: CUpti_CallbackDomain = 1;

/// The value of [`CUpti_CallbackData::callbackSite`] before the function is called.
pub const CUPTI_API_ENTER: c_uint = 0;

/// The flag of `cuptiActivityFlushAll` that also returns records of work that is not complete.
pub const CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: u32 = 1;

/// The functions of the driver that queue copies, fills, kernels and graphs, and their numbers:
/// `CUPTI_DRIVER_TRACE_CBID_…`.
pub const CUPTI_QUEUEING_CALLS: [(&str, u32); 22] = [
    ("cuMemcpyHtoDAsync_v2", 277),
    ("cuMemcpyDtoHAsync_v2", 279),
    ("cuMemcpyDtoDAsync_v2", 281),
    ("cuMemcpy2DAsync_v2", 289),
    ("cuMemcpy3DAsync_v2", 291),
    ("cuMemcpyAsync", 306),
    ("cuMemcpyPeerAsync", 319),
    ("cuMemcpy3DPeerAsync", 321),
    ("cuMemsetD8Async", 216),
    ("cuMemsetD16Async", 218),
    ("cuMemsetD32Async", 220),
    ("cuMemsetD2D8Async", 222),
    ("cuMemsetD2D16Async", 224),
    ("cuMemsetD2D32Async", 226),
    ("cuLaunchKernel", 307),
    ("cuLaunchCooperativeKernel", 477),
    ("cuLaunchKernelEx", 652),
    ("cuGraphLaunch", 514),
    ("cuMemcpyBatchAsync", 776),
    ("cuMemcpy3DBatchAsync", 778),
    ("cuMemcpyBatchAsync_v2", 796),
    ("cuMemcpy3DBatchAsync_v2", 798),
];

/// Called before and after a function of the driver: user data, domain, function, and a
/// [`CUpti_CallbackData`].
pub type CUpti_CallbackFunc =
    unsafe extern "C" fn(*mut c_void, CUpti_CallbackDomain, u32, *const c_void);

/// Called for an empty buffer. The parameters are: buffer, size in bytes, and the largest number of
/// records (0 for no limit).
pub type CUpti_BuffersCallbackRequestFunc =
    unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);

/// Called with a full buffer. The parameters are: null, 0, buffer, size in bytes, and the number of
/// bytes that contain records.
pub type CUpti_BuffersCallbackCompleteFunc =
    unsafe extern "C" fn(CUcontext, u32, *mut u8, usize, usize);

/// The parameters of a callback.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUpti_CallbackData {
    /// [`CUPTI_API_ENTER`], or 1 after the call.
    pub callbackSite: c_uint,
    /// The name of the function.
    pub functionName: *const c_char,
    /// The arguments.
    pub functionParams: *const c_void,
    /// The status that the function returned.
    pub functionReturnValue: *mut c_void,
    /// The name of the kernel.
    pub symbolName: *const c_char,
    /// The current context.
    pub context: CUcontext,
    /// The id of the context.
    pub contextUid: u32,
    /// A place that is the same before and after the call.
    pub correlationData: *mut u64,
    /// The id that the records of the work have.
    pub correlationId: u32,
}

/// The start of each record.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUpti_Activity {
    /// The kind of the record.
    pub kind: CUpti_ActivityKind,
}

/// A kernel that was executed. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields of C")]
pub struct CUpti_ActivityKernel {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: u8,
    pub sharedMemoryConfig: u8,
    pub registersPerThread: u16,
    pub partitionedGlobalCacheRequested: c_uint,
    pub partitionedGlobalCacheExecuted: c_uint,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub gridX: i32,
    pub gridY: i32,
    pub gridZ: i32,
    pub blockX: i32,
    pub blockY: i32,
    pub blockZ: i32,
    pub staticSharedMemory: i32,
    pub dynamicSharedMemory: i32,
    pub localMemoryPerThread: u32,
    pub localMemoryTotal: u32,
    pub correlationId: u32,
    pub gridId: i64,
    pub name: *const c_char,
    pub reserved0: *mut c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launchType: u8,
    pub isSharedMemoryCarveoutRequested: u8,
    pub sharedMemoryCarveoutRequested: u8,
    pub padding: u8,
    pub sharedMemoryExecuted: u32,
    pub graphNodeId: u64,
    pub shmemLimitConfig: c_uint,
    pub graphId: u32,
}

/// A copy that was executed. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields of C")]
pub struct CUpti_ActivityMemcpy {
    pub kind: CUpti_ActivityKind,
    pub copyKind: u8,
    pub srcKind: u8,
    pub dstKind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub correlationId: u32,
    pub runtimeCorrelationId: u32,
    pub pad: u32,
    pub reserved0: *mut c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
}

/// A copy between two contexts that was executed. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields of C")]
pub struct CUpti_ActivityMemcpyPtoP {
    pub kind: CUpti_ActivityKind,
    pub copyKind: u8,
    pub srcKind: u8,
    pub dstKind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub srcDeviceId: u32,
    pub srcContextId: u32,
    pub dstDeviceId: u32,
    pub dstContextId: u32,
    pub correlationId: u32,
    pub reserved0: *mut c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
}

/// A fill that was executed. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields of C")]
pub struct CUpti_ActivityMemset {
    pub kind: CUpti_ActivityKind,
    pub value: u32,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub correlationId: u32,
    pub flags: u16,
    pub memoryKind: u16,
    pub pad: u32,
    pub reserved0: *mut c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident($($arg:ty),*);)*) => {
        /// The functions of CUPTI.
        #[derive(Clone, Copy)]
        #[allow(missing_debug_implementations, reason = "addresses of code")]
        pub struct CuptiTable {
            $(
                $(#[$doc])*
                pub $name: unsafe extern "C" fn($($arg),*) -> CUptiResult,
            )*
        }

        impl CuptiTable {
            /// Returns the functions, or the name of the first that is missing.
            fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the symbol must be of this type ← NVIDIA's headers declare the
                        // function of that name so.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> CUptiResult>(
                                stringify!($name).as_bytes(),
                            )
                        };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

table! {
    /// Returns the version of the interface.
    cuptiGetVersion(*mut u32);
    /// Returns the text of a status: status, text.
    cuptiGetResultString(CUptiResult, *mut *const c_char);
    /// Registers the only subscriber of the process: handle, callback, user data.
    cuptiSubscribe(*mut CUpti_SubscriberHandle, CUpti_CallbackFunc, *mut c_void);
    /// Removes the subscriber.
    cuptiUnsubscribe(CUpti_SubscriberHandle);
    /// Turns the callbacks of a function on or off: whether on, subscriber, domain, function.
    cuptiEnableCallback(u32, CUpti_SubscriberHandle, CUpti_CallbackDomain, u32);
    /// Registers the functions that supply and receive buffers.
    cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
    /// Begins to record a kind of work.
    cuptiActivityEnable(CUpti_ActivityKind);
    /// Stops recording a kind of work.
    cuptiActivityDisable(CUpti_ActivityKind);
    /// Returns the buffers to their owner: flags.
    cuptiActivityFlushAll(u32);
    /// Returns the record after a record, or the first: buffer, bytes that contain records, record.
    cuptiActivityGetNextRecord(*mut u8, usize, *mut *mut CUpti_Activity);
    /// Returns the current time in nanoseconds, on the clock of the records.
    cuptiGetTimestamp(*mut u64);
    /// Returns the id of a context in the records.
    cuptiGetContextId(CUcontext, *mut u32);
    /// Returns the id of a stream in the records: context or null, stream, whether null means the
    /// stream of the thread, id.
    cuptiGetStreamIdEx(CUcontext, CUstream, u8, *mut u32);
}

/// The CUPTI library: its table of functions, its version and its origin.
pub type CuptiLibrary = LoadedLibrary<CuptiTable>;

/// The oldest version of the interface: that of CUDA 12.0.
const OLDEST: u32 = 19;

impl CuptiLibrary {
    /// Loads the CUPTI of this system for a driver of CUDA `major`: the first of its
    /// [candidates](Self::candidates) that loads.
    ///
    /// # Errors
    ///
    /// - [`LoadError::Variable`] if `CUDA_CUPTI_LIBRARY` names a file that is not a CUPTI of CUDA
    ///   12.0 or newer.
    /// - [`LoadError::NotFound`] with every place that was tried or skipped.
    /// - [`LoadError::NotTheLibrary`] or [`LoadError::TooOld`] if the library is not a CUPTI of
    ///   CUDA 12.0 or newer.
    /// - [`LoadError::UnsupportedPlatform`] if NVIDIA has no CUPTI for this operating system.
    pub fn system(major: u32) -> Result<Arc<Self>, LoadError> {
        WANTED.load(|| Self::implicit_candidates(major), Self::from_library)
    }

    /// Loads the CUPTI in the file `path`.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if the file cannot be loaded, [`LoadError::NotTheLibrary`] if it is
    /// not CUPTI, [`LoadError::TooOld`] if it is older than CUDA 12.0.
    ///
    /// # Safety
    ///
    /// The file must be CUPTI: running its initializers must be sound, and its functions must have
    /// the behaviour and signatures of their names.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        unsafe { WANTED.open(path.as_ref(), Self::from_library) }
    }

    fn from_library(library: Library, origin: String) -> Result<Self, LoadError> {
        let table = match CuptiTable::of(&library) {
            Ok(table) => table,
            Err(missing) => {
                return Err(LoadError::NotTheLibrary {
                    library: origin,
                    missing,
                    expected: "a CUPTI of CUDA 12.0 or newer",
                });
            }
        };
        // The library is never closed, because the driver may call it.
        mem::forget(library);
        let mut api = 0;
        // SAFETY: the pointer must be writable ← it points to a local. The call does not require
        // initialization.
        let status = unsafe { (table.cuptiGetVersion)(&raw mut api) };
        if status != CUptiResult::CUPTI_SUCCESS {
            return Err(LoadError::NotTheLibrary {
                library: origin,
                missing: "cuptiGetVersion that succeeds",
                expected: "a CUPTI of CUDA 12.0 or newer",
            });
        }
        let version = version_of(api);
        if api < OLDEST {
            return Err(LoadError::TooOld {
                library: origin,
                found: version,
                oldest: version_of(OLDEST),
            });
        }
        Ok(Self::new(table, version, origin))
    }

    /// Returns the files to try, in search order. If `CUDA_CUPTI_LIBRARY` is set, this is only the
    /// file that it names. Otherwise they are in the same places as NVRTC and in `extras/CUPTI` of
    /// the toolkits. The library of CUDA 12 also works with a driver of CUDA 13; it is tried last.
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
        let names: &[&str] = match major {
            13.. => &["libcupti.so.13", "libcupti.so.12"],
            _ => &["libcupti.so.12"],
        };
        places::candidates(names, &["extras/CUPTI/lib64"], &["nvidia/cuda_cupti/lib"])
    }
}

/// Returns the version of CUDA that a version of the interface belongs to.
fn version_of(api: u32) -> Version {
    Version::new(match api {
        // Since CUDA 13.0 the number is made of the major version, the minor one and an update.
        130_000.. => api / 10_000 * 1000 + api / 100 % 100 * 10,
        27.. => 12_090,
        26 => 12_080,
        24.. => 12_060,
        20.. => 12_000 + (api - 18) * 10,
        19 => 12_000,
        // All versions before CUDA 12 are treated alike.
        _ => 11_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_interface_name_their_cuda() {
        let pairs = [
            (18, 11_000),
            (19, 12_000),
            (20, 12_020),
            (23, 12_050),
            (24, 12_060),
            (26, 12_080),
            (28, 12_090),
            (130_001, 13_000),
            (130_500, 13_050),
        ];
        for (api, version) in pairs {
            assert_eq!(version_of(api), Version::new(version), "{api}");
        }
    }
}
