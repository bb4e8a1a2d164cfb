//! The search for NVIDIA's libraries, and the loading of one of them.
//!
//! A place that an environment variable names is used without a check. A folder that the user did
//! not name has to pass the check of cuda-places, and the library is loaded by the path that was
//! checked.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cuda_places::{Setup, Trust, Untrusted, path_variable, toolkits};
use libloading::Library;

use super::attempt;
use crate::{Attempt, LoadError};

/// The folder of this target's libraries in a toolkit for several targets.
const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "targets/sbsa-linux/lib"
} else {
    "targets/x86_64-linux/lib"
};

/// A library to search for.
pub(super) struct Wanted {
    /// The name for error messages.
    pub(super) library: &'static str,
    /// The environment variable that names the file. If it is set, nothing else is tried.
    pub(super) variable: &'static str,
    /// The remedy to suggest if no place has the library.
    pub(super) hint: &'static str,
}

/// One step of a search.
pub(super) enum Candidate {
    /// A file to load, or a bare name for the system's loader.
    Load(PathBuf),
    /// A place that is skipped.
    Skipped(Attempt),
}

impl Candidate {
    /// Returns the file at an implicit place, or the reason why that place is skipped.
    pub(super) fn at(path: &Path) -> Self {
        match Trust::of_this_user().resolve(path) {
            Ok(real) => Self::Load(real),
            // The file does not exist, and only this user and root could create it. So it is tried,
            // and the error lists the failure.
            Err(error) if error.is_absent() => Self::Load(path.to_owned()),
            Err(error) => Self::skipped(path, &error),
        }
    }

    fn skipped(place: &Path, error: &Untrusted) -> Self {
        Self::Skipped(Attempt {
            library: place.display().to_string(),
            reason: format!("skipped: {error}"),
        })
    }

    /// Returns the file, unless the place is skipped.
    pub(super) fn into_path(self) -> Option<PathBuf> {
        match self {
            Self::Load(path) => Some(path),
            Self::Skipped(_) => None,
        }
    }
}

impl Wanted {
    /// Loads the file that the environment variable names. If it is not set, loads the first of
    /// `candidates` that is a library, and passes it to `finish` together with its path.
    ///
    /// There are candidates only for Linux and Windows, because NVIDIA has no libraries for other
    /// systems.
    pub(super) fn load<T>(
        &self,
        candidates: impl FnOnce() -> Vec<Candidate>,
        finish: impl Fn(Library, String) -> Result<T, LoadError>,
    ) -> Result<Arc<T>, LoadError> {
        let named = path_variable(self.variable);
        let candidates = match &named {
            Some(path) => vec![Candidate::Load(path.clone())],
            None if cfg!(any(target_os = "linux", target_os = "windows")) => candidates(),
            None => {
                return Err(LoadError::UnsupportedPlatform {
                    library: self.library,
                });
            }
        };
        let found = self
            .load_first(candidates, finish, named.is_none())
            .map(Arc::new);
        match named {
            None => found,
            Some(path) => found.map_err(|error| LoadError::Variable {
                variable: self.variable,
                value: path.display().to_string(),
                error: Box::new(error),
            }),
        }
    }

    /// Loads the file `path` and passes it to `finish`.
    ///
    /// # Safety
    ///
    /// Running the initializers of the library, and of the libraries that it needs, must be sound.
    pub(super) unsafe fn open<T>(
        &self,
        path: &Path,
        finish: impl FnOnce(Library, String) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let name = path.display().to_string();
        // SAFETY: running the initializers must be sound ← the caller guarantees it.
        match unsafe { open(path) } {
            Ok(library) => finish(library, name),
            Err(error) => Err(LoadError::NotFound {
                library: self.library,
                tried: vec![attempt(name, &error)],
                hint: "",
            }),
        }
    }

