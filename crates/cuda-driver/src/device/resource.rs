//! Device resources: parts of a device that a green context can have for itself.

use std::fmt;
use std::ptr;

use cuda_sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUcontext, CUdevResource, CUdevResource_st__bindgen_ty_1,
    CUdevResourceType, CUdevSmResourceGroup_flags, CUdevWorkqueueConfigScope, CUstream, Version,
};

use super::Device;
use crate::driver::{Driver, call};
use crate::error::{Error, RangeError, Result};

/// Some of the multiprocessors of a device: a part from which a green context can be
/// [created](crate::Context::green).
///
/// ```
/// use cuda_driver::Context;
/// use cuda_driver::device::SmSplitFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// let all = driver.device(0)?.sm_resource()?;
/// // One part with at least 4 multiprocessors, and the rest.
/// let split = all.split_by_count(1, 4, SmSplitFlags::empty())?;
/// let small = Context::green(&split.groups[0])?;
/// assert!(small.sm_resource()?.sm_count() >= 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SmResource {
    device: Device,
    raw: CUdevResource,
}

/// The parts into which multiprocessors were split. No two parts have a multiprocessor in common.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SmSplit {
    /// The parts that were requested.
    pub groups: Vec<SmResource>,
    /// The multiprocessors that are in none of the groups, if there are any.
    pub remainder: Option<SmResource>,
}

bitflags::bitflags! {
    /// How multiprocessors are split into equal parts. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SmSplitFlags: u32 {
        /// Allows smaller parts, in which large clusters cannot run.
        const IGNORE_SM_COSCHEDULING = 1;
        /// Makes parts in which the largest possible clusters can run. Compute capability 9.0 and
        /// higher.
        const MAX_POTENTIAL_CLUSTER_SIZE = 2;
        const _ = !0;
    }
}

/// A part for [`SmResource::split`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmGroup {
    /// The number of multiprocessors, a multiple of 2; 0 for as many as are left.
    pub sm_count: u32,
    /// The number of multiprocessors that can run the blocks of one cluster; 0 for the default of
    /// the device.
    pub coscheduled: u32,
    /// Whether `sm_count` may be reached with multiprocessors that do not meet `coscheduled`.
    pub may_backfill: bool,
}

/// The configuration of the work queues of a green context: the hardware queues through which
/// streams send work to the device.
#[derive(Clone)]
pub struct WorkqueueConfig {
    device: Device,
    raw: CUdevResource,
}

/// Which contexts use the same work queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkqueueScope(pub u32);

impl WorkqueueScope {
    /// All contexts of the device share all queues. This is the default.
    pub const DEVICE: Self = Self(CUdevWorkqueueConfigScope::CU_WORKQUEUE_SCOPE_DEVICE_CTX.0);
    /// The queues of this green context are separate from those of other green contexts with this
    /// scope, as far as there are enough queues.
    pub const GREEN_CONTEXT_BALANCED: Self =
        Self(CUdevWorkqueueConfigScope::CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED.0);
}

// SAFETY: a resource must be usable on any thread ← it is a description, which calls only read and
// copy (docs/safety.md, Green contexts).
unsafe impl Send for SmResource {}
// SAFETY: as for `Send`.
unsafe impl Sync for SmResource {}
// SAFETY: as for `SmResource`.
unsafe impl Send for WorkqueueConfig {}
// SAFETY: as for `SmResource`.
unsafe impl Sync for WorkqueueConfig {}

/// Parts of the device.
impl Device {
    /// `cuDeviceGetDevResource(SM)`—Returns all multiprocessors of the device.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than
    /// CUDA 12.4.
    #[doc(alias = "cuDeviceGetDevResource")]
    #[doc(alias = "cudaDeviceGetDevResource")]
    pub fn sm_resource(&self) -> Result<SmResource> {
        SmResource::get(self, |raw, kind| {
            // SAFETY: the pointer must be writable ← the caller passes a pointer to a local.
            unsafe {
                call!(
                    self.driver(),
                    cuDeviceGetDevResource(self.as_raw(), raw, kind)
                )
            }
        })
    }

    /// `cuDeviceGetDevResource(WORKQUEUE_CONFIG)`—Returns the configuration of the work queues of
    /// the device, which can be changed and given to a new green context.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the driver is older than CUDA 13.1.
    #[doc(alias = "cuDeviceGetDevResource")]
    #[doc(alias = "CUdevWorkqueueConfigResource")]
    pub fn workqueue_config(&self) -> Result<WorkqueueConfig> {
        if self.driver().version() < Version::new(13_010) {
            return Err(Error::Unsupported {
                what: "configuring work queues on a driver older than CUDA 13.1; install a newer \
                       driver",
            });
        }
        let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG;
        let mut raw = empty();
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                self.driver(),
                cuDeviceGetDevResource(self.as_raw(), &raw mut raw, kind)
            )
        }?;
        Ok(WorkqueueConfig {
            device: self.clone(),
            raw,
        })
    }
}

