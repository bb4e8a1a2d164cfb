//! Runs each example as a user does: on the software device, and on the GPU if there is one.

use std::path::PathBuf;
use std::process::{Command, Output};

const ALL: [&str; 9] = [
    "block_reduce",
    "demo",
    "device_query",
    "draw_graph",
    "jacobi",
    "matmul",
    "reduction",
    "saxpy",
    "vector_add",
];
/// The examples that need NVRTC.
const COMPILING: [&str; 6] = [
    "block_reduce",
    "demo",
    "jacobi",
    "matmul",
    "reduction",
    "saxpy",
];

/// Returns the path of an example, which cargo builds beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // In a bundle for another machine, the examples are in the folder of the tests.
    [
        folder.join("examples").join(&name),
        test.with_file_name(&name),
    ]
    .into_iter()
    .find(|path| path.is_file())
    .unwrap_or_else(|| panic!("example {name} was not built with its tests"))
}

fn run(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program(name));
    command
        .env_remove("CUDA_SIM")
        .env("CUDA_NVRTC_CACHE", "off");
    command.envs(environment.iter().copied()).output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{out}{err}")
}

/// Returns whether NVRTC can be loaded. If not, reports that `test` is skipped.
#[track_caller]
fn has_nvrtc() -> bool {
    test_needs::found("NVRTC", cuda_nvrtc::Nvrtc::load()).is_some()
}

#[test]
fn every_example_verifies_its_result_on_the_software_device() {
    let nvrtc = has_nvrtc();
    for name in ALL {
        if COMPILING.contains(&name) && !nvrtc {
            continue;
        }
        let output = run(name, &[("CUDA_SIM", "1")]);
        let text = text(&output);
        assert!(output.status.success(), "{name}:\n{text}");
        assert!(
            text.contains("software device"),
            "{name} does not report the device it ran on:\n{text}"
        );
        assert!(
            text.contains("verified") || name == "device_query",
            "{name}:\n{text}"
        );
    }
}

#[test]
fn every_example_verifies_its_result_on_whatever_is_there() {
    let nvrtc = has_nvrtc();
    let gpu = cuda_driver::Driver::load().is_ok();
    for name in ALL {
        if COMPILING.contains(&name) && !nvrtc {
            continue;
        }
        let output = run(name, &[]);
        let text = text(&output);
        assert!(output.status.success(), "{name}:\n{text}");
        assert_eq!(!text.contains("software device"), gpu, "{name}:\n{text}");
    }
}

/// The most common problem of users: PTX from a newer NVRTC, installed as a package, on an older
/// driver.
#[test]
fn error_for_too_new_ptx_names_both_versions() {
    if !has_nvrtc() {
        return;
    }
    let version = cuda_nvrtc::Nvrtc::load().unwrap().version();
    if version.number() <= 12000 {
        test_needs::skipped(&format!(
            "a new NVRTC on an old driver: NVRTC {version} is as old"
        ));
        return;
    }
    let output = run("demo", &[("CUDA_SIM", "version=12.0")]);
    let text = text(&output);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("this driver (CUDA 12.0) supports PTX up to 8.0"),
        "{text}"
    );
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn the_demo_prints_a_table_of_times() {
    if !has_nvrtc() {
        return;
    }
    let output = run("demo", &[("CUDA_SIM", "1")]);
    let text = text(&output);
    for word in [
        "compile ms",
        "kernel ms",
        "saxpy",
        "matmul",
        "GB/s",
        "GFLOP/s",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}
