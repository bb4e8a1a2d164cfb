//! Errors of safe launches.

use std::fmt;
use std::ops::Deref;

/// The violations of the safe launches that a call has waited for, in the order of the launches.
/// There is at least one.
///
/// `Display` prints each on a line of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(Box<[Violation]>);

impl Violations {
    /// Returns `None` if there are no violations.
    pub(crate) fn new(violations: Vec<Violation>) -> Option<Self> {
        (!violations.is_empty()).then(|| Self(violations.into()))
    }
}

impl Deref for Violations {
    type Target = [Violation];

    fn deref(&self) -> &[Violation] {
        &self.0
    }
}

impl IntoIterator for Violations {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Violation;
    type IntoIter = std::slice::Iter<'a, Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            violation.fmt(f)?;
        }
        Ok(())
    }
}

/// Prints the text of `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An access outside of its argument, which a checked kernel did not make, or a `trap`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The kernel.
    pub kernel: String,
    /// The access that was not made, or `trap`.
    pub kind: ViolationKind,
    /// The line of the instruction in the PTX text.
    pub ptx_line: u32,
    /// The file and the line of the source, as in `file.cu:12`, if the PTX text has them.
    pub source: Option<String>,
    /// `blockIdx` of the thread.
    pub block: [u32; 3],
    /// `threadIdx` of the thread.
    pub thread: [u32; 3],
    /// The address of the access; an offset in shared or local memory; 0 for a surface.
    pub address: u64,
    /// The size of the access in bytes.
    pub bytes: u32,
    /// The argument that the address belongs to, or the nearest one, counted from 1; for a surface,
    /// the argument with its handle. `None` if the access is to another memory.
    pub argument: Option<usize>,
    /// The size of the argument in bytes; 0 for a surface.
    pub argument_bytes: u64,
    /// The distance in bytes from the beginning of the argument; 0 for a surface.
    pub offset: i128,
    /// Whether the argument was passed as read-only (`&`).
    pub is_read_only: bool,
    /// The variable of the kernel or its module that the access is to, if it is known.
    pub variable: Option<VariablePlace>,
    /// The place in the surface, if the access is one to a surface.
    pub surface: Option<SurfacePlace>,
    /// The number of threads with a violation.
    pub threads: u32,
}

/// A variable in shared, local or constant memory, or one of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariablePlace {
    /// The name in CUDA C++, without the kernel that declares it; empty if the kernel has several
    /// variables, and it is not known which of them the access is to.
    pub name: String,
    /// The kind of memory: `shared`, `local`, `constant` or `global`.
    pub memory: &'static str,
    /// The size in bytes in this launch.
    pub bytes: u64,
    /// Whether the launch gives the size: the variable is `extern __shared__` in CUDA C++.
    pub is_dynamic: bool,
}

/// The place of an access in a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SurfacePlace {
    /// The coordinates: the first byte in the row, the row, and the plane or the layer. A
    /// coordinate that the surface does not have is 0.
    pub coordinates: [i32; 3],
    /// The bytes of a row, the number of rows, and the number of planes or layers.
    pub extents: [u64; 3],
}

/// The kind of an access that was not made, or `trap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// A load.
    Read,
    /// A store or a reduction.
    Write,
    /// An atomic operation.
    Atomic,
    /// `trap` or `brkpt`.
    Trap,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            ViolationKind::Read => "tried to read",
            ViolationKind::Write => "tried to write",
            ViolationKind::Atomic => "tried to update",
            ViolationKind::Trap => "traps",
        };
        write!(f, "kernel {} {verb}", self.kernel)?;
        if let (Some(surface), Some(argument)) = (self.surface, self.argument) {
            surface.fmt(f, self.bytes, argument)?;
        } else if self.kind != ViolationKind::Trap {
            write!(f, " {} bytes at {:#x}", self.bytes, self.address)?;
            match (self.argument, &self.variable) {
                (Some(argument), _) => self.place(f, argument)?,
                (None, Some(variable)) => self.place_in(f, variable)?,
                (None, None) if self.address < NULL_PAGE => self.null_pointer(f)?,
                (None, None) => f.write_str(", outside of its variable or misaligned")?,
            }
        }
        write!(f, "; PTX line {}", self.ptx_line)?;
        if let Some(source) = &self.source {
            write!(f, ", {source}")?;
        }
        let ([x, y, z], [a, b, c]) = (self.block, self.thread);
        write!(f, ", block ({x}, {y}, {z}), thread ({a}, {b}, {c})")?;
        match self.threads {
            1 => f.write_str("; no other thread has a violation"),
            all => write!(f, "; {all} threads have a violation"),
        }
    }
}

impl SurfacePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>, bytes: u32, argument: usize) -> fmt::Result {
        let ([x, y, z], [row, rows, planes]) = (self.coordinates, self.extents);
        write!(
            f,
            " {bytes} bytes at byte {x}, row {y}, plane or layer {z} of the surface in argument \
             {argument}, whose size is {row} bytes x {rows} rows x {planes} planes or layers"
        )?;
        match i64::from(x).rem_euclid(i64::from(bytes.max(1))) {
            0 => Ok(()),
            _ => write!(f, "; byte {x} is not a multiple of {bytes}"),
        }
    }
}

