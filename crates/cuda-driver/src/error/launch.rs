//! Errors of launches that were rejected before the driver was called.

use std::fmt;

use cuda_sys::image::{Parameter, ParameterKind};

use crate::types::Dim3;

/// The arguments of a launch do not match the parameters of the kernel.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The number of arguments is wrong.
    Count {
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        expected: usize,
        /// The types of its parameters, as in `(float *, int or unsigned)`; empty if they are not
        /// known.
        parameters: String,
        /// The number of arguments.
        given: usize,
    },
    /// The size of an argument is wrong, or it is an integer for a float parameter or a float for
    /// an integer parameter.
    Mismatch {
        /// The kernel.
        kernel: String,
        /// The index of the argument, counted from 0. The message counts from 1.
        index: usize,
        /// The parameter.
        parameter: Parameter,
        /// The size of the argument in bytes.
        given: usize,
        /// The type of the argument: a number, or `a buffer`. `None` for any other type.
        given_type: Option<&'static str>,
    },
    /// The elements of a buffer are not of the type that the parameter points to, which the mangled
    /// name of the kernel or its source states. They have another size, or the one type is a float
    /// and the other an integer. Bytes fit every pointer.
    Elements {
        /// The kernel.
        kernel: String,
        /// The index of the argument, counted from 0. The message counts from 1.
        index: usize,
        /// The name of the parameter, if it is known.
        name: Option<String>,
        /// The type in Rust of what the parameter points to.
        expected: &'static str,
        /// The type of the argument, such as `a buffer of f64`.
        given: &'static str,
    },
    /// An argument does not fit the signature of a
    /// [prepared kernel](crate::launch::PreparedKernel).
    Prepared {
        /// The kernel.
        kernel: String,
        /// The index of the argument, counted from 0. The message counts from 1.
        index: usize,
        /// The type in the signature.
        expected: String,
        /// The type of the argument.
        given: &'static str,
    },
    /// A signature, not the arguments of a launch, does not match the parameters of the kernel:
    /// [`Function::typed`](crate::Function::typed) or
    /// [`Function::prepare`](crate::Function::prepare) was called with it.
    Signature(Box<ArgumentError>),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature(error) => error.write(f, true),
            error => error.write(f, false),
        }
    }
}

