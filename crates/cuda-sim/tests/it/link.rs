//! Symbols that two linked modules define. The expected results follow the PTX manual on
//! `.visible`, `.weak` and `.common`, and linkers of ELF files where it is silent.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cuda_sim::Builder;
use cuda_sys::{CUjit_option, CUjitInputType, CUmodule, CUresult};

use crate::support::{TestDevice, ok, test_device};

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// Links texts and passes the image to `take`, after which it is freed.
fn linked<T>(
    sim: &TestDevice,
    texts: &[&str],
    take: impl FnOnce(*const c_void) -> T,
) -> Result<T, CUresult> {
    let inputs = texts.iter().map(|text| format!("{HEAD}{text}"));
    linked_inputs(sim, CUjitInputType::CU_JIT_INPUT_PTX, inputs, take)
}

/// Links inputs of one kind.
fn linked_inputs<T>(
    sim: &TestDevice,
    kind: CUjitInputType,
    inputs: impl Iterator<Item = String>,
    take: impl FnOnce(*const c_void) -> T,
) -> Result<T, CUresult> {
    let mut state = ptr::null_mut();
    let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
    unsafe { ok(sim.cuLinkCreate_v2(0, none, nothing, &raw mut state)) };
    for text in inputs {
        let text = CString::new(text).unwrap();
        let (data, size) = (
            text.as_ptr().cast_mut().cast(),
            text.as_bytes_with_nul().len(),
        );
        let name = c"part".as_ptr();
        let status =
            unsafe { sim.cuLinkAddData_v2(state, kind, data, size, name, 0, none, nothing) };
        if status != CUresult::CUDA_SUCCESS {
            unsafe { ok(sim.cuLinkDestroy(state)) };
            return Err(status);
        }
    }
    let (mut image, mut size) = (ptr::null_mut(), 0);
    let status = unsafe { sim.cuLinkComplete(state, &raw mut image, &raw mut size) };
    let result = match status {
        CUresult::CUDA_SUCCESS => Ok(take(image.cast_const())),
        status => Err(status),
    };
    unsafe { ok(sim.cuLinkDestroy(state)) };
    result
}

fn load_image(sim: &TestDevice, image: *const c_void) -> CUmodule {
    let mut module = ptr::null_mut();
    unsafe { ok(sim.cuModuleLoadData(&raw mut module, image)) };
    module
}

fn load(sim: &TestDevice, texts: &[&str]) -> CUmodule {
    linked(sim, texts, |image| load_image(sim, image)).unwrap()
}

/// The words of a variable.
fn words(sim: &TestDevice, module: CUmodule, name: &str) -> Vec<u32> {
    let name = CString::new(name).unwrap();
    let (mut addr, mut size) = (0, 0);
    unsafe { ok(sim.cuModuleGetGlobal_v2(&raw mut addr, &raw mut size, module, name.as_ptr())) };
    sim.download(addr, size / 4)
}

/// The word that a kernel stores.
fn stored_word(sim: &TestDevice, module: CUmodule, kernel: &str) -> u32 {
    let out = sim.upload(&[0_u32]);
    let kernel = sim.function(module, kernel);
    ok(sim.launch(kernel, [1, 1], ptr::null_mut(), &mut [out]));
    sim.download::<u32>(out, 1)[0]
}

/// PTX of a kernel that stores the variable `x`.
fn reader(name: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 out) {{
           .reg .b32 %r<2>; .reg .b64 %rd<2>;
           ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [x]; st.global.u32 [%rd1], %r1; ret; }}"
    )
}

/// PTX of a kernel that stores the result of `f`.
fn caller(linkage: &str, name: &str) -> String {
    format!(
        "{linkage} .entry {name}(.param .u64 out) {{
           .reg .b32 %r<2>; .reg .b64 %rd<2>;
           ld.param.u64 %rd1, [out]; call (%r1), f, (); st.global.u32 [%rd1], %r1; ret; }}"
    )
}

fn free_bytes(sim: &TestDevice) -> usize {
    let (mut free, mut all) = (0, 0);
    unsafe { ok(sim.cuMemGetInfo_v2(&raw mut free, &raw mut all)) };
    free
}

