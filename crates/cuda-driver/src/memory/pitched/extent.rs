//! The size of a box.

use std::fmt;

use crate::error::{Error, Result};
use crate::memory::bytes_of;

/// How many elements a box has: along a row, rows, and planes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Elements of a row.
    pub width: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Planes.
    pub depth: usize,
}

impl Extent {
    /// All elements. That their bytes fit in an address holds for each direction, though another be
    /// 0.
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

    /// An error unless both sides of a copy are of one extent.
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

impl From<(usize, usize)> for Extent {
    fn from((width, height): (usize, usize)) -> Self {
        Self {
            width,
            height,
            depth: 1,
        }
    }
}

impl From<(usize, usize, usize)> for Extent {
    fn from((width, height, depth): (usize, usize, usize)) -> Self {
        Self {
            width,
            height,
            depth,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.width, self.height, self.depth)
    }
}
