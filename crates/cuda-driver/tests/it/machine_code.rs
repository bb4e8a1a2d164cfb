//! Machine code in every form that the driver accepts, both loaded and linked. The software device
//! runs none of these forms and reports this.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_driver::jit::{Archive, Fatbin, JitOptions, LinkFile, Linker, Object};
use cuda_driver::prelude::*;
use cuda_driver::{Error, Library};
use cuda_nvrtc::{Options, Program};
use cuda_sim::Builder;

use crate::nvrtc::{nvrtc, unused_folder};
use crate::support::{Fixture, gpu, skip, software};

/// `x[i] = weigh(x[i]) + offset`, where both are defined in another module.
const CALLER: &str = r#"
extern "C" __device__ unsigned weigh(unsigned x);
extern __device__ unsigned offset;
extern "C" __global__ void weigh_all(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = weigh(x[i]) + offset;
}
"#;

const CALLEE: &str = r#"
__device__ unsigned offset = 1000;
extern "C" __device__ unsigned weigh(unsigned x) { return 3 * x + 11; }
"#;

fn weighed(x: &[u32]) -> Vec<u32> {
    x.iter().map(|x| 3 * x + 11 + 1000).collect()
}

/// Runs `function` and compares its output with the expected values.
fn check(stream: &Stream, function: &Function, what: &str) {
    let input: Vec<u32> = (0..77).map(|x| x * x).collect();
    let mut x = DeviceBuffer::from_host(stream, &input).unwrap();
    let config = LaunchConfig::for_num_elems(77).unwrap();
    // SAFETY: the kernel touches 77 words.
    unsafe { stream.launch(function, config, (&mut x, 77_u32)) }.unwrap();
    assert_eq!(x.to_vec().unwrap(), weighed(&input), "{what}");
    // The parameters of machine code are also known if the driver reports them.
    if let Some(parameters) = function.parameters() {
        let sizes: Vec<usize> = parameters.iter().map(|parameter| parameter.size).collect();
        assert_eq!(sizes, [8, 4], "{what}");
    }
}

fn check_module(fixture: &Fixture, module: &Module, what: &str) {
    let function = module.function("weigh_all").unwrap();
    check(&fixture.stream(), &function, what);
}

/// NVIDIA's compiler, with a folder for its output that is removed when this is dropped.
struct Nvcc {
    program: PathBuf,
    folder: PathBuf,
    arch: String,
}

