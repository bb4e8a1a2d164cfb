//! Effects of a lost GPU on host memory. Each test runs in its own process, which cannot use the
//! GPU afterwards.

use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cuda_driver::prelude::*;

use crate::support::{COPY, Fixture, gpu};

/// Runs `child` in its own process, which runs only the test named `test`.
fn in_a_process_of_its_own(test: &str, child: impl FnOnce(Fixture)) {
    const CHILD: &str = "CUDA_DRIVER_TEST_CHILD";
    if env::var(CHILD).is_ok_and(|name| name == test) {
        return child(gpu().expect("the parent process found a GPU"));
    }
    if gpu().is_none() {
        return;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let erred = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{erred}");
    // A filter that matches no test would also succeed.
    assert!(text.contains("1 passed"), "{text}{erred}");
}

/// Loses the device by a write to an unmapped address.
fn lose(fixture: &Fixture, copy: &Function, stream: &Stream) {
    let input = DeviceBuffer::<u32>::zeroed(stream, 32).unwrap();
    // SAFETY: none: the kernel writes to an address outside any allocation, which loses the device
    // on purpose.
    unsafe { stream.launch(copy, LaunchConfig::new(1, 32), (&input, 64_u64, 32_u32)) }.unwrap();
    let error = stream.synchronize().unwrap_err();
    println!("{}: {error}", fixture.name);
}

#[test]
fn a_lost_device_writes_to_no_slice_after_its_copy_has_failed() {
    let test = "fault::a_lost_device_writes_to_no_slice_after_its_copy_has_failed";
    in_a_process_of_its_own(test, |fixture| {
        let len = 1 << 30;
        let (stream, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let source = vec![0xAB_u8; len];
        let mut slice = vec![1_u8; len];
        let buffer = DeviceBuffer::from_host(&stream, &source).unwrap();
        let mut pinned =
            PinnedBuffer::<u8>::zeroed(&fixture.context, len, PinnedFlags::empty()).unwrap();
        let address = pinned.as_mut_ptr();
        stream.synchronize().unwrap();
        // The fault occurs a few milliseconds into the copies, which take tens of milliseconds.
        let (into_slice, into_pinned) = thread::scope(|scope| {
            let fault = scope.spawn(|| {
                thread::sleep(Duration::from_millis(8));
                lose(&fixture, &copy, &other);
            });
            let slice = scope.spawn(|| buffer.copy_to_host(&mut slice));
            let pinned = buffer.copy_to_pinned(&mut pinned);
            fault.join().unwrap();
            (slice.join().unwrap(), pinned)
        });
        println!("into a slice: {into_slice:?}; into page-locked memory: {into_pinned:?}");
        let before = slice.clone();
        thread::sleep(Duration::from_secs(1));
        assert!(
            slice == before,
            "the slice was written after its copy had failed"
        );
        if into_slice.is_ok() {
            assert!(slice == source);
        }
        if into_pinned.is_err() {
            // Memory that the device may still write is no longer accessible.
            assert!(pinned.is_empty());
            // SAFETY: none by the rules: this checks whether the device is still writing. The
            // memory was never freed, so it is still mapped.
            let last = unsafe { address.add(len - 1) };
            // SAFETY: as above.
            let first = unsafe { last.read_volatile() };
            thread::sleep(Duration::from_secs(1));
            // SAFETY: as above.
            let later = unsafe { last.read_volatile() };
            println!(
                "the last page-locked byte after the error: {first:#x}, a second later: {later:#x}"
            );
        }
        drop(buffer);
    });
}
