//! What compilers and linkers write while they work, and what can be read from it.
//!
//! It stands here because two sides have one: NVRTC, and the compiler in the driver.

use std::fmt;

mod parse;

/// What a compiler or linker wrote while it worked. Bytes that are not UTF-8 (a source may quote
/// any) are replaced.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Log(String);

impl Log {
    /// Takes the text up to the NULs that end it.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let end = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        Self(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors, warnings and remarks in it, in its order.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        parse::diagnostics(&self.0)
    }

    /// The messages alone, for an error of one line.
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

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// More about the diagnostic before it.
    Note,
    /// Information.
    Remark,
    /// The code compiles, but may not mean what was meant.
    Warning,
    /// The code does not compile.
    Error,
    /// The compiler could not go on.
    Fatal,
}

impl Severity {
    /// Whether it keeps the code from compiling.
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

/// One error, warning or remark of the compiler. Its text ([`Display`](fmt::Display)) is the
/// compiler's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file or, for what is not about a file, the tool that speaks: `nvrtc`, `ptxas`, `nvlink`.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// The column in the line, from 1 and in characters, where the compiler points at one.
    pub column: Option<u32>,
    /// The number by which `--diag-suppress` and its like know it.
    pub number: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// The line of source.
    pub snippet: Option<String>,
    /// More about it: where a template was instantiated, ….
    pub notes: Vec<String>,
    text: String,
}

impl Diagnostic {
    /// Adds the line of source from `source`, the text of the file `file`, where the log of an
    /// older NVRTC lacks it.
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
