//! Runs bindgen over the headers.

use std::path::PathBuf;

use bindgen::{Builder, EnumVariation};

use crate::{Docs, Error, Headers};

/// Returns whether libclang can be loaded. bindgen panics if it cannot.
#[must_use]
pub fn libclang_is_available() -> bool {
    clang_sys::is_loaded() || clang_sys::load().is_ok()
}

/// Runs bindgen on `cuda.h` and its companions. Each revision of each function has its exported
/// name.
///
/// Without `__CUDA_API_VERSION_INTERNAL` the macros of `cuda.h` rename functions to the newest
/// revision, which differs between toolkits.
pub(crate) fn driver(headers: &Headers, docs: Docs) -> Result<String, Error> {
    let includes = "#include <cuda.h>\n#include <cudaTypedefs.h>\n\
                    #include <cudaProfiler.h>\n#include <cudaProfilerTypedefs.h>\n";
    run(builder(headers, includes, docs)
        .clang_arg("-D__CUDA_API_VERSION_INTERNAL")
        .allowlist_file(".*[/\\\\]cuda(Profiler)?(Typedefs)?\\.h"))
}

/// Runs bindgen on `nvrtc.h`.
pub(crate) fn nvrtc(headers: &Headers, docs: Docs) -> Result<String, Error> {
    run(builder(headers, "#include <nvrtc.h>\n", docs).allowlist_file(".*[/\\\\]nvrtc\\.h"))
}

fn builder(headers: &Headers, includes: &str, docs: Docs) -> Builder {
    let mut builder = bindgen::builder()
        .header_contents("wrapper.h", includes)
        .clang_arg(format!("-I{}", headers.dir().display()))
        .use_core()
        .ctypes_prefix("::core::ffi")
        .default_enum_style(EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .bitfield_enum(".*[Ff]lags.*")
        .prepend_enum_name(false)
        .generate_comments(docs == Docs::FromHeader)
        .generate_cstr(true)
        .layout_tests(true)
        .derive_debug(true)
        .formatter(bindgen::Formatter::None);
    // A libclang without clang's own headers, such as the one from PyPI, uses the C compiler's
    // stddef.h.
    if let Some(dir) = compiler_include_dir() {
        builder = builder
            .clang_arg("-isystem")
            .clang_arg(dir.display().to_string());
    }
    builder
}

fn run(builder: Builder) -> Result<String, Error> {
    if !libclang_is_available() {
        return Err(Error::Bindgen("libclang is not available".to_owned()));
    }
    builder
        .generate()
        .map(|bindings| bindings.to_string())
        .map_err(|error| Error::Bindgen(error.to_string()))
}

/// Returns the folder of the C compiler's own headers.
fn compiler_include_dir() -> Option<PathBuf> {
    let target = std::env::var("TARGET").unwrap_or_else(|_| clang_target().to_owned());
    let compiler = cc::Build::new()
        .cargo_metadata(false)
        .opt_level(0)
        .debug(false)
        .host(&target)
        .target(&target)
        .try_get_compiler()
        .ok()?;
    let output = compiler
        .to_command()
        .arg("-print-file-name=include")
        .output()
        .ok()?;
    let dir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (output.status.success() && dir.is_absolute()).then_some(dir)
}

/// Returns the target for which this crate was built, for callers other than build scripts.
const fn clang_target() -> &'static str {
    if cfg!(target_os = "windows") {
        "x86_64-pc-windows-msvc"
    } else if cfg!(target_os = "macos") {
        "aarch64-apple-darwin"
    } else if cfg!(target_arch = "aarch64") {
        "aarch64-unknown-linux-gnu"
    } else {
        "x86_64-unknown-linux-gnu"
    }
}
