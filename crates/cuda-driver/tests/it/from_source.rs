//! Compiling in one step with `Module::from_source`.

use std::fs;
use std::path::Path;

use cuda_driver::Version;
use cuda_driver::nvrtc::{CompileError, Source};
use cuda_driver::prelude::*;
use cuda_nvrtc::{CudaHeaders, Nvrtc, Options, Program};
use cuda_sim::Builder;

use crate::nvrtc::{Folder, nvrtc};
use crate::support::{Fixture, everywhere, skip, software};

const SCALE: &str = r#"
extern "C" __global__ void scale(float *x, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"#;

const TEMPLATE: &str = r"
template <typename T> __device__ T factor = 10;
template <typename T> __global__ void scale(T *x) { x[threadIdx.x] *= factor<T>; }
";

/// Returns `values` after `kernel` has run on them, with one thread for each.
fn scaled<T: DeviceRepr>(fixture: &Fixture, kernel: &Function, values: [T; 3]) -> Vec<T> {
    let stream = fixture.stream();
    let mut x = DeviceBuffer::from_host(&stream, &values).unwrap();
    // SAFETY: each of the 3 threads accesses one of the 3 elements of `x`.
    unsafe { stream.launch(kernel, LaunchConfig::new(1, 3), (&mut x,)) }.unwrap();
    x.to_vec().unwrap()
}

#[test]
fn from_source_finds_the_compiler_and_uses_the_cache() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    for fixture in everywhere() {
        for (hits, cache) in [(0, folder.open()), (1, folder.open())] {
            let source = Source::from(SCALE).cache(&cache);
            let module = Module::from_source(&fixture.context, source).unwrap();
            let stream = fixture.stream();
            let mut x = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0]).unwrap();
            let scale = module.function("scale").unwrap();
            let config = LaunchConfig::for_num_elems(3).unwrap();
            // SAFETY: the kernel reads and writes the 3 floats of `x`.
            unsafe { stream.launch(&scale, config, (&mut x, 10.0_f32, 3_u32)) }.unwrap();
            assert_eq!(x.to_vec().unwrap(), [10.0, 20.0, 30.0], "{}", fixture.name);
            let found = cache.stats().hits;
            assert!(found >= hits, "{}: {found} hits, not {hits}", fixture.name);
        }
    }
}

#[test]
fn from_source_compiles_once() {
    if nvrtc().is_none() {
        return;
    }
    for fixture in everywhere() {
        let folder = Folder::new();
        let cache = folder.open();
        let source = Source::from(SCALE).cache(&cache);
        Module::from_source(&fixture.context, source).unwrap();
        assert_eq!(cache.stats().misses, 1, "{}", fixture.name);
    }
}

#[test]
fn a_driver_without_machine_code_is_tried_once() {
    if nvrtc().is_none() {
        return;
    }
    // The library does not state that the software device loads PTX only.
    let simulator = crate::support::built(&Builder::new());
    let library = simulator.library().unwrap().with_machine_code(true);
    assert!(library.loads_machine_code());
    let context = Driver::new(library)
        .and_then(|driver| driver.device(0)?.primary_context())
        .unwrap();
    let folder = Folder::new();
    let cache = folder.open();
    for (source, misses) in [(SCALE.to_owned(), 2), (format!("{SCALE}\n"), 3)] {
        let source = Source::from(source).cache(&cache);
        Module::from_source(&context, source).unwrap();
        assert_eq!(cache.stats().misses, misses);
    }
}

#[test]
fn a_module_finds_kernels_and_variables_by_expression() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let names = [
        "scale<float>",
        "scale<unsigned long long>",
        "&factor<float>",
    ];
    for fixture in everywhere() {
        let mut source = Source::new(TEMPLATE).cache(&folder.open());
        let mut program = Program::new(&nvrtc, TEMPLATE);
        for name in names {
            source = source.name_expression(name);
            program = program.name_expression(name);
        }
        for module in [
            Module::from_source(&fixture.context, source).unwrap(),
            Module::compile(&fixture.context, &program, &Options::new()).unwrap(),
        ] {
            let floats = module.function("scale<float>").unwrap();
            assert_eq!(
                scaled(&fixture, &floats, [1.0_f32, 2.0, 3.0]),
                [10.0, 20.0, 30.0]
            );
            let longs = module.function("scale<unsigned long long>").unwrap();
            assert_eq!(
                scaled(&fixture, &longs, [1_u64, 2, 1 << 40]),
                [10, 20, 10 << 40]
            );
            let stream = fixture.stream();
            let factor = module.global::<f32>("&factor<float>", &stream).unwrap();
            assert_eq!(factor.to_vec().unwrap(), [10.0], "{}", fixture.name);
            // The name in the image still works, and a name that was not given does not.
            assert_eq!(
                module.function("_Z5scaleIfEvPT_").unwrap().name(),
                floats.name()
            );
            assert!(module.function("scale<double>").is_err());
        }
    }
}

