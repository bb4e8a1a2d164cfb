//! Copies between arrays, the host and other device memory.

use std::fmt;
use std::marker::PhantomData;

use super::format::Texel;
use super::view::{ArraySlice, ArraySliceMut};
use crate::error::Result;
use crate::memory::pinned::expect_locked_for;
use crate::memory::pitched::{Rows, Side, queue};
use crate::memory::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Memory, PageLocked, Part, PitchedBuffer,
    PitchedSlice, PitchedSliceMut, expect_context, expect_len, from_pinned, staging, to_pinned,
};
use crate::reports;
use crate::stream::Stream;
use crate::types::Extent;

/// The most bytes of zeros that are allocated to fill an array.
const ZEROS: usize = 4 << 20;

/// The source of a copy to an array: a view of an array, of pitched memory, or of a buffer that
/// holds the rows without gaps.
pub struct ArraySource<'a, T: Texel> {
    end: End<'a>,
    elements: PhantomData<&'a [T]>,
}

/// The destination of a copy from an array: a view of an array, of pitched memory, or of a buffer
/// that holds the rows without gaps.
pub struct ArrayTarget<'a, T: Texel> {
    end: End<'a>,
    elements: PhantomData<&'a mut [T]>,
}

/// One side of a copy.
struct End<'a> {
    part: Part<'a>,
    place: Place,
}

enum Place {
    Box(Side, Extent),
    /// The address of contiguous elements, and their number.
    Linear(u64, usize),
}

impl End<'_> {
    /// Returns this side of a copy of a box with this extent, whose elements have `size` bytes.
    /// `is_source` says which side this is.
    fn side(&self, extent: Extent, size: usize, is_source: bool) -> Result<Side> {
        match self.place {
            Place::Box(side, own) if is_source => extent.expect(own).map(|()| side),
            Place::Box(side, own) => own.expect(extent).map(|()| side),
            Place::Linear(address, len) => {
                // No overflow: the array has these elements.
                let all = extent.width * extent.height * extent.depth;
                let (source, destination) = if is_source { (len, all) } else { (all, len) };
                expect_len(source, destination)?;
                let width = extent.width * size;
                Ok(Side::Device(Rows {
                    address,
                    pitch: width,
                    plane: extent.height,
                    width,
                    height: extent.height,
                    depth: extent.depth,
                }))
            }
        }
    }
}

