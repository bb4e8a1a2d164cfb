//! Contexts: what a process has on a device.
//!
//! Where C keeps a current context for each thread, which calls then use silently, a call here uses
//! the context of its object: it makes it current for as long as the call needs it, and then puts
//! back what was current.

mod captures;
mod current;
mod kept;
mod owner;
mod peer;
mod primary;
mod settings;

pub(crate) use captures::{Captures, Capturing};
pub(crate) use current::Current;
pub use current::CurrentContext;
pub(crate) use kept::KeptContext;
pub use owner::LivenessToken;
pub(crate) use owner::{Identity, Life};
pub use primary::PrimaryContextState;
pub use settings::{CacheConfig, ContextFlags, Limit};

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice, calls};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{Error, Result};
use crate::event::EventPool;
use crate::launch::ContextLaunches;
use crate::lock::DropOutsideLocks;
use crate::memory::staging::Staging;
use crate::order::{Gate, Strays};
use crate::pending;
use crate::stream::ContextStreams;
use owner::{Owner, RawContext};

/// A context on a device. Cloning it gives another handle of the same one.
///
/// There are three kinds, which differ in nothing but their end: the device's
/// [primary](Device::primary_context) context, shared by all code of the process, is released; one
/// of [our own](Self::new) is destroyed; one [borrowed](Self::borrow_raw) from other code is left
/// alone. All handles of one context are equal, however they were come by. The last handle of one
/// that ends waits for the work that is queued in it.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>, DropOutsideLocks);

pub(crate) struct ContextInner {
    /// Before `owner`, as the events and the staging blocks: all go before their context.
    streams: ContextStreams,
    events: Arc<EventPool>,
    staging: Staging,
    gate: Gate,
    strays: Strays,
    captures: Captures,
    owner: Owner,
    /// Calls through it end with a context that is borrowed.
    driver: Driver,
    device: Device,
    limits: Limits,
    /// What is told if the device is lost.
    launches: Arc<ContextLaunches>,
}

/// What a launch is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// Whether `cuMemAllocAsync` works here.
    pub(crate) pools: bool,
}

impl ContextInner {
    /// `owner` is asked last, so that none is ever dropped here, where the list of contexts is
    /// locked.
    fn new(
        device: &Device,
        owner: impl FnOnce(&Driver) -> Result<Owner>,
    ) -> Result<(Identity, Arc<Self>)> {
        let limits = Limits::of(device)?;
        let driver = device.driver().of_context(device.ordinal());
        let owner = owner(&driver)?;
        let identity = owner.identity();
        let launches = Arc::new(ContextLaunches::new(device.ordinal()));
        device.driver().launches().add(&launches);
        let inner = Arc::new(Self {
            streams: ContextStreams::default(),
            events: Arc::default(),
            staging: Staging::default(),
            gate: Gate::default(),
            strays: Strays::default(),
            captures: Captures::default(),
            driver: owner.driver(&driver),
            owner,
            device: device.clone(),
            limits,
            launches,
        });
        Ok((identity, inner))
    }

    /// Whether it was declared dead.
    pub(crate) fn is_gone(&self) -> bool {
        self.driver.is_gone()
    }
}

impl Context {
    /// `cuCtxCreate(flags)`—A context of our own on `device`, beside the primary one: it shares
    /// nothing with it.
    ///
    /// It costs memory and time, and kernels of two contexts do not run at once; most programs want
    /// the [primary](Device::primary_context) one. It is destroyed when the last handle and the
    /// last object of it are gone.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for flags that do not go together, `CUDA_ERROR_OUT_OF_MEMORY`.
    #[doc(alias = "cuCtxCreate")]
    pub fn new(device: &Device, flags: ContextFlags) -> Result<Self> {
        // Made before the list of contexts is locked: on an error the driver's context is
        // destroyed, which can wait.
        let made = ContextInner::new(device, |driver| Ok(Owner::owned(driver, device, flags)?))?;
        // No other context that is alive has this handle.
        device
            .driver()
            .shared_context(|_| false, || Ok(made))
            .map(Self::of)
    }

    pub(crate) fn primary(device: &Device) -> Result<Self> {
        let make = || ContextInner::new(device, |driver| Ok(Owner::primary(driver, device)?));
        let is_it = |context: &Identity| context.is_primary_of(device.as_raw());
        device.driver().shared_context(is_it, make).map(Self::of)
    }

