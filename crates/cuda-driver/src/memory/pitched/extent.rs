//! Checks of the size of a box of elements.

use crate::error::{Error, Result};
use crate::memory::bytes_of;
use crate::types::Extent;

impl Extent {
    /// Returns the number of elements. Fails if the size in bytes does not fit in a `usize`. A
    /// dimension of 0 counts as 1 in that check, so that the other dimensions are checked as well.
    pub(crate) fn len<T>(self) -> Result<usize> {
        let [width, height, depth] = [self.width, self.height, self.depth];
        let most = width
            .max(1)
            .checked_mul(height.max(1))
            .and_then(|plane| plane.checked_mul(depth.max(1)))
            .ok_or(Error::SizeOverflow {
                len: usize::MAX,
                size: size_of::<T>(),
            })?;
        bytes_of::<T>(most)?;
        Ok(width * height * depth)
    }

    /// Fails unless both sides of a copy have the same extent.
    pub(crate) fn expect(self, source: Self) -> Result<()> {
        if self == source {
            Ok(())
        } else {
            Err(Error::ExtentMismatch {
                source_extent: source,
                destination_extent: self,
            })
        }
    }
}
