//! Regression tests for calls that failed inside the driver, found by fuzzing.

use cuda_sim::{Builder, CUresult};
use cuda_sys::CUmemPool_attribute;

use crate::support::{ok, test_device};

#[test]
fn an_allocation_that_fails_is_not_counted_by_its_pool() {
    let sim = test_device(Builder::new());
    let stream = sim.stream(0);
    let (mut pool, mut addr) = (std::ptr::null_mut(), 0);
    unsafe { ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0)) };
    unsafe { ok(sim.cuMemAllocAsync(&raw mut addr, 1000, stream)) };
    for size in [usize::MAX, usize::MAX - 999, 1 << 60] {
        let status = unsafe { sim.cuMemAllocAsync(&raw mut addr, size, stream) };
        assert_eq!(status, CUresult::CUDA_ERROR_OUT_OF_MEMORY, "{size}");
    }
    for attribute in [
        CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
    ] {
        let mut value = 0_u64;
        let place = (&raw mut value).cast();
        unsafe { ok(sim.cuMemPoolGetAttribute(pool, attribute, place)) };
        assert_eq!(value, 1000, "{attribute:?}");
    }
}

/// A kernel that counts in host memory without end.
const ENDLESS: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry endless(.param .u64 out)
{
    .reg .u64 %out;
    .reg .u32 %i;
    ld.param.u64 %out, [out];
    mov.u32 %i, 0;
more:
    add.u32 %i, %i, 1;
    st.global.u32 [%out], %i;
    bra more;
}";

#[test]
fn endless_kernel_stops_near_instruction_limit() {
    let limit = 3_000;
    let sim = test_device(Builder::new().instruction_limit(limit));
    let out = sim.pinned(4);
    let function = sim.function(sim.load(ENDLESS), "endless");
    let mut args = [out.expose_provenance() as u64];
    ok(sim.launch(function, [1, 1], std::ptr::null_mut(), &mut args));
    let status = unsafe { sim.cuCtxSynchronize() };
    assert_eq!(status, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    // Each round takes three instructions.
    let rounds = u64::from(unsafe { out.cast::<u32>().read() });
    assert!(
        (limit / 3 - 5..limit / 3 + 50).contains(&rounds),
        "{rounds}"
    );
}

#[test]
fn a_predicate_is_stored_in_no_other_register() {
    let sim = test_device(Builder::new());
    let load = |to: &str| {
        let text = format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{{\n\
             .reg .pred %p;\n.reg .b16 %h;\n.reg .b32 %r;\n.reg .b64 %d;\n\
             setp.ne.s32 {to}, 1, 0;\nret;\n}}\0"
        );
        let mut module = std::ptr::null_mut();
        unsafe { sim.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) }
    };
    assert_eq!(load("%p"), CUresult::CUDA_SUCCESS);
    for to in ["%h", "%r", "%d"] {
        assert_eq!(load(to), CUresult::CUDA_ERROR_INVALID_PTX, "{to}");
    }
}

#[test]
fn memory_is_returned_to_the_pool_of_its_device() {
    let sim = test_device(Builder::new().devices(2));
    let before = sim.simulator.live();
    let (mut second, mut pool, mut addr) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    unsafe {
        ok(sim.cuDeviceGetDefaultMemPool(&raw mut pool, 0));
        ok(sim.cuCtxCreate_v2(&raw mut second, 0, 1));
        let stream = sim.stream(0);
        ok(sim.cuMemAllocFromPoolAsync(&raw mut addr, 1 << 20, pool, stream));
        ok(sim.cuMemFreeAsync(addr, stream));
        // The end of the context frees it as well.
        ok(sim.cuMemAllocFromPoolAsync(&raw mut addr, 1 << 20, pool, stream));
        ok(sim.cuCtxDestroy_v2(second));
    }
    assert_eq!(sim.simulator.live(), before);
}

/// A kernel whose diverged lanes take part in two votes with overlapping member masks, and in two
/// barriers at one instruction.
const OVERLAPPING: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry votes(.param .u64 out)
{
    .reg .u64 %out;
    .reg .u32 %t, %some, %all;
    .reg .pred %p;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 8, %out;
    mov.u32 %some, 0;
    setp.ne.u32 %p, %t, 0;
    @%p bra others;
together:
    setp.lt.u32 %p, %t, 32;
    vote.sync.ballot.b32 %all, %p, 7;
    st.global.v2.u32 [%out], {%some, %all};
    ret;
others:
    setp.eq.u32 %p, %t, 2;
    vote.sync.ballot.b32 %some, %p, 6;
    bra together;
}
.visible .entry barriers(.param .u64 out)
{
    .reg .u64 %out;
    .reg .u32 %t, %members, %seen;
    .reg .pred %p;
    .shared .u32 flag;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 8, %out;
    setp.eq.u32 %p, %t, 0;
    @%p st.shared.u32 [flag], 0;
    bar.sync 0;
    setp.lt.u32 %p, %t, 2;
    selp.u32 %members, 3, 12, %p;
    setp.eq.u32 %p, %t, 3;
    @%p bra wait;
meet:
    bar.warp.sync %members;
    setp.eq.u32 %p, %t, 0;
    @%p st.volatile.shared.u32 [flag], 5;
    ld.volatile.shared.u32 %seen, [flag];
    st.global.v2.u32 [%out], {%members, %seen};
    ret;
wait:
    ld.volatile.shared.u32 %seen, [flag];
    setp.eq.u32 %p, %seen, 0;
    @%p bra wait;
    bra meet;
}";

#[test]
fn lanes_meet_those_with_the_same_member_mask() {
    let sim = test_device(Builder::new());
    let module = sim.load(OVERLAPPING);
    let run = |name: &str, threads: u32| -> Vec<[u32; 2]> {
        let out = sim.upload(&vec![[0_u32; 2]; threads as usize]);
        let function = sim.function(module, name);
        ok(sim.launch(function, [1, threads], std::ptr::null_mut(), &mut [out]));
        ok(sim.sync());
        sim.download(out, threads as usize)
    };
    assert_eq!(run("votes", 3), [[0, 7], [4, 7], [4, 7]]);
    let seen = run("barriers", 4);
    assert_eq!(
        seen.iter().map(|pair| pair[0]).collect::<Vec<_>>(),
        [3, 3, 12, 12]
    );
    // Lane 0 has written by the time lane 3 reaches the barrier at which lane 2 waits.
    assert_eq!([seen[0][1], seen[2][1], seen[3][1]], [5; 3]);
}
