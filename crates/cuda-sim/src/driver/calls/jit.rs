//! Compiling an image to a program, with the options and the logs of the just-in-time compiler.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cuda_sys::CUresult;

use crate::driver::arg::In;
use crate::driver::export::Call;
use crate::driver::objects::device::Device;
use crate::driver::objects::jit::{Code, Logs, Options, code_of, status_of_parse_error, verbose};
use crate::driver::objects::link;
use crate::driver::objects::text::{TextHash, write_text};
use crate::driver::status::{INVALID_IMAGE, NO_BINARY_FOR_GPU, Status};
use crate::vm::{Program, TargetInfo};

/// The status and the message of a failed compilation.
struct CompileError(CUresult, String);

/// The first bytes of machine code: a cubin, a fat binary, and the wrapper of a fat binary.
const MACHINE_CODE: [[u8; 4]; 3] = [
    *b"\x7fELF",
    0xBA55_ED50_u32.to_le_bytes(),
    0x4662_43B1_u32.to_le_bytes(),
];

impl Call {
    /// Compiles the image for `device` and writes the logs that `options` request.
    pub(in crate::driver) fn compile(
        &self,
        image: In<c_void>,
        options: Option<Options>,
        device: &Device,
    ) -> Status<Arc<Code>> {
        let text = image.typed::<c_char>().c_str()?;
        let logs = Logs::read(options, self.config.version)?;
        let start = Instant::now();
        let result = self.program(text, device, logs.max_registers);
        let (info, words) = match &result {
            Ok(code) if logs.verbose => (verbose(code, device), ""),
            Ok(_) => (String::new(), ""),
            Err(CompileError(_, words)) => (String::new(), words.as_str()),
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
            Err(CompileError(code, words)) => {
                if std::env::var_os("CUDA_SIM_LOG").is_some() {
                    eprintln!("cuda-sim: {}: {words}", self.function);
                }
                Err(code)
            }
        }
    }

    fn program(
        &self,
        image: &CStr,
        device: &Device,
        max_registers: Option<u32>,
    ) -> Result<Code, CompileError> {
        let bytes = image.to_bytes();
        if MACHINE_CODE.iter().any(|magic| bytes.starts_with(magic)) {
            return Err(CompileError(
                NO_BINARY_FOR_GPU,
                String::from("this image is machine code; the software device runs PTX only"),
            ));
        }
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(CompileError(
                INVALID_IMAGE,
                String::from("ptxas fatal   : the image is empty"),
            ));
        }
        // A linked image keeps the limit of its link.
        let max_registers = link::max_registers(&text).or(max_registers);
        let texts = link::texts(&text);
        let code = self
            .program_of(&texts, device, max_registers)
            .map_err(|(code, words)| CompileError(code, words))?;
        for (&hash, text) in code.texts.iter().zip(texts) {
            write_text(hash, text);
        }
        Ok(code)
    }

    /// Compiles all texts to one program, or returns the status and the message of the compiler.
    pub(in crate::driver) fn program_of(
        &self,
        texts: &[&str],
        device: &Device,
        max_registers: Option<u32>,
    ) -> Result<Code, (CUresult, String)> {
        let modules = texts
            .iter()
            .map(|text| {
                cuda_ptx::parse(text)
                    .map_err(|error| (status_of_parse_error(text), error.to_string()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let driver = cuda_sys::Version::new(self.config.version);
        let target = TargetInfo {
            compute_capability: device.capability,
            max_ptx: cuda_sys::image::newest_ptx(driver).unwrap_or((0, 0)),
            strict: self.config.strict_ptx,
            max_registers,
            checked: self.config.checks.of_accesses(),
        };
        let ptx_target = modules.iter().map(|module| module.target.sm).max();
        let program = Program::load(&modules, &target)
            .map_err(|error| (code_of(&error), error.to_string()))?;
        Ok(Code {
            program: Arc::new(program),
            ptx_target: ptx_target.unwrap_or_default() as i32,
            texts: texts.iter().map(|text| TextHash::of(text)).collect(),
            settings: Mutex::default(),
        })
    }
}
