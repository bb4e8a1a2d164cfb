//! Programs that were compiled from an image, and the options and logs of the compiler.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint, c_void};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use cuda_sys::{CUjit_option, CUresult};

use crate::driver::arg::Out;
use crate::driver::objects::device::Device;
use crate::driver::objects::kernel::Settings;
use crate::driver::objects::text::TextHash;
use crate::driver::status::{
    INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, OUT_OF_MEMORY, Status, UNSUPPORTED_PTX_VERSION,
};
use crate::lock::lock;
use crate::vm::{LoadError, Program};

/// A program and the properties of its PTX that the attributes of its functions report.
#[derive(Debug)]
pub(in crate::driver) struct Code {
    pub(in crate::driver) program: Arc<Program>,
    /// The architecture of `.target`, for example 90 for `sm_90`.
    pub(in crate::driver) ptx_target: i32,
    /// The hash of each text that the program was compiled from.
    pub(in crate::driver) texts: Vec<TextHash>,
    /// The kernel settings that apply in all contexts, by kernel number and device ordinal.
    pub(in crate::driver) settings: Mutex<BTreeMap<(usize, usize), Arc<Settings>>>,
}

impl Code {
    /// Returns the settings of a kernel on a device.
    pub(in crate::driver) fn settings(&self, kernel: usize, device: usize) -> Arc<Settings> {
        let mut all = lock(&self.settings);
        Arc::clone(all.entry((kernel, device)).or_default())
    }
}

/// The log buffers that a call passes.
#[derive(Debug, Default)]
pub(in crate::driver) struct Logs {
    /// The buffer, its size in bytes, and the index of the option that receives the number of bytes
    /// written.
    info: (Option<Out<c_char>>, usize, Option<usize>),
    error: (Option<Out<c_char>>, usize, Option<usize>),
    pub(in crate::driver) wall_time: Option<usize>,
    pub(in crate::driver) verbose: bool,
    /// The largest number of registers of a thread (`CU_JIT_MAX_REGISTERS`).
    pub(in crate::driver) max_registers: Option<u32>,
}

/// Options and their values in the form of C.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Options {
    pub(in crate::driver) count: c_uint,
    pub(in crate::driver) names: Out<CUjit_option>,
    pub(in crate::driver) values: Out<*mut c_void>,
}

impl Logs {
    /// Parses options as a driver of `version` does.
    pub(in crate::driver) fn read(options: Option<Options>, version: u32) -> Status<Self> {
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
            let buffer = || Some(unsafe { crate::driver::arg::Arg::wrap(value.cast::<c_char>()) });
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
                O::CU_JIT_MAX_REGISTERS => {
                    // 0 means no limit.
                    logs.max_registers = Some(value.addr() as u32).filter(|&most| most > 0);
                }
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
    pub(in crate::driver) fn write_all(&self, info: &str, errors: &str, options: Options) {
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

/// Returns the verbose log: the resources of each kernel.
pub(in crate::driver) fn verbose(code: &Code, device: &Device) -> String {
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
pub(in crate::driver) fn status_of_parse_error(text: &str) -> CUresult {
    if text.contains(".version") {
        INVALID_PTX
    } else {
        INVALID_IMAGE
    }
}

/// Returns the status code of a load error.
pub(in crate::driver) fn code_of(error: &LoadError) -> CUresult {
    match error {
        LoadError::UnsupportedVersion { .. } => UNSUPPORTED_PTX_VERSION,
        LoadError::OutOfMemory { .. } => OUT_OF_MEMORY,
        LoadError::InvalidPtx(_)
        | LoadError::OtherTarget { .. }
        | LoadError::Unresolved(_)
        | LoadError::UnknownInstruction { .. } => INVALID_PTX,
    }
}
