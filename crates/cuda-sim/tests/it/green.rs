//! Device resources and green contexts: what a driver checks, and what stays with the primary
//! context.

use std::collections::BTreeSet;
use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{
    CUcontext, CUdevResource, CUdevResourceDesc, CUdevResourceType, CUgreenCtx, CUresult as R,
    CUstream,
};

use crate::support::{TestDevice, ok, test_device};

/// Each block writes the number of its multiprocessor: `out[ctaid.x] = %smid`.
const SMID: &str = ".version 8.0
.target sm_50
.address_size 64
.visible .entry smid(.param .u64 out)
{
    .reg .u32 %r<3>;
    .reg .u64 %rd<3>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %smid;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}
// The block with the number 0 waits for the last block, which may be resident only later.
.visible .entry wait_for_last(.param .u64 flag)
{
    .reg .pred %p, %q;
    .reg .u32 %r<5>;
    .reg .u64 %rd1;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    sub.u32 %r2, %r2, 1;
    setp.ne.u32 %p, %r1, %r2;
    @%p bra wait;
    mov.u32 %r3, 1;
    st.volatile.global.u32 [%rd1], %r3;
    ret;
wait:
    ld.volatile.global.u32 %r4, [%rd1];
    setp.eq.u32 %q, %r4, 0;
    @%q bra wait;
    ret;
}
";

const SM: CUdevResourceType = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
const DEFAULT_STREAM: u32 = 1;

fn resource() -> CUdevResource {
    // SAFETY: all bytes of the struct may be zero: it has integers and a pointer.
    unsafe { std::mem::zeroed() }
}

fn count(resource: &CUdevResource) -> u32 {
    assert_eq!(resource.type_, SM);
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

fn all(sim: &TestDevice) -> CUdevResource {
    let mut all = resource();
    unsafe { ok(sim.cuDeviceGetDevResource(0, &raw mut all, SM)) };
    all
}

/// Splits `input`. Returns the status, the groups and the remainder.
fn split(
    sim: &TestDevice,
    input: &CUdevResource,
    groups: u32,
    least: u32,
) -> (R, Vec<CUdevResource>, CUdevResource) {
    let (mut parts, mut number, mut rest) = (vec![resource(); groups as usize], groups, resource());
    let status = unsafe {
        sim.cuDevSmResourceSplitByCount(
            parts.as_mut_ptr(),
            &raw mut number,
            input,
            &raw mut rest,
            0,
            least,
        )
    };
    parts.truncate(number as usize);
    (status, parts, rest)
}

fn describe(sim: &TestDevice, resources: &[CUdevResource]) -> Result<CUdevResourceDesc, R> {
    let mut desc = ptr::null_mut();
    let mut resources = resources.to_vec();
    let number = resources.len() as u32;
    match unsafe { sim.cuDevResourceGenerateDesc(&raw mut desc, resources.as_mut_ptr(), number) } {
        R::CUDA_SUCCESS => Ok(desc),
        status => Err(status),
    }
}

fn create(sim: &TestDevice, part: &CUdevResource) -> (CUgreenCtx, CUcontext) {
    let desc = describe(sim, &[*part]).unwrap();
    let (mut green, mut context) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        ok(sim.cuGreenCtxCreate(&raw mut green, desc, 0, DEFAULT_STREAM));
        ok(sim.cuCtxFromGreenCtx(&raw mut context, green));
    }
    (green, context)
}

fn green_stream(sim: &TestDevice, green: CUgreenCtx) -> CUstream {
    let mut stream = ptr::null_mut();
    unsafe { ok(sim.cuGreenCtxStreamCreate(&raw mut stream, green, 1, 0)) };
    stream
}

