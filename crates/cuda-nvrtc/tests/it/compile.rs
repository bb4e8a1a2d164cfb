//! The kinds of output.

use cuda_nvrtc::{Arch, Error, Nvrtc, Options, Program, Version};

use crate::at_hand::{every_nvrtc, nvrtc};

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;

fn saxpy(nvrtc: &Nvrtc) -> Program {
    Program::new(nvrtc, SAXPY).name("saxpy.cu")
}

/// The `e_machine` field of an ELF file.
fn elf_machine(bytes: &[u8]) -> u16 {
    assert_eq!(&bytes[..4], b"\x7fELF");
    u16::from_le_bytes([bytes[18], bytes[19]])
}

#[test]
fn ptx_is_for_the_architecture_and_has_the_kernel() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().arch(Arch::compute(8, 0));
        let compiled = saxpy(&nvrtc).compile_ptx(&options).unwrap();
        let text = compiled.image.to_text();
        assert!(text.contains("\n.target sm_80\n"), "{text}");
        assert!(text.contains(".visible .entry saxpy("), "{text}");
        assert!(compiled.log.is_empty(), "{}", compiled.log);
        // The compiler writes its release into its output, and uses the newest PTX version of that
        // release.
        let release = format!("release {}", nvrtc.version());
        assert!(
            text.contains(&release),
            "the output lacks {release}: {text}"
        );
        let newest = cuda_sys::image::newest_ptx(nvrtc.version()).unwrap();
        let written = compiled.image.version().unwrap();
        assert!(
            written <= newest,
            "{written:?} by NVRTC {}",
            nvrtc.version()
        );
    }
}

#[test]
fn default_architecture_is_the_oldest_or_compute_52() {
    for nvrtc in every_nvrtc() {
        let text = saxpy(&nvrtc)
            .compile_ptx(&Options::new())
            .unwrap()
            .image
            .to_text();
        let target = text
            .lines()
            .find_map(|line| line.strip_prefix(".target sm_"))
            .unwrap();
        let (major, minor) = target.trim().split_at(target.trim().len() - 1);
        let target = Arch::compute(major.parse().unwrap(), minor.parse().unwrap());
        let archs = nvrtc.supported_archs().unwrap();
        assert!(archs.contains(&target), "{target} of {archs:?}");
        assert!(
            target <= archs[0] || target == Arch::compute(5, 2),
            "{target} of {archs:?}"
        );
    }
}

#[test]
fn a_cubin_is_machine_code_for_cuda() {
    for nvrtc in every_nvrtc() {
        for arch in [Arch::sm(8, 0), Arch::sm(9, 0).accelerated()] {
            let compiled = saxpy(&nvrtc)
                .compile_cubin(&Options::new().arch(arch))
                .unwrap();
            let bytes = compiled.image.as_bytes();
            assert_eq!(
                elf_machine(bytes),
                190,
                "EM_CUDA, NVRTC {}",
                nvrtc.version()
            );
            let section = b"\0.text.saxpy\0";
            assert!(bytes.windows(section.len()).any(|window| window == section));
        }
    }
}

#[test]
fn a_cubin_contains_the_parameters_of_its_kernels() {
    let source = "struct S { int a; double b; };
        extern \"C\" __global__ void k(float a, const float *x, S s, char c) {}
        extern \"C\" __global__ void none() {}";
    // The layout of a struct of these members in C++.
    let want = [(0, 4), (8, 8), (16, 16), (32, 1)];
    for nvrtc in every_nvrtc() {
        let options = Options::new().arch(Arch::sm(9, 0));
        let cubin = Program::new(&nvrtc, source)
            .compile_cubin(&options)
            .unwrap()
            .image;
        let signatures = cubin.signatures().unwrap();
        let of = |name: &str| {
            let found = signatures
                .iter()
                .find(|signature| signature.kernel == name)
                .unwrap();
            found
                .parameters
                .iter()
                .map(|p| (p.offset, p.size))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("k"), want, "NVRTC {}", nvrtc.version());
        assert_eq!(of("none"), []);
        assert_eq!(signatures.len(), 2);
    }
}

#[test]
fn each_listed_architecture_compiles() {
    let Some(nvrtc) = nvrtc() else { return };
    let archs = nvrtc.supported_archs().unwrap();
    assert!(archs.len() > 5 && archs.is_sorted(), "{archs:?}");
    for arch in archs {
        assert!(!arch.is_real());
        let options = Options::new().arch(arch.to_real());
        let cubin = saxpy(&nvrtc).compile_cubin(&options).unwrap().image;
        assert_eq!(elf_machine(cubin.as_bytes()), 190, "{arch}");
    }
}

