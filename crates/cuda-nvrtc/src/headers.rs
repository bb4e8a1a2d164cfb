//! CUDA's own headers (`cuda_fp16.h`, cooperative groups, `cuda/std`), found on the machine or
//! written out by an NVRTC that contains them.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use cuda_places::{Setup, Trust, Untrusted, path_variable, toolkits};
use cuda_sys::Version;
use cuda_sys::nvrtc::{NVRTC_INSTALL_HEADERS_SKIP_IF_EXISTS, calls, nvrtcBundledHeadersInfo};

use crate::library::check;
use crate::{Error, Nvrtc};

/// The header by which a folder with CUDA's headers is recognized.
const MARKER: &str = "cuda_fp16.h";

/// The folder of CUDA's headers in a conda environment on this target.
const CONDA_HEADERS: &str = if cfg!(windows) {
    "Library/include"
} else if cfg!(target_arch = "aarch64") {
    "targets/sbsa-linux/include"
} else {
    "targets/x86_64-linux/include"
};

/// The folders of CUDA's headers, for [`Options::cuda_headers`](crate::Options::cuda_headers).
///
/// ```no_run
/// # fn main() -> Result<(), cuda_nvrtc::Error> {
/// use cuda_nvrtc::{CudaHeaders, Nvrtc, Options, Program};
///
/// let nvrtc = Nvrtc::load()?;
/// let options = Options::new().cuda_headers(&CudaHeaders::find(&nvrtc)?);
/// let source = "#include <cuda_fp16.h>\n__global__ void k(__half *x) { x[0] = __float2half(1.0f); }";
/// let ptx = Program::new(&nvrtc, source).compile_ptx(&options)?.image;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaHeaders {
    dirs: Vec<PathBuf>,
}

impl CudaHeaders {
    /// Finds headers that match `nvrtc`.
    ///
    /// Searches the folders next to NVRTC, the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual
    /// places, and `cuda-setup` in the target folder around the program. Headers of NVRTC's own
    /// version come first, then those that NVRTC 13.3 or newer contains, which are written to the
    /// user's cache folder once, then those of another minor version.
    ///
    /// A folder to which another user can write is not used, unless `CUDA_PATH` or `CUDA_HOME`
    /// names it.
    ///
    /// # Errors
    ///
    /// [`Error::NoHeaders`] with every place that was tried or skipped, if no headers match.
    pub fn find(nvrtc: &Nvrtc) -> Result<Self, Error> {
        let mut tried = Vec::new();
        let mut near = None;
        for place in places(nvrtc) {
            let shown = place.dir.display();
            let headers = match place.headers() {
                Ok(headers) => headers,
                Err(error) if error.is_absent() => {
                    tried.push(match place.variable {
                        Some(variable) => format!("{shown} (from {variable}): no {MARKER}"),
                        None => format!("{shown}: no {MARKER}"),
                    });
                    continue;
                }
                Err(error) => {
                    tried.push(format!(
                        "{shown}: skipped: {error}; or name the toolkit in CUDA_PATH"
                    ));
                    continue;
                }
            };
            match header_version(&headers.dirs[0]) {
                Some(found) if found == nvrtc.version() => return Ok(headers),
                Some(found) if found.major() == nvrtc.version().major() => {
                    near.get_or_insert(headers);
                }
                found => {
                    let found = found.map_or("unknown".to_owned(), |found| found.to_string());
                    let wanted = nvrtc.version();
                    tried.push(format!(
                        "{shown}: it is of CUDA {found}, but NVRTC is {wanted}"
                    ));
                }
            }
        }
        match (Self::carried(nvrtc), near) {
            (Ok(headers), _) => Ok(headers),
            (Err(_), Some(headers)) => Ok(headers),
            (Err(error), None) => {
                tried.push(format!("NVRTC itself: {error}"));
                Err(Error::NoHeaders { tried })
            }
        }
    }

