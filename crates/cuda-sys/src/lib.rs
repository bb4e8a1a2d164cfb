#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
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
pub use library::{DriverLibrary, GetProcAddress, LaunchUse, LoadedLibrary};
pub use search::{Attempt, LoadError};
pub use table::{DriverTable, FUNCTIONS, calls};
pub use version::{BINDINGS, Bindings, Source, Version};

/// CUPTI, NVIDIA's interface for profilers, found at run time.
pub mod cupti {
    pub use crate::library::cupti::{
        CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, CUPTI_API_ENTER, CUPTI_CB_DOMAIN_DRIVER_API,
        CUPTI_QUEUEING_CALLS, CUpti_Activity, CUpti_ActivityKernel, CUpti_ActivityKind,
        CUpti_ActivityMemcpy, CUpti_ActivityMemcpyPtoP, CUpti_ActivityMemset,
        CUpti_BuffersCallbackCompleteFunc, CUpti_BuffersCallbackRequestFunc, CUpti_CallbackData,
        CUpti_CallbackDomain, CUpti_CallbackFunc, CUpti_SubscriberHandle, CUptiResult,
        CuptiLibrary, CuptiTable,
    };
}

/// nvJitLink, the linker of LTO-IR, found at run time.
pub mod nvjitlink {
    pub use crate::library::nvjitlink::{
        NvJitLinkLibrary, NvJitLinkTable, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult,
    };
}

/// NVTX, names for parts of a program that NVIDIA's tools show.
pub mod nvtx {
    pub use crate::library::nvtx::NvtxTool;
}

/// The raw bindings to NVRTC, under C's names.
#[cfg(feature = "nvrtc")]
pub mod nvrtc {
    generated!(cuda_header_nvrtc, bindings, "nvrtc.rs");

    pub use crate::library::nvrtc::{NvrtcLibrary, library_candidates};
    pub use bindings::*;
}
#[cfg(feature = "nvrtc")]
pub use nvrtc::NvrtcLibrary;
