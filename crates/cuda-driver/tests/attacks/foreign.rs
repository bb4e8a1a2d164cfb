//! Work of other code: closures of `using`, raw calls, and streams that other code owns. The
//! contracts of these `unsafe` calls are kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, RwLock};
use std::thread;

use cuda_driver::prelude::*;
use cuda_sys::CUstream;

use crate::support::{Attack, Case};

/// A stream that raw calls create. It is destroyed when it is dropped.
struct Raw {
    driver: Driver,
    raw: CUstream,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream any more.
        let status = unsafe { self.driver.library().cuStreamDestroy_v2(self.raw) };
        assert!(status.is_success());
    }
}

/// Borrows a stream, which is destroyed with its last handle.
fn borrowed(case: &Case) -> Stream {
    let _current = case.context.make_current().unwrap();
    let driver = case.context.driver().clone();
    let mut raw = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { driver.library().cuStreamCreate(&raw mut raw, 1) };
    assert!(status.is_success());
    let owner = Raw { driver, raw };
    // SAFETY: the stream is alive until the owner is dropped, and nothing captures it.
    unsafe { Stream::borrow_raw(&case.context, raw, owner) }.unwrap()
}

/// Copies all words by a raw call of other code.
fn copy(stream: &Stream, from: &DeviceBuffer<u32>, to: &mut DeviceBuffer<u32>) {
    let table = stream.context().driver().library().clone();
    let (source, target, bytes) = (from.as_raw(), to.as_raw(), 4 * from.len());
    // SAFETY: both have as many bytes, which the stream may use meanwhile.
    let queue = |raw| unsafe { table.cuMemcpyDtoDAsync_v2(target, source, bytes, raw) };
    // SAFETY: the copy is queued on the stream, reads `from` and writes `to`.
    let status = unsafe { stream.using((from, to), queue) }.unwrap();
    assert!(status.is_success());
}

/// Claim: work of other code is ordered with uses on other streams by other threads, and the memory
/// of a dropped buffer is not used again before that work is complete.
#[test]
fn work_of_other_code_beside_other_threads() {
    Attack::new().run(|case| {
        let home = case.stream();
        let shared = RwLock::new((case.filled(&home, 0), 0));
        thread::scope(|scope| {
            for _ in 0..case.threads {
                scope.spawn(|| {
                    let stream = borrowed(case);
                    for _ in 0..4 {
                        let guard = shared.read().unwrap();
                        let mut seen = case.filled(&stream, 99);
                        case.hold_up(&stream);
                        copy(&stream, &guard.0, &mut seen);
                        let value = guard.1;
                        drop(guard);
                        case.expect(&seen, value);
                    }
                });
            }
            let stream = borrowed(case);
            for value in 1..8 {
                let source = case.filled(&home, value);
                let mut guard = shared.write().unwrap();
                case.hold_up(&stream);
                copy(&stream, &source, &mut guard.0);
                guard.1 = value;
                drop(guard);
                drop(source);
            }
        });
        let (buffer, value) = shared.into_inner().unwrap();
        case.expect(&buffer, value);
    });
}

/// Claim: a closure that panics after it has queued work, also inside another closure, leaves its
/// uses behind.
#[test]
fn panicking_closures_leave_their_uses() {
    Attack::new().run(|case| {
        let (one, two) = (case.stream(), borrowed(case));
        let source = case.filled(&one, 6);
        let mut target = case.filled(&one, 0);
        let (from, to, bytes) = (source.as_raw(), target.as_raw(), 4 * case.n);
        case.hold_up(&two);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let inner = |_| {
                // SAFETY: both have as many bytes, which the stream may use meanwhile.
                unsafe { two.copy_raw(to, from, bytes, ()) }.unwrap();
                panic!("after the copy");
            };
            let outer = |_| {
                // SAFETY: the copy is queued on the stream, and writes `target`.
                let _: Result<(), _> = unsafe { two.using((&mut target,), inner) };
            };
            // SAFETY: the copy is queued on the stream, and reads `source`.
            let _ = unsafe { two.using((&source,), outer) };
        }));
        assert!(panicked.is_err());
        drop(source);
        let next = case.filled(&one, 8);
        case.expect(&target, 6);
        case.expect(&next, 8);
    });
}

/// Claim: raw launches and raw copies with a list of uses are ordered like others.
#[test]
fn raw_calls_are_ordered_by_their_uses() {
    Attack::new().run(|case| {
        let streams = [case.stream(), borrowed(case), case.context.legacy_stream()];
        let mut x = case.filled(&streams[0], 1);
        let y = Arc::new(case.filled(&streams[1], 3));
        let mut expected = 1_u32;
        for _ in 0..6 {
            let stream = &streams[case.pick(streams.len())];
            case.hold_up(&streams[case.pick(2)]);
            let (mut to, mut from, mut n) = (x.as_raw(), y.as_raw(), case.n as u32);
            let mut params = [
                ptr::from_mut(&mut to).cast(),
                ptr::from_mut(&mut from).cast(),
                ptr::from_mut(&mut n).cast(),
            ];
            let (kernel, config) = (case.mix_kernel(), case.config());
            // SAFETY: the parameters are those of the kernel, which uses `n` words of each buffer.
            unsafe { stream.launch_raw(kernel, config, None, &mut params, (&mut x, &*y)) }.unwrap();
            expected = expected.wrapping_mul(2).wrapping_add(3);
            let mut copy = case.filled(&streams[case.pick(streams.len())], 0);
            let stream = &streams[case.pick(streams.len())];
            let (to, from, bytes) = (copy.as_raw(), x.as_raw(), 4 * case.n);
            // SAFETY: both have as many bytes.
            unsafe { stream.copy_raw(to, from, bytes, (&mut copy, &x)) }.unwrap();
            case.expect(&copy, expected);
        }
    });
}
