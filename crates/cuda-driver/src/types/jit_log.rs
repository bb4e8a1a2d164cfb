//! The log of the driver's compiler or linker.

use std::fmt;
use std::time::Duration;

use cuda_sys::log::{Diagnostic, Log};

/// The log of the driver's compiler or linker. It is available on success as well as in an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitLog {
    info: Log,
    errors: Log,
    wall_time: Duration,
}

impl JitLog {
    /// Creates a log. `wall_time` is zero for a linker that does not report the time it took.
    pub(crate) fn new(info: Log, errors: Log, wall_time: Duration) -> Self {
        Self {
            info,
            errors,
            wall_time,
        }
    }

    /// Replaces the numbers of lines in the messages. A number for which `original` returns `None`
    /// stays.
    pub(crate) fn with_lines(self, original: &dyn Fn(u32) -> Option<u32>) -> Self {
        let replace = |log: &Log| Log::new(with_lines(log.as_str(), original).as_bytes());
        Self {
            info: replace(&self.info),
            errors: replace(&self.errors),
            ..self
        }
    }

    /// Informational messages: remarks, and the details that
    /// [`JitOptions::verbose`](crate::jit::JitOptions::verbose) requests.
    #[must_use]
    pub fn info(&self) -> &Log {
        &self.info
    }

    /// Errors and warnings.
    #[must_use]
    pub fn errors(&self) -> &Log {
        &self.errors
    }

    /// The diagnostics of both logs, errors first, each with its line in the PTX.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = self.errors.diagnostics();
        found.extend(self.info.diagnostics());
        found
    }

    /// The time that compiling and linking took, as measured by the driver; zero if there was
    /// nothing to compile or link.
    #[must_use]
    pub fn wall_time(&self) -> Duration {
        self.wall_time
    }
}

impl fmt::Display for JitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logs = [&self.errors, &self.info].map(|log| log.as_str().trim());
        f.write_str(logs.join("\n").trim())
    }
}

/// Replaces each number after the word `line`.
fn with_lines(text: &str, original: &dyn Fn(u32) -> Option<u32>) -> String {
    const WORD: &str = "line ";
    let mut parts = text.split(WORD);
    let mut new = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        new.push_str(WORD);
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        match number.parse().ok().and_then(original) {
            Some(line) => new.push_str(&line.to_string()),
            None => new.push_str(number),
        }
        new.push_str(rest);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::with_lines;

    #[test]
    fn numbers_after_the_word_line_are_replaced() {
        let text = "ptxas application ptx input, line 12; error   : Unknown symbol 'x'\nline 7, 12";
        let original = |line| (line != 7).then_some(line + 100);
        let new = with_lines(text, &original);
        let expected =
            "ptxas application ptx input, line 112; error   : Unknown symbol 'x'\nline 7, 12";
        assert_eq!(new, expected);
    }
}
