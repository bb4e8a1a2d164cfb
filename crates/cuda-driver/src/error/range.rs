//! Errors of ranges and numbers that do not fit the length of a view.

use std::fmt;
use std::ops::{Bound, Range};

/// A range, an index or a number does not fit the length of the object that it is applied to.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeError {
    /// A range ends behind the last element, or starts behind its own end.
    Range {
        /// The range requested.
        range: (Bound<usize>, Bound<usize>),
        /// The number of elements, rows or planes that exist.
        len: usize,
        /// The unit of the range: `elements`, `rows`, …
        what: &'static str,
    },
    /// A part of external memory is mapped by another buffer or array.
    Mapped {
        /// The bytes requested.
        range: Range<usize>,
        /// The bytes of the other buffer or array.
        mapped: Range<usize>,
    },
    /// Elements of page-locked memory belong to a part that exists.
    Taken {
        /// The elements requested.
        range: Range<usize>,
        /// The elements of the part.
        taken: Range<usize>,
    },
    /// Two copies of one batch write the same elements.
    Overlap {
        /// The ranges of the copies.
        ranges: [Range<usize>; 2],
    },
    /// No element has this index.
    Index {
        /// The index requested.
        index: usize,
        /// The number of elements that exist.
        len: usize,
    },
    /// Elements cannot be divided into chunks or rows of this size.
    Divide {
        /// The number of elements.
        len: usize,
        /// The number of elements requested for each part.
        size: usize,
        /// The parts: `chunks` or `rows`.
        parts: &'static str,
    },
    /// A number is not a multiple of the required divisor.
    NotMultiple {
        /// The number, with its unit.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The required divisor.
        of: usize,
    },
    /// There are more items than a call accepts.
    TooMany {
        /// The items: `operations`, …
        what: &'static str,
        /// The number of items.
        given: usize,
        /// The largest number allowed.
        most: usize,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Range { range, len, what } => {
                f.write_str("the range ")?;
                write_range(f, range)?;
                write!(f, " is out of bounds: there are {len} {what}")
            }
            Self::Mapped {
                ref range,
                ref mapped,
            } => write!(
                f,
                "the bytes {range:?} overlap the bytes {mapped:?}, which another buffer or \
                 array maps; drop that one first, or use views of it"
            ),
            Self::Taken {
                ref range,
                ref taken,
            } => write!(
                f,
                "the elements {range:?} overlap the elements {taken:?}, which another part has; \
                 drop that one first, or take other elements"
            ),
            Self::Overlap {
                ranges: [ref one, ref other],
            } => write!(
                f,
                "the range {other:?} overlaps the range {one:?}; the copies of one batch must \
                 write different elements: queue the second copy in another batch"
            ),
            Self::Index { index, len } => {
                write!(
                    f,
                    "the index {index} is out of bounds: there are {len} elements"
                )
            }
            Self::Divide {
                len,
                size: 0,
                parts,
            } => write!(
                f,
                "{len} elements cannot be divided into {parts} of 0 elements; pass at least 1"
            ),
            Self::Divide { len, size, parts } => write!(
                f,
                "{len} elements cannot be divided into {parts} of {size} elements; the length must \
                 be a multiple of the size"
            ),
            Self::NotMultiple { what, given, of } => {
                write!(f, "{what} is {given}, which is not a multiple of {of}")
            }
            Self::TooMany { what, given, most } => {
                write!(
                    f,
                    "the number of {what} is {given}; at most {most} is allowed"
                )
            }
        }
    }
}

/// Writes the range as Rust does.
fn write_range(
    f: &mut fmt::Formatter<'_>,
    (start, end): (Bound<usize>, Bound<usize>),
) -> fmt::Result {
    match start {
        Bound::Included(start) => write!(f, "{start}")?,
        // Rust has no syntax for this bound.
        Bound::Excluded(start) => write!(f, "({start} excluded)")?,
        Bound::Unbounded => {}
    }
    match end {
        Bound::Included(end) => write!(f, "..={end}"),
        Bound::Excluded(end) => write!(f, "..{end}"),
        Bound::Unbounded => f.write_str(".."),
    }
}

impl std::error::Error for RangeError {}

#[cfg(test)]
mod tests {
    use std::ops::{Bound, RangeBounds};

    use super::RangeError;

    fn text(range: impl RangeBounds<usize>) -> String {
        let error = RangeError::Range {
            range: (range.start_bound().cloned(), range.end_bound().cloned()),
            len: 9,
            what: "rows",
        };
        let text = error.to_string();
        let text = text.strip_prefix("the range ").unwrap();
        text.strip_suffix(" is out of bounds: there are 9 rows")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn a_range_prints_as_it_is_written() {
        assert_eq!(text(2..10), "2..10");
        assert_eq!(text(2..=10), "2..=10");
        assert_eq!(text(10..), "10..");
        assert_eq!(text(..10), "..10");
        assert_eq!(text(..=10), "..=10");
        assert_eq!(text(..), "..");
        let excluded = (Bound::Excluded(9), Bound::Unbounded);
        assert_eq!(text(excluded), "(9 excluded)..");
    }
}
