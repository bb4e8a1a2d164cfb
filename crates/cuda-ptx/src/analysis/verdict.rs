//! The result of an evaluation.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::ast::{Location, Space};
pub use crate::flow::AccessKind;

/// The result of the analysis for one launch of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every access stays in its buffer or variable.
    Proven(Contract),
    /// Some accesses are not proven. Each would need a check of its address.
    Checked(Contract),
    /// The kernel does something that neither the analysis nor a check of addresses covers.
    Refused(Refusal),
}

impl Verdict {
    /// Whether every access is proven.
    pub fn is_proven(&self) -> bool {
        matches!(self, Self::Proven(_))
    }

    /// The accesses and preconditions, unless the kernel was refused.
    pub fn contract(&self) -> Option<&Contract> {
        match self {
            Self::Proven(contract) | Self::Checked(contract) => Some(contract),
            Self::Refused(_) => None,
        }
    }

    /// The reason for which the kernel was refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proven(contract) | Self::Checked(contract) => contract.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

/// The reason for which a kernel or a launch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the kernel.
    pub kernel: String,
    /// The line in the PTX text.
    pub line: u32,
    /// The access that cannot be checked, by its index in the contract, if it is one access.
    pub access: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: PTX line {}: refused: {}",
            self.kernel, self.line, self.reason
        )
    }
}

impl std::error::Error for Refusal {}

/// The root of an access: the buffer or the variable in which its address begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Root {
    /// The buffer whose address is in this parameter at this offset.
    Buffer {
        /// The number of the parameter, from 0.
        parameter: u32,
        /// The offset in bytes in the parameter.
        offset: u64,
    },
    /// A variable of the kernel or of its module.
    Variable(String),
    /// The texture or surface whose handle is in this parameter.
    Object {
        /// The number of the parameter, from 0.
        parameter: u32,
    },
}

/// The result of the analysis for one access.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// No thread executes it in this launch.
    Unreached,
    /// Every byte of the access is in its root.
    Proven {
        /// The root.
        root: Root,
        /// The first byte that a thread may access.
        low: u64,
        /// The byte after the last one that a thread may access.
        high: u64,
    },
    /// It is not proven.
    Checked {
        /// The root, if it is known.
        root: Option<Root>,
        /// The reason.
        reason: Reason,
    },
}

impl Outcome {
    /// The root, if it is known.
    pub fn root(&self) -> Option<&Root> {
        match self {
            Self::Unreached => None,
            Self::Proven { root, .. } => Some(root),
            Self::Checked { root, .. } => root.as_ref(),
        }
    }
}

/// The reason for which an access is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The address is not that of one parameter or variable plus an offset.
    UnknownAddress,
    /// The instruction accesses another state space than that of the address.
    WrongSpace,
    /// The offset has no bound.
    NoBound,
    /// The offset has bounds, but they are not in the root.
    OutOfRange {
        /// The lower bound.
        low: i128,
        /// The upper bound, after the last byte.
        high: i128,
        /// The size of the root.
        bytes: u64,
    },
    /// The address is not known to be a multiple of `align`.
    Misaligned {
        /// The alignment that the instruction needs.
        align: u64,
    },
    /// It writes to a buffer that the launch passes for reading, or to a constant variable.
    ReadOnly,
    /// Another module may define the variable.
    UnknownSize,
    /// It loads or stores a matrix in a form that is not modelled.
    Matrix,
    /// The distance between the rows or columns of a matrix is not known to be allowed.
    Stride {
        /// The number of elements of which it must be a multiple.
        multiple: u64,
        /// The smallest number of elements.
        least: u64,
    },
    /// An access outside of the surface would be a fault, because the boundary mode is `.trap`.
    Trap,
    /// It accesses a layer of a surface. The manual does not define accesses to layers that do not
    /// exist.
    Layer,
    /// The analysis reached its limit of steps.
    GaveUp,
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAddress => {
                f.write_str("the address is not that of one parameter or variable plus an offset")
            }
            Self::WrongSpace => f.write_str("the address belongs to another state space"),
            Self::NoBound => f.write_str("the offset has no bound"),
            Self::OutOfRange { low, high, bytes } => {
                write!(
                    f,
                    "it may access the bytes {low}..{high}, but the memory has {bytes} bytes"
                )
            }
            Self::Misaligned { align } => {
                write!(f, "the address is not known to be a multiple of {align}")
            }
            Self::ReadOnly => f.write_str(
                "it writes to an argument that was passed as read-only (`&`), or to a constant",
            ),
            Self::UnknownSize => f.write_str("another module may define the variable"),
            Self::Trap => f.write_str(
                "an access outside of the surface would be a fault (boundary mode `.trap`)",
            ),
            Self::Layer => f.write_str("the layer may be outside of the surface"),
            Self::Matrix => f.write_str("this form of access to a matrix is not modelled"),
            Self::Stride { multiple, least } => write!(
                f,
                "the stride is not known to be a multiple of {multiple} elements from {least} to \
                 2³¹ - 1"
            ),
            Self::GaveUp => f.write_str("the analysis gave up at its limit of steps"),
        }
    }
}

