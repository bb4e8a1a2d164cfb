//! Contexts that other code created.

use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice, calls};

use super::inner::ContextInner;
use super::owner::{Owner, RawContext};
use super::{Context, current, registry};
use crate::device::Device;
use crate::driver::{Driver, LivenessState, LivenessToken, call};
use crate::error::{Error, Result};

/// Contexts that other code created.
impl Context {
    /// Borrows a context that other code created: another library, or raw calls.
    ///
    /// Dropping the last handle does not end the context. `token` reports whether the context is
    /// alive: it is kept as long as any object of the context exists, and is queried before each
    /// call that concerns the context. Once it reports that the context is dead, no call reaches
    /// the driver any more, and each fails with [`Error::ContextGone`].
    ///
    /// All handles of one context share its state, so that uses of a buffer stay ordered between
    /// them. If the context is borrowed already, `token` is added to the tokens of the earlier
    /// borrows. If it is a primary context or was created by [`Context::new`], this function
    /// returns another handle of it, which needs no token.
    ///
    /// # Errors
    ///
    /// [`Error::ContextGone`] if the token reports that the context is dead.
    ///
    /// # Safety
    ///
    /// - `raw` is a context of `driver`, and stays alive as long as `token.is_alive()` returns
    ///   `true`.
    /// - The owner does not destroy the context during a driver call that uses it and that began
    ///   while the token returned `true`.
    /// - When the token starts to return `false`, or is dropped, the work that was queued in the
    ///   context is complete, or will never run. [`synchronize`](Self::synchronize) waits for it,
    ///   provided that no other thread queues more.
    ///
    /// The owner does not need to consider other contexts. No work queued in another context uses
    /// memory of this one: [copies](crate::DeviceSliceMut::copy_from_peer) of its memory into
    /// another context go through the host and have read it when they return, and copies in other
    /// contexts reject its page-locked memory.
    #[doc(alias = "cuCtxAttach")]
    pub unsafe fn borrow_raw(
        driver: &Driver,
        raw: CUcontext,
        token: Arc<dyn LivenessToken>,
    ) -> Result<Self> {
        let driver = driver.without_context();
        if !token.is_alive() {
            return Err(Error::ContextGone {
                call: calls::cuCtxPushCurrent_v2,
                is_reset: false,
            });
        }
        let make = || {
            let device = Self::device_of(&driver, raw)?;
            ContextInner::new(&device, |driver| {
                if let Some(owner) = Self::retained(driver, &device, raw)? {
                    return Ok(owner);
                }
                let raw = RawContext {
                    context: raw,
                    device: device.as_raw(),
                };
                let life = LivenessState::new(Arc::clone(&token));
                Ok(Owner::Borrowed(raw, life))
            })
        };
        let inner = registry::find_or_add(&driver, |context| context.is(raw), make)?;
        if let Owner::Borrowed(_, life) = &inner.owner {
            life.add(token);
        }
        Ok(Self::of(inner))
    }

    /// Whether this context is [borrowed](Self::borrow_raw) from other code.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0.owner, Owner::Borrowed(..))
    }

    /// Fails unless `raw` is this context. `what` is the object that belongs to `raw`.
    pub(crate) fn expect_raw(&self, raw: CUcontext, what: &'static str) -> Result<()> {
        if self.as_raw() == raw {
            return Ok(());
        }
        let driver = self.driver().without_context();
        match registry::find(&driver, |context| context.is(raw)) {
            Some(other) => Err(Error::other_context(what, &Self::of(other), self)),
            None => Err(Error::ForeignContext { of: what }),
        }
    }

    /// Returns the context `raw`, which is current on this thread, if it is a primary context or
    /// one that this crate knows.
    pub(super) fn known(driver: &Driver, raw: CUcontext) -> Result<Self> {
        if let Some(inner) = registry::find(driver, |context| context.is(raw)) {
            return Ok(Self::of(inner));
        }
        let device = Self::device_of_current(driver)?;
        match Self::retained(driver, &device, raw)? {
            // The reference that was retained here keeps the context alive until the other handle
            // is made.
            Some(retained) => {
                let context = Self::primary(&device);
                retained.release()?;
                context
            }
            None => Err(Error::ForeignContext { of: "this thread" }),
        }
    }

    /// Retains the primary context of `device`, if that is `raw`. The reference is released through
    /// `driver`.
    fn retained(driver: &Driver, device: &Device, raw: CUcontext) -> Result<Option<Owner>> {
        if !device.primary_context_state()?.is_active {
            return Ok(None);
        }
        let owner = Owner::primary(driver, device)?;
        if owner.raw() == raw {
            return Ok(Some(owner));
        }
        owner.release()?;
        Ok(None)
    }

    /// Returns the device of a live context.
    fn device_of(driver: &Driver, raw: CUcontext) -> Result<Device> {
        // SAFETY: the context must be alive ← this is part of the contract of `borrow_raw`.
        unsafe { call!(driver, cuCtxPushCurrent_v2(raw)) }?;
        let device = Self::device_of_current(driver);
        current::pop(driver)?;
        device
    }

    /// `cuCtxGetDevice()`—Returns the device of the current context.
    fn device_of_current(driver: &Driver) -> Result<Device> {
        let mut raw: CUdevice = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(driver, cuCtxGetDevice(&raw mut raw)) }?;
        Device::of_raw(driver, raw)
    }
}
