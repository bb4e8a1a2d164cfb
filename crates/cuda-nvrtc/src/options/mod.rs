//! Compiler options. The documentation of each option that is newer than NVRTC 12.0 names the
//! version that introduced it.

use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use cuda_sys::Version;

use crate::{Arch, CancelToken, CudaHeaders, Error};

mod known;
mod values;

pub use known::{NEWER_OPTIONS, NewerOption};
pub use values::{CppStandard, FastCompile, WarningKind};

/// The default stack size of the compiler in bytes ([`Options::stack_size`]). This is virtual
/// memory, of which only the used part is committed.
pub(crate) const STACK: usize = 256 << 20;

/// The smallest stack size of the compiler in bytes, whatever is requested.
const SMALLEST_STACK: usize = 8 << 20;

/// Options for the compilation of a [`Program`](crate::Program).
///
/// If an option is set twice, the last value is used. Options that add to a list (defines, folders,
/// numbers of warnings, raw options) keep all values. If the loaded NVRTC is too old for an option,
/// the compilation fails with [`Error::OptionTooNew`].
///
/// ```
/// use cuda_nvrtc::{Arch, CppStandard, Options};
///
/// let options = Options::new()
///     .arch(Arch::sm(9, 0))
///     .std(CppStandard::Cpp17)
///     .define("TILE", 32)
///     .fast_math(true);
/// assert_eq!(
///     options.to_strings(),
///     ["--gpu-architecture=sm_90", "--std=c++17", "--define-macro=TILE=32", "--use_fast_math"]
/// );
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    arch: Option<Arch>,
    items: Vec<Item>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<CancelToken>,
    stack: Option<usize>,
}

/// One option: `name`, or `name=value`.
#[derive(Clone, Debug)]
struct Item {
    name: &'static str,
    /// Bytes, because a path need not be UTF-8.
    text: Vec<u8>,
}

const RAW: &str = "";

const UNCHECKED: &str = "unchecked";

