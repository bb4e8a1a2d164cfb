//! Many copies that are queued with one call (`cuMemcpyBatchAsync`, `cuMemcpy3DBatchAsync`).
//!
//! In C the caller orders the batch with all other uses of the memory, and nothing keeps the memory
//! alive. Here each copy of a batch is ordered as a single copy is, and the order of the batch is
//! decided once for each buffer, not for each copy.

use std::fmt;
use std::ops::Range;

use super::queue_batch::{BoxSide, Kinds, queue_all};
use super::{CopyScope, expect_locked};
use crate::error::{Error, RangeError, Result};
use crate::memory::batch_uses::BatchUses;
use crate::memory::pitched::Rows;
use crate::memory::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, PageLocked, PitchedSlice, PitchedSliceMut, expect_len,
    resolve,
};
use crate::stream::Stream;
use crate::stream_state::Kind;

/// Copies within the device that are queued with one call.
///
/// A batch takes less time of the host than single copies: the driver is called once, and the
/// dependency tracking looks at each buffer once. The copies of a batch run in any order, or at the
/// same time. The batch as a whole is ordered like a single copy.
///
/// For copies from and to page-locked memory, use [`CopyScope::batch`].
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::CopyBatch;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let pages = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4, 5, 6])?;
/// let mut target = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
/// // Copies the pages of two elements in reverse order.
/// let mut batch = CopyBatch::new();
/// let mut targets: Vec<_> = target.as_mut_slice().chunks_mut(2)?.collect();
/// for page in pages.as_slice().chunks(2)? {
///     batch.copy(targets.pop().unwrap(), page)?;
/// }
/// batch.queue(&stream)?;
/// assert_eq!(target.to_vec()?, [5, 6, 3, 4, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use = "the copies are made only if the batch is queued"]
pub struct CopyBatch<'a> {
    pub(super) to: Vec<u64>,
    pub(super) from: Vec<u64>,
    pub(super) sizes: Vec<usize>,
    /// For each linear copy, which sides are on the device.
    pub(super) kinds: Vec<Kinds>,
    /// The copies of boxes: the destination, the source, and the extent.
    pub(super) boxes: Vec<(BoxSide, BoxSide, Rows)>,
    uses: BatchUses<'a>,
    pub(super) bytes: usize,
}

