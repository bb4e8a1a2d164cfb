//! `setup`: installs CUDA headers, NVRTC and libclang on a machine without a CUDA toolkit.
//!
//! The files come from the wheels that NVIDIA and the libclang project publish. A set of wheels is
//! a file in `xtask/requirements`, with pinned versions and hashes, which pip checks. Each set is
//! installed below `target/cuda-setup/`:
//!
//! | set | folder | holds |
//! |---|---|---|
//! | `toolkit` | `include/`, `lib/` | the newest headers, NVRTC and libclang |
//! | `headers-<version>` | `headers/<version>/` | the input of the generator (`--all-headers`) |
//! | `cupti-<version>` | `cupti/<version>/` | headers of CUPTI, which a test compares (`--all-headers`) |
//! | `nvrtc-<version>` | `nvrtc/<version>/include`, `…/lib` | one NVRTC (`--nvrtc <version>`) |
//! | `assembler-<version>` | `assembler/<version>/` | ptxas, and nvdisasm in 13.5 (`ci --only assembler`) |
//! | `mdbook-0.5.4` | `mdbook/0.5.4/bin` | mdBook, for `ci --only book` |
//! | `device-headers-12.9` | `device-headers/12.9/include` | headers for kernels (NVRTC 12) |
//!
//! `versions.txt` in the folder of a set is a copy of the set's file. It is written last: a set is
//! complete if the copy is equal.

mod python;
mod toolkit;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, files_below};
use python::Python;

/// The set that `setup` installs without options.
pub(crate) const TOOLKIT_SET: &str = "toolkit";

/// The headers in a set of headers.
const HEADERS: [&str; 4] = [
    "cuda.h",
    "cudaProfiler.h",
    "cudaProfilerTypedefs.h",
    "cudaTypedefs.h",
];

/// mdBook in its set.
const MDBOOK: &str = if cfg!(windows) {
    "bin/mdbook.exe"
} else {
    "bin/mdbook"
};

/// The sets with an assembler. There is no 12.0 for 64-bit Arm.
pub(crate) const ASSEMBLER_SETS: &[&str] = if cfg!(target_arch = "aarch64") {
    &[
        "assembler-12.4",
        "assembler-12.9",
        "assembler-13.0",
        "assembler-13.5",
    ]
} else {
    &[
        "assembler-12.0",
        "assembler-12.4",
        "assembler-12.9",
        "assembler-13.0",
        "assembler-13.5",
    ]
};

/// The programs in the sets with an assembler.
const ASSEMBLERS: [&str; 2] = if cfg!(windows) {
    ["ptxas.exe", "nvdisasm.exe"]
} else {
    ["ptxas", "nvdisasm"]
};

/// Options of `setup`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Also fetch the headers of every CUDA version that the bindings are tested against
    #[arg(long)]
    all_headers: bool,
    /// Also fetch these versions of NVRTC (12.0, 12.2, 12.4, 12.6, 12.9, 13.0, 13.3 or 13.5)
    #[arg(long, value_delimiter = ',', value_name = "VERSION")]
    nvrtc: Vec<String>,
    /// Fetch even though this machine has a CUDA toolkit
    #[arg(long)]
    force: bool,
}

/// `cargo xtask setup`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut sets: Vec<String> = options
        .nvrtc
        .iter()
        .map(|it| format!("nvrtc-{it}"))
        .collect();
    let known = files_below(&requirements(workspace), &["txt"])?;
    let known: Vec<_> = known
        .iter()
        .filter_map(|it| it.file_stem()?.to_str())
        .collect();
    if let Some(unknown) = sets.iter().find(|set| !known.contains(&set.as_str())) {
        bail!(
            "{unknown} is not a pinned set; the pinned sets are {}",
            known.join(", ")
        );
    }
    if options.all_headers {
        let is_header = |set: &&&str| set.starts_with("headers-") || set.starts_with("cupti-");
        let headers = known.iter().filter(is_header);
        sets.extend(headers.map(ToString::to_string));
    }
    default_set(workspace, options.force)?;
    if sets.is_empty() {
        return Ok(());
    }
    ensure(workspace, &sets).map(drop)
}

