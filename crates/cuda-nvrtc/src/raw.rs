//! An owned `nvrtcProgram`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use cuda_sys::Function;
use cuda_sys::nvrtc::{calls, nvrtcProgram, nvrtcResult};

use crate::flow::{self, Flow};
use crate::library::check;
use crate::{Error, Log, Nvrtc, PchStatus};

/// Types of the functions that return the size of an output and that write the output.
pub(crate) type SizeFn = unsafe extern "C" fn(nvrtcProgram, *mut usize) -> nvrtcResult;
pub(crate) type ReadFn = unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> nvrtcResult;

/// The two functions of one kind of output, with their descriptions for errors.
#[derive(Clone, Copy, Debug)]
pub struct Getter {
    pub(crate) size: SizeFn,
    pub(crate) read: ReadFn,
    pub(crate) size_call: &'static Function,
    pub(crate) read_call: &'static Function,
}

/// An owned program, which is destroyed on drop. It stays on the thread that created it, and
/// nothing else has its handle.
#[derive(Debug)]
pub(crate) struct RawProgram<'a> {
    nvrtc: &'a Nvrtc,
    handle: nvrtcProgram,
    /// The state that the flow callback reads.
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
        // Checked before the program is created, so that every program can be destroyed.
        nvrtc.function(
            nvrtc.table().nvrtcDestroyProgram,
            calls::nvrtcDestroyProgram,
        )?;
        let count = c_int::try_from(headers.len()).map_err(|_| Error::TooMany("headers"))?;
        let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let texts: Vec<*const c_char> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` must be writable, the strings NUL-terminated, and the arrays of `count`
        // elements ← `handle` is a local, the strings are CStrs and CStrings, and both arrays come
        // from `headers`. NVRTC copies the strings.
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
        // SAFETY: the program must be alive, and the payload a `Flow` that outlives the compilation
        // ← `self` owns the program and borrows the `Flow` for its own lifetime; `ask` only reads
        // it.
        let status = unsafe { set(self.handle, Some(flow::ask), payload) };
        check(status, calls::nvrtcSetFlowCallback)
    }

    pub(crate) fn add_name_expression(&self, expression: &CStr) -> Result<(), Error> {
        let add = self.nvrtc.function(
            self.nvrtc.table().nvrtcAddNameExpression,
            calls::nvrtcAddNameExpression,
        )?;
        // SAFETY: the program must be alive and the string NUL-terminated ← `self` owns the
        // program, and the string is a CStr.
        let status = unsafe { add(self.handle, expression.as_ptr()) };
        check(status, calls::nvrtcAddNameExpression)
    }

    /// Compiles and returns NVRTC's status, for the caller to interpret.
    pub(crate) fn compile(&self, options: &[CString]) -> Result<nvrtcResult, Error> {
        let compile = self.nvrtc.function(
            self.nvrtc.table().nvrtcCompileProgram,
            calls::nvrtcCompileProgram,
        )?;
        let count = c_int::try_from(options.len()).map_err(|_| Error::TooMany("options"))?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program must be alive, and there must be `count` strings ← `self` owns the
        // program, and `pointers` has `count` elements that point to strings borrowed for the call.
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

    /// Reads one output.
    pub(crate) fn read(&self, getter: Getter) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program must be alive and the size writable ← `self` owns the program, and
        // `size` is a local.
        let status = unsafe { (getter.size)(self.handle, &raw mut size) };
        check(status, getter.size_call)?;
        let mut bytes = vec![0; size];
        if size > 0 {
            // SAFETY: the program must be alive and the buffer large enough ← `self` owns the
            // program and does not compile between the two calls, and the buffer has the `size`
            // bytes that the first call returned.
            let status = unsafe { (getter.read)(self.handle, bytes.as_mut_ptr().cast::<c_char>()) };
            check(status, getter.read_call)?;
        }
        Ok(bytes)
    }

    /// Returns the result of creating precompiled headers; [`PchStatus::NotAttempted`] if this
    /// NVRTC has no precompiled headers.
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
                // SAFETY: the program must be alive and the pointer writable ← `self` owns the
                // program, and `required` is a local.
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
        // `self` owns the program, the string is a CStr, and `name` is a local.
        let status = unsafe { lower(self.handle, expression.as_ptr(), &raw mut name) };
        check(status, calls::nvrtcGetLoweredName)?;
        if name.is_null() {
            return check(
                nvrtcResult::NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
                calls::nvrtcGetLoweredName,
            )
            .map(|()| String::new());
        }
        // SAFETY: `name` must point to a live C string ← NVRTC returned it, it is not null, and
        // NVRTC keeps it as long as the program.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }
}

impl Drop for RawProgram<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.nvrtc.table().nvrtcDestroyProgram {
            // SAFETY: the program must be alive and not be used again ← `self` owns it and is being
            // dropped. The returned status is ignored, because a failure cannot be reported from a
            // drop.
            unsafe { destroy(&raw mut self.handle) };
        }
    }
}