#[test]
fn a_cubin_needs_a_real_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let error = saxpy(&nvrtc).compile_cubin(&Options::new()).unwrap_err();
    assert!(
        matches!(error, Error::NeedsRealArch { arch: None }),
        "{error}"
    );
    let options = Options::new().arch(Arch::compute(9, 0));
    let error = saxpy(&nvrtc).compile_cubin(&options).unwrap_err();
    assert!(error.to_string().contains("compute_90"), "{error}");
    let options = Options::new().raw("-arch=sm_90");
    assert_eq!(
        elf_machine(
            saxpy(&nvrtc)
                .compile_cubin(&options)
                .unwrap()
                .image
                .as_bytes()
        ),
        190
    );
}

#[test]
fn unknown_architecture_error_lists_supported_ones() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().arch(Arch::compute(99, 9));
        let error = saxpy(&nvrtc).compile_ptx(&options).unwrap_err();
        let Error::UnsupportedArch {
            arch,
            supported,
            found,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((arch.major(), *found), (99, nvrtc.version()));
        assert_eq!(*supported, nvrtc.supported_archs().unwrap());
        let text = error.to_string();
        assert!(
            text.contains("compute_999") && text.contains("compute_90"),
            "{text}"
        );
    }
}

#[test]
fn lto_ir_and_optix_ir() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().arch(Arch::compute(8, 0));
        let lto = saxpy(&nvrtc).compile_lto_ir(&options).unwrap().image;
        let optix = saxpy(&nvrtc).compile_optix_ir(&options).unwrap().image;
        // The magic numbers of the two containers, as NVIDIA's tools write them.
        assert_eq!(
            lto.as_bytes()[..4],
            0x7f4e_43ed_u32.to_le_bytes(),
            "NVRTC {}",
            nvrtc.version()
        );
        assert_eq!(optix.as_bytes()[..4], 0x7f4e_43ed_u32.to_le_bytes());
        assert_ne!(lto.as_bytes(), optix.as_bytes());
    }
}

/// NVRTC 13.3 introduced tile kernels; for older versions, the error names that version.
#[test]
fn tile_ir() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().arch(Arch::compute(9, 0));
        let with = Program::new(
            &nvrtc,
            "extern \"C\" __tile_global__ void tile_kernel(float *x) {}",
        );
        if nvrtc.version() < Version::new(13030) {
            let text = with.compile_tile_ir(&options).unwrap_err().to_string();
            assert!(text.contains("13.2") || text.contains("13.3"), "{text}");
            assert!(text.contains(&nvrtc.version().to_string()), "{text}");
            continue;
        }
        let with = with.compile_tile_ir(&options).unwrap().image;
        let without = saxpy(&nvrtc).compile_tile_ir(&options).unwrap().image;
        let name = b"tile_kernel";
        for (image, has) in [(with, true), (without, false)] {
            let bytes = image.as_bytes();
            assert_eq!(&bytes[..7], b"\x7fTileIR");
            assert_eq!(bytes.windows(name.len()).any(|window| window == name), has);
        }
    }
}

#[test]
fn an_output_that_was_not_made_is_an_error() {
    let Some(nvrtc) = nvrtc() else { return };
    let options = Options::new().arch(Arch::sm(9, 0)).raw("--dlink-time-opt");
    let error = saxpy(&nvrtc).compile_cubin(&options).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::NoOutput {
                output: "cubin",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("saxpy.cu"), "{error}");
}

#[test]
fn an_empty_source_compiles() {
    for nvrtc in every_nvrtc() {
        let ptx = Program::new(&nvrtc, "")
            .compile_ptx(&Options::new())
            .unwrap()
            .image;
        assert!(ptx.version().is_some());
        assert!(!ptx.to_text().contains(".entry"));
    }
}

#[test]
fn a_program_is_shared_between_threads_and_compiled_often() {
    let Some(nvrtc) = nvrtc() else { return };
    let program = saxpy(&nvrtc);
    let options = Options::new().arch(Arch::sm(9, 0));
    let once = program.compile_cubin(&options).unwrap().image;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| program.compile_cubin(&options).unwrap().image))
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap() == once);
        }
    });
}
