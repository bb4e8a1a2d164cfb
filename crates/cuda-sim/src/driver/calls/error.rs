//! Names and descriptions of status codes.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use cuda_sys::{CUresult, CUuuid};

use crate::driver::arg::{In, Out};
use crate::driver::error_text;
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, NOT_FOUND, Status};

exports! {
    cuGetErrorName => get_error_name;
    cuGetErrorString => get_error_string;
    cuGetExportTable => get_export_table;
    cuProfilerStart => profiler;
    cuProfilerStop => profiler;
}

/// Returns the name and the description of each code as static C strings.
fn texts() -> &'static HashMap<u32, (CString, CString)> {
    static TEXTS: OnceLock<HashMap<u32, (CString, CString)>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let text = |code: u32| {
            let result = CUresult(code);
            let name = CString::new(result.name()?).ok()?;
            let words = error_text::text(code).or(result.description());
            let words = CString::new(words.or(result.name())?).ok()?;
            Some((code, (name, words)))
        };
        (0..1000).filter_map(text).collect()
    })
}

impl Call {
    fn get_error_name(&self, error: CUresult, text: Out<*const c_char>) -> Status {
        text.required()?;
        match texts().get(&error.0) {
            Some((name, _)) => text.set(name.as_ptr()),
            None => {
                text.set(std::ptr::null())?;
                Err(INVALID_VALUE)
            }
        }
    }

    fn get_error_string(&self, error: CUresult, text: Out<*const c_char>) -> Status {
        text.required()?;
        match texts().get(&error.0) {
            Some((_, words)) => text.set(words.as_ptr()),
            None => {
                text.set(std::ptr::null())?;
                Err(INVALID_VALUE)
            }
        }
    }

    /// `cuGetExportTable()`—Returns null and fails with `NOT_FOUND`: export tables are
    /// undocumented, and this driver implements documented functions only.
    fn get_export_table(&self, table: Out<*const c_void>, _id: In<CUuuid>) -> Status {
        table.set_if(std::ptr::null());
        Err(NOT_FOUND)
    }

    /// `cuProfilerStart()` and `cuProfilerStop()`—Do nothing but require a current context: the
    /// software device has no profiler.
    fn profiler(&self) -> Status {
        self.current().map(drop)
    }
}
