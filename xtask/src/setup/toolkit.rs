//! The search for a CUDA toolkit on this machine.

use std::path::{Path, PathBuf};

/// The folders of a toolkit that can contain NVRTC.
const LIBRARIES: [&str; 6] = [
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "bin",
    "bin/x64",
];

/// Returns the folder of a toolkit with headers and NVRTC. Searches the folders of the environment
/// variables, then the usual places.
pub(crate) fn find() -> Option<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(std::env::var_os);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(Into::into);
    let roots = named.filter(|root| !root.is_empty()).chain(usual);
    roots.map(PathBuf::from).find(|root| is_toolkit(root))
}

fn is_toolkit(root: &Path) -> bool {
    root.join("include/cuda.h").is_file() && LIBRARIES.iter().any(|dir| has_nvrtc(&root.join(dir)))
}

fn has_nvrtc(dir: &Path) -> bool {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with(".dll"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_has_both_header_and_compiler() {
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
