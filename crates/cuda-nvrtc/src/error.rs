//! The errors of this crate. Each message names the cause and, where there is one, the remedy.

use std::fmt;
use std::io;
use std::time::Duration;

use cuda_sys::nvrtc::nvrtcResult;
use cuda_sys::{Function, LoadError, Version};

use crate::missing_header::MissingHeader;
use crate::{Arch, Diagnostic, Log, Severity};

/// The reason why an operation failed.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` print `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// NVRTC could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A text for NVRTC contains a NUL byte, at which C would end it.
    #[error("there is a NUL byte at offset {position} of {place}")]
    Nul {
        /// The text: the source, an option, …
        place: String,
        /// The offset of the byte in the text.
        position: usize,
    },
    /// Two headers in memory have the same name.
    #[error("two headers have the name {name:?}, and NVRTC takes only one: remove or rename one")]
    HeaderTwice {
        /// The name.
        name: String,
    },
    /// A text begins with a UTF-8 byte order mark.
    #[error(
        "{place} begins with a UTF-8 byte order mark (EF BB BF), which NVRTC does not accept: save \
         it without the mark"
    )]
    ByteOrderMark {
        /// The text: the source or a header.
        place: String,
    },
    /// This NVRTC does not have a function.
    #[error("{function} requires NVRTC {} or newer; the loaded version is {found}", .function.since())]
    MissingFunction {
        /// The function. [`Function::since`] is the version that introduced it.
        function: &'static Function,
        /// The version of this NVRTC.
        found: Version,
    },
    /// This NVRTC does not know an option.
    #[error("the option {option} requires NVRTC {since} or newer; the loaded version is {found}")]
    OptionTooNew {
        /// The option as NVRTC would have received it.
        option: String,
        /// The version that introduced it.
        since: Version,
        /// The version of this NVRTC.
        found: Version,
    },
    /// A raw option names a file that NVRTC maps as its memory.
    #[error(
        "the option {option} names files that NVRTC maps as its memory; use \
         `Options::precompiled_headers`, whose folder belongs to the process, or the unsafe \
         `Options::raw_unchecked`"
    )]
    UnsafeOption {
        /// The option as it was given.
        option: String,
    },
    /// This NVRTC would store precompiled headers, which it maps as its memory, in the current
    /// folder.
    #[error(
        "NVRTC {found} stores precompiled headers in the current folder, where other processes may \
         replace them; name a folder of this process with the unsafe \
         `Options::precompiled_headers_dir`, or use NVRTC 13.0 or newer, which creates one"
    )]
    SharedPchFolder {
        /// The version of this NVRTC.
        found: Version,
    },
    /// NVRTC rejects an option.
    #[error("NVRTC {found} rejects an option: {}\noptions: {}", .log.summary(), .options.join(" "))]
    InvalidOption {
        /// NVRTC's log about the option.
        log: Log,
        /// All options as NVRTC received them.
        options: Vec<String>,
        /// The version of this NVRTC.
        found: Version,
    },
    /// This NVRTC does not support an architecture.
    #[error("NVRTC {found} does not support {arch}; it supports {}", list(.supported))]
    UnsupportedArch {
        /// The requested architecture.
        arch: Arch,
        /// The architectures that this NVRTC lists.
        supported: Vec<Arch>,
        /// The version of this NVRTC.
        found: Version,
    },
    /// Machine code was requested without a real architecture.
    #[error("a cubin requires a real architecture such as sm_90; the options name {}", given(.arch))]
    NeedsRealArch {
        /// The architecture that the options name, if any.
        arch: Option<Arch>,
    },
    /// The source does not compile.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The compilation produced no output of the requested kind.
    #[error(
        "NVRTC {found} compiled {program} but produced no {output}; remove options that select \
         another output, such as `-dlto`, or use another version of NVRTC"
    )]
    NoOutput {
        /// The kind of output: `PTX`, `cubin`, …
        output: &'static str,
        /// The name of the program.
        program: String,
        /// The version of this NVRTC.
        found: Version,
    },
    /// The compilation was cancelled through its [`CancelToken`](crate::CancelToken).
    #[error("the compilation was cancelled")]
    Cancelled,
    /// The compilation did not finish within its time limit.
    #[error("the compilation did not finish within {limit:?}; raise `Options::timeout`")]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// A text is nested so deeply that NVRTC's parser could overflow its stack, which would end the
    /// process.
    #[error(
        "{place} is nested too deeply: {depth} {kind} are open at once, and a compiler stack of {stack} bytes is safe \
         for {limit}; reduce the nesting, or set Options::stack_size to at least {needed} bytes"
    )]
    TooDeep {
        /// The source, header or name expression.
        place: String,
        /// The kind of nesting that needs most of the stack.
        kind: &'static str,
        /// The number of open levels of this kind.
        depth: usize,
        /// The number of levels of this kind for which the stack is safe, together with the rest of
        /// the text.
        limit: usize,
        /// The size of the stack in bytes ([`Options::stack_size`](crate::Options::stack_size)).
        stack: usize,
        /// A sufficient size of the stack in bytes. If counting stopped early, it is sufficient
        /// only for the levels that were counted.
        needed: usize,
    },
    /// The call would release memory that a compilation in this process uses.
    #[error(
        "{function} cannot be called while a compilation runs in this process; call it before the \
         first compilation, or after the running ones have ended"
    )]
    Compiling {
        /// The function that was called.
        function: &'static Function,
    },
    /// There are more items of one kind than NVRTC can count.
    #[error("too many {0}: the number does not fit in a C int")]
    TooMany(&'static str),
    /// The thread for the compilation could not be started, or it ended without a result.
    #[error("the thread for the compilation failed: {0}")]
    Thread(#[source] io::Error),
    /// CUDA's headers were not found.
    #[error(
        "CUDA's headers were not found; tried:{}\nNVRTC 13.3 and newer contain them (`pip install \
         nvidia-cuda-nvrtc`). Otherwise install the CUDA toolkit, or name their folder with \
         Options::include_dir.\nThe README describes all ways in its section \"Getting NVRTC and \
         the headers\".",
        lines(.tried)
    )]
    NoHeaders {
        /// Every place that was tried, with the reason why it was not used.
        tried: Vec<String>,
    },
    /// The headers that NVRTC contains could not be written to a folder.
    #[error("cannot install the headers of NVRTC in {dir}: {reason}")]
    InstallHeaders {
        /// The target folder.
        dir: String,
        /// The reason, from NVRTC or the system.
        reason: String,
    },
    /// A call to NVRTC failed.
    #[error("{function} failed: {}", status_name(.status))]
    Status {
        /// The function that was called.
        function: &'static Function,
        /// The status that it returned.
        status: nvrtcResult,
    },
}

