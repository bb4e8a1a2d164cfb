//! The category of each error, and advice on what to try.

use cuda_sys::CUresult;

use super::category::{Category, INSTALL, advice};
use super::{DriverError, Error};

/// Categories and advice.
impl DriverError {
    /// The category of the status; [`Category::Other`] for a code that these bindings do not know.
    #[must_use]
    pub fn category(&self) -> Category {
        Category::of(self.status()).unwrap_or(Category::Other)
    }

    /// Returns what a user can try, if there is something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self.next_step() {
            None => advice(self.status()),
            step => step,
        }
    }

    /// Whether the driver lacks memory on the device or on the host.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.status() == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

/// Categories and advice.
impl Error {
    /// The error of the driver call that failed, if there was one.
    #[must_use]
    pub fn driver_error(&self) -> Option<DriverError> {
        match self {
            Self::Driver(error) | Self::OutOfMemory { source: error, .. } => Some(*error),
            Self::Jit(error) => Some(error.driver_error()),
            Self::LaunchLimit(error) => Some(error.driver_error()),
            Self::Instantiate(error) => Some(error.driver_error()),
            Self::GraphUpdate(error) => Some(error.driver_error()),
            Self::Array(error) => error.driver_error(),
            _ => None,
        }
    }

    /// The category of the error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Driver(error) | Self::OutOfMemory { source: error, .. } => error.category(),
            Self::Load(_) | Self::Forked { .. } => Category::Initialization,
            Self::Compile { .. } | Self::Jit(_) | Self::Lto(_) | Self::Image(_) | Self::Ptx(_) => {
                Category::Compile
            }
            Self::File { .. } | Self::Cupti(_) => Category::System,
            Self::LaunchConfig(_)
            | Self::LaunchLimit(_)
            | Self::Argument(_)
            | Self::SafeLaunch(_) => Category::Launch,
            Self::Violation(_) => Category::Kernel,
            Self::NoSuchDevice { .. } => Category::Device,
            Self::SizeOverflow { .. }
            | Self::LengthMismatch { .. }
            | Self::ExtentMismatch { .. }
            | Self::Misaligned { .. }
            | Self::Uneven { .. }
            | Self::HostGuardExists { .. }
            | Self::PoolLimit { .. } => Category::Memory,
            Self::ContextGone { .. } | Self::ForeignContext { .. } | Self::OtherContext { .. } => {
                Category::Context
            }
            Self::ChildChanged
            | Self::OtherGraph
            | Self::NodeGone
            | Self::GraphCycle { .. }
            | Self::Instantiate(_)
            | Self::GraphUpdate(_)
            | Self::GraphOrder { .. }
            | Self::GraphOrderReversed { .. }
            | Self::UsedByOtherCode
            | Self::GraphMemoryKept { .. }
            | Self::NotUploaded
            | Self::EagerCapture { .. }
            | Self::EmptyCapture { .. }
            | Self::OutlivesCapture { .. }
            | Self::MemoryOfCapture
            | Self::NotYetWritten
            | Self::Capturing { .. } => Category::Graph,
            Self::Array(error) => match error.driver_error() {
                Some(_) => Category::Support,
                None => Category::Argument,
            },
            Self::Exchange(_)
            | Self::TensorMap(_)
            | Self::NoSuchFunction { .. }
            | Self::NoSuchGlobal { .. }
            | Self::ConstantVariable { .. }
            | Self::NulByte { .. }
            | Self::UnsafeFlags { .. }
            | Self::OutOfRange(_) => Category::Argument,
            Self::GlobalInUse { .. }
            | Self::StillInUse { .. }
            | Self::AlreadyTaken { .. }
            | Self::Internal { .. } => Category::State,
            Self::Unsupported { .. } => Category::Support,
            Self::HostFunctionPanicked { .. } => Category::HostFunction,
        }
    }

    /// Returns what a user can try, if a driver call failed and there is something. Most other
    /// errors say it in their text.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Load(_) => Some(INSTALL),
            _ => self.driver_error()?.advice(),
        }
    }

    /// Whether memory ran out: on the device, on the host, or within the limit of a pool.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::PoolLimit { .. } => true,
            _ => self
                .driver_error()
                .is_some_and(|error| error.is_out_of_memory()),
        }
    }

    /// Whether this process can no longer use the device: see [`DriverError::is_sticky`].
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        self.driver_error().is_some_and(|error| error.is_sticky())
    }
}
