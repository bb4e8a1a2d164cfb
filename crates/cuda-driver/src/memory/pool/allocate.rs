//! Allocation from a pool.

use super::{MemoryPool, PoolKind};
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::memory::allocator::{Allocator, sealed};
use crate::memory::{Memory, Source};
use crate::stream::Stream;

impl Allocator for MemoryPool {}

impl sealed::Allocate for MemoryPool {
    /// Driver 580 refuses page-locked host memory of a pool as the device side of a copy.
    fn check(&self, owner: &Stream, _: sealed::Token) -> Result<()> {
        self.expect_device_of(owner)?;
        if self.has_pinned_host_memory() {
            return Err(Error::Unsupported {
                what: "device memory from a pool of page-locked host memory; use \
                       `PinnedBuffer::zeroed_in_pool`, or, if kernels use the memory, \
                       `ManagedBuffer::zeroed_in` with a pool of `MemoryPool::at`, \
                       `MemoryLocation::Host` and `PoolKind::Managed`",
            });
        }
        Ok(())
    }

    #[track_caller]
    fn allocate(
        &self,
        owner: &Stream,
        bytes: usize,
        _: sealed::Token,
    ) -> Result<sealed::Allocated> {
        self.allocate_of(owner, bytes, Source::Other)
            .map(sealed::Allocated)
    }
}

impl MemoryPool {
    /// Fails if the pool is for another device than that of `owner`.
    pub(in crate::memory) fn expect_device_of(&self, owner: &Stream) -> Result<()> {
        if owner.context().device() == self.device() {
            Ok(())
        } else {
            Err(Error::other_context(
                "the pool",
                self.device(),
                owner.context(),
            ))
        }
    }

    /// Returns `true` if the pool consists of page-locked memory of the host.
    pub(in crate::memory) fn has_pinned_host_memory(&self) -> bool {
        self.is_on_host() && self.kind() == PoolKind::Pinned
    }

    /// Returns the error of an allocation from this pool.
    #[cold]
    pub(super) fn allocation_error(
        &self,
        context: &Context,
        error: DriverError,
        bytes: usize,
    ) -> Error {
        match self.kind() {
            PoolKind::Managed => context.managed_allocation_error(error, bytes),
            _ if self.is_on_host() => Error::of_page_locking(error, bytes),
            _ => context.allocation_error(error, bytes),
        }
    }

    /// Allocates page-locked memory of the host.
    #[track_caller]
    pub(in crate::memory) fn allocate_pinned(
        &self,
        owner: &Stream,
        bytes: usize,
    ) -> Result<Memory> {
        self.allocate_of(owner, bytes, Source::Other)
    }

    /// Allocates managed memory.
    #[track_caller]
    pub(in crate::memory) fn allocate_managed(
        &self,
        owner: &Stream,
        bytes: usize,
    ) -> Result<Memory> {
        self.allocate_of(owner, bytes, |pool| Source::Managed(Some(pool)))
    }
}
