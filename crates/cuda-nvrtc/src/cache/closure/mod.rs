//! The set of all files that a compilation may read.
//!
//! NVRTC does not report which files it read, so this module determines them beforehand.
//! [`scan`](super::scan) finds a superset of the headers that a text may include. The search order
//! is the same in NVRTC 12.0 to 13.5: first the in-memory header with the written name; then, for a
//! quoted name, the folder of the text that contains it (not the folders of the texts that include
//! that text); then the folders of the options, in their order. For a header of the option
//! `--pre-include`, the current folder comes first. Folders with a header's name are skipped. The
//! first file found is used, and the absence of files at the earlier places is recorded as well.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::Refusal;
use super::arguments;
use super::paths;
use super::request::Request;
use super::scan::{self, Define, Include, Scan};
use super::stamp::{self, Seen, Stamp};

/// The maximum number of places to examine. A larger number is assumed to be a mistake.
const MAX_PLACES: usize = 100_000;

/// The files that a compilation may read, and the places where it would read a file if there were
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Closure {
    pub(super) files: Vec<(PathBuf, Seen)>,
    /// Places that have no file.
    pub(super) absent: Vec<PathBuf>,
    /// Folders that are not symbolic links, so that `folder/..` could be removed from a path.
    pub(super) folders: Vec<PathBuf>,
}

impl Closure {
    /// Returns whether a compilation would read the same files now.
    pub(super) fn is_current(&self, always: bool) -> bool {
        self.folders.iter().all(|path| is_plain_folder(path))
            && self.absent.iter().all(|path| is_absent(path) == Some(true))
            && self
                .files
                .iter()
                .all(|(path, seen)| seen.is_current(path, always))
    }
}

/// A closure that has just been read, with stamps that reveal any later change.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) closure: Closure,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
}

impl Fresh {
    /// Returns whether no file has changed since.
    pub(super) fn is_unchanged(&self) -> bool {
        let same = |(path, stamp): &(PathBuf, Option<Stamp>)| {
            path.metadata()
                .is_ok_and(|metadata| Stamp::of(&metadata) == *stamp)
        };
        self.stamps.iter().all(same) && self.closure.is_current(false)
    }
}

/// Finds and reads all files that `request` may read.
pub(super) fn collect(request: &Request<'_>) -> Result<Fresh, Refusal> {
    let mut collector = Collector {
        request,
        closure: Closure::default(),
        stamps: Vec::new(),
        places: HashMap::new(),
        folders: HashSet::new(),
        units: Vec::new(),
        wrappers: BTreeSet::new(),
    };
    collector.run()?;
    Ok(Fresh {
        closure: collector.closure,
        stamps: collector.stamps,
    })
}

/// A text that is part of the compilation.
struct Unit {
    text: Vec<u8>,
    /// The folder in which its quoted names are searched for first.
    dir: Option<PathBuf>,
    scan: Scan,
    /// The number of its includes that have been followed.
    followed: usize,
}

struct Collector<'a> {
    request: &'a Request<'a>,
    closure: Closure,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    /// The places examined so far, and whether each has a file.
    places: HashMap<OsString, bool>,
    folders: HashSet<OsString>,
    units: Vec<Unit>,
    /// Macros that pass their argument to `__has_include`.
    wrappers: BTreeSet<Vec<u8>>,
}

