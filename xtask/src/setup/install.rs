//! Downloads and unpacks one set. An interrupted run leaves nothing that looks complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::python::Python;
use super::wheels::{HEADERS, Pinned, Plan};

/// Installs `plan` below `setup`. Everything is unpacked in a temporary folder and moved when it is
/// complete, and `versions.txt` is written last.
pub(crate) fn install(plan: &Plan, python: &Python, setup: &Path) -> Result<()> {
    let partial = setup.join(".partial");
    remove(&partial)?;
    let installed = install_through(&partial, plan, python, setup);
    remove(&partial)?;
    installed
}

fn install_through(partial: &Path, plan: &Plan, python: &Python, setup: &Path) -> Result<()> {
    let ready = partial.join("ready");
    fs::create_dir_all(&ready)?;
    let total: f64 = plan.wheels.iter().map(|wheel| wheel.mib).sum();
    println!(
        "setup: {} ({} wheels, about {total:.0} MiB)",
        plan.set,
        plan.wheels.len()
    );
    for (index, wheel) in plan.wheels.iter().enumerate() {
        let start = Instant::now();
        println!(
            "  [{}/{}] {} {}, {:.1} MiB",
            index + 1,
            plan.wheels.len(),
            wheel.name,
            wheel.version,
            wheel.mib
        );
        let unpacked = fetch(wheel, python, &partial.join(format!("wheel-{index}")))?;
        collect(&unpacked, &ready, plan)?;
        println!("    done in {:.1} s", start.elapsed().as_secs_f64());
    }
    if let Some(missing) = plan.required.iter().find(|file| !ready.join(file).exists()) {
        bail!(
            "the wheels of {} do not contain {missing}: correct setup/wheels.toml",
            plan.set
        );
    }
    publish(&ready, &setup.join(plan.folder()))?;
    let stamp = setup.join(plan.folder()).join("versions.txt");
    fs::write(&stamp, plan.stamp()).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Downloads and unpacks one wheel, and returns the folder of its files.
fn fetch(wheel: &Pinned, python: &Python, dir: &Path) -> Result<PathBuf> {
    let (download, unpacked) = (dir.join("download"), dir.join("unpacked"));
    fs::create_dir_all(&download)?;
    python.download(wheel, &download)?;
    let file = download
        .read_dir()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ext| ext == "whl"))
        .with_context(|| format!("pip reported success, but did not download {}", wheel.name))?;
    python.unpack(&file, &unpacked)?;
    fs::remove_file(&file)?;
    Ok(unpacked)
}

/// Moves the files that `plan` needs from an unpacked wheel to their places below `ready`.
fn collect(unpacked: &Path, ready: &Path, plan: &Plan) -> Result<()> {
    let mut open = vec![unpacked.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in dir.read_dir()? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(unpacked).unwrap_or(&path);
            if let Some(place) = place(inside, &plan.set) {
                let to = ready.join(place);
                fs::create_dir_all(to.parent().unwrap_or(ready))?;
                fs::rename(&path, &to)
                    .with_context(|| format!("cannot move {}", path.display()))?;
            }
        }
    }
    remove(unpacked)
}

/// Returns the place of a wheel's file in its set; `None` if the set does not need it.
fn place(inside: &Path, set: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
    let file = *parts.last()?;
    if set.starts_with("headers/") {
        return HEADERS.contains(&file).then(|| PathBuf::from(file));
    }
    // `…/include/cccl/cuda/std` is included as `<cuda/std>`, so `cccl` is an include folder as
    // well.
    if let Some(at) = parts.iter().position(|part| *part == "include") {
        let rest = &parts[at + 1..];
        let rest = rest.strip_prefix(&["cccl"]).unwrap_or(rest);
        return (!rest.is_empty()).then(|| PathBuf::from("include").join(rest.join("/")));
    }
    let library = file.contains("nvrtc") && (file.contains(".so") || file.ends_with(".dll"));
    let clang = file == "libclang.so" || file == "libclang.dll";
    // `.alt` is another build of the same compiler.
    let wanted = clang || (library && !file.contains(".alt."));
    wanted.then(|| PathBuf::from("lib").join(file))
}

/// Replaces files of an earlier run in `to` with the contents of `ready`.
fn publish(ready: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    remove(&to.join("versions.txt"))?;
    for entry in ready.read_dir()? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        remove(&place)?;
        fs::rename(entry.path(), &place)
            .with_context(|| format!("cannot move to {}", place.display()))?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(inside: &str, set: &str) -> Option<String> {
        let place = place(Path::new(inside), set)?;
        Some(place.to_string_lossy().replace('\\', "/"))
    }

    #[test]
    fn files_go_to_their_places() {
        for (inside, to) in [
            ("nvidia/cu13/include/cuda.h", Some("include/cuda.h")),
            ("nvidia/cu13/include/crt/mma.h", Some("include/crt/mma.h")),
            (
                "nvidia/cu13/include/cccl/cuda/std/array",
                Some("include/cuda/std/array"),
            ),
            ("nvidia/cu13/include/nv/target", Some("include/nv/target")),
            ("nvidia/cu13/lib/libnvrtc.so.13", Some("lib/libnvrtc.so.13")),
            (
                "nvidia/cu13/lib/libnvrtc-builtins.so.13.5",
                Some("lib/libnvrtc-builtins.so.13.5"),
            ),
            ("nvidia/cu13/lib/libnvrtc.alt.so.13", None),
            (
                "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll",
                Some("lib/nvrtc64_130_0.dll"),
            ),
            ("nvidia/cu13/lib/libcudart.so.13", None),
            (
                "x.data/platlib/clang/native/libclang.so",
                Some("lib/libclang.so"),
            ),
            ("x.dist-info/licenses/License.txt", None),
        ] {
            assert_eq!(placed(inside, "toolkit").as_deref(), to, "{inside}");
        }
        let header = placed("nvidia/cuda_runtime/include/cuda.h", "headers/12.9");
        assert_eq!(header.as_deref(), Some("cuda.h"));
        assert_eq!(
            placed("nvidia/cuda_runtime/include/cuda_fp16.h", "headers/12.9"),
            None
        );
    }
}
