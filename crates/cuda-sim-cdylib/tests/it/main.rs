//! The library as programs use it: linked to, loaded, and queried for every name.

#![cfg(target_os = "linux")]

mod wheel;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_sys::{CUresult, DriverLibrary, FUNCTIONS};

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

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn a_c_program_that_is_linked_to_it_adds_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let library = library();
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("vector_add");
    let compiler = cc::Build::new()
        .opt_level(0)
        .target(env!("CUDA_SIM_TARGET"))
        .host(env!("CUDA_SIM_TARGET"))
        .get_compiler();
    let built = compiler
        .to_command()
        .arg(package.join("tests/c/vector_add.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(folder.path())
        .arg("-lcuda")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let run = |setting: &str| {
        let ptx = package.join("../cuda-sim/tests/it/kernels/add.ptx");
        let mut command = Command::new(&program);
        command.arg(ptx).env("LD_LIBRARY_PATH", folder.path());
        command.env("CUDA_SIM", setting).output().unwrap()
    };
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
