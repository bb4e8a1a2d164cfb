//! Shared memory: the needs of kernels, and the memory that remains for the launch.

use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{CUfunction, CUfunction_attribute, CUresult};

use crate::support::{TestDevice, ok, test_device};

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// Launches one thread with `dynamic` bytes of dynamic shared memory.
fn launch_with(sim: &TestDevice, function: CUfunction, dynamic: u32, out: u64) -> CUresult {
    let mut out = out;
    let mut params = [(&raw mut out).cast()];
    let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
    let stream = ptr::null_mut();
    unsafe { sim.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, dynamic, stream, params, none) }
}

/// A block of an H200 can opt into 227 KiB, the sum of static and dynamic memory here.
#[test]
fn a_block_can_use_all_shared_memory() {
    let sim = test_device(Builder::new());
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
    let kernel = sim.function(sim.load(&text), "k");
    let limit = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    unsafe { ok(sim.cuFuncSetAttribute(kernel, limit, 232_448 - 4)) };
    let out = sim.upload(&[0_u32]);
    ok(launch_with(&sim, kernel, 232_448 - 4, out));
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 1), [16]);
    let status = launch_with(&sim, kernel, 232_448, out);
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_VALUE);
    ok(sim.sync());
}

#[test]
fn dynamic_shared_memory_is_aligned_as_a_kernel_asks() {
    let sim = test_device(Builder::new());
    let text = format!(
        "{HEAD}.extern .shared .align 128 .b8 tail[];
         .visible .entry k(.param .u64 out) {{
           .shared .align 8 .b8 bar[8];
           .reg .b32 %r<4>; .reg .b64 %rd<2>;
           ld.param.u64 %rd1, [out];
           mov.u32 %r1, tail; mov.u32 %r2, bar; sub.u32 %r1, %r1, %r2;
           st.global.u32 [%rd1], %r1;
           ret; }}"
    );
    let kernel = sim.function(sim.load(&text), "k");
    let out = sim.upload(&[0_u32]);
    ok(launch_with(&sim, kernel, 256, out));
    ok(sim.sync());
    assert_eq!(sim.download::<u32>(out, 1), [128]);
    assert_eq!(static_bytes(&sim, kernel), 8);
}

fn static_bytes(sim: &TestDevice, function: CUfunction) -> i32 {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    let mut value = -1;
    unsafe { ok(sim.cuFuncGetAttribute(&raw mut value, attribute, function)) };
    value
}

/// Two functions that each have a variable `s`, and a kernel for each way to call them.
const REACH: &str = "
    .shared .align 4 .b8 big[40000];
    .shared .align 4 .b8 small[8];
    .func put_a(.reg .b32 v) {
      .shared .align 8 .b8 s[16];
      .reg .b32 %r<2>;
      st.shared.u32 [s], v; add.u32 %r1, v, 1; st.shared.u32 [s+12], %r1; ret; }
    .func (.reg .b32 sum) get_a() { .reg .b32 %r<3>; ld.shared.u32 sum, [small]; ret; }
    .func put_b(.reg .b32 v) {
      .shared .align 4 .b8 s[1000];
      st.shared.u32 [s], v; st.shared.u32 [s+996], v; st.shared.u32 [small], v; ret; }
    .visible .entry none() { ret; }
    .visible .entry a() { .reg .b32 %r<2>; mov.u32 %r1, 5; call put_a, (%r1); ret; }
    .visible .entry b() { .reg .b32 %r<2>; mov.u32 %r1, 7; call put_b, (%r1); ret; }
    .visible .entry large() { .reg .b32 %r<2>; mov.u32 %r1, big; st.shared.u32 [big+39996], %r1; ret; }
    .visible .entry both(.param .u64 out) {
      .shared .align 4 .b8 mine[4];
      .reg .b32 %r<9>; .reg .b64 %rd<2>;
      ld.param.u64 %rd1, [out];
      mov.u32 %r1, 1; st.shared.u32 [mine], %r1;
      mov.u32 %r1, 7; call put_b, (%r1);
      mov.u32 %r1, 5; call put_a, (%r1);
      call (%r2), get_a, ();
      ld.shared.u32 %r3, [mine]; ld.shared.u32 %r4, [small];
      st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+4], %r3; st.global.u32 [%rd1+8], %r4;
      ret; }";

