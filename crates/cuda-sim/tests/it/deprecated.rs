//! Deprecated calls that older programs still make.

use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{CUfunction_attribute, CUjit_option};

use crate::support::{ADD, late, ok, test_device};

#[test]
fn a_kernel_is_launched_by_parameters_set_one_by_one() {
    let sim = test_device(Builder::new());
    let n = 40_u32;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (da, db, out) = (sim.upload(&a), sim.upload(&a), sim.upload(&[0.0_f32; 40]));
    let add = sim.function(sim.load(ADD), "add");
    unsafe {
        ok(sim.cuFuncSetBlockShape(add, 8, 1, 1));
        ok(sim.cuFuncSetSharedSize(add, 16));
        for (index, mut address) in [da, db, out].into_iter().enumerate() {
            let place = ptr::from_mut(&mut address).cast::<c_void>();
            ok(sim.cuParamSetv(add, index as i32 * 8, place, 8));
        }
        ok(sim.cuParamSeti(add, 24, n));
        // Nothing states yet that the parameters are complete.
        assert_eq!(sim.cuLaunchGrid(add, 5, 1), R::CUDA_ERROR_INVALID_VALUE);
        ok(sim.cuParamSetSize(add, 32));
        ok(sim.cuLaunchGrid(add, 5, 1));
        ok(sim.sync());
        let twice: Vec<f32> = a.iter().map(|value| value + value).collect();
        assert_eq!(sim.download::<f32>(out, 40), twice);
        ok(sim.cuMemsetD8_v2(out, 0, 160));
        let stream = sim.stream(0);
        ok(sim.cuParamSeti(add, 24, 8));
        ok(sim.cuLaunchGridAsync(add, 5, 1, stream));
        ok(sim.cuStreamSynchronize(stream));
        assert_eq!(sim.download::<f32>(out, 9), [&twice[..8], &[0.0]].concat());
        ok(sim.cuMemsetD8_v2(out, 0, 160));
        ok(sim.cuLaunch(add));
        ok(sim.sync());
        assert_eq!(sim.download::<f32>(out, 8), twice[..8]);
        // A float parameter has the bits of the float.
        ok(sim.cuParamSetf(add, 24, f32::from_bits(3)));
        ok(sim.cuMemsetD8_v2(out, 0, 160));
        ok(sim.cuLaunch(add));
        ok(sim.sync());
        assert_eq!(sim.download::<f32>(out, 4), [0.0, 2.0, 4.0, 0.0]);
    }
}

#[test]
fn deprecated_launch_calls_refuse_bad_values() {
    let sim = test_device(Builder::new());
    let add = sim.function(sim.load(ADD), "add");
    let bad = R::CUDA_ERROR_INVALID_VALUE;
    unsafe {
        assert_eq!(sim.cuFuncSetBlockShape(add, 0, 1, 1), bad);
        assert_eq!(sim.cuFuncSetBlockShape(add, -1, 1, 1), bad);
        assert_eq!(sim.cuParamSeti(add, -1, 0), bad);
        assert_eq!(sim.cuParamSeti(add, 30, 0), bad);
        assert_eq!(sim.cuParamSetf(add, i32::MAX, 0.0), bad);
        assert_eq!(sim.cuParamSetv(add, 0, ptr::null_mut(), 4), bad);
        assert_eq!(sim.cuParamSetSize(add, 1000), bad);
        ok(sim.cuParamSetSize(add, 32));
        // The shape of a block was never set.
        assert_eq!(sim.cuLaunch(add), bad);
        ok(sim.cuFuncSetBlockShape(add, 2048, 1, 1));
        assert_eq!(sim.cuLaunchGrid(add, 1, 1), bad);
    }
}

#[test]
fn detaching_destroys_a_context_after_the_last_user() {
    let sim = test_device(Builder::new());
    let (mut made, mut same) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        ok(sim.cuCtxCreate_v2(&raw mut made, 0, 0));
        assert_eq!(
            sim.cuCtxAttach(&raw mut same, 1),
            R::CUDA_ERROR_INVALID_VALUE
        );
        ok(sim.cuCtxAttach(&raw mut same, 0));
        assert_eq!(same, made);
        assert_eq!(sim.cuCtxDetach(sim.context), R::CUDA_ERROR_INVALID_CONTEXT);
        ok(sim.cuCtxDetach(made));
        let mut current = ptr::null_mut();
        ok(sim.cuCtxGetCurrent(&raw mut current));
        assert_eq!(current, made);
        ok(sim.cuCtxDetach(made));
        assert_eq!(sim.cuCtxSetCurrent(made), R::CUDA_ERROR_INVALID_CONTEXT);
    }
}

