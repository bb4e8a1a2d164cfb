//! Contexts: the state of a process on a device.
//!
//! In C, each thread has a current context, which calls use implicitly. Here, a call uses the
//! context of its object: it makes that context current for the time of the call, and restores the
//! previous one afterwards.

mod captures;
mod current;
mod described;
mod device_pool;
mod kept;
mod owner;
mod peer;
mod primary;
mod registry;
mod replay_lock;
mod settings;
mod unfenced;

// Types of other modules that belong to this chapter of the API.
pub use crate::driver::LivenessToken;

pub(crate) use captures::Capturing;
pub(crate) use current::Current;
pub use current::CurrentContext;
pub use device_pool::DevicePool;
pub(crate) use kept::KeptContext;
pub use primary::PrimaryContextState;
pub(crate) use replay_lock::{ReplayGuard, ReplayLock};
pub use settings::{CacheConfig, ContextFlags, Limit};
pub(crate) use unfenced::UnfencedUses;

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice, calls};

use crate::device::Device;
use crate::driver::{Captures, Driver, Life, call};
use crate::error::{DriverError, Error, Result};
use crate::fence::{EventPool, RawEvent};
use crate::handle::Handle;
use crate::launch_log::ContextLaunches;
use crate::lock::DropOutsideLocks;
use crate::staging_pool::Staging;
use crate::stream_state::ContextStreams;
use owner::{Identity, Owner, RawContext};

/// A context on a device. Cloning it creates another handle of the same context.
///
/// There are three kinds of contexts, which differ only in how they end:
/// - The [primary](Device::primary_context) context of the device, which all code of the process
///   shares, is released.
/// - A context [created here](Self::new) is destroyed.
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
pub struct Context(Arc<ContextInner>, DropOutsideLocks);

pub(crate) struct ContextInner {
    /// Declared before `owner`, like the events and the staging blocks: all of them must be dropped
    /// before their context.
    streams: ContextStreams,
    events: Arc<EventPool>,
    staging: Staging,
    replay_lock: ReplayLock,
    unfenced: UnfencedUses,
    captures: Arc<Captures>,
    owner: Owner,
    /// If the context is borrowed, calls through this driver fail once the context is declared
    /// dead.
    driver: Driver,
    device: Device,
    limits: Limits,
    /// The launches to report if the device is lost.
    launches: Arc<ContextLaunches>,
}

/// The limits that launches are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// Whether the device supports `cuMemAllocAsync`.
    pub(crate) pools: bool,
    /// Whether the driver has several devices.
    pub(crate) has_other_devices: bool,
}

impl ContextInner {
    /// Calls `owner` last, so that no error can occur after it: dropping an owner waits for the
    /// device, and the caller may hold the lock of the list of contexts.
    fn new(
        device: &Device,
        owner: impl FnOnce(&Driver) -> Result<Owner>,
    ) -> Result<(Identity, Arc<Self>)> {
        let limits = Limits::of(device)?;
        let driver = device.driver().for_context(device.ordinal());
        let owner = owner(&driver)?;
        let identity = owner.identity();
        let launches = Arc::new(ContextLaunches::new(device.ordinal()));
        device.driver().launches().add(&launches);
        let inner = Arc::new(Self {
            streams: ContextStreams::default(),
            events: Arc::default(),
            staging: Staging::default(),
            replay_lock: ReplayLock::default(),
            unfenced: UnfencedUses::default(),
            captures: owner.captures(&driver),
            driver: owner.driver(&driver),
            owner,
            device: device.clone(),
            limits,
            launches,
        });
        Ok((identity, inner))
    }

    /// Whether the context was declared dead.
    pub(crate) fn is_gone(&self) -> bool {
        self.driver.is_gone()
    }
}

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

    pub(crate) fn primary(device: &Device) -> Result<Self> {
        let make = || ContextInner::new(device, |driver| Ok(Owner::primary(driver, device)?));
        let is_it = |context: &Identity| context.is_primary_of(device.as_raw());
        registry::find_or_add(device.driver(), is_it, make).map(Self::of)
    }

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
                let life = Life::new(Arc::clone(&token));
                Ok(Owner::Borrowed(raw, life))
            })
        };
        let inner = registry::find_or_add(&driver, |context| context.is(raw), make)?;
        if let Owner::Borrowed(_, life) = &inner.owner {
            life.add(token);
        }
        Ok(Self::of(inner))
    }

    fn of(inner: Arc<ContextInner>) -> Self {
        Self(inner, DropOutsideLocks)
    }

    /// Returns the context `raw`, which is current on this thread, if it is a primary context or
    /// one that this crate knows.
    fn known(driver: &Driver, raw: CUcontext) -> Result<Self> {
        if let Some(inner) = registry::find(driver, |context| context.is(raw)) {
            return Ok(Self::of(inner));
        }
        let device = Self::device_of_current(driver)?;
        match Self::retained(driver, &device, raw)? {
            // The count retained here keeps the context alive until the other handle is made.
            Some(retained) => {
                let context = Self::primary(&device);
                retained.release()?;
                context
            }
            None => Err(Error::ForeignContext),
        }
    }

    /// Retains the primary context of `device`, if that is `raw`. The count is released through
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

    /// Whether this is the device's primary context.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        matches!(self.0.owner, Owner::Primary(_))
    }

    /// Whether this context is [borrowed](Self::borrow_raw) from other code.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0.owner, Owner::Borrowed(..))
    }

    /// The raw context. Unless it is borrowed, it stays alive as long as any handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.0.owner.raw()
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
    #[doc(alias = "cuCtxSynchronize")]
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        let _quiet = self.captures().quiet().ok_or(Error::Capturing {
            what: "waiting for the whole context",
        })?;
        self.synchronize_quiet()
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

    /// `cuEventCreate(flags)`—Creates an event in this context.
    pub(crate) fn create_event(&self, flags: u32) -> Result<Handle<RawEvent>, DriverError> {
        let _current = self.enter()?;
        RawEvent::create(self.driver(), flags)
    }

    pub(crate) fn events(&self) -> &Arc<EventPool> {
        &self.0.events
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
    /// [`Error::StillInUse`] if other handles or objects of the context exist. A buffer of another
    /// context that was copied from or to this one can count as such an object until it is used
    /// again.
    #[doc(alias = "cuCtxDestroy")]
    #[doc(alias = "cuCtxDetach")]
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn close(self) -> Result<()> {
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

impl Limits {
    fn of(device: &Device) -> Result<Self> {
        use cuda_sys::CUdevice_attribute as Attribute;
        Ok(Self {
            grid: [
                device.max_grid_dim_x()?,
                device.max_grid_dim_y()?,
                device.max_grid_dim_z()?,
            ],
            block: [
                device.max_block_dim_x()?,
                device.max_block_dim_y()?,
                device.max_block_dim_z()?,
            ],
            shared: device.max_shared_memory_per_block_optin()?,
            pools: device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
            has_other_devices: Device::count(device.driver())? > 1,
        })
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
