//! Prefetching and discarding ranges of managed memory with one call.
//!
//! In C the caller orders the batch with all other uses of the memory. Here each range is ordered
//! as a single prefetch is.

use std::fmt;

use cuda_sys::{CUdeviceptr, CUmemLocation, calls};

use super::advice::MemoryLocation;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memory::batch_uses::BatchUses;
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;
use crate::stream_state::Kind;

/// Prefetches and discards of managed memory that are queued together.
///
/// A discard declares that the contents of a range are no longer needed: until the range is written
/// again, reading it gives any values. The driver can then move the pages without copying them.
///
/// ```
/// use cuda_driver::memory::{ManagedBatch, ManagedBuffer, MemoryLocation};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let inputs = ManagedBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let mut results = ManagedBuffer::<u32>::zeroed(&stream, 1 << 20)?;
/// let device = MemoryLocation::Device(context.device().clone());
/// let mut batch = ManagedBatch::new();
/// batch.prefetch(&*inputs, &device);
/// // The kernel writes all results, so their old values need not be moved.
/// batch.discard_and_prefetch(results.as_mut_slice(), &device);
/// batch.queue(&stream)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use = "the operations are made only if the batch is queued"]
pub struct ManagedBatch<'a> {
    prefetches: Ranges,
    discards: Ranges,
    discarding_prefetches: Ranges,
    uses: BatchUses<'a>,
}

/// Ranges of memory, and the location for each of them, unless they are only discarded.
#[derive(Default)]
struct Ranges {
    starts: Vec<CUdeviceptr>,
    sizes: Vec<usize>,
    locations: Vec<MemoryLocation>,
    /// The first range of each location.
    firsts: Vec<usize>,
}

impl Ranges {
    fn add(&mut self, start: CUdeviceptr, size: usize, location: Option<&MemoryLocation>) {
        if let Some(location) = location
            && self.locations.last() != Some(location)
        {
            self.locations.push(location.clone());
            self.firsts.push(self.starts.len());
        }
        self.starts.push(start);
        self.sizes.push(size);
    }

    /// Returns the locations in the form of the driver.
    fn places(&self, driver: &Driver) -> Result<Vec<CUmemLocation>> {
        let locations = self.locations.iter();
        locations.map(|location| location.raw(driver)).collect()
    }
}

impl<'a> ManagedBatch<'a> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a move of the pages to `location`.
    pub fn prefetch<T: DeviceRepr>(
        &mut self,
        memory: impl Into<DeviceSlice<'a, T>>,
        location: &MemoryLocation,
    ) {
        let view = memory.into();
        if view.bytes() > 0 {
            self.uses.add(view.memory, view.access);
            let (start, bytes) = (view.as_raw(), view.bytes());
            self.prefetches.add(start, bytes, Some(location));
        }
    }

    /// Adds a discard: the elements have undefined values until they are written again.
    pub fn discard<T: DeviceRepr>(&mut self, memory: impl Into<DeviceSliceMut<'a, T>>) {
        let view = memory.into();
        if view.bytes() > 0 {
            self.uses.add(view.memory, view.access);
            self.discards.add(view.as_raw(), view.bytes(), None);
        }
    }

    /// Adds a discard, and a move of the pages to `location` that copies nothing.
    pub fn discard_and_prefetch<T: DeviceRepr>(
        &mut self,
        memory: impl Into<DeviceSliceMut<'a, T>>,
        location: &MemoryLocation,
    ) {
        let view = memory.into();
        if view.bytes() > 0 {
            self.uses.add(view.memory, view.access);
            let (start, bytes) = (view.as_raw(), view.bytes());
            self.discarding_prefetches.add(start, bytes, Some(location));
        }
    }

    /// `cuMemPrefetchBatchAsync()`, `cuMemDiscardBatchAsync()`,
    /// `cuMemDiscardAndPrefetchBatchAsync()`—Queues the operations on `stream`, with one call for
    /// each of the three kinds that the batch has.
    ///
    /// On a driver older than CUDA 13.0, each prefetch is a call of its own.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] for the legacy stream, on which the driver has no batches.
    /// * [`Error::OtherContext`] if memory belongs to another context than the stream, or a
    ///   location to another driver.
    /// * [`Error::Driver`] with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` for a discard if the driver
    ///   is older than CUDA 13.0.
    /// * `CUDA_ERROR_INVALID_VALUE` for memory that is not managed.
    #[doc(alias = "cuMemPrefetchBatchAsync")]
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    #[doc(alias = "cuMemDiscardBatchAsync")]
    #[doc(alias = "cudaMemDiscardBatchAsync")]
    #[doc(alias = "cuMemDiscardAndPrefetchBatchAsync")]
    #[doc(alias = "cudaMemDiscardAndPrefetchBatchAsync")]
    pub fn queue(mut self, stream: &Stream) -> Result<()> {
        if stream.state().kind() == Kind::Legacy {
            return Err(Error::Unsupported {
                what: "a batch of prefetches on the legacy stream; use \
                       `Context::default_stream`",
            });
        }
        let driver = stream.driver();
        let mut places = self.prefetches.places(driver)?;
        let mut discarded = self.discarding_prefetches.places(driver)?;
        let uses = std::mem::take(&mut self.uses);
        uses.queue(stream, "ManagedBatch::queue", || {
            let _current = stream.bind_for_copy()?;
            if !self.discards.starts.is_empty() {
                queue_discards(&mut self.discards, stream)?;
            }
            if !discarded.is_empty() {
                let ranges = &mut self.discarding_prefetches;
                queue_discarding_prefetches(ranges, &mut discarded, stream)?;
            }
            if !places.is_empty() {
                queue_prefetches(&mut self.prefetches, &mut places, stream)?;
            }
            Ok::<(), DriverError>(())
        })
    }
}