#[test]
fn the_number_of_multiprocessors_depends_on_the_capability() {
    // The device has 16 multiprocessors.
    for (major, least, groups, size) in [(9, 1, 2, 8), (8, 1, 4, 4), (8, 5, 2, 6), (7, 1, 8, 2)] {
        let sim = test_device(Builder::new().compute_capability(major, u32::from(major == 7) * 5));
        let all = all(&sim);
        assert_eq!(count(&all), 16);
        let mut number = 0;
        let (result, rest) = (ptr::null_mut(), ptr::null_mut());
        let most = unsafe {
            sim.cuDevSmResourceSplitByCount(result, &raw mut number, &raw const all, rest, 0, least)
        };
        ok(most);
        assert_eq!(number, groups, "{major}");
        let (status, parts, rest) = split(&sim, &all, 16, least);
        ok(status);
        assert_eq!(parts.len(), groups as usize, "{major}");
        assert!(parts.iter().all(|part| count(part) == size), "{major}");
        let left = 16 - groups * size;
        let kind = rest.type_;
        assert_eq!(kind == SM, left > 0, "{major}");
        if left > 0 {
            assert_eq!(count(&rest), left);
        }
    }
}

#[test]
fn a_kernel_runs_on_the_multiprocessors_of_its_stream() {
    let sim = test_device(Builder::new());
    // The module belongs to the primary context, and works in the green contexts.
    let kernel = sim.function(sim.load(SMID), "smid");
    let (_, parts, _) = split(&sim, &all(&sim), 2, 8);
    let run = |stream| {
        let out = sim.alloc(64 * 4);
        ok(sim.launch(kernel, [64, 1], stream, &mut [out]));
        ok(sim.sync());
        let seen: BTreeSet<u32> = sim.download::<u32>(out, 64).into_iter().collect();
        seen
    };
    let seen: Vec<_> = parts
        .iter()
        .map(|part| run(green_stream(&sim, create(&sim, part).0)))
        .collect();
    assert_eq!(seen[0], (0..8).collect());
    assert_eq!(seen[1], (8..16).collect());
    assert_eq!(run(sim.stream(1)), (0..16).collect());
}

#[test]
fn a_partition_limits_the_resident_blocks() {
    // On the whole device, a third block gets a turn. On two multiprocessors, which run one block
    // of this size each, it starts when another one has ended.
    let turns = (1 << 24) + (1 << 23);
    let builder = Builder::new().compute_capability(7, 5);
    let sim = test_device(builder.instruction_limit(turns));
    let kernel = sim.function(sim.load(SMID), "wait_for_last");
    let (_, parts, _) = split(&sim, &all(&sim), 1, 2);
    let flag = sim.upload(&[0_u32]);
    let launch = |blocks, stream| {
        unsafe { ok(sim.cuMemsetD32_v2(flag, 0, 1)) };
        ok(sim.launch(kernel, [blocks, 1024], stream, &mut [flag]));
        unsafe { sim.cuStreamSynchronize(stream) }
    };
    let stream = green_stream(&sim, create(&sim, &parts[0]).0);
    ok(launch(3, sim.stream(1)));
    ok(launch(2, stream));
    assert_eq!(launch(3, stream), R::CUDA_ERROR_LAUNCH_TIMEOUT);
}

#[test]
fn the_primary_context_owns_what_a_green_context_creates() {
    let sim = test_device(Builder::new());
    let (green, context) = create(&sim, &all(&sim));
    unsafe { ok(sim.cuCtxSetCurrent(context)) };
    let memory = sim.upload(&[5_u32]);
    let event = sim.event(0);
    let module = sim.load(SMID);
    let stream = sim.stream(1);
    let mut of_stream = ptr::null_mut();
    unsafe {
        ok(sim.cuStreamGetGreenCtx(stream, &raw mut of_stream));
        assert_eq!(of_stream, green);
        ok(sim.cuEventRecord(event, stream));
        ok(sim.cuGreenCtxDestroy(green));
        ok(sim.cuCtxSetCurrent(sim.context));
    }
    assert_eq!(sim.download::<u32>(memory, 1), [5]);
    // The stream is detached, and can only be destroyed.
    unsafe {
        assert_eq!(sim.cuStreamQuery(stream), R::CUDA_ERROR_STREAM_DETACHED);
        ok(sim.cuStreamDestroy_v2(stream));
        ok(sim.cuEventDestroy_v2(event));
        ok(sim.cuModuleUnload(module));
        ok(sim.cuMemFree_v2(memory));
        assert_eq!(sim.cuGreenCtxDestroy(green), R::CUDA_ERROR_INVALID_CONTEXT);
    }
}

