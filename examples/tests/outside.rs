//! Builds the program of the README as a new user does: in a crate outside of this workspace, on a
//! machine with NVRTC from Python's package index, with none, and with a toolkit. Also builds a
//! program that contains these crates and older bindings with the same names, and one that derives
//! traits without the feature for it.
//!
//! `cargo xtask ci --only outside`

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_nvrtc::Nvrtc;

const README: &str = include_str!("../../README.md");

/// Returns the root of this repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}

/// Returns the first block of the README in `language` that contains `part`.
fn block(language: &str, part: &str) -> String {
    let start = format!("```{language}\n");
    let blocks = README.split(&start).skip(1);
    let mut blocks = blocks.filter_map(|rest| Some(rest.split_once("```")?.0));
    let found = blocks.find(|text| text.contains(part));
    found.unwrap_or_else(|| panic!("{part}")).to_owned()
}

/// Builds a crate from the lines of the README in `dir`, and returns the program.
///
/// Nothing is downloaded: the crate has the lock file of this workspace.
fn build(dir: &Path) -> PathBuf {
    let root = root();
    let package = "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n";
    let dependencies = block("toml", "[dependencies]");
    let here = format!("\"{}/crates/", root.display());
    assert!(dependencies.contains("\"cuda/crates/"), "{dependencies}");
    let manifest = format!("{package}{}", dependencies.replace("\"cuda/crates/", &here));
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.join("src/main.rs"), block("rust,no_run", "fn main")).unwrap();
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    // The folder is kept, so that only the first run compiles the dependencies.
    let target = root.join("target/outside");
    let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--offline"])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("warning: unused"), "{text}");
    // Outside of the target folder, in which the program would find the files of the setup.
    let name = format!("outside{}", env::consts::EXE_SUFFIX);
    let program = dir.join(&name);
    fs::copy(target.join("debug").join(&name), &program).unwrap();
    program
}

/// Runs the program on the software device, with no other environment than `variables`.
fn run(program: &Path, home: &Path, variables: &[(&str, &Path)]) -> Output {
    Command::new(program)
        .env_clear()
        .env("HOME", home)
        .env("CUDA_SIM", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn assert_verified(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("3 elements verified"), "{text}{errors}");
}

/// Links the files of `nvrtc` into the folder `lib`, which is created.
fn link(nvrtc: &Nvrtc, lib: &Path) {
    let origin = Path::new(nvrtc.origin());
    fs::create_dir_all(lib).unwrap();
    for entry in origin.parent().unwrap().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name.to_string_lossy().contains("nvrtc") {
            fs::hard_link(&path, lib.join(name))
                .or_else(|_| fs::copy(&path, lib.join(name)).map(drop))
                .unwrap();
        }
    }
}

#[test]
#[ignore = "compiles cuda-driver once more; `cargo xtask ci` runs it"]
fn a_crate_from_the_readme_builds_and_runs() {
    if !cfg!(target_os = "linux") {
        test_needs::skipped("a crate from the README: the places of files are those of Linux");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let program = build(&dir);
    let home = dir.join("home");
    fs::create_dir(&home).unwrap();

    let none = run(&program, &home, &[]);
    if none.status.success() {
        test_needs::skipped("where NVRTC is found: this machine has one for all programs");
        assert_verified(&none);
        return;
    }
    let text = String::from_utf8_lossy(&none.stderr).replace(&home.display().to_string(), "~");
    // The reason is a message of the system's loader.
    let loader = ": cannot open shared object file: No such file or directory";
    let expected = "Error: NVRTC could not be loaded; tried:
  libnvrtc.so.13{loader}
  libnvrtc.so.12{loader}
  /usr/local/cuda: no libnvrtc.so.13 or libnvrtc.so.12 in this toolkit
  /opt/cuda: no libnvrtc.so.13 or libnvrtc.so.12 in this toolkit
  ~/.local: no libnvrtc.so.13 or libnvrtc.so.12 in this Python or conda environment
  /usr/local: no libnvrtc.so.13 or libnvrtc.so.12 in this Python or conda environment
  /usr: no libnvrtc.so.13 or libnvrtc.so.12 in this Python or conda environment
Run `pip install nvidia-cuda-nvrtc` in an active virtual environment, install the CUDA toolkit, or \
set CUDA_NVRTC_LIBRARY to the file.
The README describes all ways in its section \"Getting NVRTC and the headers\".
";
    assert_eq!(text, expected.replace("{loader}", loader));
    assert!(README.contains("\n## Getting NVRTC and the headers\n"));

    let Some(nvrtc) = test_needs::found("NVRTC", Nvrtc::load()) else {
        return;
    };
    if !Path::new(nvrtc.origin()).is_absolute() {
        test_needs::skipped("a crate with NVRTC: the system's loader does not report where it is");
        return;
    }
    // The layout of the packages `nvidia-cuda-nvrtc` and `nvidia-cuda-nvrtc-cu12`.
    let package = match nvrtc.version().major() {
        12 => "nvidia/cuda_nvrtc/lib",
        _ => "nvidia/cu13/lib",
    };
    let environment = dir.join("venv");
    let site = environment.join("lib/python3.12/site-packages");
    link(&nvrtc, &site.join(package));
    assert_verified(&run(&program, &home, &[("VIRTUAL_ENV", &environment)]));

    let toolkit = dir.join("toolkit");
    link(&nvrtc, &toolkit.join("lib64"));
    assert_verified(&run(&program, &home, &[("CUDA_PATH", &toolkit)]));
    // The second run takes the kernel from the disk cache.
    assert!(home.join(".cache/cuda-nvrtc/programs").is_dir());
}

/// A program that uses both crates with the name `cuda-sys`, cust's raw layer, and `cuda-driver`.
const WITH_OLDER_CRATES: &str = r#"
use cuda_driver::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The same status in three bindings of the driver.
    let older = older_cuda_sys::cuda::cudaError_t::CUDA_ERROR_OUT_OF_MEMORY as u32;
    let raw = cust_raw::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
    let ours = cuda_sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    assert_eq!([older, raw], [2, 2]);
    assert_eq!(ours.0, 2);

    let driver = Driver::new(cuda_sim::gpu_or_software()?)?;
    let context = driver.device(0)?.primary_context()?;
    let x = DeviceBuffer::from_host(&context.default_stream()?, &[1, 2, 3])?;
    assert_eq!(x.to_vec()?, [1, 2, 3]);
    println!("3 elements verified");
    Ok(())
}
"#;