/// CUDA's linker allocates for a kernel its own variables and those of the functions that it can
/// call.
#[test]
fn a_kernel_pays_for_the_shared_memory_that_it_reaches() {
    let sim = test_device(Builder::new());
    let module = sim.load(&format!("{HEAD}{REACH}"));
    let bytes = |name| static_bytes(&sim, sim.function(module, name));
    assert_eq!(
        ["none", "a", "b", "large"].map(bytes),
        [0, 16, 1008, 40_000]
    );
    // 4, 8, 16 and 1000 bytes, and at most 4 to align the 16 bytes to a multiple of 8.
    let both = bytes("both");
    assert!((1028..=1032).contains(&both), "{both}");
    let out = sim.upload(&[0_u32; 3]);
    let both = sim.function(module, "both");
    ok(sim.launch(both, [1, 1], ptr::null_mut(), &mut [out]));
    assert_eq!(sim.download::<u32>(out, 3), [7, 1, 7]);
    for name in ["a", "b", "large"] {
        let function = sim.function(module, name);
        ok(sim.launch(function, [1, 1], ptr::null_mut(), &mut []));
        ok(sim.sync());
    }
}

/// The variable of a function differs from the variables of the same name in another function and
/// in the module.
#[test]
fn a_shared_variable_is_local_to_its_function() {
    let sim = test_device(Builder::new());
    let text = format!(
        "{HEAD}.global .align 4 .u32 s = 11;
         .func (.reg .b32 old) one(.reg .b32 v) {{
           .shared .align 4 .u32 s;
           ld.shared.u32 old, [s]; st.shared.u32 [s], v; ret; }}
         .func (.reg .b32 old) two(.reg .b32 v) {{
           .shared .align 4 .u32 s;
           ld.shared.u32 old, [s]; st.shared.u32 [s], v; ret; }}
         .func (.reg .b32 value) three() {{ ld.global.u32 value, [s]; ret; }}
         .visible .entry k(.param .u64 out) {{
           .reg .b32 %r<6>; .reg .b64 %rd<2>;
           ld.param.u64 %rd1, [out];
           mov.u32 %r1, 1; call (%r5), one, (%r1);
           mov.u32 %r1, 2; call (%r5), two, (%r1);
           mov.u32 %r1, 3; call (%r2), one, (%r1);
           mov.u32 %r1, 4; call (%r3), two, (%r1);
           call (%r4), three, ();
           st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+4], %r3; st.global.u32 [%rd1+8], %r4;
           ret; }}"
    );
    let kernel = sim.function(sim.load(&text), "k");
    let out = sim.upload(&[0_u32; 3]);
    ok(sim.launch(kernel, [1, 1], ptr::null_mut(), &mut [out]));
    assert_eq!(sim.download::<u32>(out, 3), [1, 2, 11]);
}

/// PTX can call functions only.
#[test]
fn a_kernel_is_not_called() {
    let sim = test_device(Builder::new());
    let text = format!(
        "{HEAD}.visible .entry inner() {{ ret; }}
         .visible .entry outer() {{ call inner; ret; }}\0"
    );
    let mut module = ptr::null_mut();
    let status = unsafe { sim.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_PTX);

    let text = format!(
        "{HEAD}.visible .entry inner() {{ ret; }}
         .visible .entry outer() {{
           .reg .b64 %rd<2>;
           proto: .callprototype _ ();
           mov.u64 %rd1, inner; call %rd1, (), proto; ret; }}"
    );
    let outer = sim.function(sim.load(&text), "outer");
    ok(sim.launch(outer, [1, 1], ptr::null_mut(), &mut []));
    assert_eq!(sim.sync(), CUresult::CUDA_ERROR_INVALID_PC);
}

/// A call through a register may reach any function of the module, but no kernel.
#[test]
fn an_indirect_call_reaches_the_variables_of_all_functions() {
    let sim = test_device(Builder::new());
    let text = format!(
        "{HEAD}.func (.reg .b32 value) one() {{
           .shared .align 4 .b8 s[12];
           mov.u32 value, 3; st.shared.u32 [s+8], value; ld.shared.u32 value, [s+8]; ret; }}
         .func (.reg .b32 value) two() {{
           .shared .align 4 .b8 s[20];
           mov.u32 value, 4; st.shared.u32 [s+16], value; ld.shared.u32 value, [s+16]; ret; }}
         .visible .entry other() {{ .shared .align 4 .b8 mine[400]; ret; }}
         .visible .entry k(.param .u64 out) {{
           .reg .b32 %r<3>; .reg .b64 %rd<4>;
           proto: .callprototype (.reg .b32 _) _ ();
           ld.param.u64 %rd1, [out];
           mov.u64 %rd2, one; call (%r1), %rd2, (), proto;
           mov.u64 %rd3, two; call (%r2), %rd3, (), proto;
           st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; ret; }}"
    );
    let module = sim.load(&text);
    let kernel = sim.function(module, "k");
    assert_eq!(static_bytes(&sim, kernel), 32);
    let out = sim.upload(&[0_u32; 2]);
    ok(sim.launch(kernel, [1, 1], ptr::null_mut(), &mut [out]));
    assert_eq!(sim.download::<u32>(out, 2), [3, 4]);
}