impl Options {
    /// Creates options with NVRTC's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// `--gpu-architecture`—Sets the architecture to compile for. Without it NVRTC writes PTX for
    /// the oldest architecture that it supports. A cubin always requires a real architecture.
    #[doc(alias = "gpu-architecture")]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = Some(arch);
        self
    }

    /// `--std`—Sets the C++ standard. NVRTC's default is C++17.
    pub fn std(self, standard: CppStandard) -> Self {
        self.value("--std", standard.as_str())
    }

    /// `--use_fast_math`—Generates fast but less exact code: flushes denormals, approximates
    /// division and square root, contracts multiplications with additions, and uses the fast
    /// variants of `sinf`, `expf` and similar functions.
    pub fn fast_math(self, on: bool) -> Self {
        self.flag("--use_fast_math", on)
    }

    /// `--ftz`—Flushes single-precision denormals to zero.
    pub fn ftz(self, on: bool) -> Self {
        self.value("--ftz", on)
    }

    /// `--prec-div`—Sets whether single-precision division is rounded as IEEE requires (the
    /// default).
    pub fn prec_div(self, on: bool) -> Self {
        self.value("--prec-div", on)
    }

    /// `--prec-sqrt`—Sets whether the single-precision square root is rounded as IEEE requires (the
    /// default).
    pub fn prec_sqrt(self, on: bool) -> Self {
        self.value("--prec-sqrt", on)
    }

    /// `--fmad`—Sets whether multiplications and additions are contracted (the default).
    pub fn fmad(self, on: bool) -> Self {
        self.value("--fmad", on)
    }

    /// `--ffinite-math-only`—Assumes that no value is a NaN or infinite. NVRTC 13.4.
    pub fn finite_math_only(self, on: bool) -> Self {
        self.flag("--ffinite-math-only", on)
    }

    /// `--fno-signed-zeros`—Ignores the sign of zero. NVRTC 13.4.
    pub fn no_signed_zeros(self, on: bool) -> Self {
        self.flag("--fno-signed-zeros", on)
    }

    /// `--extra-device-vectorization`—Vectorises more.
    pub fn extra_vectorization(self, on: bool) -> Self {
        self.flag("--extra-device-vectorization", on)
    }

    /// `--maxrregcount`—Limits the registers per thread. Values that do not fit in them are spilled
    /// to local memory.
    pub fn max_registers(self, registers: u32) -> Self {
        self.value("--maxrregcount", registers)
    }

    /// `--ptxas-options=--maxntid`—Sets the maximum number of threads per block for kernels without
    /// launch bounds. Affects only a cubin; the assembler of NVRTC 12.0 to 12.3 may not know the
    /// option.
    pub fn max_threads_per_block(self, threads: u32) -> Self {
        self.ptxas(&format!("--maxntid={threads}"))
    }

    /// `--ptxas-options=--opt-level`—Sets the assembler's optimization level for a cubin, 0 to 3
    /// (its default).
    pub fn ptxas_opt_level(self, level: u32) -> Self {
        self.ptxas(&format!("--opt-level={level}"))
    }

    /// `--ptxas-options`—Adds one option for the assembler, which generates the cubin.
    pub fn ptxas(self, option: &str) -> Self {
        self.add("--ptxas-options", option)
    }

    /// `--Ofast-compile`—Compiles faster at the cost of slower code. NVRTC 12.5.
    #[doc(alias = "Ofc")]
    pub fn fast_compile(self, level: FastCompile) -> Self {
        self.value("--Ofast-compile", level.as_str())
    }

    /// `--split-compile`—Sets the maximum number of threads for optimizing and assembling; 0 means
    /// one per core. The output depends on this number.
    pub fn split_compile(self, threads: u32) -> Self {
        self.value("--split-compile", threads)
    }

    /// `--generate-line-info`—Adds line information, which relates the code to source lines for
    /// profilers.
    #[doc(alias = "lineinfo")]
    pub fn line_info(self, on: bool) -> Self {
        self.flag("--generate-line-info", on)
    }

    /// `--device-debug`—Generates debug code: all variables are visible, and nothing is optimized.
    pub fn debug(self, on: bool) -> Self {
        self.flag("--device-debug", on)
    }

    /// `--dopt=on`—Optimizes debug code.
    pub fn optimize_debug(self, on: bool) -> Self {
        let options = self.remove("--dopt");
        if on {
            options.value("--dopt", "on")
        } else {
            options
        }
    }

    /// `--relocatable-device-code`—Leaves references to functions and variables for the linker.
    pub fn relocatable(self, on: bool) -> Self {
        self.value("--relocatable-device-code", on)
    }

    /// `--define-macro`—Defines a macro with a value.
    pub fn define(self, name: &str, value: impl ToString) -> Self {
        self.add("--define-macro", format!("{name}={}", value.to_string()))
    }

    /// `--define-macro`—Defines a macro without a value; NVRTC then defines it as 1.
    pub fn define_flag(self, name: &str) -> Self {
        self.add("--define-macro", name)
    }

    /// `--undefine-macro`—Removes the definition of a macro.
    pub fn undefine(self, name: &str) -> Self {
        self.add("--undefine-macro", name)
    }

    /// `--include-path`—Adds a folder in which `#include` looks after the program's in-memory
    /// headers.
    pub fn include_dir(self, dir: impl AsRef<Path>) -> Self {
        self.add(
            "--include-path",
            dir.as_ref().as_os_str().as_encoded_bytes(),
        )
    }

    /// Returns the folders in which headers are searched for.
    pub(crate) fn include_paths(&self) -> Vec<String> {
        let options = self.to_strings();
        let paths = options.iter().enumerate().filter_map(|(at, option)| {
            let joined = ["--include-path=", "-I"]
                .iter()
                .find_map(|name| option.strip_prefix(name));
            match joined {
                Some("") => options.get(at + 1).map(String::as_str),
                None if option == "--include-path" => options.get(at + 1).map(String::as_str),
                joined => joined,
            }
        });
        paths.map(ToOwned::to_owned).collect()
    }

    /// `--include-path`—Adds the folders of CUDA's headers.
    pub fn cuda_headers(mut self, headers: &CudaHeaders) -> Self {
        for dir in headers.dirs() {
            self = self.include_dir(dir);
        }
        self
    }

    /// `--pre-include`—Includes a header before the source.
    pub fn pre_include(self, header: &str) -> Self {
        self.add("--pre-include", header)
    }

    /// `--no-source-include`—Does not search the folder of the program's name for headers.
    pub fn no_source_include(self, on: bool) -> Self {
        self.flag("--no-source-include", on)
    }

    /// `--disable-warnings`—Disables all warnings.
    pub fn disable_warnings(self, on: bool) -> Self {
        self.flag("--disable-warnings", on)
    }

    /// `--diag-suppress`—Suppresses the warning with this number.
    pub fn suppress_warning(self, number: u32) -> Self {
        self.add("--diag-suppress", number.to_string())
    }

    /// `--diag-error`—Turns the warning with this number into an error.
    pub fn warning_to_error(self, number: u32) -> Self {
        self.add("--diag-error", number.to_string())
    }

    /// `--diag-warn`—Turns the remark or error with this number into a warning, where that is
    /// possible.
    pub fn error_to_warning(self, number: u32) -> Self {
        self.add("--diag-warn", number.to_string())
    }

    /// `--warning-as-error`—Turns warnings of this kind into errors. NVRTC 13.1.
    #[doc(alias = "Werror")]
    pub fn warnings_as_errors(self, kind: WarningKind) -> Self {
        self.add("--warning-as-error", kind.as_str())
    }

    /// `--brief-diagnostics`—Omits the source line from each diagnostic in the log. NVRTC 12.1.
    pub fn brief_diagnostics(self, on: bool) -> Self {
        self.value("--brief-diagnostics", on)
    }

    /// `--fmax-errors`—Stops after this number of errors. NVRTC 13.4.
    pub fn max_errors(self, errors: u32) -> Self {
        self.value("--fmax-errors", errors)
    }

    /// `--restrict`—Assumes that no two pointer parameters of a kernel alias.
    pub fn restrict(self, on: bool) -> Self {
        self.flag("--restrict", on)
    }

    /// `--device-as-default-execution-space`—Treats functions without an annotation as
    /// `__device__`.
    pub fn default_device(self, on: bool) -> Self {
        self.flag("--device-as-default-execution-space", on)
    }

    /// `--device-int128`—Allows `__int128`.
    pub fn int128(self, on: bool) -> Self {
        self.flag("--device-int128", on)
    }

    /// `--device-float128`—Allows `__float128`, for `sm_100` and newer. NVRTC 12.6.
    pub fn float128(self, on: bool) -> Self {
        self.flag("--device-float128", on)
    }

    /// `--minimal`—Omits built-in declarations that few kernels need, which reduces the compile
    /// time. NVRTC 12.4.
    pub fn minimal(self, on: bool) -> Self {
        self.flag("--minimal", on)
    }

    /// `--pch`—Creates and uses precompiled headers, for this process only. NVRTC 13.0.
    ///
    /// NVRTC stores them in a new folder that only this user can access, in the folder for
    /// temporary files, and deletes it when the process ends. NVRTC 12.8 and 12.9 use the current
    /// folder; with them, the compilation fails with [`Error::SharedPchFolder`] unless
    /// [`precompiled_headers_dir`](Self::precompiled_headers_dir) names another one.
    pub fn precompiled_headers(self, on: bool) -> Self {
        self.flag("--pch", on)
    }

    /// `--pch-dir`—Sets the folder for precompiled headers. NVRTC 12.8.
    ///
    /// NVRTC does not delete the files. A process can use only those that it created itself,
    /// because they contain addresses.
    ///
    /// # Safety
    ///
    /// NVRTC maps the files of this folder as its memory and trusts their content. From the first
    /// compilation with this option until the process ends,
    ///
    /// - only NVRTC writes or deletes the files in the folder whose names end in `.pch`, and it
    ///   creates all of them;
    /// - no other process compiles with this folder, and other users cannot write to it.
    pub unsafe fn precompiled_headers_dir(self, dir: impl AsRef<Path>) -> Self {
        self.replace("--pch-dir", dir.as_ref().as_os_str().as_encoded_bytes())
    }

    /// `--time=-`—Writes a table of the time of each phase, as CSV, into the log. NVRTC 12.1.
    pub fn time_report(self, on: bool) -> Self {
        let options = self.remove("--time");
        if on {
            options.value("--time", "-")
        } else {
            options
        }
    }

    /// `--no-cache`—Does not use the driver's cache, in which NVRTC stores compilations. NVRTC
    /// 12.9.
    pub fn no_cache(self, on: bool) -> Self {
        self.flag("--no-cache", on)
    }

    /// `--enable-tile`—Allows tile kernels. NVRTC 13.3.
    pub fn tile(self, on: bool) -> Self {
        self.flag("--enable-tile", on)
    }

    /// Adds one option verbatim. The version check of a newer option applies as it does for its
    /// method. An architecture is set as by [`arch`](Self::arch).
    ///
    /// With `--pch-dir`, `--create-pch` or `--use-pch`, the compilation fails with
    /// [`Error::UnsafeOption`]. Options that write files are not refused: `--time=FILE`,
    /// `--fdevice-time-trace=FILE` and `--use-bundled-headers=FOLDER`.
    pub fn raw(self, option: impl AsRef<str>) -> Self {
        let option = option.as_ref();
        let arch = ["--gpu-architecture=", "-arch="]
            .iter()
            .find_map(|name| option.strip_prefix(name)?.parse().ok());
        match arch {
            Some(arch) => self.arch(arch),
            None => self.push(RAW, option.as_bytes().to_vec()),
        }
    }

    /// Adds one option verbatim, as [`raw`](Self::raw) does, also one for the files of precompiled
    /// headers.
    ///
    /// # Safety
    ///
    /// - For `--pch-dir=FOLDER`, the rules of
    ///   [`precompiled_headers_dir`](Self::precompiled_headers_dir) hold.
    /// - For `--use-pch=FILE`, NVRTC created the file in this process through `--create-pch`, and
    ///   it has not changed since, and does not change until the process ends.
    pub unsafe fn raw_unchecked(self, option: impl AsRef<str>) -> Self {
        self.push(UNCHECKED, option.as_ref().as_bytes().to_vec())
    }

    /// Sets the time limit, after which compilation fails with [`Error::TimedOut`]. NVRTC 12.8.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets a token that cancels the compilation, which then fails with [`Error::Cancelled`]. NVRTC
    /// 12.8.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Sets the stack size of the compiler in bytes. The default is 256 MiB, the minimum 8 MiB.
    ///
    /// The stack size limits how deeply a source may be nested: if a source might overflow the
    /// stack, the compilation fails with [`Error::TooDeep`]. The check does not cover expanded
    /// macros or headers on disk. If macros or headers nest many thousand levels deep, as in
    /// generated code, set a larger stack. This is virtual memory, of which only the used part is
    /// committed.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// Returns the options as NVRTC receives them. Bytes of a path that are not UTF-8 are replaced.
    #[must_use]
    pub fn to_strings(&self) -> Vec<String> {
        self.texts()
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    pub(crate) fn target(&self) -> Option<Arch> {
        self.arch
    }

    pub(crate) fn stack(&self) -> usize {
        self.stack.unwrap_or(STACK).max(SMALLEST_STACK)
    }

    /// Returns the options for an NVRTC of version `found`.
    pub(crate) fn render(&self, found: Version) -> Result<Vec<CString>, Error> {
        let is_unsafe = |item: &&Item| item.name == RAW && known::names_pch_file(&item.text);
        if let Some(item) = self.items.iter().find(is_unsafe) {
            let option = String::from_utf8_lossy(&item.text).into_owned();
            return Err(Error::UnsafeOption { option });
        }
        let texts = self.items.iter().map(|item| item.text.as_slice());
        if known::are_pch_files_shared(texts, found) {
            return Err(Error::SharedPchFolder { found });
        }
        let render = |text: Vec<u8>| {
            let option = String::from_utf8_lossy(&text).into_owned();
            if let Some(since) = known::needs(&option).filter(|since| *since > found) {
                return Err(Error::OptionTooNew {
                    option,
                    since,
                    found,
                });
            }
            CString::new(text).map_err(|nul| Error::Nul {
                place: format!("the option {option:?}"),
                position: nul.nul_position(),
            })
        };
        self.texts().map(render).collect()
    }

    fn texts(&self) -> impl Iterator<Item = Vec<u8>> {
        let arch = self
            .arch
            .map(|arch| format!("--gpu-architecture={arch}").into_bytes());
        arch.into_iter()
            .chain(self.items.iter().map(|item| item.text.clone()))
    }

    fn flag(self, name: &'static str, on: bool) -> Self {
        let options = self.remove(name);
        if on {
            options.push(name, name.as_bytes().to_vec())
        } else {
            options
        }
    }

    fn value(self, name: &'static str, value: impl ToString) -> Self {
        self.replace(name, value.to_string())
    }

    fn replace(self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.remove(name).add(name, value)
    }

    fn add(self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let text = [name.as_bytes(), b"=", value.as_ref()].concat();
        self.push(name, text)
    }

    fn push(mut self, name: &'static str, text: Vec<u8>) -> Self {
        self.items.push(Item { name, text });
        self
    }

    fn remove(mut self, name: &'static str) -> Self {
        self.items.retain(|item| item.name != name);
        self
    }
}