    /// Uses the headers in `dir`, and those of CUDA's C++ libraries in its subfolder `cccl` if it
    /// exists.
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        let cccl = dir.join("cccl");
        let dirs = [dir.to_owned()].into_iter();
        Self {
            dirs: dirs.chain(cccl.is_dir().then_some(cccl)).collect(),
        }
    }

    /// `nvrtcInstallBundledHeaders`—Writes the headers that this NVRTC contains to `dir`, except
    /// for files that exist.
    ///
    /// The headers take about 20 MB. Requires NVRTC 13.3.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] if this NVRTC is too old, [`Error::InstallHeaders`] if NVRTC
    /// cannot write to `dir`.
    #[doc(alias = "nvrtcInstallBundledHeaders")]
    pub fn install(nvrtc: &Nvrtc, dir: &Path) -> Result<Self, Error> {
        let install = nvrtc.function(
            nvrtc.table().nvrtcInstallBundledHeaders,
            calls::nvrtcInstallBundledHeaders,
        )?;
        let refused = |reason: String| Error::InstallHeaders {
            dir: dir.display().to_string(),
            reason,
        };
        fs::create_dir_all(dir).map_err(|error| refused(error.to_string()))?;
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|nul| Error::Nul {
            place: "the folder of headers".to_owned(),
            position: nul.nul_position(),
        })?;
        let mut log = ptr::null();
        // SAFETY: the path must be NUL-terminated and the pointer writable ← they are a CString and
        // a local.
        let status = unsafe {
            install(
                path.as_ptr(),
                NVRTC_INSTALL_HEADERS_SKIP_IF_EXISTS,
                &raw mut log,
            )
        };
        check(status, calls::nvrtcInstallBundledHeaders).map_err(|error| {
            if log.is_null() {
                return refused(error.to_string());
            }
            // SAFETY: `log` must point to a live C string ← NVRTC has just returned it, it is not
            // null, and NVRTC keeps it until the next call.
            let log = unsafe { CStr::from_ptr(log) };
            refused(format!("{error}: {}", log.to_string_lossy().trim()))
        })?;
        Ok(Self::of(dir))
    }

    /// Returns the folders, in search order.
    #[must_use]
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Writes the headers that NVRTC contains to the user's cache folder, unless they are there.
    fn carried(nvrtc: &Nvrtc) -> Result<Self, Error> {
        let info = carried_info(nvrtc)?;
        let cache = cache_dir().ok_or_else(|| Error::InstallHeaders {
            dir: "the user's cache folder".to_owned(),
            reason: "none of XDG_CACHE_HOME, LOCALAPPDATA and HOME is set to an absolute path"
                .to_owned(),
        })?;
        let trust = Trust::of_this_user();
        // Two builds of one version may carry different headers.
        let name = format!(
            "headers-{}-{}-{}",
            nvrtc.version(),
            info.numFiles,
            info.uncompressedSize
        );
        let dir = cache.join("cuda-nvrtc").join(name);
        // NVRTC keeps files that exist, so other users must not have been able to create them.
        let dir = trust
            .create_dir(&dir)
            .and_then(|real| trust.check_tree(&real).map(|()| real))
            .map_err(|error| Error::InstallHeaders {
                dir: dir.display().to_string(),
                reason: error.to_string(),
            })?;
        Self::install(nvrtc, &dir)
    }
}

fn carried_info(nvrtc: &Nvrtc) -> Result<nvrtcBundledHeadersInfo, Error> {
    let ask = nvrtc.function(
        nvrtc.table().nvrtcGetBundledHeadersInfo,
        calls::nvrtcGetBundledHeadersInfo,
    )?;
    let mut info = nvrtcBundledHeadersInfo {
        available: 0,
        compressedSize: 0,
        uncompressedSize: 0,
        cudaVersionMajor: 0,
        cudaVersionMinor: 0,
        numFiles: 0,
    };
    let mut log = ptr::null();
    // SAFETY: both pointers must be writable ← they point to locals.
    let status = unsafe { ask(&raw mut info, &raw mut log) };
    check(status, calls::nvrtcGetBundledHeadersInfo)?;
    Ok(info)
}