/// Installs the default set, unless the machine has a toolkit and `force` is off.
fn default_set(workspace: &Workspace, force: bool) -> Result<()> {
    match toolkit::find() {
        Some(toolkit) if !force => println!(
            "setup is not needed: CUDA toolkit at {} (`cargo xtask setup --force` installs the \
             headers, NVRTC and libclang anyway)",
            toolkit.display()
        ),
        _ => {
            let dir = ensure(workspace, &[TOOLKIT_SET])?;
            println!("headers, NVRTC and libclang: {}", dir.display());
        }
    }
    Ok(())
}

/// Installs the default set for a task that can continue without it. Failure is reported, and is
/// not an error.
pub(crate) fn try_default(workspace: &Workspace) {
    if let Err(error) = default_set(workspace, false) {
        println!(
            "{error:#}\n\nContinuing without it: everything that requires NVRTC or a CUDA header \
             is skipped, with a message.\n"
        );
    }
}

/// Makes sure that each of `sets` is complete, and returns the folder that contains them.
pub(crate) fn ensure<S: AsRef<str>>(workspace: &Workspace, sets: &[S]) -> Result<PathBuf> {
    let needs_cuda = sets.iter().any(|set| !set.as_ref().starts_with("mdbook-"));
    let is_published = matches!(
        (std::env::consts::OS, std::env::consts::ARCH),
        ("linux", "x86_64" | "aarch64") | ("windows", "x86_64")
    );
    if needs_cuda && !is_published {
        bail!(
            "no NVRTC and no CUDA headers are published for {} on {}.\n\
             Everything still builds from the committed bindings, and hand-written PTX runs on \
             the software device. Only compilation of CUDA C++ at run time is not available.",
            std::env::consts::OS,
            std::env::consts::ARCH,
        );
    }
    let setup = workspace.cuda_setup();
    let sets = sets
        .iter()
        .map(|set| Set::read(workspace, &setup, set.as_ref()));
    let sets = sets.collect::<Result<Vec<_>>>()?;
    if sets.iter().all(Set::is_installed) {
        return Ok(setup);
    }

    fs::create_dir_all(&setup).with_context(|| format!("cannot create {}", setup.display()))?;
    let lock = File::create(setup.join(".lock"))?;
    lock.lock().context("cannot lock the setup folder")?;
    let missing: Vec<Set> = sets.into_iter().filter(|set| !set.is_installed()).collect();
    for set in missing {
        set.install(&Python::find()?, &setup.join(".partial"))?;
        if set.name == TOOLKIT_SET {
            rebuild_bindings(workspace);
        }
    }
    Ok(setup)
}

/// Returns a command that runs a Python script of the workspace, with the cargo and the target
/// folder to use.
pub(crate) fn script(workspace: &Workspace, path: &str) -> Result<Command> {
    let mut command = Python::find()?.command();
    // Without a buffer, what the script prints is in order with the output of its commands.
    // With -B, it leaves no compiled modules in the source folders.
    command.args(["-u", "-B"]).arg(workspace.root.join(path));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    command.arg("--cargo").arg(cargo);
    command.arg("--target").arg(&workspace.target);
    Ok(command)
}

fn requirements(workspace: &Workspace) -> PathBuf {
    workspace.root.join("xtask/requirements")
}

/// A set of pinned wheels.
struct Set {
    name: String,
    /// The set's file, for pip.
    file: PathBuf,
    requirements: String,
    /// The folder of the installed files.
    dir: PathBuf,
}

impl Set {
    fn read(workspace: &Workspace, setup: &Path, name: &str) -> Result<Self> {
        let file = requirements(workspace).join(format!("{name}.txt"));
        let requirements = fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?
            .replace("\r\n", "\n");
        let dir = match name.rsplit_once('-') {
            Some((group, version)) => setup.join(group).join(version),
            None => setup.to_owned(),
        };
        let name = name.to_owned();
        Ok(Self {
            name,
            file,
            requirements,
            dir,
        })
    }

