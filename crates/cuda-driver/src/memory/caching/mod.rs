//! Pools that keep freed blocks and hand them out again without calling the driver.

mod cache;
mod classes;
mod device;
mod statistics;

pub(crate) use device::Blocks;
pub use device::CachingPool;
pub use statistics::Statistics as CachingPoolStatistics;
