//! Lines of the CUDA source: what `.loc` and `.file` say of the code.

use crate::report::SourceLine;
use cuda_ptx::Location;

/// How deep functions may be inlined into each other before the rest is left out.
const MAX_DEPTH: usize = 32;

/// Where code comes from, from one instruction on.
#[derive(Clone, Copy, Debug)]
struct Mark {
    from: u32,
    /// Its file is an index into the list of them.
    at: Location,
    inlined_at: Option<Location>,
}

/// The lines of all functions.
#[derive(Debug, Default)]
pub(super) struct Lines {
    files: Vec<String>,
    marks: Vec<Mark>,
}

impl Lines {
    /// Adds files; returns the number of the first.
    pub(super) fn add_files<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> u32 {
        let first = self.files.len() as u32;
        self.files.extend(paths.map(str::to_owned));
        first
    }

    /// Code from `from` on comes from there.
    pub(super) fn mark(&mut self, from: u32, at: Location, inlined_at: Option<Location>) {
        self.marks.push(Mark {
            from,
            at,
            inlined_at,
        });
    }

    /// The line of an instruction of a function that begins at `entry` and ends before `end`.
    pub(super) fn find(&self, pc: u32, (entry, end): (u32, u32)) -> Option<SourceLine> {
        let from = self.marks.partition_point(|mark| mark.from < entry);
        let to = self.marks.partition_point(|mark| mark.from < end);
        let marks = self.marks.get(from..to)?;
        let after = marks.partition_point(|mark| mark.from <= pc);
        let mark = marks.get(after.checked_sub(1)?)?;
        self.line(marks, mark.at, mark.inlined_at, 0)
    }

    fn line(
        &self,
        marks: &[Mark],
        at: Location,
        inlined_at: Option<Location>,
        depth: usize,
    ) -> Option<SourceLine> {
        if at.line == 0 {
            return None;
        }
        let outer = inlined_at.filter(|_| depth < MAX_DEPTH).and_then(|outer| {
            // Where that was inlined in turn, its own `.loc` says.
            let known = marks.iter().find(|mark| mark.at == outer);
            let next = known.and_then(|mark| mark.inlined_at);
            self.line(marks, outer, next, depth + 1)
        });
        Some(SourceLine {
            file: self.files.get(at.file as usize)?.clone(),
            line: at.line,
            inlined_at: outer.map(Box::new),
        })
    }
}
