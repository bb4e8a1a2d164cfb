//! Structs that are passed to a kernel by value although they have padding.
//!
//! Padding is uninitialized memory, which a launch must not read. So the fields are copied into a
//! block of zero bytes, and the driver reads the block.

use std::fmt;
use std::ptr;

use crate::memory::DeviceRepr;

/// A struct, or a field of one, whose value can be copied into a kernel parameter.
///
/// # Safety
///
/// `copy_to` writes only bytes within the size of the type, and every byte that it writes is
/// initialized.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a struct that is passed to a kernel",
    label = "not a number, an array of numbers, or a struct that derives `DeviceRepr` or `KernelArg`",
    note = "for the address of a buffer use `DevicePtr<T>`, and pass the buffer with `Using`",
    note = "every bit pattern must be valid: use `u8` for `bool`, and a number for an `Option` or an enum"
)]
pub unsafe trait ByValue: Copy {
    /// Copies the value without its padding to the same offsets from `to`.
    ///
    /// # Safety
    ///
    /// There are `size_of::<Self>()` writable bytes at `to`, which no other code uses.
    unsafe fn copy_to(&self, to: *mut u8);
}

#[diagnostic::do_not_recommend]
// SAFETY: only initialized bytes within the size may be written ← a `Pod` type has no padding.
unsafe impl<T: DeviceRepr> ByValue for T {
    unsafe fn copy_to(&self, to: *mut u8) {
        let bytes = bytemuck::bytes_of(self);
        // SAFETY: both ranges must hold the bytes and must not overlap ← the caller guarantees room
        // for the size of the type, which no other code uses.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// The `N` bytes of a struct of type `T`, at its alignment. All of them are initialized.
#[doc(hidden)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Block<T, const N: usize> {
    alignment: [T; 0],
    bytes: [u8; N],
}

impl<T: ByValue, const N: usize> Block<T, N> {
    /// Copies the fields of `value`. Padding becomes zero.
    #[must_use]
    pub fn of(value: &T) -> Self {
        const { assert!(N == size_of::<T>(), "the block has the size of the struct") };
        let mut bytes = [0; N];
        // SAFETY: there must be room for the struct, which no other code uses ← the size is
        // asserted above, and `bytes` is a local variable.
        unsafe { value.copy_to(bytes.as_mut_ptr()) };
        Self {
            alignment: [],
            bytes,
        }
    }
}

impl<T, const N: usize> fmt::Debug for Block<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:?})", self.bytes)
    }
}