    fn load_first<T>(
        &self,
        candidates: Vec<Candidate>,
        finish: impl Fn(Library, String) -> Result<T, LoadError>,
        with_hint: bool,
    ) -> Result<T, LoadError> {
        let mut tried = Vec::new();
        for candidate in candidates {
            let path = match candidate {
                Candidate::Load(path) => path,
                Candidate::Skipped(attempt) => {
                    tried.push(attempt);
                    continue;
                }
            };
            let name = path.display().to_string();
            if path.is_dir() {
                tried.push(Attempt {
                    library: name,
                    reason: "this is a folder; name the file of the library in it".to_owned(),
                });
                continue;
            }
            // SAFETY: running the initializers of the library must be sound ← the user of this
            // process named the file, or it has the name of NVIDIA's library and is in a folder to
            // which no other user can write, or the system's loader finds it.
            match unsafe { open(&path) } {
                Ok(library) => return finish(library, name),
                Err(error) => tried.push(attempt(name, &error)),
            }
        }
        Err(LoadError::NotFound {
            library: self.library,
            tried,
            hint: if with_hint { self.hint } else { "" },
        })
    }
}

/// Loads the library `path`: a file, or a bare name for which the system's loader searches.
///
/// # Safety
///
/// Running the initializers of the library, and of the libraries that it needs, must be sound.
#[cfg(not(windows))]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: running the initializers must be sound ← the caller guarantees it.
    unsafe { Library::new(path) }
}

/// Loads the library `path`: a file, or a bare name that is searched for in the folder of the
/// program and in that of Windows. The current folder and the folders of `PATH` are not searched,
/// either for the library or for the libraries that it needs. The latter may be in its own folder.
///
/// # Safety
///
/// Running the initializers of the library, and of the libraries that it needs, must be sound.
#[cfg(windows)]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::windows;
    let is_bare = path.components().count() == 1 && !path.has_root();
    let (path, flags) = if is_bare {
        let flags =
            windows::LOAD_LIBRARY_SEARCH_SYSTEM32 | windows::LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
        (path.to_owned(), flags)
    } else {
        // The first flag requires a full path.
        let flags =
            windows::LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | windows::LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
        (std::path::absolute(path).unwrap_or(path.to_owned()), flags)
    };
    // SAFETY: running the initializers must be sound ← the caller guarantees it.
    unsafe { windows::Library::load_with_flags(path, flags) }.map(Library::from)
}

/// Returns the places of a library of a toolkit, in search order: `names` for the system's loader;
/// the library folders and `extras` of the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual
/// places; `packages` below the site-packages of Python and conda environments; and `cuda-setup` in
/// the target folder around the program. A toolkit or environment without the library is in the
/// list as skipped, so that an error lists everything that was searched.
pub(super) fn candidates(names: &[&str], extras: &[&str], packages: &[&str]) -> Vec<Candidate> {
    let mut search = Search {
        names,
        found: names
            .iter()
            .map(|name| Candidate::Load(name.into()))
            .collect(),
        trust: Trust::of_this_user(),
        refused: Vec::new(),
    };
    if cfg!(windows) {
        search.add_path_dirs();
    }
    search.add_toolkits(extras);
    search.add_python(packages);
    if let Some(setup) = Setup::around_this_program() {
        search.trust = setup.trust;
        search.add_implicit(&setup.dir.join("lib"));
    }
    search.found
}

struct Search<'a> {
    names: &'a [&'a str],
    found: Vec<Candidate>,
    trust: Trust,
    /// The refused paths, so that each is reported once.
    refused: Vec<PathBuf>,
}

