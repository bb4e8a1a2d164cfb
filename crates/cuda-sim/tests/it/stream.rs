//! Streams: order, callbacks, and waits for values.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_sim::{Builder, CUresult};
use cuda_sys::CUstream;

use crate::support::{FAULT_KERNELS, OK, TestDevice, late, ok, test_device};

/// A host function that runs a closure once.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: `call` made the pointer from a box of this type.
    let work = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    work();
}

fn call(sim: &TestDevice, stream: CUstream, work: impl FnOnce() + Send + 'static) {
    let boxed: Box<dyn FnOnce() + Send> = Box::new(work);
    let data = Box::into_raw(Box::new(boxed)).cast();
    unsafe { ok(sim.cuLaunchHostFunc(stream, Some(run), data)) };
}

#[test]
fn host_functions_run_in_order_on_another_thread() {
    for sim in [test_device(Builder::new()), test_device(late(5))] {
        let stream = sim.stream(1);
        let (send, receive) = mpsc::channel();
        for number in 0..20 {
            let send = send.clone();
            call(&sim, stream, move || {
                send.send((number, thread::current().id())).unwrap();
            });
        }
        unsafe { ok(sim.cuStreamSynchronize(stream)) };
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
    let sim = test_device(Builder::new());
    let get_device = sim.cuCtxGetDevice.unwrap();
    call(&sim, ptr::null_mut(), move || {
        let mut device = 0;
        ANSWER.store(unsafe { get_device(&raw mut device) }.0, Ordering::Relaxed);
    });
    ok(sim.sync());
    assert_eq!(
        ANSWER.load(Ordering::Relaxed),
        CUresult::CUDA_ERROR_NOT_PERMITTED.0
    );
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    for seed in 0..20 {
        let sim = test_device(late(seed));
        let (blocking, free) = (sim.stream(0), sim.stream(1));
        let (send, receive) = mpsc::channel();
        let note = |stream, name: &'static str| {
            let send = send.clone();
            call(&sim, stream, move || send.send(name).unwrap());
        };
        note(blocking, "before");
        note(free, "free");
        note(ptr::null_mut(), "legacy");
        note(blocking, "after");
        ok(sim.sync());
        let seen: Vec<_> = receive.try_iter().filter(|&name| name != "free").collect();
        assert_eq!(seen, ["before", "legacy", "after"], "seed {seed}");
    }
}

#[test]
fn the_per_thread_stream_is_another_one_in_each_thread() {
    let sim = test_device(Builder::new());
    let id = |sim: &TestDevice, stream: usize| {
        let mut id = 0;
        let stream = ptr::without_provenance_mut(stream);
        unsafe { ok(sim.cuStreamGetId(stream, &raw mut id)) };
        id
    };
    assert_eq!(id(&sim, 0), id(&sim, 1));
    assert_ne!(id(&sim, 1), id(&sim, 2));
    let mut mapped = 0;
    unsafe { ok(sim.cuStreamGetId_ptsz(ptr::null_mut(), &raw mut mapped)) };
    assert_eq!(mapped, id(&sim, 2));
    let here = id(&sim, 2);
    let (driver, context) = (&*sim, sim.context.addr());
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
    for sim in [test_device(Builder::new()), test_device(late(2))] {
        let (waiter, writer) = (sim.stream(1), sim.stream(1));
        let flag = sim.upload(&[0_u32, 0]);
        let word = sim.upload(&[1_u32]);
        let increment = sim.function(sim.load(FAULT_KERNELS), "increment");
        unsafe {
            // Equal to the value; then greater than or equal to it, cyclically.
            ok(sim.cuStreamWaitValue32_v2(waiter, flag, 7, 1));
            ok(sim.cuStreamWaitValue32_v2(waiter, flag + 4, 5, 0));
        }
        ok(sim.launch(increment, [1, 1], waiter, &mut [word]));
        unsafe { assert_eq!(sim.cuStreamQuery(waiter), CUresult::CUDA_ERROR_NOT_READY) };
        unsafe {
            ok(sim.cuStreamWriteValue32_v2(writer, flag, 7, 0));
            ok(sim.cuStreamWriteValue32_v2(writer, flag + 4, 6, 0));
            ok(sim.cuStreamSynchronize(waiter));
        }
        assert_eq!(sim.download::<u32>(word, 1), [2]);
    }
}

