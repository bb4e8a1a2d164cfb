//! The statistics of a caching pool.

/// The statistics of a caching pool. Numbers of bytes are sizes of blocks, which may be slightly
/// larger than the sizes requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of allocations that used a cached block.
    pub hits: u64,
    /// The number of allocations that called the driver.
    pub misses: u64,
    /// The number of bytes in use by buffers.
    pub bytes_in_use: usize,
    /// The number of bytes that are cached for reuse.
    pub bytes_cached: usize,
    /// The maximum number of bytes that the pool ever had reserved from the driver.
    pub most_bytes_reserved: usize,
}

impl Statistics {
    /// Returns the number of bytes that the pool has reserved from the driver: bytes in use and
    /// cached bytes.
    #[must_use]
    pub fn bytes_reserved(&self) -> usize {
        self.bytes_in_use + self.bytes_cached
    }

    /// Returns the fraction of the reserved bytes that is in use, from 0 to 1. It is 1 if nothing
    /// is reserved.
    #[must_use]
    pub fn usage_ratio(&self) -> f64 {
        match self.bytes_reserved() {
            0 => 1.0,
            reserved => self.bytes_in_use as f64 / reserved as f64,
        }
    }

    /// Returns the fraction of the allocations that did not call the driver, from 0 to 1. It is 0
    /// before the first allocation.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            all => self.hits as f64 / all as f64,
        }
    }
}
