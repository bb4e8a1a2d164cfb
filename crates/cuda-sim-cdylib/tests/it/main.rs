//! The library as programs use it: linked to, loaded, and queried for every name.

#![cfg(target_os = "linux")]

mod wheel;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_sys::{CUresult, DriverLibrary, FUNCTIONS};
use tempfile::TempDir;

/// Builds the library, which cargo does not do for tests, and returns its path.
fn library() -> PathBuf {
    let release = !cfg!(debug_assertions);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "cuda-sim-cdylib"]);
    if release {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let profile = if release { "release" } else { "debug" };
    target.join(profile).join("libcuda_sim_driver.so")
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn add_ptx() -> PathBuf {
    package().join("../cuda-sim/tests/it/kernels/add.ptx")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A program in C that is linked to the library, in a folder of its own.
struct CProgram {
    folder: TempDir,
}

impl CProgram {
    /// Compiles a file of `tests/c`. `lines` becomes the header `lines.h`.
    fn new(file: &str, lines: &str) -> CProgram {
        let program = CProgram {
            folder: tempfile::tempdir().unwrap(),
        };
        let folder = program.folder.path();
        let library = library();
        for name in ["libcuda.so", "libcuda.so.1"] {
            std::os::unix::fs::symlink(&library, folder.join(name)).unwrap();
        }
        fs::write(folder.join("lines.h"), lines).unwrap();
        let compiler = cc::Build::new()
            .opt_level(0)
            .target(env!("CUDA_SIM_TARGET"))
            .host(env!("CUDA_SIM_TARGET"))
            .get_compiler();
        let built = compiler
            .to_command()
            .arg(package().join("tests/c").join(file))
            .arg("-o")
            .arg(folder.join("program"))
            .arg("-I")
            .arg(folder)
            .arg("-L")
            .arg(folder)
            .arg("-lcuda")
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", text(&built));
        program
    }

    /// Runs the program with settings of the device.
    fn run(&self, setting: &str, arguments: &[PathBuf]) -> Output {
        let folder = self.folder.path();
        let mut command = Command::new(folder.join("program"));
        command.args(arguments).env("LD_LIBRARY_PATH", folder);
        command.env("CUDA_SIM", setting).output().unwrap()
    }
}

#[test]
fn a_c_program_that_is_linked_to_it_adds_vectors() {
    let program = CProgram::new("vector_add.c", "");
    let run = |setting: &str| program.run(setting, &[add_ptx()]);
    let plain = run("");
    assert!(plain.status.success(), "{}", text(&plain));
    assert_eq!(text(&plain), "1 devices, graphs: yes\n");
    let two = run("devices=2,schedule=late:3");
    assert_eq!(text(&two), "2 devices, graphs: yes\n");
    let bad = run("devices=many");
    assert!(text(&bad).contains("devices=many"), "{}", text(&bad));
    assert!(text(&bad).contains("status 802"), "{}", text(&bad));
}

#[test]
fn a_c_program_learns_of_a_store_out_of_bounds() {
    let program = CProgram::new("out_of_bounds.c", "");
    let fill = package().join("tests/kernels/fill.ptx");
    let output = program.run("check=all", &[fill]);
    assert_eq!(output.stdout, b"status 700\n", "{}", text(&output));
}

#[test]
fn the_late_schedule_shows_a_sleep_instead_of_a_wait() {
    let page = include_str!("../../../../docs/findings.md");
    let mut programs = page.split("```c\n").skip(1);
    let lines = programs.next().unwrap().split_once("```").unwrap().0;
    assert!(programs.next().is_none(), "docs/findings.md has two");
    let sleeps = "usleep(200 * 1000);";
    assert!(lines.contains(sleeps));
    let wrong = CProgram::new("findings.c", lines);
    let waits = lines.replace(sleeps, "cuStreamSynchronize(stream);");
    let right = CProgram::new("findings.c", &waits);
    for seed in 0..5 {
        let late = format!("schedule=late:{seed}");
        assert_eq!(text(&wrong.run(&late, &[])), "0\n", "{late}");
        assert_eq!(text(&right.run(&late, &[])), "1024\n", "{late}");
    }
    assert_eq!(text(&wrong.run("", &[])), "1024\n");
}

#[test]
fn it_is_loaded_as_a_driver_and_exports_every_name() {
    let path = library();
    // SAFETY: the file is the driver that this package builds.
    let driver = unsafe { DriverLibrary::open(&path) }.unwrap();
    assert_eq!(driver.version().number(), 13050);
    let mut count = 0;
    // SAFETY: the call takes no pointers.
    let status = unsafe { driver.cuInit(0) };
    assert_eq!(status, CUresult::CUDA_SUCCESS);
    // SAFETY: the pointer is to a local.
    let status = unsafe { driver.cuDeviceGetCount(&raw mut count) };
    assert_eq!((status, count), (CUresult::CUDA_SUCCESS, 1));
    // SAFETY: a null resource may be passed; the call rejects it.
    let refused = unsafe { driver.cuGraphicsUnregisterResource(std::ptr::null_mut()) };
    assert_eq!(refused, CUresult::CUDA_ERROR_NOT_SUPPORTED);

    let symbols = Command::new("nm")
        .args(["--dynamic", "--defined-only"])
        .arg(&path)
        .output();
    let Ok(symbols) = symbols else {
        test_needs::skipped("the list of exports: nm is not installed");
        return;
    };
    let symbols = text(&symbols);
    let exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    for function in FUNCTIONS {
        assert!(exported.contains(&function.name), "{function}");
        assert!(exported.contains(&function.base), "{}", function.base);
    }
    let strange: Vec<_> = exported
        .iter()
        .filter(|name| !FUNCTIONS.iter().any(|function| function.name == **name))
        .collect();
    assert!(
        strange.is_empty(),
        "the library exports other names: {strange:?}"
    );
}
