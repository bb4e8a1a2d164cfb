//! Attributes of a stream (`cuStreamGetAttribute`, `cuStreamSetAttribute`). Kernels that are
//! launched on the stream inherit them.
//!
//! Unlike C's union, each attribute has its own method and type.

use cuda_sys::{
    CUaccessPolicyWindow, CUaccessProperty, CUdeviceptr, CUlaunchMemSyncDomain,
    CUlaunchMemSyncDomainMap, CUstreamAttrID, CUstreamAttrValue, CUsynchronizationPolicy,
};

use crate::driver::call;
use crate::error::Result;
use crate::stream::Stream;
use crate::types::{AccessProperty, MemSyncDomain};

/// How the host waits for a stream. Values without a name are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SynchronizationPolicy(pub u32);

impl SynchronizationPolicy {
    /// Use the policy of the context.
    pub const AUTO: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_AUTO.0);
    /// Spin, which has the lowest latency.
    pub const SPIN: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_SPIN.0);
    /// Spin, and yield to other threads in between.
    pub const YIELD: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_YIELD.0);
    /// Sleep.
    pub const BLOCKING: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_BLOCKING_SYNC.0);
}

/// A range of addresses that the L2 cache treats differently from other memory. It is only a hint,
/// so the address need not belong to an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessPolicyWindow {
    /// The address of the first byte.
    pub address: CUdeviceptr,
    /// The length in bytes.
    pub bytes: usize,
    /// The share of the accesses within the range that are treated as `hit`, from 0 to 1.
    pub hit_ratio: f32,
    /// The treatment of that share.
    pub hit: AccessProperty,
    /// The treatment of all other accesses within the range.
    pub miss: AccessProperty,
}

/// The mapping of the two logical memory synchronization domains to domains of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemSyncDomainMap {
    /// The domain that [`MemSyncDomain::Default`] maps to.
    pub default: u8,
    /// The domain that [`MemSyncDomain::Remote`] maps to.
    pub remote: u8,
}

