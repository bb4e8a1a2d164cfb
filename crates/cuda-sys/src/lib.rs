//! Raw bindings to the CUDA driver (`cuda.h`, `cudaProfiler.h`) and, with the feature `nvrtc`, to NVRTC.
//!
//! Names are C's. What differs from C:
//!
//! - **Nothing is linked.** [`DriverLibrary`] and [`NvrtcLibrary`] find the library at run time and fill a
//!   table of function pointers. A library that is missing is a [`LoadError`] that lists what was tried.
//! - **Every ABI revision is there under its exported name** (`cuCtxCreate`, `cuCtxCreate_v2`, …), in every
//!   toolkit the same; `cuda.h`'s macros that rename them do not apply. Each is asked for at the version that
//!   introduced it, so one binary serves every driver from CUDA 12.0 on. A function that the driver lacks
//!   is `None`, and the method of its name answers `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER`.
//! - **Enums are open**: newtypes of integers with associated constants, because a newer driver may answer a
//!   value that these bindings do not know.
//!
//! # Where the bindings come from
//!
//! With the default feature `bindgen` the build script generates them from the header it finds
//! (`CUDA_SYS_HEADERS`, `CUDA_PATH`, `CUDA_HOME`, the usual places), if that is of CUDA 13.0 or newer and
//! libclang is there. Otherwise, and always without the feature, a committed snapshot is used, which lacks
//! nothing but NVIDIA's comments. [`BINDINGS`] says which it was.
//!
//! # Safety
//!
//! Every method of [`DriverTable`] is the C function of its name and has that function's contract: pointers
//! are valid for what the function reads and writes, handles are alive and belong to this library, sizes
//! match. NVIDIA's manual, to which the docs of each function link, states it in full.

#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "the names are C's"
)]

mod function;
pub mod image;
mod library;
pub mod log;
mod result;
mod search;
mod version;

macro_rules! generated {
    ($cfg:ident, $name:ident, $file:literal) => {
        #[cfg($cfg)]
        #[allow(
            missing_debug_implementations,
            missing_docs,
            clippy::all,
            reason = "generated"
        )]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
        #[cfg(not($cfg))]
        #[allow(
            missing_debug_implementations,
            missing_docs,
            clippy::all,
            reason = "generated"
        )]
        mod $name {
            include!(concat!("generated/", $file));
        }
    };
}

generated!(cuda_header, driver, "driver.rs");
generated!(cuda_header, table, "table.rs");

pub use driver::*;
pub use function::Function;
pub use library::{DriverLibrary, GetProcAddress};
pub use search::{Attempt, LoadError};
pub use table::{DriverTable, FUNCTIONS, calls};
pub use version::{BINDINGS, Bindings, Source, Version};

/// nvJitLink, the linker of LTO-IR, found at run time.
pub mod nvjitlink {
    pub use crate::library::nvjitlink::{
        NvJitLinkLibrary, NvJitLinkTable, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult,
    };
}

/// The raw bindings to NVRTC, under C's names.
#[cfg(feature = "nvrtc")]
pub mod nvrtc {
    generated!(cuda_header_nvrtc, bindings, "nvrtc.rs");

    pub use crate::library::nvrtc::{NvrtcLibrary, library_candidates, toolkit_roots};
    pub use bindings::*;
}
#[cfg(feature = "nvrtc")]
pub use nvrtc::NvrtcLibrary;
