//! Errors of creating and using tensor maps.

use std::fmt;

/// The parameters of a tensor map violate a constraint of the hardware, or the map was used with
/// other memory. In `OutOfRange` and `NotMultiple`, `what` names the quantity,
/// which is in bytes or in elements.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorMapError {
    /// A value is out of range.
    OutOfRange {
        /// The quantity.
        what: &'static str,
        /// The dimension, counted from 0, if the quantity has a value for each dimension.
        dimension: Option<usize>,
        /// The value.
        given: i64,
        /// The smallest value allowed.
        least: i64,
        /// The largest value allowed.
        most: i64,
    },
    /// A value is not a multiple of another.
    NotMultiple {
        /// The quantity.
        what: &'static str,
        /// The dimension, counted from 0, if the quantity has a value for each dimension.
        dimension: Option<usize>,
        /// The value.
        given: u64,
        /// The divisor.
        of: u64,
    },
    /// Two parameters contradict each other.
    Contradiction {
        /// A sentence that states the constraint.
        what: &'static str,
    },
    /// The tensor does not fit in its memory.
    Memory {
        /// The number of bytes from the first to the last element of the tensor.
        tensor: u64,
        /// The size of the memory in bytes.
        memory: u64,
    },
    /// The memory is not the memory that the map was created for: it starts at another address, or
    /// is shorter.
    OtherMemory {
        /// The address of the memory of the map.
        map: u64,
        /// The size of the memory of the map in bytes.
        map_bytes: u64,
        /// The address of the memory given.
        given: u64,
        /// The size of the memory given in bytes.
        given_bytes: u64,
    },
}

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |dimension: &Option<usize>| match dimension {
            Some(dimension) => format!(" of dimension {dimension}"),
            None => String::new(),
        };
        match self {
            Self::OutOfRange {
                what,
                dimension,
                given,
                least,
                most,
            } => write!(
                f,
                "the {what}{} of a tensor map is {given}; {least} to {most} is allowed",
                of(dimension)
            ),
            Self::NotMultiple {
                what,
                dimension,
                given,
                of: divisor,
            } => write!(
                f,
                "the {what}{} of a tensor map is {given}, which is not a multiple of {divisor}",
                of(dimension)
            ),
            Self::Contradiction { what } => write!(f, "in a tensor map, {what}"),
            Self::Memory { tensor, memory } => write!(
                f,
                "a tensor of {tensor} bytes does not fit in the {memory} bytes of its memory"
            ),
            Self::OtherMemory {
                map,
                map_bytes,
                given,
                given_bytes,
            } => write!(
                f,
                "the tensor map was created for {map_bytes} bytes at {map:#x}, but is used with \
                 {given_bytes} \
                 bytes at {given:#x}"
            ),
        }
    }
}

impl std::error::Error for TensorMapError {}
