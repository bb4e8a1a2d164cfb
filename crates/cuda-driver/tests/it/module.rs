//! Modules: valid and invalid images, JIT options, and the contents of modules.

use std::ffi::CString;
use std::fs;
use std::io;
use std::ptr;
use std::time::Duration;

use cuda_driver::context::CacheConfig;
use cuda_driver::error::{Error, Status};
use cuda_driver::jit::{
    JitCacheMode, JitFallback, JitOptions, JitTarget, OptimizationLevel, Severity,
};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};
use cuda_sys::CUresult;

use crate::support::{
    COPY, MIX, block, count_calls, everywhere, everywhere_since, has_version, late, new_stream,
    skipped, software,
};
use crate::task::until;

/// How long a worker thread may take to unload a module.
const LIMIT: Duration = Duration::from_secs(20);

const VARIABLES: &str = include_str!("kernels/variables.ptx");

#[test]
fn ptx_that_is_garbage_empty_or_cut_off_is_an_error() {
    for fixture in everywhere() {
        let cut = &MIX[..MIX.find("mul.wide").unwrap()];
        // A character that no PTX has can crash the compiler, so no driver gets it.
        let error =
            Module::load(&fixture.context, &Ptx::new("\u{1F980} {{{").unwrap()).unwrap_err();
        assert!(matches!(error, Error::Ptx(_)), "{error}");
        for text in ["not a PTX text", "", cut] {
            let error = Module::load(&fixture.context, &Ptx::new(text).unwrap()).unwrap_err();
            let Error::Jit(jit) = &error else {
                panic!("{}: {text:?}: {error}", fixture.name)
            };
            assert!(error.to_string().contains("cuModuleLoadDataEx"), "{error}");
            if text == cut {
                assert_eq!(jit.ptx_version(), Some((7, 0)));
            }
        }
        // The device is still usable.
        Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    }
}

/// A cache of a program may hold images that the `nvcc` for the software device wrote.
#[test]
fn no_gpu_loads_ptx_in_place_of_machine_code() {
    let text = format!("cuda-sim PTX in place of machine code\n{COPY}");
    let image = Ptx::new(text.as_str()).unwrap();
    let text = CString::new(text).unwrap();
    for fixture in everywhere() {
        let loaded = Module::load(&fixture.context, &image);
        let is_software = fixture.simulator.is_some();
        assert_eq!(loaded.is_ok(), is_software, "{}: {loaded:?}", fixture.name);
        // `cuModuleLoadData` of the raw layer.
        let library = fixture.context.driver().library();
        let mut module = ptr::null_mut();
        // SAFETY: the context must exist ← the fixture owns it.
        let pushed = unsafe { library.cuCtxPushCurrent_v2(fixture.context.as_raw()) };
        assert!(pushed.is_success());
        // SAFETY: the image must be a string that ends with a nul ← it is a `CString`.
        let status = unsafe { library.cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
        if status.is_success() {
            // SAFETY: the module must exist and is not used again ← it was just loaded.
            assert!(unsafe { library.cuModuleUnload(module) }.is_success());
        }
        // SAFETY: the pointer may be null ← it is.
        assert!(unsafe { library.cuCtxPopCurrent_v2(ptr::null_mut()) }.is_success());
        let expected = if is_software {
            CUresult::CUDA_SUCCESS
        } else {
            CUresult::CUDA_ERROR_INVALID_IMAGE
        };
        assert_eq!(status, expected, "{}", fixture.name);
    }
}

#[test]
fn log_names_the_invalid_line() {
    for fixture in everywhere() {
        let wrong = MIX.replace("st.global.u32 [%x], %u;", "st.global.u32 [%x], %nothing;");
        let line = 1 + wrong
            .lines()
            .position(|line| line.contains("%nothing"))
            .unwrap();
        let error = Module::load(&fixture.context, &Ptx::new(wrong).unwrap()).unwrap_err();
        assert_eq!(
            error.status(),
            Some(Status::CUDA_ERROR_INVALID_PTX),
            "{}: {error}",
            fixture.name
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("line {line}")),
            "{}: {text}",
            fixture.name
        );
        // The same log as parsed diagnostics.
        let Error::Jit(jit) = &error else {
            panic!("{error}")
        };
        let found = jit.log().diagnostics();
        let named = found
            .iter()
            .find(|one| one.line == u32::try_from(line).ok() && one.message.contains("%nothing"));
        let named = named.unwrap_or_else(|| panic!("{}: {found:?}", fixture.name));
        assert_eq!(named.severity, Severity::Error, "{named}");
        assert_eq!(named.file.as_deref(), Some("ptxas"), "{named}");
    }
}

