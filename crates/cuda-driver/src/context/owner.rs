//! The owner of a context: a reference to the primary context, this crate, or other code. Green
//! contexts are in `green.rs`.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice};

use super::green::Green;
use super::{Context, ContextFlags, registry};
use crate::device::Device;
use crate::driver::{Captures, Driver, LivenessState, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};

/// The driver resource that ends together with a [`Context`](super::Context).
pub(super) enum Owner {
    /// A reference to the primary context, which is released.
    Primary(Handle<Primary>),
    /// A context created by this crate, which is destroyed.
    Owned(Handle<Owned>),
    /// A green context created by this crate, which is destroyed, and then the primary context of
    /// its device, which owns its memory.
    Green {
        handle: Handle<Green>,
        primary: Context,
    },
    /// A context of other code, which is left alone.
    Borrowed(RawContext, Arc<LivenessState>),
}

/// A context with its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawContext {
    pub(super) context: CUcontext,
    pub(super) device: CUdevice,
}

// SAFETY: a context handle must be usable from any thread ← the driver is thread-safe
// (docs/safety.md, Threads).
unsafe impl Send for RawContext {}
// SAFETY: a context handle must be usable from several threads at once ← the driver is thread-safe,
// as for `Send`.
unsafe impl Sync for RawContext {}

/// The key by which a context is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    raw: RawContext,
    is_primary: bool,
}

impl Identity {
    /// Whether the context has this handle. The context may be dead: the driver can reuse the
    /// handle of a dead context.
    pub(super) fn is(&self, raw: CUcontext) -> bool {
        self.raw.context == raw
    }

    pub(super) fn is_on(&self, device: CUdevice) -> bool {
        self.raw.device == device
    }

    /// Whether this is the primary context of `device`.
    pub(super) fn is_primary_of(&self, device: CUdevice) -> bool {
        self.is_primary && self.raw.device == device
    }
}

/// A retained primary context.
pub(super) struct Primary;

impl Destroy for Primary {
    type Raw = RawContext;

    unsafe fn destroy(driver: &Driver, raw: RawContext) -> Result<(), DriverError> {
        Self::finish(driver, raw);
        // A reset does not release the context, and its handle makes no calls after it.
        let free = driver.is_reset().then(|| driver.without_context());
        let driver = free.as_ref().unwrap_or(driver);
        // SAFETY: each retain must be released once ← the handle owns one retain.
        unsafe { call!(driver, cuDevicePrimaryCtxRelease_v2(raw.device)) }
    }
}

impl Primary {
    /// Waits for the work in the context, unless other handles retain the context: in that case it
    /// does not end, and a wait could invalidate a capture in it.
    ///
    /// Another thread may retain the context again during the wait. Its captures begin after the
    /// wait, because all handles of the primary context share one list of captures.
    fn finish(driver: &Driver, raw: RawContext) {
        let captures = driver.captures_of_primary(raw.device);
        let Some(_quiet) = captures.quiet() else {
            // A capture keeps a handle of the context, whose drop waits.
            return;
        };
        if !registry::has(driver, |context| context.is_primary_of(raw.device)) {
            finish(driver, raw.context);
        }
    }
}

/// A context created by this crate.
pub(super) struct Owned;

impl Destroy for Owned {
    type Raw = RawContext;

    unsafe fn destroy(driver: &Driver, raw: RawContext) -> Result<(), DriverError> {
        finish(driver, raw.context);
        // SAFETY: the context must be alive and no other thread may use it ← the handle owns it,
        // and is dropped after its last object. If the context is still current on a thread, the
        // driver reports that to calls of the thread (docs/safety.md).
        unsafe { call!(driver, cuCtxDestroy_v2(raw.context)) }
    }
}

/// Waits for the work queued in a context before the context ends: NVIDIA does not document how
/// ending a context affects running work, and streams of other contexts may wait for that work.
pub(super) fn finish(driver: &Driver, context: CUcontext) {
    // SAFETY: the context must be alive ← the callers own it.
    if unsafe { call!(driver, cuCtxPushCurrent_v2(context)) }.is_ok() {
        // A lost device has no work to wait for, and its error is not an error of this call.
        // SAFETY: no pointers.
        let _ = unsafe { call!(driver, cuCtxSynchronize()) };
        // A reset of the context must not leave it current.
        let _ = super::current::pop(&driver.without_context());
    }
}

