//! The search for a CUDA toolkit on this machine.

use std::path::{Path, PathBuf};

/// A toolkit: a folder with `include/cuda.h` and an NVRTC library.
#[derive(Clone, Debug)]
pub(crate) struct Toolkit {
    /// The folder that contains `include` and the libraries, such as the one that `CUDA_PATH`
    /// names.
    pub(crate) root: PathBuf,
}

/// Searches the folders of the environment variables, then the usual places.
pub(crate) fn find() -> Option<Toolkit> {
    let named = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(std::env::var_os);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(Into::into);
    named
        .filter(|root| !root.is_empty())
        .chain(usual)
        .map(PathBuf::from)
        .find(|root| is_toolkit(root))
        .map(|root| Toolkit { root })
}

fn is_toolkit(root: &Path) -> bool {
    let libraries = [
        "lib64",
        "lib",
        "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib",
        "bin",
        "bin/x64",
    ];
    root.join("include/cuda.h").is_file() && libraries.iter().any(|dir| has_nvrtc(&root.join(dir)))
}

fn has_nvrtc(dir: &Path) -> bool {
    let Ok(entries) = dir.read_dir() else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with(".dll"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_has_both_the_header_and_the_compiler() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("include")).unwrap();
        std::fs::create_dir_all(dir.path().join("lib64")).unwrap();
        assert!(!is_toolkit(dir.path()));
        std::fs::write(dir.path().join("include/cuda.h"), "").unwrap();
        std::fs::write(dir.path().join("lib64/libnvrtc_static.a"), "").unwrap();
        assert!(!is_toolkit(dir.path()));
        std::fs::write(dir.path().join("lib64/libnvrtc.so.13"), "").unwrap();
        assert!(is_toolkit(dir.path()));
    }
}
