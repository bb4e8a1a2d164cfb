//! The errors of this crate. Each message names the cause and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why the kernels of a file could not be generated.
///
/// `Debug` prints the same text as `Display`, because `main` of a build script prints `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    File {
        /// The attempted operation: `read` or `write`.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An environment variable that cargo sets for build scripts is not set.
    #[error("{name} is not set: call this from a build script, or set the folder with out_dir")]
    NotInBuildScript {
        /// The environment variable.
        name: &'static str,
    },
    /// NVRTC was not found, and no PTX is committed.
    #[error(
        "{file} cannot be compiled, because {source}\nTo build without NVRTC, commit the PTX and \
         name its file with Kernels::committed_ptx."
    )]
    NoNvrtc {
        /// The source file.
        file: String,
        /// The places that were searched.
        source: cuda_nvrtc::Error,
    },
    /// The source did not compile, or NVRTC does not support an architecture or option.
    #[error(transparent)]
    Nvrtc(#[from] cuda_nvrtc::Error),
    /// The committed PTX was not written by this crate, or is incomplete.
    #[error(
        "{} has no list of kernels from cuda-build; to write the file, build with \
         CUDA_BUILD_UPDATE=1 on a machine with NVRTC",
        .path.display()
    )]
    CommittedPtx {
        /// The path of the file.
        path: PathBuf,
    },
    /// The source has no kernel.
    #[error(
        "{file} has no kernel: add a `__global__` function, or name the instances of a template \
         with Kernels::kernel, such as \"scale<float>\""
    )]
    NoKernels {
        /// The source file.
        file: String,
    },
    /// An option names a kernel that the source does not have.
    #[error("{file} has no kernel {kernel:?}, which {option} names; it has {}", .kernels.join(", "))]
    NoSuchKernel {
        /// The source file.
        file: String,
        /// The name that was given.
        kernel: String,
        /// The option.
        option: &'static str,
        /// The kernels of the source.
        kernels: Vec<String>,
    },
    /// A parameter of a kernel has a type that this crate does not know.
    #[error(
        "{file}: the kernel {kernel} has the parameter list ({parameters}), and the type of \
         parameter {number}, `{cpp}`, has no Rust type.\nName one with \
         Kernels::rust_type(\"{cpp}\", \"crate::…\"), or leave the kernel without a signature with \
         Kernels::untyped(\"{kernel}\")."
    )]
    UnknownType {
        /// The source file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The types of its parameters in C++.
        parameters: String,
        /// The number of the parameter, counted from 1.
        number: usize,
        /// The C++ type that has no Rust type.
        cpp: String,
    },
    /// A kernel has more parameters than a typed kernel can have.
    #[error(
        "{file}: the kernel {kernel} has {count} parameters, and a typed kernel at most {limit}; \
         leave it without a signature with Kernels::untyped(\"{kernel}\")"
    )]
    TooManyParameters {
        /// The source file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        count: usize,
        /// The largest number of parameters.
        limit: usize,
    },
    /// The type of a kernel cannot be read from its mangled name.
    #[error(
        "{file}: the type of the kernel {kernel} cannot be read from {mangled}; leave it without a \
         signature with Kernels::untyped(\"{kernel}\")"
    )]
    Unreadable {
        /// The source file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The mangled name.
        mangled: String,
    },
    /// Two methods would have the same name.
    #[error(
        "{file}: {name} would be the name of two methods, one of them for the kernel {kernel}; set \
         another one with Kernels::rust_name(\"{kernel}\", …)"
    )]
    NameTaken {
        /// The source file.
        file: String,
        /// The kernel.
        kernel: String,
        /// The name of the method.
        name: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
