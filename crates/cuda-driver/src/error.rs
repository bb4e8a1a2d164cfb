//! What can go wrong, told by values that need no driver to be printed.

use std::fmt;

use cuda_sys::image::newest_ptx;
use cuda_sys::{CUresult, Function, LoadError, Version};

use crate::memory::Extent;

/// The result of most calls of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A C call that answered something else than success.
///
/// Small and `Copy`: made without asking the driver anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DriverError {
    status: CUresult,
    call: &'static Function,
    driver: Version,
    /// The call was not made: its context was borrowed, and its owner has it no more.
    is_gone: bool,
}

impl DriverError {
    pub(crate) fn new(status: CUresult, call: &'static Function, driver: Version) -> Self {
        Self {
            status,
            call,
            driver,
            is_gone: false,
        }
    }

    /// Of a call that was not made, as its context is gone.
    pub(crate) fn gone(call: &'static Function, driver: Version) -> Self {
        Self {
            is_gone: true,
            ..Self::new(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, call, driver)
        }
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.status
    }

    /// The C function that answered it.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.call
    }

    /// The version of the driver that was called.
    #[must_use]
    pub fn driver_version(&self) -> Version {
        self.driver
    }

    /// Whether the device is lost to this process: every later call on it answers the same code, and only a
    /// new process gets it back.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(
            self.status,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUresult::CUDA_ERROR_INVALID_PC
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
        )
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            call,
            driver,
            is_gone,
        } = self;
        if *is_gone {
            return write!(
                f,
                "{call} was not called: the owner of its context has declared the context dead"
            );
        }
        if *status == CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER && call.since() > *driver {
            return write!(
                f,
                "{call} needs a driver of CUDA {}, this one is of CUDA {driver}",
                call.since()
            );
        }
        write!(f, "{call}: {status}")?;
        if self.is_sticky() {
            f.write_str("; the device is lost to this process")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DriverError {}

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
    /// An image could not be loaded.
    Jit(Box<JitError>),
    /// The arguments of a launch are not what the kernel takes.
    Argument(Box<ArgumentError>),
    /// Grid, block or shared memory of a launch are beyond a limit.
    LaunchConfig(Box<LaunchConfigError>),
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
    /// The call was not made: its context was [borrowed](crate::Context::borrow_raw), and its owner has declared it dead.
    ContextGone {
        /// The call that was not made.
        call: &'static Function,
    },
    /// The context was made by other code, which has not lent it to this crate.
    ForeignContext,
    /// An object was to be closed while other handles of it are in use. It is closed when the last of them goes.
    StillInUse {
        /// Which object.
        what: &'static str,
    },
    /// The device or driver cannot do it.
    Unsupported {
        /// What was asked for.
        what: &'static str,
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
            Self::Argument(error) => error.fmt(f),
            Self::LaunchConfig(error) => error.fmt(f),
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
            Self::Unsupported { what } => write!(f, "{what} is not supported here"),
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

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        if error.is_gone {
            Self::ContextGone { call: error.call }
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
            Self::Jit(error) => Some(error.source.status()),
            Self::ContextGone { .. } => Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
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

/// An image that the driver would not load, with what its compiler said.
#[derive(Clone, PartialEq, Eq)]
pub struct JitError {
    pub(crate) source: DriverError,
    pub(crate) log: String,
    pub(crate) ptx_version: Option<(u32, u32)>,
}

impl JitError {
    /// The call that failed.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// What the driver's compiler wrote.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The version that the PTX states.
    #[must_use]
    pub fn ptx_version(&self) -> Option<(u32, u32)> {
        self.ptx_version
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let driver = self.source.driver_version();
        if self.source.status() == CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            && let (Some((major, minor)), Some((top, sub))) = (self.ptx_version, newest_ptx(driver))
        {
            write!(
                f,
                ": it is of PTX {major}.{minor}, and this driver, of CUDA {driver}, reads up to PTX {top}.{sub}; \
                 compile to a cubin for the device, or with an NVRTC no newer than the driver"
            )?;
        }
        for line in self.log.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for JitError {}

/// The arguments of a launch against the kernel's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// Too many or too few.
    Count {
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        given: usize,
    },
    /// One of another size.
    Size {
        /// The kernel.
        kernel: String,
        /// Which argument, from 0.
        index: usize,
        /// The bytes of the parameter.
        expected: usize,
        /// The bytes of the argument.
        given: usize,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count {
                kernel,
                expected,
                given,
            } => {
                write!(
                    f,
                    "kernel {kernel} takes {expected} arguments, {given} were given"
                )
            }
            Self::Size {
                kernel,
                index,
                expected,
                given,
            } => write!(
                f,
                "argument {index} of kernel {kernel} is of {expected} bytes, {given} were given"
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

/// A launch configuration against the limits of device and kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchConfigError {
    /// The kernel.
    pub kernel: String,
    /// What is out of its range.
    pub what: &'static str,
    /// What it is.
    pub given: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
}

impl fmt::Display for LaunchConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            what,
            given,
            least,
            most,
        } = self;
        write!(
            f,
            "kernel {kernel}: {what} is {given}, allowed is {least} to {most}"
        )
    }
}

impl std::error::Error for LaunchConfigError {}

impl LaunchConfigError {
    /// Which quantity: `grid.x`, `threads per block`, …
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// What was asked for.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The limit.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }
}

const _: () = assert!(size_of::<Error>() <= 64 && size_of::<DriverError>() <= 24);
