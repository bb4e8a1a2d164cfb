//! Launch configurations with one thread for each element.

use super::LaunchConfig;
use crate::error::{Error, LaunchConfigError, Result};

/// The largest number of blocks in the first dimension of a grid, on every device.
const MOST_BLOCKS: i128 = i32::MAX as i128;

/// One thread for each element.
impl LaunchConfig {
    /// Creates a configuration with at least one thread for each of `n` elements, and at least one
    /// block, in blocks of [`DEFAULT_BLOCK`](Self::DEFAULT_BLOCK) threads. The last block may have
    /// surplus threads, so the kernel has to compare its index with `n`.
    ///
    /// `n` is an integer of any type, such as the length of a slice.
    ///
    /// # Errors
    ///
    /// [`Error::LaunchConfig`] if `n` is negative, or if that many elements need more blocks than a
    /// grid can have.
    pub fn for_num_elems(n: impl TryInto<i128>) -> Result<Self> {
        Self::for_num_elems_with(n, Self::DEFAULT_BLOCK)
    }

    /// Creates a configuration as [`for_num_elems`](Self::for_num_elems) does, in blocks of
    /// `threads` threads.
    ///
    /// ```
    /// use cuda_driver::LaunchConfig;
    ///
    /// let words = vec![0_u32; 1000];
    /// let config = LaunchConfig::for_num_elems_with(words.len(), 128)?;
    /// assert_eq!(config, LaunchConfig::new(8, 128));
    /// # Ok::<(), cuda_driver::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`for_num_elems`](Self::for_num_elems), and [`Error::LaunchConfig`] if
    /// `threads` is 0. A launch checks whether the device allows blocks of `threads` threads.
    pub fn for_num_elems_with(n: impl TryInto<i128>, threads: u32) -> Result<Self> {
        // Only numbers that are too large in any case do not fit.
        let elements = n.try_into().unwrap_or(i128::MAX);
        let blocks = match threads {
            _ if elements < 0 => None,
            0 => None,
            // At least one thread, and so at least one block.
            _ => Some((elements.max(1) - 1) / i128::from(threads) + 1),
        };
        match blocks.filter(|blocks| *blocks <= MOST_BLOCKS) {
            // The cast does not truncate: the number was compared with the limit.
            Some(blocks) => Ok(Self::new(blocks as u32, threads)),
            None => {
                let error = LaunchConfigError::Elements { elements, threads };
                Err(Error::LaunchConfig(Box::new(error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchConfig;
    use crate::error::Result;

    #[test]
    fn each_element_has_a_thread() {
        for n in [0, 1, 255, 256, 257, 100_000, u32::MAX] {
            let config = LaunchConfig::for_num_elems(n).unwrap();
            assert!(config.grid.count() * config.block.count() >= u64::from(n));
            assert!(config.grid.x >= 1);
            for threads in [1, 32, 1000, 1024] {
                let config = LaunchConfig::for_num_elems_with(n / 3, threads).unwrap();
                assert_eq!(config.block.x, threads);
                assert_eq!(config.grid.x, (n / 3).div_ceil(threads).max(1));
            }
        }
    }

    #[test]
    fn integers_of_every_type_are_numbers_of_elements() {
        let expected = LaunchConfig::new(1, 256);
        let configs: Vec<Result<LaunchConfig>> = vec![
            LaunchConfig::for_num_elems(100_u8),
            LaunchConfig::for_num_elems(100_i8),
            LaunchConfig::for_num_elems(100_u16),
            LaunchConfig::for_num_elems(100_i32),
            LaunchConfig::for_num_elems(100_u32),
            LaunchConfig::for_num_elems(100_u64),
            LaunchConfig::for_num_elems(100_usize),
            LaunchConfig::for_num_elems(100_isize),
            LaunchConfig::for_num_elems(100_u128),
        ];
        for config in configs {
            assert_eq!(config.unwrap(), expected);
        }
        // The largest grid: 2^31 - 1 blocks.
        let most = (i32::MAX as u64) * 256;
        let config = LaunchConfig::for_num_elems(most).unwrap();
        assert_eq!(config.grid.x, i32::MAX as u32);
    }

    #[test]
    fn elements_that_fit_in_no_grid_are_an_error() {
        let text = |config: Result<LaunchConfig>| config.unwrap_err().to_string();
        assert_eq!(
            text(LaunchConfig::for_num_elems((i32::MAX as u64) * 256 + 1)),
            "549755813633 elements in blocks of 256 threads need 2147483648 blocks; a grid has at \
             most 2147483647 blocks in x: let each thread process several elements"
        );
        assert_eq!(
            text(LaunchConfig::for_num_elems(-3)),
            "the number of elements is -3; it must not be negative"
        );
        assert_eq!(
            text(LaunchConfig::for_num_elems_with(10, 0)),
            "a block has 0 threads for 10 elements; use at least 1 thread, for example 256"
        );
        assert!(LaunchConfig::for_num_elems(u128::MAX).is_err());
    }
}
