//! The primary context of a device: what can be known and set before it is there.

use super::{Context, ContextFlags};
use crate::device::Device;
use crate::driver::call;
use crate::error::Result;

/// What the primary context of a device is at: see [`Device::primary_context_state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryContextState {
    /// The flags that it has or will be made with.
    pub flags: ContextFlags,
    /// Whether it is there: some code of the process holds it.
    pub is_active: bool,
}

impl Device {
    /// `cuDevicePrimaryCtxRetain()`—The context that the whole process shares on this device.
    ///
    /// It is made by the first call and lives as long as a handle of it; all handles share one
    /// default stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn primary_context(&self) -> Result<Context> {
        Context::primary(self)
    }

    /// `cuDevicePrimaryCtxGetState()`—Whether the primary context is there, and its flags.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn primary_context_state(&self) -> Result<PrimaryContextState> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the pointers must be writable ← they are to locals.
        unsafe {
            call!(
                self.driver(),
                cuDevicePrimaryCtxGetState(self.as_raw(), &raw mut flags, &raw mut active)
            )
        }?;
        Ok(PrimaryContextState {
            flags: ContextFlags::from_bits_retain(flags),
            is_active: active != 0,
        })
    }

    /// `cuDevicePrimaryCtxSetFlags(flags)`—Sets the flags of the primary context, whether it is
    /// there or not.
    ///
    /// They are the whole process's: code that waits in this context waits the new way.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for flags that do not go together.
    #[doc(alias = "cuDevicePrimaryCtxSetFlags")]
    pub fn set_primary_context_flags(&self, flags: ContextFlags) -> Result<()> {
        // SAFETY: no pointers.
        Ok(unsafe {
            call!(
                self.driver(),
                cuDevicePrimaryCtxSetFlags_v2(self.as_raw(), flags.bits())
            )
        }?)
    }

    /// `cuDevicePrimaryCtxReset()`—Destroys all that is in the primary context, whoever made it.
    ///
    /// # Errors
    ///
    /// What the call answers. A lost device does not come back by this.
    ///
    /// # Safety
    ///
    /// No object of the primary context is used or dropped afterwards, of this crate or of any
    /// other code of the process, and none is in use now. (Leak them, with [`std::mem::forget`].)
    #[doc(alias = "cuDevicePrimaryCtxReset")]
    pub unsafe fn reset_primary_context(&self) -> Result<()> {
        // SAFETY: nothing of the context may be used any more ← the caller says so.
        Ok(unsafe { call!(self.driver(), cuDevicePrimaryCtxReset_v2(self.as_raw())) }?)
    }
}