impl Collector<'_> {
    fn run(&mut self) -> Result<(), Refusal> {
        let request = self.request;
        self.add(request.source, self.folder_of(request.name))?;
        for (name, text) in request.headers {
            self.add(text, self.folder_of(name))?;
        }
        // A definition by an option has the effect of a `#define` in the text. The text of any
        // other option contains no include.
        for text in request.arguments {
            self.add(&as_directive(text.to_bytes()), None)?;
        }
        for text in request.name_expressions {
            self.add(text.as_bytes(), None)?;
        }
        for name in &request.pre_includes {
            let include = Include {
                name: name.clone(),
                quoted: true,
            };
            self.follow(&include, Some(&request.current_dir), true)?;
        }
        loop {
            self.follow_all()?;
            if !self.name_computed()? && !self.learn_wrappers()? {
                break;
            }
        }
        let renamed = |unit: &Unit| {
            let on_disk = |include: &Include| include.quoted && !self.in_memory(&include.name);
            unit.scan.renames && unit.scan.includes.iter().any(on_disk)
        };
        if self.units.iter().any(renamed) {
            return Err(Refusal::LineDirective);
        }
        Ok(())
    }

    fn add(&mut self, text: &[u8], dir: Option<PathBuf>) -> Result<(), Refusal> {
        let text = scan::join_lines(text)?.into_owned();
        let scan = scan::scan(&text, &self.wrappers)?;
        self.units.push(Unit {
            text,
            dir,
            scan,
            followed: 0,
        });
        Ok(())
    }

    fn folder_of(&self, name: &str) -> Option<PathBuf> {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        Some(self.request.current_dir.join(folder))
    }

    fn in_memory(&self, name: &[u8]) -> bool {
        let mut names = self.request.headers.iter().map(|(name, _)| name);
        names.any(|known| known.as_bytes() == name)
    }

    /// Follows all remaining includes, including those in texts found on the way.
    fn follow_all(&mut self) -> Result<(), Refusal> {
        let mut index = 0;
        while let Some(unit) = self.units.get_mut(index) {
            let includes = unit.scan.includes[unit.followed..].to_vec();
            unit.followed += includes.len();
            let dir = unit.dir.clone();
            for include in includes {
                let own_folder = dir.as_deref().filter(|_| include.quoted);
                self.follow(&include, own_folder, self.request.searches_own_folder)?;
            }
            index += 1;
        }
        Ok(())
    }

    /// Follows one include. `sure` is false if NVRTC might not look in the folder `first`.
    fn follow(
        &mut self,
        include: &Include,
        first: Option<&Path>,
        sure: bool,
    ) -> Result<(), Refusal> {
        if self.in_memory(&include.name) {
            return Ok(());
        }
        let name = paths::from_bytes(&include.name).ok_or(Refusal::Unreadable)?;
        if name.is_absolute() {
            return self.probe(&name).map(|_| ());
        }
        let request = self.request;
        let first = first.map(|dir| (dir, sure));
        let dirs = request.include_dirs.iter().map(|dir| (dir.as_path(), true));
        for (dir, sure) in first.into_iter().chain(dirs) {
            if self.probe(&dir.join(&name))? && sure {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether there is a file at `path`. If there is one, reads it.
    fn probe(&mut self, path: &Path) -> Result<bool, Refusal> {
        if cfg!(not(unix)) {
            return Err(Refusal::System);
        }
        let path = self.shorten(path);
        if let Some(&found) = self.places.get(path.as_os_str()) {
            return Ok(found);
        }
        if self.places.len() >= MAX_PLACES {
            return Err(Refusal::TooManyHeaders);
        }
        let absent = is_absent(&path).ok_or(Refusal::Unreadable)?;
        self.places.insert(path.clone().into_os_string(), !absent);
        if absent {
            self.closure.absent.push(path);
            return Ok(false);
        }
        let reading = stamp::read(&path).map_err(|_| Refusal::Unreadable)?;
        self.add(&reading.bytes, path.parent().map(Path::to_owned))?;
        self.stamps.push((path.clone(), reading.now));
        self.closure.files.push((path, reading.seen));
        Ok(true)
    }

    /// Removes `folder/..` and `.` from a path. Otherwise headers that include each other by such
    /// names would have infinitely many paths.
    fn shorten(&mut self, path: &Path) -> PathBuf {
        if !path.components().any(|part| part == Component::ParentDir) {
            return path.components().collect();
        }
        let mut short = PathBuf::new();
        for part in path.components() {
            let folder = short
                .components()
                .next_back()
                .is_some_and(|last| matches!(last, Component::Normal(_)));
            if part == Component::ParentDir && folder && is_plain_folder(&short) {
                if self.folders.insert(short.clone().into_os_string()) {
                    self.closure.folders.push(short.clone());
                }
                short.pop();
            } else {
                short.push(part);
            }
        }
        short
    }

    /// Adds the header names of macros that are operands of `#include`. Returns whether any were
    /// new.
    fn name_computed(&mut self) -> Result<bool, Refusal> {
        let mut new = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            for name in &unit.scan.computed {
                let all = self.units.iter().flat_map(|unit| &unit.scan.defines);
                let defines: Vec<&Define> = all.filter(|define| define.name == *name).collect();
                // The compiler's own macros begin with an underscore. Any other name that is not a
                // macro is an error, or is in a comment.
                if defines.is_empty() && name.starts_with(b"_") {
                    return Err(Refusal::ComputedInclude);
                }
                for define in defines {
                    let header = define.header.clone().ok_or(Refusal::ComputedInclude)?;
                    if !unit.scan.includes.contains(&header) {
                        new.push((index, header));
                    }
                }
            }
        }
        let any = !new.is_empty();
        for (index, header) in new {
            self.units[index].scan.includes.push(header);
        }
        Ok(any)
    }

    /// Scans all texts again if more macros that wrap `__has_include` are known than before.
    fn learn_wrappers(&mut self) -> Result<bool, Refusal> {
        let before = self.wrappers.len();
        let wrappers = self.units.iter().flat_map(|unit| &unit.scan.wrappers);
        let wrappers: Vec<Vec<u8>> = wrappers.cloned().collect();
        self.wrappers.extend(wrappers);
        if self.wrappers.len() == before {
            return Ok(false);
        }
        for unit in &mut self.units {
            unit.scan = scan::scan(&unit.text, &self.wrappers)?;
            unit.followed = 0;
        }
        Ok(true)
    }
}

/// Converts an option that defines a macro to the text of its `#define`. Other options become text
/// that has no effect.
fn as_directive(argument: &[u8]) -> Vec<u8> {
    let argument = arguments::trim(argument);
    let joined = argument.strip_prefix(b"-D").map(arguments::trim);
    let long = argument.strip_prefix(b"--define-macro");
    let definition = joined.or(long).unwrap_or(argument);
    let definition = definition.strip_prefix(b"=").unwrap_or(definition);
    let mut text = b"#define ".to_vec();
    match definition.iter().position(|&byte| byte == b'=') {
        Some(at) => {
            text.extend_from_slice(&definition[..at]);
            text.push(b' ');
            text.extend_from_slice(&definition[at + 1..]);
        }
        None => text.extend_from_slice(definition),
    }
    text
}

fn is_plain_folder(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
}

/// Returns whether `path` does not exist; `None` if that cannot be determined, or if `path` is
/// neither a file nor a folder.
fn is_absent(path: &Path) -> Option<bool> {
    use std::io::ErrorKind;
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => Some(false),
        Ok(metadata) if metadata.is_dir() => Some(true),
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Some(true)
        }
        Err(_) => None,
    }
}

#[cfg(all(test, unix))]
mod tests;
