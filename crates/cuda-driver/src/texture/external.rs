//! Arrays in memory of other APIs (`cuExternalMemoryGetMappedMipmappedArray`).
//!
//! C takes the offset of an image, and does not return how many bytes it has. Here the program
//! passes the range of bytes that the other API reports, so that no two arrays or buffers overlap.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::array::Array;
use super::format::Texel;
use super::limits::{contradiction, within};
use super::memory::{ArrayMemory, Image};
use super::mipmapped::MipmappedArray;
use super::shape::{ArrayFlags, ArrayShape, WITHOUT_MEMORY};
use crate::error::Result;
use crate::memory::{ExternalMemory, ExternalPart, resolve_of};
use crate::stream::Stream;

/// Images of the other API.
impl ExternalMemory {
    /// `cuExternalMemoryGetMappedMipmappedArray()`—Maps the image in the bytes `range` as an array
    /// whose owning stream is `stream`.
    ///
    /// The array is used like any other: it is copied, and kernels access it through textures and
    /// surfaces. Dropping it and its textures waits for their uses, and unmaps it. The other API
    /// keeps the memory.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherContext`](crate::Error::OtherContext) if `stream` is of another context.
    /// - [`Error::OutOfRange`](crate::Error::OutOfRange) if `range` is outside of the memory, or if
    ///   a buffer or another array maps one of the bytes.
    /// - [`Error::Array`](crate::Error::Array) if the shape exceeds a limit of the device, if the
    ///   range has fewer bytes than the elements, or if `flags` has [`ArrayFlags::SPARSE`] or
    ///   [`ArrayFlags::DEFERRED_MAPPING`].
    /// - [`Error::EagerCapture`](crate::Error::EagerCapture) if calls on `stream` are being
    ///   captured.
    /// - `CUDA_ERROR_NOT_SUPPORTED` or `CUDA_ERROR_INVALID_VALUE` if the driver cannot map this
    ///   image, for example because the memory was imported as a dma-buf.
    ///
    /// # Safety
    ///
    /// - The other API has bound an image of this shape, with one level, to the memory at the start
    ///   of `range`, and `range` has all bytes of it. For Vulkan, the size of the range is that of
    ///   `VkMemoryRequirements`, and the image has `VK_IMAGE_TILING_OPTIMAL`.
    /// - The format of the image has the channels of `T`, in the same order.
    /// - `flags` has [`ArrayFlags::COLOR_ATTACHMENT`] if the other API may draw to the image, and
    ///   only then.
    /// - Each access by the array counts as one by a buffer of this memory in the contract of
    ///   [`import`](Self::import).
    #[doc(alias = "cuExternalMemoryGetMappedMipmappedArray")]
    #[doc(alias = "cudaExternalMemoryGetMappedMipmappedArray")]
    #[track_caller]
    pub unsafe fn map_array<T: Texel>(
        &self,
        stream: &Stream,
        range: impl RangeBounds<usize>,
        shape: &ArrayShape,
        flags: ArrayFlags,
    ) -> Result<Array<T>> {
        let image = Image::new(self, range, shape, 1, flags)?;
        Ok(Array {
            memory: ArrayMemory::external::<T>(stream, image, false)?,
            elements: PhantomData,
        })
    }

    /// `cuExternalMemoryGetMappedMipmappedArray(levels)`—Maps the image in the bytes `range` as an
    /// array with `levels` levels of detail. `shape` is that of level 0.
    ///
    /// # Errors
    ///
    /// The errors of [`map_array`](Self::map_array), and [`Error::Array`](crate::Error::Array) if
    /// the shape has fewer levels.
    ///
    /// # Safety
    ///
    /// The requirements of [`map_array`](Self::map_array) apply, to an image with `levels` levels.
    #[track_caller]
    pub unsafe fn map_mipmapped_array<T: Texel>(
        &self,
        stream: &Stream,
        range: impl RangeBounds<usize>,
        shape: &ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<MipmappedArray<T>> {
        let image = Image::new(self, range, shape, levels, flags)?;
        Ok(MipmappedArray {
            memory: ArrayMemory::external::<T>(stream, image, true)?,
            elements: PhantomData,
        })
    }
}

impl<'a> Image<'a> {
    fn new(
        memory: &'a ExternalMemory,
        range: impl RangeBounds<usize>,
        shape: &ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<Self> {
        if flags.intersects(WITHOUT_MEMORY) {
            return Err(contradiction(
                "an array in external memory cannot have ArrayFlags::SPARSE or \
                 ArrayFlags::DEFERRED_MAPPING",
                "leave out the flag",
            ));
        }
        let (start, bytes) = resolve_of("bytes", range, memory.bytes())?;
        Ok(Self {
            memory,
            range: start..start + bytes,
            shape: *shape,
            levels,
            flags,
        })
    }

    /// Returns the part of the memory, unless it has less than `least` bytes, or a buffer or an
    /// array maps one of them.
    pub(super) fn claim(&self, least: usize) -> Result<ExternalPart> {
        let (given, most) = (self.range.len() as u64, self.memory.bytes().max(least));
        within(
            "number of bytes",
            "the range of external memory for this array",
            given,
            least as u64..=most as u64,
            "pass the range of the image",
        )?;
        self.memory.claim(self.range.start, self.range.len())
    }
}
