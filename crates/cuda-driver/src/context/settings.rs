//! The flags, limits and cache preferences of a context.

use cuda_sys::{CUfunc_cache, CUlimit};

use super::Context;
use crate::driver::call;
use crate::error::Result;

bitflags::bitflags! {
    /// The behaviour of a context. Unknown bits are kept.
    ///
    /// If none of the first three flags is set, the driver chooses how a thread waits: it spins if
    /// there are no more contexts than processors.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ContextFlags: u32 {
        /// A thread that waits for the device spins. This has the lowest latency and keeps a
        /// processor busy.
        const SCHED_SPIN = 1;
        /// A thread that waits for the device yields to other threads.
        const SCHED_YIELD = 2;
        /// A thread that waits for the device sleeps.
        const SCHED_BLOCKING_SYNC = 4;
        /// Pinned memory can be mapped. Since CUDA 3.2 this is always possible.
        const MAP_HOST = 8;
        /// Local memory that was enlarged for a kernel keeps its size afterwards.
        const LMEM_RESIZE_TO_MAX = 16;
        /// A fault on the device writes a core dump.
        const COREDUMP_ENABLE = 32;
        /// Writing to a pipe triggers a core dump.
        const USER_COREDUMP_ENABLE = 64;
        /// Copies and memsets are always synchronous, including those that could be asynchronous.
        const SYNC_MEMOPS = 128;
        const _ = !0;
    }
}

impl ContextFlags {
    /// `CU_CTX_SCHED_AUTO`: the driver chooses how a thread waits for the device.
    #[doc(alias = "CU_CTX_SCHED_AUTO")]
    #[doc(alias = "cudaDeviceScheduleAuto")]
    pub const DEFAULT: Self = Self::empty();
}

/// A resource of a context whose size can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub u32);

impl Limit {
    /// The size of the stack of each thread of a kernel, in bytes.
    pub const STACK_SIZE: Self = Self(CUlimit::CU_LIMIT_STACK_SIZE.0);
    /// The size of the buffer of the `printf` function of kernels, in bytes.
    pub const PRINTF_FIFO_SIZE: Self = Self(CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE.0);
    /// The size of the heap of the `malloc` function of kernels, in bytes.
    pub const MALLOC_HEAP_SIZE: Self = Self(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE.0);
    /// The maximum depth at which kernels can launch kernels and wait for them. Devices of compute
    /// capability 9.0 and higher do not have this limit.
    pub const DEV_RUNTIME_SYNC_DEPTH: Self = Self(CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH.0);
    /// The maximum number of pending launches of kernels by kernels.
    pub const DEV_RUNTIME_PENDING_LAUNCH_COUNT: Self =
        Self(CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT.0);
    /// The number of bytes read into the L2 cache at once, as a hint.
    pub const MAX_L2_FETCH_GRANULARITY: Self = Self(CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY.0);
    /// The number of bytes of the L2 cache set aside for persisting accesses.
    pub const PERSISTING_L2_CACHE_SIZE: Self = Self(CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE.0);
}

/// The preferred split between L1 cache and shared memory, on devices where both use the same
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheConfig(pub u32);

impl CacheConfig {
    /// No preference.
    pub const NONE: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE.0);
    /// Prefer shared memory.
    pub const SHARED: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_SHARED.0);
    /// Prefer L1 cache.
    pub const L1: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1.0);
    /// Split equally.
    pub const EQUAL: Self = Self(CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0);
}

/// Flags and limits of the context.
impl Context {
    /// `cuCtxGetFlags()`—Returns the flags of the context.
    #[doc(alias = "cuCtxGetFlags")]
    pub fn flags(&self) -> Result<ContextFlags> {
        let _current = self.enter()?;
        let mut flags = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(self.driver(), cuCtxGetFlags(&raw mut flags)) }?;
        Ok(ContextFlags::from_bits_retain(flags))
    }

    /// `cuCtxSetFlags(flags)`—Changes how threads wait, and the other flags that can be changed.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the flags contradict each other;
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 12.1.
    #[doc(alias = "cuCtxSetFlags")]
    pub fn set_flags(&self, flags: ContextFlags) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetFlags(flags.bits())) }?)
    }

    /// `cuCtxGetLimit(limit)`—Returns the size of a resource.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_UNSUPPORTED_LIMIT` if the device does not have this limit.
    #[doc(alias = "cuCtxGetLimit")]
    #[doc(alias = "cudaDeviceGetLimit")]
    pub fn limit(&self, limit: Limit) -> Result<usize> {
        let _current = self.enter()?;
        let mut value = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetLimit(&raw mut value, CUlimit(limit.0))
            )
        }?;
        Ok(value)
    }

    /// `cuCtxSetLimit(limit, value)`—Requests a size; the driver rounds it. [`limit`](Self::limit)
    /// returns the actual size.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_UNSUPPORTED_LIMIT` if the device does not have this limit,
    /// `CUDA_ERROR_INVALID_VALUE` if the size is out of range or, for the heap and the `printf`
    /// buffer, if a kernel that uses them has already been launched.
    #[doc(alias = "cuCtxSetLimit")]
    #[doc(alias = "cudaDeviceSetLimit")]
    pub fn set_limit(&self, limit: Limit, value: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetLimit(CUlimit(limit.0), value)) }?)
    }

    /// `cuCtxGetCacheConfig()`—Returns the preference of kernels that do not have one of their own.
    #[doc(alias = "cuCtxGetCacheConfig")]
    pub fn cache_config(&self) -> Result<CacheConfig> {
        let _current = self.enter()?;
        let mut config = CUfunc_cache(0);
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(self.driver(), cuCtxGetCacheConfig(&raw mut config)) }?;
        Ok(CacheConfig(config.0))
    }

    /// `cuCtxSetCacheConfig(config)`—Sets the preference of kernels that do not have one of their
    /// own. A device with a fixed split ignores it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know the value.
    #[doc(alias = "cuCtxSetCacheConfig")]
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxSetCacheConfig(CUfunc_cache(config.0))) }?)
    }

    /// `cuCtxResetPersistingL2Cache()`—Resets all persisting lines of the L2 cache to normal.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device does not support persisting lines.
    #[doc(alias = "cuCtxResetPersistingL2Cache")]
    #[doc(alias = "cudaCtxResetPersistingL2Cache")]
    pub fn reset_persisting_l2_cache(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: no pointers.
        Ok(unsafe { call!(self.driver(), cuCtxResetPersistingL2Cache()) }?)
    }

    /// `cuCtxGetApiVersion()`—Returns the version of the interface of the context, such as 3020,
    /// which is not the version of the driver.
    #[doc(alias = "cuCtxGetApiVersion")]
    pub fn api_version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: the context must be alive and the pointer writable ← `self` is a handle of the
        // context, and the pointer is to a local.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetApiVersion(self.as_raw(), &raw mut version)
            )
        }?;
        Ok(version)
    }

    /// `cuCtxGetId()`—Returns a number that is unique among all contexts of this process, past and
    /// present.
    #[doc(alias = "cuCtxGetId")]
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        // SAFETY: the context must be alive and the pointer writable ← `self` is a handle of the
        // context, and the pointer is to a local.
        unsafe { call!(self.driver(), cuCtxGetId(self.as_raw(), &raw mut id)) }?;
        Ok(id)
    }
}
