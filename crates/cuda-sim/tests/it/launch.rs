//! Launches, valid and rejected.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig};

use crate::support::{ADD, late, ok, test_device};

#[test]
fn kernels_that_wait_leave_room_for_others() {
    let sim = test_device(Builder::new());
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 flag, .param .u64 out) {
        .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p;
        ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [out];
        $wait: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p, %r1, 0; @%p bra $wait;
        atom.global.add.u32 %r2, [%rd2], 1; ret; }";
    let kernel = sim.function(sim.load(text), "k");
    // More blocks than host threads, in two kernels that wait for a third one.
    let threads = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
    let (shut, open) = (sim.pinned(4), sim.upload(&[1_u32]));
    unsafe { shut.cast::<u32>().write(0) };
    let out = sim.upload(&[0_u32]);
    let launch = |stream, mut flag: u64| {
        let mut out = out;
        let mut params = [(&raw mut flag).cast(), (&raw mut out).cast()];
        let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
        unsafe {
            ok(sim.cuLaunchKernel(kernel, 2 * threads, 1, 1, 1, 1, 1, 0, stream, params, none));
        }
    };
    let streams = [(); 3].map(|()| sim.stream(1));
    launch(streams[0], shut.addr() as u64);
    launch(streams[1], shut.addr() as u64);
    std::thread::sleep(std::time::Duration::from_millis(50));
    launch(streams[2], open);
    unsafe { ok(sim.cuStreamSynchronize(streams[2])) };
    // SAFETY: the flag is aligned, and the kernels only read it.
    unsafe { AtomicU32::from_ptr(shut.cast()) }.store(1, Ordering::SeqCst);
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 1), [6 * threads]);
}

#[test]
fn one_host_thread_executes_blocks_in_the_same_order() {
    let sim = test_device("threads=1".parse().unwrap());
    // Each block counts to 2,000 and then stores who was the last one before it.
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 last, .param .u64 out) {
        .reg .b64 %rd<5>; .reg .b32 %r<4>; .reg .pred %p;
        ld.param.u64 %rd1, [last]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, 0;
        $more: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 2000; @%p bra $more;
        atom.global.exch.b32 %r3, [%rd1], %r1;
        mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r3; ret; }";
    let kernel = sim.function(sim.load(text), "k");
    let order = || {
        let mut params = [sim.upload(&[u32::MAX]), sim.upload(&[0_u32; 64])];
        ok(sim.launch(kernel, [64, 1], ptr::null_mut(), &mut params));
        ok(sim.sync());
        sim.download::<u32>(params[1], 64)
    };
    let first = order();
    for _ in 0..20 {
        assert_eq!(order(), first);
    }
}

#[test]
fn vectors_are_added() {
    for sim in [test_device(Builder::new()), test_device(late(4))] {
        let count = 10_000;
        let a: Vec<f32> = (0..count).map(|i| i as f32 * 0.25).collect();
        let b: Vec<f32> = (0..count).map(|i| 1.0 / (i + 1) as f32).collect();
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let add = sim.function(sim.load(ADD), "add");
        let mut params = [
            sim.upload(&a),
            sim.upload(&b),
            sim.alloc(4 * count),
            count as u64,
        ];
        ok(sim.launch(
            add,
            [count.div_ceil(256) as u32, 256],
            ptr::null_mut(),
            &mut params,
        ));
        assert_eq!(sim.download::<f32>(params[2], count), expected);
    }
}