#[test]
fn a_visible_variable_overrides_a_weak_one() {
    let sim = test_device(Builder::new());
    let visible = format!(".visible .global .align 4 .u32 x = 1; {}", reader("a"));
    let weak = format!(".weak .global .align 4 .u32 x = 2; {}", reader("b"));
    let declared = format!(".extern .global .align 4 .u32 x; {}", reader("c"));
    for texts in [
        [&visible, &weak, &declared],
        [&weak, &visible, &declared],
        [&declared, &weak, &visible],
    ] {
        let module = load(&sim, &texts.map(String::as_str));
        assert_eq!(words(&sim, module, "x"), [1]);
        assert_eq!(
            ["a", "b", "c"].map(|k| stored_word(&sim, module, k)),
            [1; 3]
        );
    }
    // Of several weak definitions, the first one is used.
    let other = format!(".weak .global .align 4 .u32 x = 3; {}", reader("a"));
    let module = load(&sim, &[&weak, &other, &declared]);
    assert_eq!(words(&sim, module, "x"), [2]);
    assert_eq!(
        ["a", "b", "c"].map(|k| stored_word(&sim, module, k)),
        [2; 3]
    );
}

#[test]
fn ptx_in_place_of_machine_code_is_linked() {
    let sim = test_device(Builder::new());
    let texts = [
        format!("{HEAD}.visible .global .align 4 .u32 x = 5;"),
        format!("{HEAD}.extern .global .align 4 .u32 x; {}", reader("a")),
    ];
    let as_cubin = |texts: Vec<String>| {
        let kind = CUjitInputType::CU_JIT_INPUT_CUBIN;
        linked_inputs(&sim, kind, texts.into_iter(), |image| {
            load_image(&sim, image)
        })
    };
    let wrapped = texts
        .each_ref()
        .map(|text| format!("cuda-sim PTX in place of machine code\n{text}"));
    let module = as_cubin(wrapped.to_vec()).unwrap();
    assert_eq!(stored_word(&sim, module, "a"), 5);
    // PTX without the line is not machine code.
    assert_eq!(
        as_cubin(texts.to_vec()),
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    );
}

#[test]
fn local_variable_does_not_hide_a_visible_one() {
    let sim = test_device(Builder::new());
    let own = format!(".global .align 4 .u32 x = 4; {}", reader("a"));
    let visible = format!(".visible .global .align 4 .u32 x = 1; {}", reader("b"));
    let module = load(&sim, &[&own, &visible]);
    assert_eq!(["a", "b"].map(|k| stored_word(&sim, module, k)), [4, 1]);
    assert_eq!(words(&sim, module, "x"), [1]);
}

#[test]
fn an_overridden_variable_takes_no_memory() {
    let sim = test_device(Builder::new());
    let visible = ".visible .global .align 4 .b8 x[4];";
    let weak = ".weak .global .align 4 .b8 x[64000000];";
    let before = free_bytes(&sim);
    load(&sim, &[visible, weak]);
    let taken = before - free_bytes(&sim);
    assert!(taken < 32_000_000, "{taken}");
}

#[test]
fn a_visible_function_overrides_a_weak_one() {
    let sim = test_device(Builder::new());
    let f = |linkage: &str, value: u32, name: &str| {
        format!(
            "{linkage} .func (.reg .b32 value) f() {{ mov.u32 value, {value}; ret; }} {}",
            caller(".visible", name)
        )
    };
    let (visible, weak) = (f(".visible", 1, "a"), f(".weak", 2, "b"));
    for texts in [[&visible, &weak], [&weak, &visible]] {
        let module = load(&sim, &texts.map(String::as_str));
        assert_eq!(["a", "b"].map(|k| stored_word(&sim, module, k)), [1, 1]);
    }
    let module = load(&sim, &[&weak, &f(".weak", 3, "c")]);
    assert_eq!(["b", "c"].map(|k| stored_word(&sim, module, k)), [2, 2]);
}

