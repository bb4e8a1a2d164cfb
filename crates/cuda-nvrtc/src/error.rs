//! What can go wrong, told so that it can be mended.

use std::fmt;
use std::io;
use std::time::Duration;

use cuda_sys::nvrtc::nvrtcResult;
use cuda_sys::{Function, LoadError, Version};

use crate::{Arch, Diagnostic, Log, Severity};

/// Why something did not work.
///
/// `Debug` prints what `Display` prints: that is what `main` and `unwrap` show.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// NVRTC could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A text that goes to NVRTC has a NUL byte in it, where C would end it.
    #[error("there is a NUL byte at offset {position} of {place}")]
    Nul {
        /// Which text: the source, an option, …
        place: String,
        /// Where in it.
        position: usize,
    },
    /// This NVRTC lacks a function.
    #[error("{function} needs NVRTC {}, and this one is {found}", .function.since())]
    MissingFunction {
        /// The function, which says since when there is one.
        function: &'static Function,
        /// The version of this NVRTC.
        found: Version,
    },
    /// This NVRTC does not know an option.
    #[error("the option {option} needs NVRTC {since}, and this one is {found}")]
    OptionTooNew {
        /// The option as it would have been given.
        option: String,
        /// The version that introduced it.
        since: Version,
        /// The version of this NVRTC.
        found: Version,
    },
    /// NVRTC rejects an option.
    #[error("NVRTC {found} rejects an option: {}\nthe options: {}", .log.summary(), .options.join(" "))]
    InvalidOption {
        /// What NVRTC says about it.
        log: Log,
        /// All options as they were given.
        options: Vec<String>,
        /// The version of this NVRTC.
        found: Version,
    },
    /// This NVRTC does not compile for an architecture.
    #[error("NVRTC {found} does not compile for {arch}; it does for {}", list(.supported))]
    UnsupportedArch {
        /// The architecture asked for.
        arch: Arch,
        /// Those that this NVRTC lists.
        supported: Vec<Arch>,
        /// The version of this NVRTC.
        found: Version,
    },
    /// Machine code was asked for without a real architecture.
    #[error("a cubin is for one real architecture, such as sm_90; the options name {}", given(.arch))]
    NeedsRealArch {
        /// What the options name.
        arch: Option<Arch>,
    },
    /// The source does not compile.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The compilation gave no output of the kind asked for.
    #[error("NVRTC {found} compiled {program}, but gave no {output}")]
    NoOutput {
        /// The kind: `PTX`, `cubin`, …
        output: &'static str,
        /// The program's name.
        program: String,
        /// The version of this NVRTC.
        found: Version,
    },
    /// The compilation was cancelled through its [`CancelToken`](crate::CancelToken).
    #[error("the compilation was cancelled")]
    Cancelled,
    /// The compilation took longer than it was given.
    #[error("the compilation was not finished after {limit:?}")]
    TimedOut {
        /// The time it was given.
        limit: Duration,
    },
    /// A text is nested so deeply that NVRTC's parser could overflow its stack, which ends the
    /// process.
    #[error(
        "{place} is nested too deeply: {depth} {kind} are open at once, and a compiler stack of {stack} bytes is safe \
         for {limit}; nest less, or set Options::stack_size to {needed} bytes or more"
    )]
    TooDeep {
        /// The source, header or name expression.
        place: String,
        /// The kind of nesting that needs most of the stack.
        kind: &'static str,
        /// The number of levels of this kind.
        depth: usize,
        /// The number of levels of this kind that the stack is safe for, together with the rest of
        /// the text.
        limit: usize,
        /// The size of the stack in bytes ([`Options::stack_size`](crate::Options::stack_size)).
        stack: usize,
        /// A size of the stack in bytes that is enough, or at least enough for the levels that were
        /// counted.
        needed: usize,
    },
    /// A compilation runs in this process, and what was called would take away what it works with.
    #[error("{function} cannot be called while a compilation runs in this process")]
    Compiling {
        /// The call.
        function: &'static Function,
    },
    /// There are more of something than NVRTC can count.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// No thread could be started to compile on.
    #[error("no thread could be started to compile on: {0}")]
    Thread(#[source] io::Error),
    /// CUDA's headers were not found.
    #[error("CUDA's headers were not found; tried:{}", lines(.tried))]
    NoHeaders {
        /// Every place, and why it would not do.
        tried: Vec<String>,
    },
    /// The headers that NVRTC carries could not be written out.
    #[error("the headers that NVRTC carries could not be installed in {dir}: {reason}")]
    InstallHeaders {
        /// Where to.
        dir: String,
        /// What NVRTC says.
        reason: String,
    },
    /// A call failed.
    #[error("{function} failed: {}", status_name(.status))]
    Status {
        /// The call.
        function: &'static Function,
        /// What it answered.
        status: nvrtcResult,
    },
}

/// A source that does not compile: the compiler's own words.
///
/// Its text begins with one line that says how many errors there are; then each diagnostic follows
/// as the compiler wrote it, with the line of source and the caret where there are any.
#[derive(Debug)]
pub struct CompileError {
    pub(crate) program: String,
    pub(crate) found: Version,
    pub(crate) status: nvrtcResult,
    pub(crate) log: Log,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// So many diagnostics are printed; the rest is counted.
const PRINTED: usize = 30;

impl CompileError {
    /// The whole log, as NVRTC wrote it.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The errors, warnings and remarks in the log, in its order.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The diagnostics that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|d| d.severity.is_error())
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// What NVRTC answered.
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
        Ok(())
    }
}

impl std::error::Error for CompileError {}

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
        None => format!("status {}, which these bindings do not know", status.0),
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
