//! Contexts: what a process has on a device.
//!
//! Where C keeps a current context for each thread, which calls then use silently, a call here uses the context
//! of its object: it makes it current for as long as the call needs it, and then puts back what was current.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice, CUstream_flags};
use once_cell::sync::OnceCell;

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::event::EventPool;
use crate::handle::{Destroy, Handle};
use crate::memory::staging::Staging;
use crate::stream::{Stream, StreamState};

/// A context on a device. Cloning it gives another handle of the same one.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

pub(crate) struct ContextInner {
    /// Before `handle`, as the events and the staging blocks: all go before their context.
    default_stream: OnceCell<Arc<StreamState>>,
    events: Arc<EventPool>,
    staging: Staging,
    handle: Handle<Primary>,
    device: Device,
    limits: Limits,
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

/// A retained primary context.
struct Primary;

impl Destroy for Primary {
    type Raw = RawPrimary;

    unsafe fn destroy(driver: &Driver, raw: RawPrimary) -> Result<(), DriverError> {
        // SAFETY: each retain must be released once ← the handle owns one retain.
        unsafe { call!(driver, cuDevicePrimaryCtxRelease_v2(raw.device)) }
    }
}

#[derive(Clone, Copy, Debug)]
struct RawPrimary {
    context: CUcontext,
    device: CUdevice,
}

// SAFETY: a context handle may be used from any thread ← the driver is thread safe (docs/safety.md, Threads).
unsafe impl Send for RawPrimary {}
// SAFETY: as above.
unsafe impl Sync for RawPrimary {}

impl Context {
    pub(crate) fn primary(device: &Device) -> Result<Self> {
        let driver = device.driver();
        let make = || {
            let mut context = ptr::null_mut();
            // SAFETY: the pointer must be writable ← it is to a local.
            unsafe {
                call!(
                    driver,
                    cuDevicePrimaryCtxRetain(&raw mut context, device.as_raw())
                )
            }?;
            let raw = RawPrimary {
                context,
                device: device.as_raw(),
            };
            // SAFETY: nobody else must give it back ← this retain is this handle's.
            let handle = unsafe { Handle::new(driver, raw) };
            let limits = Limits::of(device)?;
            Ok(Arc::new(ContextInner {
                default_stream: OnceCell::new(),
                events: Arc::default(),
                staging: Staging::default(),
                handle,
                device: device.clone(),
                limits,
            }))
        };
        driver
            .shared_context(|context| context.device == *device, make)
            .map(Self)
    }

    /// The device of the context.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The driver of the context.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.device.driver()
    }

    /// The raw context. It stays alive as long as a handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.0.handle.raw().context
    }

    /// The stream for those who need only one: the same for every handle of this context.
    ///
    /// It is a stream of its own, not C's NULL stream: it neither waits for other streams nor makes them wait,
    /// and no call on it needs a current context.
    ///
    /// # Errors
    ///
    /// What `cuStreamCreate` answers, the first time.
    pub fn default_stream(&self) -> Result<Stream> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        let state = self
            .0
            .default_stream
            .get_or_try_init(|| StreamState::create(self, flags, 0))?;
        Ok(Stream::of_state(self, Arc::clone(state)))
    }

    /// `cuCtxSynchronize()`—Waits until everything that was queued in this context is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel that was still running: see [`DriverError::is_sticky`].
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSynchronize()) }?)
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

    /// What pageable memory is copied through.
    pub(crate) fn staging(&self) -> &Staging {
        &self.0.staging
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Makes this context current on this thread until the guard goes.
    ///
    /// The driver is asked each time what is current (8 ns): other code may have changed it.
    pub(crate) fn enter(&self) -> Result<Current<'_>, DriverError> {
        let mut before = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self.driver(), cuCtxGetCurrent(&raw mut before)) }?;
        if before == self.as_raw() {
            return Ok(Current {
                driver: self.driver(),
                before: None,
            });
        }
        // SAFETY: the context must be alive ← `self` is a handle of it.
        unsafe { call!(self.driver(), cuCtxSetCurrent(self.as_raw())) }?;
        Ok(Current {
            driver: self.driver(),
            before: Some(before),
        })
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
        write!(f, "Context({:?} on {:?})", self.as_raw(), self.device())
    }
}

/// A context that is current on this thread; what was before comes back when it goes.
pub(crate) struct Current<'a> {
    driver: &'a Driver,
    before: Option<CUcontext>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the context must be alive ← it was current on this thread when the guard was made; whoever
            // made it so answers for it. If it has been destroyed meanwhile the driver says so and nothing changes.
            let _ = unsafe { call!(self.driver, cuCtxSetCurrent(before)) };
        }
    }
}
