//! What a caching pool tells of itself.

/// The account of a caching pool. Bytes are those of the blocks, which may be a little larger than
/// what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Allocations that were served by a block that had come back.
    pub hits: u64,
    /// Allocations for which the driver was called.
    pub misses: u64,
    /// Bytes that buffers have.
    pub bytes_in_use: usize,
    /// Bytes that wait to be used again.
    pub bytes_cached: usize,
    /// The most bytes that the pool ever had from the driver.
    pub most_bytes_reserved: usize,
}

impl Statistics {
    /// Bytes that the pool has from the driver: those in use and those that wait.
    #[must_use]
    pub fn bytes_reserved(&self) -> usize {
        self.bytes_in_use + self.bytes_cached
    }

    /// The part of the reserved bytes that is in use, from 0 to 1; 1 where nothing is reserved.
    #[must_use]
    pub fn usage_ratio(&self) -> f64 {
        match self.bytes_reserved() {
            0 => 1.0,
            reserved => self.bytes_in_use as f64 / reserved as f64,
        }
    }

    /// The part of the allocations that called no driver, from 0 to 1; 0 where there were none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            all => self.hits as f64 / all as f64,
        }
    }
}
