//! The type [`Context`].

use std::fmt;
use std::sync::Arc;

use cuda_sys::CUcontext;

use super::inner::{ContextInner, Limits};
use super::owner::{Identity, Owner};
use super::{ContextFlags, ReplayLock, UnfencedUses, registry};
use crate::device::Device;
use crate::driver::{Captures, Driver, call};
use crate::error::{AllocationKind, DriverError, Error, Result};
use crate::fence::{EventPool, RawEvent};
use crate::handle::Handle;
use crate::launch_log::ContextLaunches;
use crate::lock::DropOutsideLocks;
use crate::memory_ledger::MemoryLedger;
use crate::reports::{self, Waited};
use crate::staging_pool::Staging;
use crate::stream_state::ContextStreams;

/// A context on a device. Cloning it creates another handle of the same context.
///
/// There are four kinds of contexts, which differ in how they end:
/// - The [primary](Device::primary_context) context of the device, which all code of the process
///   shares, is released.
/// - A context [created here](Self::new) is destroyed.
/// - A [green](Self::green) context is destroyed, too. Its kernels use only some multiprocessors of
///   the device.
/// - A context [borrowed](Self::borrow_raw) from other code is left alone.
///
/// All handles of one context are equal, no matter how they were obtained. Dropping the last handle
/// of a context that is released or destroyed waits for the work queued in it.
///
/// ```
/// use cuda_driver::DeviceBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// // All code of the process that uses this device shares its primary context.
/// let context = driver.device(0)?.primary_context()?;
/// let stream = context.default_stream()?;
/// let (free, total) = context.memory_info()?;
/// assert!(free <= total);
///
/// let zeros = DeviceBuffer::<u8>::zeroed(&stream, 1000)?;
/// context.synchronize()?;
/// assert_eq!(zeros.to_vec()?, [0; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Context(pub(super) Arc<ContextInner>, pub(super) DropOutsideLocks);

impl Context {
    /// `cuCtxCreate(flags)`—Creates a context on `device`, separate from the primary one: the two
    /// share nothing.
    ///
    /// A separate context costs memory and time, and kernels of two contexts do not run
    /// concurrently; most programs should use the [primary](Device::primary_context) context. The
    /// new context is destroyed when its last handle and its last object are dropped.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the flags contradict each other, `CUDA_ERROR_OUT_OF_MEMORY`.
    #[doc(alias = "cuCtxCreate")]
    pub fn new(device: &Device, flags: ContextFlags) -> Result<Self> {
        // Created before the list of contexts is locked: on an error the context is destroyed,
        // which can wait for the device.
        let made = ContextInner::new(device, |driver| Ok(Owner::owned(driver, device, flags)?))?;
        // No other live context has this handle.
        registry::find_or_add(device.driver(), |_| false, || Ok(made)).map(Self::of)
    }

    /// The device of the context.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The driver of the context. If the context is borrowed, this driver makes no calls once the
    /// context is declared dead.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// `cuCtxSynchronize()`—Waits until all work queued in this context is complete.
    ///
    /// If another thread starts a [capture](crate::graph::Capture) in the meantime, the capture
    /// begins when this call returns.
    ///
    /// # Errors
    ///
    /// [`Error::Capturing`] while a capture is in progress in this context, because the call would
    /// invalidate it; wait for single streams instead. Also the fault of any kernel that was still
    /// running: see [`DriverError::is_sticky`](crate::error::DriverError::is_sticky).
    /// [`Error::Violation`] with the violations of all
    /// [safe launches](crate::Stream::launch_safe) in this context that were not reported.
    #[doc(alias = "cuCtxSynchronize")]
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        let quiet = self.captures().quiet().ok_or(Error::Capturing {
            what: "waiting for the whole context",
        })?;
        self.synchronize_quiet()?;
        drop(quiet);
        if reports::any() {
            Waited::for_context(self.identity()).report()?;
        }
        Ok(())
    }

    /// `cuMemGetInfo()`—Returns the free and the total memory of the device in bytes.
    #[doc(alias = "cuMemGetInfo")]
    #[doc(alias = "cudaMemGetInfo")]
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers must be writable ← they point to locals.
        unsafe {
            call!(
                self.driver(),
                cuMemGetInfo_v2(&raw mut free, &raw mut total)
            )
        }?;
        Ok((free, total))
    }

    /// Returns the error of an allocation of `bytes` bytes of the device in this context. If memory
    /// ran out, it states the free and the total memory of the device.
    #[cold]
    pub(crate) fn allocation_error(&self, error: DriverError, bytes: usize) -> Error {
        self.with_totals(Error::of_allocation(error, bytes, AllocationKind::Device))
    }

    /// Returns the error of an allocation of `bytes` bytes of managed memory. Without page faults,
    /// all of it must be on the device while the device works.
    #[cold]
    pub(crate) fn managed_allocation_error(&self, error: DriverError, bytes: usize) -> Error {
        let kind = match self.device().has_concurrent_managed_access() {
            Ok(true) => AllocationKind::Managed,
            _ => AllocationKind::Device,
        };
        self.with_totals(Error::of_allocation(error, bytes, kind))
    }

    /// Adds the free and the total memory of the device to the error of an allocation that is
    /// limited by them.
    #[cold]
    pub(crate) fn with_totals(&self, mut error: Error) -> Error {
        if let Error::OutOfMemory {
            kind, free, total, ..
        } = &mut error
            && kind.is_on_device()
            && let Ok(known) = self.memory_info()
        {
            (*free, *total) = known;
        }
        error
    }

    /// Whether this is the device's primary context.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        matches!(self.0.owner, Owner::Primary(_))
    }

    /// The raw context. Unless it is borrowed, it stays alive as long as any handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.0.owner.raw()
    }

    /// `cuCtxDestroy()`, `cuDevicePrimaryCtxRelease()`—Destroys or releases the context, and
    /// returns the result of the driver call.
    ///
    /// This must be the last handle, and every stream, buffer, module and other object of the
    /// context must have been dropped: each of them is a handle too. Otherwise the call ends
    /// nothing and waits for nothing. The objects stay usable, and the context ends when the last
    /// of them is dropped, which does not report errors.
    ///
    /// The call waits for work that is still queued, but only
    /// [`synchronize`](Self::synchronize) reports whether that work failed. A borrowed context is
    /// only given up. If objects of the context were dropped inside a host function and are still
    /// to be freed, the context ends after them on another thread, and this call returns `Ok`
    /// without waiting for that.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if other handles or objects of the context exist. A module that was
    /// dropped while a launch was running counts as an object until it is unloaded; the call waits
    /// for that up to a second. A buffer of another context that was copied from or to this one can
    /// count as an object of this one until it is used again.
    #[doc(alias = "cuCtxDestroy")]
    #[doc(alias = "cuCtxDetach")]
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn close(self) -> Result<()> {
        if Arc::strong_count(&self.0) > 1 {
            // A module that was dropped while it was in use is a handle until it is unloaded.
            self.0.driver.wait_for_unloads();
        }
        let Some(inner) = Arc::into_inner(self.0) else {
            return Err(Error::StillInUse {
                what: "the context",
                by: "other handles of it, or by streams, memory, modules or other objects of it",
            });
        };
        if !inner.driver.wait_for_deferred() {
            // Another thread still has to free objects of this context, and then ends the context
            // too.
            drop(inner);
            return Ok(());
        }
        let driver = inner.driver.clone();
        let ContextInner {
            streams,
            events,
            staging,
            owner,
            ..
        } = inner;
        drop((streams, events, staging));
        if driver.must_defer() {
            // The events and streams may have been deferred, as other threads have begun to defer
            // drops. The context must end after them.
            drop(owner);
            return Ok(());
        }
        Ok(owner.close()?)
    }
}