#[test]
fn a_register_limit_shows_in_the_attributes() {
    let sim = test_device(Builder::new());
    let sum: String = (0..100)
        .map(|i| format!("mov.u32 %r{i}, %clock;\n"))
        .collect();
    let uses: String = (1..100)
        .map(|i| format!("add.u32 %r0, %r0, %r{i};\n"))
        .collect();
    let text = |directive: &str| {
        format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {directive} {{\n\
             .reg .b32 %r<100>;\n{sum}{uses}\nret;\n}}\0"
        )
    };
    let registers = |text: &str, limit: Option<usize>| {
        let mut module = ptr::null_mut();
        let mut name = CUjit_option::CU_JIT_MAX_REGISTERS;
        let mut value: *mut c_void = ptr::without_provenance_mut(limit.unwrap_or(0));
        let count = u32::from(limit.is_some());
        unsafe {
            ok(sim.cuModuleLoadDataEx(
                &raw mut module,
                text.as_ptr().cast(),
                count,
                &raw mut name,
                &raw mut value,
            ));
            let mut registers = 0;
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
            ok(sim.cuFuncGetAttribute(&raw mut registers, attribute, sim.function(module, "k")));
            registers
        }
    };
    assert!(registers(&text(""), None) > 100);
    assert_eq!(registers(&text(""), Some(0)), registers(&text(""), None));
    assert_eq!(registers(&text(""), Some(32)), 32);
    assert_eq!(registers(&text(".maxnreg 40"), Some(32)), 40);
}

#[test]
fn error_strings_are_those_of_the_driver() {
    let sim = test_device(Builder::new());
    for (code, expected) in [
        (R::CUDA_SUCCESS, c"no error"),
        (R::CUDA_ERROR_INVALID_VALUE, c"invalid argument"),
        (R::CUDA_ERROR_NOT_INITIALIZED, c"initialization error"),
        (R::CUDA_ERROR_INVALID_CONTEXT, c"invalid device context"),
        (
            R::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            c"too many resources requested for launch",
        ),
        (
            R::CUDA_ERROR_ILLEGAL_ADDRESS,
            c"an illegal memory access was encountered",
        ),
    ] {
        let mut text = ptr::null();
        unsafe { ok(sim.cuGetErrorString(code, &raw mut text)) };
        assert_eq!(unsafe { CStr::from_ptr(text) }, expected);
    }
}

#[test]
fn the_time_between_events_includes_waits_of_the_host() {
    let sim = test_device(Builder::new());
    let stream = sim.stream(1);
    let (start, end) = (sim.event(0), sim.event(0));
    unsafe {
        ok(sim.cuEventRecord(start, stream));
        ok(sim.cuEventSynchronize(start));
        std::thread::sleep(std::time::Duration::from_millis(30));
        ok(sim.cuEventRecord(end, stream));
        ok(sim.cuEventSynchronize(end));
        let mut milliseconds = 0.0;
        ok(sim.cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
        assert!(milliseconds >= 29.0, "{milliseconds}");
    }
}

#[test]
fn the_time_between_events_includes_waits_of_the_stream() {
    extern "C" fn nap(_: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    for sim in [test_device(Builder::new()), test_device(late(4))] {
        let (stream, other) = (sim.stream(1), sim.stream(1));
        let (start, done, end) = (sim.event(0), sim.event(0), sim.event(0));
        unsafe {
            ok(sim.cuEventRecord(start, stream));
            ok(sim.cuEventSynchronize(start));
            ok(sim.cuLaunchHostFunc(other, Some(nap), ptr::null_mut()));
            ok(sim.cuEventRecord(done, other));
            ok(sim.cuStreamWaitEvent(stream, done, 0));
            ok(sim.cuEventRecord(end, stream));
            ok(sim.cuEventSynchronize(end));
            let mut milliseconds = 0.0;
            ok(sim.cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
            assert!(milliseconds >= 29.0, "{milliseconds}");
        }
    }
}