#[test]
fn the_host_may_write_the_value() {
    for sim in [test_device(Builder::new()), test_device(late(2))] {
        let stream = sim.stream(1);
        let flag = sim.pinned(4);
        let flag = unsafe { AtomicU32::from_ptr(flag.cast()) };
        flag.store(0, Ordering::Relaxed);
        let addr = ptr::from_ref(flag).addr() as u64;
        unsafe { ok(sim.cuStreamWaitValue32_v2(stream, addr, 1, 1)) };
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                flag.store(1, Ordering::Release);
            });
            unsafe { ok(sim.cuStreamSynchronize(stream)) };
        });
        assert_eq!(flag.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_kernel_may_wait_for_a_copy_on_another_stream() {
    let sim = test_device(Builder::new());
    let (first, second) = (sim.stream(1), sim.stream(1));
    let flag = sim.upload(&[0_u32]);
    let spin = sim.function(sim.load(FAULT_KERNELS), "spin");
    ok(sim.launch(spin, [1, 1], first, &mut [flag]));
    unsafe {
        ok(sim.cuMemsetD32Async(flag, 1, 1, second));
        assert_eq!(sim.cuStreamSynchronize(first), OK);
    }
}

#[test]
fn stream_queries_return_flags_and_priority() {
    let sim = test_device(Builder::new());
    let mut stream = ptr::null_mut();
    let (mut flags, mut priority, mut context) = (9, 9, ptr::null_mut());
    unsafe {
        ok(sim.cuStreamCreateWithPriority(&raw mut stream, 1, -100));
        ok(sim.cuStreamGetFlags(stream, &raw mut flags));
        ok(sim.cuStreamGetPriority(stream, &raw mut priority));
        ok(sim.cuStreamGetCtx(stream, &raw mut context));
    }
    let (mut least, mut greatest) = (9, 9);
    unsafe { ok(sim.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)) };
    assert_eq!((flags, priority, context), (1, greatest, sim.context));
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    unsafe {
        ok(sim.cuStreamDestroy_v2(stream));
        assert_eq!(sim.cuStreamDestroy_v2(stream), invalid);
        assert_eq!(sim.cuStreamSynchronize(stream), invalid);
        // An event is not a stream.
        let event = sim.event(0);
        assert_eq!(sim.cuStreamQuery(event.cast()), invalid);
        let bad = sim.cuStreamCreate(&raw mut stream, 8);
        assert_eq!(bad, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn a_destroyed_stream_still_does_its_work() {
    for seed in 0..8 {
        let sim = test_device(late(seed));
        let stream = sim.stream(0);
        let addr = sim.upload(&[1_u8; 16]);
        unsafe {
            ok(sim.cuMemsetD8Async(addr, 5, 16, stream));
            ok(sim.cuStreamDestroy_v2(stream));
        }
        assert_eq!(sim.simulator.pending(), 1);
        // A blocking copy on the legacy stream is ordered after it.
        assert_eq!(sim.download::<u8>(addr, 16), [5; 16]);
        assert_eq!(sim.simulator.pending(), 0);
    }
}

#[test]
fn threads_share_a_driver() {
    for builder in [Builder::new(), late(11)] {
        let sim = test_device(builder);
        let function = sim.function(sim.load(FAULT_KERNELS), "increment").addr();
        let context = sim.context.addr();
        let sim = &sim;
        // The simulator's table is shared; each thread makes the context current for itself.
        let (driver, simulator) = (&sim.driver, &sim.simulator);
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
        ok(sim.sync());
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
    let sim = test_device(Builder::new());
    let (one, two) = (sim.stream(1), sim.stream(1));
    let (policy, priority) = (
        Id::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
        Id::CU_LAUNCH_ATTRIBUTE_PRIORITY,
    );
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    unsafe {
        let mut value: CUlaunchAttributeValue = std::mem::zeroed();
        value.syncPolicy = cuda_sys::CUsynchronizationPolicy(3);
        ok(sim.cuStreamSetAttribute(one, policy, &raw const value));
        ok(sim.cuStreamCopyAttributes(two, one));
        value = std::mem::zeroed();
        ok(sim.cuStreamGetAttribute(two, policy, &raw mut value));
        assert_eq!(value.syncPolicy.0, 3);
        ok(sim.cuStreamGetAttribute(two, priority, &raw mut value));
        assert_eq!(value.priority, 0);
        let set = sim.cuStreamSetAttribute(one, priority, &raw const value);
        assert_eq!(set, invalid, "it is fixed");
        let other = Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        assert_eq!(
            sim.cuStreamSetAttribute(one, other, &raw const value),
            invalid
        );
    }
}
