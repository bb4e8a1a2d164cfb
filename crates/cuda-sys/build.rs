//! Generates the bindings from the CUDA header of this machine, or chooses the committed snapshot.
//!
//! The script writes only to `OUT_DIR` and does not use the network.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The source of the bindings, which the public constant `BINDINGS` reports.
enum Choice {
    #[cfg(feature = "bindgen")]
    Header {
        version: u32,
    },
    Snapshot {
        reason: String,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/generated");
    println!("cargo::rustc-check-cfg=cfg(cuda_header, cuda_header_nvrtc)");
    // The tests compile C for the same target.
    println!("cargo::rustc-env=CUDA_SYS_TARGET={}", env::var("TARGET")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let choice = choose(&out)?;
    let snapshot = snapshot_version()?;
    let (version, text, files) = match choice {
        #[cfg(feature = "bindgen")]
        Choice::Header { version } => {
            println!("cargo::rustc-cfg=cuda_header");
            (
                version.max(snapshot),
                format!("Source::Header {{ version: Version::new({version}) }}"),
                out.clone(),
            )
        }
        Choice::Snapshot { reason } => (
            snapshot,
            format!("Source::Snapshot {{ reason: {reason:?} }}"),
            env::current_dir()?.join("src/generated"),
        ),
    };
    println!("cargo::metadata=VERSION={version}");
    // The file with the table of driver functions, for crates that generate code for the same
    // functions.
    println!("cargo::metadata=TABLE={}", files.join("table.rs").display());
    let text = format!("Bindings {{ version: Version::new({version}), source: {text} }}");
    fs::write(out.join("source.rs"), text)?;
    Ok(())
}

/// `CUDA_VERSION` of the header that the snapshot was made from.
fn snapshot_version() -> Result<u32, Box<dyn std::error::Error>> {
    let text = fs::read_to_string("src/generated/driver.rs")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("pub const CUDA_VERSION: u32 = "))
        .ok_or("the snapshot has no CUDA_VERSION")?;
    Ok(line.trim_end_matches(';').parse()?)
}

#[cfg(not(feature = "bindgen"))]
fn choose(_out: &Path) -> Result<Choice, String> {
    Ok(Choice::Snapshot {
        reason: "the feature `bindgen` is off".to_owned(),
    })
}

/// Generates from a header, or falls back to the snapshot. If the user named a header that cannot
/// be used, that is an error.
#[cfg(feature = "bindgen")]
fn choose(out: &Path) -> Result<Choice, String> {
    use cuda_bindgen::headers::{HEADERS_VAR, named};

    for variable in [
        HEADERS_VAR,
        "CUDA_PATH",
        "CUDA_HOME",
        "LIBCLANG_PATH",
        "LLVM_CONFIG_PATH",
        "CLANG_PATH",
        "BINDGEN_EXTRA_CLANG_ARGS",
        "DOCS_RS",
    ] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let snapshot = |reason: &str| {
        Ok(Choice::Snapshot {
            reason: reason.to_owned(),
        })
    };
    if env::var_os("DOCS_RS").is_some() {
        return snapshot("docs.rs builds from the snapshot");
    }
    if env::var_os("TARGET") != env::var_os("HOST") {
        if named().is_some() {
            println!("cargo::warning={HEADERS_VAR} is ignored: a cross build uses the snapshot");
        }
        return snapshot("a cross build uses the snapshot");
    }
    match (generate(out), named()) {
        (Ok(version), _) => Ok(Choice::Header { version }),
        (Err(reason), None) => Ok(Choice::Snapshot { reason }),
        (Err(reason), Some(dir)) => Err(format!(
            "{HEADERS_VAR} is set to {}, which cannot be used: {reason}. Set it to a folder with the \
             cuda.h of CUDA 13.0 or newer, or unset it to search the usual places and fall back to \
             the snapshot of the bindings.",
            dir.display()
        )),
    }
}

/// The oldest header that has what the safe layer uses.
#[cfg(feature = "bindgen")]
const OLDEST: u32 = 13000;

/// Generates into `out` and returns the header's version, or the reason why it cannot be used.
#[cfg(feature = "bindgen")]
fn generate(out: &Path) -> Result<u32, String> {
    use cuda_bindgen::headers::{find, setup_libclang};
    use cuda_bindgen::{joined, libclang_is_available};

    // A header that exists and is not used deserves a warning.
    let warn = |reason: String| {
        println!("cargo::warning=cuda-sys does not use the CUDA header of this machine: {reason}");
        reason
    };
    let headers = find(out)?;
    for file in headers.files() {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let (version, dir) = (headers.version(), headers.dir().display());
    if version < OLDEST {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(warn(format!(
            "the header in {dir} is of CUDA {major}.{minor}, older than 13.0"
        )));
    }
    if env::var_os("LIBCLANG_PATH").is_none()
        && let Some(lib) = setup_libclang(out).map_err(|error| warn(error.to_string()))?
    {
        // SAFETY: `set_var` needs that no other thread reads the environment ← this build script
        // has started none.
        unsafe { env::set_var("LIBCLANG_PATH", lib) };
    }
    if !libclang_is_available() {
        return Err(warn(format!(
            "libclang, which reads the header in {dir}, was not found"
        )));
    }
    let files = joined(&headers, Path::new("src/generated")).map_err(|e| warn(e.to_string()))?;
    for (name, text) in files {
        fs::write(out.join(name), text).map_err(|e| warn(format!("{name}: {e}")))?;
    }
    if headers.has_nvrtc() {
        println!("cargo::rustc-cfg=cuda_header_nvrtc");
    }
    println!("cargo::rustc-env=CUDA_SYS_INCLUDE={dir}");
    Ok(version)
}