impl<'a> CopyBatch<'a> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty batch with room for `copies` copies.
    pub fn with_capacity(copies: usize) -> Self {
        Self {
            to: Vec::with_capacity(copies),
            from: Vec::with_capacity(copies),
            sizes: Vec::with_capacity(copies),
            kinds: Vec::with_capacity(copies),
            ..Self::default()
        }
    }

    /// Returns the number of copies. Copies of no bytes do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.to.len() + self.boxes.len()
    }

    /// Returns `true` if there is nothing to copy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a copy of `source` to `destination`, which are memory of one context.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both have the same length.
    pub fn copy<T: DeviceRepr>(
        &mut self,
        destination: impl Into<DeviceSliceMut<'a, T>>,
        source: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        let (to, from) = (destination.into(), source.into());
        expect_len(from.len(), to.len())?;
        if to.bytes() > 0 {
            self.uses.add(from.memory, from.access);
            self.uses.add(to.memory, to.access);
            self.add(to.as_raw(), from.as_raw(), to.bytes(), Kinds::ON_DEVICE);
        }
        Ok(())
    }

    /// Adds a copy of a box in two or three dimensions. Both boxes are memory of one context.
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`] unless both have the same extent.
    pub fn copy_box<T: DeviceRepr>(
        &mut self,
        destination: PitchedSliceMut<'a, T>,
        source: PitchedSlice<'a, T>,
    ) -> Result<()> {
        destination.extent().expect(source.extent())?;
        let (to, from) = (destination.rows, source.rows);
        if to.bytes() > 0 {
            self.uses.add(source.memory, source.access);
            self.uses.add(destination.memory, destination.access);
            self.add_box(BoxSide::Device(to), BoxSide::Device(from), to);
        }
        Ok(())
    }

    /// `cuMemcpyBatchAsync()`, `cuMemcpy3DBatchAsync()`—Queues the copies on `stream`. An empty
    /// batch makes no driver call.
    ///
    /// On a driver older than CUDA 12.8, each copy is a call of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for the legacy stream, on which the driver has no batches.
    /// [`Error::OtherContext`] if a buffer belongs to another context than the stream. If the
    /// driver refuses a copy, copies before it may have been queued.
    #[doc(alias = "cuMemcpyBatchAsync")]
    #[doc(alias = "cudaMemcpyBatchAsync")]
    #[doc(alias = "cuMemcpy3DBatchAsync")]
    #[doc(alias = "cudaMemcpy3DBatchAsync")]
    pub fn queue(mut self, stream: &Stream) -> Result<()> {
        self.queue_on(stream)
    }

    /// Queues the copies. The host memory of the copies, if there is any, must stay borrowed until
    /// they have run.
    fn queue_on(&mut self, stream: &Stream) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if stream.state().kind() == Kind::Legacy {
            return Err(Error::Unsupported {
                what: "a batch of copies on the legacy stream; use \
                       `Context::default_stream`",
            });
        }
        let uses = std::mem::take(&mut self.uses);
        uses.queue(stream, "CopyBatch::queue", || {
            // SAFETY: all sides must hold their bytes until the copies have run, and no conflicting
            // use may run meanwhile ← device memory is freed only after the uses that are acquired
            // and committed here; views are within their allocations, and those of destinations
            // are exclusive; host memory is borrowed until the stream was waited for.
            unsafe { queue_all(self, stream) }
        })
    }

    /// Adds the copies of another batch.
    fn append(&mut self, other: Self) {
        self.to.extend(other.to);
        self.from.extend(other.from);
        self.sizes.extend(other.sizes);
        self.kinds.extend(other.kinds);
        self.boxes.extend(other.boxes);
        self.uses.append(other.uses);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn add(&mut self, to: u64, from: u64, bytes: usize, kinds: Kinds) {
        self.to.push(to);
        self.from.push(from);
        self.sizes.push(bytes);
        self.kinds.push(kinds);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn add_box(&mut self, to: BoxSide, from: BoxSide, extent: Rows) {
        self.boxes.push((to, from, extent));
        self.bytes = self.bytes.saturating_add(extent.bytes());
    }
}

impl fmt::Debug for CopyBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self.len(), self.bytes, f)
    }
}

/// Copies from and to page-locked memory, and within the device, that are queued with one call: see
/// [`CopyScope::batch`].
#[must_use = "the copies are made only if the batch is queued"]
pub struct HostCopyBatch<'a, 'scope, 'env: 'scope> {
    scope: &'scope CopyScope<'scope, 'env>,
    /// The copies of host memory. They must not leave the scope, which waits for them.
    batch: CopyBatch<'a>,
    /// The copies within the device, which the program can exchange for those of another batch.
    on_device: CopyBatch<'a>,
}

/// Copies that are queued with one call.
impl<'scope, 'env> CopyScope<'scope, 'env> {
    /// Creates a batch of copies from and to page-locked memory, which is borrowed for the scope.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, PinnedBuffer};
    /// use cuda_driver::memory::PinnedFlags;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut pages = PinnedBuffer::<u32>::zeroed(&context, 4, PinnedFlags::DEFAULT)?;
    /// let buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4, 5, 6])?;
    /// stream.copy_scope(|scope| {
    ///     let mut batch = scope.batch();
    ///     let parts = [(buffer.slice(4..)?, 0..2), (buffer.slice(..2)?, 2..4)];
    ///     batch.copy_parts_to_host(parts, &mut pages)?;
    ///     batch.queue()
    /// })?;
    /// assert_eq!(pages[..], [5, 6, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch<'a>(&'scope self) -> HostCopyBatch<'a, 'scope, 'env> {
        HostCopyBatch {
            scope: self,
            batch: CopyBatch::new(),
            on_device: CopyBatch::new(),
        }
    }
}

impl<'a, 'scope> HostCopyBatch<'a, 'scope, '_> {
    /// Adds a copy of device memory to page-locked memory.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_to_host`] does.
    pub fn copy_to_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        source: impl Into<DeviceSlice<'a, T>>,
        destination: &'scope mut P,
    ) -> Result<()> {
        let all = 0..destination.len();
        self.copy_parts_to_host([(source.into(), all)], destination)
    }

    /// Adds copies of device memory to parts of page-locked memory: of each view to the elements of
    /// its range.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_to_host_part`] does, and with [`Error::OutOfRange`] if two ranges
    /// overlap. The batch is then unchanged.
    pub fn copy_parts_to_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        parts: impl IntoIterator<Item = (DeviceSlice<'a, T>, Range<usize>)>,
        destination: &'scope mut P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), destination.context())?;
        let len = destination.len();
        let parts = parts.into_iter().map(|(source, range)| {
            let (start, part_len) = resolve(range, len)?;
            expect_len(source.len(), part_len)?;
            Ok((source, start))
        });
        let parts: Vec<_> = parts.collect::<Result<_>>()?;
        let ranges = parts.iter().map(|(source, start)| (*start, source.len()));
        expect_apart(ranges.collect())?;
        let first = destination.start().expose_provenance() as u64;
        for (source, start) in parts {
            if source.bytes() > 0 {
                let to = first + (start * size_of::<T>()) as u64;
                self.batch.uses.add(source.memory, source.access);
                self.batch
                    .add(to, source.as_raw(), source.bytes(), Kinds::TO_HOST);
            }
        }
        Ok(())
    }

    /// Adds a copy of page-locked memory to device memory.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_from_host`] does.
    pub fn copy_from_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        destination: impl Into<DeviceSliceMut<'a, T>>,
        source: &'scope P,
    ) -> Result<()> {
        self.copy_parts_from_host([(destination.into(), 0..source.len())], source)
    }

    /// Adds copies of parts of page-locked memory to device memory: of the elements of each range
    /// to its view.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_from_host_part`] does. The batch is then unchanged.
    pub fn copy_parts_from_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        parts: impl IntoIterator<Item = (DeviceSliceMut<'a, T>, Range<usize>)>,
        source: &'scope P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), source.context())?;
        let len = source.len();
        let parts = parts.into_iter().map(|(destination, range)| {
            let (start, part_len) = resolve(range, len)?;
            expect_len(part_len, destination.len())?;
            Ok((destination, start))
        });
        let parts: Vec<_> = parts.collect::<Result<_>>()?;
        let first = source.start().expose_provenance() as u64;
        for (destination, start) in parts {
            if destination.bytes() > 0 {
                let from = first + (start * size_of::<T>()) as u64;
                self.batch.uses.add(destination.memory, destination.access);
                let (to, bytes) = (destination.as_raw(), destination.bytes());
                self.batch.add(to, from, bytes, Kinds::FROM_HOST);
            }
        }
        Ok(())
    }

    /// Adds a copy of a box of device memory to page-locked memory, with contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_to_host`] does.
    pub fn copy_box_to_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        source: PitchedSlice<'a, T>,
        destination: &'scope mut P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), destination.context())?;
        expect_len(source.extent().len::<T>()?, destination.len())?;
        let rows = source.rows;
        if rows.bytes() > 0 {
            self.batch.uses.add(source.memory, source.access);
            let (to, from) = (BoxSide::Host(destination.start()), BoxSide::Device(rows));
            self.batch.add_box(to, from, rows);
        }
        Ok(())
    }

    /// Adds a copy of page-locked memory, with contiguous rows, to a box of device memory.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_from_host`] does.
    pub fn copy_box_from_host<T: DeviceRepr, P: PageLocked<T>>(
        &mut self,
        destination: PitchedSliceMut<'a, T>,
        source: &'scope P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), source.context())?;
        expect_len(source.len(), destination.extent().len::<T>()?)?;
        let rows = destination.rows;
        if rows.bytes() > 0 {
            self.batch.uses.add(destination.memory, destination.access);
            let (to, from) = (BoxSide::Device(rows), BoxSide::Host(source.start()));
            self.batch.add_box(to, from, rows);
        }
        Ok(())
    }

    /// Returns the copies within the device, to add more.
    pub fn on_device(&mut self) -> &mut CopyBatch<'a> {
        &mut self.on_device
    }

    /// `cuMemcpyBatchAsync()`, `cuMemcpy3DBatchAsync()`—Queues the copies on the stream of the
    /// scope, as [`CopyBatch::queue`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyBatch::queue`] does.
    pub fn queue(mut self) -> Result<()> {
        self.batch.append(self.on_device);
        if !self.batch.is_empty() {
            // Even if the call fails, a part of the batch may have been queued.
            self.scope.set_used();
        }
        self.batch.queue_on(self.scope.stream())
    }
}

impl fmt::Debug for HostCopyBatch<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, device) = (&self.batch, &self.on_device);
        let bytes = host.bytes.saturating_add(device.bytes);
        describe(host.len() + device.len(), bytes, f)
    }
}

fn describe(copies: usize, bytes: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "CopyBatch({copies} copies, {bytes} bytes)")
}

/// Fails if two of the ranges, each a start and a length, overlap.
fn expect_apart(mut ranges: Vec<(usize, usize)>) -> Result<()> {
    ranges.retain(|&(_, len)| len > 0);
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    for pair in ranges.windows(2) {
        if let [(start, part), (next, other)] = *pair
            && next < start + part
        {
            let ranges = [start..start + part, next..next + other];
            return Err(RangeError::Overlap { ranges }.into());
        }
    }
    Ok(())
}