impl Violation {
    /// Whether the address is not a multiple of the size of the access.
    fn is_misaligned(&self) -> bool {
        !self.address.is_multiple_of(u64::from(self.bytes.max(1)))
    }

    fn null_pointer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.address {
            0 => ", a null pointer",
            _ => ", near a null pointer",
        })?;
        f.write_str(": pass a buffer, or compare the pointer with `nullptr` in the kernel")
    }

    fn place(&self, f: &mut fmt::Formatter<'_>, argument: usize) -> fmt::Result {
        let end = self.offset.saturating_add(self.bytes.into());
        let bytes = i128::from(self.argument_bytes);
        if self.offset < 0 && self.address < NULL_PAGE {
            self.null_pointer(f)
        } else if self.offset < 0 {
            let before = self.offset.unsigned_abs();
            write!(f, ", {before} bytes before argument {argument}")
        } else if end > bytes {
            write!(
                f,
                ", at offset {} of argument {argument}, which has {bytes} bytes: pass more \
                 elements, or compare the index with their number in the kernel",
                self.offset
            )
        } else {
            write!(f, ", at offset {} of argument {argument}", self.offset)?;
            match self.kind {
                ViolationKind::Write | ViolationKind::Atomic if self.is_read_only => f.write_str(
                    ", which was passed as `&`: pass `&mut` for memory that the kernel writes",
                ),
                _ => write!(
                    f,
                    ": the address is not a multiple of {}: correct the offset, or access smaller \
                     elements",
                    self.bytes
                ),
            }
        }
    }

    fn place_in(&self, f: &mut fmt::Formatter<'_>, variable: &VariablePlace) -> fmt::Result {
        let VariablePlace {
            name,
            memory,
            bytes,
            is_dynamic,
        } = variable;
        write!(f, " of {memory} memory")?;
        if name.is_empty() {
            return f.write_str(", outside of its variable or misaligned");
        }
        let size = u64::from(self.bytes);
        if *is_dynamic && *bytes < size.max(1) {
            write!(
                f,
                ", but `{name}` is dynamic shared memory, of which this launch has {bytes} bytes: \
                 set the size with `LaunchConfig::with_shared_bytes`"
            )
        } else if self.is_misaligned() {
            write!(
                f,
                ", in `{name}`: the address is not a multiple of {}",
                self.bytes
            )
        } else if *is_dynamic {
            write!(
                f,
                ", outside of `{name}`, the {bytes} bytes of dynamic shared memory of this \
                 launch: raise them with `LaunchConfig::with_shared_bytes`, or correct \
                 the index"
            )
        } else {
            write!(
                f,
                ", outside of `{name}`, which has {bytes} bytes: enlarge it, or correct the index"
            )
        }
    }
}

/// No memory has an address below this one.
const NULL_PAGE: u64 = 4096;

/// A kernel or a launch that cannot be made safely.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SafeLaunchError {
    /// The PTX text has a syntax error, as far as this crate knows the language.
    Syntax {
        /// The message with the line.
        message: String,
    },
    /// The kernel contains something that can be neither proven nor checked, or the arguments do
    /// not fit it.
    Refused {
        /// The kernel.
        kernel: String,
        /// The line in the PTX text, or 0 if the reason does not concern one line.
        line: u32,
        /// The reason.
        reason: String,
    },
    /// A condition of the contract of a kernel does not hold.
    Contract {
        /// The kernel.
        kernel: String,
        /// The condition, and the values of the launch.
        condition: String,
    },
    /// Not all accesses are proven, and the launch was to be refused in this case.
    NotProven {
        /// The kernel, and its accesses without a proof, separated by `; `.
        accesses: String,
    },
    /// The launch has an attribute that a safe launch cannot have.
    Attribute {
        /// The method of [`LaunchAttributes`](crate::launch::LaunchAttributes).
        attribute: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The kernel uses a variable of its module that is not among the arguments.
    Variable {
        /// The kernel.
        kernel: String,
        /// The variable.
        variable: String,
        /// Whether the kernel writes to it.
        is_written: bool,
    },
}

impl fmt::Display for SafeLaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { message } => write!(f, "the PTX text cannot be analysed: {message}"),
            Self::Refused {
                kernel,
                line,
                reason,
            } => {
                write!(f, "kernel {kernel} cannot be launched safely: ")?;
                match line {
                    0 => f.write_str(reason),
                    _ => write!(
                        f,
                        "PTX line {line}: {reason}; change the kernel or its arguments, or use the unsafe launch"
                    ),
                }
            }
            Self::Contract { kernel, condition } => {
                write!(f, "kernel {kernel} requires {condition}")
            }
            Self::NotProven { accesses } => {
                write!(
                    f,
                    "not every access is proven, and checks are not allowed: {accesses}; allow \
                     checks with `with_unproven(Unproven::Check)`, or pass arguments for which the \
                     accesses can be proven"
                )
            }
            Self::Attribute { attribute, reason } => {
                write!(f, "the attribute `{attribute}` in a safe launch: {reason}")
            }
            Self::Variable {
                kernel,
                variable,
                is_written,
            } => {
                let (verb, borrow) = match is_written {
                    true => ("writes", "&mut "),
                    false => ("uses", "&"),
                };
                write!(
                    f,
                    "kernel {kernel} {verb} the variable {variable} of its module; pass its \
                     `Global` with `Using::new(args, ({borrow}global,))`"
                )
            }
        }
    }
}
