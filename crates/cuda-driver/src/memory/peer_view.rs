//! Views of memory for kernels of another context.
//!
//! In C, a kernel may use memory of another device once the program has enabled the access and has
//! ordered the work of both devices. Here the view enables the access, and the launch that takes
//! the view as an argument is ordered with all other uses of the memory.

use super::mapped::access_of;
use super::pool::set_access;
use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, MemoryAccess};
use crate::context::Context;
use crate::error::{Error, Result};

/// A read-only view of memory for kernels of another context. Returned by
/// [`DeviceSlice::for_peer`].
#[derive(Clone, Copy, Debug)]
pub struct PeerSlice<'a, T> {
    pub(crate) view: DeviceSlice<'a, T>,
    /// The context of the kernels.
    pub(crate) context: &'a Context,
}

/// A writable view of memory for kernels of another context. Returned by
/// [`DeviceSliceMut::for_peer`].
#[derive(Debug)]
pub struct PeerSliceMut<'a, T> {
    pub(crate) view: DeviceSliceMut<'a, T>,
    /// The context of the kernels.
    pub(crate) context: &'a Context,
}

/// Use by kernels of another context.
impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Returns a view that kernels of `context` can take as an argument, as kernels of the owning
    /// context can. Lets them access the memory: `cuMemPoolSetAccess` for memory of a pool, and
    /// `cuCtxEnablePeerAccess` for other memory.
    ///
    /// A launch with this argument waits for conflicting uses in both contexts, and later
    /// conflicting uses wait for the launch. Until the memory is used again, the launch may keep
    /// its context alive.
    ///
    /// The primary context of a device and its [green](crate::Context::green) contexts share their
    /// memory, so a view for one of them needs no access and works for all memory.
    ///
    /// The access applies to the whole pool, or to all memory of the owning context, and stays
    /// enabled. Each call enables it again, which costs two driver calls. So reuse the view for
    /// many launches.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let simulator = cuda_sim::Builder::new().devices(2).build()?;
    /// # let driver = cuda_driver::Driver::new(simulator.library()?)?;
    /// let one = driver.device(0)?.primary_context()?;
    /// let two = driver.device(1)?.primary_context()?;
    /// let table = DeviceBuffer::from_host(&one.default_stream()?, &[1.0_f32; 256])?;
    /// // A kernel of the second device reads the memory of the first.
    /// let argument = table.as_slice().for_peer(&two)?;
    /// assert_eq!(argument.len(), 256);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// * [`Error::OtherContext`] if the contexts belong to different drivers.
    /// * [`Error::Unsupported`] if one of the contexts is
    ///   [borrowed](crate::Context::borrow_raw): its owner may destroy it at any time, and could
    ///   not wait for a kernel in the other context. Also for managed memory.
    /// * `CUDA_ERROR_INVALID_DEVICE` or `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` unless
    ///   [`Device::can_access_peer`](crate::Device::can_access_peer) returns `true`. Memory that
    ///   does not come from a pool cannot be used in another context on the same device.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    pub fn for_peer(&self, context: &'a Context) -> Result<PeerSlice<'a, T>> {
        enable(self, context)?;
        Ok(PeerSlice {
            view: *self,
            context,
        })
    }
}

/// Use by kernels of another context.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// Returns a view that kernels of `context` can take as an argument and write through. It works
    /// as [`DeviceSlice::for_peer`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::for_peer`] does.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    pub fn for_peer<'a>(&'a mut self, context: &'a Context) -> Result<PeerSliceMut<'a, T>> {
        enable(&self.as_slice(), context)?;
        Ok(PeerSliceMut {
            view: self.reborrow(),
            context,
        })
    }
}

impl<T: DeviceRepr> PeerSlice<'_, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Returns `true` if the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }
}

impl<T: DeviceRepr> PeerSliceMut<'_, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Returns `true` if the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }
}

/// Lets kernels of `context` access the memory of `view`.
fn enable<T: DeviceRepr>(view: &DeviceSlice<'_, T>, context: &Context) -> Result<()> {
    let owner = view.memory.owning_stream().context();
    if owner.shares_memory_with(context) {
        return Ok(());
    }
    context
        .driver()
        .expect_handles_of(owner.driver(), "the buffer")?;
    if owner.is_borrowed() || context.is_borrowed() {
        return Err(Error::Unsupported {
            what: "using memory in a kernel of another context if one of the contexts is borrowed; \
                   copy the memory",
        });
    }
    if view.memory.is_managed() {
        return Err(Error::Unsupported {
            what: "using managed memory in a kernel of another context; copy the memory",
        });
    }
    if view.is_empty() {
        return Ok(());
    }
    if view.memory.is_mapped() {
        return match access_of(context.device(), view.as_raw())? {
            MemoryAccess::ReadWrite => Ok(()),
            _ => Err(Error::Unsupported {
                what: "using mapped memory in a kernel of a device without access to it; grant it \
                       with `GrowableBuffer::allow` or `Mapping::set_access`",
            }),
        };
    }
    let pool = view.pointer_attributes()?.pool_as_raw();
    if pool.is_null() {
        return context.enable_peer_access(owner);
    }
    if owner.device() == context.device() {
        // The device of a pool always has access.
        return Ok(());
    }
    // SAFETY: the pool must be alive and belong to the driver ← memory of the pool is borrowed, and
    // the driver was checked.
    Ok(unsafe { set_access(pool, context.device(), MemoryAccess::ReadWrite) }?)
}
