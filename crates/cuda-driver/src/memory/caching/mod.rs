//! Pools that keep freed blocks and hand them out again without calling the driver.
//!
//! The driver has no such pools for page-locked memory, and its pools of device memory
//! ([`MemoryPool`](crate::memory::MemoryPool)) need a call for each allocation and each free.

mod cache;
mod classes;
mod device;
mod pinned;
mod statistics;

pub use device::CachingPool;
pub use pinned::PinnedCachingPool;
pub use statistics::Statistics as CachingPoolStatistics;
