//! Streams: order, callbacks, and waits for values.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, CUresult};
use cuda_sys::CUstream;

use crate::support::{Bench, OK, TROUBLE, bench, late, ok};

/// A host function that runs a closure once.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: `call` made the pointer from a box of this type.
    let work = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    work();
}

fn call(bench: &Bench, stream: CUstream, work: impl FnOnce() + Send + 'static) {
    let boxed: Box<dyn FnOnce() + Send> = Box::new(work);
    let data = Box::into_raw(Box::new(boxed)).cast();
    unsafe { ok(bench.cuLaunchHostFunc(stream, Some(run), data)) };
}

#[test]
fn host_functions_run_in_order_on_another_thread() {
    for bench in [bench(Builder::new()), bench(late(5))] {
        let stream = bench.stream(1);
        let (send, receive) = mpsc::channel();
        for number in 0..20 {
            let send = send.clone();
            call(&bench, stream, move || {
                send.send((number, thread::current().id())).unwrap();
            });
        }
        unsafe { ok(bench.cuStreamSynchronize(stream)) };
        let seen: Vec<_> = receive.try_iter().collect();
        assert_eq!(
            seen.iter().map(|&(number, _)| number).collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>()
        );
        assert!(seen.iter().all(|&(_, id)| id != thread::current().id()));
    }
}

#[test]
fn a_host_function_must_not_call_the_driver() {
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    let bench = bench(Builder::new());
    let get_device = bench.cuCtxGetDevice.unwrap();
    call(&bench, ptr::null_mut(), move || {
        let mut device = 0;
        ANSWER.store(unsafe { get_device(&raw mut device) }.0, Ordering::Relaxed);
    });
    ok(bench.sync());
    assert_eq!(
        ANSWER.load(Ordering::Relaxed),
        CUresult::CUDA_ERROR_NOT_PERMITTED.0
    );
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    for seed in 0..20 {
        let bench = bench(late(seed));
        let (blocking, free) = (bench.stream(0), bench.stream(1));
        let (send, receive) = mpsc::channel();
        let note = |stream, name: &'static str| {
            let send = send.clone();
            call(&bench, stream, move || send.send(name).unwrap());
        };
        note(blocking, "before");
        note(free, "free");
        note(ptr::null_mut(), "legacy");
        note(blocking, "after");
        ok(bench.sync());
        let seen: Vec<_> = receive.try_iter().filter(|&name| name != "free").collect();
        assert_eq!(seen, ["before", "legacy", "after"], "seed {seed}");
    }
}

#[test]
fn the_per_thread_stream_is_another_one_in_each_thread() {
    let bench = bench(Builder::new());
    let id = |bench: &Bench, stream: usize| {
        let mut id = 0;
        let stream = ptr::without_provenance_mut(stream);
        unsafe { ok(bench.cuStreamGetId(stream, &raw mut id)) };
        id
    };
    assert_eq!(id(&bench, 0), id(&bench, 1));
    assert_ne!(id(&bench, 1), id(&bench, 2));
    let mut mapped = 0;
    unsafe { ok(bench.cuStreamGetId_ptsz(ptr::null_mut(), &raw mut mapped)) };
    assert_eq!(mapped, id(&bench, 2));
    let here = id(&bench, 2);
    let (driver, context) = (&*bench, bench.context.addr());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut there = 0;
            unsafe {
                ok(driver.cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                ok(driver.cuStreamGetId(ptr::without_provenance_mut(2), &raw mut there));
            }
            assert_ne!(here, there);
        });
    });
}

#[test]
fn a_stream_waits_for_a_value() {
    for bench in [bench(Builder::new()), bench(late(2))] {
        let (waiter, writer) = (bench.stream(1), bench.stream(1));
        let flag = bench.upload(&[0_u32, 0]);
        let word = bench.upload(&[1_u32]);
        let increment = bench.function(bench.load(TROUBLE), "increment");
        unsafe {
            // Equal to the value; then greater than or equal to it, cyclically.
            ok(bench.cuStreamWaitValue32_v2(waiter, flag, 7, 1));
            ok(bench.cuStreamWaitValue32_v2(waiter, flag + 4, 5, 0));
        }
        ok(bench.launch(increment, [1, 1], waiter, &mut [word]));
        unsafe { assert_eq!(bench.cuStreamQuery(waiter), CUresult::CUDA_ERROR_NOT_READY) };
        unsafe {
            ok(bench.cuStreamWriteValue32_v2(writer, flag, 7, 0));
            ok(bench.cuStreamWriteValue32_v2(writer, flag + 4, 6, 0));
            ok(bench.cuStreamSynchronize(waiter));
        }
        assert_eq!(bench.download::<u32>(word, 1), [2]);
    }
}

