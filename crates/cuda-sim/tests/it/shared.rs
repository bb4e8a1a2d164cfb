//! Shared memory: what kernels need of it, and what is left for the launch.

use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{CUfunction, CUfunction_attribute, CUresult};

use crate::support::{Bench, bench, ok};

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// Launches one thread with so many bytes of dynamic shared memory.
fn launch_with(bench: &Bench, function: CUfunction, dynamic: u32, out: u64) -> CUresult {
    let mut out = out;
    let mut params = [(&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    let stream = ptr::null_mut();
    unsafe { bench.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, dynamic, stream, params, none) }
}

/// The H200 has 227 KiB for a block that asks for them, which is what static and dynamic memory come to here.
#[test]
fn a_block_gets_all_the_shared_memory_that_there_is() {
    let bench = bench(Builder::new());
    let text = format!(
        "{HEAD}.extern .shared .align 4 .b8 tail[];
         .visible .entry k(.param .u64 out) {{
           .shared .align 4 .b8 x[4];
           .reg .b32 %r<4>; .reg .b64 %rd<2>;
           ld.param.u64 %rd1, [out];
           mov.u32 %r1, 7; st.shared.u32 [x], %r1;
           mov.u32 %r2, 9; st.shared.u32 [tail+232440], %r2;
           ld.shared.u32 %r3, [x]; add.u32 %r3, %r3, %r2;
           st.global.u32 [%rd1], %r3;
           ret; }}"
    );
    let kernel = bench.function(bench.load(&text), "k");
    let limit = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    unsafe { ok(bench.cuFuncSetAttribute(kernel, limit, 232_448 - 4)) };
    let out = bench.upload(&[0_u32]);
    ok(launch_with(&bench, kernel, 232_448 - 4, out));
    ok(bench.sync());
    assert_eq!(bench.download::<u32>(out, 1), [16]);
    let status = launch_with(&bench, kernel, 232_448, out);
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    ok(bench.sync());
}
