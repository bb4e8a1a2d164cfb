//! The description of a fill.

use crate::driver::objects::space::Spaces;
use crate::driver::objects::stream::DeviceFault;
use crate::driver::status::{INVALID_VALUE, Status};

/// A fill: the rows of elements that are set, and the value.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Fill {
    pub(in crate::driver) dst: u64,
    /// The distance between rows in bytes.
    pub(in crate::driver) pitch: usize,
    pub(in crate::driver) value: u32,
    /// The size of an element in bytes: 1, 2 or 4.
    pub(in crate::driver) element: usize,
    /// The number of elements in a row.
    pub(in crate::driver) width: usize,
    pub(in crate::driver) height: usize,
}

impl Fill {
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    /// Fails with `INVALID_VALUE` for a fill that the driver rejects. The fill must not be empty.
    pub(in crate::driver) fn check(&self, spaces: &Spaces) -> Status {
        let Self {
            dst, pitch, height, ..
        } = *self;
        let element = self.element;
        let row = self.width.checked_mul(element).ok_or(INVALID_VALUE)?;
        let aligned =
            dst.is_multiple_of(element as u64) && (height == 1 || pitch.is_multiple_of(element));
        if !aligned || (height > 1 && pitch < row) {
            return Err(INVALID_VALUE);
        }
        let span = pitch
            .checked_mul(height - 1)
            .and_then(|before| before.checked_add(row))
            .ok_or(INVALID_VALUE)?;
        if spaces.check(dst, span as u64)? {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }

    pub(in crate::driver) fn run(&self, spaces: &Spaces) -> Result<(), DeviceFault> {
        let pattern = self.value.to_le_bytes();
        let (width, height) = (self.width as u64, self.height as u64);
        spaces
            .fill(
                self.dst,
                &pattern[..self.element],
                width,
                height,
                self.pitch as u64,
            )
            .map_err(|error| spaces.fault("memset", &error))
    }
}
