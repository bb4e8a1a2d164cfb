//! Shapes and strides.

use std::ptr;
use std::slice;

use super::raw::DLTensor;
use crate::error::{Error, ExchangeError, Result};

fn wrong(what: &'static str) -> Error {
    Error::from(ExchangeError::Layout { what })
}

/// Returns the number of elements of a compact tensor.
///
/// # Errors
///
/// [`Error::Exchange`] unless it is `len`.
pub(super) fn compact_len(shape: &[usize], len: usize) -> Result<()> {
    let product = shape
        .iter()
        .try_fold(1_usize, |all, length| all.checked_mul(*length));
    if product == Some(len) {
        Ok(())
    } else {
        Err(wrong(
            "the shape does not have as many elements as the buffer",
        ))
    }
}

/// Returns the strides of a compact, row-major tensor, in elements.
pub(super) fn compact_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
    }
    strides
}

/// Returns whether a tensor is compact and row-major. The stride of a dimension with one element
/// has no meaning, and producers set it to different values.
pub(super) fn is_compact(shape: &[usize], strides: &[usize]) -> bool {
    let compact = compact_strides(shape);
    let mut dims = shape.iter().zip(strides.iter().zip(&compact));
    shape.contains(&0) || dims.all(|(length, (given, expected))| *length == 1 || given == expected)
}

/// Returns the number of elements from the first to the last one of a tensor.
///
/// # Errors
///
/// [`Error::Exchange`] if the number does not fit.
pub(super) fn span(shape: &[usize], strides: &[usize]) -> Result<usize> {
    if shape.len() != strides.len() {
        return Err(wrong("there is not one stride for each dimension"));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let last = shape
        .iter()
        .zip(strides)
        .try_fold(0_usize, |last, (length, stride)| {
            last.checked_add((length - 1).checked_mul(*stride)?)
        });
    last.and_then(|last| last.checked_add(1))
        .ok_or_else(|| wrong("the tensor is larger than an address space"))
}

/// Copies the shape and the strides of a tensor.
///
/// # Errors
///
/// [`Error::Exchange`] if a number is negative.
///
/// # Safety
///
/// `shape` points to `ndim` numbers, and so does `strides` unless it is null.
pub(super) unsafe fn read(tensor: &DLTensor) -> Result<(Vec<usize>, Vec<usize>)> {
    let ndim = usize::try_from(tensor.ndim);
    let ndim = ndim.map_err(|_| wrong("the number of dimensions is negative"))?;
    if ndim == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let numbers = |from: *const i64| -> Result<Vec<usize>> {
        // SAFETY: there must be `ndim` numbers ← the caller guarantees it.
        let numbers = unsafe { slice::from_raw_parts(from, ndim) };
        numbers
            .iter()
            .map(|it| usize::try_from(*it))
            .collect::<Result<_, _>>()
            .map_err(|_| wrong("a length or a stride is negative"))
    };
    if ptr::eq(tensor.shape, ptr::null()) {
        return Err(wrong("the shape is missing"));
    }
    let shape = numbers(tensor.shape)?;
    let strides = if tensor.strides.is_null() {
        compact_strides(&shape)
    } else {
        numbers(tensor.strides)?
    };
    Ok((shape, strides))
}

#[cfg(test)]
mod tests {
    use super::{compact_len, compact_strides, is_compact, span};

    #[test]
    fn spans_reach_to_the_last_element() {
        for (shape, strides, expected) in [
            (&[][..], &[][..], 1),
            (&[3], &[1], 3),
            (&[2, 3], &[3, 1], 6),
            (&[2, 3], &[1, 2], 6),
            (&[2, 3], &[10, 2], 15),
            (&[4, 0, 2], &[1, 1, 1], 0),
        ] {
            assert_eq!(span(shape, strides).unwrap(), expected);
        }
        assert!(span(&[2], &[]).is_err());
        assert!(span(&[3, 3], &[usize::MAX / 2, usize::MAX / 2]).is_err());
        assert_eq!(compact_strides(&[2, 3, 4]), [12, 4, 1]);
        assert!(compact_len(&[2, 3], 6).is_ok());
        assert!(compact_len(&[2, usize::MAX], 6).is_err());
    }

    #[test]
    fn strides_of_single_elements_do_not_matter() {
        assert!(is_compact(&[1, 3], &[1, 1]));
        assert!(is_compact(&[2, 1, 3], &[3, 77, 1]));
        assert!(is_compact(&[4, 0], &[5, 6]));
        assert!(is_compact(&[], &[]));
        assert!(!is_compact(&[2, 3], &[1, 2]));
        assert!(!is_compact(&[2, 3], &[4, 1]));
    }
}
