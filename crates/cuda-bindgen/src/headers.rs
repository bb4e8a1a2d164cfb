//! The search for the CUDA headers of this machine, and their version.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_places::{Setup, Toolkit, Trust, Untrusted, path_variable, toolkits};

use crate::Error;

/// The environment variable that names the include folder to generate from.
pub const HEADERS_VAR: &str = "CUDA_SYS_HEADERS";

/// A folder with `cuda.h`, and its version.
#[derive(Clone, Debug)]
pub struct Headers {
    dir: PathBuf,
    version: u32,
}

impl Headers {
    /// Reads the version of the `cuda.h` in `dir`.
    ///
    /// # Errors
    ///
    /// Fails if there is no `cuda.h`, or if it defines no `CUDA_VERSION`.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let text = read(&dir.join("cuda.h"))?;
        let version = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("#define CUDA_VERSION"))
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| {
                Error::Header(format!("{}: no CUDA_VERSION in cuda.h", dir.display()))
            })?;
        Ok(Self {
            dir: dir.to_owned(),
            version,
        })
    }

    /// Returns the include folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the version in CUDA's encoding: 13050 is 13.5.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns whether `nvrtc.h` is in the same folder as `cuda.h`.
    #[must_use]
    pub fn has_nvrtc(&self) -> bool {
        self.dir.join("nvrtc.h").is_file()
    }

    /// Returns those headers in this folder on which the bindings depend.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        [
            "cuda.h",
            "cudaTypedefs.h",
            "cudaProfiler.h",
            "cudaProfilerTypedefs.h",
            "nvrtc.h",
        ]
        .iter()
        .map(|name| self.dir.join(name))
        .filter(|path| path.is_file())
        .collect()
    }

    /// Returns the text of one header.
    pub(crate) fn text(&self, name: &str) -> Result<String, Error> {
        read(&self.dir.join(name))
    }
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })
}

/// Returns the include folder that [`HEADERS_VAR`] names. An empty variable counts as unset.
#[must_use]
pub fn named() -> Option<PathBuf> {
    path_variable(HEADERS_VAR)
}

/// Finds the headers from which to generate: in the folder that [`HEADERS_VAR`] names if it is set,
/// otherwise in the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places, and in the folder
/// that `cargo xtask setup` fills in the target folder around `near`.
///
/// A folder that no environment variable names is used only if no other user can write to it.
///
/// # Errors
///
/// Fails with the list of places and the reason why each was not used.
pub fn find(near: &Path) -> Result<Headers, String> {
    match named() {
        Some(dir) => Headers::open(&dir).map_err(|error| error.to_string()),
        None => search(toolkits(), Setup::around(near)),
    }
}

fn search(toolkits: Vec<Toolkit>, setup: Option<Setup>) -> Result<Headers, String> {
    let trust = Trust::of_this_user();
    let mut tried = Vec::new();
    let mut places: Vec<(PathBuf, Result<PathBuf, Untrusted>)> = Vec::new();
    for toolkit in toolkits {
        let dir = toolkit.root.join("include");
        let usable = match toolkit.variable {
            Some(_) => Ok(dir.clone()),
            None => trust.resolve_dir(&dir),
        };
        places.push((dir, usable));
    }
    places.extend(setup.map(|setup| {
        let dir = setup.dir.join("include");
        let usable = setup.trust.resolve_dir(&dir);
        (dir, usable)
    }));
    for (dir, usable) in places {
        match usable {
            Ok(dir) => match Headers::open(&dir) {
                Ok(headers) => return Ok(headers),
                Err(error) => tried.push(error.to_string()),
            },
            Err(error) if error.is_absent() => tried.push(format!("{}: absent", dir.display())),
            Err(error) => tried.push(format!("{}: skipped: {error}", dir.display())),
        }
    }
    Err(format!("no cuda.h: {}", tried.join("; ")))
}

/// Returns the folder with the libclang that `cargo xtask setup` installed in the target folder
/// around `near`.
///
/// # Errors
///
/// [`Untrusted`] if another user can write to the folder.
pub fn setup_libclang(near: &Path) -> Result<Option<PathBuf>, Untrusted> {
    let Some(setup) = Setup::around(near) else {
        return Ok(None);
    };
    match setup.trust.resolve_dir(&setup.dir.join("lib")) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cuda_places::{Setup, Toolkit};

    use super::{search, setup_libclang};

    const CUDA_H: &str = "#define CUDA_VERSION 13050\n";

    #[test]
    fn only_a_target_folder_around_the_file_is_searched() {
        let temp = tempfile::tempdir().unwrap();
        let near = temp.path().join("debug/build/out");
        fs::create_dir_all(&near).unwrap();
        let include = temp.path().join("cuda-setup/include");
        fs::create_dir_all(&include).unwrap();
        fs::create_dir_all(temp.path().join("cuda-setup/lib")).unwrap();
        fs::write(include.join("cuda.h"), CUDA_H).unwrap();
        let found = || search(Vec::new(), Setup::around(&near));
        assert!(found().is_err());
        assert_eq!(setup_libclang(&near), Ok(None));
        fs::write(temp.path().join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(found().unwrap().version(), 13050);
        assert!(setup_libclang(&near).unwrap().is_some());
        #[cfg(unix)]
        for dir in ["cuda-setup/include", "cuda-setup/lib", "cuda-setup", ""] {
            use std::fs::Permissions;
            use std::os::unix::fs::PermissionsExt;
            let dir = temp.path().join(dir);
            fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
            let is_lib = dir.ends_with("lib");
            assert_eq!(found().is_ok(), is_lib, "{dir:?}");
            assert_eq!(
                setup_libclang(&near).is_ok(),
                dir.ends_with("include"),
                "{dir:?}"
            );
            fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_toolkits_that_the_user_named_are_unchecked() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("toolkit");
        fs::create_dir_all(root.join("include")).unwrap();
        fs::write(root.join("include/cuda.h"), CUDA_H).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o777)).unwrap();
        let found = |variable| {
            let root = root.clone();
            search(vec![Toolkit { root, variable }], None)
        };
        assert!(found(Some("CUDA_PATH")).is_ok());
        let error = found(None).unwrap_err();
        assert!(error.contains("skipped: "), "{error}");
        assert!(error.contains("writable by other users"), "{error}");
    }
}