    /// Returns a file that a complete set contains.
    fn required(&self) -> &'static str {
        match self.name.split('-').next() {
            Some("headers") => "cuda.h",
            Some("cupti") => "cupti.h",
            Some("nvrtc") => "include/nvrtc.h",
            Some("device") => "include/cuda_fp16.h",
            Some("mdbook") => MDBOOK,
            Some("assembler") => ASSEMBLERS[0],
            _ => "include/cuda.h",
        }
    }

    fn is_installed(&self) -> bool {
        let stamp = fs::read_to_string(self.dir.join("versions.txt")).unwrap_or_default();
        stamp == self.requirements && self.dir.join(self.required()).exists()
    }

    /// Installs the set through the folder `partial`, so that an interrupted run leaves nothing
    /// that looks complete.
    fn install(&self, python: &Python, partial: &Path) -> Result<()> {
        let what = self.requirements.lines().next().unwrap_or_default();
        println!("setup: {}", what.trim_start_matches(['#', ' ']));
        let (wheels, ready) = (partial.join("wheels"), partial.join("ready"));
        remove(partial)?;
        fs::create_dir_all(&ready)?;
        // The headers are taken from the wheels for Linux on x86-64.
        let platforms: &[&str] = match self.name.split('-').next() {
            Some("headers" | "cupti") => &["manylinux2014_x86_64", "manylinux_2_25_x86_64"],
            _ => &[],
        };
        python.install_pinned(&self.file, platforms, &wheels)?;
        collect(&wheels, &wheels, &ready, &self.name)?;
        if !ready.join(self.required()).exists() {
            bail!(
                "the wheels of {} lack {}",
                self.file.display(),
                self.required()
            );
        }

        fs::create_dir_all(&self.dir)?;
        remove(&self.dir.join("versions.txt"))?;
        for entry in ready.read_dir()? {
            let entry = entry?;
            let to = self.dir.join(entry.file_name());
            remove(&to)?;
            fs::rename(entry.path(), &to)
                .with_context(|| format!("cannot move to {}", to.display()))?;
        }
        fs::write(self.dir.join("versions.txt"), &self.requirements)?;
        remove(partial)
    }
}

/// Moves the files that a set needs from the folder `from` of installed wheels to their places.
fn collect(from: &Path, wheels: &Path, ready: &Path, set: &str) -> Result<()> {
    for entry in from.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, wheels, ready, set)?;
        } else if let Some(place) = place(path.strip_prefix(wheels)?, set) {
            let to = ready.join(place);
            fs::create_dir_all(to.parent().unwrap_or(ready))?;
            fs::rename(&path, &to).with_context(|| format!("cannot move {}", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the place of a wheel's file in its set; `None` if the set does not need it.
fn place(inside: &Path, set: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
    let file = *parts.last()?;
    if set.starts_with("headers-") {
        return HEADERS.contains(&file).then(|| PathBuf::from(file));
    }
    if set.starts_with("cupti-") {
        return match parts[..] {
            [.., "include", file] if file.ends_with(".h") => Some(PathBuf::from(file)),
            _ => None,
        };
    }
    if set.starts_with("assembler-") {
        return ASSEMBLERS.contains(&file).then(|| PathBuf::from(file));
    }
    if set.starts_with("mdbook-") {
        return inside.ends_with(MDBOOK).then(|| PathBuf::from(MDBOOK));
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

/// Removes the build output of `cuda-sys`, so that its build script searches for a header again.
fn rebuild_bindings(workspace: &Workspace) {
    for profile in ["dev", "release"] {
        let clean = ["clean", "--quiet", "-p", "cuda-sys", "--profile", profile];
        match workspace.cargo(clean).output() {
            Ok(output) if output.status.success() => {}
            _ => println!(
                "note: run `cargo clean -p cuda-sys` once, so that the next build sees the headers"
            ),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/setup.rs"]
mod tests;
