//! Safe wrappers for the arguments of C functions.
//!
//! The caller of a C function guarantees that its pointers are valid for what the function reads
//! and writes, or null where that is allowed. The shims pass this guarantee on by wrapping each
//! pointer in [`Out`] or [`In`]; the rest of the driver is safe code.

use std::ffi::{CStr, c_char, c_void};

use crate::driver::status::{INVALID_VALUE, Status};

/// A C argument that has a safe wrapper.
pub(super) trait Arg {
    /// The type that the methods of the driver take.
    type Inner;

    /// Wraps the argument.
    ///
    /// # Safety
    ///
    /// A pointer must be null, or a handle that is never dereferenced, or valid for what the C
    /// function that received it documents, until that function returns.
    unsafe fn wrap(self) -> Self::Inner;
}

/// A parameter of a method of the driver.
pub(super) trait Param: Sized {
    /// The type that C passes.
    type C: Arg<Inner = Self> + Copy;
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

impl<T> Param for Out<T> {
    type C = *mut T;
}

impl<T> Param for In<T> {
    type C = *const T;
}

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

/// Implements [`Arg`] and [`Param`] for types that need no wrapper.
macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl Arg for $ty {
            type Inner = Self;

            unsafe fn wrap(self) -> Self {
                self
            }
        }

        impl Param for $ty {
            type C = Self;
        }
    )*};
}

plain!(
    u8,
    cuda_sys::CUipcMemHandle,
    cuda_sys::CUipcEventHandle,
    u16,
    u32,
    u64,
    usize,
    i32,
    f32,
    cuda_sys::CUresult,
    cuda_sys::CUlimit,
    cuda_sys::CUfunc_cache,
    cuda_sys::CUsharedconfig,
    cuda_sys::CUdevice_attribute,
    cuda_sys::CUdevice_P2PAttribute,
    cuda_sys::CUatomicOperation,
    cuda_sys::CUexecAffinityType,
    cuda_sys::CUdevResourceType,
    cuda_sys::CUfunction_attribute,
    cuda_sys::CUpointer_attribute,
    cuda_sys::CUmemPool_attribute,
    cuda_sys::CUmem_advise,
    cuda_sys::CUmem_range_attribute,
    cuda_sys::CUmemLocation,
    cuda_sys::CUmemAllocationType,
    cuda_sys::CUmemAllocationHandleType,
    cuda_sys::CUmemRangeHandleType,
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
    /// Returns the address as a handle.
    pub(super) fn handle(self) -> u64 {
        self.0.addr() as u64
    }

    pub(super) fn raw(self) -> *mut T {
        self.0
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Fails with `INVALID_VALUE` if the pointer is null.
    pub(super) fn required(self) -> Result<Self, cuda_sys::CUresult> {
        if self.0.is_null() {
            Err(INVALID_VALUE)
        } else {
            Ok(self)
        }
    }

    /// Writes `value`. Fails with `INVALID_VALUE` if the pointer is null.
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
            // SAFETY: `place` must be valid for a write ← the caller of `Arg::wrap` guarantees it
            // for what the function documents, and the caller of this method passes an index within
            // that. The write is unaligned because C may pass an unaligned pointer.
            unsafe { place.write_unaligned(value) };
        }
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value. Fails with `INVALID_VALUE` if the pointer is null.
    pub(super) fn get(self) -> Result<T, cuda_sys::CUresult> {
        self.get_at(0)
    }

    /// Reads element `index`. Fails with `INVALID_VALUE` if the pointer is null.
    pub(super) fn get_at(self, index: usize) -> Result<T, cuda_sys::CUresult> {
        In(self.0.cast_const()).get_at(index)
    }
}

impl Out<c_void> {
    /// Casts the pointer to `T`, which must be the type that the function's documentation names.
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
    /// Reads the value. Fails with `INVALID_VALUE` if the pointer is null.
    pub(super) fn get(self) -> Result<T, cuda_sys::CUresult> {
        self.get_at(0)
    }

    /// Reads element `index`. Fails with `INVALID_VALUE` if the pointer is null.
    pub(super) fn get_at(self, index: usize) -> Result<T, cuda_sys::CUresult> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        let place = self.0.wrapping_add(index);
        // SAFETY: `place` must be valid for a read ← the caller of `Arg::wrap` guarantees it for
        // what the function documents, and the caller of this method passes an index within that.
        // The read is unaligned because C may pass an unaligned pointer.
        Ok(unsafe { place.read_unaligned() })
    }
}

impl Out<u8> {
    /// Returns the `len` bytes. The slice is valid for the duration of the call.
    pub(super) fn bytes<'a>(self, len: usize) -> Result<&'a [u8], cuda_sys::CUresult> {
        In(self.0.cast_const()).bytes(len)
    }
}

impl<T> Out<*mut T> {
    pub(super) fn null() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl Out<usize> {
    /// Returns a null pointer, for a function that has no such parameter.
    pub(super) fn none() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl In<u8> {
    /// Returns the `len` bytes. The slice is valid for the duration of the call.
    pub(super) fn bytes<'a>(self, len: usize) -> Result<&'a [u8], cuda_sys::CUresult> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the `len` bytes must be valid and unchanged while the slice lives ← the caller of
        // `Arg::wrap` guarantees it for the duration of the C call, and no caller in this crate
        // keeps the slice longer.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

impl In<c_char> {
    /// Returns the string, which is valid for the duration of the call. Fails with `INVALID_VALUE`
    /// if the pointer is null.
    pub(super) fn c_str<'a>(self) -> Result<&'a CStr, cuda_sys::CUresult> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the pointer must point to a NUL-terminated string that lives as long as the
        // reference ← the caller of `Arg::wrap` guarantees it for the duration of the C call, and
        // no caller in this crate keeps the reference longer.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// Returns the string as text. Fails with `INVALID_VALUE` if it is not UTF-8, because no name
    /// that the driver knows contains other bytes.
    pub(super) fn text<'a>(self) -> Result<&'a str, cuda_sys::CUresult> {
        self.c_str()?.to_str().map_err(|_| INVALID_VALUE)
    }
}