#[test]
fn the_host_may_write_the_value() {
    for bench in [bench(Builder::new()), bench(late(2))] {
        let stream = bench.stream(1);
        let flag = bench.pinned(4);
        let flag = unsafe { AtomicU32::from_ptr(flag.cast()) };
        flag.store(0, Ordering::Relaxed);
        let addr = ptr::from_ref(flag).addr() as u64;
        unsafe { ok(bench.cuStreamWaitValue32_v2(stream, addr, 1, 1)) };
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                flag.store(1, Ordering::Release);
            });
            unsafe { ok(bench.cuStreamSynchronize(stream)) };
        });
        assert_eq!(flag.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_kernel_may_wait_for_a_copy_on_another_stream() {
    let bench = bench(Builder::new());
    let (first, second) = (bench.stream(1), bench.stream(1));
    let flag = bench.upload(&[0_u32]);
    let spin = bench.function(bench.load(TROUBLE), "spin");
    ok(bench.launch(spin, [1, 1], first, &mut [flag]));
    unsafe {
        ok(bench.cuMemsetD32Async(flag, 1, 1, second));
        assert_eq!(bench.cuStreamSynchronize(first), OK);
    }
}

#[test]
fn streams_say_what_they_are() {
    let bench = bench(Builder::new());
    let mut stream = ptr::null_mut();
    let (mut flags, mut priority, mut context) = (9, 9, ptr::null_mut());
    unsafe {
        ok(bench.cuStreamCreateWithPriority(&raw mut stream, 1, -100));
        ok(bench.cuStreamGetFlags(stream, &raw mut flags));
        ok(bench.cuStreamGetPriority(stream, &raw mut priority));
        ok(bench.cuStreamGetCtx(stream, &raw mut context));
    }
    let (mut least, mut greatest) = (9, 9);
    unsafe { ok(bench.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)) };
    assert_eq!((flags, priority, context), (1, greatest, bench.context));
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    unsafe {
        ok(bench.cuStreamDestroy_v2(stream));
        assert_eq!(bench.cuStreamDestroy_v2(stream), invalid);
        assert_eq!(bench.cuStreamSynchronize(stream), invalid);
        // An event is not a stream.
        let event = bench.event(0);
        assert_eq!(bench.cuStreamQuery(event.cast()), invalid);
        let bad = bench.cuStreamCreate(&raw mut stream, 8);
        assert_eq!(bad, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn a_destroyed_stream_still_does_its_work() {
    for seed in 0..8 {
        let bench = bench(late(seed));
        let stream = bench.stream(0);
        let addr = bench.upload(&[1_u8; 16]);
        unsafe {
            ok(bench.cuMemsetD8Async(addr, 5, 16, stream));
            ok(bench.cuStreamDestroy_v2(stream));
        }
        assert_eq!(bench.simulator.pending(), 1);
        // A blocking copy on the legacy stream is ordered after it.
        assert_eq!(bench.download::<u8>(addr, 16), [5; 16]);
        assert_eq!(bench.simulator.pending(), 0);
    }
}

#[test]
fn threads_share_a_driver() {
    for builder in [Builder::new(), late(11)] {
        let bench = bench(builder);
        let function = bench.function(bench.load(TROUBLE), "increment").addr();
        let context = bench.context.addr();
        let bench = &bench;
        // The simulator's table is shared; each thread makes the context current for itself.
        let (driver, simulator) = (&bench.driver, &bench.simulator);
        thread::scope(|scope| {
            for start in 0..6_u32 {
                scope.spawn(move || unsafe {
                    ok(driver.cuCtxSetCurrent(ptr::without_provenance_mut(context)));
                    let mut stream = ptr::null_mut();
                    ok(driver.cuStreamCreate(&raw mut stream, start % 2));
                    for round in 0..40 {
                        let mut addr = 0_u64;
                        ok(driver.cuMemAllocAsync(&raw mut addr, 4, stream));
                        ok(driver.cuMemsetD32Async(addr, start * 100, 1, stream));
                        for _ in 0..round % 5 {
                            let mut params: [*mut c_void; 1] = [(&raw mut addr).cast()];
                            let function = ptr::without_provenance_mut(function);
                            let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
                            ok(driver.cuLaunchKernel(
                                function, 1, 1, 1, 1, 1, 1, 0, stream, params, none,
                            ));
                        }
                        let mut value = 0_u32;
                        ok(driver.cuMemcpyDtoHAsync_v2((&raw mut value).cast(), addr, 4, stream));
                        ok(driver.cuMemFreeAsync(addr, stream));
                        assert_eq!(value, start * 100 + round % 5);
                    }
                    ok(driver.cuStreamSynchronize(stream));
                    ok(driver.cuStreamDestroy_v2(stream));
                });
            }
        });
        ok(bench.sync());
        let live = simulator.live();
        assert_eq!(
            (live.streams, live.allocations, live.bytes),
            (0, 0, 0),
            "{live}"
        );
        assert_eq!(simulator.calls()["cuMemAllocAsync"], 240);
    }
}

#[test]
fn streams_have_attributes() {
    use cuda_sys::{CUlaunchAttributeID as Id, CUlaunchAttributeValue};
    let bench = bench(Builder::new());
    let (one, two) = (bench.stream(1), bench.stream(1));
    let (policy, priority) = (
        Id::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
        Id::CU_LAUNCH_ATTRIBUTE_PRIORITY,
    );
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    unsafe {
        let mut value: CUlaunchAttributeValue = std::mem::zeroed();
        value.syncPolicy = cuda_sys::CUsynchronizationPolicy(3);
        ok(bench.cuStreamSetAttribute(one, policy, &raw const value));
        ok(bench.cuStreamCopyAttributes(two, one));
        value = std::mem::zeroed();
        ok(bench.cuStreamGetAttribute(two, policy, &raw mut value));
        assert_eq!(value.syncPolicy.0, 3);
        ok(bench.cuStreamGetAttribute(two, priority, &raw mut value));
        assert_eq!(value.priority, 0);
        let set = bench.cuStreamSetAttribute(one, priority, &raw const value);
        assert_eq!(set, invalid, "it is fixed");
        let other = Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        assert_eq!(
            bench.cuStreamSetAttribute(one, other, &raw const value),
            invalid
        );
    }
}
