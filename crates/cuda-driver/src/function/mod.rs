//! Kernels (`CUfunction`), their parameters and their attributes.
//!
//! Unlike C's handle, a function keeps its module loaded. Unless a method says otherwise, its
//! errors are those of the driver function that it names.

mod function;

mod attributes;
pub(crate) mod check;
mod loading;
pub(crate) mod packing;
pub(crate) mod parameters;

pub use cuda_sys::CUfunction_attribute as FunctionAttribute;

pub use function::Function;
pub(crate) use loading::{kernel_name, names_of, not_found};
