//! Arguments as C passes them, made safe once.
//!
//! The caller of a C function promises that its pointers are valid for what the function reads and
//! writes, or null where that is allowed. The shims pass that promise on by wrapping each pointer
//! in [`Out`] or [`In`]; the rest of the driver is safe code.

use std::ffi::{CStr, c_char, c_void};

use super::status::{INVALID_VALUE, Status};

/// A C argument and what it becomes inside.
pub(super) trait Arg {
    /// The type that the methods of the driver take.
    type Inner;

    /// Wraps it.
    ///
    /// # Safety
    ///
    /// A pointer is null, a handle that is never dereferenced, or valid for what the C function
    /// that got it documents, until that function returns.
    unsafe fn wrap(self) -> Self::Inner;
}

/// A pointer to something that the driver may read and write, or a handle.
#[derive(Debug)]
pub(super) struct Out<T>(*mut T);

/// A pointer to something that the driver reads.
#[derive(Debug)]
pub(super) struct In<T>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Arg for *mut T {
    type Inner = Out<T>;

    unsafe fn wrap(self) -> Out<T> {
        Out(self)
    }
}

impl<T> Arg for *const T {
    type Inner = In<T>;

    unsafe fn wrap(self) -> In<T> {
        In(self)
    }
}

/// Arguments that are themselves.
macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl Arg for $ty {
            type Inner = Self;

            unsafe fn wrap(self) -> Self {
                self
            }
        }
    )*};
}

plain!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i32,
    cuda_sys::CUresult,
    cuda_sys::CUlimit,
    cuda_sys::CUfunc_cache,
    cuda_sys::CUsharedconfig,
    cuda_sys::CUdevice_attribute,
    cuda_sys::CUdevice_P2PAttribute,
    cuda_sys::CUexecAffinityType,
    cuda_sys::CUfunction_attribute,
    cuda_sys::CUpointer_attribute,
    cuda_sys::CUmemPool_attribute,
    cuda_sys::CUmem_advise,
    cuda_sys::CUmem_range_attribute,
    cuda_sys::CUmemLocation,
    cuda_sys::CUmemAllocationType,
    cuda_sys::CUmemAllocationHandleType,
    cuda_sys::CUmemAllocationGranularity_flags,
    cuda_sys::CUstreamCaptureMode,
    cuda_sys::CUlaunchAttributeID,
    cuda_sys::CUhostFn,
    cuda_sys::CUjitInputType,
    cuda_sys::CUstreamCallback,
    cuda_sys::CUoccupancyB2DSize,
    cuda_sys::CUgraphMem_attribute,
    cuda_sys::CUtensorMapDataType,
    cuda_sys::CUtensorMapInterleave,
    cuda_sys::CUtensorMapSwizzle,
    cuda_sys::CUtensorMapL2promotion,
    cuda_sys::CUtensorMapFloatOOBfill,
);

impl<T> Out<T> {
    /// The value as a handle.
    pub(super) fn handle(self) -> u64 {
        self.0.addr() as u64
    }

    pub(super) fn raw(self) -> *mut T {
        self.0
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// `INVALID_VALUE` if null.
    pub(super) fn required(self) -> Result<Self, cuda_sys::CUresult> {
        if self.0.is_null() {
            Err(INVALID_VALUE)
        } else {
            Ok(self)
        }
    }

    /// Writes `value`; null is `INVALID_VALUE`.
    pub(super) fn set(self, value: T) -> Status {
        self.required()?;
        self.set_if(value);
        Ok(())
    }

    /// Writes `value` unless the pointer is null.
    pub(super) fn set_if(self, value: T) {
        self.set_at(0, value);
    }

    /// Writes element `index` unless the pointer is null.
    pub(super) fn set_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            let place = self.0.wrapping_add(index);
            // SAFETY: `place` must be valid for a write ← `Arg::wrap` was promised that for what
            // the function documents, which is why the caller of this method gives the index. C may
            // not have aligned it.
            unsafe { place.write_unaligned(value) };
        }
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value; null is `INVALID_VALUE`.
    pub(super) fn get(self) -> Result<T, cuda_sys::CUresult> {
        self.get_at(0)
    }

    /// Reads element `index`; null is `INVALID_VALUE`.
    pub(super) fn get_at(self, index: usize) -> Result<T, cuda_sys::CUresult> {
        In(self.0.cast_const()).get_at(index)
    }
}

impl Out<c_void> {
    /// The same place as a value of type `T`, which the function's documentation says it is.
    pub(super) fn typed<T>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

impl<T> In<T> {
    pub(super) fn raw(self) -> *const T {
        self.0
    }

    pub(super) fn typed<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// Reads the value; null is `INVALID_VALUE`.
    pub(super) fn get(self) -> Result<T, cuda_sys::CUresult> {
        self.get_at(0)
    }

    /// Reads element `index`; null is `INVALID_VALUE`.
    pub(super) fn get_at(self, index: usize) -> Result<T, cuda_sys::CUresult> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        let place = self.0.wrapping_add(index);
        // SAFETY: `place` must be valid for a read ← `Arg::wrap` was promised that for what the
        // function documents, which is why the caller of this method gives the index. C may not
        // have aligned it.
        Ok(unsafe { place.read_unaligned() })
    }
}

impl Out<u8> {
    /// The bytes, for the time of the call.
    pub(super) fn bytes<'a>(self, len: usize) -> Result<&'a [u8], cuda_sys::CUresult> {
        In(self.0.cast_const()).bytes(len)
    }
}

impl<T> Out<*mut T> {
    pub(super) fn null() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl In<u8> {
    /// The bytes, for the time of the call.
    pub(super) fn bytes<'a>(self, len: usize) -> Result<&'a [u8], cuda_sys::CUresult> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the `len` bytes must be valid and unchanged while the slice lives ← `Arg::wrap`
        // was promised that for the time of the C call, and no caller in this crate keeps the slice
        // longer.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

impl In<c_char> {
    /// The string, for the time of the call; null is `INVALID_VALUE`.
    pub(super) fn c_str<'a>(self) -> Result<&'a CStr, cuda_sys::CUresult> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the pointer must be a string with its NUL that lives while the reference does ←
        // `Arg::wrap` was promised that for the time of the C call, and no caller in this crate
        // keeps the reference longer.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The string as text; one that is not UTF-8 is no name that the driver knows.
    pub(super) fn text<'a>(self) -> Result<&'a str, cuda_sys::CUresult> {
        self.c_str()?.to_str().map_err(|_| INVALID_VALUE)
    }
}
