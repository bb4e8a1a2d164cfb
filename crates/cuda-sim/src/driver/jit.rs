//! Compiling an image to a program, with the options and the logs of the just-in-time compiler.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cuda_sys::{CUjit_option, CUresult};

use super::arg::{In, Out};
use super::device::Device;
use super::export::Call;
use super::kernel::Settings;
use super::link;
use super::status::{
    INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NO_BINARY_FOR_GPU, OUT_OF_MEMORY, Status,
    UNSUPPORTED_PTX_VERSION,
};
use crate::lock::lock;
use crate::vm::{LoadError, Program, TargetInfo};

/// A program and the properties of its PTX that the attributes of its functions report.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) program: Arc<Program>,
    /// The architecture of `.target`, for example 90 for `sm_90`.
    pub(super) ptx_target: i32,
    /// The kernel settings that apply in all contexts, by kernel number and device ordinal.
    settings: Mutex<BTreeMap<(usize, usize), Arc<Settings>>>,
}

impl Code {
    /// Returns the settings of a kernel on a device.
    pub(super) fn settings(&self, kernel: usize, device: usize) -> Arc<Settings> {
        let mut all = lock(&self.settings);
        Arc::clone(all.entry((kernel, device)).or_default())
    }
}

/// The status and the message of a failed compilation.
struct Refusal(CUresult, String);

/// The log buffers that a call passes.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// The buffer, its size in bytes, and the index of the option that receives the number of bytes
    /// written.
    info: (Option<Out<c_char>>, usize, Option<usize>),
    error: (Option<Out<c_char>>, usize, Option<usize>),
    wall_time: Option<usize>,
    verbose: bool,
}

/// Options and their values in the form of C.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) count: c_uint,
    pub(super) names: Out<CUjit_option>,
    pub(super) values: Out<*mut c_void>,
}

impl Logs {
    /// Parses options as a driver of `version` does.
    pub(super) fn read(options: Option<Options>, version: u32) -> Status<Self> {
        type O = CUjit_option;
        let mut logs = Self::default();
        let Some(options) = options else {
            return Ok(logs);
        };
        for index in 0..options.count as usize {
            let name = options.names.get_at(index)?;
            let value = options.values.get_at(index)?;
            let size = || value.addr() as u32 as usize;
            // SAFETY: a log buffer must be valid for the number of bytes that its size option
            // states ← the contract of the C function.
            let buffer = || Some(unsafe { super::arg::Arg::wrap(value.cast::<c_char>()) });
            match name {
                O::CU_JIT_INFO_LOG_BUFFER => logs.info.0 = buffer(),
                O::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES => {
                    (logs.info.1, logs.info.2) = (size(), Some(index));
                }
                O::CU_JIT_ERROR_LOG_BUFFER => logs.error.0 = buffer(),
                O::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => {
                    (logs.error.1, logs.error.2) = (size(), Some(index));
                }
                O::CU_JIT_WALL_TIME => logs.wall_time = Some(index),
                O::CU_JIT_LOG_VERBOSE => logs.verbose = value.addr() != 0,
                name if name.0 >= options_of(version).0 => {
                    return Err(INVALID_VALUE);
                }
                // The other options affect only the speed of the code or the output.
                _ => {}
            }
        }
        Ok(logs)
    }

    /// Writes both logs.
    pub(super) fn write_all(&self, info: &str, errors: &str, options: Options) {
        Self::write(self.info, info, options);
        Self::write(self.error, errors, options);
    }

    /// Writes a log and stores its length in the size option.
    fn write(
        (buffer, size, option): (Option<Out<c_char>>, usize, Option<usize>),
        text: &str,
        options: Options,
    ) {
        let mut written = 0;
        if let Some(buffer) = buffer
            && size > 0
        {
            let kept = &text.as_bytes()[..text.len().min(size - 1)];
            for &byte in kept.iter().chain(&[0]) {
                buffer.set_at(written, byte as c_char);
                written += 1;
            }
            written -= 1;
        }
        if let Some(index) = option {
            options
                .values
                .set_at(index, std::ptr::without_provenance_mut(written));
        }
    }
}

/// Returns the first option that a driver of `version` does not know, according to its header.
/// (`CU_JIT_NUM_OPTIONS` depends on the header from which the bindings were generated.)
fn options_of(version: u32) -> CUjit_option {
    match version {
        ..12010 => CUjit_option::CU_JIT_MIN_CTA_PER_SM,
        12010..13000 => CUjit_option::CU_JIT_SPLIT_COMPILE,
        13000..13010 => CUjit_option::CU_JIT_BINARY_LOADER_THREAD_COUNT,
        _ => CUjit_option(CUjit_option::CU_JIT_BINARY_LOADER_THREAD_COUNT.0 + 1),
    }
}