impl SmResource {
    /// Returns the resource that `get` writes.
    fn get<E>(
        device: &Device,
        get: impl FnOnce(*mut CUdevResource, CUdevResourceType) -> Result<(), E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        let mut raw = empty();
        get(&raw mut raw, CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM)?;
        Self::of(device, raw).ok_or(Error::Unsupported {
            what: "dividing the multiprocessors of this device (the driver returns no resource for \
                   them)",
        })
    }

    /// `cuCtxGetDevResource(SM)`—Returns the multiprocessors of a context of `device`.
    ///
    /// # Safety
    ///
    /// The context is alive, and belongs to `driver`.
    pub(crate) unsafe fn of_context(
        driver: &Driver,
        device: &Device,
        context: CUcontext,
    ) -> Result<Self> {
        Self::get(device, |raw, kind| {
            // SAFETY: the context must be alive and the pointer writable ← the caller guarantees
            // the former, and `get` passes a pointer to a local.
            unsafe { call!(driver, cuCtxGetDevResource(context, raw, kind)) }
        })
    }

    /// `cuStreamGetDevResource(SM)`—Returns the multiprocessors of a stream on `device`.
    ///
    /// # Safety
    ///
    /// The stream is alive, belongs to `driver`, and its context is current if it is a default
    /// stream of C.
    pub(crate) unsafe fn of_stream(
        driver: &Driver,
        device: &Device,
        stream: CUstream,
    ) -> Result<Self> {
        Self::get(device, |raw, kind| {
            // SAFETY: the stream must be alive and the pointer writable ← the caller guarantees
            // the former, and `get` passes a pointer to a local.
            unsafe { call!(driver, cuStreamGetDevResource(stream, raw, kind)) }
        })
    }

    /// Returns the resource, or `None` if the driver wrote that there is none.
    fn of(device: &Device, raw: CUdevResource) -> Option<Self> {
        let is_sm = raw.type_ == CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
        is_sm.then(|| Self {
            device: device.clone(),
            raw,
        })
    }

    /// The device of the multiprocessors.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number of multiprocessors.
    #[must_use]
    pub fn sm_count(&self) -> u32 {
        self.sm().smCount
    }

    /// The number of multiprocessors of the smallest part. `None` if the driver is older than CUDA
    /// 13.0, which does not report it.
    #[must_use]
    pub fn min_partition(&self) -> Option<u32> {
        Some(self.sm().minSmPartitionSize).filter(|count| *count > 0)
    }

    /// The number that the size of a part is a multiple of. `None` if the driver is older than CUDA
    /// 13.0, which does not report it.
    #[must_use]
    pub fn alignment(&self) -> Option<u32> {
        Some(self.sm().smCoscheduledAlignment).filter(|count| *count > 0)
    }

    /// The resource as C describes it.
    #[must_use]
    pub fn as_raw(&self) -> &CUdevResource {
        &self.raw
    }

    /// `cuDevSmResourceSplitByCount(groups, least)`—Makes parts of equal size, each with at least
    /// `least` multiprocessors. The size is rounded up to what the device can do. The result has
    /// fewer groups if there are not enough multiprocessors.
    ///
    /// Only the multiprocessors of a device or a context can be split. To split a part further,
    /// create a green context with it, and split the [resource](crate::Context::sm_resource) of
    /// that context.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if `groups` is 0. [`Error::OutOfRange`] if `groups` or `least` is
    /// greater than [`sm_count`](Self::sm_count). `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION` if
    /// there are not enough multiprocessors for one group, or if this is a part.
    #[doc(alias = "cuDevSmResourceSplitByCount")]
    #[doc(alias = "cudaDevSmResourceSplitByCount")]
    pub fn split_by_count(&self, groups: u32, least: u32, flags: SmSplitFlags) -> Result<SmSplit> {
        let all = self.sm_count();
        if groups == 0 {
            return Err(Error::Unsupported {
                what: "splitting multiprocessors into 0 groups; pass at least 1",
            });
        }
        for (given, what) in [
            (groups, "groups of multiprocessors"),
            (least, "multiprocessors of a group"),
        ] {
            let (given, most) = (given as usize, all as usize);
            if given > most {
                return Err(RangeError::TooMany { what, given, most }.into());
            }
        }
        let mut parts = vec![empty(); groups as usize];
        let mut count = groups;
        let mut rest = empty();
        // SAFETY: the array must have as many elements as `count` says, and the pointers must be
        // valid ← `parts` has `groups` elements, and the others point to locals or are borrowed.
        unsafe {
            call!(
                self.device.driver(),
                cuDevSmResourceSplitByCount(
                    parts.as_mut_ptr(),
                    &raw mut count,
                    &raw const self.raw,
                    &raw mut rest,
                    flags.bits(),
                    least
                )
            )
        }?;
        parts.truncate(count as usize);
        Ok(self.parts(parts, rest))
    }

