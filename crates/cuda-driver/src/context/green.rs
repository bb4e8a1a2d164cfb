//! Green contexts: contexts whose kernels use only some multiprocessors of the device.

use std::ptr;

use cuda_sys::{
    CUcontext, CUdevResource, CUdevResourceDesc, CUdevice, CUgreenCtx, CUgreenCtxCreate_flags,
};

use super::inner::ContextInner;
use super::owner::{Owner, RawContext};
use super::{Context, registry};
use crate::device::{Device, SmResource, WorkqueueConfig};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};

/// A green context, and the context that represents it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawGreen {
    green: CUgreenCtx,
    context: CUcontext,
    device: CUdevice,
}

// SAFETY: the handles must be usable on any thread ← the driver is thread-safe, and the handle of
// the green context is used by one thread at a time, as it requires: by the one that creates it and
// by the one that drops it (docs/safety.md, Green contexts).
unsafe impl Send for RawGreen {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawGreen {}

impl RawGreen {
    pub(super) fn context(&self) -> RawContext {
        RawContext {
            context: self.context,
            device: self.device,
        }
    }
}

/// A green context created by this crate.
pub(super) struct Green;

impl Destroy for Green {
    type Raw = RawGreen;

    unsafe fn destroy(driver: &Driver, raw: RawGreen) -> Result<(), DriverError> {
        super::owner::finish(driver, raw.context);
        // SAFETY: the green context must be alive, and no other thread may use it ← the handle owns
        // it, and is dropped after its last object.
        unsafe { call!(driver, cuGreenCtxDestroy(raw.green)) }
    }
}

/// Green contexts.
impl Context {
    /// `cuGreenCtxCreate()`—Creates a context whose kernels use only these multiprocessors.
    ///
    /// Everything that works in another context works in a green context: streams, buffers, modules
    /// and graphs. The driver keeps its memory and its modules in the primary context of the
    /// device, so creating a green context is cheap. A kernel here takes a buffer of the primary
    /// context, or of another green context of the device, as a view by
    /// [`for_peer`](crate::DeviceSlice::for_peer). The green context is destroyed when its last
    /// handle and its last object are dropped, and keeps the primary context alive until then.
    ///
    /// Kernels in two green contexts without a common multiprocessor do not slow each other down by
    /// taking multiprocessors, but share the memory bandwidth and the caches. The driver does not
    /// guarantee that they run at the same time: see [`green_with`](Self::green_with) for work
    /// queues of its own. Copies are not restricted.
    ///
    /// The [per-thread stream](Self::per_thread_stream) does not exist in a green context. A
    /// capture in a green context counts as one in the primary context, and the other way round.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4.
    #[doc(alias = "cuGreenCtxCreate")]
    #[doc(alias = "cuGreenCtxDestroy")]
    #[doc(alias = "cuDevResourceGenerateDesc")]
    #[doc(alias = "cudaDevResourceGenerateDesc")]
    #[doc(alias = "cuCtxFromGreenCtx")]
    #[doc(alias = "cudaGreenCtxCreate")]
    pub fn green(sms: &SmResource) -> Result<Self> {
        Self::green_with(&[sms], None)
    }

    /// Works as [`green`](Self::green) with the multiprocessors of several parts of one split, and
    /// with a configuration of the work queues.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if `sms` is empty. [`Error::OtherContext`] if the resources belong to
    /// different devices. `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION` if the parts come from
    /// different splits, or if the number of queues is 0.
    #[doc(alias = "cuGreenCtxCreate")]
    #[doc(alias = "cuDevResourceGenerateDesc")]
    #[doc(alias = "cudaDevResourceGenerateDesc")]
    pub fn green_with(sms: &[&SmResource], workqueues: Option<&WorkqueueConfig>) -> Result<Self> {
        let Some(first) = sms.first() else {
            return Err(Error::Unsupported {
                what: "a green context without multiprocessors; pass at least one `SmResource`",
            });
        };
        let device = first.device();
        let others = sms.iter().map(|part| part.device());
        for other in others.chain(workqueues.map(WorkqueueConfig::device)) {
            if other != device {
                return Err(Error::other_context("the resource", other, device));
            }
        }
        let parts = sms.iter().map(|part| *part.as_raw());
        let queues = workqueues.map(|queues| *queues.as_raw());
        let mut resources: Vec<CUdevResource> = parts.chain(queues).collect();
        // The primary context must exist before, so that it is not created and destroyed with each
        // green context.
        let primary = Self::primary(device)?;
        // Created before the list of contexts is locked: on an error the context is destroyed,
        // which can wait for the device.
        let made = ContextInner::new(device, |driver| {
            Ok(Owner::green(driver, device, &mut resources, primary)?)
        })?;
        // No other live context has this handle.
        registry::find_or_add(device.driver(), |_| false, || Ok(made)).map(Self::of)
    }

