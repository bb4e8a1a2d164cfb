//! Memory that kernels allocate with `malloc` and free with `free`.

use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::CUlimit;

use crate::support::{TestDevice, ok, test_device};

const KERNELS: &str = "
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b64 result) malloc(.param .b64 size);
.extern .func free(.param .b64 pointer);

// Each thread allocates 100 bytes, stores its number there and the address to `out`.
.visible .entry take(.param .u64 out, .param .u64 size)
{
    .reg .b64 %out, %at, %size; .reg .b32 %t; .reg .pred %p;
    ld.param.u64 %out, [out]; ld.param.u64 %size, [size];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 8, %out;
    {
        .param .b64 p0; .param .b64 r0;
        st.param.b64 [p0], %size;
        call.uni (r0), malloc, (p0);
        ld.param.b64 %at, [r0];
    }
    st.global.u64 [%out], %at;
    setp.eq.u64 %p, %at, 0;
    @!%p st.u32 [%at], %t;
    ret;
}
// Each thread loads its number from its block, stores it to `out` and frees the block.
.visible .entry drop(.param .u64 blocks, .param .u64 out)
{
    .reg .b64 %blocks, %out, %at; .reg .b32 %t, %n;
    ld.param.u64 %blocks, [blocks]; ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %blocks, %t, 8, %blocks;
    mad.wide.u32 %out, %t, 4, %out;
    ld.global.u64 %at, [%blocks];
    ld.u32 %n, [%at];
    st.global.u32 [%out], %n;
    {
        .param .b64 p0;
        st.param.b64 [p0], %at;
        call.uni free, (p0);
    }
    ret;
}";

fn take(sim: &TestDevice, threads: u32, size: u64) -> (u64, Vec<u64>) {
    let take = sim.function(sim.load(KERNELS), "take");
    let blocks = sim.upload(&vec![0_u64; threads as usize]);
    ok(sim.launch(take, [1, threads], ptr::null_mut(), &mut [blocks, size]));
    ok(sim.sync());
    (blocks, sim.download(blocks, threads as usize))
}

#[test]
fn blocks_outlive_the_kernel_that_allocated_them() {
    let sim = test_device(Builder::new());
    let (blocks, addresses) = take(&sim, 50, 100);
    let mut sorted = addresses.clone();
    sorted.sort_unstable();
    assert!(sorted[0] > 0 && sorted[0].is_multiple_of(16));
    assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 100));
    let out = sim.upload(&[0_u32; 50]);
    let drop = sim.function(sim.load(KERNELS), "drop");
    ok(sim.launch(drop, [1, 50], ptr::null_mut(), &mut [blocks, out]));
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 50), (0..50).collect::<Vec<_>>());
    // Freed blocks are used again.
    let (_, again) = take(&sim, 50, 100);
    assert!(again.iter().all(|address| addresses.contains(address)));
}

#[test]
fn the_limit_of_the_heap_is_that_of_the_context() {
    let sim = test_device(Builder::new());
    let limit = CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE;
    unsafe { ok(sim.cuCtxSetLimit(limit, 1024)) };
    let (_, addresses) = take(&sim, 10, 256);
    assert_eq!(addresses.iter().filter(|&&address| address != 0).count(), 4);
    let (_, none) = take(&sim, 1, 0);
    assert_eq!(none, [0]);
    let (_, huge) = take(&sim, 1, u64::MAX);
    assert_eq!(huge, [0]);
}

#[test]
fn freeing_a_block_twice_fails_the_kernel() {
    let sim = test_device(Builder::new());
    let (blocks, _) = take(&sim, 1, 100);
    let out = sim.upload(&[0_u32; 1]);
    let drop = sim.function(sim.load(KERNELS), "drop");
    ok(sim.launch(drop, [1, 1], ptr::null_mut(), &mut [blocks, out]));
    ok(sim.sync());
    ok(sim.launch(drop, [1, 1], ptr::null_mut(), &mut [blocks, out]));
    assert_eq!(sim.sync(), R::CUDA_ERROR_LAUNCH_FAILED);
    let reports = sim.simulator.take_reports();
    assert!(
        reports[0]
            .to_string()
            .contains("no block of the device heap starts there")
    );
}

#[test]
fn destroying_a_context_returns_its_heap() {
    let sim = test_device(Builder::new());
    let room = || {
        let (mut free, mut total) = (0, 0);
        unsafe { ok(sim.cuMemGetInfo_v2(&raw mut free, &raw mut total)) };
        free
    };
    let before = room();
    let mut context = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut context, 0, 0)) };
    let (_, addresses) = take(&sim, 32, 1000);
    assert!(addresses.iter().all(|&address| address != 0));
    assert!(room() < before);
    unsafe { ok(sim.cuCtxDestroy_v2(context)) };
    unsafe { ok(sim.cuCtxSetCurrent(sim.context)) };
    assert_eq!(room(), before);
}