/// An access and the result of the analysis for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReport {
    /// The line in the PTX text.
    pub line: u32,
    /// The position in the source, if the PTX text has it.
    pub location: Option<Location>,
    /// The opcode with its modifiers.
    pub mnemonic: String,
    /// Whether it reads, writes or updates.
    pub kind: AccessKind,
    /// The state space; `None` for a generic address.
    pub space: Option<Space>,
    /// The number of bytes, for a matrix without the gaps between its lines; 0 for a texture.
    pub size: u32,
    /// Whether it uses a texture or a surface instead of an address.
    pub is_object: bool,
    /// The result.
    pub outcome: Outcome,
}

/// The size and the alignment that a buffer must have, so that the proven accesses to it stay
/// inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The name of the parameter, with an offset if the address is not at its beginning.
    pub buffer: String,
    /// The root.
    pub root: Root,
    /// The smallest size in bytes.
    pub bytes: u64,
    /// The number of bytes, as an expression in the scalar parameters.
    pub expression: String,
    /// The smallest alignment.
    pub align: u64,
    /// Whether the kernel writes to it.
    pub is_written: bool,
    /// The PTX line of the access that needs the size.
    pub line: u32,
    /// The position of that access in the source.
    pub location: Option<Location>,
}

/// A texture or a surface that the kernel uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCondition {
    /// The number of the parameter, from 0.
    pub parameter: u32,
    /// The name of the parameter.
    pub name: String,
    /// The object that is needed, as in "a texture of two dimensions".
    pub requirement: String,
    /// The PTX line of the instruction.
    pub line: u32,
}

/// The size of a variable in one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSize {
    /// The name in the PTX text.
    pub name: String,
    /// The state space.
    pub space: Space,
    /// The size in bytes.
    pub bytes: u64,
    /// Whether the launch gives the size: the variable is `extern __shared__` in CUDA C++.
    pub is_dynamic: bool,
}

/// The accesses of a kernel in one launch. Its `Display` lists the preconditions and the accesses
/// that are not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The name of the kernel.
    pub kernel: String,
    /// The requirements on the buffers.
    pub preconditions: Vec<Precondition>,
    /// The requirements on textures and surfaces, which the arguments meet.
    pub objects: Vec<ObjectCondition>,
    /// All accesses, in the order of the text.
    pub accesses: Vec<AccessReport>,
    /// The variables of the module that the kernel accesses, or may access.
    pub variables: Vec<String>,
    /// The sizes of the variables whose addresses the kernel uses, in this launch.
    pub sizes: Vec<VariableSize>,
    /// The numbers and names of the source files (`.file`).
    pub files: Arc<[(u32, String)]>,
}

impl Contract {
    /// Returns the name of the file and the line, as in `file.cu:12`, if the PTX text has the name.
    pub fn source(&self, at: Location) -> Option<String> {
        let (_, name) = self.files.iter().find(|file| file.0 == at.file)?;
        Some(format!("{name}:{}", at.line))
    }

    fn place(&self, f: &mut Formatter<'_>, line: u32, location: Option<Location>) -> fmt::Result {
        write!(f, "PTX line {line}")?;
        let Some(at) = location else { return Ok(()) };
        match self.source(at) {
            Some(source) => write!(f, ", {source}"),
            None => write!(f, ", file {} line {}", at.file, at.line),
        }
    }
}

impl Display for Contract {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.kernel)?;
        for condition in &self.preconditions {
            let (name, verb) = (
                &condition.buffer,
                if condition.is_written {
                    "writes"
                } else {
                    "reads"
                },
            );
            write!(f, "  {} ≤ bytes({name}), {verb}, ", condition.expression)?;
            self.place(f, condition.line, condition.location)?;
            writeln!(f, "; aligned to {}", condition.align)?;
        }
        for object in &self.objects {
            let (name, what, line) = (&object.name, &object.requirement, object.line);
            writeln!(f, "  {name} is {what}, PTX line {line}")?;
        }
        for access in &self.accesses {
            if let Outcome::Checked { reason, .. } = &access.outcome {
                write!(f, "  not proven: {}, ", access.mnemonic)?;
                self.place(f, access.line, access.location)?;
                writeln!(f, ": {reason}")?;
            }
        }
        Ok(())
    }
}