/// The first bytes of machine code: a cubin, a fat binary, and the wrapper of a fat binary.
const MACHINE_CODE: [[u8; 4]; 3] = [
    *b"\x7fELF",
    0xBA55_ED50_u32.to_le_bytes(),
    0x4662_43B1_u32.to_le_bytes(),
];

impl Call {
    /// Compiles the image for `device` and writes the logs that `options` request.
    pub(super) fn compile(
        &self,
        image: In<c_void>,
        options: Option<Options>,
        device: &Device,
    ) -> Status<Arc<Code>> {
        let text = image.typed::<c_char>().c_str()?;
        let logs = Logs::read(options, self.config.version)?;
        let start = Instant::now();
        let result = self.program(text, device);
        let (info, words) = match &result {
            Ok(code) if logs.verbose => (verbose(code, device), ""),
            Ok(_) => (String::new(), ""),
            Err(Refusal(_, words)) => (String::new(), words.as_str()),
        };
        if let Some(options) = options {
            logs.write_all(&info, words, options);
            if let Some(index) = logs.wall_time {
                let bits = (start.elapsed().as_secs_f32() * 1e3).to_bits();
                options
                    .values
                    .set_at(index, std::ptr::without_provenance_mut(bits as usize));
            }
        }
        match result {
            Ok(code) => Ok(Arc::new(code)),
            Err(Refusal(code, words)) => {
                if std::env::var_os("CUDA_SIM_LOG").is_some() {
                    eprintln!("cuda-sim: {}: {words}", self.function);
                }
                Err(code)
            }
        }
    }

    fn program(&self, image: &CStr, device: &Device) -> Result<Code, Refusal> {
        let bytes = image.to_bytes();
        if MACHINE_CODE.iter().any(|magic| bytes.starts_with(magic)) {
            return Err(Refusal(
                NO_BINARY_FOR_GPU,
                String::from("this image is machine code; the software device runs PTX only"),
            ));
        }
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(Refusal(
                INVALID_IMAGE,
                String::from("ptxas fatal   : the image is empty"),
            ));
        }
        self.program_of(&link::texts(&text), device)
            .map_err(|(code, words)| Refusal(code, words))
    }

    /// Compiles all texts to one program, or returns the status and the message of the compiler.
    pub(super) fn program_of(
        &self,
        texts: &[&str],
        device: &Device,
    ) -> Result<Code, (CUresult, String)> {
        let modules = texts
            .iter()
            .map(|text| {
                cuda_ptx::parse(text).map_err(|error| (refusal_of(text), error.to_string()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let driver = cuda_sys::Version::new(self.config.version);
        let target = TargetInfo {
            compute_capability: device.capability,
            max_ptx: cuda_sys::image::newest_ptx(driver).unwrap_or((0, 0)),
            strict: self.config.strict_ptx,
            checked: self.config.checks.of_accesses(),
        };
        let ptx_target = modules.iter().map(|module| module.target.sm).max();
        let program = Program::load(&modules, &target)
            .map_err(|error| (code_of(&error), error.to_string()))?;
        Ok(Code {
            program: Arc::new(program),
            ptx_target: ptx_target.unwrap_or_default() as i32,
            settings: Mutex::default(),
        })
    }
}

/// Returns the verbose log: the resources of each kernel.
fn verbose(code: &Code, device: &Device) -> String {
    let (major, minor) = device.capability;
    let mut text = String::new();
    for kernel in code.program.kernels() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "ptxas info    : Compiling entry function '{}' for 'sm_{major}{minor}'\n\
             ptxas info    : Used {} registers, {} bytes smem, {} bytes cmem[0]",
            kernel.name, kernel.registers, kernel.static_shared, kernel.param_bytes
        );
    }
    text
}

/// Returns the status for text that cannot be parsed. Text without `.version` does not count as
/// PTX.
pub(super) fn refusal_of(text: &str) -> CUresult {
    if text.contains(".version") {
        INVALID_PTX
    } else {
        INVALID_IMAGE
    }
}

/// Returns the status code of a load error.
pub(super) fn code_of(error: &LoadError) -> CUresult {
    match error {
        LoadError::UnsupportedVersion { .. } => UNSUPPORTED_PTX_VERSION,
        LoadError::OutOfMemory(_) => OUT_OF_MEMORY,
        LoadError::InvalidPtx(_)
        | LoadError::OtherTarget { .. }
        | LoadError::Unresolved(_)
        | LoadError::UnknownInstruction { .. } => INVALID_PTX,
    }
}
