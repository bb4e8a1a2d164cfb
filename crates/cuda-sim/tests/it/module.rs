//! Modules and libraries, and the messages of the compiler.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cuda_sim::{Builder, CUresult};
use cuda_sys::{CUfunction_attribute as F, CUjit_option, CUresult as R};

use crate::support::{ADD, TestDevice, ok, test_device};

/// Loads a module with an error log. Returns the status and the log.
fn load(sim: &TestDevice, image: &CStr) -> (R, String) {
    let mut log = vec![0_u8; 1024];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(log.len()),
    ];
    let mut module = ptr::null_mut();
    let status = unsafe {
        sim.cuModuleLoadDataEx(
            &raw mut module,
            image.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    let text = CStr::from_bytes_until_nul(&log)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(values[1].addr(), text.len(), "{text}");
    (status, text)
}

#[test]
fn invalid_images_are_refused_with_a_log() {
    let sim = test_device(Builder::new());
    let head = ".version 8.0\n.target sm_75\n.address_size 64\n";
    for (image, status, words) in [
        ("garbage".to_owned(), R::CUDA_ERROR_INVALID_IMAGE, "line 1"),
        (String::new(), R::CUDA_ERROR_INVALID_IMAGE, "empty"),
        (
            format!("{head}.visible .entry f() {{ mov.u32"),
            R::CUDA_ERROR_INVALID_PTX,
            "line 4",
        ),
        (
            "\x7fELF...".to_owned(),
            R::CUDA_ERROR_NO_BINARY_FOR_GPU,
            "machine code",
        ),
        (
            ADD.replace("sm_75", "sm_100"),
            R::CUDA_ERROR_INVALID_PTX,
            "sm_100",
        ),
        (
            ADD.replace("sm_75", "sm_1"),
            R::CUDA_ERROR_INVALID_PTX,
            "sm_1",
        ),
        (
            format!("{head}.visible .entry f() {{ .shared .b8 s[232449]; ret; }}"),
            R::CUDA_ERROR_INVALID_PTX,
            "shared data",
        ),
        (
            format!("{head}.const .b8 a[65537];\n.visible .entry f() {{ ret; }}"),
            R::CUDA_ERROR_INVALID_PTX,
            "constant data",
        ),
    ] {
        let (found, log) = load(&sim, &CString::new(image.clone()).unwrap());
        assert_eq!(found, status, "{image:.40}: {log}");
        assert!(log.contains(words), "{log}");
    }
    let (status, log) = load(&sim, &CString::new(ADD).unwrap());
    assert_eq!((status, log.as_str()), (R::CUDA_SUCCESS, ""));
}

#[test]
fn ptx_in_place_of_machine_code_is_loaded() {
    let sim = test_device(Builder::new());
    let image = format!("cuda-sim PTX in place of machine code\n{ADD}");
    let (status, log) = load(&sim, &CString::new(image.as_str()).unwrap());
    assert_eq!((status, log.as_str()), (R::CUDA_SUCCESS, ""));
    // Only as the first line.
    let (status, _) = load(&sim, &CString::new(format!("\n{image}")).unwrap());
    assert_ne!(status, R::CUDA_SUCCESS);
}

#[test]
fn newer_ptx_needs_a_newer_driver() {
    // From the table of release notes in the PTX manual.
    for (version, last, next) in [
        (12000, "8.0", "8.1"),
        (12020, "8.2", "8.3"),
        (12090, "8.8", "9.0"),
        (13000, "9.0", "9.1"),
    ] {
        let sim = test_device(Builder::new().version(version));
        let of = |ptx: &str| CString::new(ADD.replace(".version 8.0", &format!(".version {ptx}")));
        let (status, log) = load(&sim, &of(last).unwrap());
        assert_eq!(status, R::CUDA_SUCCESS, "{version}: {log}");
        let (status, log) = load(&sim, &of(next).unwrap());
        assert_eq!(status, R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "{version}");
        assert!(log.contains(next) && log.contains(last), "{log}");
    }
}

#[test]
fn functions_and_variables_are_found_by_name() {
    let sim = test_device(Builder::new());
    let module = sim.load(ADD);
    let (mut addr, mut size) = (0, 0);
    unsafe {
        ok(sim.cuModuleGetGlobal_v2(&raw mut addr, &raw mut size, module, c"scale".as_ptr()));
    }
    assert_eq!(size, 4);
    assert_eq!(sim.download::<u32>(addr, 1), [3]);
    let mut function = ptr::null_mut();
    for name in [c"missing", c"ADD", c"scale"] {
        let status = unsafe { sim.cuModuleGetFunction(&raw mut function, module, name.as_ptr()) };
        assert_eq!(status, R::CUDA_ERROR_NOT_FOUND, "{name:?}");
    }
    let add = sim.function(module, "add");
    assert_eq!(add, sim.function(module, "add"));
    let mut count = 0;
    unsafe { ok(sim.cuModuleGetFunctionCount(&raw mut count, module)) };
    assert_eq!(count, 2);
    let mut all = [ptr::null_mut(); 2];
    unsafe { ok(sim.cuModuleEnumerateFunctions(all.as_mut_ptr(), 2, module)) };
    assert!(all.contains(&add));
    unsafe { ok(sim.cuModuleUnload(module)) };
    let mut value = 0;
    let attribute = F::CU_FUNC_ATTRIBUTE_NUM_REGS;
    let status = unsafe { sim.cuFuncGetAttribute(&raw mut value, attribute, add) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    let status = unsafe { sim.cuModuleUnload(module) };
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(sim.simulator.live().modules, 0);
}

#[test]
fn function_attributes_report_resource_needs() {
    let sim = test_device(Builder::new());
    let module = sim.load(ADD);
    let (add, scale) = (
        sim.function(module, "add"),
        sim.function(module, "times_scale"),
    );
    let read = |function, attribute| {
        let mut value = -1;
        unsafe { ok(sim.cuFuncGetAttribute(&raw mut value, attribute, function)) };
        value
    };
    assert_eq!(read(add, F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_eq!(read(scale, F::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 256);
    assert_eq!(read(scale, F::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 512);
    assert_eq!(read(add, F::CU_FUNC_ATTRIBUTE_PTX_VERSION), 75);
    assert_eq!(read(add, F::CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
    let limit = F::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(read(scale, limit), (48 << 10) - 512);
    unsafe { ok(sim.cuFuncSetAttribute(scale, limit, 100_000)) };
    assert_eq!(read(scale, limit), 100_000);
    let status = unsafe { sim.cuFuncSetAttribute(scale, limit, (227 << 10) - 511) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
    let mut info = Vec::new();
    for index in 0.. {
        let (mut offset, mut size) = (0, 0);
        let status = unsafe { sim.cuFuncGetParamInfo(add, index, &raw mut offset, &raw mut size) };
        if status == R::CUDA_ERROR_INVALID_VALUE {
            break;
        }
        ok(status);
        info.push((offset, size));
    }
    assert_eq!(info, [(0, 8), (8, 8), (16, 8), (24, 8)]);
    let mut name = ptr::null();
    unsafe { ok(sim.cuFuncGetName(&raw mut name, scale)) };
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"times_scale");
}

/// NVIDIA's tests of cuda-core and cuda-bindings expect these codes.
#[test]
fn parameters_of_a_library_kernel_need_a_context() {
    let sim = test_device(Builder::new());
    let text = CString::new(ADD).unwrap();
    let library = sim.load_library(text.as_ptr().cast());
    let (mut kernel, mut offset) = (ptr::null_mut(), 0);
    unsafe {
        ok(sim.cuLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr()));
        let mut info = || sim.cuKernelGetParamInfo(kernel, 1, &raw mut offset, ptr::null_mut());
        ok(info());
        ok(sim.cuCtxSetCurrent(ptr::null_mut()));
        assert_eq!(info(), R::CUDA_ERROR_INVALID_CONTEXT);
        let mut name = ptr::null();
        ok(sim.cuKernelGetName(&raw mut name, kernel));
        assert_eq!(CStr::from_ptr(name), c"add");
        let status = sim.cuKernelGetName(&raw mut name, ptr::null_mut());
        assert_eq!(status, R::CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(offset, 8);
}

#[test]
fn a_library_serves_every_context() {
    let sim = test_device(Builder::new());
    let text = CString::new(ADD).unwrap();
    let library = sim.load_library(text.as_ptr().cast());
    let mut kernel = ptr::null_mut();
    unsafe { ok(sim.cuLibraryGetKernel(&raw mut kernel, library, c"times_scale".as_ptr())) };
    let run = || {
        let data = sim.upload(&[1_u32, 2, 3, 4]);
        ok(sim.launch(kernel.cast(), [1, 4], ptr::null_mut(), &mut [data]));
        assert_eq!(sim.download::<u32>(data, 4), [3, 6, 9, 12]);
        let (mut addr, mut size) = (0, 0);
        unsafe {
            let name = c"scale".as_ptr();
            ok(sim.cuLibraryGetGlobal(&raw mut addr, &raw mut size, library, name));
        }
        addr
    };
    let first = run();
    let mut other = ptr::null_mut();
    unsafe { ok(sim.cuCtxCreate_v2(&raw mut other, 0, 0)) };
    assert_ne!(run(), first, "each context must have its own variables");
    unsafe { ok(sim.cuLibraryUnload(library)) };
    let status = unsafe { sim.cuLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr()) };
    assert_eq!(status, R::CUDA_ERROR_INVALID_HANDLE);
}

/// Short or empty rows are filled with zeros, as in C; the number of rows determines the first
/// dimension.
#[test]
fn short_rows_of_initial_values_are_filled_up() {
    let sim = test_device(Builder::new());
    for (declaration, expected) in [
        ("x[][3] = {{1}, {2}}", &[1, 0, 0, 2, 0, 0][..]),
        (
            "x[][2][2] = {{{1}, {2, 3}}, {{}, {4}}}",
            &[1, 0, 2, 3, 0, 0, 4, 0],
        ),
        ("x[2][2] = {{}, {5}}", &[0, 0, 5, 0]),
        ("x[] = {7, 8}", &[7, 8]),
    ] {
        let head = ".version 7.0\n.target sm_75\n.address_size 64\n";
        let module = sim.load(&format!("{head}.visible .global .u32 {declaration};"));
        let (mut addr, mut size) = (0, 0);
        let name = c"x".as_ptr();
        unsafe { ok(sim.cuModuleGetGlobal_v2(&raw mut addr, &raw mut size, module, name)) };
        assert_eq!(size, 4 * expected.len(), "{declaration}");
        let found = sim.download::<u32>(addr, size / 4);
        assert_eq!(found, expected, "{declaration}");
    }
}

#[test]
fn arrays_of_any_dimensions_are_loaded_or_refused() {
    let sim = test_device(Builder::new());
    for declaration in [
        "x[][4294967296][4294967296] = {{{1}}}",
        "x[][1099511627776] = {{1}}",
        "x[][100000000] = {{1}}",
        "x[0][4294967296][4294967296] = {{{1}}}",
        "x[][0] = {{1}}",
        "x[2][] = {{1}}",
        // As ptxas, which says "Initial value type mismatch".
        "x[][2] = {1, 2, 3}",
        "x[3] = {{}, 6}",
    ] {
        let text = format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .u32 {declaration};"
        );
        let text = CString::new(text).unwrap();
        let (status, words) = load(&sim, &text);
        assert_eq!(status, R::CUDA_ERROR_INVALID_PTX, "{declaration}: {words}");
    }
}
