//! A device that is lost while work is pending. Each test runs in its own process, which cannot use
//! the device afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::process::{child_of, in_processes};
use crate::support::Fixture;
use crate::task::{block_on, until};

const TRAP: &str = include_str!("kernels/trap.ptx");
const SECOND: Duration = Duration::from_secs(1);

/// Queues a kernel that ends with a trap, on a GPU after some tenths of a second.
fn queue_trap(fixture: &Fixture, kernel: &Function, stream: &Stream) {
    let count = if fixture.simulator.is_some() {
        1000
    } else {
        30_000_000_u64
    };
    // SAFETY: the kernel touches no memory.
    unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (count,)) }.unwrap();
}

#[test]
fn device_loss_ends_pending_work_within_a_second() {
    in_processes("lost::child_with_everything_pending");
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_with_everything_pending() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1 << 20).unwrap();
    let pinned =
        || PinnedBuffer::<u32>::zeroed(&fixture.context, 1 << 20, PinnedFlags::empty()).unwrap();
    let memory = [pinned(), pinned(), pinned()];
    let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
    stream.synchronize().unwrap();
    // On the software device all of this is queued before anything runs.
    let drops = Arc::new(AtomicUsize::new(0));
    let captured = Dropped(Arc::clone(&drops));
    // Makes the first calls of their kinds before the trap.
    block_on(stream.completion(), 10 * SECOND).unwrap();
    let kernel = fixture.kernel(TRAP, "late_trap");
    let (open, gate) = mpsc::channel::<()>();
    let blocked = stream.launch_host(move || {
        let _ = gate.recv_timeout(10 * SECOND);
    });
    queue_trap(&fixture, &kernel, &stream);
    let call = stream.launch_host(move || {
        let _captured = captured;
        panic!("queued after a trap, so it must not run");
    });
    let call = call.unwrap();
    event.record(&stream).unwrap();
    let futures = [stream.completion(), event.completion()];
    let [a, b, c] = memory;
    let awaited = buffer.copy_from_pinned_async(a, &stream).unwrap();
    let waited = buffer.copy_to_pinned_async(b, &stream).unwrap();
    drop(buffer.copy_to_pinned_async(c, &stream).unwrap());
    open.send(()).unwrap();
    drop(blocked.unwrap());
    let lost = Some(Status::CUDA_ERROR_LAUNCH_FAILED);
    // Waits until the kernel has trapped.
    assert_eq!(stream.synchronize().unwrap_err().status(), lost);
    let start = Instant::now();
    for future in futures {
        assert_eq!(block_on(future, SECOND).unwrap_err().status(), lost);
    }
    assert_eq!(block_on(call, SECOND).unwrap_err().status(), lost);
    let error = block_on(awaited, SECOND).unwrap_err();
    assert_eq!(error.error().status(), lost);
    assert!(error.into_memory().is_none());
    assert!(waited.wait().unwrap_err().into_memory().is_none());
    until("the closure is dropped", SECOND, || {
        drops.load(Ordering::SeqCst) == 1
    });
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    println!("note: all ended {:?} after the error", start.elapsed());
}

#[test]
fn a_copy_in_flight_when_the_device_is_lost_keeps_its_memory() {
    in_processes("lost::child_with_a_copy_in_flight");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_with_a_copy_in_flight() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let words = if fixture.simulator.is_some() {
        1 << 18
    } else {
        1 << 28
    };
    let (trapping, copying) = (fixture.stream(), fixture.stream());
    let source = DeviceBuffer::filled(&copying, words, 7_u32).unwrap();
    let zeroed = |len| PinnedBuffer::<u32>::zeroed(&fixture.context, len, PinnedFlags::empty());
    let mut pinned = zeroed(words).unwrap();
    // This memory was returned before and has a new owner now.
    let done = source.slice(..1024).unwrap();
    let done = done.copy_to_pinned_async(zeroed(1024).unwrap(), &copying);
    let mut given_back = done.unwrap().wait().unwrap();
    given_back.fill(1);
    let start = pinned.as_mut_ptr();
    copying.synchronize().unwrap();
    let kernel = fixture.kernel(TRAP, "late_trap");
    queue_trap(&fixture, &kernel, &trapping);
    // Copies 1 GiB repeatedly until the trap, so that one copy is in flight when it occurs.
    let mut count = 0;
    let error = loop {
        let copy = match source.copy_to_pinned_async(pinned, &copying) {
            Ok(copy) => copy,
            Err(error) => {
                println!("note: no copy was in flight when the error came");
                assert_eq!(
                    error.error().status(),
                    Some(Status::CUDA_ERROR_LAUNCH_FAILED)
                );
                return;
            }
        };
        match copy.wait() {
            Ok(memory) => {
                pinned = memory;
                count += 1;
                // The late software device runs the trap only when something waits for it.
                if count == 100 {
                    let _ = trapping.synchronize();
                }
            }
            Err(error) => break error,
        }
        assert!(count < 1000, "the kernel did not trap");
    };
    assert_eq!(
        error.error().status(),
        Some(Status::CUDA_ERROR_LAUNCH_FAILED)
    );
    assert!(error.into_memory().is_none());
    // The memory was not returned: it stays allocated and has no owner. Writes by the device are
    // reported, not checked.
    for i in (0..words).step_by(1024) {
        // SAFETY: the word must be allocated ← it is in the buffer, which is never freed.
        unsafe { start.wrapping_add(i).write_volatile(9) };
    }
    let since = Instant::now();
    let mut written = 0;
    while since.elapsed() < SECOND {
        for i in (0..words).step_by(1024) {
            // SAFETY: as above.
            written += usize::from(unsafe { start.wrapping_add(i).read_volatile() } != 9);
        }
        assert!(given_back.iter().all(|&word| word == 1));
        if written > 0 {
            break;
        }
    }
    println!(
        "note: {written} words of the copy were written after the error; {count} copies were done"
    );
}
