//! Allocators: the places that device memory comes from.
//!
//! In C each place has its own call. Here [`DeviceBuffer`](super::DeviceBuffer) has one set of
//! constructors for all of them.

use super::Memory;
use crate::error::Result;
use crate::stream::Stream;

/// A place that device memory comes from, for the constructors of
/// [`DeviceBuffer`](crate::DeviceBuffer) whose names end with `_in`.
///
/// | allocator | allocates with | frees with |
/// |---|---|---|
/// | [`Stream`]: the current pool of its device | `cuMemAllocAsync` | `cuMemFreeAsync` |
/// | [`MemoryPool`](crate::memory::MemoryPool) | `cuMemAllocFromPoolAsync` | `cuMemFreeAsync` |
/// | [`CachingPool`](crate::memory::CachingPool) | no call, if it has a block | keeps the block |
/// | [`Unpooled`] | `cuMemAlloc` | `cuMemFree` |
///
/// ```
/// use cuda_driver::{DeviceBuffer, Result, Stream};
/// use cuda_driver::memory::{Allocator, CachingPool, Unpooled};
///
/// fn sum(allocator: &impl Allocator, stream: &Stream) -> Result<u32> {
///     let buffer = DeviceBuffer::from_host_in(allocator, stream, &[1_u32, 2, 3])?;
///     Ok(buffer.to_vec()?.iter().sum())
/// }
///
/// # fn main() -> Result<()> {
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build().unwrap().library()?)?;
/// # let stream = driver.device(0)?.primary_context()?.default_stream()?;
/// let pool = CachingPool::new(stream.context());
/// assert_eq!(sum(&pool, &stream)?, 6);
/// assert_eq!(sum(&stream, &stream)?, 6);
/// assert_eq!(sum(&Unpooled, &stream)?, 6);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not allocate device memory",
    label = "not an allocator",
    note = "pass a `Stream`, a `MemoryPool`, a `CachingPool` or `Unpooled`"
)]
pub trait Allocator: sealed::Allocate {}

/// The part of [`Allocator`] that only this crate may call.
pub(crate) mod sealed {
    use super::{Memory, Result, Stream};

    /// A value that only this crate can create.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(());

    /// The token of this crate.
    pub(crate) const TOKEN: Token = Token(());

    /// Memory that an allocator returns. It is freed when it is dropped.
    #[allow(
        missing_debug_implementations,
        reason = "other crates have no value of it"
    )]
    pub struct Allocated(pub(crate) Memory);

    /// The private supertrait of [`Allocator`](super::Allocator).
    pub trait Allocate {
        /// Fails if the allocator has no memory that `owner` can use.
        fn check(&self, owner: &Stream, token: Token) -> Result<()>;

        /// Allocates `bytes` bytes, at least one, whose owning stream is `owner`. The contents are
        /// undefined.
        #[track_caller]
        fn allocate(&self, owner: &Stream, bytes: usize, token: Token) -> Result<Allocated>;
    }
}

/// The allocator of memory outside of any pool.
///
/// [`Stream::wait_value`] and related methods accept only such memory. Allocating makes the context
/// current for the call. Freeing waits for the owning stream and then calls `cuMemFree`, which in
/// practice waits for everything that runs on the device.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::Unpooled;
/// use cuda_driver::stream::WaitCondition;
///
/// # fn main() -> cuda_driver::Result<()> {
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build().unwrap().library()?)?;
/// # let stream = driver.device(0)?.primary_context()?.default_stream()?;
/// # let other = cuda_driver::Stream::new(stream.context(), Default::default(), 0)?;
/// let flag = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 1)?;
/// stream.write_value(&flag, 0, 7)?;
/// other.wait_value(&flag, 0, WaitCondition::EQUAL, 7)?;
/// other.synchronize()?;
/// assert_eq!(flag.to_vec()?, [7]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "cuMemAlloc")]
#[doc(alias = "cudaMalloc")]
pub struct Unpooled;

impl Allocator for Stream {}

impl sealed::Allocate for Stream {
    fn check(&self, owner: &Stream, _: sealed::Token) -> Result<()> {
        owner.expect_context(self.context(), "the allocator")
    }

    #[track_caller]
    fn allocate(
        &self,
        owner: &Stream,
        bytes: usize,
        _: sealed::Token,
    ) -> Result<sealed::Allocated> {
        Memory::allocate(owner, bytes).map(sealed::Allocated)
    }
}

impl Allocator for Unpooled {}

impl sealed::Allocate for Unpooled {
    fn check(&self, _: &Stream, _: sealed::Token) -> Result<()> {
        Ok(())
    }

    #[track_caller]
    fn allocate(
        &self,
        owner: &Stream,
        bytes: usize,
        _: sealed::Token,
    ) -> Result<sealed::Allocated> {
        Memory::allocate_plain(owner, bytes).map(sealed::Allocated)
    }
}
