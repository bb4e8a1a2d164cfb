//! Errors of loading and running kernels.

use std::fmt;

use cuda_sys::CUresult;

use crate::report::{Access, CodeLocation, Report, ReportKind};

/// The kind of a [`Fault`], named like the driver's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// 700: an address outside live memory.
    IllegalAddress,
    /// 702: the launch was cancelled, reached its instruction limit, or deadlocked.
    Timeout,
    /// 710: a device-side assertion failed.
    Assert,
    /// 714: a thread's stack overflowed.
    HardwareStack,
    /// 715: an instruction that is malformed or that the software device does not implement.
    IllegalInstruction,
    /// 716: an address that is not a multiple of the access size.
    MisalignedAddress,
    /// 717: an address in a state space that the instruction cannot access.
    InvalidAddressSpace,
    /// 718: a call through something that is not a function.
    InvalidPc,
    /// 719: `trap`.
    LaunchFailed,
    /// 1: the launch parameters are invalid (block too large, missing parameters); the kernel did
    /// not run.
    InvalidValue,
    /// 701: the launch needs too much shared memory or too many threads; the kernel did not run.
    OutOfResources,
    /// 720: the cooperative launch is too large; the kernel did not run.
    CooperativeTooLarge,
}

impl FaultKind {
    /// The `CUresult` code that the driver reports.
    pub fn code(self) -> u32 {
        match self {
            Self::IllegalAddress => 700,
            Self::Timeout => 702,
            Self::Assert => 710,
            Self::HardwareStack => 714,
            Self::IllegalInstruction => 715,
            Self::MisalignedAddress => 716,
            Self::InvalidAddressSpace => 717,
            Self::InvalidPc => 718,
            Self::LaunchFailed => 719,
            Self::InvalidValue => 1,
            Self::OutOfResources => 701,
            Self::CooperativeTooLarge => 720,
        }
    }

    /// Whether the kernel did not start, so that the launch call fails and the context stays
    /// usable.
    pub fn before_start(self) -> bool {
        matches!(
            self,
            Self::InvalidValue | Self::OutOfResources | Self::CooperativeTooLarge
        )
    }
}

/// The reason and the place of a failed launch.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The name of the kernel.
    pub kernel: String,
    /// The first thread that failed, and the instruction that it executed.
    pub at: CodeLocation,
    /// The memory access that failed.
    pub access: Option<Access>,
    /// Further details.
    pub detail: Detail,
    /// A description of the failure.
    pub message: String,
}

/// Further details of a [`Fault`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// No further details.
    #[default]
    None,
    /// The memory had been freed.
    Freed,
    /// Threads wait at a barrier for other threads that never arrive.
    Barrier {
        /// `threadIdx` of the threads that did not arrive.
        missing: Vec<[u32; 3]>,
        /// The place of the first of them.
        first: Option<CodeLocation>,
    },
}

impl Fault {
    pub(crate) fn before_start(kind: FaultKind, kernel: &str, message: String) -> Self {
        Self {
            kind,
            kernel: kernel.to_owned(),
            at: CodeLocation::default(),
            access: None,
            detail: Detail::None,
            message,
        }
    }

    /// The report for the developer.
    pub(crate) fn report(&self) -> Report {
        let (missing, other) = match &self.detail {
            Detail::Barrier { missing, first } => (missing.clone(), first.clone()),
            Detail::None | Detail::Freed => (Vec::new(), None),
        };
        Report {
            kind: match (self.kind, &self.detail) {
                (_, Detail::Freed) => ReportKind::UseAfterFree,
                (_, Detail::Barrier { .. }) => ReportKind::BarrierDivergence,
                (FaultKind::IllegalAddress, _) if self.access.is_some() => ReportKind::OutOfBounds,
                (FaultKind::MisalignedAddress, _) => ReportKind::Misaligned,
                _ => ReportKind::Fault,
            },
            device: 0,
            status: Some(CUresult(self.kind.code())),
            kernel: self.kernel.clone(),
            at: self.at.clone(),
            other,
            access: self.access,
            missing,
            times: 1,
            message: self.message.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.before_start() {
            return write!(f, "kernel `{}`: {}", self.kernel, self.message);
        }
        self.report().fmt(f)
    }
}

impl std::error::Error for Fault {}

/// The error of loading PTX into a [`Program`](super::Program) or an [`Image`](super::Image).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// 218: the PTX text is invalid.
    InvalidPtx(String),
    /// 222: `.version` is newer than the driver supports.
    UnsupportedVersion {
        /// The version of the text.
        found: (u32, u32),
        /// The newest supported version.
        supported: (u32, u32),
    },
    /// 218: `.target` is newer than the device, or specific to another family of devices.
    OtherTarget {
        /// The target of the text, such as `sm_90a`.
        target: String,
        /// The device, such as `sm_80`.
        device: String,
    },
    /// A symbol is declared `.extern` and no module defines it.
    Unresolved(String),
    /// Strict loading only: the software device does not implement an instruction.
    UnknownInstruction {
        /// The name of the instruction.
        mnemonic: String,
        /// The line of the PTX text.
        line: u32,
    },
    /// The device memory for a variable of the module cannot be allocated.
    OutOfMemory {
        /// The name of the variable.
        variable: String,
        /// Its size in bytes.
        size: u64,
        /// The number of free bytes.
        free: u64,
        /// The size of the device memory in bytes.
        total: u64,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPtx(message) => f.write_str(message),
            Self::UnsupportedVersion { found, supported } => write!(
                f,
                "ptxas fatal   : Unsupported .version {}.{}; current version is '{}.{}'",
                found.0, found.1, supported.0, supported.1
            ),
            Self::OtherTarget { target, device } => {
                write!(f, "PTX for {target} does not run on a {device} device")
            }
            Self::Unresolved(name) => {
                write!(f, "ptxas fatal   : Unresolved extern function '{name}'")
            }
            Self::UnknownInstruction { mnemonic, line } => {
                write!(
                    f,
                    "line {line}: the software device does not implement `{mnemonic}`"
                )
            }
            Self::OutOfMemory {
                variable,
                size,
                free,
                total,
            } => write!(
                f,
                "cannot allocate {size} bytes for the variable {variable}; the device has {free} \
                 free of {total} bytes"
            ),
        }
    }
}

impl std::error::Error for LoadError {}
