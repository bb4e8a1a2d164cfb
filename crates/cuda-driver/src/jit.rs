//! Device code: images, modules, libraries, linking, and the functions and variables in them.
//!
//! | to | use |
//! |---|---|
//! | load code into one context | [`Module`] |
//! | load code for all contexts | [`Library`] |
//! | combine several images | [`Linker`], or [`LtoLinker`] for LTO-IR |
//! | choose how the driver compiles PTX | [`JitOptions`] |
//! | get a kernel | [`Module::function`], [`Library::kernel`] |
//! | read or write a variable | [`Global`] |

pub use cuda_sys::image::{Archive, Cubin, Fatbin, LtoIr, Object, Parameter, Ptx};
pub use cuda_sys::log::{Diagnostic, Log, Severity};

pub use crate::error::LtoError;
pub use crate::function::{Function, FunctionAttribute};
pub use crate::global::Global;
pub use crate::library::{Library, LibraryKernel};
pub use crate::linker::{LinkFile, LinkInput, Linked, Linker};
pub use crate::lto::LtoLinker;
pub use crate::module::{
    Image, JitCacheMode, JitFallback, JitOptions, JitTarget, LoadingMode, Module, OptimizationLevel,
};
pub use crate::types::JitLog;