impl Nvcc {
    /// Returns `None` if no compiler is installed.
    fn find(fixture: &Fixture) -> Option<Self> {
        let roots = ["CUDA_PATH", "CUDA_HOME"].map(|name| env::var_os(name).map(PathBuf::from));
        let toolkits = roots
            .into_iter()
            .flatten()
            .map(|root| root.join("bin/nvcc"));
        let mut programs = toolkits.chain(["nvcc", "/usr/local/cuda/bin/nvcc"].map(PathBuf::from));
        let works = |program: &PathBuf| {
            let version = Command::new(program).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        let Some(program) = programs.find(works) else {
            skip("nvcc is missing");
            return None;
        };
        let capability = fixture.context.device().compute_capability().unwrap();
        let folder = unused_folder();
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("caller.cu"), CALLER).unwrap();
        fs::write(folder.join("callee.cu"), CALLEE).unwrap();
        fs::write(folder.join("whole.cu"), format!("{CALLEE}{CALLER}")).unwrap();
        Some(Self {
            program,
            folder,
            arch: format!("{}{}", capability.major, capability.minor),
        })
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(&self.folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }

    /// Compiles `source` with these options to `file` and returns its path.
    fn compile(&self, source: &str, options: &[&str], file: &str) -> PathBuf {
        let arch = format!("-arch=sm_{}", self.arch);
        self.run(
            options
                .iter()
                .copied()
                .chain([arch.as_str(), source, "-o", file]),
        );
        self.folder.join(file)
    }
}

impl Drop for Nvcc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn cubins_and_fat_binaries_load_and_compute() {
    let Some(fixture) = gpu() else { return };
    let Some(nvcc) = Nvcc::find(&fixture) else {
        return;
    };
    let options = JitOptions::new();
    let driver = fixture.context.driver();
    let cubin_file = nvcc.compile("whole.cu", &["-cubin"], "whole.cubin");
    let fatbin_file = nvcc.compile("whole.cu", &["-fatbin"], "whole.fatbin");
    // SAFETY: NVIDIA's compiler has just produced the bytes.
    let cubin = unsafe { Cubin::from_bytes(bytes(&cubin_file)) };
    // SAFETY: as above.
    let fatbin = unsafe { Fatbin::from_bytes(bytes(&fatbin_file)) }.unwrap();
    let module = Module::load(&fixture.context, &cubin).unwrap();
    check_module(&fixture, &module, "a cubin");
    let module = Module::load(&fixture.context, &fatbin).unwrap();
    check_module(&fixture, &module, "a fat binary");
    for file in [&cubin_file, &fatbin_file] {
        // SAFETY: as above.
        let module = unsafe { Module::load_file(&fixture.context, file, &options) }.unwrap();
        check_module(&fixture, &module, "a file");
        // SAFETY: as above.
        let library = unsafe { Library::load_file(driver, file, &options) }.unwrap();
        let kernel = library.kernel("weigh_all").unwrap();
        let function = kernel.function(&fixture.context).unwrap();
        check(&fixture.stream(), &function, "a library");
    }
    let library = Library::load(driver, &fatbin, &options).unwrap();
    let function = library.kernel("weigh_all").unwrap();
    check(
        &fixture.stream(),
        &function.function(&fixture.context).unwrap(),
        "a library of a fat binary",
    );
    // The driver compiles a fat binary that contains only PTX.
    let code = format!("-gencode=arch=compute_{0},code=compute_{0}", nvcc.arch);
    nvcc.run([code.as_str(), "-fatbin", "whole.cu", "-o", "ptx.fatbin"]);
    // SAFETY: as above.
    let fatbin = unsafe { Fatbin::from_bytes(bytes(&nvcc.folder.join("ptx.fatbin"))) }.unwrap();
    let module = Module::load(&fixture.context, &fatbin).unwrap();
    check_module(&fixture, &module, "a fat binary of PTX");
}

#[test]
fn every_kind_of_machine_code_is_linked() {
    let Some(fixture) = gpu() else { return };
    let Some(nvcc) = Nvcc::find(&fixture) else {
        return;
    };
    let relocatable = |source: &str, form: &str, file: &str| {
        nvcc.compile(&format!("{source}.cu"), &[form, "-rdc=true"], file)
    };
    let caller = relocatable("caller", "-cubin", "caller.cubin");
    let object = nvcc.compile("callee.cu", &["-dc"], "callee.o");
    nvcc.run(["-lib", "callee.o", "-o", "libcallee.a"]);
    let callees = [
        (
            LinkFile::Cubin,
            relocatable("callee", "-cubin", "callee.cubin"),
        ),
        (
            LinkFile::Fatbin,
            relocatable("callee", "-fatbin", "callee.fatbin"),
        ),
        (LinkFile::Object, object),
        (LinkFile::Archive, nvcc.folder.join("libcallee.a")),
    ];
    // SAFETY: NVIDIA's compiler has just produced the bytes, here and below.
    let caller = unsafe { Cubin::from_bytes(bytes(&caller)) };
    for (kind, file) in callees {
        for is_file in [true, false] {
            let mut linker = Linker::new(&fixture.context, &JitOptions::new()).unwrap();
            linker.add(&caller, "caller").unwrap();
            if is_file {
                // SAFETY: as above.
                unsafe { linker.add_file(kind, &file) }.unwrap();
            } else {
                let bytes = bytes(&file);
                match kind {
                    LinkFile::Cubin => {
                        // SAFETY: as above.
                        let cubin = unsafe { Cubin::from_bytes(bytes) };
                        linker.add(&cubin, "callee").unwrap();
                    }
                    LinkFile::Fatbin => {
                        // SAFETY: as above.
                        let fatbin = unsafe { Fatbin::from_bytes(bytes) }.unwrap();
                        linker.add(&fatbin, "callee").unwrap();
                    }
                    LinkFile::Object => {
                        // SAFETY: as above.
                        let object = unsafe { Object::from_bytes(bytes) };
                        linker.add(&object, "callee").unwrap();
                    }
                    _ => {
                        // SAFETY: as above.
                        let archive = unsafe { Archive::from_bytes(bytes) };
                        linker.add(&archive, "callee").unwrap();
                    }
                }
            }
            let linked = linker.complete().unwrap();
            let module = Module::load(&fixture.context, &linked.cubin).unwrap();
            check_module(
                &fixture,
                &module,
                &format!("{kind:?}, from a file: {is_file}"),
            );
        }
    }
}

#[test]
fn cubins_of_the_runtime_compiler_are_linked() {
    let Some(nvrtc) = nvrtc() else { return };
    let fixture = gpu();
    let options = |fixture: &Fixture| {
        let arch = fixture.context.device().arch().unwrap();
        Options::new().arch(arch).relocatable(true)
    };
    let cubin = |source: &str, fixture: &Fixture| {
        let program = Program::new(&nvrtc, source);
        program.compile_cubin(&options(fixture)).unwrap().image
    };
    if let Some(fixture) = &fixture {
        let mut linker = Linker::new(&fixture.context, &JitOptions::new()).unwrap();
        linker.add(&cubin(CALLER, fixture), "caller").unwrap();
        linker.add(&cubin(CALLEE, fixture), "callee").unwrap();
        let linked = linker.complete().unwrap();
        let module = Module::load(&fixture.context, &linked.cubin).unwrap();
        check_module(fixture, &module, "cubins");
    }
    // The software device names the kinds of image that it does not support.
    let software = software(Builder::new());
    let whole = Program::new(&nvrtc, format!("{CALLEE}{CALLER}"));
    let arch = software.context.device().arch().unwrap();
    let whole = whole
        .compile_cubin(&Options::new().arch(arch))
        .unwrap()
        .image;
    let error = Module::load(&software.context, &whole).unwrap_err();
    let Error::Jit(jit) = &error else {
        panic!("{error}")
    };
    assert!(jit.to_string().contains("PTX"), "{error}");
    let mut linker = Linker::new(&software.context, &JitOptions::new()).unwrap();
    let caller = cubin(CALLER, &software);
    let error = linker.add(&caller, "caller").unwrap_err();
    assert!(error.to_string().contains("links PTX only"), "{error}");
}
