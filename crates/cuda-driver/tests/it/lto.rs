//! Linking LTO-IR. The tests need NVRTC and nvJitLink but no device.

use std::env;
use std::sync::Arc;

use cuda_driver::Error;
use cuda_driver::device::ComputeCapability;
use cuda_driver::jit::LtoLinker;
use cuda_driver::prelude::*;
use cuda_nvrtc::{Arch, LtoIr, Nvrtc, Options, Program};
use cuda_sys::LoadError;
use cuda_sys::nvjitlink::{NvJitLinkLibrary, nvJitLinkResult};

use crate::nvrtc::nvrtc;
use crate::support::{gpu, skip};

const CALLER: &str = "extern __device__ unsigned weigh(unsigned x);
extern \"C\" __global__ void weigh_all(unsigned *x, unsigned n) {
    unsigned i = threadIdx.x;
    if (i < n) x[i] = weigh(x[i]);
}";
const CALLEE: &str = "__device__ unsigned weigh(unsigned x) { return 3 * x + 11; }";

const HOPPER: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

/// Returns NVRTC and the nvJitLink library of the same major version.
#[track_caller]
fn tools() -> Option<(Nvrtc, Arc<NvJitLinkLibrary>)> {
    let nvrtc = nvrtc()?;
    match NvJitLinkLibrary::system(nvrtc.version().number() / 1000) {
        Ok(library) => Some((nvrtc, library)),
        Err(error) => {
            let required = env::var("CUDA_TEST_REQUIRE_NVJITLINK").is_ok_and(|value| value == "1");
            assert!(!required, "nvJitLink is missing: {error}");
            skip("nvJitLink is missing");
            None
        }
    }
}

fn lto_ir(nvrtc: &Nvrtc, source: &str, target: ComputeCapability) -> LtoIr {
    let arch = Arch::compute(target.major, target.minor);
    let options = Options::new().arch(arch).relocatable(true);
    let program = Program::new(nvrtc, source);
    program.compile_lto_ir(&options).unwrap().image
}

#[test]
fn lto_ir_becomes_a_cubin_in_which_names_are_resolved() {
    let Some((nvrtc, library)) = tools() else {
        return;
    };
    let fixture = gpu();
    let target = fixture.as_ref().map_or(HOPPER, |fixture| {
        fixture.context.device().compute_capability().unwrap()
    });
    let mut linker = LtoLinker::new(&library, target, &["-O3"]).unwrap();
    for (name, source) in [("caller", CALLER), ("callee", CALLEE)] {
        linker
            .add_lto_ir(&lto_ir(&nvrtc, source, target), name)
            .unwrap();
    }
    let cubin = linker.complete().unwrap().cubin;
    let bytes = cubin.as_bytes();
    assert!(bytes.starts_with(b"\x7fELF"));
    assert!(bytes.windows(9).any(|window| window == b"weigh_all"));
    // Link-time optimization has inlined the function into its caller.
    assert!(!bytes.windows(10).any(|window| window == b".text._Z5w"));
    let Some(fixture) = fixture else { return };
    let stream = fixture.stream();
    let module = Module::load(&fixture.context, &cubin).unwrap();
    let weigh_all = module.function("weigh_all").unwrap();
    let mut x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3]).unwrap();
    // SAFETY: the kernel touches three words.
    unsafe { stream.launch(&weigh_all, LaunchConfig::new(1, 32), (&mut x, 3_u32)) }.unwrap();
    assert_eq!(x.to_vec().unwrap(), [14, 17, 20]);
}

#[test]
fn lto_errors_contain_the_log_of_the_linker() {
    let Some((nvrtc, library)) = tools() else {
        return;
    };
    // Links a reference to an undefined name.
    let mut linker = LtoLinker::new(&library, HOPPER, &[]).unwrap();
    linker
        .add_lto_ir(&lto_ir(&nvrtc, CALLER, HOPPER), "caller")
        .unwrap();
    let error = linker.complete().unwrap_err();
    let Error::Lto(lto) = &error else {
        panic!("{error}")
    };
    assert_eq!(lto.call(), "nvJitLinkComplete");
    let found = lto.log().diagnostics();
    let named = |text: &str| {
        found
            .iter()
            .any(|one| one.severity.is_error() && one.message.contains(text))
    };
    assert!(named("weigh"), "{error}");
    // Passes an option and an architecture that do not exist.
    let error = LtoLinker::new(&library, HOPPER, &["--no-such-option"]).unwrap_err();
    let Error::Lto(lto) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        lto.status(),
        nvJitLinkResult::NVJITLINK_ERROR_UNRECOGNIZED_OPTION
    );
    let nowhere = ComputeCapability { major: 1, minor: 1 };
    let error = LtoLinker::new(&library, nowhere, &[]).unwrap_err();
    assert!(matches!(error, Error::Lto(_)), "{error}");
    let error = LtoLinker::new(&library, HOPPER, &["a\0b"]).unwrap_err();
    assert!(
        matches!(error, Error::NulByte { position: 1, .. }),
        "{error}"
    );
}

#[test]
fn missing_library_error_lists_the_searched_places() {
    // No release has this version.
    let error = NvJitLinkLibrary::system(99).unwrap_err();
    let fine = match &error {
        LoadError::NotFound { tried, .. } => !tried.is_empty(),
        // The library that the environment variable names has another version.
        LoadError::Variable {
            variable, error, ..
        } => {
            let is_other = matches!(**error, LoadError::NotTheLibrary { .. });
            *variable == "CUDA_NVJITLINK_LIBRARY" && is_other
        }
        _ => false,
    };
    assert!(fine, "{error}");
}

#[test]
fn ptx_and_cubins_are_linked_with_lto_ir() {
    let Some((nvrtc, library)) = tools() else {
        return;
    };
    let kernel =
        |name: &str| format!("extern \"C\" __global__ void {name}(unsigned *x) {{ *x = 1; }}");
    let options = Options::new().relocatable(true);
    let options_of = |arch| options.clone().arch(arch);
    let (first, second) = (kernel("from_ptx"), kernel("from_cubin"));
    let ptx = Program::new(&nvrtc, first.as_str()).compile_ptx(&options_of(Arch::compute(9, 0)));
    let cubin = Program::new(&nvrtc, second.as_str()).compile_cubin(&options_of(Arch::sm(9, 0)));
    let mut linker = LtoLinker::new(&library, HOPPER, &[]).unwrap();
    linker
        .add_lto_ir(&lto_ir(&nvrtc, &kernel("from_lto"), HOPPER), "lto")
        .unwrap();
    linker.add_ptx(&ptx.unwrap().image, "ptx").unwrap();
    linker.add_cubin(&cubin.unwrap().image, "cubin").unwrap();
    let linked = linker.complete().unwrap().cubin;
    let bytes = linked.as_bytes();
    for name in ["from_lto", "from_ptx", "from_cubin"] {
        let mut windows = bytes.windows(name.len());
        assert!(windows.any(|window| window == name.as_bytes()), "{name}");
    }
    let mut linker = LtoLinker::new(&library, HOPPER, &[]).unwrap();
    let error = linker
        .add_ptx(&Ptx::new("no PTX").unwrap(), "wrong")
        .map(drop);
    let error = error
        .and_then(|()| linker.complete().map(drop))
        .unwrap_err();
    assert!(matches!(error, Error::Lto(_)), "{error}");
}
