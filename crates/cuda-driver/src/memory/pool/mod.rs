//! Memory pools of the driver, from which stream-ordered memory is allocated.
//!
//! In C a pool is destroyed by hand. Here a pool is destroyed with its last handle, and buffers do
//! not keep it alive: the driver keeps the memory of live allocations.

mod pool;

mod access;
mod attributes;

pub use access::PoolAccess;
pub use attributes::{MemoryPoolStatistics, PoolReuse};
pub use pool::MemoryPool;
pub(crate) use pool::props_of;
