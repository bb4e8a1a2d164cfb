//! CUDA source lines, from the `.loc` and `.file` directives.

use crate::report::SourceLine;
use cuda_ptx::Location;

/// The maximum depth of inlined functions; deeper levels are left out.
const MAX_DEPTH: usize = 32;

/// The source location of the code from one instruction onwards.
#[derive(Clone, Copy, Debug)]
struct Mark {
    from: u32,
    /// The location; its file is an index into the list of files.
    at: Location,
    inlined_at: Option<Location>,
}

/// The source lines of all functions.
#[derive(Debug, Default)]
pub(super) struct Lines {
    files: Vec<String>,
    marks: Vec<Mark>,
}

impl Lines {
    /// Adds files; returns the number of the first one.
    pub(super) fn add_files<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> u32 {
        let first = self.files.len() as u32;
        self.files.extend(paths.map(str::to_owned));
        first
    }

    /// Records that the code from `from` on comes from the location `at`.
    pub(super) fn mark(&mut self, from: u32, at: Location, inlined_at: Option<Location>) {
        self.marks.push(Mark {
            from,
            at,
            inlined_at,
        });
    }

    /// The source line of an instruction of a function that spans `entry` to `end`.
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
            // The `.loc` of the outer location says where that was inlined in turn.
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
