//! From an image to a program, with the options and the logs of the just-in-time compiler.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;
use std::time::Instant;

use cuda_sys::{CUjit_option, CUresult};

use super::arg::{In, Out};
use super::device::Device;
use super::export::Call;
use super::status::{
    INVALID_PTX, INVALID_VALUE, NO_BINARY_FOR_GPU, OUT_OF_MEMORY, Status, UNSUPPORTED_PTX_VERSION,
};
use crate::ptx;
use crate::vm::{LoadError, Program, TargetInfo};

/// What a program was made from, for the attributes of its functions.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) program: Arc<Program>,
    /// The architecture of `.target`, as 90 for `sm_90`.
    pub(super) ptx_target: i32,
}

/// An error and the compiler's words on it.
struct Refusal(CUresult, String);

/// The log buffers that a call offers.
#[derive(Default)]
struct Logs {
    /// Where, how many bytes fit, and the option that takes how many were written.
    info: (Option<Out<c_char>>, usize, Option<usize>),
    error: (Option<Out<c_char>>, usize, Option<usize>),
    wall_time: Option<usize>,
}

/// Options and their values, as C passes them.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) count: c_uint,
    pub(super) names: Out<CUjit_option>,
    pub(super) values: Out<*mut c_void>,
}

impl Logs {
    fn read(options: Option<Options>) -> Status<Self> {
        type O = CUjit_option;
        let mut logs = Self::default();
        let Some(options) = options else {
            return Ok(logs);
        };
        for index in 0..options.count as usize {
            let name = options.names.get_at(index)?;
            let value = options.values.get_at(index)?;
            let size = || value.addr() as u32 as usize;
            // SAFETY: a log buffer must be valid for as many bytes as the option beside it says ← the contract
            // of the C function.
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
                name if name.0 >= O::CU_JIT_NUM_OPTIONS.0 => {
                    return Err(INVALID_VALUE);
                }
                // How fast the code is, or what is printed, is all that the others change.
                _ => {}
            }
        }
        Ok(logs)
    }

    /// Writes a log and says how long it is.
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

/// The bytes that machine code begins with: a cubin, a fat binary, the wrapper of one.
const MACHINE_CODE: [[u8; 4]; 3] = [
    *b"\x7fELF",
    0xBA55_ED50_u32.to_le_bytes(),
    0x4662_43B1_u32.to_le_bytes(),
];

impl Call {
    /// Compiles the image for `device`, with the logs that `options` ask for.
    pub(super) fn compile(
        &self,
        image: In<c_void>,
        options: Option<Options>,
        device: &Device,
    ) -> Status<Arc<Code>> {
        let text = image.typed::<c_char>().c_str()?;
        let logs = Logs::read(options)?;
        let start = Instant::now();
        let result = self.program(text, device);
        let words = result
            .as_ref()
            .err()
            .map_or("", |Refusal(_, words)| words.as_str());
        if let Some(options) = options {
            Logs::write(logs.info, "", options);
            Logs::write(logs.error, words, options);
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
                String::from("the software device runs PTX only, and this image is machine code"),
            ));
        }
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(Refusal(
                INVALID_PTX,
                String::from("ptxas fatal   : the image is empty"),
            ));
        }
        let module = ptx::parse(&text).map_err(|error| Refusal(INVALID_PTX, error.to_string()))?;
        let driver = cuda_sys::Version::new(self.config.version);
        let target = TargetInfo {
            compute_capability: device.capability,
            max_ptx: cuda_sys::image::newest_ptx(driver).unwrap_or((0, 0)),
            strict: self.config.strict_ptx,
        };
        let ptx_target = module.target.sm as i32;
        let program = Program::load(&[module], &target)
            .map_err(|error| Refusal(code_of(&error), error.to_string()))?;
        Ok(Code {
            program: Arc::new(program),
            ptx_target,
        })
    }
}

/// The status code of a refusal.
pub(super) fn code_of(error: &LoadError) -> CUresult {
    match error {
        LoadError::UnsupportedVersion { .. } => UNSUPPORTED_PTX_VERSION,
        LoadError::NoBinaryForGpu { .. } => NO_BINARY_FOR_GPU,
        LoadError::OutOfMemory(_) => OUT_OF_MEMORY,
        LoadError::InvalidPtx(_)
        | LoadError::Unresolved(_)
        | LoadError::UnknownInstruction { .. } => INVALID_PTX,
    }
}