#[test]
fn a_green_context_keeps_the_primary_context() {
    let sim = test_device(Builder::new());
    let (green, context) = create(&sim, &all(&sim));
    let (mut flags, mut active) = (0, 0);
    unsafe {
        ok(sim.cuDevicePrimaryCtxRelease_v2(0));
        ok(sim.cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active));
        assert_eq!(active, 1);
        assert_eq!(sim.cuCtxDestroy_v2(context), R::CUDA_ERROR_INVALID_CONTEXT);
        ok(sim.cuGreenCtxDestroy(green));
        ok(sim.cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active));
        assert_eq!(active, 0);
    }
}

#[test]
fn resources_that_do_not_fit_are_refused() {
    let sim = test_device(Builder::new().devices(2).version(13_000));
    let all = all(&sim);
    let (_, parts, _) = split(&sim, &all, 2, 8);
    let bad = R::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    // A part of a part, the same part twice, and parts of different splits.
    assert_eq!(split(&sim, &parts[0], 1, 8).0, bad);
    assert_eq!(describe(&sim, &[parts[0], parts[0]]), Err(bad));
    let (_, others, _) = split(&sim, &all, 2, 8);
    assert_eq!(describe(&sim, &[parts[0], others[1]]), Err(bad));
    assert_eq!(split(&sim, &all, 1, 17).0, R::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(describe(&sim, &[]), Err(R::CUDA_ERROR_INVALID_VALUE));
    let kind = Err(R::CUDA_ERROR_INVALID_RESOURCE_TYPE);
    assert_eq!(describe(&sim, &[resource()]), kind);
    let desc = describe(&sim, &parts).unwrap();
    let mut green = ptr::null_mut();
    let mut queues = resource();
    unsafe {
        // Before CUDA 13.1 the default stream is required, and there are no work queues.
        let status = sim.cuGreenCtxCreate(&raw mut green, desc, 0, 0);
        assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
        let status = sim.cuGreenCtxCreate(&raw mut green, desc, 1, DEFAULT_STREAM);
        assert_eq!(status, R::CUDA_ERROR_INVALID_DEVICE);
        let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG;
        let status = sim.cuDeviceGetDevResource(0, &raw mut queues, kind);
        assert_eq!(status, R::CUDA_ERROR_INVALID_RESOURCE_TYPE);
    }
}

#[test]
fn resources_and_ids_can_be_queried() {
    let sim = test_device(Builder::new());
    let (_, parts, _) = split(&sim, &all(&sim), 1, 8);
    let (green, context) = create(&sim, &parts[0]);
    let stream = green_stream(&sim, green);
    let [mut of_green, mut of_context, mut of_stream, mut of_primary] =
        [(); 4].map(|()| resource());
    let (mut id, mut current_id) = (0, 0);
    let mut per_thread = ptr::null_mut();
    unsafe {
        ok(sim.cuGreenCtxGetDevResource(green, &raw mut of_green, SM));
        ok(sim.cuCtxGetDevResource(context, &raw mut of_context, SM));
        ok(sim.cuStreamGetDevResource(stream, &raw mut of_stream, SM));
        ok(sim.cuCtxGetDevResource(sim.context, &raw mut of_primary, SM));
        ok(sim.cuGreenCtxGetId(green, &raw mut id));
        let status = sim.cuGreenCtxGetId(ptr::null_mut(), &raw mut current_id);
        assert_eq!(status, R::CUDA_ERROR_INVALID_CONTEXT);
        ok(sim.cuCtxSetCurrent(context));
        ok(sim.cuGreenCtxGetId(ptr::null_mut(), &raw mut current_id));
        // A green context has no per-thread stream.
        let stream = ptr::without_provenance_mut(2);
        let status = sim.cuStreamGetCtx(stream, &raw mut per_thread);
        assert_eq!(status, R::CUDA_ERROR_INVALID_HANDLE);
    }
    assert_eq!(id, current_id);
    let counts = [of_green, of_context, of_stream, of_primary].map(|it| count(&it));
    assert_eq!(counts, [8, 8, 8, 16]);
}