/// A failed compilation, with the compiler's diagnostics.
///
/// The text of this error begins with one line with the number of errors. Each diagnostic follows
/// as the compiler wrote it, with the source line and the caret if the compiler printed them.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` print `Debug`.
pub struct CompileError {
    pub(crate) program: String,
    pub(crate) found: Version,
    pub(crate) status: nvrtcResult,
    pub(crate) log: Log,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The folders in which headers were searched for.
    pub(crate) searched: Vec<String>,
}

/// The maximum number of diagnostics to print. The others are only counted.
const PRINTED: usize = 30;

/// The text before the name of a missing header in the logs of all versions ("cannot open source
/// file", "could not open source file").
const MISSING_HEADER: &str = "not open source file \"";

impl CompileError {
    /// Returns the whole log, as NVRTC wrote it.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the errors, warnings and remarks in the log, in its order.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the diagnostics that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|d| d.severity.is_error())
    }

    /// Returns the name of the program.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns the name of the header that the compiler did not find, if that is why it failed.
    #[must_use]
    pub fn missing_header(&self) -> Option<&str> {
        let (_, rest) = self.log.as_str().split_once(MISSING_HEADER)?;
        Some(rest.split_once('"')?.0)
    }

    /// Returns the status of `nvrtcCompileProgram`.
    #[must_use]
    pub fn status(&self) -> nvrtcResult {
        self.status
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program,
            found,
            status,
            diagnostics,
            ..
        } = self;
        write!(f, "{program} does not compile (NVRTC {found}")?;
        if *status != nvrtcResult::NVRTC_ERROR_COMPILATION {
            write!(f, ", {}", status_name(status))?;
        }
        write!(f, "): ")?;
        let warnings = diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Warning)
            .count();
        write!(f, "{}", count(self.errors().count(), "error"))?;
        if warnings > 0 {
            write!(f, ", {}", count(warnings, "warning"))?;
        }
        for diagnostic in diagnostics.iter().take(PRINTED) {
            write!(f, "\n{diagnostic}")?;
        }
        if diagnostics.len() > PRINTED {
            write!(f, "\n… and {} more", diagnostics.len() - PRINTED)?;
        }
        if diagnostics.is_empty() {
            write!(f, "\n{}", self.log.as_str().trim_end())?;
        }
        if let Some(header) = self.missing_header() {
            write!(f, "\n{}", MissingHeader(header, &self.searched))?;
        }
        Ok(())
    }
}

impl fmt::Debug for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CompileError {}

impl Error {
    /// Returns the name of the header that the compiler did not find, if that is why a compilation
    /// failed.
    #[must_use]
    pub fn missing_header(&self) -> Option<&str> {
        match self {
            Self::Compile(error) => error.missing_header(),
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn status_name(status: &nvrtcResult) -> String {
    match status.name() {
        Some(name) => format!("{name} ({})", status.0),
        None => format!("unknown status {}", status.0),
    }
}

fn list(archs: &[Arch]) -> String {
    let names: Vec<String> = archs.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn given(arch: &Option<Arch>) -> String {
    arch.map_or_else(|| "none".to_owned(), |arch| arch.to_string())
}

fn lines(tried: &[String]) -> String {
    tried.iter().map(|place| format!("\n  {place}")).collect()
}