#[test]
fn a_nul_byte_is_found_before_the_driver_sees_it() {
    assert_eq!(Ptx::new(b"ab\0c".to_vec()).unwrap_err().nul_position(), 2);
    for fixture in everywhere() {
        let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let error = module.function("mi\0x").unwrap_err();
        assert!(
            matches!(error, Error::NulByte { position: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn missing_kernel_error_has_its_name() {
    for fixture in everywhere() {
        let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        assert!(module.function("").is_err());
        for name in ["Mix", "no_such_kernel"] {
            let error = module.function(name).unwrap_err();
            assert_eq!(
                error,
                Error::NoSuchFunction {
                    name: name.to_owned(),
                    kernels: Some(vec!["mix".to_owned()]),
                }
            );
        }
        let mix = module.function("mix").unwrap();
        let sizes: Vec<usize> = mix.parameters().unwrap().iter().map(|p| p.size).collect();
        assert_eq!(sizes, [8, 8, 4]);
    }
}

#[test]
fn a_function_keeps_its_module_loaded() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = module.function("mix").unwrap();
        drop(module);
        let mut x = DeviceBuffer::from_host(&stream, &[7_u32]).unwrap();
        let y = DeviceBuffer::from_host(&stream, &[1_u32]).unwrap();
        // SAFETY: the kernel touches one word of each.
        unsafe {
            stream.launch(
                &mix,
                LaunchConfig::for_num_elems(1).unwrap(),
                (&mut x, &y, 1_u32),
            )
        }
        .unwrap();
        // The kernel may not have run yet, so unloading waits for it.
        drop(mix);
        assert_eq!(x.to_vec().unwrap(), [15], "{}", fixture.name);
    }
}

#[test]
fn dropping_a_module_does_not_wait_for_work() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let function = fixture.kernel(MIX, "mix");
        let mut x = DeviceBuffer::from_host(&stream, &[7_u32]).unwrap();
        let y = DeviceBuffer::from_host(&stream, &[1_u32]).unwrap();
        let sender = block(&stream);
        let config = LaunchConfig::for_num_elems(1).unwrap();
        // SAFETY: the kernel touches one word of each.
        unsafe { stream.launch(&function, config, (&mut x, &y, 1_u32)) }.unwrap();
        let unloads = || {
            let simulator = fixture.simulator.as_ref();
            simulator.map_or(0, |it| count_calls(it, "cuModuleUnload"))
        };
        // With a wait for the kernel, this would hang.
        drop(function);
        assert_eq!(unloads(), 0, "{}", fixture.name);
        drop(sender);
        assert_eq!(x.to_vec().unwrap(), [15], "{}", fixture.name);
        if fixture.simulator.is_some() {
            until("the module is unloaded", LIMIT, || unloads() == 1);
        }
    }
}

#[test]
fn a_context_closes_after_a_module_that_was_dropped_in_use() {
    let fixture = software(Builder::new());
    let device = fixture.context.device();
    let context = Context::new(device, cuda_driver::context::ContextFlags::empty()).unwrap();
    let stream = new_stream(&context);
    let module = Module::load(&context, &Ptx::new(MIX).unwrap()).unwrap();
    let function = module.function("mix").unwrap();
    let mut x = DeviceBuffer::from_host(&stream, &[7_u32]).unwrap();
    let y = DeviceBuffer::from_host(&stream, &[1_u32]).unwrap();
    let sender = block(&stream);
    let config = LaunchConfig::for_num_elems(1).unwrap();
    // SAFETY: the kernel touches one word of each.
    unsafe { stream.launch(&function, config, (&mut x, &y, 1_u32)) }.unwrap();
    drop((function, module, x, y));
    drop(sender);
    stream.close().unwrap();
    context.close().unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    assert_eq!(count_calls(simulator, "cuModuleUnload"), 1);
    assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 1);
}

