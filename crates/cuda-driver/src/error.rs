//! What can go wrong, told by values that need no driver to be printed.

mod call;
mod graph;
mod image;
mod launch;
mod loss;
mod tensor;

pub use call::DriverError;
pub use graph::{GraphUpdateError, InstantiateError};
pub use image::JitError;
pub use launch::{ArgumentError, LaunchConfigError};
pub use loss::DeviceLoss;
pub(crate) use loss::LossId;
pub use tensor::TensorMapError;

use std::fmt;
use std::io;
use std::path::PathBuf;

use cuda_sys::image::LoadableError;
use cuda_sys::{CUresult, Function, LoadError};

use crate::lto::LtoError;
use crate::memory::Extent;

/// The result of most calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in this crate.
///
/// `Debug` prints what `Display` prints: that is what `main` and `unwrap` show.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library could not be loaded.
    Load(LoadError),
    /// A C call failed.
    Driver(DriverError),
    /// Memory ran out.
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
        /// The call that failed.
        source: DriverError,
    },
    /// An image could not be loaded, or images could not be linked.
    Jit(Box<JitError>),
    /// LTO-IR could not be linked.
    Lto(Box<LtoError>),
    /// A file could not be read.
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        kind: io::ErrorKind,
    },
    /// A file holds no image.
    Image(Box<LoadableError>),
    /// The arguments of a launch are not what the kernel takes.
    Argument(Box<ArgumentError>),
    /// Grid, block or shared memory of a launch are beyond a limit.
    LaunchConfig(Box<LaunchConfigError>),
    /// A tensor map that the hardware cannot use, or of other memory.
    TensorMap(Box<TensorMapError>),
    /// The driver has no device of this ordinal.
    NoSuchDevice {
        /// What was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
        /// Which driver.
        driver: String,
    },
    /// The module has no kernel of this name.
    NoSuchFunction {
        /// What was asked for.
        name: String,
    },
    /// The module has no variable of this name.
    NoSuchGlobal {
        /// What was asked for.
        name: String,
    },
    /// There is a [`Global`](crate::Global) of this variable already.
    GlobalInUse {
        /// The variable.
        name: String,
    },
    /// A name with a NUL byte, which C cannot take.
    NulByte {
        /// What has it.
        what: &'static str,
        /// Where.
        position: usize,
    },
    /// A length whose bytes do not fit in an address.
    SizeOverflow {
        /// The number of elements.
        len: usize,
        /// The size of one.
        size: usize,
    },
    /// The two sides of a copy have different lengths.
    LengthMismatch {
        /// Elements of the source.
        source_len: usize,
        /// Elements of the destination.
        destination_len: usize,
    },
    /// The two sides of a copy of a box are not of one extent.
    ExtentMismatch {
        /// The extent of the source.
        source_extent: Extent,
        /// The extent of the destination.
        destination_extent: Extent,
    },
    /// An address at which no element of its type may lie.
    Misaligned {
        /// Where.
        address: u64,
        /// The alignment of an element.
        align: usize,
    },
    /// Flags that need a promise which a safe call cannot make.
    UnsafeFlags {
        /// The C function that would get them.
        call: &'static Function,
        /// Those of them that are not allowed.
        bits: u32,
    },
    /// Bytes that are not a whole number of elements.
    Uneven {
        /// How many there are.
        bytes: usize,
        /// The size of an element.
        size: usize,
    },
    /// A caching pool may not have so many bytes.
    PoolLimit {
        /// The bytes of the block that was asked for.
        bytes: usize,
        /// What it may have.
        limit: usize,
        /// What it has, in use and waiting.
        reserved: usize,
    },
    /// The call was not made: its context was [borrowed](crate::Context::borrow_raw), and its owner
    /// has declared it dead.
    ContextGone {
        /// The call that was not made.
        call: &'static Function,
    },
    /// The context was made by other code, which has not lent it to this crate.
    ForeignContext,
    /// An object was to be closed while other handles of it are in use. It is closed when the last
    /// of them goes.
    StillInUse {
        /// Which object.
        what: &'static str,
    },
    /// Memory cannot be used: the host has it.
    Borrowed {
        /// Which memory.
        what: &'static str,
    },
    /// A node of another graph, or of a graph that the executable was not made of.
    OtherGraph,
    /// A node that was taken out of its graph.
    NodeGone,
    /// An edge of a graph that would close a circle.
    GraphCycle,
    /// A graph could not be made an executable.
    Instantiate(Box<InstantiateError>),
    /// An executable graph cannot become like another graph.
    GraphUpdate(Box<GraphUpdateError>),
    /// A node would use memory that another one uses, and neither waits for the other.
    GraphOrder {
        /// The other node, in the order in which nodes were added.
        other: u32,
    },
    /// It would break a [capture](crate::Capture) that is under way.
    Capturing {
        /// What was asked for.
        what: &'static str,
    },
    /// Memory that a graph allocates is not freed by it.
    GraphMemoryKept,
    /// Kernels change nodes of the graph, and it was not uploaded since it was made, or since the
    /// host has changed such a node.
    NotUploaded,
    /// The device or driver cannot do it.
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// A range that is not within the elements there are.
    OutOfRange {
        /// How many there are.
        len: usize,
    },
    /// A future was asked again after it gave its result.
    AlreadyTaken {
        /// What it gave.
        what: &'static str,
    },
    /// A closure that the driver called panicked.
    HostFunctionPanicked {
        /// What it said.
        message: String,
    },
    /// Two objects of different contexts were used together.
    OtherContext {
        /// Which object.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Driver(error) => fmt::Display::fmt(error, f),
            Self::OutOfMemory { bytes, source } => {
                write!(f, "{source}, {bytes} bytes were asked for")
            }
            Self::Jit(error) => fmt::Display::fmt(error, f),
            Self::Lto(error) => fmt::Display::fmt(error, f),
            Self::File { path, kind } => {
                write!(f, "{} could not be read: {kind}", path.display())
            }
            Self::Image(error) => error.fmt(f),
            Self::Argument(error) => error.fmt(f),
            Self::LaunchConfig(error) => error.fmt(f),
            Self::TensorMap(error) => error.fmt(f),
            Self::NoSuchDevice {
                ordinal,
                count,
                driver,
            } => {
                write!(
                    f,
                    "there is no device {ordinal}: the driver {driver} has {count}"
                )
            }
            Self::NoSuchFunction { name } => write!(f, "the module has no kernel {name:?}"),
            Self::NoSuchGlobal { name } => write!(f, "the module has no variable {name:?}"),
            Self::GlobalInUse { name } => {
                write!(f, "the variable {name:?} has an owner already")
            }
            Self::NulByte { what, position } => {
                write!(f, "{what} has a NUL byte at position {position}")
            }
            Self::SizeOverflow { len, size } => {
                write!(
                    f,
                    "{len} elements of {size} bytes are more than an address can hold"
                )
            }
            Self::LengthMismatch {
                source_len,
                destination_len,
            } => write!(
                f,
                "the source has {source_len} elements and the destination {destination_len}"
            ),
            Self::ExtentMismatch {
                source_extent,
                destination_extent,
            } => write!(
                f,
                "the source has {source_extent} elements and the destination {destination_extent}"
            ),
            Self::Misaligned { address, align } => write!(
                f,
                "{address:#x} is not aligned to the {align} bytes that an element needs"
            ),
            Self::UnsafeFlags { call, bits } => {
                write!(f, "{call} is not safe with the flags {bits:#x}")
            }
            Self::Uneven { bytes, size } => {
                write!(f, "{bytes} bytes are no whole number of elements of {size}")
            }
            Self::PoolLimit {
                bytes,
                limit,
                reserved,
            } => write!(
                f,
                "a block of {bytes} bytes is beyond the limit of the pool: it has {reserved} of {limit} bytes"
            ),
            Self::ContextGone { call } => write!(
                f,
                "{call} was not called: the owner of its context has declared the context dead"
            ),
            Self::ForeignContext => f.write_str(
                "the context was made by other code; `Context::borrow_raw` takes it with a token of its life",
            ),
            Self::StillInUse { what } => write!(
                f,
                "{what} has other handles in use, and is closed when the last of them goes"
            ),
            Self::Borrowed { what } => write!(f, "{what} is in the hands of the host"),
            Self::OtherGraph => f.write_str("the node is of another graph"),
            Self::NodeGone => f.write_str("the node was taken out of its graph"),
            Self::GraphCycle => f.write_str("the edge would make nodes of a graph wait for each other"),
            Self::Instantiate(error) => error.fmt(f),
            Self::GraphUpdate(error) => error.fmt(f),
            Self::GraphOrder { other } => write!(
                f,
                "node {other} uses the same memory, and neither node waits for the other"
            ),
            Self::Capturing { what } => {
                write!(f, "{what} is not possible while a graph is captured")
            }
            Self::GraphMemoryKept => f.write_str("a node allocates memory that no node frees"),
            Self::NotUploaded => f.write_str(
                "kernels change nodes of the graph, which is to be uploaded before it is launched",
            ),
            Self::Unsupported { what } => write!(f, "{what} is not supported here"),
            Self::OutOfRange { len } => {
                write!(
                    f,
                    "the range is not within the {len} elements that there are"
                )
            }
            Self::AlreadyTaken { what } => write!(f, "{what} was given already"),
            Self::HostFunctionPanicked { message } => {
                write!(f, "a host function panicked: {message}")
            }
            Self::OtherContext { what } => {
                write!(
                    f,
                    "{what} belongs to another context than the object it is used with"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::OutOfMemory { source, .. } => Some(source),
            // The others print what they hold.
            _ => None,
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<TensorMapError> for Error {
    fn from(error: TensorMapError) -> Self {
        Self::TensorMap(Box::new(error))
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        if error.is_gone {
            Self::ContextGone { call: error.call() }
        } else {
            Self::Driver(error)
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The driver's status code, where there is one.
    #[must_use]
    pub fn status(&self) -> Option<CUresult> {
        match self {
            Self::Driver(error) | Self::OutOfMemory { source: error, .. } => Some(error.status()),
            Self::Jit(error) => Some(error.driver_error().status()),
            Self::Instantiate(error) => Some(error.driver_error().status()),
            Self::GraphUpdate(error) => Some(error.driver_error().status()),
            Self::ContextGone { .. } => Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            _ => None,
        }
    }

    /// What is known of the device, if this error tells that it is lost to this process.
    #[must_use]
    pub fn loss(&self) -> Option<DeviceLoss> {
        match self {
            Self::Driver(error) | Self::OutOfMemory { source: error, .. } => error.loss(),
            Self::Jit(error) => error.driver_error().loss(),
            _ => None,
        }
    }

    /// Names the bytes asked for where memory ran out.
    pub(crate) fn of_allocation(error: DriverError, bytes: usize) -> Self {
        match error.status() {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Self::OutOfMemory {
                bytes,
                source: error,
            },
            _ => error.into(),
        }
    }
}

const _: () = assert!(size_of::<Error>() <= 64 && size_of::<DriverError>() <= 24);