/// A folder that may contain CUDA's headers.
struct Place {
    dir: PathBuf,
    /// The environment variable that names the toolkit, or `None` for an implicit place.
    variable: Option<&'static str>,
    trust: Trust,
}

impl Place {
    /// Returns the headers in this folder. The path of an implicit place is checked and its links
    /// are resolved.
    fn headers(&self) -> Result<CudaHeaders, Untrusted> {
        let unchecked = self.variable.is_some();
        if unchecked && self.dir.join(MARKER).is_file() {
            return Ok(CudaHeaders::of(&self.dir));
        }
        let dir = self.trust.resolve_dir(&self.dir)?;
        for name in [MARKER, "cuda.h"] {
            match self.trust.resolve(&dir.join(name)) {
                Err(error) if name == MARKER || !error.is_absent() => return Err(error),
                _ => {}
            }
        }
        let mut dirs = vec![dir];
        match self.trust.resolve_dir(&dirs[0].join("cccl")) {
            Ok(cccl) => dirs.push(cccl),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
        Ok(CudaHeaders { dirs })
    }
}

/// Returns the folders to try, with those nearest to NVRTC first.
fn places(nvrtc: &Nvrtc) -> Vec<Place> {
    let trust = Trust::of_this_user();
    let implicit = |dir: PathBuf| Place {
        dir,
        variable: None,
        trust: trust.clone(),
    };
    let mut places = Vec::new();
    let lib = Path::new(nvrtc.origin()).parent();
    if let Some(root) = lib.and_then(Path::parent).filter(|root| root.is_absolute()) {
        places.push(implicit(root.join("include")));
        // conda has the headers of each target in its own folder.
        places.push(implicit(root.join(CONDA_HEADERS)));
        // Each Python package of CUDA 12 has its own folder.
        if let Some(packages) = root.parent() {
            places.push(implicit(packages.join("cuda_runtime/include")));
        }
    }
    places.extend(toolkits().into_iter().map(|toolkit| Place {
        dir: toolkit.root.join("include"),
        variable: toolkit.variable,
        trust: trust.clone(),
    }));
    places.extend(Setup::around_this_program().map(|setup| Place {
        dir: setup.dir.join("include"),
        variable: None,
        trust: setup.trust,
    }));
    places
}

/// Returns the version that `cuda.h` in `dir` states.
fn header_version(dir: &Path) -> Option<Version> {
    let text = fs::read_to_string(dir.join("cuda.h")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("#define CUDA_VERSION"))?;
    Some(Version::new(line.trim().parse().ok()?))
}

/// Returns the user's cache folder.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    cache_dir_by(path_variable)
}

/// Returns the first absolute folder. A relative path would name a different folder for each
/// current folder.
fn cache_dir_by(named: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    ["XDG_CACHE_HOME", "LOCALAPPDATA"]
        .into_iter()
        .filter_map(&named)
        .chain(named("HOME").map(|home| home.join(".cache")))
        .find(|dir| dir.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::cache_dir_by;

    #[test]
    fn a_relative_folder_is_no_cache_folder() {
        let root = std::env::temp_dir();
        let dir = |cache: &str, home: &Path| {
            cache_dir_by(|name| match name {
                "XDG_CACHE_HOME" => Some(PathBuf::from(cache)),
                "HOME" => Some(home.to_owned()),
                _ => None,
            })
        };
        assert_eq!(dir("cache", &root), Some(root.join(".cache")));
        assert_eq!(dir("", &root), Some(root.join(".cache")));
        assert_eq!(dir("cache", Path::new("home")), None);
        let cache = root.join("cache");
        assert_eq!(dir(&cache.to_string_lossy(), &root), Some(cache));
    }
}
