//! The shape of a launch: the grid, the blocks and the dynamic shared memory.

use std::ffi::c_uint;

use cuda_sys::{CUlaunchAttribute, CUlaunchConfig, CUstream};

/// Three dimensions. A dimension that is not given is 1.
///
/// ```
/// use cuda_driver::{Dim3, LaunchConfig};
///
/// assert_eq!(Dim3::from(64), Dim3 { x: 64, y: 1, z: 1 });
/// assert_eq!(Dim3::from((16, 8)), Dim3 { x: 16, y: 8, z: 1 });
/// // A grid of 2 blocks, with 16 x 8 threads each.
/// let config = LaunchConfig::new(2, (16, 8));
/// assert_eq!(config.block, Dim3::from((16, 8, 1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// The fastest-varying dimension: neighbouring threads differ in `x`.
    pub x: u32,
    /// The second dimension.
    pub y: u32,
    /// The third dimension.
    pub z: u32,
}

impl Dim3 {
    /// Returns the product of the three dimensions, or [`u64::MAX`] if it overflows.
    #[must_use]
    pub const fn count(self) -> u64 {
        (self.x as u64)
            .saturating_mul(self.y as u64)
            .saturating_mul(self.z as u64)
    }
}

impl Default for Dim3 {
    /// Returns one in each dimension.
    fn default() -> Self {
        Self { x: 1, y: 1, z: 1 }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

/// The grid, the block and the dynamic shared memory of a launch.
///
/// ```
/// use cuda_driver::LaunchConfig;
///
/// // 16 x 16 threads in each of 4 x 2 blocks, with 1 KiB of dynamic shared memory.
/// let tiles = LaunchConfig::new((4, 2), (16, 16)).with_shared_bytes(1024);
/// assert_eq!(tiles.grid.count() * tiles.block.count(), 2048);
///
/// // At least one thread for each of 1000 elements.
/// let line = LaunchConfig::for_num_elems(1000)?;
/// assert!(line.grid.count() * line.block.count() >= 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// The number of blocks in each dimension.
    pub grid: Dim3,
    /// The number of threads of a block in each dimension.
    pub block: Dim3,
    /// The dynamic shared memory of each block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// The number of threads in a block of [`for_num_elems`](Self::for_num_elems).
    pub const DEFAULT_BLOCK: u32 = 256;

    /// Creates a configuration of `grid` blocks of `block` threads, without dynamic shared memory.
    #[must_use]
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            shared_bytes: 0,
        }
    }

    /// Sets the dynamic shared memory of each block to `bytes` bytes, which may have any integer
    /// type. A number that does not fit in a `u32` is stored as `u32::MAX`, which is more than any
    /// device has: the launch fails.
    #[must_use]
    pub fn with_shared_bytes(mut self, bytes: impl TryInto<u32>) -> Self {
        self.shared_bytes = bytes.try_into().unwrap_or(u32::MAX);
        self
    }

    /// Converts to the form that the driver takes. The result points to `attributes`, which must
    /// stay borrowed while it is used.
    pub(crate) fn raw(&self, stream: CUstream, attributes: &[CUlaunchAttribute]) -> CUlaunchConfig {
        CUlaunchConfig {
            gridDimX: self.grid.x,
            gridDimY: self.grid.y,
            gridDimZ: self.grid.z,
            blockDimX: self.block.x,
            blockDimY: self.block.y,
            blockDimZ: self.block.z,
            sharedMemBytes: self.shared_bytes,
            hStream: stream,
            // The cast to `*mut` is sound because the driver only reads the attributes.
            attrs: attributes.as_ptr().cast_mut(),
            // The cast does not truncate: there are fewer than a hundred attributes.
            numAttrs: attributes.len() as c_uint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dim3, LaunchConfig};

    #[test]
    fn dimensions_that_are_not_given_are_1() {
        assert_eq!(Dim3::from((2, 3)).count(), 6);
        assert_eq!(Dim3::default(), Dim3::from(1));
    }

    #[test]
    fn shared_bytes_take_any_integer() {
        let config = LaunchConfig::new(1, 1);
        assert_eq!(config.with_shared_bytes(1024_usize).shared_bytes, 1024);
        assert_eq!(config.with_shared_bytes(1024).shared_bytes, 1024);
        for config in [
            config.with_shared_bytes(1_u64 << 32),
            config.with_shared_bytes(-1),
        ] {
            assert_eq!(config.shared_bytes, u32::MAX);
        }
    }
}