/// The libraries that the older crates name to the linker.
const LINKED: [&str; 3] = ["cuda", "cudart", "cublas"];

#[test]
#[ignore = "downloads older crates; `cargo xtask ci` runs it"]
fn older_crates_named_cuda_sys_are_in_one_program() {
    if !cfg!(target_os = "linux") {
        test_needs::skipped("older crates named cuda-sys: the libraries are made for Linux");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let ours = |name: &str| root().join("crates").join(name).display().to_string();
    let manifest = format!(
        "[package]\nname = \"with-older-crates\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n\
         cuda-driver = {{ path = \"{}\", features = [\"nvrtc\", \"derive\"] }}\n\
         cuda-sim = {{ path = \"{}\" }}\n\
         cuda-sys = {{ path = \"{}\", default-features = false }}\n\
         older-cuda-sys = {{ package = \"cuda-sys\", version = \"=0.2.0\" }}\n\
         cust_raw = \"=0.11.3\"\n",
        ours("cuda-driver"),
        ours("cuda-sim"),
        ours("cuda-sys"),
    );
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.join("src/main.rs"), WITH_OLDER_CRATES).unwrap();
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();

    // A toolkit with empty libraries: the program calls nothing of them.
    let toolkit = dir.join("toolkit");
    fs::create_dir_all(toolkit.join("lib64")).unwrap();
    for name in LINKED {
        let library = toolkit.join(format!("lib64/lib{name}.so"));
        let mut cc = Command::new(env::var_os("CC").unwrap_or("cc".into()));
        cc.args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(library);
        assert!(cc.status().unwrap().success(), "{cc:?}");
    }
    let target = root().join("target/outside");
    let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .arg("build")
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // The older cuda-sys searches these folders, and cust_raw their folders `lib64`.
        .env(
            "CUDA_LIBRARY_PATH",
            format!("{0}:{0}/lib64", toolkit.display()),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let lock = fs::read_to_string(dir.join("Cargo.lock")).unwrap();
    assert_eq!(lock.matches("name = \"cuda-sys\"").count(), 2, "{lock}");
    assert_verified(&run(&target.join("debug/with-older-crates"), &dir, &[]));
}

/// A program with both derive macros, whose crate may lack the feature for them.
const WITH_STRUCTS: &str = "
use cuda_driver::launch::KernelArg;
use cuda_driver::prelude::*;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Element(u32);

#[derive(Clone, Copy, KernelArg)]
#[repr(C)]
struct Argument(u8, u32);

fn main() {
    let _ = |buffer: DeviceBuffer<Element>, argument: Argument| (buffer.len(), argument.0, argument.1);
}
";

#[test]
#[ignore = "compiles cuda-driver once more; `cargo xtask ci` runs it"]
fn a_derive_without_its_feature_names_the_feature() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("src/main.rs"), WITH_STRUCTS).unwrap();
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let driver = root().join("crates/cuda-driver").display().to_string();
    for features in ["[]", "[\"derive\"]"] {
        let manifest = format!(
            "[package]\nname = \"with-structs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\ncuda-driver = {{ path = {driver:?}, features = {features} }}\n"
        );
        fs::write(dir.join("Cargo.toml"), manifest).unwrap();
        let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["check", "--offline"])
            .current_dir(dir)
            .env("CARGO_TARGET_DIR", root().join("target/outside"))
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let has_feature = features != "[]";
        assert_eq!(output.status.success(), has_feature, "{text}");
        for derived in ["DeviceRepr", "KernelArg"] {
            let wanted = format!(
                "error: `#[derive({derived})]` needs the feature `derive` of cuda-driver, which is \
                 off: `cargo add cuda-driver --features derive`"
            );
            assert_eq!(text.contains(&wanted), !has_feature, "{text}");
        }
    }
}
