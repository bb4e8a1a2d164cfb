//! Attributes of streams, which kernels that are launched on them take over.

use cuda_sys::{
    CUaccessPolicyWindow, CUaccessProperty, CUdeviceptr, CUlaunchMemSyncDomain,
    CUlaunchMemSyncDomainMap, CUstreamAttrID, CUstreamAttrValue, CUsynchronizationPolicy,
};

use super::Stream;
use crate::driver::call;
use crate::error::Result;
use crate::launch::{AccessProperty, MemSyncDomain};

/// How the host waits for a stream. Values that are not named here are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SynchronizationPolicy(pub u32);

impl SynchronizationPolicy {
    /// As the context does.
    pub const AUTO: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_AUTO.0);
    /// It spins: the quickest to go on.
    pub const SPIN: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_SPIN.0);
    /// It spins, and lets other threads run between.
    pub const YIELD: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_YIELD.0);
    /// It sleeps.
    pub const BLOCKING: Self = Self(CUsynchronizationPolicy::CU_SYNC_POLICY_BLOCKING_SYNC.0);
}

/// Memory of which the L2 cache keeps more, or less, than of other memory. A hint: what is at the
/// address does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessPolicyWindow {
    /// Where it begins.
    pub address: CUdeviceptr,
    /// How long it is.
    pub bytes: usize,
    /// The share of the uses within it that count as `hit`, from 0 to 1.
    pub hit_ratio: f32,
    /// For that share.
    pub hit: AccessProperty,
    /// For the rest of them.
    pub miss: AccessProperty,
}

/// Which domain of the device the two logical ones are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemSyncDomainMap {
    /// Of [`MemSyncDomain::Default`].
    pub default: u8,
    /// Of [`MemSyncDomain::Remote`].
    pub remote: u8,
}

impl Stream {
    /// `cuStreamGetAttribute()`.
    fn attribute(&self, attribute: CUstreamAttrID) -> Result<CUstreamAttrValue> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        let _current = self.bind_to_ask()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local, and `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetAttribute(self.as_raw(), attribute, &raw mut value)
            )
        }?;
        Ok(value)
    }

    /// `cuStreamSetAttribute()`.
    fn set_attribute(&self, attribute: CUstreamAttrID, value: &CUstreamAttrValue) -> Result<()> {
        let _current = self.bind_to_ask()?;
        // SAFETY: the pointer must be readable and the stream alive ← a reference, and `self` owns
        // it.
        Ok(unsafe {
            call!(
                self.driver(),
                cuStreamSetAttribute(self.as_raw(), attribute, value)
            )
        }?)
    }

    /// `cuStreamGetAttribute(ACCESS_POLICY_WINDOW)`—The memory that the L2 cache treats in its own
    /// way.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamGetAttribute")]
    pub fn access_policy_window(&self) -> Result<AccessPolicyWindow> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)?;
        // SAFETY: all bits must be initialised, and of this field ← any bits are a window, and all
        // were.
        let window = unsafe { value.accessPolicyWindow };
        Ok(AccessPolicyWindow {
            address: window.base_ptr.addr() as CUdeviceptr,
            bytes: window.num_bytes,
            hit_ratio: window.hitRatio,
            hit: property(window.hitProp),
            miss: property(window.missProp),
        })
    }

    /// `cuStreamSetAttribute(ACCESS_POLICY_WINDOW)`—Has the L2 cache treat memory in its own way,
    /// for what is launched from now on.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the window is longer than the device allows, or what else the
    /// call answers.
    #[doc(alias = "cuStreamSetAttribute")]
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

    /// `cuStreamGetAttribute(SYNCHRONIZATION_POLICY)`—How the host waits for the stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn synchronization_policy(&self) -> Result<SynchronizationPolicy> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)?;
        // SAFETY: all bits must be initialised, and of this field ← any bits are a policy, and all
        // were.
        Ok(SynchronizationPolicy(unsafe { value.syncPolicy }.0))
    }

    /// `cuStreamSetAttribute(SYNCHRONIZATION_POLICY)`—Chooses how the host waits for the stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn set_synchronization_policy(&self, policy: SynchronizationPolicy) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.syncPolicy = CUsynchronizationPolicy(policy.0);
        self.set_attribute(
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
            &value,
        )
    }

    /// `cuStreamSetAttribute(PRIORITY)`—Changes the priority, for what is launched from now on,
    /// where the driver can.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` where it cannot, or what else the call answers.
    pub fn set_priority(&self, priority: i32) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.priority = priority;
        self.set_attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)
    }

    /// `cuStreamGetAttribute(MEM_SYNC_DOMAIN)`—The domain of memory fences.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn mem_sync_domain(&self) -> Result<MemSyncDomain> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)?;
        // SAFETY: all bits must be initialised, and of this field ← any bits are a domain, and all
        // were.
        let domain = unsafe { value.memSyncDomain };
        Ok(match domain {
            CUlaunchMemSyncDomain::CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE => MemSyncDomain::Remote,
            _ => MemSyncDomain::Default,
        })
    }

    /// `cuStreamSetAttribute(MEM_SYNC_DOMAIN)`—Chooses the domain of memory fences.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn set_mem_sync_domain(&self, domain: MemSyncDomain) -> Result<()> {
        let mut value = CUstreamAttrValue { pad: [0; 64] };
        value.memSyncDomain = domain.raw();
        self.set_attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value)
    }

    /// `cuStreamGetAttribute(MEM_SYNC_DOMAIN_MAP)`—Which domains of the device the logical ones
    /// are.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn mem_sync_domain_map(&self) -> Result<MemSyncDomainMap> {
        let value = self.attribute(CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)?;
        // SAFETY: all bits must be initialised, and of this field ← any bits are a map, and all
        // were.
        let map = unsafe { value.memSyncDomainMap };
        Ok(MemSyncDomainMap {
            default: map.default_,
            remote: map.remote,
        })
    }

    /// `cuStreamSetAttribute(MEM_SYNC_DOMAIN_MAP)`—Chooses which domains of the device the logical
    /// ones are.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for a domain that the device does not have, or what else the call
    /// answers.
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

    /// `cuStreamCopyAttributes(self, from)`—Takes over all attributes of another stream of the same
    /// context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext), or what the call answers.
    #[doc(alias = "cuStreamCopyAttributes")]
    pub fn copy_attributes(&self, from: &Self) -> Result<()> {
        self.expect_context(from.context(), "the stream")?;
        let _current = match self.bind_to_ask()? {
            Some(current) => Some(current),
            None => from.bind_to_ask()?,
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

/// One that this crate does not know counts as normal.
fn property(raw: CUaccessProperty) -> AccessProperty {
    match raw {
        CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING => AccessProperty::Streaming,
        CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING => AccessProperty::Persisting,
        _ => AccessProperty::Normal,
    }
}
