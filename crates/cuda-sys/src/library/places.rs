//! Where NVIDIA's compilers and linkers may be: those that come with a toolkit, not with the driver.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::named;

/// The folder that `cargo xtask setup` fills, below a build directory.
const SETUP_DIR: &str = "cuda-setup/lib";

/// The files to try, in order: what the environment variable `variable` names, alone, when it is set; else `names` on the
/// system loader's path, in the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places, in `packages` below the
/// site-packages of Python and conda environments, and in the folder that `cargo xtask setup` fills.
pub(super) fn candidates(variable: &str, names: &[&str], packages: &[&str]) -> Vec<PathBuf> {
    if let Some(path) = named(variable) {
        return vec![path];
    }
    let mut paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    for dir in toolkit_dirs()
        .into_iter()
        .chain(python_dirs(packages))
        .chain(setup_dirs())
    {
        paths.extend(
            names
                .iter()
                .map(|name| dir.join(name))
                .filter(|path| path.is_file()),
        );
    }
    paths
}

fn toolkit_dirs() -> Vec<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"]
        .iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
    named
        .chain(usual)
        .flat_map(|root| ["lib64", "lib", "bin/x64", "bin"].map(|dir| root.join(dir)))
        .collect()
}

fn python_dirs(packages: &[&str]) -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let user = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let mut dirs = Vec::new();
    for root in environments
        .chain(user)
        .chain(["/usr/local", "/usr"].map(PathBuf::from))
    {
        dirs.push(root.join("lib"));
        let mut sites = vec![
            root.join("Lib/site-packages"),
            root.join("lib/python3/dist-packages"),
        ];
        if let Ok(entries) = fs::read_dir(root.join("lib")) {
            let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            pythons.retain(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("python3."))
            });
            // The newest first; the order of a folder's entries is no order.
            pythons.sort();
            pythons.reverse();
            sites.extend(pythons.iter().flat_map(|python| {
                ["site-packages", "dist-packages"].map(|name| python.join(name))
            }));
        }
        for site in sites {
            let common = ["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64"];
            dirs.extend(common.iter().chain(packages).map(|dir| site.join(dir)));
        }
    }
    dirs
}

/// `target/cuda-setup/lib` of the workspace that this program was built in.
///
/// Not of the folder that it is run in: whoever can write there would choose the code that this program loads.
fn setup_dirs() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().map(|dir| dir.join(SETUP_DIR)).collect()
}
