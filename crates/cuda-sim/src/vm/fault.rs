//! What goes wrong while a kernel runs, or before.

use std::fmt;

use cuda_sys::CUresult;

use crate::report::{Access, Place, Report, ReportKind};

/// The kind of a [`Fault`], named as the driver's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// 700: an address outside live memory.
    IllegalAddress,
    /// 702: the launch was cancelled, used up its instructions, or no thread can go on.
    Timeout,
    /// 710: a device-side assertion failed.
    Assert,
    /// 714: the stack of a thread is used up.
    HardwareStack,
    /// 715: an instruction that the software device does not have.
    IllegalInstruction,
    /// 716: an address that is not a multiple of the access size.
    MisalignedAddress,
    /// 717: an address in a space where the instruction does not go.
    InvalidAddressSpace,
    /// 718: a call through something that is not a function.
    InvalidPc,
    /// 719: `trap`.
    LaunchFailed,
    /// 1: the launch itself is wrong (block too large, missing parameters); nothing ran.
    InvalidValue,
    /// 701: too much shared memory or too many threads; nothing ran.
    OutOfResources,
    /// 720: a cooperative launch that is too large; nothing ran.
    CooperativeTooLarge,
}

impl FaultKind {
    /// The `CUresult` that the driver reports.
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

    /// Whether the kernel never started: the error of the launch call, not of the device.
    pub fn before_start(self) -> bool {
        matches!(
            self,
            Self::InvalidValue | Self::OutOfResources | Self::CooperativeTooLarge
        )
    }
}

/// Why a launch failed, and where.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What kind of failure.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: String,
    /// The first thread that failed, and where it stood.
    pub at: Place,
    /// The access to memory that failed.
    pub access: Option<Access>,
    /// What else is known of it.
    pub detail: Detail,
    /// What happened, in words.
    pub message: String,
}

/// What is known of a [`Fault`] besides its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// The memory was freed.
    Freed,
    /// Threads wait at a barrier for others, which do not come.
    Barrier {
        /// `threadIdx` of those who do not come.
        missing: Vec<[u32; 3]>,
        /// Where the first of them is.
        first: Option<Place>,
    },
}

impl Fault {
    pub(crate) fn before_start(kind: FaultKind, kernel: &str, message: String) -> Self {
        Self {
            kind,
            kernel: kernel.to_owned(),
            at: Place::default(),
            access: None,
            detail: Detail::None,
            message,
        }
    }

    /// What the developer is told.
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

/// Why PTX cannot become a [`Program`](super::Program) or an [`Image`](super::Image).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// 218: the text is wrong.
    InvalidPtx(String),
    /// 222: `.version` is newer than the driver knows.
    UnsupportedVersion {
        /// What the text asks for.
        found: (u32, u32),
        /// The newest version that is known.
        supported: (u32, u32),
    },
    /// 218: `.target` is newer than the device, or a family that it is not of.
    OtherTarget {
        /// The target of the text, as `sm_90a`.
        target: String,
        /// The device, as `sm_80`.
        device: String,
    },
    /// A symbol is declared `.extern` and nobody defines it.
    Unresolved(String),
    /// Strict loading: an instruction that the software device does not have.
    UnknownInstruction {
        /// The instruction.
        mnemonic: String,
        /// Its line.
        line: u32,
    },
    /// No device memory for the variables.
    OutOfMemory(u64),
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
                write!(f, "PTX for {target} does not run on a device of {device}")
            }
            Self::Unresolved(name) => {
                write!(f, "ptxas fatal   : Unresolved extern function '{name}'")
            }
            Self::UnknownInstruction { mnemonic, line } => {
                write!(
                    f,
                    "line {line}: the software device has no instruction `{mnemonic}`"
                )
            }
            Self::OutOfMemory(size) => write!(f, "no room for {size} bytes of variables"),
        }
    }
}

impl std::error::Error for LoadError {}