#[test]
fn a_weak_kernel_of_two_modules_is_one() {
    let sim = test_device(Builder::new());
    let k = |value: u32| {
        format!(
            ".func (.reg .b32 value) f() {{ mov.u32 value, {value}; ret; }} {}",
            caller(".weak", "k")
        )
    };
    let texts = [k(5), k(6)];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let module = load(&sim, &texts);
    let mut count = 0;
    unsafe { ok(sim.cuModuleGetFunctionCount(&raw mut count, module)) };
    assert_eq!(count, 1);
    assert_eq!(stored_word(&sim, module, "k"), 5);
    let count = linked(&sim, &texts, |image| {
        let library = sim.load_library(image);
        let mut count = 0;
        unsafe { ok(sim.cuLibraryGetKernelCount(&raw mut count, library)) };
        let mut kernels = [ptr::null_mut(); 2];
        unsafe { ok(sim.cuLibraryEnumerateKernels(kernels.as_mut_ptr(), 2, library)) };
        assert_eq!(kernels.map(|kernel| kernel.is_null()), [false, true]);
        count
    });
    assert_eq!(count.unwrap(), 1);
}

/// "Multiple object files may declare the same common symbol and they may have different types and
/// sizes and references to a symbol get resolved against a common symbol with the largest size."
#[test]
fn a_common_variable_is_one_of_the_largest_size() {
    let sim = test_device(Builder::new());
    let small = format!(".common .global .align 4 .b8 x[4]; {}", reader("a"));
    let large = format!(".common .global .align 8 .u32 x[3]; {}", reader("b"));
    let set = format!(
        ".common .global .align 4 .u32 x[4] = {{7, 8, 9}}; {}",
        reader("c")
    );
    for texts in [[&small, &large], [&large, &small]] {
        let module = load(&sim, &texts.map(String::as_str));
        assert_eq!(words(&sim, module, "x"), [0; 3]);
    }
    for texts in [[&small, &large, &set], [&set, &small, &large]] {
        let module = load(&sim, &texts.map(String::as_str));
        assert_eq!(words(&sim, module, "x"), [7, 8, 9, 0]);
        assert_eq!(
            ["a", "b", "c"].map(|k| stored_word(&sim, module, k)),
            [7; 3]
        );
    }
    // Only one common symbol may be initialized, and a visible one must be the only one.
    let clash = linked(
        &sim,
        &[&set, ".common .global .align 4 .u32 x[4] = {1};"],
        |_| (),
    );
    assert!(clash.is_err());
    let module = load(
        &sim,
        &[&small, ".visible .global .align 4 .u32 x[2] = {3, 4};"],
    );
    assert_eq!(words(&sim, module, "x"), [3, 4]);
    assert_eq!(stored_word(&sim, module, "a"), 3);
}

/// NVIDIA's tests of cuda-core expect this text.
#[test]
fn the_error_log_of_a_link_ends_without_a_newline() {
    let sim = test_device(Builder::new());
    let mut log = [b'x'; 200];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(log.len()),
    ];
    let text = CString::new(format!(
        "{HEAD}.extern .func f(); .extern .func g();
         .visible .entry k() {{ call f; call g; ret; }}"
    ));
    let text = text.unwrap();
    let (data, size) = (
        text.as_ptr().cast_mut().cast(),
        text.as_bytes_with_nul().len(),
    );
    let (mut state, mut image) = (ptr::null_mut(), ptr::null_mut());
    let none = ptr::null_mut();
    let sort = CUjitInputType::CU_JIT_INPUT_PTX;
    unsafe {
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        ok(sim.cuLinkCreate_v2(2, options, values, &raw mut state));
        let name = c"part".as_ptr();
        let added = sim.cuLinkAddData_v2(state, sort, data, size, name, 0, none, none.cast());
        ok(added);
        let status = sim.cuLinkComplete(state, &raw mut image, ptr::null_mut());
        assert_eq!(status, CUresult::CUDA_ERROR_UNKNOWN);
        ok(sim.cuLinkDestroy(state));
    }
    let text = CStr::from_bytes_until_nul(&log).unwrap();
    let lines =
        ["f", "g"].map(|name| format!("error   : Undefined reference to '{name}' in 'part'"));
    assert_eq!(text.to_str().unwrap(), lines.join("\n"));
}