/// Attributes of the stream.
impl Stream {
    /// `cuStreamGetAttribute()`—Returns the raw value of an attribute.
    fn attribute(&self, attribute: CUstreamAttrID) -> Result<CUstreamAttrValue> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be writable and the stream alive ← `value` is a local, and
        // `self` owns the stream.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetAttribute(self.as_raw(), attribute, &raw mut value)
            )
        }?;
        Ok(value)
    }

    /// `cuStreamSetAttribute()`—Sets an attribute to a raw value.
    fn set_attribute(&self, attribute: CUstreamAttrID, value: &CUstreamAttrValue) -> Result<()> {
        self.expect_direct("a change of an attribute of the stream")?;
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be readable and the stream alive ← `value` is a reference, and
        // `self` owns the stream.
        Ok(unsafe {
            call!(
                self.driver(),
                cuStreamSetAttribute(self.as_raw(), attribute, value)
            )
        }?)
    }

    /// `cuStreamGetAttribute(ACCESS_POLICY_WINDOW)`—Returns the range of memory that the L2 cache
    /// treats differently.
    #[doc(alias = "cuStreamGetAttribute")]
    #[doc(alias = "cudaStreamGetAttribute")]
    pub fn access_policy_window(&self) -> Result<AccessPolicyWindow> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)?;
        // SAFETY: the field must be initialized and valid ← all bytes of `value` are initialized,
        // and any bits are a valid window.
        let window = unsafe { value.accessPolicyWindow };
        Ok(AccessPolicyWindow {
            address: window.base_ptr.addr() as CUdeviceptr,
            bytes: window.num_bytes,
            hit_ratio: window.hitRatio,
            hit: property(window.hitProp),
            miss: property(window.missProp),
        })
    }

    /// `cuStreamSetAttribute(ACCESS_POLICY_WINDOW)`—Makes the L2 cache treat a range of memory
    /// differently, for kernels that are launched from now on.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the window is longer than the device allows.
    #[doc(alias = "cuStreamSetAttribute")]
    #[doc(alias = "cudaStreamSetAttribute")]
    pub fn set_access_policy_window(&self, window: AccessPolicyWindow) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.accessPolicyWindow = CUaccessPolicyWindow {
            base_ptr: std::ptr::without_provenance_mut(window.address as usize),
            num_bytes: window.bytes,
            hitRatio: window.hit_ratio,
            hitProp: window.hit.raw(),
            missProp: window.miss.raw(),
        };
        self.set_attribute(
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
            &value,
        )
    }

    /// `cuStreamGetAttribute(SYNCHRONIZATION_POLICY)`—Returns how the host waits for the stream.
    pub fn synchronization_policy(&self) -> Result<SynchronizationPolicy> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)?;
        // SAFETY: the field must be initialized and valid ← all bytes of `value` are initialized,
        // and any bits are a valid policy.
        Ok(SynchronizationPolicy(unsafe { value.syncPolicy }.0))
    }

    /// `cuStreamSetAttribute(SYNCHRONIZATION_POLICY)`—Sets how the host waits for the stream.
    pub fn set_synchronization_policy(&self, policy: SynchronizationPolicy) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.syncPolicy = CUsynchronizationPolicy(policy.0);
        self.set_attribute(
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
            &value,
        )
    }

    /// `cuStreamSetAttribute(PRIORITY)`—Changes the priority for kernels that are launched from now
    /// on, if the driver supports that.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not support it.
    pub fn set_priority(&self, priority: i32) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.priority = priority;
        self.set_attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)
    }

    /// `cuStreamGetAttribute(MEM_SYNC_DOMAIN)`—Returns the memory synchronization domain.
    pub fn mem_sync_domain(&self) -> Result<MemSyncDomain> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)?;
        // SAFETY: the field must be initialized and valid ← all bytes of `value` are initialized,
        // and any bits are a valid domain.
        let domain = unsafe { value.memSyncDomain };
        Ok(match domain {
            CUlaunchMemSyncDomain::CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE => MemSyncDomain::Remote,
            _ => MemSyncDomain::Default,
        })
    }

    /// `cuStreamSetAttribute(MEM_SYNC_DOMAIN)`—Sets the memory synchronization domain.
    pub fn set_mem_sync_domain(&self, domain: MemSyncDomain) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.memSyncDomain = domain.raw();
        self.set_attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value)
    }

    /// `cuStreamGetAttribute(MEM_SYNC_DOMAIN_MAP)`—Returns the mapping of the logical domains to
    /// domains of the device.
    pub fn mem_sync_domain_map(&self) -> Result<MemSyncDomainMap> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)?;
        // SAFETY: the field must be initialized and valid ← all bytes of `value` are initialized,
        // and any bits are a valid map.
        let map = unsafe { value.memSyncDomainMap };
        Ok(MemSyncDomainMap {
            default: map.default_,
            remote: map.remote,
        })
    }

    /// `cuStreamSetAttribute(MEM_SYNC_DOMAIN_MAP)`—Sets the mapping of the logical domains to
    /// domains of the device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the device does not have one of the domains.
    pub fn set_mem_sync_domain_map(&self, map: MemSyncDomainMap) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.memSyncDomainMap = CUlaunchMemSyncDomainMap {
            default_: map.default,
            remote: map.remote,
        };
        self.set_attribute(
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
            &value,
        )
    }

    /// `cuStreamCopyAttributes(self, from)`—Copies all attributes of another stream of the same
    /// context to this stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `from` belongs to another context.
    #[doc(alias = "cuStreamCopyAttributes")]
    #[doc(alias = "cudaStreamCopyAttributes")]
    pub fn copy_attributes(&self, from: &Self) -> Result<()> {
        self.expect_context(from.context(), "the stream")?;
        self.expect_direct("Stream::copy_attributes")?;
        let _current = match self.bind_for_query()? {
            Some(current) => Some(current),
            None => from.bind_for_query()?,
        };
        // SAFETY: both streams must be alive ← they are borrowed.
        Ok(unsafe {
            call!(
                self.driver(),
                cuStreamCopyAttributes(self.as_raw(), from.as_raw())
            )
        }?)
    }
}

/// Converts a raw property. An unknown one counts as normal.
fn property(raw: CUaccessProperty) -> AccessProperty {
    match raw {
        CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING => AccessProperty::Streaming,
        CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING => AccessProperty::Persisting,
        _ => AccessProperty::Normal,
    }
}
