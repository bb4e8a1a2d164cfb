//! Where the CUDA headers of this machine are, and which version they have.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// The environment variable that names the include folder to generate from.
pub const HEADERS_VAR: &str = "CUDA_SYS_HEADERS";

/// The folder below Cargo's target folder that `cargo xtask setup` fills.
pub const SETUP_DIR: &str = "cuda-setup";

/// The files that Cargo writes to its target folder: one of them is there from the first build on.
const TARGET_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

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
    /// If there is no `cuda.h`, or it states no `CUDA_VERSION`.
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

    /// The include folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The version as CUDA writes it: 13050 is 13.5.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether `nvrtc.h` lies beside `cuda.h`.
    #[must_use]
    pub fn has_nvrtc(&self) -> bool {
        self.dir.join("nvrtc.h").is_file()
    }

    /// The headers that the bindings depend on, of those that are here.
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

    /// The text of one header.
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

/// The include folders to look in, in order: [`HEADERS_VAR`] alone when it is set, else `CUDA_PATH`,
/// `CUDA_HOME`, the usual places, and the folder that `cargo xtask setup` fills in the target folder around `near`.
#[must_use]
pub fn candidates(near: &Path) -> Vec<PathBuf> {
    if let Some(dir) = named(HEADERS_VAR) {
        return vec![dir];
    }
    let mut dirs: Vec<PathBuf> = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(named)
        .map(|root| root.join("include"))
        .collect();
    dirs.extend(["/usr/local/cuda/include", "/opt/cuda/include"].map(PathBuf::from));
    dirs.extend(setup_dir(near).map(|setup| setup.join("include")));
    dirs
}

/// The folder that the environment variable names; an empty one names none.
fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// The folder that `cargo xtask setup` has filled in the target folder that `near` lies in, if it has.
///
/// cuda-sys looks for libraries by the same rule: whoever can write to a folder that is looked in chooses the code that
/// is loaded.
#[must_use]
pub fn setup_dir(near: &Path) -> Option<PathBuf> {
    near.ancestors()
        .skip(1)
        .filter(|dir| TARGET_MARKS.iter().any(|mark| dir.join(mark).is_file()))
        .filter(|dir| is_of(dir, near))
        .map(|dir| dir.join(SETUP_DIR))
        .find(|setup| setup.is_dir())
}

/// Whether `dir` belongs to the owner of `near` or to root, and not everybody can write to it.
#[cfg(unix)]
fn is_of(dir: &Path, near: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_ALL: u32 = 0o002;
    let (Ok(dir), Ok(near)) = (dir.metadata(), near.metadata()) else {
        return false;
    };
    (dir.uid() == 0 || dir.uid() == near.uid()) && dir.mode() & WRITABLE_BY_ALL == 0
}

/// Whether `dir` belongs to the owner of `near`. The folders of a user are the user's own here, by inheritance.
#[cfg(not(unix))]
fn is_of(_dir: &Path, _near: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::setup_dir;

    #[test]
    fn only_a_target_folder_around_it_is_looked_in() {
        let temp = tempfile::tempdir().unwrap();
        let near = temp.path().join("debug/build/out");
        fs::create_dir_all(&near).unwrap();
        let setup = temp.path().join("cuda-setup");
        fs::create_dir(&setup).unwrap();
        assert_eq!(setup_dir(&near), None);
        fs::write(temp.path().join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(setup_dir(&near), Some(setup));
        #[cfg(unix)]
        {
            use std::fs::Permissions;
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(temp.path(), Permissions::from_mode(0o1777)).unwrap();
            assert_eq!(setup_dir(&near), None);
        }
    }
}
