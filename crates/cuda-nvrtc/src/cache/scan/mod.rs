//! A scanner for the headers that a text may include, and for features that prevent caching.
//!
//! This is not a preprocessor. It finds a superset of the includes that NVRTC's preprocessor can
//! find: everything that looks like a directive counts, even in branches that are not taken, in
//! comments and in strings, and any name written there may be included. The scanner therefore needs
//! no knowledge of macros, of the lexer's state, or of the compiler's own definitions. If the
//! written names cannot be a superset, the text is refused.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Refusal;

/// A header name as written in the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Include {
    pub(super) name: Vec<u8>,
    /// `"…"`, not `<…>`.
    pub(super) quoted: bool,
}

/// A macro, and the header name that it expands to if it expands to exactly that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Define {
    pub(super) name: Vec<u8>,
    pub(super) header: Option<Include>,
}

/// The features of a text that cause files to be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Header names that the text includes or tests for.
    pub(super) includes: Vec<Include>,
    /// Macros that are operands of `#include`.
    pub(super) computed: Vec<Vec<u8>>,
    pub(super) defines: Vec<Define>,
    /// Macros that pass their argument to `__has_include`.
    pub(super) wrappers: Vec<Vec<u8>>,
    /// Whether the text changes its file name with `#line`, which would change the folder in which
    /// quoted names are searched for.
    pub(super) renames: bool,
}

/// Joins lines that end with a backslash.
pub(super) fn join_lines(text: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    if text
        .windows(3)
        .any(|three| matches!(three, b"??=" | b"??/"))
    {
        return Err(Refusal::Trigraph);
    }
    let mut ends = text
        .windows(2)
        .enumerate()
        .filter_map(|(at, two)| match two {
            b"\\\n" => Some(true),
            // It is unknown whether NVRTC treats a lone carriage return as the end of a line.
            b"\\\r" => Some(text.get(at + 2) == Some(&b'\n')),
            _ => None,
        });
    match ends.next() {
        None => return Ok(Cow::Borrowed(text)),
        Some(first) if first && ends.all(|known| known) => {}
        Some(_) => return Err(Refusal::Trigraph),
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match rest {
            [b'\\', b'\n', after @ ..] | [b'\\', b'\r', b'\n', after @ ..] => after,
            _ => {
                joined.push(byte);
                after
            }
        };
    }
    Ok(Cow::Owned(joined))
}

/// Scans a text whose lines are joined. `wrappers` are the macros known to pass their argument to
/// `__has_include`.
pub(super) fn scan(text: &[u8], wrappers: &BTreeSet<Vec<u8>>) -> Result<Scan, Refusal> {
    let mut scanner = Scanner {
        text,
        wrappers,
        found: Scan::default(),
        define: None,
    };
    scanner.run()?;
    Ok(scanner.found)
}

struct Scanner<'a> {
    text: &'a [u8],
    wrappers: &'a BTreeSet<Vec<u8>>,
    found: Scan,
    /// The last `#define`.
    define: Option<Macro<'a>>,
}