impl Context {
    pub(crate) fn primary(device: &Device) -> Result<Self> {
        let make = || ContextInner::new(device, |driver| Ok(Owner::primary(driver, device)?));
        let is_it = |context: &Identity| context.is_primary_of(device.as_raw());
        registry::find_or_add(device.driver(), is_it, make).map(Self::of)
    }

    /// Returns the live contexts on `device`.
    pub(crate) fn all_on(device: &Device) -> Vec<Self> {
        let is_it = |context: &Identity| context.is_on(device.as_raw());
        let found = registry::find_all(device.driver(), is_it);
        found.into_iter().map(Self::of).collect()
    }

    /// Returns a number that all handles of this context have, and no other context that exists.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(super) fn of(inner: Arc<ContextInner>) -> Self {
        Self(inner, DropOutsideLocks)
    }

    /// Waits like [`synchronize`](Self::synchronize). The caller ensures that no capture is in
    /// progress or can begin.
    pub(crate) fn synchronize_quiet(&self) -> Result<()> {
        let _current = self.enter()?;
        self.launches().mark_complete_after(|| {
            // SAFETY: no pointers.
            Ok(unsafe { call!(self.driver(), cuCtxSynchronize()) }?)
        })
    }

    /// `cuEventCreate(flags)`—Creates an event in this context.
    pub(crate) fn create_event(&self, flags: u32) -> Result<Handle<RawEvent>, DriverError> {
        let _current = self.enter()?;
        RawEvent::create(self.driver(), flags)
    }

    /// Creates `count` events as [`create_event`](Self::create_event) does.
    pub(crate) fn create_events(
        &self,
        flags: u32,
        count: usize,
    ) -> Result<Vec<Handle<RawEvent>>, DriverError> {
        let _current = self.enter()?;
        (0..count)
            .map(|_| RawEvent::create(self.driver(), flags))
            .collect()
    }

    pub(crate) fn events(&self) -> &Arc<EventPool> {
        &self.0.events
    }

    /// The memory that the program holds, if it asks for that.
    pub(crate) fn memory_ledger(&self) -> &MemoryLedger {
        &self.0.memory_ledger
    }

    pub(crate) fn launches(&self) -> &ContextLaunches {
        &self.0.launches
    }

    pub(crate) fn streams(&self) -> &ContextStreams {
        &self.0.streams
    }

    /// The page-locked blocks through which pageable memory is copied.
    pub(crate) fn staging(&self) -> &Staging {
        &self.0.staging
    }

    /// The lock that separates graph replays from other uses of the memory of these graphs.
    #[inline]
    pub(crate) fn replay_lock(&self) -> &ReplayLock {
        &self.0.replay_lock
    }

    /// Uses whose completion event could not be recorded.
    pub(crate) fn unfenced(&self) -> &UnfencedUses {
        &self.0.unfenced
    }

    /// The captures in progress, which a wait for the whole context would invalidate.
    pub(crate) fn captures(&self) -> &Captures {
        &self.0.captures
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Context({:?}, {:?} on {:?})",
            self.as_raw(),
            self.0.owner,
            self.device()
        )
    }
}
