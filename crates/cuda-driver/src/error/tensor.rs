//! A tensor map that was not made.

use std::fmt;

/// What is asked of a tensor map against what the hardware can. Bytes and elements, as `what` says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorMapError {
    /// A number beyond its limits.
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Of which dimension, from 0, where there are several.
        dimension: Option<usize>,
        /// It.
        given: i64,
        /// The least that it can be.
        least: i64,
        /// The most that it can be.
        most: i64,
    },
    /// A number that is not a multiple of another.
    NotMultiple {
        /// Which number.
        what: &'static str,
        /// Of which dimension, from 0, where there are several.
        dimension: Option<usize>,
        /// It.
        given: u64,
        /// Of what it has to be one.
        of: u64,
    },
    /// Two things that do not go together.
    Together {
        /// Which.
        what: &'static str,
    },
    /// The tensor is longer than the memory that it is to lie in.
    Memory {
        /// The bytes of the tensor, from the first to the last.
        tensor: u64,
        /// The bytes of the memory.
        memory: u64,
    },
    /// The memory is not what the map was made for: it begins elsewhere, or is shorter.
    OtherMemory {
        /// Where the map's memory begins.
        map: u64,
        /// How many bytes it has.
        map_bytes: u64,
        /// Where the memory given begins.
        given: u64,
        /// How many bytes it has.
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
                "the {what}{} of a tensor map: {given} is not within {least} to {most}",
                of(dimension)
            ),
            Self::NotMultiple {
                what,
                dimension,
                given,
                of: divisor,
            } => write!(
                f,
                "the {what}{} of a tensor map: {given} is not a multiple of {divisor}",
                of(dimension)
            ),
            Self::Together { what } => write!(f, "in a tensor map, {what}"),
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
                "the tensor map is of {map_bytes} bytes at {map:#x}, not of {given_bytes} at {given:#x}"
            ),
        }
    }
}

impl std::error::Error for TensorMapError {}
