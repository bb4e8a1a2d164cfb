//! Attributes of a memory pool: what it keeps, how it reuses memory, and its statistics.

use std::ffi::{c_int, c_void};

use cuda_sys::CUmemPool_attribute;

use super::MemoryPool;
use crate::driver::call;
use crate::error::Result;

bitflags::bitflags! {
    /// The conditions under which a pool reuses memory that was freed on another stream. A new pool
    /// has all flags set.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PoolReuse: u32 {
        /// Reuse if the stream has waited for the free through events.
        const FOLLOW_EVENT_DEPENDENCIES = 1;
        /// Reuse if the free happens to have completed.
        const ALLOW_OPPORTUNISTIC = 2;
        /// Reuse after making the stream wait for the free.
        const ALLOW_INTERNAL_DEPENDENCIES = 4;
    }
}

/// The statistics of a memory pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPoolStatistics {
    /// Bytes that the pool has reserved from the device.
    pub reserved: u64,
    /// The maximum of `reserved` since the last reset.
    pub most_reserved: u64,
    /// Bytes that are allocated from the pool.
    pub used: u64,
    /// The maximum of `used` since the last reset.
    pub most_used: u64,
}

/// Attributes of the pool.
impl MemoryPool {
    /// `cuMemPoolTrimTo(bytes)`—Returns unused memory to the device until the pool has at most
    /// `bytes` bytes or no more can be returned. Freed memory can be returned only once the host
    /// knows that its stream has reached the free.
    #[doc(alias = "cuMemPoolTrimTo")]
    #[doc(alias = "cudaMemPoolTrimTo")]
    pub fn trim_to(&self, bytes: usize) -> Result<()> {
        // SAFETY: the pool must be alive ← it is borrowed.
        Ok(unsafe {
            call!(
                self.device().driver(),
                cuMemPoolTrimTo(self.as_raw(), bytes)
            )
        }?)
    }

    /// `cuMemPoolGetAttribute(RELEASE_THRESHOLD)`—Returns the number of bytes that the pool keeps
    /// when the host waits for a stream. It is 0 in a new pool, which then returns all free memory
    /// to the device.
    #[doc(alias = "cuMemPoolGetAttribute")]
    #[doc(alias = "cudaMemPoolGetAttribute")]
    pub fn release_threshold(&self) -> Result<u64> {
        self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    /// `cuMemPoolSetAttribute(RELEASE_THRESHOLD)`—Sets the number of bytes that the pool keeps when
    /// the host waits for a stream.
    #[doc(alias = "cuMemPoolSetAttribute")]
    #[doc(alias = "cudaMemPoolSetAttribute")]
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.set(
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            bytes,
        )
    }

    /// `cuMemPoolGetAttribute(REUSE_…)`—Returns the conditions under which memory is reused.
    pub fn reuse(&self) -> Result<PoolReuse> {
        let mut reuse = PoolReuse::empty();
        for (flag, attribute) in reuse_attributes() {
            reuse.set(flag, self.get::<c_int>(attribute)? != 0);
        }
        Ok(reuse)
    }

    /// `cuMemPoolSetAttribute(REUSE_…)`—Sets the conditions under which memory is reused.
    pub fn set_reuse(&self, reuse: PoolReuse) -> Result<()> {
        for (flag, attribute) in reuse_attributes() {
            self.set(attribute, c_int::from(reuse.contains(flag)))?;
        }
        Ok(())
    }

    /// `cuMemPoolGetAttribute(RESERVED_MEM_…, USED_MEM_…)`—Returns the current and maximum numbers
    /// of bytes.
    pub fn statistics(&self) -> Result<MemoryPoolStatistics> {
        type A = CUmemPool_attribute;
        Ok(MemoryPoolStatistics {
            reserved: self.get(A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            most_reserved: self.get(A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            used: self.get(A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            most_used: self.get(A::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
        })
    }

    /// `cuMemPoolSetAttribute(RESERVED_MEM_HIGH, USED_MEM_HIGH)`—Resets both maxima to the current
    /// values.
    pub fn reset_statistics(&self) -> Result<()> {
        type A = CUmemPool_attribute;
        self.set(A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0_u64)?;
        self.set(A::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0_u64)
    }

    /// Reads an attribute. `V` must be the attribute's type: `int` for the reuse flags, a 64-bit
    /// integer for numbers of bytes.
    fn get<V: bytemuck::Pod>(&self, attribute: CUmemPool_attribute) -> Result<V> {
        let mut value = V::zeroed();
        let pointer: *mut c_void = (&raw mut value).cast();
        // SAFETY: the pointer must be writable for the attribute's type, and the pool alive ← the
        // callers pass `int` for the reuse flags and 64 bits for numbers of bytes, and the pool is
        // borrowed.
        unsafe {
            call!(
                self.device().driver(),
                cuMemPoolGetAttribute(self.as_raw(), attribute, pointer)
            )
        }?;
        Ok(value)
    }

    fn set<V: bytemuck::Pod>(&self, attribute: CUmemPool_attribute, mut value: V) -> Result<()> {
        let pointer: *mut c_void = (&raw mut value).cast();
        // SAFETY: the pointer must be to a value of the attribute's type, and the pool alive ← the
        // callers pass `int` for the reuse flags and 64 bits for numbers of bytes, and the pool is
        // borrowed.
        Ok(unsafe {
            call!(
                self.device().driver(),
                cuMemPoolSetAttribute(self.as_raw(), attribute, pointer)
            )
        }?)
    }
}

/// Returns each flag with its attribute.
fn reuse_attributes() -> [(PoolReuse, CUmemPool_attribute); 3] {
    type A = CUmemPool_attribute;
    [
        (
            PoolReuse::FOLLOW_EVENT_DEPENDENCIES,
            A::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        ),
        (
            PoolReuse::ALLOW_OPPORTUNISTIC,
            A::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        ),
        (
            PoolReuse::ALLOW_INTERNAL_DEPENDENCIES,
            A::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
        ),
    ]
}