/// `cuMemDiscardBatchAsync()`
fn queue_discards(ranges: &mut Ranges, stream: &Stream) -> Result<(), DriverError> {
    let (starts, sizes) = (ranges.starts.as_mut_ptr(), ranges.sizes.as_mut_ptr());
    let count = ranges.starts.len();
    // SAFETY: the arrays must have `count` elements, and the ranges must be alive ← the vectors
    // have the same length, and the memory is freed only after this use.
    unsafe {
        call!(
            stream.driver(),
            cuMemDiscardBatchAsync(starts, sizes, count, 0, stream.as_raw())
        )
    }
}

/// `cuMemDiscardAndPrefetchBatchAsync()`
fn queue_discarding_prefetches(
    ranges: &mut Ranges,
    places: &mut [CUmemLocation],
    stream: &Stream,
) -> Result<(), DriverError> {
    let (starts, sizes) = (ranges.starts.as_mut_ptr(), ranges.sizes.as_mut_ptr());
    let (count, number) = (ranges.starts.len(), places.len());
    let (places, firsts) = (places.as_mut_ptr(), ranges.firsts.as_mut_ptr());
    // SAFETY: the arrays must have `count` or `number` elements, and the ranges must be alive ← the
    // vectors have these lengths, and the memory is freed only after this use.
    unsafe {
        call!(
            stream.driver(),
            cuMemDiscardAndPrefetchBatchAsync(
                starts,
                sizes,
                count,
                places,
                firsts,
                number,
                0,
                stream.as_raw()
            )
        )
    }
}

/// `cuMemPrefetchBatchAsync()`, or a call for each range if the driver does not have it.
fn queue_prefetches(
    ranges: &mut Ranges,
    places: &mut [CUmemLocation],
    stream: &Stream,
) -> Result<(), DriverError> {
    let (driver, raw) = (stream.driver(), stream.as_raw());
    let (count, number) = (ranges.starts.len(), places.len());
    if driver.version() < calls::cuMemPrefetchBatchAsync.since() {
        let mut run = 0;
        for (index, (&start, &bytes)) in ranges.starts.iter().zip(&ranges.sizes).enumerate() {
            if ranges.firsts.get(run + 1) == Some(&index) {
                run += 1;
            }
            let Some(location) = ranges.locations.get(run) else {
                return Ok(());
            };
            prefetch_one(stream, start, bytes, location, places.get(run).copied())?;
        }
        return Ok(());
    }
    let (starts, sizes) = (ranges.starts.as_mut_ptr(), ranges.sizes.as_mut_ptr());
    let (places, firsts) = (places.as_mut_ptr(), ranges.firsts.as_mut_ptr());
    // SAFETY: the arrays must have `count` or `number` elements, and the ranges must be alive ← the
    // vectors have these lengths, and the memory is freed only after this use.
    unsafe {
        call!(
            driver,
            cuMemPrefetchBatchAsync(starts, sizes, count, places, firsts, number, 0, raw)
        )
    }
}

/// Queues one prefetch, in the way that the driver's version has.
fn prefetch_one(
    stream: &Stream,
    start: CUdeviceptr,
    bytes: usize,
    location: &MemoryLocation,
    place: Option<CUmemLocation>,
) -> Result<(), DriverError> {
    let (driver, raw) = (stream.driver(), stream.as_raw());
    match (location.ordinal(), place) {
        (None, Some(place)) => {
            // SAFETY: the range and the stream must be alive ← the memory is freed only after this
            // use, and the stream is borrowed.
            unsafe { call!(driver, cuMemPrefetchAsync_v2(start, bytes, place, 0, raw)) }
        }
        (ordinal, _) => {
            let to = ordinal.unwrap_or(super::advice::CPU);
            // SAFETY: as above.
            unsafe { call!(driver, cuMemPrefetchAsync(start, bytes, to, raw)) }
        }
    }
}

impl fmt::Debug for ManagedBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = self.discarding_prefetches.starts.len();
        let prefetches = self.prefetches.starts.len() + both;
        let discards = self.discards.starts.len() + both;
        write!(
            f,
            "ManagedBatch({prefetches} prefetches, {discards} discards)"
        )
    }
}
