//! Peer access between two devices.

use cuda_sys::CUdevice_P2PAttribute;

use super::Device;
use crate::driver::call;
use crate::error::Result;

/// An attribute of the link from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAttribute(pub u32);

impl PeerAttribute {
    /// The rank of the link compared with the links of other pairs; 0 is the fastest.
    pub const PERFORMANCE_RANK: Self =
        Self(CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK.0);
    /// Whether kernels on the first device can access the memory of the second.
    pub const ACCESS_SUPPORTED: Self =
        Self(CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED.0);
    /// Whether the link supports native atomic operations.
    pub const NATIVE_ATOMIC_SUPPORTED: Self =
        Self(CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED.0);
    /// Whether CUDA arrays can be accessed over the link.
    pub const ARRAY_ACCESS_SUPPORTED: Self =
        Self(CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED.0);
}

/// The values of all [`PeerAttribute`]s of the link from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerAttributes {
    /// The rank of the link compared with the links of other pairs; 0 is the fastest.
    pub performance_rank: i32,
    /// Whether kernels on the first device can access the memory of the second.
    pub has_access: bool,
    /// Whether the link supports native atomic operations.
    pub has_native_atomics: bool,
    /// Whether CUDA arrays can be accessed over the link.
    pub has_array_access: bool,
}

/// Access to the memory of other devices.
impl Device {
    /// `cuDeviceCanAccessPeer(peer)`—Returns whether kernels on this device can access the memory
    /// of `peer`. A device is not its own peer.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `peer` belongs to another driver.
    #[doc(alias = "cuDeviceCanAccessPeer")]
    #[doc(alias = "cudaDeviceCanAccessPeer")]
    pub fn can_access_peer(&self, peer: &Self) -> Result<bool> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        if self == peer {
            return Ok(false);
        }
        let mut can = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                driver,
                cuDeviceCanAccessPeer(&raw mut can, self.as_raw(), peer.as_raw())
            )
        }?;
        Ok(can != 0)
    }

    /// `cuDeviceGetP2PAttribute(attribute)`—Returns an attribute of the link from this device to
    /// `peer`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_DEVICE` if both devices are the same, `CUDA_ERROR_INVALID_VALUE` if the
    /// driver does not know the attribute, [`Error::OtherContext`](crate::Error::OtherContext) if
    /// `peer` belongs to another driver.
    #[doc(alias = "cuDeviceGetP2PAttribute")]
    #[doc(alias = "cudaDeviceGetP2PAttribute")]
    pub fn peer_attribute(&self, peer: &Self, attribute: PeerAttribute) -> Result<i32> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let mut value = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                driver,
                cuDeviceGetP2PAttribute(
                    &raw mut value,
                    CUdevice_P2PAttribute(attribute.0),
                    self.as_raw(),
                    peer.as_raw()
                )
            )
        }?;
        Ok(value)
    }

    /// Returns all attributes of the link from this device to `peer`.
    ///
    /// # Errors
    ///
    /// Fails as [`peer_attribute`](Self::peer_attribute) does.
    pub fn peer_attributes(&self, peer: &Self) -> Result<PeerAttributes> {
        let has = |attribute| Ok::<_, crate::Error>(self.peer_attribute(peer, attribute)? != 0);
        Ok(PeerAttributes {
            performance_rank: self.peer_attribute(peer, PeerAttribute::PERFORMANCE_RANK)?,
            has_access: has(PeerAttribute::ACCESS_SUPPORTED)?,
            has_native_atomics: has(PeerAttribute::NATIVE_ATOMIC_SUPPORTED)?,
            has_array_access: has(PeerAttribute::ARRAY_ACCESS_SUPPORTED)?,
        })
    }
}
