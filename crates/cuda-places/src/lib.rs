//! The places where CUDA's files may be on a machine, and a check of whether they can be trusted.
//!
//! The crates of this workspace load libraries, read headers and store compiled kernels. A user who
//! can write to one of these folders chooses code that runs in this process. A place is therefore
//! either
//!
//! - **explicit**: the user or the program named it, by an argument or by one of the environment
//!   variables `CUDA_DRIVER_LIBRARY`, `CUDA_NVRTC_LIBRARY`, `CUDA_NVJITLINK_LIBRARY`,
//!   `CUDA_CUPTI_LIBRARY`, `CUDA_SYS_HEADERS`, `CUDA_PATH` and `CUDA_HOME`. It is used without a
//!   check; or
//! - **implicit**: it is searched because CUDA is often installed there. It is used only if
//!   [`Trust::resolve`] accepts it, and under the path that was checked.
//!
//! An empty environment variable counts as unset. All environment variables are ignored in a
//! program that runs with more rights than the user who started it ([`is_privileged`]).

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(unix)]
mod groups;
mod setup;
mod trust;

pub use setup::Setup;
pub use trust::{Trust, Untrusted};

/// A folder that may contain a CUDA toolkit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// The path of the folder, which need not exist.
    pub root: PathBuf,
    /// The environment variable that names it, or `None` for an implicit place.
    pub variable: Option<&'static str>,
}

/// Returns the folders that may contain a CUDA toolkit, in search order: `CUDA_PATH`, `CUDA_HOME`,
/// `/usr/local/cuda` and `/opt/cuda`. They are not checked.
#[must_use]
pub fn toolkits() -> Vec<Toolkit> {
    let explicit = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(|name| {
        Some(Toolkit {
            root: path_variable(name)?,
            variable: Some(name),
        })
    });
    let implicit = ["/usr/local/cuda", "/opt/cuda"].map(|root| Toolkit {
        root: root.into(),
        variable: None,
    });
    explicit.chain(implicit).collect()
}

/// Returns the value of an environment variable, or `None` if it is unset or empty. In a
/// [privileged](is_privileged) program the result is always `None`.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if is_privileged() {
        return None;
    }
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the path in an environment variable, under the conditions of [`variable`].
#[must_use]
pub fn path_variable(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// Returns whether this program runs with more rights than the user who started it (set-user-ID,
/// set-group-ID or file capabilities). The user with fewer rights controls its environment.
#[must_use]
pub fn is_privileged() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // SAFETY: the function has no requirements; an unknown entry is 0.
        let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
        secure != 0
    }
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    {
        // SAFETY: the function has no requirements.
        let (user, effective) = (unsafe { libc::getuid() }, unsafe { libc::geteuid() });
        // SAFETY: the function has no requirements.
        let (group, effective_group) = (unsafe { libc::getgid() }, unsafe { libc::getegid() });
        user != effective || group != effective_group
    }
    #[cfg(not(unix))]
    false
}
