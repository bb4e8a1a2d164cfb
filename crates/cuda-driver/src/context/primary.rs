//! The primary context of a device, and its state, which can be queried and set before the context
//! exists.

use super::{Context, ContextFlags, registry};
use crate::device::Device;
use crate::driver::call;
use crate::error::Result;

/// The state of the primary context of a device: see [`Device::primary_context_state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryContextState {
    /// The flags that the context has, or will be created with.
    pub flags: ContextFlags,
    /// Whether the context exists, because some code of the process retains it.
    pub is_active: bool,
}

/// The primary context of the device.
impl Device {
    /// `cuDevicePrimaryCtxRetain()`—Returns the context that the whole process shares on this
    /// device.
    ///
    /// The first call creates the context. It lives as long as any handle of it; all handles share
    /// one default stream.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    #[doc(alias = "cudaSetDevice")]
    pub fn primary_context(&self) -> Result<Context> {
        Context::primary(self)
    }

    /// `cuDevicePrimaryCtxGetState()`—Returns whether the primary context exists, and its flags.
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn primary_context_state(&self) -> Result<PrimaryContextState> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the pointers must be writable ← they point to locals.
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

    /// `cuDevicePrimaryCtxSetFlags(flags)`—Sets the flags of the primary context, whether it exists
    /// or not.
    ///
    /// The flags apply to the whole process: all code that waits in this context is affected.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the flags contradict each other.
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

    /// `cuDevicePrimaryCtxReset()`—Destroys all resources in the primary context, no matter which
    /// code created them.
    ///
    /// It does not recover a lost device.
    ///
    /// # Safety
    ///
    /// No object of the primary context is in use now, by this crate or by any other code of the
    /// process, and other code neither uses nor destroys one afterwards. The host does not access
    /// page-locked or managed memory of the context afterwards.
    ///
    /// Objects of this crate may be dropped afterwards, which makes no calls. Their other methods
    /// fail with [`Error::ContextGone`](crate::Error::ContextGone), and
    /// [`primary_context`](Self::primary_context) returns a new context.
    #[doc(alias = "cuDevicePrimaryCtxReset")]
    #[doc(alias = "cudaDeviceReset")]
    pub unsafe fn reset_primary_context(&self) -> Result<()> {
        // SAFETY: no object of the context may be used any more ← this is the contract of the
        // caller.
        unsafe { call!(self.driver(), cuDevicePrimaryCtxReset_v2(self.as_raw())) }?;
        let device = self.as_raw();
        for context in registry::find_all(self.driver(), |context| context.is_on(device)) {
            context.note_reset();
        }
        Ok(())
    }
}
