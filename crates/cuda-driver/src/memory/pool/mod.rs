//! Memory pools of the driver, from which stream-ordered memory is allocated.
//!
//! In C a pool is destroyed by hand. Here a pool is destroyed after its last handle was dropped and
//! its last buffer was freed.

mod pool;

mod access;
mod allocate;
mod attributes;
mod export;
mod place;

pub(crate) use access::set_access;
pub use attributes::{MemoryPoolStatistics, PoolReuse};
pub(crate) use pool::props_of;
pub use pool::{MemoryPool, PoolKind};
