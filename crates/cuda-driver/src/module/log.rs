//! What the driver's compiler and linker write, and how they are asked for it.

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::ptr;
use std::time::Duration;

use cuda_sys::log::{Diagnostic, Log};
use cuda_sys::{CUjit_option, Version};

use super::JitOptions;
use crate::error::Result;

/// What the driver's compiler or linker wrote, in an error and where all went well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitLog {
    info: Log,
    errors: Log,
    wall_time: Duration,
}

impl JitLog {
    /// Both logs of a linker that tells no time.
    pub(crate) fn of(info: Log, errors: Log) -> Self {
        Self {
            info,
            errors,
            wall_time: Duration::ZERO,
        }
    }

    /// Information: what [`JitOptions::verbose`] asks for, and remarks.
    #[must_use]
    pub fn info(&self) -> &Log {
        &self.info
    }

    /// Errors and warnings.
    #[must_use]
    pub fn errors(&self) -> &Log {
        &self.errors
    }

    /// The diagnostics of both, errors first, with the lines of PTX that they are about.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = self.errors.diagnostics();
        found.extend(self.info.diagnostics());
        found
    }

    /// How long compiling and linking took, by the driver's clock; zero if there was nothing to do.
    #[must_use]
    pub fn wall_time(&self) -> Duration {
        self.wall_time
    }
}

impl fmt::Display for JitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logs = [&self.errors, &self.info].map(|log| log.as_str().trim());
        f.write_str(logs.join("\n").trim())
    }
}

/// How much of each log is kept.
const LOG_BYTES: usize = 16 << 10;

/// Options in the form that the driver takes, with the buffers that it writes to. None of it moves
/// when this does.
pub(crate) struct Compilation {
    names: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    errors: Vec<u8>,
}

// SAFETY: the pointers must be usable from any thread ← they are to the buffers beside them, and
// only the driver follows them, in calls that are given this.
unsafe impl Send for Compilation {}
// SAFETY: through `&self` nothing is written.
unsafe impl Sync for Compilation {}

impl Compilation {
    /// Buffers for the logs, and `options`.
    pub(crate) fn new(options: &JitOptions, driver: Version) -> Result<Self> {
        let (mut info, mut errors) = (vec![0; LOG_BYTES], vec![0; LOG_BYTES]);
        let size = ptr::without_provenance_mut(LOG_BYTES);
        let (mut names, mut values): (Vec<_>, Vec<*mut c_void>) = [
            (CUjit_option::CU_JIT_WALL_TIME, ptr::null_mut()),
            (
                CUjit_option::CU_JIT_INFO_LOG_BUFFER,
                info.as_mut_ptr().cast(),
            ),
            (CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, size),
            (
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
                errors.as_mut_ptr().cast(),
            ),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, size),
        ]
        .into_iter()
        .unzip();
        for (name, value) in options.for_driver(driver)? {
            names.push(*name);
            values.push(ptr::without_provenance_mut(*value as usize));
        }
        Ok(Self {
            names,
            values,
            info,
            errors,
        })
    }

    /// The number of options.
    pub(crate) fn len(&self) -> c_uint {
        // No truncation: there are as many as methods of `JitOptions`.
        self.names.len() as c_uint
    }

    pub(crate) fn names(&mut self) -> *mut CUjit_option {
        self.names.as_mut_ptr()
    }

    pub(crate) fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    /// What was written. Not while the driver may write.
    pub(crate) fn log(&self) -> JitLog {
        let text = |bytes: &[u8]| {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            Log::new(text.trim_ascii())
        };
        // The driver put a float into the first value, in milliseconds.
        let bits = self.values.first().map_or(0, |value| value.addr());
        let milliseconds = f32::from_bits(bits as u32);
        JitLog {
            info: text(&self.info),
            errors: text(&self.errors),
            wall_time: Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default(),
        }
    }
}