#[test]
fn parameters_in_one_buffer() {
    let sim = test_device(Builder::new());
    let add = sim.function(sim.load(ADD), "add");
    let out = sim.alloc(12);
    let mut buffer = [
        sim.upload(&[1_f32, 2., 3.]),
        sim.upload(&[10_f32, 20., 30.]),
        out,
        3,
    ];
    let mut size = size_of_val(&buffer);
    let mut launch = |size: &mut usize| {
        let mut extra: [*mut c_void; 5] = [
            ptr::without_provenance_mut(1),
            buffer.as_mut_ptr().cast(),
            ptr::without_provenance_mut(2),
            ptr::from_mut(size).cast(),
            ptr::null_mut(),
        ];
        let (none, extra) = (ptr::null_mut(), extra.as_mut_ptr());
        unsafe { sim.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, none, ptr::null_mut(), extra) }
    };
    ok(launch(&mut size));
    assert_eq!(sim.download::<f32>(out, 3), [11., 22., 33.]);
    size -= 8;
    assert_eq!(launch(&mut size), R::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn wrong_shapes_are_refused() {
    let sim = test_device(Builder::new());
    let module = sim.load(ADD);
    let (add, scale) = (
        sim.function(module, "add"),
        sim.function(module, "times_scale"),
    );
    let out = sim.upload(&[0_f32; 4]);
    let invalid = R::CUDA_ERROR_INVALID_VALUE;
    for (function, [gx, gy, gz], [bx, by, bz], shared, status) in [
        (add, [0, 1, 1], [1, 1, 1], 0, invalid),
        (add, [1, 1, 1], [1, 0, 1], 0, invalid),
        (add, [1, 1, 1], [2048, 1, 1], 0, invalid),
        (add, [1, 1, 1], [32, 32, 2], 0, invalid),
        (add, [1, 1, 1], [u32::MAX; 3], 0, invalid),
        (add, [u32::MAX; 3], [1, 1, 1], 0, invalid),
        (add, [1, 1, 1], [1, 1, 65], 0, invalid),
        (add, [1, 65536, 1], [1, 1, 1], 0, invalid),
        (add, [1, 1, 1], [1, 1, 1], (48 << 10) + 1, invalid),
        (scale, [1, 1, 1], [1, 1, 1], (48 << 10) - 511, invalid),
        (scale, [1, 1, 1], [257, 1, 1], 0, invalid),
        (
            ptr::without_provenance_mut(64),
            [1; 3],
            [1; 3],
            0,
            R::CUDA_ERROR_INVALID_HANDLE,
        ),
    ] {
        let mut values = [out, out, out, 4_u64];
        let mut params: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| ptr::from_mut(value).cast())
            .collect();
        let (none, params) = (ptr::null_mut(), params.as_mut_ptr());
        let found = unsafe {
            sim.cuLaunchKernel(
                function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                none,
                params,
                ptr::null_mut(),
            )
        };
        assert_eq!(found, status, "{:?}", ([gx, gy, gz], [bx, by, bz], shared));
    }
    let none = ptr::null_mut();
    let status = unsafe {
        sim.cuLaunchKernel(
            add,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            none,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    assert_eq!(status, invalid, "parameters are missing");
    ok(sim.sync());
    assert_eq!(sim.download::<f32>(out, 4), [0.; 4]);
}

/// Dimensions whose product is 0 in 32 bits, or exceeds 64 bits.
#[test]
fn bounds_may_be_any_numbers() {
    let sim = test_device(Builder::new());
    let most = u32::MAX;
    let text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry wide() .maxntid 65536, 65536, 4 {{ ret; }}\n\
         .visible .entry wider() .maxntid {most}, {most}, {most} {{ ret; }}\n\
         .visible .entry never() .reqntid {most}, {most}, {most} {{ ret; }}\n"
    );
    let module = sim.load(&text);
    for (name, expected) in [
        ("wide", R::CUDA_SUCCESS),
        ("wider", R::CUDA_SUCCESS),
        ("never", R::CUDA_ERROR_INVALID_VALUE),
    ] {
        let function = sim.function(module, name);
        let mut threads = 0;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        unsafe { ok(sim.cuFuncGetAttribute(&raw mut threads, attribute, function)) };
        assert_eq!(threads, 1024, "{name}");
        let status = sim.launch(function, [1, 1024], ptr::null_mut(), &mut []);
        assert_eq!(status, expected, "{name}");
        ok(sim.sync());
    }
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let sim = test_device(Builder::new());
    let add = sim.function(sim.load(ADD), "times_scale");
    let data = sim.upload(&[1_u32]);
    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    let status = sim.launch(add, [1, 1], sim.stream(0), &mut [data]);
    assert_eq!(status, R::CUDA_ERROR_INVALID_HANDLE);
    let status = sim.launch(add, [1, 1], ptr::null_mut(), &mut [data]);
    assert_eq!(status, R::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn attributes_are_obeyed_or_refused() {
    let sim = test_device(Builder::new());
    let scale = sim.function(sim.load(ADD), "times_scale");
    let mut data = sim.upload(&[5_u32]);
    let mut launch = |id, set: fn(&mut CUlaunchAttribute), grid: u32| {
        // SAFETY: all fields are integers, pointers, or a union of these.
        let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = id;
        set(&mut attribute);
        // SAFETY: all fields are integers or pointers.
        let mut config: CUlaunchConfig = unsafe { std::mem::zeroed() };
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (grid, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (1, 1, 1);
        (config.attrs, config.numAttrs) = (&raw mut attribute, 1);
        let mut params: [*mut c_void; 1] = [(&raw mut data).cast()];
        let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
        unsafe { sim.cuLaunchKernelEx(&raw const config, scale, params, none) }
    };
    type A = CUlaunchAttributeID;
    let cooperative: fn(&mut CUlaunchAttribute) = |attribute| attribute.value.cooperative = 1;
    ok(launch(A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative, 1));
    // 16 multiprocessors of at most 32 blocks.
    let status = launch(A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative, 16 * 32 + 1);
    assert_eq!(status, R::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    let cluster: fn(&mut CUlaunchAttribute) = |attribute| {
        attribute.value.clusterDim =
            cuda_sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: 2, y: 1, z: 1 };
    };
    let status = launch(A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, cluster, 3);
    assert_eq!(status, R::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    ok(launch(
        A::CU_LAUNCH_ATTRIBUTE_PRIORITY,
        |attribute| attribute.value.priority = -1,
        1,
    ));
    let status = launch(A::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, |_| {}, 1);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
    let status = launch(CUlaunchAttributeID(1000), |_| {}, 1);
    assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(sim.download::<u32>(data, 1), [5 * 3 * 3]);
}
