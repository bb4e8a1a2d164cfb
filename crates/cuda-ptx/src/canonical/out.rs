//! Lines of text, and where they come from.

use std::ops::Range;

/// A position between two lines of an [`Out`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    byte: usize,
    line: usize,
}

/// Text with the line of the original text for each of its lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Out {
    pub(super) text: String,
    /// 0 for a line that has no original.
    pub(super) lines: Vec<u32>,
}

impl Out {
    /// Appends one line.
    pub(super) fn line(&mut self, text: impl AsRef<str>, line: u32) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
        self.lines.push(line);
    }

    /// Appends complete lines, all of which come from one line.
    pub(super) fn lines(&mut self, text: &str, line: u32) {
        for one in text.lines() {
            self.line(one, line);
        }
    }

    /// Appends other text.
    pub(super) fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        self.lines.extend_from_slice(&other.lines);
    }

    /// The position after the last line.
    pub(super) fn end(&self) -> Part {
        Part {
            byte: self.text.len(),
            line: self.lines.len(),
        }
    }

    /// Appends a part of other text.
    pub(super) fn append_part(&mut self, other: &Self, part: &Range<Part>) {
        let text = other.text.get(part.start.byte..part.end.byte);
        let lines = other.lines.get(part.start.line..part.end.line);
        self.text.push_str(text.unwrap_or_default());
        self.lines.extend_from_slice(lines.unwrap_or_default());
    }
}
