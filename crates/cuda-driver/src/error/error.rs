//! The type [`Error`].

use std::fmt;
use std::io;
use std::path::PathBuf;

use cuda_sys::image::LoadableError;
use cuda_sys::{CUresult, Function};

use super::call::NotMade;
use super::{
    AllocationKind, ArgumentError, ArrayError, CuptiError, DeviceLoss, DriverError, ExchangeError,
    GraphUpdateError, InstantiateError, JitError, LaunchConfigError, LaunchLimitError, LoadError,
    LtoError, PtxError, RangeError, SafeLaunchError, TensorMapError, Violations,
};
use crate::types::Extent;

/// The result of most calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of this crate.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
///
/// ```
/// use cuda_driver::error::Category;
/// use cuda_driver::{DeviceBuffer, Error};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // Falls back to a smaller buffer if there is not enough memory.
/// let buffer = match DeviceBuffer::<u8>::zeroed(&stream, 1 << 50) {
///     Err(Error::OutOfMemory { bytes, .. }) => {
///         assert_eq!(bytes, 1 << 50);
///         DeviceBuffer::zeroed(&stream, 1 << 20)?
///     }
///     result => result?,
/// };
///
/// // The message has the range and the limit. No call of the driver failed.
/// let error = buffer.slice(..(1 << 20) + 1).unwrap_err();
/// assert_eq!(error.category(), Category::Argument);
/// assert_eq!(error.status(), None);
/// assert!(error.to_string().contains("1048577"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library could not be loaded.
    Load(LoadError),
    /// A C call failed.
    Driver(DriverError),
    /// An allocation failed for lack of memory.
    OutOfMemory {
        /// The kind of the allocation.
        kind: AllocationKind,
        /// The number of bytes requested.
        bytes: usize,
        /// The free memory of the device in bytes after the failure; 0 if it is not known.
        free: usize,
        /// The memory of the device in bytes; 0 if it is not known, or if it is not what limits
        /// this kind of allocation.
        total: usize,
        /// The call that failed.
        source: DriverError,
    },
    /// An image could not be loaded, or images could not be linked.
    Jit(Box<JitError>),
    /// LTO-IR could not be linked.
    Lto(Box<LtoError>),
    /// The profiler cannot use CUPTI.
    Cupti(Box<CuptiError>),
    /// CUDA C++ could not be compiled and loaded; the error of
    /// [`Module::from_source`](crate::Module::from_source), converted by `?`.
    Compile {
        /// The text of the error, with the messages of the compiler.
        message: Box<str>,
    },
    /// A file could not be read.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        kind: io::ErrorKind,
    },
    /// A file does not contain an image.
    Image(Box<LoadableError>),
    /// Bytes are not PTX text, or a text could end the process in the driver's compiler.
    Ptx(Box<PtxError>),
    /// The arguments of a launch do not match the parameters of the kernel.
    Argument(Box<ArgumentError>),
    /// The grid, the block or the shared memory of a launch exceeds a limit.
    LaunchConfig(Box<LaunchConfigError>),
    /// The driver refused the number of blocks of a launch.
    LaunchLimit(Box<LaunchLimitError>),
    /// A tensor cannot be exchanged with another library.
    Exchange(Box<ExchangeError>),
    /// A kernel cannot be launched safely.
    SafeLaunch(Box<SafeLaunchError>),
    /// Kernels that were launched with checks were about to access memory outside of their
    /// arguments, or trapped. The accesses were not made, and the context is usable. The call that
    /// fails with this error has done its work.
    Violation(Violations),
    /// The hardware cannot use a tensor map, or the map was made for other memory.
    TensorMap(Box<TensorMapError>),
    /// An array, a texture or a surface cannot be created or used as requested.
    Array(Box<ArrayError>),
    /// The driver has no device with this ordinal.
    NoSuchDevice {
        /// The ordinal requested.
        ordinal: u32,
        /// The number of devices.
        count: u32,
        /// The origin of the driver: a file, or the name of a software driver.
        driver: String,
    },
    /// The module has no kernel with this name.
    NoSuchFunction {
        /// The name requested.
        name: String,
        /// The kernels of the module; `None` if neither the image nor the driver lists them.
        kernels: Option<Vec<String>>,
    },
    /// The module has no variable with this name.
    NoSuchGlobal {
        /// The name requested.
        name: String,
    },
    /// Another [`Global`](crate::jit::Global) of this variable exists.
    GlobalInUse {
        /// The name of the variable.
        name: String,
    },
    /// A variable of a module can no longer be looked up, because safe launches read it as a
    /// constant table.
    ConstantVariable {
        /// The name of the variable.
        name: String,
    },
    /// A string contains a NUL byte, and cannot be passed to C.
    NulByte {
        /// The string that contains it.
        what: &'static str,
        /// The offset of the first NUL byte.
        position: usize,
    },
    /// The size of an array in bytes exceeds [`usize::MAX`].
    SizeOverflow {
        /// The number of elements.
        len: usize,
        /// The size of one element in bytes.
        size: usize,
    },
    /// The source and the destination of a copy have different lengths.
    LengthMismatch {
        /// The number of elements of the source.
        source_len: usize,
        /// The number of elements of the destination.
        destination_len: usize,
    },
    /// The source and the destination of a two- or three-dimensional copy have different extents.
    ExtentMismatch {
        /// The extent of the source.
        source_extent: Extent,
        /// The extent of the destination.
        destination_extent: Extent,
    },
    /// An address is not aligned for its element type.
    Misaligned {
        /// The address.
        address: u64,
        /// The alignment of an element in bytes.
        align: usize,
    },
    /// Some flags require a guarantee from the caller, which a safe function cannot rely on.
    UnsafeFlags {
        /// The C function that takes the flags.
        call: &'static Function,
        /// The bits that are not allowed.
        bits: u32,
    },
    /// The size of a view or of a variable of a module is not a multiple of the element size.
    Uneven {
        /// The name of the variable, or `None` for a view.
        variable: Option<Box<str>>,
        /// The number of bytes.
        bytes: usize,
        /// The size of an element in bytes.
        size: usize,
    },
    /// An allocation would exceed the limit of a caching pool.
    PoolLimit {
        /// The size in bytes of the block that the pool would have to allocate.
        bytes: usize,
        /// The limit of the pool in bytes.
        limit: usize,
        /// The number of bytes that the pool holds, in use and free.
        reserved: usize,
    },
    /// The call was not made, because its context no longer exists.
    ContextGone {
        /// The call that was not made.
        call: &'static Function,
        /// Whether other code has reset the primary context. Otherwise the context was
        /// [borrowed](crate::Context::borrow_raw), and its owner has declared it dead.
        is_reset: bool,
    },
    /// The call was not made, because this process was forked after the driver was loaded. A child
    /// process cannot use the driver of its parent, and frees nothing.
    Forked {
        /// The call that was not made.
        call: &'static Function,
    },
    /// The context was created by other code, and was not
    /// [borrowed](crate::Context::borrow_raw).
    ForeignContext {
        /// The object that belongs to the context, or the thread on which it is current.
        of: &'static str,
    },
    /// An object cannot be closed, changed or mapped again while it is in use. If the failed call
    /// took the object by value, the object is released when its last user is dropped.
    StillInUse {
        /// The object.
        what: &'static str,
        /// The kinds of objects that may be using it.
        by: &'static str,
    },
    /// The memory cannot be used while the host holds a guard of it. Drop the guard first.
    HostGuardExists {
        /// The memory.
        what: &'static str,
    },
    /// Another thread changed a graph while it was being added to another graph as a child.
    ChildChanged,
    /// A node belongs to another graph, or to a graph from which the executable was not
    /// instantiated.
    OtherGraph,
    /// A node was removed from its graph.
    NodeGone,
    /// An edge would create a cycle in a graph.
    GraphCycle {
        /// The index of the node at which the edge begins, in the order in which nodes were added.
        from: u32,
        /// The index of the node to which the edge leads.
        to: u32,
    },
    /// A graph could not be instantiated.
    Instantiate(Box<InstantiateError>),
    /// An executable graph could not be updated from another graph.
    GraphUpdate(Box<GraphUpdateError>),
    /// Two nodes of a graph would use the same memory, with no dependency between them.
    GraphOrder {
        /// The index of the other node, in the order in which nodes were added.
        other: u32,
    },
    /// Two nodes of a graph would use the same memory in the order in which they were added, but
    /// the one that was added first depends on the other.
    GraphOrderReversed {
        /// The index of the other node, in the order in which nodes were added.
        other: u32,
    },
    /// The operation would invalidate a [capture](crate::graph::Capture) in progress.
    Capturing {
        /// The operation.
        what: &'static str,
    },
    /// The calls on a stream are being captured by an
    /// [eager capture](crate::graph::EagerCapture), which cannot capture this one.
    EagerCapture {
        /// The call.
        call: &'static str,
        /// Whether another thread captures the calls on the stream.
        is_elsewhere: bool,
    },
    /// A [capture](crate::graph::Capture) has ended without a call that it could capture.
    EmptyCapture {
        /// Whether it was an [eager capture](crate::graph::EagerCapture).
        is_eager: bool,
    },
    /// Buffers that were created in an [eager capture](crate::graph::EagerCapture) still exist at
    /// its end. Their memory belongs to the graph, which has to free it.
    OutlivesCapture {
        /// The number of these buffers.
        buffers: usize,
        /// Their size in bytes.
        bytes: usize,
    },
    /// The memory belongs to a graph that is being captured, or to one whose capture has ended.
    MemoryOfCapture,
    /// A buffer that was created in
    /// [`EagerCapture::outputs`](crate::graph::EagerCapture::outputs) is used before the first
    /// launch of the captured graph, which writes it.
    NotYetWritten,
    /// Other code uses the memory in a closure of [`Stream::using`](crate::Stream::using) that this
    /// thread runs, in a way that conflicts.
    UsedByOtherCode,
    /// A graph does not free memory that it allocates.
    GraphMemoryKept {
        /// The index of the node that allocates the memory, in the order in which nodes were added.
        node: u32,
    },
    /// The graph has nodes that kernels can update, and has not been uploaded since it was
    /// instantiated, or since the host changed one of these nodes.
    NotUploaded,
    /// The device, the driver or this crate does not support the operation. If the driver lacks a
    /// setting, and not the whole function, this is the error; a function that it lacks is an
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER`.
    Unsupported {
        /// The operation. If the text contains `; `, the part after it says what to do instead.
        what: &'static str,
    },
    /// This crate did not do what it should: please report it.
    Internal {
        /// A description of the failure.
        what: &'static str,
    },
    /// A range, an index or a number does not fit the length of the object that it is applied to.
    OutOfRange(Box<RangeError>),
    /// A future was polled again after it returned its result.
    AlreadyTaken {
        /// The result.
        what: &'static str,
    },
    /// A closure that the driver called panicked.
    HostFunctionPanicked {
        /// The message of the panic.
        message: String,
    },
    /// Objects of different contexts, or of different drivers, were used together.
    OtherContext {
        /// The object that belongs to the other context or driver.
        what: &'static str,
        /// The argument of the launch that refers to the object, counted from 1.
        argument: Option<u8>,
        /// The context or driver of the object.
        of: Box<str>,
        /// The context or driver of the object that it was used with.
        used_with: Box<str>,
    },
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::OutOfMemory { source, .. } => Some(source),
            // The other variants print the error that they contain.
            _ => None,
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<RangeError> for Error {
    fn from(error: RangeError) -> Self {
        Self::OutOfRange(Box::new(error))
    }
}

impl From<ExchangeError> for Error {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(Box::new(error))
    }
}

impl From<CuptiError> for Error {
    fn from(error: CuptiError) -> Self {
        Self::Cupti(Box::new(error))
    }
}

impl From<TensorMapError> for Error {
    fn from(error: TensorMapError) -> Self {
        Self::TensorMap(Box::new(error))
    }
}

impl From<ArrayError> for Error {
    fn from(error: ArrayError) -> Self {
        Self::Array(Box::new(error))
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        match error.not_made {
            Some(NotMade::ContextGone) => Self::ContextGone {
                call: error.call(),
                is_reset: false,
            },
            Some(NotMade::Reset) => Self::ContextGone {
                call: error.call(),
                is_reset: true,
            },
            Some(NotMade::Forked) => Self::Forked { call: error.call() },
            Some(NotMade::Capturing) => Self::Capturing {
                what: "a call on a stream that other code captures or on memory last used there",
            },
            Some(NotMade::InEvent) | None => Self::Driver(error),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The status code of the driver, if a driver call failed, or was not made because its context
    /// was declared dead.
    #[must_use]
    pub fn status(&self) -> Option<CUresult> {
        match self {
            Self::ContextGone { .. } => Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            Self::Forked { .. } => Some(CUresult::CUDA_ERROR_NOT_INITIALIZED),
            _ => Some(self.driver_error()?.status()),
        }
    }

    /// The report on the lost device, if this error means that this process can no longer use the
    /// device.
    #[must_use]
    pub fn loss(&self) -> Option<DeviceLoss> {
        self.driver_error()?.loss()
    }
}

const _: () = assert!(size_of::<Error>() <= 64 && size_of::<DriverError>() <= 24);
