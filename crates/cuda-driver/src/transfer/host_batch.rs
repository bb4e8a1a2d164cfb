//! Batches of copies from and to page-locked memory.

use std::fmt;
use std::ops::Range;

use super::batch::{CopyBatch, Kinds, describe};
use super::{CopyScope, expect_locked};
use crate::error::{RangeError, Result};
use crate::memory::pitched::Side;
use crate::memory::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, PageLocked, PitchedSlice, PitchedSliceMut, expect_len,
    resolve,
};
use crate::texture::{ArraySlice, ArraySliceMut, Texel};

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
    /// Fails as [`CopyScope::copy_to_host_part`] does, and with
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if two ranges overlap. The batch is then
    /// unchanged.
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
            let (to, from) = (Side::Host(destination.start()), Side::Device(rows));
            self.batch.add_box(to, from, rows, 1);
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
            let (to, from) = (Side::Device(rows), Side::Host(source.start()));
            self.batch.add_box(to, from, rows, 1);
        }
        Ok(())
    }

    /// Adds a copy of a box of an array to page-locked memory, with contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_to_host`] does.
    pub fn copy_array_to_host<T: Texel, P: PageLocked<T>>(
        &mut self,
        source: ArraySlice<'a, T>,
        destination: &'scope mut P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), destination.context())?;
        expect_len(source.extent().len::<T>()?, destination.len())?;
        let place = source.place;
        if place.bytes() > 0 {
            self.batch.uses.add(source.memory, source.access);
            let (to, from) = (Side::Host(destination.start()), Side::Array(place));
            self.batch.add_box(to, from, place.extent(), size_of::<T>());
        }
        Ok(())
    }

    /// Adds a copy of page-locked memory, with contiguous rows, to a box of an array.
    ///
    /// # Errors
    ///
    /// Fails as [`CopyScope::copy_from_host`] does.
    pub fn copy_array_from_host<T: Texel, P: PageLocked<T>>(
        &mut self,
        destination: ArraySliceMut<'a, T>,
        source: &'scope P,
    ) -> Result<()> {
        expect_locked(self.scope.stream(), source.context())?;
        expect_len(source.len(), destination.extent().len::<T>()?)?;
        let place = destination.place;
        if place.bytes() > 0 {
            self.batch.uses.add(destination.memory, destination.access);
            let (to, from) = (Side::Array(place), Side::Host(source.start()));
            self.batch.add_box(to, from, place.extent(), size_of::<T>());
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
            for memory in self.batch.uses.iter() {
                self.scope.note(memory, true);
            }
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
