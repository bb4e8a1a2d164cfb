//! `nvrtcProgram`, owned.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use cuda_sys::Function;
use cuda_sys::nvrtc::{calls, nvrtcProgram, nvrtcResult};

use crate::flow::{self, Flow};
use crate::library::check;
use crate::{Error, Log, Nvrtc, PchStatus};

/// What tells the size of an output, and what writes it.
pub(crate) type SizeFn = unsafe extern "C" fn(nvrtcProgram, *mut usize) -> nvrtcResult;
pub(crate) type ReadFn = unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> nvrtcResult;

/// The two functions of one output, with their names.
#[derive(Clone, Copy, Debug)]
pub struct Getter {
    pub(crate) size: SizeFn,
    pub(crate) read: ReadFn,
    pub(crate) size_call: &'static Function,
    pub(crate) read_call: &'static Function,
}

/// Destroys its program. It stays on the thread that made it, and nothing else has the handle.
#[derive(Debug)]
pub(crate) struct RawProgram<'a> {
    nvrtc: &'a Nvrtc,
    handle: nvrtcProgram,
    /// What the flow callback looks at.
    flow: &'a Flow,
}

impl<'a> RawProgram<'a> {
    pub(crate) fn new(
        nvrtc: &'a Nvrtc,
        flow: &'a Flow,
        source: &CStr,
        name: &CStr,
        headers: &[(CString, CString)],
    ) -> Result<Self, Error> {
        let create = nvrtc.function(nvrtc.table().nvrtcCreateProgram, calls::nvrtcCreateProgram)?;
        // Asked for now, so that there is no program without a way to end it.
        nvrtc.function(
            nvrtc.table().nvrtcDestroyProgram,
            calls::nvrtcDestroyProgram,
        )?;
        let count = c_int::try_from(headers.len()).map_err(|_| Error::TooMany("headers"))?;
        let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let texts: Vec<*const c_char> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` must be writable, the strings NUL-terminated, and the arrays of `count`
        // elements ← all are borrowed or made above as such. NVRTC copies the strings.
        let status = unsafe {
            create(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check(status, calls::nvrtcCreateProgram)?;
        let program = Self {
            nvrtc,
            handle,
            flow,
        };
        program.set_flow()?;
        Ok(program)
    }

    fn set_flow(&self) -> Result<(), Error> {
        if !self.flow.is_limited() {
            return Ok(());
        }
        let set = self.nvrtc.function(
            self.nvrtc.table().nvrtcSetFlowCallback,
            calls::nvrtcSetFlowCallback,
        )?;
        let payload = ptr::from_ref(self.flow).cast_mut().cast::<c_void>();
        // SAFETY: the program must be alive, and the payload a Flow that outlives the compilation ←
        // `self` owns the one and borrows the other for its own life; `ask` only reads it.
        let status = unsafe { set(self.handle, Some(flow::ask), payload) };
        check(status, calls::nvrtcSetFlowCallback)
    }

    pub(crate) fn add_name_expression(&self, expression: &CStr) -> Result<(), Error> {
        let add = self.nvrtc.function(
            self.nvrtc.table().nvrtcAddNameExpression,
            calls::nvrtcAddNameExpression,
        )?;
        // SAFETY: the program must be alive and the string NUL-terminated ← `self` owns the one,
        // the other is a CStr.
        let status = unsafe { add(self.handle, expression.as_ptr()) };
        check(status, calls::nvrtcAddNameExpression)
    }

    /// Compiles; what the compiler answers is the caller's to judge.
    pub(crate) fn compile(&self, options: &[CString]) -> Result<nvrtcResult, Error> {
        let compile = self.nvrtc.function(
            self.nvrtc.table().nvrtcCompileProgram,
            calls::nvrtcCompileProgram,
        )?;
        let count = c_int::try_from(options.len()).map_err(|_| Error::TooMany("options"))?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program must be alive, and there must be `count` strings ← `self` owns it,
        // and `pointers` has that many, of strings borrowed for the call.
        Ok(unsafe { compile(self.handle, count, pointers.as_ptr()) })
    }

    pub(crate) fn log(&self) -> Result<Log, Error> {
        let table = self.nvrtc.table();
        let log = self.read(Getter {
            size: self
                .nvrtc
                .function(table.nvrtcGetProgramLogSize, calls::nvrtcGetProgramLogSize)?,
            read: self
                .nvrtc
                .function(table.nvrtcGetProgramLog, calls::nvrtcGetProgramLog)?,
            size_call: calls::nvrtcGetProgramLogSize,
            read_call: calls::nvrtcGetProgramLog,
        })?;
        Ok(Log::new(&log))
    }

    /// The bytes of one output.
    pub(crate) fn read(&self, getter: Getter) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program must be alive and the size writable ← `self` owns the one, the other
        // is a local.
        let status = unsafe { (getter.size)(self.handle, &raw mut size) };
        check(status, getter.size_call)?;
        let mut bytes = vec![0; size];
        if size > 0 {
            // SAFETY: the program must be alive and the buffer have room for what the first call
            // said ← `self` owns the one and is not compiled in between; the other has `size`
            // bytes.
            let status = unsafe { (getter.read)(self.handle, bytes.as_mut_ptr().cast::<c_char>()) };
            check(status, getter.read_call)?;
        }
        Ok(bytes)
    }

    /// What became of precompiled headers; nothing where NVRTC knows none.
    pub(crate) fn pch_status(&self) -> Result<PchStatus, Error> {
        let table = self.nvrtc.table();
        let Some(ask) = table.nvrtcGetPCHCreateStatus else {
            return Ok(PchStatus::NotAttempted);
        };
        // SAFETY: the program must be alive ← `self` owns it.
        match unsafe { ask(self.handle) } {
            nvrtcResult::NVRTC_SUCCESS => Ok(PchStatus::Created),
            nvrtcResult::NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED => Ok(PchStatus::NotAttempted),
            nvrtcResult::NVRTC_ERROR_PCH_CREATE => Ok(PchStatus::Failed),
            nvrtcResult::NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED => {
                let size_of = self.nvrtc.function(
                    table.nvrtcGetPCHHeapSizeRequired,
                    calls::nvrtcGetPCHHeapSizeRequired,
                )?;
                let mut required = 0;
                // SAFETY: the program must be alive and the pointer writable ← `self` owns the one,
                // the other is to a local.
                let status = unsafe { size_of(self.handle, &raw mut required) };
                check(status, calls::nvrtcGetPCHHeapSizeRequired)?;
                Ok(PchStatus::HeapExhausted { required })
            }
            status => {
                check(status, calls::nvrtcGetPCHCreateStatus).map(|()| PchStatus::NotAttempted)
            }
        }
    }

    pub(crate) fn lowered_name(&self, expression: &CStr) -> Result<String, Error> {
        let lower = self.nvrtc.function(
            self.nvrtc.table().nvrtcGetLoweredName,
            calls::nvrtcGetLoweredName,
        )?;
        let mut name = ptr::null();
        // SAFETY: the program must be alive, the string NUL-terminated and the pointer writable ←
        // `self` owns the first, the second is a CStr, the third a local.
        let status = unsafe { lower(self.handle, expression.as_ptr(), &raw mut name) };
        check(status, calls::nvrtcGetLoweredName)?;
        if name.is_null() {
            return check(
                nvrtcResult::NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
                calls::nvrtcGetLoweredName,
            )
            .map(|()| String::new());
        }
        // SAFETY: it must be a string that is alive ← NVRTC answered it, not null, and keeps it as
        // long as the program.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }
}

impl Drop for RawProgram<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.nvrtc.table().nvrtcDestroyProgram {
            // SAFETY: the program must be alive and not used again ← `self` owns it and ends here.
            // What it answers tells nothing that could be mended.
            unsafe { destroy(&raw mut self.handle) };
        }
    }
}
