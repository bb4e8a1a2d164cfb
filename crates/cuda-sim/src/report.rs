//! Reports of errors in kernels, copies and fills.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use cuda_sys::CUresult;

/// An error of a kernel, a copy or a fill: its kind, its place and how often it occurred.
///
/// An error that ends a kernel, or prevents its launch, has a [`status`](Self::status), which the
/// program gets as it would from a GPU. An error that only the checks of
/// [`Builder`](crate::Builder) find has no status, and the kernel continues. `Display` prints one
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The kind of error.
    pub kind: ReportKind,
    /// The ordinal of the device. For a copy or a fill, it is the device that owns the memory.
    pub device: usize,
    /// The status that the program gets, if the error ends the kernel or prevents its launch.
    pub status: Option<CUresult>,
    /// The name of the kernel; empty for a copy or a fill.
    pub kernel: String,
    /// The first thread that caused the error, and its position in the code.
    pub at: CodeLocation,
    /// For a race, the thread that made the earlier access. For a barrier, a thread that does not
    /// reach it, and the position of that thread or the place where it returned.
    pub other: Option<CodeLocation>,
    /// The memory access, if the error is one.
    pub access: Option<Access>,
    /// For a barrier, the `threadIdx` of each thread of the block that does not reach it.
    pub missing: Vec<[u32; 3]>,
    /// The number of times that threads of this launch made the same error at the same instruction.
    pub times: u64,
    /// A description of the error.
    pub message: String,
}

/// The environment variable with the path of a file that receives all reports of a process.
const FILE_VARIABLE: &str = "CUDA_SIM_REPORTS";

impl Report {
    /// Appends this report as one line to the file that `CUDA_SIM_REPORTS` names, if it is set. The
    /// launcher of the software device reads it.
    pub(crate) fn append_to_file(&self) {
        static FILE: OnceLock<Option<File>> = OnceLock::new();
        let file = FILE.get_or_init(|| {
            let path = env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty())?;
            match File::options().append(true).create(true).open(&path) {
                Ok(file) => Some(file),
                Err(error) => {
                    let path = path.display();
                    eprintln!("cuda-sim: cannot open {path}, which {FILE_VARIABLE} names: {error}");
                    None
                }
            }
        });
        if let Some(mut file) = file.as_ref() {
            let line = format!("device {}: {self}\n", self.device);
            // One write for each line, so that the lines of several processes do not mix. An error
            // is ignored, because the report is also printed.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

/// The kind of error that a [`Report`] describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReportKind {
    /// An access outside of allocated memory.
    OutOfBounds,
    /// An access to freed memory.
    UseAfterFree,
    /// An access at an address that is not a multiple of the access size.
    Misaligned,
    /// A read of an uninitialized byte.
    UninitializedRead,
    /// Two threads access the same byte of shared memory without synchronization, and at least one
    /// of the accesses is a write.
    Race(Hazard),
    /// A register of an asynchronous product (`wgmma`) that a thread uses without waiting for the
    /// product, or without a fence before it.
    AsyncRegister,
    /// A barrier that not all threads reach.
    BarrierDivergence,
    /// A write to memory that the program has passed to the launch as read-only.
    ReadOnlyWrite,
    /// An instruction that the software device does not implement. The kernel that contains it was
    /// not launched.
    Unsupported,
    /// Another fault, identified by `status`: `trap`, a failed assertion, a stack overflow.
    Fault,
}

/// The order in which two unsynchronized accesses happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// A read of a byte that another thread wrote.
    ReadAfterWrite,
    /// A write of a different value to a byte that another thread read.
    WriteAfterRead,
    /// A write of a different value to a byte that another thread wrote.
    WriteAfterWrite,
}

/// The position of a thread in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeLocation {
    /// The function; inside a call, it differs from the kernel.
    pub function: String,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
    /// The line of the instruction in the PTX text, or 0 if unknown.
    pub ptx_line: u32,
    /// The line of the CUDA source, if the PTX contains line information (NVRTC's `-lineinfo`).
    pub source: Option<SourceLine>,
}

/// A line of CUDA source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLine {
    /// The file name, as the compiler wrote it.
    pub file: String,
    /// The line number, counted from 1.
    pub line: u32,
    /// The line of the call into which the function with this line was inlined.
    pub inlined_at: Option<Box<SourceLine>>,
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The memory space.
    pub space: MemorySpace,
    /// The address: a device address, or an offset in shared memory, local memory or the
    /// parameters.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
}

/// A memory space of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemorySpace {
    /// Device memory, or host memory that the device can access.
    Global,
    /// The memory that the threads of a block share.
    Shared,
    /// The private memory of a thread.
    Local,
    /// The parameters of the kernel.
    Param,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global memory",
            Self::Shared => "shared memory",
            Self::Local => "local memory",
            Self::Param => "the parameters",
        })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match &self.inlined_at {
            Some(outer) => write!(f, " inlined at {outer}"),
            None => Ok(()),
        }
    }
}

impl CodeLocation {
    /// Writes the position; the function is named only if it differs from `kernel`.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, kernel: &str) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "block {bx},{by},{bz} thread {tx},{ty},{tz}")?;
        if self.function != kernel && !self.function.is_empty() {
            write!(f, ", in `{}`", self.function)?;
        }
        if self.ptx_line != 0 {
            write!(f, ", PTX line {}", self.ptx_line)?;
        }
        match &self.source {
            Some(source) => write!(f, ", {source}"),
            None => Ok(()),
        }
    }
}

impl Report {
    /// Creates the report of a kernel that cannot be launched because of the instruction in this
    /// line of the PTX.
    pub(crate) fn not_launched(kernel: &str, ptx_line: u32, message: &str) -> Self {
        Self {
            kind: ReportKind::Unsupported,
            device: 0,
            status: Some(CUresult::CUDA_ERROR_NOT_SUPPORTED),
            kernel: kernel.to_owned(),
            at: CodeLocation {
                ptx_line,
                ..CodeLocation::default()
            },
            other: None,
            access: None,
            missing: Vec::new(),
            times: 1,
            message: format!("{message}; the kernel was not launched"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kernel.is_empty() {
            return f.write_str(&self.message);
        }
        if self.kind == ReportKind::Unsupported {
            let (kernel, line) = (&self.kernel, self.at.ptx_line);
            return write!(f, "kernel `{kernel}`: {} (PTX line {line})", self.message);
        }
        write!(f, "kernel `{}`: {} (", self.kernel, self.message)?;
        self.at.write(f, &self.kernel)?;
        if let Some(other) = &self.other {
            f.write_str("; other thread: ")?;
            other.write(f, &self.kernel)?;
        }
        f.write_str(")")?;
        if self.times > 1 {
            write!(f, ", {} times", self.times)?;
        }
        Ok(())
    }
}
