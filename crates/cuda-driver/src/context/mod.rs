//! Contexts: the state of a process on a device.
//!
//! In C, each thread has a current context, which calls use implicitly. Here, a call uses the
//! context of its object: it makes that context current for the time of the call, and restores the
//! previous one afterwards.

mod context;

mod borrow;
mod bound;
mod captures;
mod current;
mod described;
mod device_pool;
mod foreign_uses;
mod green;
mod inner;
mod kept;
mod owner;
mod peer;
mod primary;
mod registry;
mod replay_lock;
mod settings;
mod unfenced;

// Types of other modules that belong to this chapter of the API.
pub use crate::driver::LivenessToken;

pub(crate) use captures::Capturing;
pub use context::Context;
pub(crate) use current::Current;
pub use current::CurrentContext;
pub use device_pool::DevicePool;
pub(crate) use foreign_uses::{Conflict, ForeignUse};
pub(crate) use inner::Limits;
pub(crate) use kept::KeptContext;
pub use primary::PrimaryContextState;
pub(crate) use replay_lock::{ReplayGuard, ReplayLock};
pub use settings::{CacheConfig, ContextFlags, Limit};
pub(crate) use unfenced::UnfencedUses;
