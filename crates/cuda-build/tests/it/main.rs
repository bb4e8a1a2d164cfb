//! Generating code from CUDA C++ with the NVRTC of this machine, and without one.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use cuda_build::{Arch, Error, Kernels};
use cuda_nvrtc::Nvrtc;

mod without;

/// A folder with source files, which also receives the generated files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn kernels(&self, source: &str) -> Kernels {
        Kernels::new(self.path(source))
            .out_dir(self.path(""))
            .cargo_metadata(false)
    }

    /// Generates code from the source `k.cu`, and returns it.
    fn generate(&self, set: impl FnOnce(Kernels) -> Kernels) -> Result<String, Error> {
        set(self.kernels("k.cu")).generate()?;
        let code = fs::read_to_string(self.path("k.rs")).unwrap();
        Ok(code
            .replace("::cuda_driver::launch::", "")
            .replace("::cuda_driver::", ""))
    }
}

/// Returns whether this machine has NVRTC. If not, reports that the test is skipped.
fn has_nvrtc() -> bool {
    test_needs::found("NVRTC", Nvrtc::load()).is_some()
}

/// Runs the test `child` of this program in its own process, and returns its output.
fn run(program: &Path, child: &str, folder: &Folder, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command
        .args(["--exact", child, "--ignored", "--nocapture"])
        .env("CARGO_MANIFEST_DIR", folder.path(""))
        .env("OUT_DIR", folder.path(""))
        .env_remove("CUDA_BUILD_UPDATE")
        .envs(variables.iter().copied());
    let output = loop {
        match command.output() {
            // A process that another thread has just started still has the copy of the program open
            // for writing, until it executes its own program.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            output => break output.unwrap(),
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text.into_owned()
}

const ALL_TYPES: &str = r#"
#include "params.h"
extern "C" __global__ void scale(float *x, float a, unsigned n, const double *__restrict__ d) {}
extern "C" __global__ void none() {}
__global__ void plain(const float4 *from, Params p, long long m) {}
namespace ns {
    template <typename T> struct Of { typedef T Element; };
    template <typename T> __global__ void copy(const typename Of<T>::Element *from, T *to) {}
}
static __global__ void match(const volatile int *x, bool flag) {}
namespace {
    template <int N> __global__ void hidden(int (*x)[N]) {}
    template __global__ void hidden<3>(int (*)[3]);
}
template __global__ void ns::copy<double>(const double *, double *);
"#;

#[test]
fn each_kernel_has_a_method_with_its_types() {
    if !has_nvrtc() {
        return;
    }
    let params = "namespace lib { struct P { float a; int b; }; }\nusing Params = lib::P;\n";
    let folder = Folder::new(&[("k.cu", ALL_TYPES), ("params.h", params)]);
    let code = folder.generate(|kernels| {
        kernels
            .rust_type("lib::P", "crate::Params")
            .rust_type("int[3]", "[i32; 3]")
            .rust_name("(anonymous namespace)::hidden<3>", "hidden")
            .kernel("ns::copy<unsigned char>")
            .rust_name("ns::copy<unsigned char>", "copy_bytes")
    });
    let code = code.unwrap();
    for expected in [
        "/// Returns the kernel `scale(float *, float, unsigned int, const double *)`.",
        "pub fn scale(&self) -> Result<Kernel<(Writes<f32>, f32, u32, Reads<f64>)>> {\n        \
         self.module.function(\"scale\")?.typed()",
        "pub fn none(&self) -> Result<Kernel<()>> {",
        "pub fn plain(&self) -> Result<Kernel<(Reads<vector::Float4>, crate::Params, i64)>> {",
        "/// Returns the kernel `ns::copy<unsigned char>(const unsigned char *, unsigned char *)`.",
        "pub fn copy_bytes(&self) -> Result<Kernel<(Reads<u8>, Writes<u8>)>> {",
        "pub fn hidden(&self) -> Result<Kernel<(Writes<[i32; 3]>,)>> {",
        "pub fn r#match(&self) -> Result<Kernel<(Reads<i32>, u8)>> {",
        "pub fn scale(&self) -> Result<safe::TypedSafeKernel<(Writes<f32>, f32, u32, Reads<f64>)>> \
         {\n        self.module.kernel(\"scale\")?.typed()",
    ] {
        assert!(code.contains(expected), "{expected}\n{code}");
    }
}

/// The name of this kernel in the image contains `typename Of<T>::Element`, not its type.
#[test]
fn an_explicit_instance_of_a_template_is_typed() {
    if !has_nvrtc() {
        return;
    }
    let folder = Folder::new(&[("k.cu", ALL_TYPES), ("params.h", "struct Params {};")]);
    let code = folder
        .generate(|kernels| kernels.untyped("plain").rust_type("int[3]", "[i32; 3]"))
        .unwrap();
    for expected in [
        "pub fn ns_copy_double(&self) -> Result<Kernel<(Reads<f64>, Writes<f64>)>> {",
        "pub fn plain(&self) -> Result<Function> {",
        "pub fn plain(&self) -> Result<safe::SafeKernel> {",
    ] {
        assert!(code.contains(expected), "{expected}\n{code}");
    }
}

#[test]
fn an_unknown_parameter_type_is_an_error_that_names_it() {
    if !has_nvrtc() {
        return;
    }
    let source = "struct Params { float a; };\n\
                  extern \"C\" __global__ void scale(float *x, const Params *p, int n) {}\n";
    let folder = Folder::new(&[("k.cu", source)]);
    let error = folder.generate(|kernels| kernels).unwrap_err();
    let file = folder.path("k.cu").display().to_string();
    let expected = format!(
        "{file}: the kernel scale has the parameter list (float *, const Params *, int), and the \
         type of parameter 2, `Params`, has no Rust type.\nName one with \
         Kernels::rust_type(\"Params\", \"crate::…\"), or leave the kernel without a signature with \
         Kernels::untyped(\"scale\")."
    );
    assert_eq!(error.to_string(), expected);
    // `main` of a build script prints `Debug`.
    assert_eq!(format!("{error:?}"), expected);
    assert!(!folder.path("k.rs").exists());
}

#[test]
fn wrong_names_and_empty_sources_are_errors() {
    if !has_nvrtc() {
        return;
    }
    let many = format!("__global__ void many({}int last) {{}}", "int, ".repeat(16));
    for (source, set, expected) in [
        (
            "__device__ int x;",
            (|kernels| kernels) as fn(Kernels) -> Kernels,
            "k.cu has no kernel: add a `__global__` function",
        ),
        (
            "__global__ void a() {}\n__global__ void b() {}",
            |kernels| kernels.untyped("c"),
            "k.cu has no kernel \"c\", which untyped names; it has b, a",
        ),
        (
            "__device__ int x;\n__global__ void a() {}",
            |kernels| kernels.kernel("&x"),
            "k.cu has no kernel \"&x\", which kernel names; it has a",
        ),
        (
            "__global__ void load() {}",
            |kernels| kernels,
            "load would be the name of two methods, one of them for the kernel load",
        ),
        (
            "__global__ void a(int) {}\n__global__ void a(float) {}",
            |kernels| kernels,
            "a would be the name of two methods",
        ),
        (
            &many,
            |kernels| kernels,
            "the kernel many has 17 parameters, and a typed kernel at most 16",
        ),
        (
            "__global__ void a() { no }",
            |kernels| kernels,
            "identifier \"no\" is undefined",
        ),
    ] {
        let error = Folder::new(&[("k.cu", source)]).generate(set).unwrap_err();
        let text = error.to_string();
        let sorted = expected.replace("it has b, a", "it has a, b");
        assert!(
            text.contains(expected) || text.contains(&sorted),
            "{expected}\n{text}"
        );
    }
    let error = Folder::new(&[]).generate(|kernels| kernels).unwrap_err();
    assert!(error.to_string().starts_with("cannot read "), "{error}");
}

#[test]
fn each_architecture_has_an_image() {
    if !has_nvrtc() {
        return;
    }
    let source = "#if __CUDA_ARCH__ >= 900\n\
                  extern \"C\" __global__ void newer(int *x) {}\n\
                  #endif\n\
                  extern \"C\" __global__ void both(float *x) { *x = FACTOR; }\n";
    let folder = Folder::new(&[("k.cu", source)]);
    let code = folder.generate(|kernels| {
        kernels
            .define("FACTOR", 3)
            .arch(Arch::compute(8, 0))
            .arch(Arch::sm(8, 6))
            .arch(Arch::sm(9, 0))
    });
    let code = code.unwrap();
    let elf = fs::read(folder.path("k.sm_90.cubin")).unwrap();
    assert!(elf.starts_with(b"\x7fELF"));
    let ptx = fs::read_to_string(folder.path("k.compute_80.ptx")).unwrap();
    assert!(
        ptx.contains(".target sm_80") && !ptx.contains("newer"),
        "{ptx}"
    );
    assert!(
        ptx.contains("1077936128"),
        "the bits of 3.0 are not in\n{ptx}"
    );
    assert!(!ptx.contains("cuda_build_signature"), "{ptx}");
    // Machine code comes before PTX, and newer machine code first.
    let at = |text: &str| code.find(text).unwrap_or_else(|| panic!("{text}\n{code}"));
    assert!(at("if device.0 == 9 {") < at("if device.0 == 8 && device.1 >= 6 {"));
    assert!(at("if device.0 == 8 && device.1 >= 6 {") < at("if device >= (8, 0) {"));
    assert!(code.contains("pub const SM_86: &[u8] = include_bytes!(\"k.sm_86.cubin\");"));
    // Safe launches need PTX, and use nothing else.
    let safe = &code[at("pub struct SafeKernels {")..];
    assert!(
        safe.contains("if device >= (8, 0) {") && !safe.contains("Cubin"),
        "{safe}"
    );
    let machine_code = folder.generate(|kernels| kernels.define("FACTOR", 3).arch(Arch::sm(9, 0)));
    assert!(!machine_code.unwrap().contains("SafeKernels"));
    // A kernel that only some architectures have.
    assert!(
        code.contains("pub fn newer(&self) -> Result<Kernel<(Writes<i32>,)>> {"),
        "{code}"
    );
    assert!(
        code.contains("pub fn both(&self) -> Result<Kernel<(Writes<f32>,)>> {"),
        "{code}"
    );
}

#[test]
fn a_change_of_any_header_runs_the_build_script_again() {
    if !has_nvrtc() {
        return;
    }
    let folder = Folder::new(&[
        ("k.cu", "#include \"a.h\"\n__global__ void k() {}\n"),
        ("a.h", "#include <b.h>\n#include <cuda_fp16.h>\n"),
        ("b.h", ""),
        ("c.h", ""),
    ]);
    let text = run(&env::current_exe().unwrap(), "without::child", &folder, &[]);
    let changed = |name: &str| {
        let line = format!("cargo::rerun-if-changed={}\n", folder.path(name).display());
        text.contains(&line)
    };
    assert!(changed("k.cu"), "{text}");
    assert!(
        text.contains("cargo::rerun-if-env-changed=CUDA_NVRTC_LIBRARY\n"),
        "{text}"
    );
    if cfg!(unix) {
        assert!(
            changed("a.h") && changed("b.h") && !changed("c.h"),
            "{text}"
        );
    } else {
        assert!(changed(""), "{text}");
    }
    if cfg!(unix) && text.contains("generated") {
        assert!(text.contains("/cuda_fp16.h\n"), "{text}");
    }
}
