//! What a pool keeps, hands out again, and counts.

use std::ffi::{c_int, c_void};

use cuda_sys::CUmemPool_attribute;

use super::MemoryPool;
use crate::driver::call;
use crate::error::Result;

bitflags::bitflags! {
    /// How a pool hands memory out again that was freed on another stream. All are on in a new
    /// pool.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PoolReuse: u32 {
        /// If the stream has waited for the free through events.
        const FOLLOW_EVENT_DEPENDENCIES = 1;
        /// If the free happens to be done.
        const ALLOW_OPPORTUNISTIC = 2;
        /// By making the stream wait for the free.
        const ALLOW_INTERNAL_DEPENDENCIES = 4;
    }
}

/// Bytes of a memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPoolStatistics {
    /// What it has from the device.
    pub reserved: u64,
    /// The most that it had since the last reset.
    pub most_reserved: u64,
    /// What is allocated from it.
    pub used: u64,
    /// The most that was since the last reset.
    pub most_used: u64,
}

impl MemoryPool {
    /// `cuMemPoolTrimTo(bytes)`—Gives unused memory back to the device, until the pool has at most
    /// `bytes` bytes or no more can go. What was freed goes when the host knows that its stream has
    /// come to it.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim_to(&self, bytes: usize) -> Result<()> {
        // SAFETY: the pool must be alive ← it is borrowed.
        Ok(unsafe {
            call!(
                self.device().driver(),
                cuMemPoolTrimTo(self.as_raw(), bytes)
            )
        }?)
    }

    /// `cuMemPoolGetAttribute(RELEASE_THRESHOLD)`—The bytes that the pool keeps when the host waits
    /// for a stream. 0 in a new pool: all that is free goes back to the device then.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn release_threshold(&self) -> Result<u64> {
        self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    /// `cuMemPoolSetAttribute(RELEASE_THRESHOLD)`—Keeps up to so many bytes when the host waits for
    /// a stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.set(
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            bytes,
        )
    }

    /// `cuMemPoolGetAttribute(REUSE_…)`—How memory is handed out again.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn reuse(&self) -> Result<PoolReuse> {
        let mut reuse = PoolReuse::empty();
        for (flag, attribute) in reuse_attributes() {
            reuse.set(flag, self.get::<c_int>(attribute)? != 0);
        }
        Ok(reuse)
    }

    /// `cuMemPoolSetAttribute(REUSE_…)`—Says how memory is to be handed out again.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn set_reuse(&self, reuse: PoolReuse) -> Result<()> {
        for (flag, attribute) in reuse_attributes() {
            self.set(attribute, c_int::from(reuse.contains(flag)))?;
        }
        Ok(())
    }

    /// `cuMemPoolGetAttribute(RESERVED_MEM_…, USED_MEM_…)`—What the pool has and had.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn statistics(&self) -> Result<MemoryPoolStatistics> {
        type A = CUmemPool_attribute;
        Ok(MemoryPoolStatistics {
            reserved: self.get(A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            most_reserved: self.get(A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            used: self.get(A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            most_used: self.get(A::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
        })
    }

    /// `cuMemPoolSetAttribute(RESERVED_MEM_HIGH, USED_MEM_HIGH)`—Makes both maxima what there is
    /// now.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn reset_statistics(&self) -> Result<()> {
        type A = CUmemPool_attribute;
        self.set(A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0_u64)?;
        self.set(A::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0_u64)
    }

    /// A value of the attribute's type: `int` for the reuse of memory, 64 bits for bytes.
    fn get<V: bytemuck::Pod>(&self, attribute: CUmemPool_attribute) -> Result<V> {
        let mut value = V::zeroed();
        let pointer: *mut c_void = (&raw mut value).cast();
        // SAFETY: the pointer must be writable for the attribute's type, and the pool alive ← the
        // callers ask for `int` for the reuse of memory and for 64 bits for bytes, and borrowed.
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
        // callers give `int` for the reuse of memory and 64 bits for bytes, and borrowed.
        Ok(unsafe {
            call!(
                self.device().driver(),
                cuMemPoolSetAttribute(self.as_raw(), attribute, pointer)
            )
        }?)
    }
}

/// Each flag with its attribute.
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
