//! Atomic operations on the memory of another device and of the host.

use cuda_sys::CUatomicOperation;

use super::Device;
use crate::driver::call;
use crate::error::Result;

bitflags::bitflags! {
    /// The forms in which an atomic operation is native on a link. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[doc(alias = "CUatomicOperationCapability")]
    pub struct AtomicCapabilities: u32 {
        /// Operations on signed numbers.
        const SIGNED = 1;
        /// Operations on unsigned numbers.
        const UNSIGNED = 1 << 1;
        /// Reductions: the operation does not return the previous value.
        const REDUCTION = 1 << 2;
        /// Operations on values of 32 bits.
        const SCALAR_32 = 1 << 3;
        /// Operations on values of 64 bits.
        const SCALAR_64 = 1 << 4;
        /// Operations on values of 128 bits.
        const SCALAR_128 = 1 << 5;
        /// On four values of 32 bits.
        const VECTOR_32X4 = 1 << 6;
        const _ = !0;
    }
}

/// Native atomic operations.
impl Device {
    /// `cuDeviceGetP2PAtomicCapabilities(operations)`—Returns the forms in which kernels on this
    /// device can run each of `operations` on the memory of `peer` without emulation.
    ///
    /// ```
    /// use cuda_driver::device::{AtomicCapabilities, AtomicOperation};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
    /// let (one, two) = (driver.device(0)?, driver.device(1)?);
    /// let operations = [AtomicOperation::CU_ATOMIC_OPERATION_INTEGER_ADD];
    /// let forms = one.peer_atomic_capabilities(&two, &operations)?;
    /// println!("32 bits: {}", forms[0].contains(AtomicCapabilities::SCALAR_32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 13.0, `CUDA_ERROR_INVALID_DEVICE` if both devices are the same,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `peer` belongs to another driver.
    #[doc(alias = "cuDeviceGetP2PAtomicCapabilities")]
    #[doc(alias = "cudaDeviceGetP2PAtomicCapabilities")]
    pub fn peer_atomic_capabilities(
        &self,
        peer: &Self,
        operations: &[CUatomicOperation],
    ) -> Result<Vec<AtomicCapabilities>> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let mut found = vec![0_u32; operations.len()];
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let count = count_of(operations)?;
        // SAFETY: the pointers must be valid for `count` elements ← both have `operations.len()`
        // elements, which is `count`.
        unsafe {
            call!(
                driver,
                cuDeviceGetP2PAtomicCapabilities(
                    found.as_mut_ptr(),
                    operations.as_ptr(),
                    count,
                    self.as_raw(),
                    peer.as_raw()
                )
            )
        }?;
        Ok(flags_of(found))
    }

    /// `cuDeviceGetHostAtomicCapabilities(operations)`—Returns the forms in which kernels on this
    /// device can run each of `operations` on memory of the host without emulation.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 13.0.
    #[doc(alias = "cuDeviceGetHostAtomicCapabilities")]
    #[doc(alias = "cudaDeviceGetHostAtomicCapabilities")]
    pub fn host_atomic_capabilities(
        &self,
        operations: &[CUatomicOperation],
    ) -> Result<Vec<AtomicCapabilities>> {
        let driver = self.driver();
        let mut found = vec![0_u32; operations.len()];
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let count = count_of(operations)?;
        // SAFETY: the pointers must be valid for `count` elements ← both have `operations.len()`
        // elements, which is `count`.
        unsafe {
            call!(
                driver,
                cuDeviceGetHostAtomicCapabilities(
                    found.as_mut_ptr(),
                    operations.as_ptr(),
                    count,
                    self.as_raw()
                )
            )
        }?;
        Ok(flags_of(found))
    }
}

fn count_of(operations: &[CUatomicOperation]) -> Result<u32> {
    u32::try_from(operations.len()).map_err(|_| crate::Error::Unsupported {
        what: "more than 4,294,967,295 atomic operations in a query; divide the query",
    })
}

fn flags_of(found: Vec<u32>) -> Vec<AtomicCapabilities> {
    let flags = found.into_iter().map(AtomicCapabilities::from_bits_retain);
    flags.collect()
}
