//! What a context is made with, and what can be changed later.

use cuda_sys::{CUfunc_cache, CUlimit};

use super::Context;
use crate::driver::call;
use crate::error::Result;

bitflags::bitflags! {
    /// How a context behaves. Bits that are not named here are kept.
    ///
    /// Without one of the first three the driver chooses how a thread waits: it spins if there are
    /// no more contexts than processors.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ContextFlags: u32 {
        /// A thread that waits for the device spins: quickest to go on, and busy meanwhile.
        const SCHED_SPIN = 1;
        /// A thread that waits lets others run in between.
        const SCHED_YIELD = 2;
        /// A thread that waits sleeps.
        const SCHED_BLOCKING_SYNC = 4;
        /// Pinned memory can be mapped. It always can, since CUDA 3.2.
        const MAP_HOST = 8;
        /// Local memory that was made larger for a kernel stays so.
        const LMEM_RESIZE_TO_MAX = 16;
        /// A fault writes a core dump.
        const COREDUMP_ENABLE = 32;
        /// Writing to a pipe makes a core dump.
        const USER_COREDUMP_ENABLE = 64;
        /// Copies and memsets that may be asynchronous are not.
        const SYNC_MEMOPS = 128;
        const _ = !0;
    }
}

/// A resource of a context whose size can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub u32);

impl Limit {
    /// Bytes of stack of each thread of a kernel.
    pub const STACK_SIZE: Self = Self(CUlimit::CU_LIMIT_STACK_SIZE.0);
    /// Bytes of the buffer that `printf` of kernels writes to.
    pub const PRINTF_FIFO_SIZE: Self = Self(CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE.0);
    /// Bytes of the heap that `malloc` of kernels takes from.
    pub const MALLOC_HEAP_SIZE: Self = Self(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE.0);
    /// How deep kernels can launch kernels and wait for them; from compute capability 9.0 on there
    /// is no such limit.
    pub const DEV_RUNTIME_SYNC_DEPTH: Self = Self(CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH.0);
    /// How many launches of kernels by kernels can be pending.
    pub const DEV_RUNTIME_PENDING_LAUNCH_COUNT: Self =
        Self(CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT.0);
    /// Bytes that are read into the L2 cache at once, as a hint.
    pub const MAX_L2_FETCH_GRANULARITY: Self = Self(CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY.0);
    /// Bytes of the L2 cache that are set aside for accesses that persist.
    pub const PERSISTING_L2_CACHE_SIZE: Self = Self(CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE.0);
}

/// What the memory that is both L1 cache and shared memory is rather used for, where it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheConfig(pub u32);

impl CacheConfig {
    /// No preference.
    pub const NONE: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE.0);
    /// Rather shared memory.
    pub const SHARED: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_SHARED.0);
    /// Rather L1 cache.
    pub const L1: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1.0);
    /// As much of the one as of the other.
    pub const EQUAL: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0);
}

impl Context {
    /// `cuCtxGetFlags()`—The flags that the context has.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuCtxGetFlags")]
    pub fn flags(&self) -> Result<ContextFlags> {
        let _current = self.enter()?;
        let mut flags = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self.driver(), cuCtxGetFlags(&raw mut flags)) }?;
        Ok(ContextFlags::from_bits_retain(flags))
    }

    /// `cuCtxSetFlags(flags)`—Changes how threads wait, and other flags that can be changed.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for flags that do not go together; on a driver older than CUDA
    /// 12.1, that it lacks the call.
    #[doc(alias = "cuCtxSetFlags")]
    pub fn set_flags(&self, flags: ContextFlags) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetFlags(flags.bits())) }?)
    }

    /// `cuCtxGetLimit(limit)`—The size of a resource.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_UNSUPPORTED_LIMIT` if the device has no such limit.
    #[doc(alias = "cuCtxGetLimit")]
    pub fn limit(&self, limit: Limit) -> Result<usize> {
        let _current = self.enter()?;
        let mut value = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetLimit(&raw mut value, CUlimit(limit.0))
            )
        }?;
        Ok(value)
    }

    /// `cuCtxSetLimit(limit, value)`—Asks for a size; the driver rounds it, and
    /// [`limit`](Self::limit) tells what came of it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_UNSUPPORTED_LIMIT` if the device has no such limit, `CUDA_ERROR_INVALID_VALUE`
    /// for a size out of range or, for the heap and the `printf` buffer, after a kernel that uses
    /// them was launched.
    #[doc(alias = "cuCtxSetLimit")]
    pub fn set_limit(&self, limit: Limit, value: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetLimit(CUlimit(limit.0), value)) }?)
    }

    /// `cuCtxGetCacheConfig()`—What kernels without a preference of their own prefer.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuCtxGetCacheConfig")]
    pub fn cache_config(&self) -> Result<CacheConfig> {
        let _current = self.enter()?;
        let mut config = CUfunc_cache(0);
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self.driver(), cuCtxGetCacheConfig(&raw mut config)) }?;
        Ok(CacheConfig(config.0))
    }

    /// `cuCtxSetCacheConfig(config)`—Sets that; a device whose parts are fixed takes no notice.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know it.
    #[doc(alias = "cuCtxSetCacheConfig")]
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetCacheConfig(CUfunc_cache(config.0))) }?)
    }

    /// `cuCtxResetPersistingL2Cache()`—All lines of the L2 cache that persist become usual ones.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device has no such lines.
    #[doc(alias = "cuCtxResetPersistingL2Cache")]
    pub fn reset_persisting_l2_cache(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxResetPersistingL2Cache()) }?)
    }

    /// `cuCtxGetApiVersion()`—The version of the context's interface: 3020 or so, which is not the
    /// driver's version.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuCtxGetApiVersion")]
    pub fn api_version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: the context must be alive and the pointer writable ← `self` is a handle of it,
        // and it is to a local.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetApiVersion(self.as_raw(), &raw mut version)
            )
        }?;
        Ok(version)
    }

    /// `cuCtxGetId()`—A number that no other context of this process has or had.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuCtxGetId")]
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        // SAFETY: the context must be alive and the pointer writable ← `self` is a handle of it,
        // and it is to a local.
        unsafe { call!(self.driver(), cuCtxGetId(self.as_raw(), &raw mut id)) }?;
        Ok(id)
    }
}
