//! The software driver behind the functions of `cuda.h`.
//!
//! ```text
//! C ── cuX::<SLOT> ── dispatch: count, fail, catch ── Call::x ── Instance ── engine, memory, vm
//!      export         export                          calls      instance, objects
//! ```
//!
//! The modules are layers, listed from the top. A test checks that their imports form no cycle.
//!
//! | module | content |
//! |---|---|
//! | [`calls`] | the functions of `cuda.h` and the table of their addresses |
//! | [`export`] | the C shims and the steps that are common to all calls |
//! | [`slot`] | the static places where C functions find their instance |
//! | [`instance`] | one software driver: the tables of objects and the operations on them |
//! | [`objects`] | the objects of CUDA and the work that streams execute |
//! | [`status`], [`handle`], [`arg`], [`attributes`] | codes, handles, C arguments, attributes |
//! | [`error_text`] | names and texts of errors |
//!
//! The methods are safe: the shims wrap the pointers of C once ([`arg`]), and handles are numbers
//! that are looked up ([`handle`]).

mod arg;
mod attributes;
pub(crate) mod calls;
mod error_text;
mod export;
mod handle;
pub(crate) mod instance;
mod objects;
pub(crate) mod slot;
mod status;
