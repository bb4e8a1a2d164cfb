#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arch;
mod cache;
mod cancel;
mod compiled;
mod error;
mod flow;
mod headers;
mod library;
mod lock;
mod missing_header;
mod nesting;
mod options;
mod output;
mod pch;
mod program;
mod raw;
mod stack_guard;
mod token;
mod type_name;
mod worker;

pub use arch::{Arch, ParseArchError};
pub use cache::{Cache, CacheBuilder, CacheMode, CacheStats, Cached, Outcome, Refusal};
pub use cancel::CancelToken;
pub use compiled::Compiled;
pub use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, TileIr};
pub use cuda_sys::log::{Diagnostic, Log, Severity};
pub use cuda_sys::nvrtc::{library_candidates, nvrtcResult};
pub use cuda_sys::{LoadError, Version};
pub use error::{CompileError, Error};
pub use headers::CudaHeaders;
pub use library::Nvrtc;
pub use options::{CppStandard, FastCompile, NEWER_OPTIONS, NewerOption, Options, WarningKind};
pub use output::Output;
pub use pch::PchStatus;
pub use program::Program;
pub use type_name::CppType;