/// A copy between arrays and other device memory, for a batch.
pub(crate) struct BoxCopy<'a> {
    pub(crate) to: (Part<'a>, Side),
    pub(crate) from: (Part<'a>, Side),
    /// The number of bytes in a row, of rows and of planes.
    pub(crate) extent: Rows,
}

impl<'a> BoxCopy<'a> {
    /// Returns the copy of `source` to `target`, or an error unless both have the same extent or
    /// length.
    pub(crate) fn new<T: Texel>(
        target: ArrayTarget<'a, T>,
        source: ArraySource<'a, T>,
    ) -> Result<Self> {
        let (to, from) = (target.end, source.end);
        let extent = match (&from.place, &to.place) {
            (Place::Box(_, extent), _) | (_, Place::Box(_, extent)) => *extent,
            (Place::Linear(_, len), Place::Linear(..)) => (*len, 1).into(),
        };
        let from_side = from.side(extent, size_of::<T>(), true)?;
        let to_side = to.side(extent, size_of::<T>(), false)?;
        let width = extent.width * size_of::<T>();
        Ok(Self {
            to: (to.part, to_side),
            from: (from.part, from_side),
            extent: Rows {
                address: 0,
                pitch: width,
                plane: extent.height,
                width,
                height: extent.height,
                depth: extent.depth,
            },
        })
    }
}

/// Copies to the host and to other memory.
impl<T: Texel> ArraySlice<'_, T> {
    /// `cuMemcpy3DAsync()`, `cuStreamSynchronize()`—Copies the elements to `destination`, with
    /// contiguous rows. Returns when the copy has completed. The copy works as
    /// [`DeviceSlice::copy_to_host`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host`] does.
    #[doc(alias = "cuMemcpyAtoH")]
    #[doc(alias = "cudaMemcpyFromArray")]
    #[doc(alias = "cudaMemcpy2DFromArray")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.copy_to_host_on(destination, self.memory.owning_stream())
    }

    /// `cuMemcpy3DAsync(stream)`, `cuStreamSynchronize()`—Copies the elements to `destination` on
    /// `stream`. Returns when the copy has completed.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host_on`] does.
    pub fn copy_to_host_on(&self, destination: &mut [T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        expect_len(self.extent().len::<T>()?, destination.len())?;
        // SAFETY: the destination must be writable for all elements ← it has the same length, and
        // is borrowed mutably.
        unsafe { self.download(stream, destination.as_mut_ptr()) }
    }

    /// Copies all elements to a new `Vec`, with contiguous rows. Returns when the copy has
    /// completed.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_host`](Self::copy_to_host) does.
    pub fn to_vec(self) -> Result<Vec<T>> {
        let (owner, begun) = (self.memory.owning_stream(), reports::begin());
        let elements = self.read_all()?;
        self.memory
            .report_violations(begun, self.access, Some(owner))?;
        Ok(elements)
    }

    /// Does the work of [`to_vec`](Self::to_vec) without a report of violations.
    pub(crate) fn read_all(&self) -> Result<Vec<T>> {
        let len = self.extent().len::<T>()?;
        let mut elements = Vec::with_capacity(len);
        // SAFETY: the destination must be writable for all elements ← the capacity is at least the
        // length.
        unsafe { self.fetch(self.memory.owning_stream(), elements.as_mut_ptr()) }?;
        // SAFETY: the elements must be initialized ← the copy has written all of them, and every
        // bit pattern is a valid `T`.
        unsafe { elements.set_len(len) };
        Ok(elements)
    }

    /// `cuMemcpy3DAsync()`, `cuStreamSynchronize()`—Copies the elements to page-locked memory, with
    /// contiguous rows and without an intermediate copy. Returns when the copy has completed.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned`] does.
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        expect_len(self.extent().len::<T>()?, destination.len())?;
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), destination.context(), "the destination")?;
        let place = self.place;
        if place.bytes() == 0 {
            return Ok(());
        }
        to_pinned(self.memory, self.access, destination, |to| {
            // SAFETY: both sides must hold the elements until the copy has completed, and must not
            // overlap ← the lengths are equal and the view is within its array; `to_pinned` waits
            // for the copy, and never frees the destination if the wait fails.
            unsafe { queue(owner, Side::Host(to), Side::Array(place), &place.extent()) }
        })
    }

    /// `cuMemcpy3DAsync()`—Queues a copy to other device memory on the owning stream of this array.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_on`](Self::copy_to_on) does.
    pub fn copy_to<'t>(&self, target: impl Into<ArrayTarget<'t, T>>) -> Result<()> {
        self.copy_to_on(target, self.memory.owning_stream())
    }

    /// `cuMemcpy3DAsync(stream)`—Queues a copy to other device memory of the same context on
    /// `stream`. The copy is ordered with other uses of both sides.
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`](crate::Error::ExtentMismatch) or
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both sides have the same
    /// extent or length, and [`Error::OtherContext`](crate::Error::OtherContext) if one of them
    /// belongs to another context than the stream.
    #[doc(alias = "cuMemcpyAtoD")]
    #[doc(alias = "cuMemcpyAtoA")]
    #[doc(alias = "cudaMemcpy2DArrayToArray")]
    pub fn copy_to_on<'t>(
        &self,
        target: impl Into<ArrayTarget<'t, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let to = target.into().end;
        let side = to.side(self.extent(), size_of::<T>(), false)?;
        let place = self.place;
        if place.bytes() == 0 {
            return Ok(());
        }
        let parts = [self.part(), to.part];
        Memory::queue_all(stream, "ArraySlice::copy_to", parts, |stream| {
            // SAFETY: both sides must hold the elements until the copy has completed, and must not
            // overlap ← the extents are equal, and both views are within their memory, whose
            // release waits for this use; the target is borrowed mutably.
            unsafe { queue(stream, side, Side::Array(place), &place.extent()) }
        })
    }

    /// Copies the elements to `destination` on `stream`, which belongs to the context of the array.
    ///
    /// # Safety
    ///
    /// `destination` has room for the elements, and no other code uses it during the call.
    unsafe fn download(&self, stream: &Stream, destination: *mut T) -> Result<()> {
        let begun = reports::begin();
        // SAFETY: the contract of `fetch` must hold ← the caller upholds it.
        unsafe { self.fetch(stream, destination) }?;
        self.memory
            .report_violations(begun, self.access, Some(stream))
    }

    /// Does the work of [`download`](Self::download) without a report of violations.
    ///
    /// # Safety
    ///
    /// The requirements of [`download`](Self::download) apply.
    unsafe fn fetch(&self, stream: &Stream, destination: *mut T) -> Result<()> {
        let memory = (self.memory, self.access);
        // SAFETY: both sides must hold the bytes, and no other code may use the destination ← the
        // view is within its array, and the caller guarantees both for the destination.
        unsafe { staging::download_array(stream, memory, &self.place, destination.cast()) }
    }
}

/// Copies from the host and from other memory.
impl<T: Texel> ArraySliceMut<'_, T> {
    /// `cuMemcpy3DAsync()`—Copies `source`, whose rows are contiguous, over the elements. Returns
    /// when `source` may be reused. The copy works as [`DeviceSliceMut::copy_from_host`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host`] does.
    #[doc(alias = "cuMemcpyHtoA")]
    #[doc(alias = "cudaMemcpyToArray")]
    #[doc(alias = "cudaMemcpy2DToArray")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.copy_from_host_on(source, self.memory.owning_stream())
    }

    /// `cuMemcpy3DAsync(stream)`—Copies `source` over the elements on `stream`. Returns when
    /// `source` may be reused.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host_on`] does.
    pub fn copy_from_host_on(&mut self, source: &[T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        expect_len(source.len(), self.extent().len::<T>()?)?;
        let memory = (self.memory, self.access);
        // SAFETY: both sides must hold the bytes, and no code may write the source during the call
        // ← the lengths are equal and the view is within its array; the source is borrowed.
        unsafe { staging::upload_array(stream, memory, &self.place, source.as_ptr().cast()) }
    }

    /// `cuMemcpy3DAsync()`, `cuStreamSynchronize()`—Copies page-locked memory, whose rows are
    /// contiguous, over the elements, without an intermediate copy. Returns when the device has
    /// read `source`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned`] does.
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        expect_len(source.len(), self.extent().len::<T>()?)?;
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), source.context(), "the source")?;
        let place = self.place;
        if place.bytes() == 0 {
            return Ok(());
        }
        from_pinned(self.memory, self.access, source, |from| {
            // SAFETY: both sides must hold the elements until the copy has completed, and must not
            // overlap ← the lengths are equal and the view is within its array; `from_pinned` waits
            // for the copy, and never frees the source if the wait fails.
            unsafe { queue(owner, Side::Array(place), Side::Host(from), &place.extent()) }
        })
    }

    /// `cuMemcpy3DAsync()`—Queues a copy of other device memory on the owning stream of this array.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_on`](Self::copy_from_on) does.
    pub fn copy_from<'s>(&mut self, source: impl Into<ArraySource<'s, T>>) -> Result<()> {
        self.copy_from_on(source, self.memory.owning_stream())
    }

    /// `cuMemcpy3DAsync(stream)`—Queues a copy of other device memory of the same context on
    /// `stream`. The copy is ordered with other uses of both sides.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::copy_to_on`] does.
    #[doc(alias = "cuMemcpyDtoA")]
    #[doc(alias = "cuMemcpyAtoA")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[doc(alias = "cudaMemcpy3DAsync")]
    pub fn copy_from_on<'s>(
        &mut self,
        source: impl Into<ArraySource<'s, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let from = source.into().end;
        let side = from.side(self.extent(), size_of::<T>(), true)?;
        let place = self.place;
        if place.bytes() == 0 {
            return Ok(());
        }
        let parts = [from.part, self.part()];
        Memory::queue_all(stream, "ArraySliceMut::copy_from", parts, |stream| {
            // SAFETY: both sides must hold the elements until the copy has completed, and must not
            // overlap ← the extents are equal, and both views are within their memory, whose
            // release waits for this use; this view is borrowed mutably.
            unsafe { queue(stream, Side::Array(place), side, &place.extent()) }
        })
    }
}

