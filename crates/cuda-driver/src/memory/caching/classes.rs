//! Size classes of blocks. Every size is rounded up to the block size of its class.

/// The size of the smallest blocks in bytes.
const SMALLEST: usize = 256;
/// The number of classes from one power of two to the next. With 8 classes at most an eighth of a
/// block is unused.
const STEPS: u32 = 8;

/// The number of classes.
pub(super) const CLASSES: usize = class_of(usize::MAX >> 1) + 1;

/// Returns the class of the smallest blocks that hold `bytes` bytes.
pub(super) const fn class_of(bytes: usize) -> usize {
    let last = if bytes < SMALLEST { SMALLEST } else { bytes } - 1;
    let steps = STEPS.ilog2();
    let power = last.ilog2();
    // The `steps` bits after the leading one.
    let step = (last >> (power - steps)) & (STEPS as usize - 1);
    let lowest = (SMALLEST - 1).ilog2();
    ((power - lowest) << steps) as usize + step - (STEPS as usize - 1)
}

/// Returns the size of the blocks of a class in bytes.
pub(super) const fn bytes_of_class(class: usize) -> usize {
    let steps = STEPS.ilog2();
    let at = class + (STEPS as usize - 1);
    let power = (SMALLEST - 1).ilog2() + (at >> steps) as u32;
    let step = at & (STEPS as usize - 1);
    (STEPS as usize + step + 1) << (power - steps)
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, bytes_of_class, class_of};

    #[test]
    fn a_class_is_the_smallest_that_holds_the_bytes() {
        let mut before = 0;
        for class in 0..CLASSES {
            let bytes = bytes_of_class(class);
            assert!(bytes > before, "class {class}");
            assert_eq!(class_of(before + 1), class);
            assert_eq!(class_of(bytes), class);
            // At most an eighth is unused, except in the smallest class.
            assert!(class == 0 || bytes - before <= before / 8, "class {class}");
            before = bytes;
        }
        assert_eq!((class_of(0), bytes_of_class(0)), (0, 256));
        assert_eq!(bytes_of_class(class_of(1 << 30)), 1 << 30);
        assert_eq!(bytes_of_class(class_of((1 << 30) + 1)), 9 << 27);
    }
}
