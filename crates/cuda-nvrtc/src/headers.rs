//! CUDA's own headers (`cuda_fp16.h`, cooperative groups, `cuda/std`): found on the machine, or written out by an
//! NVRTC that carries them.

use std::env;
use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use cuda_sys::Version;
use cuda_sys::nvrtc::{
    NVRTC_INSTALL_HEADERS_SKIP_IF_EXISTS, calls, nvrtcBundledHeadersInfo, toolkit_roots,
};

use crate::library::check;
use crate::{Error, Nvrtc};

/// A folder that has this has CUDA's headers.
const MARKER: &str = "cuda_fp16.h";

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
    /// Finds headers that go with `nvrtc`.
    ///
    /// Looks beside NVRTC, in the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places, and in what
    /// `cargo xtask setup` fetched. Headers of NVRTC's own version are taken first; then those that an NVRTC of
    /// 13.3 or newer carries, which are written to the user's cache folder once; then those of another minor
    /// version.
    ///
    /// # Errors
    ///
    /// [`Error::NoHeaders`] with every place that was tried.
    pub fn find(nvrtc: &Nvrtc) -> Result<Self, Error> {
        let mut tried = Vec::new();
        let mut near = None;
        for dir in candidates(nvrtc) {
            if !dir.join(MARKER).is_file() {
                tried.push(format!("{}: no {MARKER}", dir.display()));
                continue;
            }
            match header_version(&dir) {
                Some(found) if found == nvrtc.version() => return Ok(Self::of(&dir)),
                Some(found) if found.major() == nvrtc.version().major() => {
                    near.get_or_insert(dir);
                }
                found => {
                    let found = found.map_or("unknown".to_owned(), |found| found.to_string());
                    let wanted = nvrtc.version();
                    tried.push(format!(
                        "{}: of CUDA {found}, and NVRTC is {wanted}",
                        dir.display()
                    ));
                }
            }
        }
        match (Self::carried(nvrtc), near) {
            (Ok(headers), _) => Ok(headers),
            (Err(_), Some(dir)) => Ok(Self::of(&dir)),
            (Err(error), None) => {
                tried.push(format!("NVRTC itself: {error}"));
                Err(Error::NoHeaders { tried })
            }
        }
    }

    /// The headers in `dir`, with those of CUDA's C++ libraries in its folder `cccl`.
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        let cccl = dir.join("cccl");
        let dirs = [dir.to_owned()].into_iter();
        Self {
            dirs: dirs.chain(cccl.is_dir().then_some(cccl)).collect(),
        }
    }

    /// `nvrtcInstallBundledHeaders`—Writes the headers that this NVRTC carries to `dir`, if they are not there.
    ///
    /// About 20 MB. NVRTC 13.3.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] if this NVRTC is too old, [`Error::InstallHeaders`] if `dir` cannot be written.
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
        // SAFETY: the path must be NUL-terminated and the pointer writable ← a CString and a local.
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
            // SAFETY: it must be a string that is alive ← NVRTC answered it just now, not null, and keeps it until
            // the next call.
            let log = unsafe { CStr::from_ptr(log) };
            refused(format!("{error}: {}", log.to_string_lossy().trim()))
        })?;
        Ok(Self::of(dir))
    }

    /// The folders, in the order in which to look.
    #[must_use]
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// The headers that NVRTC carries, in the user's cache folder.
    fn carried(nvrtc: &Nvrtc) -> Result<Self, Error> {
        let info = carried_info(nvrtc)?;
        let cache = cache_dir().ok_or_else(|| Error::InstallHeaders {
            dir: "the user's cache folder".to_owned(),
            reason: "none of XDG_CACHE_HOME, LOCALAPPDATA and HOME names an absolute folder"
                .to_owned(),
        })?;
        // Two builds of one version may carry different headers.
        let name = format!(
            "headers-{}-{}-{}",
            nvrtc.version(),
            info.numFiles,
            info.uncompressedSize
        );
        Self::install(nvrtc, &cache.join("cuda-nvrtc").join(name))
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
    // SAFETY: both pointers must be writable ← they are to locals.
    let status = unsafe { ask(&raw mut info, &raw mut log) };
    check(status, calls::nvrtcGetBundledHeadersInfo)?;
    Ok(info)
}

/// The folders to try, those nearest to NVRTC first.
fn candidates(nvrtc: &Nvrtc) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    let lib = Path::new(nvrtc.origin()).parent();
    if let Some(root) = lib.and_then(Path::parent).filter(|root| root.is_absolute()) {
        dirs.push(root.join("include"));
        // Python's packages of CUDA 12 have a folder each.
        if let Some(packages) = root.parent() {
            dirs.push(packages.join("cuda_runtime/include"));
        }
    }
    let toolkits = toolkit_roots().into_iter();
    dirs.extend(toolkits.map(|root| root.join("include")));
    dirs
}

/// The version that `cuda.h` in `dir` states.
fn header_version(dir: &Path) -> Option<Version> {
    let text = fs::read_to_string(dir.join("cuda.h")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("#define CUDA_VERSION"))?;
    Some(Version::new(line.trim().parse().ok()?))
}

/// The user's cache folder.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    cache_dir_by(named)
}

/// The first that is absolute: one that is not would be another in each folder that a program is run in.
fn cache_dir_by(named: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    ["XDG_CACHE_HOME", "LOCALAPPDATA"]
        .into_iter()
        .filter_map(&named)
        .chain(named("HOME").map(|home| home.join(".cache")))
        .find(|dir| dir.is_absolute())
}

/// The folder that the environment variable names; an empty one names none.
fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
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