    /// Whether this is a green context that this crate [created](Self::green).
    #[must_use]
    pub fn is_green(&self) -> bool {
        matches!(self.0.owner, Owner::Green { .. })
    }

    /// The raw handle, if this is a green context that this crate [created](Self::green). It stays
    /// alive as long as any handle of the context. Only one thread at a time may use it.
    #[must_use]
    pub fn as_raw_green(&self) -> Option<CUgreenCtx> {
        match &self.0.owner {
            Owner::Green { handle, .. } => Some(handle.raw().green),
            _ => None,
        }
    }

    /// `cuCtxGetDevResource(SM)`—Returns the multiprocessors that the kernels of this context can
    /// use.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4.
    #[doc(alias = "cuCtxGetDevResource")]
    #[doc(alias = "cuGreenCtxGetDevResource")]
    #[doc(alias = "cudaExecutionCtxGetDevResource")]
    pub fn sm_resource(&self) -> Result<SmResource> {
        // SAFETY: the context must be alive and belong to the driver ← `self` is a handle of it.
        unsafe { SmResource::of_context(self.driver(), self.device(), self.as_raw()) }
    }

    /// Whether memory of the other context is memory of this one: both are the same context, or the
    /// primary context of a device and its green contexts.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        let is_of_primary = |context: &Self| context.is_primary() || context.is_green();
        self == other
            || (is_of_primary(self) && is_of_primary(other) && self.device() == other.device())
    }
}

impl Owner {
    /// Creates a green context. It is destroyed through `driver`, after the jobs that were deferred
    /// there, and `primary` is dropped after it.
    fn green(
        driver: &Driver,
        device: &Device,
        resources: &mut [CUdevResource],
        primary: Context,
    ) -> Result<Self, DriverError> {
        let flags = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0;
        let device = device.as_raw();
        let (mut desc, mut green): (CUdevResourceDesc, CUgreenCtx) =
            (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pointers must be valid for as many elements as the number says ← it is the
        // length of the slice. The driver copies the resources, and the descriptor is never freed.
        unsafe {
            call!(
                driver,
                cuDevResourceGenerateDesc(
                    &raw mut desc,
                    resources.as_mut_ptr(),
                    resources.len() as u32
                )
            )
        }?;
        // SAFETY: the descriptor must be alive and the pointer writable ← the driver created the
        // descriptor just now, and the pointer is to a local.
        unsafe {
            call!(
                driver,
                cuGreenCtxCreate(&raw mut green, desc, device, flags)
            )
        }?;
        let mut context = ptr::null_mut();
        // SAFETY: the green context must be alive and the pointer writable ← it was created just
        // now, and the pointer is to a local.
        let represented = unsafe { call!(driver, cuCtxFromGreenCtx(&raw mut context, green)) };
        if let Err(error) = represented {
            // The first error is the one to report.
            // SAFETY: the green context must be alive, and not used afterwards ← it was created
            // just now, and has no objects.
            let _ = unsafe { call!(driver, cuGreenCtxDestroy(green)) };
            return Err(error);
        }
        let raw = RawGreen {
            green,
            context,
            device,
        };
        // SAFETY: no other owner may destroy the context ← it was created just now.
        let handle = unsafe { Handle::new(driver, raw) };
        Ok(Self::Green { handle, primary })
    }
}
