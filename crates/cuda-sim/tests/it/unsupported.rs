//! Instructions that the PTX manual or the software device does not have, and kernels without end.

use std::ffi::CString;
use std::ptr;

use cuda_sim::{Builder, CUresult as R, ReportKind};

use crate::support::{FAULT_KERNELS, TestDevice, ok, test_device};

/// `tcgen05` in a branch that no thread takes, in a function that is called, and in one that may be
/// called.
const KERNELS: &str = ".version 8.0
.target sm_90a
.address_size 64
.func fenced() { tcgen05.wait::ld.sync.aligned; ret; }
.visible .entry direct(.param .u64 out) {
    .reg .pred %p; .reg .u32 %t;
    mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 1000;
    @%p tcgen05.wait::ld.sync.aligned;
    ret;
}
.visible .entry caller(.param .u64 out) { call fenced; ret; }
.visible .entry indirect(.param .u64 out) {
    .reg .u64 %f, %o; .reg .u32 %t; .reg .pred %p;
    mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 1000; mov.u64 %f, fenced;
    prototype: .callprototype _ ();
    @%p call %f, (), prototype;
    ld.param.u64 %o, [out]; st.global.u32 [%o], 7; ret;
}
.visible .entry fine(.param .u64 out) {
    .reg .u64 %o; ld.param.u64 %o, [out]; st.global.u32 [%o], 7; ret;
}
";

fn launch(sim: &TestDevice, kernel: &str, out: u64) -> R {
    let function = sim.function(sim.load(KERNELS), kernel);
    sim.launch(function, [1, 1], ptr::null_mut(), &mut [out])
}

#[test]
fn a_kernel_with_an_unimplemented_instruction_is_not_launched() {
    let sim = test_device(Builder::new());
    let out = sim.upload(&[0_u32]);
    for (kernel, line) in [("direct", 8), ("caller", 4)] {
        assert_eq!(launch(&sim, kernel, out), R::CUDA_ERROR_NOT_SUPPORTED);
        let reports = sim.simulator.take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!(reports[0].kind, ReportKind::Unsupported);
        assert_eq!(
            reports[0].to_string(),
            format!(
                "kernel `{kernel}`: the software device does not implement \
                 `tcgen05.wait::ld.sync.aligned`; the kernel was not launched (PTX line {line})"
            )
        );
    }
    // Other kernels of the module run, and so does one that does not call the function.
    for kernel in ["fine", "indirect"] {
        ok(launch(&sim, kernel, out));
        ok(sim.sync());
        assert_eq!(sim.download::<u32>(out, 1), [7], "{kernel}");
    }
    assert_eq!(sim.simulator.take_reports(), []);
}

#[test]
fn an_instruction_outside_of_the_manual_fails_to_load() {
    let sim = test_device(Builder::new());
    let text = KERNELS.replace("tcgen05.wait", "frobnicate.wait");
    let text = CString::new(text).unwrap();
    let mut module = ptr::null_mut();
    let status = unsafe { sim.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_PTX);
}

#[test]
fn strict_loading_refuses_what_is_not_implemented() {
    let sim = test_device(Builder::new().strict_ptx(true));
    let text = CString::new(KERNELS).unwrap();
    let mut module = ptr::null_mut();
    let status = unsafe { sim.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_PTX);
}

/// Each thread of a block counts to `n`.
const COUNT: &str = ".version 7.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 n) {
    .reg .u64 %i, %n; .reg .pred %p;
    ld.param.u64 %n, [n]; mov.u64 %i, 0;
again: add.u64 %i, %i, 1; setp.lt.u64 %p, %i, %n; @%p bra again;
    ret;
}
";

#[test]
fn the_limit_counts_the_instructions_of_each_block() {
    let run = |builder: Builder, blocks: u32, count: u64| {
        let sim = test_device(builder);
        let function = sim.function(sim.load(COUNT), "count");
        ok(sim.launch(function, [blocks, 32], ptr::null_mut(), &mut [count]));
        (sim.sync(), sim.simulator.fault(0))
    };
    // A block of one warp executes three instructions for each step.
    let limited = || Builder::new().instruction_limit(30_000);
    assert_eq!(run(limited(), 100, 9_000), (R::CUDA_SUCCESS, None));
    let (status, fault) = run(limited(), 1, 11_000);
    assert_eq!(status, R::CUDA_ERROR_LAUNCH_TIMEOUT);
    let fault = fault.unwrap();
    for part in [
        "kernel `count`",
        "30000 instructions",
        "Builder::instruction_limit",
        "CUDA_SIM=limit=",
        "Builder::without_instruction_limit",
    ] {
        assert!(fault.contains(part), "{fault}");
    }
    let unlimited = limited().without_instruction_limit();
    assert_eq!(run(unlimited, 1, 11_000), (R::CUDA_SUCCESS, None));
}

#[test]
fn the_environment_sets_the_limit() {
    let spin = |settings: &str| {
        let sim = test_device(settings.parse().unwrap());
        let flag = sim.upload(&[0_u32]);
        let spin = sim.function(sim.load(FAULT_KERNELS), "spin");
        ok(sim.launch(spin, [1, 1], ptr::null_mut(), &mut [flag]));
        sim.sync()
    };
    assert_eq!(spin("limit=100000"), R::CUDA_ERROR_LAUNCH_TIMEOUT);
    assert!("limit=few".parse::<Builder>().is_err());
    let text = format!("{:?}", "limit=off".parse::<Builder>().unwrap());
    assert!(text.contains("instruction_limit: None"), "{text}");
}