/// Queues copies of zeros over the elements, on the owning stream of the array.
pub(super) fn fill_with_zeros<T: Texel>(target: &mut ArraySliceMut<'_, T>) -> Result<()> {
    let Extent {
        width,
        height,
        depth,
    } = target.extent();
    let (row, rows) = (width * size_of::<T>(), height * depth);
    if row == 0 || rows == 0 {
        return Ok(());
    }
    let rows_at_once = (ZEROS / row).clamp(1, rows);
    let stream = target.memory.owning_stream().clone();
    let zeros = DeviceBuffer::<T>::zeroed(&stream, width * rows_at_once)?;
    let all = target.place;
    for start in (0..rows).step_by(rows_at_once) {
        let end = rows.min(start + rows_at_once);
        for (_, part) in all.boxes(start * row..end * row) {
            let mut target = target.reborrow();
            target.place = part;
            target.copy_from(zeros.slice(..width * part.height * part.depth)?)?;
        }
    }
    Ok(())
}

impl<'a, T: Texel> ArraySource<'a, T> {
    fn new(part: Part<'a>, place: Place) -> Self {
        Self {
            end: End { part, place },
            elements: PhantomData,
        }
    }
}

impl<'a, T: Texel> ArrayTarget<'a, T> {
    fn new(part: Part<'a>, place: Place) -> Self {
        Self {
            end: End { part, place },
            elements: PhantomData,
        }
    }
}

