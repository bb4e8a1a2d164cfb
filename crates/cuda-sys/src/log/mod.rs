//! Logs of compilers and linkers, and the diagnostics in them.
//!
//! The types are in this crate because two crates need them: the one for NVRTC, and the one for the
//! compiler in the driver.

use std::fmt;

mod parse;

/// The log of a compiler or linker. Bytes that are not UTF-8 (a quoted source line may contain any)
/// are replaced.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Log(String);

impl Log {
    /// Creates a log from its bytes. Trailing NULs are removed.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let end = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        Self(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the errors, warnings and remarks in the log, in its order.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        parse::diagnostics(&self.0)
    }

    /// Returns only the messages, joined for an error in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let messages: Vec<String> = self.diagnostics().into_iter().map(|d| d.message).collect();
        if messages.is_empty() {
            self.0.trim().to_owned()
        } else {
            messages.join("; ")
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The severity of a [`Diagnostic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// More information about the preceding diagnostic.
    Note,
    /// Information.
    Remark,
    /// The code compiles but may not mean what its author intended.
    Warning,
    /// The code does not compile.
    Error,
    /// The compiler could not continue.
    Fatal,
}

impl Severity {
    /// Returns whether a diagnostic of this severity makes the compilation fail.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::Fatal)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Remark => "remark",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal error",
        })
    }
}

/// An error, warning or remark of the compiler. Its [`Display`](fmt::Display) text is the
/// compiler's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file or, if the diagnostic is not about a file, the tool: `nvrtc`, `ptxas`, `nvlink`.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// The column in the line, from 1 and in characters, if the compiler marked one.
    pub column: Option<u32>,
    /// The number that `--diag-suppress` and similar options take.
    pub number: Option<u32>,
    /// The message.
    pub message: String,
    /// The source line.
    pub snippet: Option<String>,
    /// Additional lines, such as the place where a template was instantiated.
    pub notes: Vec<String>,
    text: String,
}

impl Diagnostic {
    /// Adds the source line from `source`, the text of the file `file`, if the log does not contain
    /// it, as with an older NVRTC.
    pub fn add_snippet(&mut self, file: &str, source: &[u8]) {
        if self.snippet.is_some() || self.file.as_deref() != Some(file) {
            return;
        }
        let line = self
            .line
            .and_then(|line| usize::try_from(line).ok())
            .and_then(|line| {
                source
                    .split(|&byte| byte == b'\n')
                    .nth(line.checked_sub(1)?)
            });
        if let Some(line) = line {
            let line = String::from_utf8_lossy(line).trim_end().to_owned();
            let end = self.text.find('\n').unwrap_or(self.text.len());
            self.text.insert_str(end, &format!("\n  {line}"));
            self.snippet = Some(line);
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
