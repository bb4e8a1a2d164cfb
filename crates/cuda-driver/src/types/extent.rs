//! The size of a box of elements.

use std::fmt;

/// The size of a box: elements per row, rows per plane, and planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The number of elements in a row.
    pub width: usize,
    /// The number of rows in a plane.
    pub height: usize,
    /// The number of planes.
    pub depth: usize,
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
