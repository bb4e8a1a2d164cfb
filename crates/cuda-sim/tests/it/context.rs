//! Contexts, and their use by several threads.

use std::ptr;
use std::thread;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{CUcontext, DriverLibrary};

use crate::support::{OK, bare, ok, test_device};

fn current(driver: &DriverLibrary) -> CUcontext {
    let mut context = ptr::null_mut();
    unsafe { ok(driver.cuCtxGetCurrent(&raw mut context)) };
    context
}

fn state(driver: &DriverLibrary) -> (u32, i32) {
    let (mut flags, mut active) = (99, 99);
    unsafe { ok(driver.cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active)) };
    (flags, active)
}

#[test]
fn the_primary_context_is_counted() {
    let (simulator, driver) = bare(Builder::new());
    unsafe { ok(driver.cuInit(0)) };
    assert_eq!(state(&driver), (0, 0));
    unsafe { ok(driver.cuDevicePrimaryCtxSetFlags_v2(0, 4)) };
    let (mut first, mut second) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        ok(driver.cuDevicePrimaryCtxRetain(&raw mut first, 0));
        ok(driver.cuDevicePrimaryCtxRetain(&raw mut second, 0));
    }
    assert_eq!(first, second);
    assert_eq!(state(&driver), (4, 1));
    unsafe { ok(driver.cuDevicePrimaryCtxRelease_v2(0)) };
    assert_eq!(state(&driver), (4, 1));
    assert_eq!(simulator.live().contexts, 1);
    unsafe { ok(driver.cuDevicePrimaryCtxRelease_v2(0)) };
    assert_eq!(state(&driver), (4, 0));
    assert!(simulator.live().is_empty());
    let status = unsafe { driver.cuDevicePrimaryCtxRelease_v2(0) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

#[test]
fn each_thread_has_its_own_stack() {
    let sim = test_device(Builder::new());
    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    assert_eq!(current(&sim), other);
    let (driver, primary) = (&*sim, sim.context.addr());
    thread::scope(|scope| {
        scope.spawn(move || {
            assert!(current(driver).is_null());
            let primary: CUcontext = ptr::without_provenance_mut(primary);
            unsafe { ok(driver.cuCtxPushCurrent_v2(primary)) };
            assert_eq!(current(driver), primary);
        });
    });
    let mut popped = ptr::null_mut();
    unsafe { ok(sim.cuCtxPopCurrent_v2(&raw mut popped)) };
    assert_eq!(popped, other);
    assert_eq!(current(&sim), sim.context);
    unsafe { ok(sim.cuCtxPopCurrent_v2(ptr::null_mut())) };
    let status = unsafe { sim.cuCtxPopCurrent_v2(&raw mut popped) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let mut addr = 0;
    let status = unsafe { sim.cuMemAlloc_v2(&raw mut addr, 16) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

#[test]
fn a_destroyed_context_destroys_its_objects() {
    let sim = test_device(Builder::new());
    let mut context = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut context, 0, 0)) };
    let stream = sim.stream(1);
    sim.event(0);
    sim.alloc(100);
    sim.pinned(100);
    sim.load(crate::support::ADD);
    let live = sim.simulator.live();
    let counts = (
        live.contexts,
        live.streams,
        live.events,
        live.allocations,
        live.modules,
    );
    assert_eq!(counts, (2, 1, 1, 1, 1));
    assert_eq!(live.host_bytes, 100);
    unsafe { ok(sim.cuCtxDestroy_v2(context)) };
    assert_eq!(sim.simulator.live().to_string(), "live: 1 contexts");
    assert_eq!(current(&sim), sim.context);
    let status = unsafe { sim.cuStreamSynchronize(stream) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    let status = unsafe { sim.cuCtxDestroy_v2(context) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    // The primary context cannot be destroyed by this call.
    let status = unsafe { sim.cuCtxDestroy_v2(sim.context) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

#[test]
fn context_of_another_driver_is_invalid() {
    let one = test_device(Builder::new());
    let two = test_device(Builder::new());
    let status = unsafe { two.cuCtxSetCurrent(one.context) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let wild = ptr::without_provenance_mut(0xDEAD_BEE8);
    let status = unsafe { two.cuCtxSetCurrent(wild) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(current(&two), two.context);
}

#[test]
fn settings_are_read_back() {
    use cuda_sys::{CUfunc_cache, CUlimit};
    let sim = test_device(Builder::new());
    let mut value = 0;
    unsafe {
        ok(sim.cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, 4096));
        ok(sim.cuCtxGetLimit(&raw mut value, CUlimit::CU_LIMIT_STACK_SIZE));
    }
    assert_eq!(value, 4096);
    let status = unsafe { sim.cuCtxSetLimit(CUlimit::CU_LIMIT_SHMEM_SIZE, 1) };
    assert_eq!(status, CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
    let status = unsafe { sim.cuCtxSetLimit(CUlimit(77), 1) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    let mut config = CUfunc_cache(9);
    unsafe {
        ok(sim.cuCtxSetCacheConfig(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1));
        ok(sim.cuCtxGetCacheConfig(&raw mut config));
    }
    assert_eq!(config, CUfunc_cache::CU_FUNC_CACHE_PREFER_L1);
    let (mut least, mut greatest) = (9, 9);
    unsafe {
        assert_eq!(
            sim.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest),
            OK
        );
    }
    assert!(greatest < least);
}

/// The statuses are those of an H200 with driver 580.
#[test]
fn a_reset_keeps_the_handle_of_the_primary_context() {
    let sim = test_device(Builder::new());
    let (context, module) = (sim.context, sim.load(include_str!("kernels/add.ptx")));
    let (mut stream, mut event, mut address) = (ptr::null_mut(), ptr::null_mut(), 0);
    let (mut again, mut before, mut after) = (ptr::null_mut(), 0, 0);
    unsafe {
        ok(sim.cuStreamCreate(&raw mut stream, 1));
        ok(sim.cuEventCreate(&raw mut event, 0));
        ok(sim.cuMemAlloc_v2(&raw mut address, 64));
        ok(sim.cuCtxGetId(context, &raw mut before));
        ok(sim.cuDevicePrimaryCtxReset_v2(0));
    }
    assert_eq!(state(&sim).1, 0);
    for now in ["reset", "retained"] {
        let statuses = unsafe {
            [
                sim.cuStreamSynchronize(stream),
                sim.cuStreamDestroy_v2(stream),
                sim.cuEventQuery(event),
                sim.cuEventDestroy_v2(event),
                sim.cuModuleUnload(module),
            ]
        };
        assert_eq!(
            statuses,
            [CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED; 5],
            "{now}"
        );
        if now == "reset" {
            let freed = unsafe { sim.cuMemFree_v2(address) };
            assert_eq!(freed, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
            unsafe {
                ok(sim.cuCtxSetCurrent(context));
                assert_eq!(
                    sim.cuCtxSynchronize(),
                    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
                );
                ok(sim.cuDevicePrimaryCtxRetain(&raw mut again, 0));
            }
            assert_eq!(again, context);
        }
    }
    unsafe {
        ok(sim.cuCtxGetId(context, &raw mut after));
        // The context that is current is the new one.
        ok(sim.cuCtxSynchronize());
        ok(sim.cuCtxPushCurrent_v2(context));
        ok(sim.cuStreamCreate(&raw mut stream, 1));
        ok(sim.cuStreamSynchronize(stream));
        // Another handle is still unknown.
        assert_eq!(
            sim.cuEventQuery(ptr::without_provenance_mut(64)),
            CUresult::CUDA_ERROR_INVALID_HANDLE
        );
        ok(sim.cuDevicePrimaryCtxRelease_v2(0));
    }
    assert_ne!(before, after);
    assert_eq!(state(&sim).1, 1);
}
