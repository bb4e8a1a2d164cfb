//! Many copies that are queued with one call (`cuMemcpyBatchAsync`, `cuMemcpy3DBatchAsync`).
//!
//! In C the caller orders the batch with all other uses of the memory, and nothing keeps the memory
//! alive. Here each copy of a batch is ordered as a single copy is, and the order of the batch is
//! decided once for each buffer, not for each copy.

use std::fmt;

use crate::error::{Error, Result};
use crate::memory::batch_uses::BatchUses;
use crate::memory::pitched::{Rows, Side};
use crate::memory::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, PitchedSlice, PitchedSliceMut, expect_len,
};
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::texture::{ArraySource, ArrayTarget, BoxCopy, Texel};
use crate::types::WorkKind;

/// Copies within the device that are queued with one call.
///
/// A batch takes less time of the host than single copies: the driver is called once, and the
/// dependency tracking looks at each buffer once. The copies of a batch run in any order, or at the
/// same time. The batch as a whole is ordered like a single copy.
///
/// For copies from and to page-locked memory, use [`CopyScope::batch`](super::CopyScope::batch).
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
    /// The copies of boxes.
    pub(super) boxes: Vec<BoxOp>,
    pub(super) uses: BatchUses<'a>,
    pub(super) bytes: usize,
}

/// Which sides of a linear copy are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(pub(super) WorkKind);

impl Kinds {
    pub(super) const ON_DEVICE: Self = Self(WorkKind::CopyOnDevice);
    pub(super) const TO_HOST: Self = Self(WorkKind::CopyToHost);
    pub(super) const FROM_HOST: Self = Self(WorkKind::CopyToDevice);
}

/// A copy of a box between arrays, pitched memory and the host.
#[derive(Clone, Copy)]
pub(super) struct BoxOp {
    pub(super) to: Side,
    pub(super) from: Side,
    /// The number of bytes in a row, of rows and of planes.
    pub(super) extent: Rows,
    /// The number of bytes of an element, if one side is an array. Otherwise 1.
    pub(super) element: usize,
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
            self.add_box(Side::Device(to), Side::Device(from), to, 1);
        }
        Ok(())
    }

    /// Adds a copy of an array, a level of one, or a box of it. Either side can also be pitched
    /// memory, or a buffer that holds the rows without gaps. Both sides must be in one context.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    /// use cuda_driver::memory::CopyBatch;
    /// use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// // Two images of two rows, which become the layers of an array.
    /// let images = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4, 5, 6, 7, 8])?;
    /// let shape = ArrayShape::two_d_layered(2, 2, 2);
    /// let mut layers = Array::<u32>::zeroed(&stream, &shape, ArrayFlags::empty())?;
    /// let mut rows = DeviceBuffer::<u32>::zeroed(&stream, 4)?;
    /// let mut batch = CopyBatch::new();
    /// batch.copy_array(&mut layers, &images)?;
    /// batch.queue(&stream)?;
    /// let mut batch = CopyBatch::new();
    /// let (first, second) = rows.as_mut_slice().split_at_mut(2)?;
    /// batch.copy_array(first, layers.region(.., 1..2, 0..1)?)?;
    /// batch.copy_array(second, layers.region(.., 1..2, 1..2)?)?;
    /// batch.queue(&stream)?;
    /// assert_eq!(rows.to_vec()?, [3, 4, 7, 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`] or [`Error::LengthMismatch`] unless both have the same extent or
    /// length.
    pub fn copy_array<T: Texel>(
        &mut self,
        destination: impl Into<ArrayTarget<'a, T>>,
        source: impl Into<ArraySource<'a, T>>,
    ) -> Result<()> {
        let BoxCopy { to, from, extent } = BoxCopy::new(destination.into(), source.into())?;
        let ((to_part, to), (from_part, from)) = (to, from);
        if extent.bytes() > 0 {
            self.uses.add(from_part.memory, from_part.access);
            self.uses.add(to_part.memory, to_part.access);
            let has_array = [to, from].iter().any(|it| matches!(it, Side::Array(_)));
            let element = if has_array { size_of::<T>() } else { 1 };
            self.add_box(to, from, extent, element);
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
    pub(super) fn queue_on(&mut self, stream: &Stream) -> Result<()> {
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
            unsafe { self.queue_all(stream) }
        })
    }

    /// Adds the copies of another batch.
    pub(super) fn append(&mut self, other: Self) {
        self.to.extend(other.to);
        self.from.extend(other.from);
        self.sizes.extend(other.sizes);
        self.kinds.extend(other.kinds);
        self.boxes.extend(other.boxes);
        self.uses.append(other.uses);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub(super) fn add(&mut self, to: u64, from: u64, bytes: usize, kinds: Kinds) {
        self.to.push(to);
        self.from.push(from);
        self.sizes.push(bytes);
        self.kinds.push(kinds);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds a copy of a box. `element` is the size of an element if one side is an array, and
    /// otherwise 1.
    pub(super) fn add_box(&mut self, to: Side, from: Side, extent: Rows, element: usize) {
        self.boxes.push(BoxOp {
            to,
            from,
            extent,
            element,
        });
        self.bytes = self.bytes.saturating_add(extent.bytes());
    }
}

impl fmt::Debug for CopyBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self.len(), self.bytes, f)
    }
}

pub(super) fn describe(copies: usize, bytes: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "CopyBatch({copies} copies, {bytes} bytes)")
}