#[test]
fn a_module_whose_kernels_may_still_run_stays_loaded() {
    let fixture = software(late(5));
    let simulator = fixture.simulator.unwrap();
    let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuCtxSynchronize"));
    drop(module);
    assert_eq!(simulator.calls().get("cuModuleUnload"), None);
    simulator.clear_rules();
    // The module ends with its context and keeps nothing else alive.
    drop(fixture.context);
    assert!(simulator.live().is_empty(), "{}", simulator.live());
}

#[test]
fn options_reach_the_compiler_and_the_code_still_computes() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let ptx = Ptx::new(MIX).unwrap();
        let options = JitOptions::new()
            .max_registers(32)
            .optimization_level(OptimizationLevel::O1)
            .line_info(true)
            .debug_info(false)
            .verbose(true)
            .cache_mode(JitCacheMode::L2)
            .fallback(JitFallback::Ptx);
        let module = Module::load_with(&fixture.context, &ptx, &options).unwrap();
        let mix = module.function("mix").unwrap();
        assert!(mix.registers().unwrap() <= 32, "{}", fixture.name);
        let mut x = DeviceBuffer::from_host(&stream, &[7_u32, 8]).unwrap();
        let y = DeviceBuffer::from_host(&stream, &[1_u32, 2]).unwrap();
        // SAFETY: the kernel touches two words of each.
        unsafe {
            stream.launch(
                &mix,
                LaunchConfig::for_num_elems(2).unwrap(),
                (&mut x, &y, 2_u32),
            )
        }
        .unwrap();
        assert_eq!(x.to_vec().unwrap(), [15, 18], "{}", fixture.name);
        // A driver that finds the code in its cache compiles nothing and logs nothing.
        let info = module.log().info();
        if info.is_empty() && fixture.simulator.is_none() {
            skipped("the register usage in the GPU's log: the code was cached");
            continue;
        }
        assert!(
            info.as_str().contains("registers"),
            "{}: {info}",
            fixture.name
        );
        let found = module.log().diagnostics();
        assert!(
            found.iter().all(|one| !one.severity.is_error()),
            "{found:?}"
        );
        assert!(found.iter().any(|one| one.severity == Severity::Remark));
    }
}

#[test]
fn unknown_jit_options_fail_before_the_call() {
    if !has_version((13, 1)) {
        return;
    }
    let newer = [
        (12000, JitOptions::new().min_blocks_per_multiprocessor(1)),
        (12000, JitOptions::new().max_threads_per_block(128)),
        (12000, JitOptions::new().override_directives(true)),
        (12090, JitOptions::new().split_compile(2)),
        (13000, JitOptions::new().binary_loader_threads(2)),
    ];
    for (version, options) in newer {
        let fixture = software(Builder::new().version(version));
        let ptx = Ptx::new(MIX).unwrap();
        let error = Module::load_with(&fixture.context, &ptx, &options).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let calls = fixture.simulator.as_ref().unwrap().calls();
        assert_eq!(calls.get("cuModuleLoadDataEx"), None, "{error}");
        let newest = software(Builder::new());
        let module = Module::load_with(&newest.context, &ptx, &options).unwrap();
        module.function("mix").unwrap();
    }
}

