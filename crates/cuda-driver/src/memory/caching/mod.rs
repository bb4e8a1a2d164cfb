//! Pools that keep freed blocks and hand them out again without calling the driver.

mod cache;
mod classes;
mod device;
mod pinned;
mod statistics;

pub(crate) use device::Blocks;
pub use device::CachingPool;
pub use pinned::PinnedCachingPool;
pub use statistics::Statistics as CachingPoolStatistics;
