//! Tests of the rules of locks.

use std::env;
use std::process::Command;

use super::{DropOutsideLocks, Mutex, check_call, rank};

const CASE: &str = "CUDA_DRIVER_TEST_LOCK_RULE";

/// Runs the case `name` of [`case`] in a child process and returns its status and what it
/// wrote.
fn run(name: &str) -> (bool, String) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "lock::tests::case", "--ignored", "--nocapture"])
        .env(CASE, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

#[test]
#[ignore = "runs in a child process, for the other tests"]
fn case() {
    let low: Mutex<u8, { rank::CONTEXTS }> = Mutex::new(1);
    let high: Mutex<u8, { rank::TRACKER }> = Mutex::new(2);
    let pair: [Mutex<u8, { rank::STREAM_TAIL }>; 2] = [Mutex::new(3), Mutex::new(4)];
    match env::var(CASE).as_deref() {
        Ok("ascending") => {
            let guards = (low.lock(), high.lock(), pair[0].lock(), pair[1].lock());
            assert_eq!(*guards.0 + *guards.1 + *guards.2 + *guards.3, 10);
            drop(guards);
            drop(high.lock());
            assert_eq!(*low.lock(), 1);
            check_call(cuda_sys::calls::cuCtxSynchronize);
            drop(DropOutsideLocks);
        }
        Ok("descending") => drop((high.lock(), low.lock())),
        Ok("twice") => drop((high.lock(), high.lock())),
        Ok("pair") => drop((pair[1].lock(), pair[0].lock())),
        Ok("wait") => {
            let _guard = high.lock();
            check_call(cuda_sys::calls::cuCtxSynchronize);
        }
        Ok("drop") => {
            let _guard = high.lock();
            drop(DropOutsideLocks);
        }
        _ => {}
    }
}

#[test]
fn locks_in_the_order_of_their_ranks_are_allowed() {
    assert!(run("ascending").0);
}

#[test]
fn violations_abort_and_name_the_locks() {
    for (name, message) in [
        ("descending", "locks CONTEXTS at"),
        ("twice", "locks TRACKER at"),
        ("pair", "locks STREAM_TAIL at"),
        ("wait", "cuCtxSynchronize while it holds TRACKER"),
        ("drop", "is dropped while it holds TRACKER"),
    ] {
        let (is_success, text) = run(name);
        assert!(!is_success, "{name}");
        assert!(text.contains(message), "{name}: {text}");
    }
}