#[test]
fn a_target_can_be_named() {
    for fixture in everywhere() {
        let capability = fixture.context.device().compute_capability().unwrap();
        let options = JitOptions::new().target(JitTarget::new(capability));
        let ptx = Ptx::new(COPY).unwrap();
        let module = Module::load_with(&fixture.context, &ptx, &options).unwrap();
        let copy = module.function("copy").unwrap();
        let binary = copy.binary_version().unwrap();
        assert_eq!(binary, 10 * capability.major + capability.minor);
    }
}

#[test]
fn file_format_is_detected_by_its_first_bytes() {
    let dir = std::env::temp_dir().join(format!("cuda-driver-module-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let ptx = write("copy.ptx", COPY.as_bytes());
    let fatbin = write("cut.fatbin", &0xBA55_ED50_u32.to_le_bytes());
    let neither = write("neither", b"MZ\0");
    let options = JitOptions::new();
    for fixture in everywhere() {
        let load = |path: &std::path::Path| {
            // SAFETY: the file is PTX, or is refused before it reaches the driver.
            unsafe { Module::load_file(&fixture.context, path, &options) }
        };
        let copy = load(&ptx).unwrap().function("copy").unwrap();
        assert_eq!(copy.parameters().unwrap().len(), 3, "{}", fixture.name);
        let missing = dir.join("missing");
        let error = load(&missing).unwrap_err();
        let kind = io::ErrorKind::NotFound;
        assert_eq!(
            error,
            Error::File {
                path: missing.clone(),
                kind
            }
        );
        for path in [&fatbin, &neither] {
            let error = load(path).unwrap_err();
            assert!(matches!(error, Error::Image(_)), "{error}");
        }
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn functions_are_enumerated_and_loaded_before_they_are_used() {
    for fixture in everywhere_since((12, 4)) {
        let stream = fixture.stream();
        let module = Module::load(&fixture.context, &Ptx::new(VARIABLES).unwrap()).unwrap();
        let functions = module.functions().unwrap();
        let mut names: Vec<&str> = functions.iter().map(Function::name).collect();
        names.sort_unstable();
        assert_eq!(names, ["bump", "scale"], "{}", fixture.name);
        let mode = fixture.context.driver().module_loading_mode().unwrap();
        for function in &functions {
            // The result is the same with lazy and eager module loading.
            assert!(function.is_loaded().unwrap(), "{}: {mode:?}", fixture.name);
            function.load().unwrap();
            function.set_cache_config(CacheConfig::L1).unwrap();
            let wrong = function.set_cache_config(CacheConfig(77)).unwrap_err();
            assert_eq!(wrong.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        }
        // The kernel uses the table of 4 words in constant memory.
        let constants = module.function("scale").unwrap().const_bytes();
        assert_eq!(constants.unwrap(), 16, "{}", fixture.name);
        // An enumerated function equals the one found by name, and keeps its module alive.
        let scale = module.function("scale").unwrap();
        let same = functions.iter().find(|one| one.name() == "scale").unwrap();
        assert_eq!(same.as_raw(), scale.as_raw(), "{}", fixture.name);
        assert_eq!(same.parameters(), scale.parameters());
        let same = same.clone();
        drop((functions, module, scale));
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32, 1, 1, 1]).unwrap();
        // SAFETY: the kernel scales 4 words.
        unsafe { stream.launch(&same, LaunchConfig::new(1, 4), (&mut words,)) }.unwrap();
        assert_eq!(words.to_vec().unwrap(), [1, 2, 3, 4], "{}", fixture.name);
    }
}

#[test]
fn a_driver_without_enumeration_names_the_call() {
    let fixture = software(Builder::new().version(12030));
    let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    let error = module.functions().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("cuModuleGetFunctionCount"), "{text}");
    assert!(text.contains("12.4"), "{text}");
    let mix = module.function("mix").unwrap();
    let text = mix.load().unwrap_err().to_string();
    assert!(text.contains("cuFuncLoad"), "{text}");
}
