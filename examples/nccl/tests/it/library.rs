//! Loading NCCL.

use nccl::Nccl;

use crate::support::{Process, REAL, command};

#[test]
fn other_files_are_not_nccl() {
    // SAFETY: the files have no functions of NCCL's names.
    let missing = unsafe { Nccl::open("/nonexistent/libnccl.so.2") }.unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/libnccl.so.2 cannot be loaded")
    );
    // SAFETY: as above.
    let other = unsafe { Nccl::open("libc.so.6") }.unwrap_err();
    assert_eq!(
        other.to_string(),
        "libc.so.6 is not NCCL 2.18 or newer: it has no ncclGetVersion"
    );
}

#[test]
fn the_program_reports_which_file_it_could_not_load() {
    let mut command = command(REAL, "train");
    command
        .env("CUDA_SIM", "1")
        .env("NCCL_LIBRARY", "/nonexistent/libnccl.so.2");
    let (status, text) = Process::start(command).end(std::time::Duration::from_secs(60));
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("nccl: /nonexistent/libnccl.so.2 cannot be loaded"),
        "{text}"
    );
}
