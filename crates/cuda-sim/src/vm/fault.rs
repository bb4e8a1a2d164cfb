//! What goes wrong while a kernel runs, or before.

use std::fmt;

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
    /// The function that was running, which differs from the kernel inside a call.
    pub function: String,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx` of the first thread that failed.
    pub thread: [u32; 3],
    /// The line of the instruction in the PTX text, 0 if none.
    pub line: u32,
    /// File and line of the CUDA source, if the PTX has line information.
    pub source: Option<(String, u32)>,
    /// What happened, in words.
    pub message: String,
}

impl Fault {
    pub(crate) fn before_start(kind: FaultKind, kernel: &str, message: String) -> Self {
        Self {
            kind,
            kernel: kernel.to_owned(),
            function: kernel.to_owned(),
            block: [0; 3],
            thread: [0; 3],
            line: 0,
            source: None,
            message,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.message)?;
        if self.kind.before_start() {
            return Ok(());
        }
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, " (block {bx},{by},{bz} thread {tx},{ty},{tz}")?;
        if self.function != self.kernel {
            write!(f, ", in `{}`", self.function)?;
        }
        if self.line != 0 {
            write!(f, ", PTX line {}", self.line)?;
        }
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        f.write_str(")")
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
    /// 209: `.target` is newer than the device, or a family that it is not of.
    NoBinaryForGpu {
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
            Self::NoBinaryForGpu { target, device } => {
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