impl Owner {
    /// `cuDevicePrimaryCtxRetain()`—Retains the primary context. It is released through `driver`,
    /// after the jobs that were deferred there.
    pub(super) fn primary(driver: &Driver, device: &Device) -> Result<Self, DriverError> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                driver,
                cuDevicePrimaryCtxRetain(&raw mut context, device.as_raw())
            )
        }?;
        let device = device.as_raw();
        // SAFETY: no other owner may release the count ← this call has just retained it.
        let handle = unsafe { Handle::new(driver, RawContext { context, device }) };
        Ok(Self::Primary(handle))
    }

    /// `cuCtxCreate(flags)`—Creates a context, with the revision of the call that exists since CUDA
    /// 3.2; later revisions add parameters that this crate does not use. The context is destroyed
    /// through `driver`, after the jobs that were deferred there.
    pub(super) fn owned(
        driver: &Driver,
        device: &Device,
        flags: ContextFlags,
    ) -> Result<Self, DriverError> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                driver,
                cuCtxCreate_v2(&raw mut context, flags.bits(), device.as_raw())
            )
        }?;
        let raw = RawContext {
            context,
            device: device.as_raw(),
        };
        // SAFETY: no other owner may destroy the context ← it was created just now.
        let handle = unsafe { Handle::new(driver, raw) };
        // The call has also made the context current.
        super::current::pop(driver)?;
        Ok(Self::Owned(handle))
    }

    pub(super) fn raw(&self) -> CUcontext {
        match self {
            Self::Primary(handle) => handle.raw().context,
            Self::Owned(handle) => handle.raw().context,
            Self::Green { handle, .. } => handle.raw().context().context,
            Self::Borrowed(raw, _) => raw.context,
        }
    }

    /// Returns the primary context that owns the objects of the context, if one does, and its
    /// device.
    pub(super) fn primary_context(&self) -> Option<(CUdevice, CUcontext)> {
        match self {
            Self::Primary(handle) => Some((handle.raw().device, handle.raw().context)),
            Self::Green { primary, .. } => Some((primary.device().as_raw(), primary.as_raw())),
            Self::Owned(_) | Self::Borrowed(..) => None,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        let (raw, is_primary) = match self {
            Self::Primary(handle) => (handle.raw(), true),
            Self::Owned(handle) => (handle.raw(), false),
            Self::Green { handle, .. } => (handle.raw().context(), false),
            Self::Borrowed(raw, _) => (*raw, false),
        };
        Identity { raw, is_primary }
    }

    /// The captures in the context. Successive handles of a primary context share them.
    pub(super) fn captures(&self, driver: &Driver) -> Arc<Captures> {
        match self {
            Self::Primary(handle) => driver.captures_of_primary(handle.raw().device),
            // A wait for the primary context would invalidate a capture in a green context.
            Self::Green { handle, .. } => driver.captures_of_primary(handle.raw().context().device),
            Self::Owned(_) | Self::Borrowed(..) => Arc::default(),
        }
    }

    /// The driver handle for calls of this context and its objects.
    pub(super) fn driver(&self, driver: &Driver) -> Driver {
        match self {
            Self::Borrowed(_, life) => driver.for_borrowed_context(life),
            _ => driver.clone(),
        }
    }

    /// Releases a reference to the primary context that was retained only to inspect the context.
    /// Does not wait: the work queued there belongs to others, and a wait would invalidate a
    /// capture.
    pub(super) fn release(self) -> Result<(), DriverError> {
        let Self::Primary(handle) = self else {
            return self.close();
        };
        let (driver, device) = (handle.driver().clone(), handle.raw().device);
        handle.abandon();
        // SAFETY: each retain must be released once ← the handle owned one retain, and has been
        // abandoned.
        unsafe { call!(driver, cuDevicePrimaryCtxRelease_v2(device)) }
    }

    /// Releases or destroys the context, and returns the result of the driver call.
    pub(super) fn close(self) -> Result<(), DriverError> {
        match self {
            Self::Primary(handle) => handle.close(),
            Self::Owned(handle) => handle.close(),
            Self::Green { handle, primary } => {
                let result = handle.close();
                drop(primary);
                result
            }
            Self::Borrowed(..) => Ok(()),
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary(_) => "primary",
            Self::Owned(_) => "owned",
            Self::Green { .. } => "green",
            Self::Borrowed(..) => "borrowed",
        })
    }
}