#[test]
fn the_headers_of_cuda_are_found() {
    let Some(nvrtc) = nvrtc() else { return };
    if let Err(error) = CudaHeaders::find(&nvrtc) {
        skip(&format!("{error}"));
        return;
    }
    let folder = Folder::new();
    let text = "#include <cuda_fp16.h>\n\
                __global__ void twice(__half *x) { x[threadIdx.x] *= __float2half(2.0f); }";
    let source = Source::new(text)
        .name_expression("twice")
        .cache(&folder.open());
    let fixture = software(Builder::new());
    let module = Module::from_source(&fixture.context, source).unwrap();
    // 1, 2 and 3 in half precision, and twice that.
    let doubled = scaled(
        &fixture,
        &module.function("twice").unwrap(),
        [0x3c00_u16, 0x4000, 0x4200],
    );
    assert_eq!(doubled, [0x4000, 0x4400, 0x4600]);
}

#[test]
fn a_missing_header_is_named_with_the_folder_option() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let fixture = software(Builder::new());
    let source = Source::new(format!("#include \"scale_by.h\"\n{SCALE}"))
        .name("scale.cu")
        .cache(&folder.open());
    let error = Module::from_source(&fixture.context, source.clone()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("scale.cu(1): catastrophic error"), "{text}");
    assert!(
        text.contains("The header scale_by.h was not found: name its folder with `include_dir`"),
        "{text}"
    );

    let dir = folder.as_ref().join("include");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("scale_by.h"), "").unwrap();
    let module = Module::from_source(&fixture.context, source.clone().include_dir(&dir)).unwrap();
    assert!(module.function("scale").is_ok());
    let module = Module::from_source(&fixture.context, source.header("scale_by.h", "")).unwrap();
    assert!(module.function("scale").is_ok());
}

/// Returns the NVRTC 12.4 that the setup of this workspace has fetched, without its headers.
///
/// Returns nothing if the other tests use NVRTC 12.4 too. The process would have loaded one version
/// from two files, of which one is deleted with the folder, and the cache refuses that.
fn old_nvrtc(folder: &Folder) -> Option<Nvrtc> {
    if nvrtc()?.version() == Version::new(12040) {
        skip("NVRTC 12.4 is the compiler of the other tests");
        return None;
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-setup/nvrtc/12.4/lib");
    let dir = folder.as_ref().join("nvrtc/lib");
    fs::create_dir_all(&dir).unwrap();
    for name in ["libnvrtc.so.12", "libnvrtc-builtins.so.12.4"] {
        if !lib.join(name).is_file() {
            skip("no NVRTC 12.4");
            return None;
        }
        // A copy: with a link the loader would find the headers next to the original.
        fs::copy(lib.join(name), dir.join(name)).unwrap();
    }
    // SAFETY: the file must be NVRTC ← it is the one that the setup has fetched.
    Some(unsafe { Nvrtc::open(dir.join("libnvrtc.so.12")) }.unwrap())
}

#[test]
fn a_device_that_is_newer_than_nvrtc_gets_ptx() {
    let folder = Folder::new();
    let Some(nvrtc) = old_nvrtc(&folder) else {
        return;
    };
    let fixture = software(Builder::new().compute_capability(12, 0));
    let text =
        r#"extern "C" __global__ void arch(unsigned *x) { x[threadIdx.x] = __CUDA_ARCH__; }"#;
    let source = Source::new(text).nvrtc(&nvrtc).cache(&folder.open());
    let module = Module::from_source(&fixture.context, source).unwrap();
    let arch = scaled(&fixture, &module.function("arch").unwrap(), [0_u32; 3]);
    assert_eq!(arch, [900; 3], "NVRTC 12.4 supports no newer architecture");
}

#[test]
fn an_error_lists_where_cuda_headers_were_searched() {
    let folder = Folder::new();
    let Some(nvrtc) = old_nvrtc(&folder) else {
        return;
    };
    if CudaHeaders::find(&nvrtc).is_ok() {
        skip("this machine has headers of CUDA 12");
        return;
    }
    let fixture = software(Builder::new());
    let text = "#include <cuda_fp16.h>\n";
    let source = Source::new(text).nvrtc(&nvrtc).cache(&folder.open());
    let error = Module::from_source(&fixture.context, source).unwrap_err();
    assert!(
        matches!(error, CompileError::NoCudaHeaders { .. }),
        "{error}"
    );
    let text = error.to_string();
    for part in [
        "The header cuda_fp16.h was not found: name its folder with `include_dir`",
        "CUDA's headers were not found; tried:",
        "nvrtc/include: no cuda_fp16.h",
        "Getting NVRTC and the headers",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A source that includes nothing needs no headers.
    let source = Source::from(SCALE).nvrtc(&nvrtc).cache(&folder.open());
    Module::from_source(&fixture.context, source).unwrap();
}