struct Macro<'a> {
    name: &'a [u8],
    /// The offset of the name.
    at: usize,
    parameters: Vec<&'a [u8]>,
    /// The offset of the end of the directive.
    end: usize,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) -> Result<(), Refusal> {
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            at = match byte {
                b'#' if self.leads_its_line(at) => self.directive(at + 1)?,
                b'%' if self.text.get(at + 1) == Some(&b':') && self.leads_its_line(at) => {
                    self.directive(at + 2)?
                }
                byte if is_word(byte) => {
                    let end = self.word_end(at);
                    self.word(at, end)?;
                    end
                }
                _ => at + 1,
            };
        }
        Ok(())
    }

    /// Returns whether only blanks and comments can precede `at` on its line. Other text there
    /// cannot be a comment that ends before `at`, because no `*/` follows it. A byte-order mark may
    /// count as a blank.
    fn leads_its_line(&self, at: usize) -> bool {
        let before = &self.text[..at];
        let line = before
            .iter()
            .rposition(|byte| matches!(byte, b'\n' | b'\r'));
        let before = &before[line.map_or(0, |line| line + 1)..];
        let comment = before.windows(2).rposition(|two| two == b"*/");
        let before = &before[comment.map_or(0, |comment| comment + 2)..];
        before.iter().all(|byte| !byte.is_ascii_graphic())
    }

    /// Scans a directive whose `#` ends at `at`. Returns the offset at which to continue.
    fn directive(&mut self, at: usize) -> Result<usize, Refusal> {
        let start = self.skip_blanks(at);
        let end = self.word_end(start);
        match &self.text[start..end] {
            b"include" | b"import" => self.include(end),
            b"include_next" => Err(Refusal::IncludeNext),
            b"embed" => Err(Refusal::ComputedInclude),
            b"define" => {
                self.define(end);
                Ok(end)
            }
            // `#line 7 "file"`, and `# 7 "file"`.
            word if word == b"line" || word.first().is_some_and(u8::is_ascii_digit) => {
                let rest = &self.text[end..self.directive_end(end)];
                self.found.renames |= rest
                    .iter()
                    .any(|&byte| byte == b'"' || byte == b'_' || byte.is_ascii_alphabetic());
                Ok(end)
            }
            _ => Ok(start),
        }
    }

    fn include(&mut self, at: usize) -> Result<usize, Refusal> {
        let at = self.skip_blanks(at);
        match self.text.get(at) {
            Some(b'"' | b'<') => {
                let (include, end) = self.header(at).ok_or(Refusal::ComputedInclude)?;
                self.found.includes.push(include);
                Ok(end)
            }
            // A backslash may begin an identifier that is spelled with a universal character name.
            Some(b'\\') => Err(Refusal::ComputedInclude),
            Some(&byte) if is_word(byte) => {
                let end = self.word_end(at);
                self.found.computed.push(self.text[at..end].to_vec());
                // The caller also scans the operand as a word.
                Ok(at)
            }
            // NVRTC would reject any other operand.
            _ => Ok(at),
        }
    }

    fn define(&mut self, at: usize) {
        let start = self.skip_blanks(at);
        let end = self.word_end(start);
        let name = &self.text[start..end];
        let directive_end = self.directive_end(end);
        let mut parameters = Vec::new();
        let mut header = None;
        if self.text.get(end) == Some(&b'(') {
            let list = &self.text[end + 1..directive_end];
            let close = list.iter().position(|&byte| byte == b')').unwrap_or(0);
            parameters = list[..close]
                .split(|&byte| byte == b',')
                .map(<[u8]>::trim_ascii)
                .collect();
        } else {
            header = self
                .header(self.skip_blanks(end))
                .filter(|&(_, after)| self.skip_blanks(after) >= directive_end)
                .map(|(include, _)| include);
        }
        self.found.defines.push(Define {
            name: name.to_vec(),
            header,
        });
        self.define = Some(Macro {
            name,
            at: start,
            parameters,
            end: directive_end,
        });
    }

    fn word(&mut self, start: usize, end: usize) -> Result<(), Refusal> {
        let word = &self.text[start..end];
        match word {
            b"__DATE__" | b"__TIME__" | b"__TIMESTAMP__" => return Err(Refusal::TimeMacro),
            b"__has_include_next" => return Err(Refusal::IncludeNext),
            b"__has_embed" => return Err(Refusal::HasInclude),
            b"__has_include" => {}
            word if self.wrappers.contains(word) => {}
            _ => return Ok(()),
        }
        let define = self.define.as_ref().filter(|define| start < define.end);
        if define.is_some_and(|define| define.at == start) {
            return Ok(());
        }
        let open = self.skip_blanks(end);
        if self.text.get(open) != Some(&b'(') {
            // `defined(__has_include)` tests for no file, but an alias of `__has_include` might.
            return match define {
                Some(_) => Err(Refusal::HasInclude),
                None => Ok(()),
            };
        }
        let operand = self.skip_blanks(open + 1);
        if let Some((include, _)) = self.header(operand) {
            self.found.includes.push(include);
            return Ok(());
        }
        let operand_end = self.word_end(operand);
        let argument = &self.text[operand..operand_end];
        let closed = self.text.get(self.skip_blanks(operand_end)) == Some(&b')');
        match define {
            Some(define) if closed && define.parameters.contains(&argument) => {
                self.found.wrappers.push(define.name.to_vec());
                Ok(())
            }
            _ => Err(Refusal::HasInclude),
        }
    }

    /// Returns the header name that begins at `at`, and the offset of its end.
    fn header(&self, at: usize) -> Option<(Include, usize)> {
        let quoted = match self.text.get(at)? {
            b'"' => true,
            b'<' => false,
            _ => return None,
        };
        let close = if quoted { b'"' } else { b'>' };
        let rest = &self.text[at + 1..];
        let length = rest
            .iter()
            .position(|&byte| byte == close || byte == b'\n')?;
        (rest[length] == close).then(|| {
            let name = rest[..length].to_vec();
            (Include { name, quoted }, at + length + 2)
        })
    }

    /// Returns the offset of the first byte on this line that is neither blank nor in a comment.
    fn skip_blanks(&self, mut at: usize) -> usize {
        loop {
            match &self.text[at.min(self.text.len())..] {
                [b' ' | b'\t' | b'\r' | 0x0b | 0x0c, ..] => at += 1,
                [b'/', b'*', rest @ ..] => match rest.windows(2).position(|two| two == b"*/") {
                    Some(length) => at += length + 4,
                    None => return self.text.len(),
                },
                _ => return at.min(self.text.len()),
            }
        }
    }

    /// Returns the offset of the end of the directive that contains `at`.
    fn directive_end(&self, mut at: usize) -> usize {
        loop {
            match &self.text[at.min(self.text.len())..] {
                [] => return self.text.len(),
                [b'\n', ..] => return at,
                [b'/', b'*', ..] => at = self.skip_blanks(at),
                _ => at += 1,
            }
        }
    }

    fn word_end(&self, start: usize) -> usize {
        let rest = &self.text[start.min(self.text.len())..];
        let length = rest
            .iter()
            .position(|&byte| !is_word(byte))
            .unwrap_or(rest.len());
        start + length
    }
}

/// Returns whether a byte can be part of an identifier or a number.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests;