impl ArgumentError {
    /// Writes the message. `is_signature` is whether a signature has the types, because no launch
    /// was made.
    fn write(&self, f: &mut fmt::Formatter<'_>, is_signature: bool) -> fmt::Result {
        let (place, pass) = match is_signature {
            true => (" in the signature", "name"),
            false => ("", "pass"),
        };
        match self {
            Self::Signature(error) => error.write(f, true),
            Self::Count {
                kernel,
                expected,
                parameters,
                given,
            } => {
                write!(
                    f,
                    "kernel {kernel} takes {expected} argument{}",
                    plural(*expected)
                )?;
                if !parameters.is_empty() {
                    write!(f, " {parameters}")?;
                }
                match is_signature {
                    true => write!(
                        f,
                        ", but the signature has {given}: {pass} the type of each"
                    ),
                    false => write!(f, ", but the launch passes {given}"),
                }
            }
            Self::Mismatch {
                kernel,
                index,
                parameter,
                given,
                given_type,
            } => {
                write!(f, "argument {}", index + 1)?;
                if let Some(name) = &parameter.name {
                    write!(f, " (`{name}`)")?;
                }
                write!(f, " of kernel {kernel} ")?;
                match given_type {
                    Some(ty) => write!(f, "is {ty} ({given} byte{}){place}", plural(*given))?,
                    None => write!(f, "has {given} byte{}{place}", plural(*given))?,
                }
                let expected = parameter.size;
                let bytes = format!("{expected} byte{}", plural(expected));
                match letter(parameter.kind) {
                    Some(letter) => {
                        let ptx = format!("`.{letter}{}`", 8 * expected);
                        match in_cpp(parameter) {
                            Some(cpp) => {
                                write!(f, ", but the parameter is {cpp} ({ptx}, {bytes})")?;
                            }
                            None => write!(f, ", but the parameter is {ptx} ({bytes})")?,
                        }
                    }
                    None => write!(f, ", but the parameter has {bytes}")?,
                }
                write!(f, ": {pass} {}", types_of(parameter))
            }
            Self::Elements {
                kernel,
                index,
                name,
                expected,
                given,
            } => {
                write!(f, "argument {}", index + 1)?;
                if let Some(name) = name {
                    write!(f, " (`{name}`)")?;
                }
                write!(
                    f,
                    " of kernel {kernel} is {given}{place}, but the parameter is a pointer to \
                     {expected}: {pass} a buffer of {expected}"
                )?;
                match is_signature {
                    true => Ok(()),
                    false => write!(
                        f,
                        ", or reinterpret the bytes with `cast::<{expected}>()` of a view"
                    ),
                }
            }
            Self::Prepared {
                kernel,
                index,
                expected,
                given,
            } => write!(
                f,
                "argument {} of kernel {kernel} is `{given}`, but the prepared signature has \
                 `{expected}` there",
                index + 1
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns the letter of a type's name in PTX, if the type is a number.
fn letter(kind: ParameterKind) -> Option<char> {
    match kind {
        ParameterKind::Bits => Some('b'),
        ParameterKind::Unsigned => Some('u'),
        ParameterKind::Signed => Some('s'),
        ParameterKind::Float => Some('f'),
        ParameterKind::Unknown | ParameterKind::Array => None,
    }
}

/// Returns the types in C++ that NVIDIA's compilers translate to the type of a parameter in PTX.
fn in_cpp(parameter: &Parameter) -> Option<&'static str> {
    use ParameterKind::{Float, Signed, Unsigned};
    match (parameter.kind, parameter.size) {
        (Float, 4) => Some("`float`"),
        (Float, 8) => Some("`double`"),
        (Unsigned | Signed, 4) => Some("`int` or `unsigned`"),
        (Unsigned | Signed, 8) => Some("a pointer or a 64-bit integer"),
        _ => None,
    }
}

/// Returns the list of parameters for a message, as in `(x: float *, n: int or unsigned)`.
/// `pointees` are the types in Rust that they point to, as far as they are known.
pub(crate) fn list_of<'a>(
    parameters: &[Parameter],
    pointees: impl IntoIterator<Item = Option<&'a str>>,
) -> String {
    let pointees = pointees.into_iter().chain(std::iter::repeat(None));
    let shown = parameters.iter().zip(pointees).map(|(parameter, pointee)| {
        let name = parameter.name.iter().map(|name| format!("{name}: "));
        let ty = match (pointee, in_cpp(parameter)) {
            (Some(pointee), _) => format!("pointer to {pointee}"),
            (None, Some(cpp)) => cpp.replace('`', ""),
            (None, None) => format!("{} byte{}", parameter.size, plural(parameter.size)),
        };
        name.chain([ty]).collect()
    });
    let shown: Vec<String> = shown.collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!("({})", shown.join(", ")),
    }
}

/// Returns the usual types of arguments for a parameter.
fn types_of(parameter: &Parameter) -> &'static str {
    use ParameterKind::{Array, Float, Signed, Unsigned};
    match (parameter.kind, parameter.size) {
        (Array, _) => "a struct or an array of this size",
        (Float, 2) => "f16",
        (Float, 4) => "f32",
        (Float, 8) => "f64",
        (Unsigned | Signed, 4) => "u32 or i32",
        (Unsigned | Signed, 8) => "u64, i64 or a buffer",
        (_, 1) => "u8 or i8",
        (_, 2) => "u16, i16 or f16",
        (_, 4) => "u32, i32 or f32",
        (_, 8) => "u64, i64, f64 or a buffer",
        _ => "a value of this size",
    }
}

