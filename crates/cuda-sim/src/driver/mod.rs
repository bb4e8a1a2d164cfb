//! The software driver behind the functions of `cuda.h`.
//!
//! ```text
//! C ── cuX::<SLOT> ── dispatch: count, fail, catch ── Call::x ── Instance ── engine, memory, vm
//!      export         export                          calls      instance, objects
//! ```
//!
//! The modules are layers; each uses only those above it in this table, which a test checks.
//!
//! | module | content |
//! |---|---|
//! | [`status`], [`handle`], [`arg`], [`attributes`] | codes, handles, C arguments, attributes |
//! | [`objects`] | the objects of CUDA and the work that streams execute |
//! | [`instance`] | one software driver: the tables of objects and the operations on them |
//! | [`slot`] | the static places where C functions find their instance |
//! | [`export`] | the C shims and the steps that are common to all calls |
//! | [`calls`] | the functions of `cuda.h` and the table of their addresses |
//!
//! The methods are safe: the shims wrap the pointers of C once ([`arg`]), and handles are numbers
//! that are looked up ([`handle`]).

mod arg;
mod attributes;
pub(crate) mod calls;
mod export;
mod handle;
pub(crate) mod instance;
mod objects;
pub(crate) mod slot;
mod status;
