//! Errors of exchanging tensors with other libraries.

use std::fmt;

/// A tensor of another library cannot be used, or a buffer cannot be exported as asked.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The memory is of another device type or on another device.
    Device {
        /// The device type and the ordinal in the tensor, as in `DLDevice`.
        given: (i32, i32),
        /// The ordinal of the device of the stream.
        ordinal: u32,
    },
    /// The elements have another type.
    Type {
        /// The code, the bits and the lanes in the tensor, as in `DLDataType`.
        given: (u8, u8, u16),
        /// The code, the bits and the lanes of the requested type.
        expected: (u8, u8, u16),
    },
    /// The struct has another major version.
    Version {
        /// The major and minor version of the struct.
        given: (u32, u32),
    },
    /// The shape or the strides do not describe memory of the buffer.
    Layout {
        /// The reason.
        what: &'static str,
    },
    /// The memory is read-only.
    ReadOnly {
        /// The call or the change that would allow writing it.
        what: &'static str,
    },
    /// The number does not name a stream.
    StreamArgument {
        /// The number.
        given: i64,
    },
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device {
                given: (device_type, id),
                ordinal,
            } => write!(
                f,
                "the tensor is on device {id} of the DLPack device type {device_type}; device \
                 {ordinal} of type 2 (kDLCUDA) or 13 (kDLCUDAManaged) is needed: copy it there first"
            ),
            Self::Type { given, expected } => write!(
                f,
                "the elements have the type {}, but {} was asked for",
                Type(*given),
                Type(*expected)
            ),
            Self::Version {
                given: (major, minor),
            } => write!(
                f,
                "the tensor has DLPack version {major}.{minor}, but only version 1 is supported; \
                 pass `max_version=(1, 0)` to `__dlpack__`"
            ),
            Self::Layout { what } => write!(f, "the layout of the tensor cannot be used: {what}"),
            Self::ReadOnly { what } => {
                write!(
                    f,
                    "the tensor is read-only, so {what} is not possible: copy it first"
                )
            }
            Self::StreamArgument { given } => write!(
                f,
                "{given} does not name a stream; allowed are None, 1, 2, -1 and the handle of a \
                 stream"
            ),
        }
    }
}

/// The type of an element in messages.
struct Type((u8, u8, u16));

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, bits, lanes) = self.0;
        match code {
            0 => write!(f, "int{bits}")?,
            1 => write!(f, "uint{bits}")?,
            2 => write!(f, "float{bits}")?,
            4 => write!(f, "bfloat{bits}")?,
            6 => write!(f, "bool{bits}")?,
            _ => write!(f, "code {code} of {bits} bits")?,
        }
        match lanes {
            1 => Ok(()),
            _ => write!(f, " in {lanes} lanes"),
        }
    }
}
