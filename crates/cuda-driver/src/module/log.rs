//! The options of the driver's compiler and linker, and the buffers for their logs.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::time::Duration;

use cuda_sys::log::Log;
use cuda_sys::{CUjit_option, Version};

use super::JitOptions;
use crate::error::Result;
use crate::types::JitLog;

/// The maximum size of each log in bytes.
const LOG_BYTES: usize = 16 << 10;

/// Options in the form that the driver takes, with the buffers that it writes to. Moving this value
/// does not move the arrays or the buffers.
pub(crate) struct Compilation {
    names: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    errors: Vec<u8>,
}

// SAFETY: the pointers must be usable from any thread ← they are to the buffers owned by this
// value, and only the driver dereferences them, in calls that are given this value.
unsafe impl Send for Compilation {}
// SAFETY: shared references must be usable from several threads ← nothing is written through
// `&self`.
unsafe impl Sync for Compilation {}

impl Compilation {
    /// Allocates the buffers for the logs, and converts `options`.
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
        // This does not truncate: there are at most as many options as methods of `JitOptions`.
        self.names.len() as c_uint
    }

    pub(crate) fn names(&mut self) -> *mut CUjit_option {
        self.names.as_mut_ptr()
    }

    pub(crate) fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    /// Returns the logs. The driver must not be writing them.
    pub(crate) fn log(&self) -> JitLog {
        let text = |bytes: &[u8]| {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            Log::new(text.trim_ascii())
        };
        // The driver has written an `f32` into the first value: the time in milliseconds.
        let bits = self.values.first().map_or(0, |value| value.addr());
        let milliseconds = f32::from_bits(bits as u32);
        let wall_time = Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default();
        JitLog::new(text(&self.info), text(&self.errors), wall_time)
    }
}