impl<'a, T: Texel> From<ArraySlice<'a, T>> for ArraySource<'a, T> {
    fn from(view: ArraySlice<'a, T>) -> Self {
        Self::new(
            view.part(),
            Place::Box(Side::Array(view.place), view.extent()),
        )
    }
}

impl<'a, T: Texel> From<ArraySliceMut<'a, T>> for ArrayTarget<'a, T> {
    fn from(view: ArraySliceMut<'a, T>) -> Self {
        Self::new(
            view.part(),
            Place::Box(Side::Array(view.place), view.extent()),
        )
    }
}

impl<'a, T: Texel> From<PitchedSlice<'a, T>> for ArraySource<'a, T> {
    fn from(view: PitchedSlice<'a, T>) -> Self {
        let part = part_of_rows(view.memory, view.access, &view.rows);
        Self::new(part, Place::Box(Side::Device(view.rows), view.extent()))
    }
}

impl<'a, T: Texel> From<PitchedSliceMut<'a, T>> for ArrayTarget<'a, T> {
    fn from(view: PitchedSliceMut<'a, T>) -> Self {
        let part = part_of_rows(view.memory, view.access, &view.rows);
        Self::new(part, Place::Box(Side::Device(view.rows), view.extent()))
    }
}

fn part_of_rows<'a>(memory: &'a Memory, access: crate::tracking::Access, rows: &Rows) -> Part<'a> {
    Part {
        memory,
        access,
        address: rows.address,
        bytes: rows.span_bytes(),
    }
}

impl<'a, T: Texel> From<DeviceSlice<'a, T>> for ArraySource<'a, T> {
    fn from(view: DeviceSlice<'a, T>) -> Self {
        Self::new(view.part(), Place::Linear(view.as_raw(), view.len()))
    }
}

impl<'a, T: Texel> From<DeviceSliceMut<'a, T>> for ArrayTarget<'a, T> {
    fn from(view: DeviceSliceMut<'a, T>) -> Self {
        Self::new(view.part(), Place::Linear(view.as_raw(), view.len()))
    }
}

impl<'a, T: Texel> From<&'a DeviceBuffer<T>> for ArraySource<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: Texel> From<&'a mut DeviceBuffer<T>> for ArrayTarget<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice().into()
    }
}

impl<'a, T: Texel> From<&'a PitchedBuffer<T>> for ArraySource<'a, T> {
    fn from(buffer: &'a PitchedBuffer<T>) -> Self {
        buffer.as_slice().into()
    }
}

impl<'a, T: Texel> From<&'a mut PitchedBuffer<T>> for ArrayTarget<'a, T> {
    fn from(buffer: &'a mut PitchedBuffer<T>) -> Self {
        buffer.as_mut_slice().into()
    }
}

impl<T: Texel> fmt::Debug for ArraySource<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("ArraySource", &self.end, f)
    }
}

impl<T: Texel> fmt::Debug for ArrayTarget<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("ArrayTarget", &self.end, f)
    }
}

fn describe(name: &str, end: &End<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match end.place {
        Place::Box(_, extent) => write!(f, "{name}({extent})"),
        Place::Linear(_, len) => write!(f, "{name}({len})"),
    }
}
