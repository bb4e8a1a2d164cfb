//! Who keeps a context alive: this process's count of the primary one, this crate, or other code.

use std::fmt;
use std::mem;
use std::process;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{CUcontext, CUdevice};

use super::ContextFlags;
use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, rank};

/// What ends with a context.
pub(super) enum Owner {
    /// A count of the primary context.
    Primary(Handle<Primary>),
    /// The context.
    Owned(Handle<Owned>),
    /// Nothing: it is other code's.
    Borrowed(RawContext, Arc<Life>),
}

/// A context with its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawContext {
    pub(super) context: CUcontext,
    pub(super) device: CUdevice,
}

// SAFETY: a context handle may be used from any thread ← the driver is thread safe (docs/safety.md,
// Threads).
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

/// What a context is found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    raw: RawContext,
    is_primary: bool,
}

impl Identity {
    /// Whether it is the context of that handle, dead or alive: the driver may use the handle of
    /// one that is dead again.
    pub(crate) fn is(&self, raw: CUcontext) -> bool {
        self.raw.context == raw
    }

    /// Whether it is the primary context of a device.
    pub(crate) fn is_primary_of(&self, device: CUdevice) -> bool {
        self.is_primary && self.raw.device == device
    }
}

/// A retained primary context.
pub(super) struct Primary;

impl Destroy for Primary {
    type Raw = RawContext;

    unsafe fn destroy(driver: &Driver, raw: RawContext) -> Result<(), DriverError> {
        Self::finish(driver, raw);
        // SAFETY: each retain must be released once ← the handle owns one retain.
        unsafe { call!(driver, cuDevicePrimaryCtxRelease_v2(raw.device)) }
    }
}

impl Primary {
    /// Waits for the work in the context, unless other handles retain it: then it does not end, and
    /// a wait could break a capture in it.
    fn finish(driver: &Driver, raw: RawContext) {
        if !driver.has_context(|context| context.is_primary_of(raw.device)) {
            finish(driver, raw.context);
        }
    }
}

/// A context that was made by this crate.
pub(super) struct Owned;

impl Destroy for Owned {
    type Raw = RawContext;

    unsafe fn destroy(driver: &Driver, raw: RawContext) -> Result<(), DriverError> {
        finish(driver, raw.context);
        // SAFETY: the context must be alive and not used by another thread ← the handle owns it,
        // and went with the last object of it. A thread that still has it current is told so by the
        // driver (docs/safety.md).
        unsafe { call!(driver, cuCtxDestroy_v2(raw.context)) }
    }
}

/// Waits for what is queued in a context before it ends: what that does under running work is not
/// documented, and streams of other contexts may wait for it.
fn finish(driver: &Driver, context: CUcontext) {
    // SAFETY: the context must be alive ← the callers own it.
    if unsafe { call!(driver, cuCtxPushCurrent_v2(context)) }.is_ok() {
        // A lost device has nothing left to wait for, and it is nobody's error here.
        // SAFETY: no pointers.
        let _ = unsafe { call!(driver, cuCtxSynchronize()) };
        let _ = super::current::pop(driver);
    }
}