    /// A handle of a context that other code made: of another library, or through raw calls.
    ///
    /// It does not end with the last handle of it. `token` says how long it lives: it is kept as
    /// long as an object of the context, and asked before each call that concerns the context. Once
    /// it says that the context is dead, no call reaches the driver any more, and each answers
    /// [`Error::ContextGone`].
    ///
    /// All handles of one context are the same, so that buffers stay ordered between them: if the
    /// context is borrowed already, `token` counts beside the other. If it is a primary context or
    /// one of ours, this is another handle of it, which needs no token.
    ///
    /// # Errors
    ///
    /// [`Error::ContextGone`] if the token says so, or what the driver answers.
    ///
    /// # Safety
    ///
    /// - `raw` is a context of `driver`, and stays alive as long as `token.is_alive()` returns
    ///   `true`.
    /// - The owner does not destroy it during a driver call on it that began while the token
    ///   returned `true`.
    /// - When the token starts to return `false`, or is dropped, the work that was queued in the
    ///   context is done, or never runs. [`synchronize`](Self::synchronize) waits for it, provided
    ///   that no other thread queues more.
    ///
    /// The owner need not know about other contexts. No work that is queued in another context uses
    /// memory of this one: [copies](crate::DeviceSliceMut::copy_from_peer) of its memory into
    /// another context go through the host and have read it when they return, and its page-locked
    /// memory is refused by copies in other contexts.
    #[doc(alias = "cuCtxAttach")]
    pub unsafe fn borrow_raw(
        driver: &Driver,
        raw: CUcontext,
        token: Arc<dyn LivenessToken>,
    ) -> Result<Self> {
        let driver = driver.of_all();
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
                let life = owner::Life::new(Arc::clone(&token));
                Ok(Owner::Borrowed(raw, life))
            })
        };
        let inner = driver.shared_context(|context| context.is(raw), make)?;
        if let Owner::Borrowed(_, life) = &inner.owner {
            life.add(token);
        }
        Ok(Self::of(inner))
    }

    fn of(inner: Arc<ContextInner>) -> Self {
        Self(inner, DropOutsideLocks)
    }

    /// The context of a handle that is current on this thread, if it is the primary one or known.
    fn known(driver: &Driver, raw: CUcontext) -> Result<Self> {
        if let Some(inner) = driver.find_context(|context| context.is(raw)) {
            return Ok(Self::of(inner));
        }
        let device = Self::device_of_current(driver)?;
        match Self::retained(driver, &device, raw)? {
            // The handle that was retained here keeps it the same while the other is made.
            Some(retained) => {
                let context = Self::primary(&device);
                retained.release()?;
                context
            }
            None => Err(Error::ForeignContext),
        }
    }

    /// A count of the primary context of `device`, if that is `raw`. It is given back through
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

    /// The device of a context that is alive.
    fn device_of(driver: &Driver, raw: CUcontext) -> Result<Device> {
        // SAFETY: the context must be alive ← the callers' caller says so.
        unsafe { call!(driver, cuCtxPushCurrent_v2(raw)) }?;
        let device = Self::device_of_current(driver);
        current::pop(driver)?;
        device
    }

    /// `cuCtxGetDevice()`.
    fn device_of_current(driver: &Driver) -> Result<Device> {
        let mut raw: CUdevice = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(driver, cuCtxGetDevice(&raw mut raw)) }?;
        Device::of_raw(driver, raw)
    }

    /// The device of the context.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The driver of the context. That of a borrowed context calls nothing once the context is
    /// declared dead.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// Whether this is the device's primary context.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        matches!(self.0.owner, Owner::Primary(_))
    }

    /// Whether this context is other code's.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0.owner, Owner::Borrowed(..))
    }

    /// The raw context. It stays alive as long as a handle of it, unless it is borrowed.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.0.owner.raw()
    }

    /// `cuCtxSynchronize()`—Waits until everything that was queued in this context is done.
    ///
    /// A [capture](crate::Capture) that is to begin meanwhile, on another thread, begins when this
    /// is over.
    ///
    /// # Errors
    ///
    /// [`Error::Capturing`] as long as there is a capture in this context, which the call would
    /// break; streams can be waited for. A fault of any kernel that was still running: see
    /// [`DriverError::is_sticky`](crate::DriverError::is_sticky).
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        let _quiet = self.captures().quiet().ok_or(Error::Capturing {
            what: "waiting for the whole context",
        })?;
        self.synchronize_quiet()
    }

    /// The same where no capture can begin.
    pub(crate) fn synchronize_quiet(&self) -> Result<()> {
        let _current = self.enter()?;
        self.launches().settle_after(|| {
            // SAFETY: no pointers.
            Ok(unsafe { call!(self.driver(), cuCtxSynchronize()) }?)
        })
    }

    /// `cuMemGetInfo()`—The free and the total bytes of the device's memory.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers must be writable ← they are to locals.
        unsafe {
            call!(
                self.driver(),
                cuMemGetInfo_v2(&raw mut free, &raw mut total)
            )
        }?;
        Ok((free, total))
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

    /// What pageable memory is copied through.
    pub(crate) fn staging(&self) -> &Staging {
        &self.0.staging
    }

    /// What keeps replays of graphs apart from other uses of their memory.
    #[inline]
    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Uses that nothing tells the end of.
    pub(crate) fn strays(&self) -> &Strays {
        &self.0.strays
    }

    /// The captures under way, which a wait for the whole context would break.
    pub(crate) fn captures(&self) -> &Captures {
        &self.0.captures
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// `cuCtxDestroy()`, `cuDevicePrimaryCtxRelease()`—Ends the context, and answers what the
    /// driver says.
    ///
    /// That is for the last handle. Work that is still queued is waited for; whether it failed is
    /// told by [`synchronize`](Self::synchronize) only. A borrowed context is only let go. If
    /// something of it was dropped in a host function and is yet to be given back, the context ends
    /// behind that, on another thread, and this answers `Ok` before.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if there are other handles or objects of the context; it then ends
    /// with the last of them. A buffer of another context that was copied from this one, or into
    /// it, can be one until it is used again.
    #[doc(alias = "cuCtxDestroy")]
    #[doc(alias = "cuCtxDetach")]
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn close(self) -> Result<()> {
        let Some(inner) = Arc::into_inner(self.0) else {
            return Err(Error::StillInUse {
                what: "the context",
            });
        };
        if !pending::settle(&inner.driver) {
            // Something of it is yet to be given back, by another thread, which then ends the
            // context too.
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
        if pending::must_defer(&driver) {
            // These may be deferred, as others have begun to defer: behind them.
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
