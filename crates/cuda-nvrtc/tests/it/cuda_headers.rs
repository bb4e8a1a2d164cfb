//! CUDA's own headers.

use std::fs;

use cuda_nvrtc::{Arch, CudaHeaders, Error, Options, Program, Version};

use crate::at_hand::{every_nvrtc, nvrtc};

const FIRST_WITH_HEADERS: Version = Version::new(13030);

/// Programs that include CUDA's headers.
const SOURCES: [&str; 4] = [
    "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half *x) { x[0] = __hadd(x[1], x[2]); }",
    "#include <cooperative_groups.h>\nextern \"C\" __global__ void k(int *x) { \
             x[0] = cooperative_groups::this_thread_block().thread_rank(); }",
    "#include <cuda/std/array>\nextern \"C\" __global__ void k(int *x) { \
             cuda::std::array<int, 3> a = {4, 5, 6}; x[0] = a[x[1]]; }",
    "#include <cub/block/block_reduce.cuh>\nextern \"C\" __global__ void k(int *x) { \
             using R = cub::BlockReduce<int, 128>; __shared__ R::TempStorage s; \
             int sum = R(s).Sum(x[threadIdx.x]); if (threadIdx.x == 0) x[0] = sum; }",
];

#[test]
fn headers_of_nvrtc_compile() {
    for nvrtc in every_nvrtc() {
        let dir = tempfile::tempdir().unwrap();
        let headers = CudaHeaders::install(&nvrtc, &dir.path().join("deep/er"));
        if nvrtc.version() < FIRST_WITH_HEADERS {
            let text = headers.unwrap_err().to_string();
            assert!(
                text.contains("nvrtcInstallBundledHeaders requires NVRTC 13.3"),
                "{text}"
            );
            continue;
        }
        let headers = headers.unwrap();
        assert_eq!(headers.dirs().len(), 2, "{:?}", headers.dirs());
        let options = Options::new()
            .arch(Arch::compute(9, 0))
            .cuda_headers(&headers);
        for source in SOURCES {
            let program = Program::new(&nvrtc, source);
            let text = program.compile_ptx(&options).unwrap().image.to_text();
            assert!(text.contains(".entry k("), "{text}");
            // The program does not compile without them.
            program.compile_ptx(&Options::new()).unwrap_err();
        }
        // A second installation finds the headers.
        let again = CudaHeaders::install(&nvrtc, &dir.path().join("deep/er")).unwrap();
        assert_eq!(again, headers);
    }
}

#[test]
fn an_unwritable_folder_is_reported() {
    let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version() >= FIRST_WITH_HEADERS) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = CudaHeaders::install(&nvrtc, &file.join("below")).unwrap_err();
    assert!(matches!(error, Error::InstallHeaders { .. }), "{error:?}");
    assert!(error.to_string().contains("below"), "{error}");
}

#[test]
fn headers_match_the_version_or_error_lists_places() {
    for nvrtc in every_nvrtc() {
        match CudaHeaders::find(&nvrtc) {
            Ok(headers) => {
                let source = "#include <cuda_fp16.h>\n#include <cuda.h>\n\
                              __global__ void k(__half *x) { x[0] = __float2half(1.0f); }\n#ifdef WANTED\n\
                              static_assert(CUDA_VERSION / 1000 == WANTED, \"\");\n#endif\n";
                let source = source.replace("#include <cuda.h>\n", &cuda_h(&headers));
                let options = Options::new()
                    .cuda_headers(&headers)
                    .define("WANTED", nvrtc.version().major());
                Program::new(&nvrtc, source).compile_ptx(&options).unwrap();
                let options = Options::new()
                    .arch(Arch::compute(9, 0))
                    .cuda_headers(&headers);
                for source in SOURCES {
                    let compiled = Program::new(&nvrtc, source).compile_ptx(&options);
                    let text = compiled.unwrap().image.to_text();
                    assert!(text.contains(".entry k("), "{text}");
                }
            }
            Err(error) => {
                assert!(nvrtc.version() < FIRST_WITH_HEADERS, "{error}");
                let text = error.to_string();
                assert!(text.contains("/usr/local/cuda/include"), "{text}");
                assert!(
                    text.contains("nvrtcGetBundledHeadersInfo requires NVRTC 13.3"),
                    "{text}"
                );
            }
        }
    }
}

/// The line of `cuda.h` that states the version; the rest of the file is not valid device code.
fn cuda_h(headers: &CudaHeaders) -> String {
    let text = headers
        .dirs()
        .iter()
        .find_map(|dir| fs::read_to_string(dir.join("cuda.h")).ok());
    text.and_then(|text| {
        text.lines()
            .find(|line| line.starts_with("#define CUDA_VERSION"))
            .map(|line| format!("{line}\n"))
    })
    .unwrap_or_else(|| "#define CUDA_VERSION (WANTED * 1000)\n".to_owned())
}
