//! Runs the calls: on a software device in this process, and on a GPU in child processes, which a
//! call may end.

use std::collections::BTreeMap;
use std::env;
use std::process::{self, Command};

use cuda_sim::Builder;
use cuda_sys::{CUresult, DriverLibrary};

use crate::fixture::{Case, Fixture};
use test_drivers::{gpu_driver, simulator};

/// The environment variable with the index of the first call that a child makes.
const FROM: &str = "CUDA_ERRORS_FROM";

/// The codes of a software device like the GPU that was measured: the driver of CUDA 13.0, compute
/// capability 9.0.
pub(crate) fn software(cases: &[Case]) -> BTreeMap<String, String> {
    let builder = Builder::new()
        .version(13_000)
        .compute_capability(9, 0)
        .strict_ptx(true);
    let simulator = simulator(&builder);
    let library = simulator.library().unwrap();
    let fixture = Fixture::new(&library);
    let mut codes = BTreeMap::new();
    for case in cases {
        let status = (case.call)(&fixture);
        codes.insert(case.name.to_owned(), status.0.to_string());
        let after = unsafe { fixture.d.cuCtxSynchronize() };
        assert_eq!(after, CUresult::CUDA_SUCCESS, "after {}", case.name);
    }
    codes
}

/// The codes that the GPU returns for the first `count` calls, or `None` without a GPU.
pub(crate) fn gpu(count: usize) -> Option<BTreeMap<String, String>> {
    drop(gpu_driver()?);
    let mut codes = BTreeMap::new();
    let mut from = 0;
    while from < count {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
                "a_child",
            ])
            .env(FROM, from.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let mut last = None;
        for line in said.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("try"), Some(index), Some(name), None) => {
                    last = Some((index.parse::<usize>().unwrap(), name.to_owned()));
                }
                (Some("got"), Some(name), Some(code), None) => {
                    codes.insert(name.to_owned(), code.to_owned());
                }
                _ => {}
            }
        }
        if output.status.success() {
            break;
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let (index, name) = last.unwrap_or_else(|| panic!("a child did nothing: {said}{why}"));
        codes.entry(name).or_insert_with(|| "crash".to_owned());
        from = index + 1;
    }
    Some(codes)
}

/// Makes the calls, starting at the one that the environment variable names. Exits with a failure
/// when the device is lost.
pub(crate) fn child(cases: &[Case]) {
    let Some(from) = env::var(FROM).ok().and_then(|from| from.parse().ok()) else {
        return;
    };
    let library = DriverLibrary::system().unwrap();
    let fixture = Fixture::new(&library);
    println!();
    for (index, case) in cases.iter().enumerate().skip(from) {
        println!("try {index} {}", case.name);
        let status = (case.call)(&fixture);
        println!("got {} {}", case.name, status.0);
        let after = unsafe { fixture.d.cuCtxSynchronize() };
        if after != CUresult::CUDA_SUCCESS {
            println!("the device is lost after {}: {after}", case.name);
            process::exit(3);
        }
    }
}