impl Search<'_> {
    /// Adds `place` as skipped if no candidate below it was added. `before` is the number of
    /// candidates before the search of `place`.
    fn note_if_empty(&mut self, before: usize, place: &Path, kind: &str) {
        if self.found.len() == before {
            self.found.push(Candidate::Skipped(Attempt {
                library: place.display().to_string(),
                reason: format!("no {} in this {kind}", self.names.join(" or ")),
            }));
        }
    }

    /// Adds the files in `dir`, which the user named.
    fn add_explicit(&mut self, dir: &Path) {
        let files = self.names.iter().map(|name| dir.join(name));
        let files = files.filter(|path| path.is_file());
        self.found.extend(files.map(Candidate::Load));
    }

    /// Adds the files in `dir` if no other user can write to it.
    fn add_implicit(&mut self, dir: &Path) {
        let Some(dir) = self.trusted(dir) else { return };
        for name in self.names {
            // The link is not resolved: both its folder and its target were checked, and the
            // libraries that this one needs may be next to the link.
            let path = dir.join(name);
            if self.trusted(&path).is_some_and(|real| real.is_file()) {
                self.found.push(Candidate::Load(path));
            }
        }
    }

    /// Returns the path with links resolved, if it exists and is trusted. A refusal is recorded.
    fn trusted(&mut self, path: &Path) -> Option<PathBuf> {
        match self.trust.resolve(path) {
            Ok(real) => Some(real),
            Err(error) => {
                self.refuse(path, &error);
                None
            }
        }
    }

    fn refuse(&mut self, place: &Path, error: &Untrusted) {
        if !error.is_absent() && !self.refused.iter().any(|path| path == error.path()) {
            self.refused.push(error.path().to_owned());
            self.found.push(Candidate::skipped(place, error));
        }
    }

    /// Adds the folders of `PATH`. This is for Windows, where the installers of toolkits add
    /// themselves to it. Relative folders depend on the current folder and are skipped.
    fn add_path_dirs(&mut self) {
        let dirs = path_variable("PATH").unwrap_or_default();
        for dir in env::split_paths(&dirs).filter(|dir| dir.is_absolute()) {
            self.add_explicit(&dir);
        }
    }

    fn add_toolkits(&mut self, extras: &[&str]) {
        for toolkit in toolkits() {
            if let Some(variable) = toolkit.variable
                && !toolkit.root.is_dir()
            {
                self.found.push(Candidate::Skipped(Attempt {
                    library: toolkit.root.display().to_string(),
                    reason: format!(
                        "skipped: {variable} names this folder, which does not exist; correct or \
                         unset {variable}"
                    ),
                }));
                continue;
            }
            let before = self.found.len();
            let usual = ["lib64", "lib", TARGET, "bin/x64", "bin"];
            for dir in usual.iter().chain(extras) {
                let dir = toolkit.root.join(dir);
                match toolkit.variable {
                    Some(_) => self.add_explicit(&dir),
                    None => self.add_implicit(&dir),
                }
            }
            self.note_if_empty(before, &toolkit.root, "toolkit");
        }
    }

    fn add_python(&mut self, packages: &[&str]) {
        for root in python_roots() {
            let before = self.found.len();
            self.add_implicit(&root.join("lib"));
            let mut sites = vec![
                root.join("Lib/site-packages"),
                root.join("lib/python3/dist-packages"),
            ];
            if let Some(lib) = self.trusted(&root.join("lib")) {
                for python in newest_first(&lib, "python3.") {
                    sites.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
                }
            }
            for site in sites {
                let common = ["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64"];
                for dir in common.iter().chain(packages) {
                    self.add_implicit(&site.join(dir));
                }
            }
            self.note_if_empty(before, &root, "Python or conda environment");
        }
    }
}

/// Returns the folders that may contain a Python or conda environment: the active environment, that
/// of the `python3` that a shell would run, the user's own packages, and those of the system.
fn python_roots() -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(path_variable);
    let path = path_variable("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).find_map(|dir| python_in(&dir));
    let user = path_variable("HOME").map(|home| home.join(".local"));
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    let all = environments
        .chain(on_path.unwrap_or_default())
        .chain(user)
        .chain(system);
    let mut roots = Vec::new();
    for root in all {
        // A relative path would name a different folder for each current folder.
        if root.is_absolute() && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Returns the environments to which the Python 3 in `dir` may belong, or `None` if `dir` has none.
/// Nothing is run: the environment is found by the path of the program.
fn python_in(dir: &Path) -> Option<Vec<PathBuf>> {
    let name = if cfg!(windows) {
        "python.exe"
    } else {
        "python3"
    };
    let program = dir.join(name);
    if !program.is_file() {
        return None;
    }
    let root = dir.parent()?;
    if dir.ends_with("shims") && root.join("versions").is_dir() {
        // pyenv: the program is a script, which selects one of several versions.
        return Some(newest_first(&root.join("versions"), ""));
    }
    let mut roots = vec![root.to_owned()];
    if cfg!(windows) {
        roots.push(dir.to_owned());
    }
    // A virtual environment links to the program of another environment.
    let real = program.canonicalize().ok();
    roots.extend(real.and_then(|real| Some(real.parent()?.parent()?.to_owned())));
    Some(roots)
}

/// Returns the entries of `dir` whose names begin with `prefix`, in descending order of names.
fn newest_first(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .collect();
    // The order of a folder's entries is arbitrary.
    paths.sort();
    paths.reverse();
    paths
}