    /// `cuDevSmResourceSplitByCount(NULL, least)`—Returns the largest number of groups into which
    /// [`split_by_count`](Self::split_by_count) can split these multiprocessors.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if `least` is greater than [`sm_count`](Self::sm_count).
    #[doc(alias = "cuDevSmResourceSplitByCount")]
    pub fn max_groups(&self, least: u32, flags: SmSplitFlags) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the pointers must be valid, or NULL where that is allowed ← they point to a local
        // or are borrowed, and the arrays may be NULL.
        unsafe {
            call!(
                self.device.driver(),
                cuDevSmResourceSplitByCount(
                    ptr::null_mut(),
                    &raw mut count,
                    &raw const self.raw,
                    ptr::null_mut(),
                    flags.bits(),
                    least
                )
            )
        }?;
        Ok(count)
    }

    /// `cuDevSmResourceSplit(groups)`—Makes parts of different sizes.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION` if a group cannot be made as described,
    /// `CUDA_ERROR_INVALID_VALUE` if `groups` is empty. [`Error::Driver`] with
    /// `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the driver is older than CUDA 13.1.
    #[doc(alias = "cuDevSmResourceSplit")]
    #[doc(alias = "cudaDevSmResourceSplit")]
    pub fn split(&self, groups: &[SmGroup]) -> Result<SmSplit> {
        let mut params: Vec<_> = groups.iter().map(SmGroup::raw).collect();
        let mut parts = vec![empty(); groups.len()];
        let mut rest = empty();
        // SAFETY: the arrays must have as many elements as the number says, and the pointers must
        // be valid ← both have one element for each group (a larger number was never allocated),
        // and the others point to a local or are borrowed.
        unsafe {
            call!(
                self.device.driver(),
                cuDevSmResourceSplit(
                    parts.as_mut_ptr(),
                    groups.len() as u32,
                    &raw const self.raw,
                    &raw mut rest,
                    0,
                    params.as_mut_ptr()
                )
            )
        }?;
        Ok(self.parts(parts, rest))
    }

    fn parts(&self, parts: Vec<CUdevResource>, rest: CUdevResource) -> SmSplit {
        let groups = parts.into_iter();
        SmSplit {
            groups: groups
                .filter_map(|part| Self::of(&self.device, part))
                .collect(),
            remainder: Self::of(&self.device, rest),
        }
    }

    fn sm(&self) -> cuda_sys::CUdevSmResource {
        // SAFETY: the field of the union must be set ← the type of the resource says so, and the
        // field consists of integers, for which all bits that C wrote are valid.
        unsafe { self.raw.__bindgen_anon_1.sm }
    }
}

impl SmGroup {
    fn raw(&self) -> CU_DEV_SM_RESOURCE_GROUP_PARAMS {
        let backfill = CUdevSmResourceGroup_flags::CU_DEV_SM_RESOURCE_GROUP_BACKFILL.0;
        CU_DEV_SM_RESOURCE_GROUP_PARAMS {
            smCount: self.sm_count,
            coscheduledSmCount: self.coscheduled,
            preferredCoscheduledSmCount: 0,
            flags: if self.may_backfill { backfill } else { 0 },
            localityDomainId: 0,
            reserved: [0; 11],
        }
    }
}

impl WorkqueueConfig {
    /// The device of the queues.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number of streams whose work is expected to run at the same time.
    #[must_use]
    pub fn concurrency_limit(&self) -> u32 {
        self.config().wqConcurrencyLimit
    }

    /// Which contexts use the same queues.
    #[must_use]
    pub fn scope(&self) -> WorkqueueScope {
        WorkqueueScope(self.config().sharingScope.0)
    }

    /// Sets the number of streams whose work is expected to run at the same time.
    #[must_use]
    pub fn with_concurrency_limit(mut self, streams: u32) -> Self {
        let mut config = self.config();
        config.wqConcurrencyLimit = streams;
        self.raw.__bindgen_anon_1.wqConfig = config;
        self
    }

    /// Sets which contexts use the same queues.
    #[must_use]
    pub fn with_scope(mut self, scope: WorkqueueScope) -> Self {
        let mut config = self.config();
        config.sharingScope = CUdevWorkqueueConfigScope(scope.0);
        self.raw.__bindgen_anon_1.wqConfig = config;
        self
    }

    /// The resource as C describes it.
    #[must_use]
    pub fn as_raw(&self) -> &CUdevResource {
        &self.raw
    }

    fn config(&self) -> cuda_sys::CUdevWorkqueueConfigResource {
        // SAFETY: the field of the union must be set ← the driver has written it, and the field
        // consists of integers, for which all bits that C wrote are valid.
        unsafe { self.raw.__bindgen_anon_1.wqConfig }
    }
}

/// Returns a resource that is not valid, for the driver to overwrite.
fn empty() -> CUdevResource {
    CUdevResource {
        type_: CUdevResourceType::CU_DEV_RESOURCE_TYPE_INVALID,
        _internal_padding: [0; 92],
        __bindgen_anon_1: CUdevResource_st__bindgen_ty_1 { _oversize: [0; 40] },
        nextResource: ptr::null_mut(),
    }
}

impl fmt::Debug for SmResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SmResource({} multiprocessors of device {})",
            self.sm_count(),
            self.device.ordinal()
        )
    }
}

impl fmt::Debug for WorkqueueConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkqueueConfig")
            .field("device", &self.device.ordinal())
            .field("concurrency_limit", &self.concurrency_limit())
            .field("scope", &self.scope())
            .finish()
    }
}