impl Owner {
    /// `cuDevicePrimaryCtxRetain()`. It is released through `driver`, behind what was deferred
    /// there.
    pub(super) fn primary(driver: &Driver, device: &Device) -> Result<Self, DriverError> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                driver,
                cuDevicePrimaryCtxRetain(&raw mut context, device.as_raw())
            )
        }?;
        let device = device.as_raw();
        // SAFETY: nobody else must give it back ← this retain is this handle's.
        let handle = unsafe { Handle::new(driver, RawContext { context, device }) };
        Ok(Self::Primary(handle))
    }

    /// `cuCtxCreate(flags)`: the revision that has been there since CUDA 3.2; later ones add
    /// parameters that are not used. It is destroyed through `driver`, behind what was deferred
    /// there.
    pub(super) fn owned(
        driver: &Driver,
        device: &Device,
        flags: ContextFlags,
    ) -> Result<Self, DriverError> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
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
        // SAFETY: nobody else must destroy it ← it was made just now.
        let handle = unsafe { Handle::new(driver, raw) };
        // The call has also made it current.
        super::current::pop(driver)?;
        Ok(Self::Owned(handle))
    }

    pub(super) fn raw(&self) -> CUcontext {
        match self {
            Self::Primary(handle) => handle.raw().context,
            Self::Owned(handle) => handle.raw().context,
            Self::Borrowed(raw, _) => raw.context,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        let (raw, is_primary) = match self {
            Self::Primary(handle) => (handle.raw(), true),
            Self::Owned(handle) => (handle.raw(), false),
            Self::Borrowed(raw, _) => (*raw, false),
        };
        Identity { raw, is_primary }
    }

    /// The driver for the calls of this context and its objects.
    pub(super) fn driver(&self, driver: &Driver) -> Driver {
        match self {
            Self::Borrowed(_, life) => driver.of_borrowed(life),
            _ => driver.clone(),
        }
    }

    /// Gives a count of the primary context back that was taken only to look at it. Nothing is
    /// waited for: what is queued there is others', and a wait would break a capture.
    pub(super) fn release(self) -> Result<(), DriverError> {
        let Self::Primary(handle) = self else {
            return self.close();
        };
        let (driver, device) = (handle.driver().clone(), handle.raw().device);
        handle.abandon();
        // SAFETY: each retain must be released once ← the handle owned one retain, and has been
        // given up.
        unsafe { call!(driver, cuDevicePrimaryCtxRelease_v2(device)) }
    }

    /// Ends what it owns, and answers what the driver says.
    pub(super) fn close(self) -> Result<(), DriverError> {
        match self {
            Self::Primary(handle) => handle.close(),
            Self::Owned(handle) => handle.close(),
            Self::Borrowed(..) => Ok(()),
        }
    }
}

/// Says whether a context that other code owns is still there: see
/// [`Context::borrow_raw`](super::Context::borrow_raw).
///
/// It is asked before each call that concerns the context, and dropped with the last object of it:
/// a token that owns what keeps the context alive needs no more than the default method. Before its
/// owner ends the context, it waits for the work that is queued there; no work in other contexts
/// uses the memory of this one. It must neither block nor use this crate, and if it panics the
/// process is aborted.
pub trait LivenessToken: Send + Sync + 'static {
    /// Whether the context is alive. Once `false`, it stays so.
    fn is_alive(&self) -> bool {
        true
    }
}

/// A flag that the owner sets to `false` before it destroys the context.
impl LivenessToken for AtomicBool {
    fn is_alive(&self) -> bool {
        self.load(Ordering::Acquire)
    }
}

/// What the owners of a borrowed context say of its life.
pub(crate) struct Life {
    tokens: Mutex<Vec<Arc<dyn LivenessToken>>, { rank::TOKENS }>,
    /// One has said that it is dead. Never goes back.
    is_dead: AtomicBool,
}

impl Life {
    pub(super) fn new(token: Arc<dyn LivenessToken>) -> Arc<Self> {
        Arc::new(Self {
            tokens: Mutex::new(vec![token]),
            is_dead: AtomicBool::new(false),
        })
    }

    /// Takes the token of another borrow of the same context.
    pub(super) fn add(&self, token: Arc<dyn LivenessToken>) {
        let mut tokens = self.tokens.lock();
        let same = |known: &Arc<_>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&token));
        if !tokens.iter().any(same) {
            tokens.push(token);
        }
    }

    /// Whether every owner says that the context is alive.
    pub(crate) fn is_alive(&self) -> bool {
        if self.is_dead.load(Ordering::Acquire) {
            return false;
        }
        let tokens = self.tokens.lock();
        // Who asks may have queued a copy of memory that it only borrows, and must not unwind
        // before it has waited.
        let ends = AbortOnUnwind;
        let is_alive = tokens.iter().all(|token| token.is_alive());
        mem::forget(ends);
        if !is_alive {
            self.is_dead.store(true, Ordering::Release);
        }
        is_alive
    }
}

/// Ends the process if a panic drops it.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        process::abort();
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary(_) => "primary",
            Self::Owned(_) => "owned",
            Self::Borrowed(..) => "borrowed",
        })
    }
}
