//! Boxes of bytes in an array, which has no address: C names an array by its handle, and an element
//! by its position.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::CUdeviceptr;

use super::rows::{ArrayBox, Rows, boxes};
use crate::staging_pool::LARGE;

/// The first number that identifies array memory. No device has memory at addresses this high.
const FIRST_ARRAY: CUdeviceptr = 1 << 63;

/// Returns numbers that identify `count` arrays, such as the levels of a mipmapped array. They are
/// consecutive, and are used like the addresses of bytes to find conflicting accesses.
pub(crate) fn array_numbers(count: usize) -> CUdeviceptr {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_ARRAY);
    NEXT.fetch_add(count as u64, Ordering::Relaxed)
}

/// Returns whether the number identifies array memory, and is not an address.
pub(crate) fn is_array_number(address: CUdeviceptr) -> bool {
    address >= FIRST_ARRAY
}

impl ArrayBox {
    pub(crate) fn bytes(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Returns the extent in the form that copies take.
    pub(crate) fn extent(&self) -> Rows {
        Rows {
            address: 0,
            pitch: self.width,
            plane: self.height,
            width: self.width,
            height: self.height,
            depth: self.depth,
        }
    }

    /// Splits the byte range `piece`, which consists of whole rows, as
    /// [`Rows::boxes`](super::Rows::boxes) does.
    pub(crate) fn boxes(&self, piece: Range<usize>) -> impl Iterator<Item = (usize, Self)> {
        let this = *self;
        boxes(self.width, self.height, piece).map(move |part| {
            let part_of_array = Self {
                y: this.y + part.y,
                z: this.z + part.z,
                height: part.height,
                depth: part.depth,
                ..this
            };
            (part.offset, part_of_array)
        })
    }

    /// Splits the box into boxes whose rows fit in a staging block, each with its offset among the
    /// bytes of the box. There is one box, or several for each row.
    pub(crate) fn narrow_boxes(&self) -> impl Iterator<Item = (usize, Self)> {
        let this = *self;
        let (step, height, depth) = match this.width {
            0..=LARGE => (this.width.max(1), this.height, this.depth),
            _ => (LARGE, 1, 1),
        };
        let rows = (this.height / height.max(1)) * (this.depth / depth.max(1));
        (0..rows).flat_map(move |row| {
            (0..this.width).step_by(step).map(move |x| {
                let part = Self {
                    x: this.x + x,
                    y: this.y + row % (this.height / height),
                    z: this.z + row / (this.height / height),
                    width: step.min(this.width - x),
                    height,
                    depth,
                    ..this
                };
                (row * this.width + x, part)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::{ArrayBox, LARGE};
    use crate::types::SendPtr;

    fn array_box(width: usize, height: usize, depth: usize) -> ArrayBox {
        ArrayBox {
            array: SendPtr(ptr::null_mut()),
            number: 0,
            x: 8,
            y: 2,
            z: 3,
            width,
            height,
            depth,
        }
    }

    #[test]
    fn narrow_rows_stay_in_one_box() {
        let parts: Vec<_> = array_box(100, 5, 4).narrow_boxes().collect();
        let [(0, part)] = parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!((part.x, part.y, part.z), (8, 2, 3));
        assert_eq!((part.width, part.height, part.depth), (100, 5, 4));
        assert_eq!(array_box(0, 5, 4).narrow_boxes().count(), 0);
    }

    #[test]
    fn wide_rows_are_split_and_stay_in_order() {
        let width = 2 * LARGE + 16;
        let mut next = 0;
        for (offset, part) in array_box(width, 2, 3).narrow_boxes() {
            assert_eq!(offset, next);
            next += part.bytes();
            assert!(part.width <= LARGE);
            let row = offset / width;
            assert_eq!((part.y, part.z), (2 + row % 2, 3 + row / 2));
            assert_eq!(part.x, 8 + offset % width);
        }
        assert_eq!(next, 6 * width);
    }
}
