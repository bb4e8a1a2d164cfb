//! What kernels, copies and fills did wrong, told to the developer.

use std::fmt;

use cuda_sys::CUresult;

/// Something that a kernel, a copy or a fill did wrong: what, where, how often.
///
/// What ends a kernel has a [`status`](Self::status), which the program gets as from a GPU. What
/// only the checks of [`Builder`](crate::Builder) find has none: the kernel goes on. Displays as
/// one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What it is.
    pub kind: ReportKind,
    /// The number of the device: for a copy or a fill, that of the memory.
    pub device: usize,
    /// What the program gets for it.
    pub status: Option<CUresult>,
    /// The kernel; empty for a copy or a fill.
    pub kernel: String,
    /// The first thread that did it, and where it stood.
    pub at: Place,
    /// For a race, the thread whose access came before. For a barrier, one that does not come and
    /// where it is, or ended.
    pub other: Option<Place>,
    /// The access to memory, if it is about one.
    pub access: Option<Access>,
    /// For a barrier, `threadIdx` of the threads of the block that are missing.
    pub missing: Vec<[u32; 3]>,
    /// How many threads did the same at the same instruction in this launch, each time counted.
    pub times: u64,
    /// What happened, in words.
    pub message: String,
}

/// What a [`Report`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReportKind {
    /// An address outside what is allocated.
    OutOfBounds,
    /// An address in memory that has been freed.
    UseAfterFree,
    /// An address that is not a multiple of the size of the access.
    Misaligned,
    /// A byte that nobody has written is read.
    UninitialisedRead,
    /// Two threads use the same byte of shared memory, one of them writes, and nothing orders them.
    Race(Hazard),
    /// Not all threads come to a barrier.
    BarrierDivergence,
    /// Another fault, which `status` names: `trap`, an assertion, a stack that is used up.
    Fault,
}

/// In which order two accesses came that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// A read of what another thread wrote.
    ReadAfterWrite,
    /// A write of another value to what another thread read.
    WriteAfterRead,
    /// A write of another value to what another thread wrote.
    WriteAfterWrite,
}

/// Where a thread stood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The function, which differs from the kernel inside a call.
    pub function: String,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
    /// The line of the instruction in the PTX text, 0 if none.
    pub ptx_line: u32,
    /// The line of the CUDA source, if the PTX says so: NVRTC's `-lineinfo`.
    pub source: Option<SourceLine>,
}

/// A line of CUDA source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLine {
    /// The file, as the compiler names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The line that the function of this one was inlined at.
    pub inlined_at: Option<Box<SourceLine>>,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// Which memory.
    pub space: MemorySpace,
    /// The address: of the device, or in shared memory, local memory or the parameters.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemorySpace {
    /// The memory of the device, or of the host where the device may use it.
    Global,
    /// Of a block.
    Shared,
    /// Of a thread.
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

impl Place {
    /// Writes where it is, in a kernel of that name.
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kernel.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "kernel `{}`: {} (", self.kernel, self.message)?;
        self.at.write(f, &self.kernel)?;
        if let Some(other) = &self.other {
            f.write_str("; the other is ")?;
            other.write(f, &self.kernel)?;
        }
        f.write_str(")")?;
        if self.times > 1 {
            write!(f, ", {} times", self.times)?;
        }
        Ok(())
    }
}
