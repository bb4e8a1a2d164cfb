//! The device runtime library as a link input: grid synchronization through its functions.

use std::ffi::{CString, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{CUjitInputType, CUlinkState};

use crate::support::{TestDevice, ok, test_device};

/// Block `b` stores `b + 1`; after the barrier each block stores the sum of all.
const SUMS: &str = "
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.visible .entry sums(.param .u64 parts, .param .u64 out)
{
    .reg .b64 %parts, %out, %at, %handle; .reg .b32 %b, %n, %v, %sum, %i, %status; .reg .pred %p;
    ld.param.u64 %parts, [parts]; ld.param.u64 %out, [out];
    mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x;
    add.u32 %v, %b, 1;
    mad.wide.u32 %at, %b, 4, %parts;
    st.global.u32 [%at], %v;
    {
        .param .b32 p0; .param .b64 r0;
        st.param.b32 [p0], 1;
        call.uni (r0), cudaCGGetIntrinsicHandle, (p0);
        ld.param.b64 %handle, [r0];
    }
    mov.u32 %i, 0;
again:
    {
        .param .b64 p0; .param .b32 p1; .param .b32 r0;
        st.param.b64 [p0], %handle; st.param.b32 [p1], 0;
        call.uni (r0), cudaCGSynchronize, (p0, p1);
        ld.param.b32 %status, [r0];
    }
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 3; @%p bra again;
    mov.u32 %sum, %status; mul.lo.u32 %sum, %sum, 1000; mov.u32 %i, 0;
more:
    mad.wide.u32 %at, %i, 4, %parts;
    ld.volatile.global.u32 %v, [%at];
    add.u32 %sum, %sum, %v;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra more;
    mad.wide.u32 %at, %b, 4, %out;
    st.global.u32 [%at], %sum;
    ret;
}
\0";

/// Adds an archive of this name to a link; returns the status.
fn add_archive(sim: &TestDevice, state: CUlinkState, name: &str) -> R {
    let name = CString::new(name).unwrap();
    let mut data = *b"!<arch>\nmachine code";
    unsafe {
        sim.cuLinkAddData_v2(
            state,
            CUjitInputType::CU_JIT_INPUT_LIBRARY,
            data.as_mut_ptr().cast::<c_void>(),
            data.len(),
            name.as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    }
}

#[test]
fn a_grid_synchronizes_through_the_device_runtime() {
    let sim = test_device(Builder::new());
    let mut state = ptr::null_mut();
    let (mut image, mut size, mut module) = (ptr::null_mut(), 0, ptr::null_mut());
    unsafe {
        ok(sim.cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &raw mut state));
        ok(sim.cuLinkAddData_v2(
            state,
            CUjitInputType::CU_JIT_INPUT_PTX,
            SUMS.as_ptr().cast_mut().cast(),
            SUMS.len(),
            c"sums".as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        ));
        ok(add_archive(&sim, state, "/usr/lib/libcudadevrt.a"));
        ok(sim.cuLinkComplete(state, &raw mut image, &raw mut size));
        ok(sim.cuModuleLoadData(&raw mut module, image));
    }
    let sums = sim.function(module, "sums");
    let (parts, out) = (sim.upload(&[0_u32; 6]), sim.upload(&[0_u32; 6]));
    let mut params = [parts, out];
    let mut pointers = params
        .each_mut()
        .map(|param| ptr::from_mut(param).cast::<c_void>());
    let stream = ptr::null_mut();
    let list = pointers.as_mut_ptr();
    unsafe { ok(sim.cuLaunchCooperativeKernel(sums, 6, 1, 1, 33, 1, 1, 0, stream, list)) };
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 6), [21; 6]);
    // A launch that is not cooperative has no handle, and synchronizing returns an error.
    ok(sim.launch(sums, [1, 1], stream, &mut [parts, out]));
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 1), [1001]);
}

#[test]
fn other_archives_are_refused_by_name() {
    let sim = test_device(Builder::new());
    let mut state = ptr::null_mut();
    unsafe { ok(sim.cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &raw mut state)) };
    let status = add_archive(&sim, state, "libcublas_device.a");
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
}