/// A launch configuration that the device or the kernel does not allow.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchConfigError {
    /// A quantity exceeds a limit.
    OutOfRange {
        /// The kernel.
        kernel: String,
        /// The quantity: `grid.x`, `the number of threads per block`, …
        what: &'static str,
        /// The value requested.
        given: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// The grid cannot be divided into clusters.
    PartialCluster {
        /// The kernel.
        kernel: String,
        /// The dimension of the grid: `grid.x`, `grid.y` or `grid.z`.
        what: &'static str,
        /// The number of blocks in this dimension of the grid.
        given: u32,
        /// The number of blocks in this dimension of a cluster.
        cluster: u32,
    },
    /// The kernel was compiled for clusters of another shape.
    OtherCluster {
        /// The kernel.
        kernel: String,
        /// The number of blocks per cluster of the launch.
        given: Dim3,
        /// The number of blocks per cluster for which the kernel was compiled.
        required: Dim3,
    },
    /// No grid has one thread for each element.
    Elements {
        /// The number of elements.
        elements: i128,
        /// The number of threads of a block.
        threads: u32,
    },
}

impl fmt::Display for LaunchConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                kernel,
                what,
                given,
                least,
                most,
            } => write!(
                f,
                "kernel {kernel}: {what} is {given}; {least} to {most} is allowed: {}",
                step(what, *given)
            ),
            Self::PartialCluster {
                kernel,
                what,
                given,
                cluster,
            } => write!(
                f,
                "kernel {kernel}: {what} is {given} blocks, which is not a multiple of the cluster \
                 size in this dimension, {cluster}; round it up and let the extra blocks return"
            ),
            Self::OtherCluster {
                kernel,
                given,
                required,
            } => write!(
                f,
                "kernel {kernel}: it was compiled for clusters of {} x {} x {} blocks, but the launch \
                 has clusters of {} x {} x {} blocks; leave out the attribute `cluster`",
                required.x, required.y, required.z, given.x, given.y, given.z
            ),
            Self::Elements { elements, .. } if *elements < 0 => write!(
                f,
                "the number of elements is {elements}; it must not be negative"
            ),
            Self::Elements {
                elements,
                threads: 0,
            } => write!(
                f,
                "a block has 0 threads for {elements} elements; use at least 1 thread, for example \
                 256"
            ),
            Self::Elements { elements, threads } => write!(
                f,
                "{elements} elements in blocks of {threads} threads need {} blocks; a grid has at \
                 most {} blocks in x: let each thread process several elements",
                (elements - 1) / i128::from(*threads) + 1,
                i32::MAX,
            ),
        }
    }
}

impl std::error::Error for LaunchConfigError {}

/// Returns what to do if `what` cannot be `given`.
fn step(what: &str, given: u64) -> &'static str {
    match what {
        _ if given == 0 => "make no launch if there is nothing to do",
        "grid.x" => "let each thread process several elements",
        "grid.y" | "grid.z" => "use grid.x, which may be larger, for the longest dimension",
        "the number of blocks per cluster" => "use smaller clusters",
        _ if what.starts_with("dynamic shared memory") => {
            "use less, for example smaller tiles, or keep the data in global memory"
        }
        _ => "use smaller blocks, and more of them",
    }
}

impl LaunchConfigError {
    /// The quantity that is not allowed: `grid.x`, `the number of threads per block`, …
    #[must_use]
    pub fn what(&self) -> &'static str {
        match self {
            Self::OutOfRange { what, .. } | Self::PartialCluster { what, .. } => what,
            Self::OtherCluster { .. } => "the number of blocks per cluster",
            Self::Elements { .. } => "the number of elements",
        }
    }

    /// The value requested, or the nearest `u64`.
    #[must_use]
    pub fn given(&self) -> u64 {
        match self {
            Self::OutOfRange { given, .. } => *given,
            Self::PartialCluster { given, .. } => u64::from(*given),
            Self::OtherCluster { given, .. } => given.count(),
            Self::Elements { elements, .. } => {
                u64::try_from((*elements).max(0)).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchConfigError;

    #[test]
    fn a_partial_cluster_names_the_grid_and_the_cluster() {
        let error = LaunchConfigError::PartialCluster {
            kernel: "add".to_owned(),
            what: "grid.y",
            given: 10,
            cluster: 4,
        };
        assert_eq!(
            error.to_string(),
            "kernel add: grid.y is 10 blocks, which is not a multiple of the cluster size in this \
             dimension, 4; round it up and let the extra blocks return"
        );
    }
}
