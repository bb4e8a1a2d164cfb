//! The memory of textures.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_ptx::analysis::{Object, ObjectKind, ObjectShape};
use cuda_sys::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUdevice_attribute as Attribute, CUresourcetype,
};

/// The format of a [`ResourceView`], as the driver names it.
pub use cuda_sys::CUresourceViewFormat as ViewFormat;

use super::array::Array;
use super::format::{ChannelFormat, Texel, is_float, is_normalizable};
use super::limits::{contradiction, within};
use super::memory::{ArrayMemory, RawHandle, no_resource};
use super::mipmapped::MipmappedArray;
use super::shape::{ArrayFlags, ArrayShape};
use crate::device::Device;
use crate::error::{ArrayError, Result};
use crate::launch::ObjectArg;
use crate::memory::{DeviceBuffer, Memory, Part, PitchedBuffer, SharedSlice};
use crate::tracking::Access;

/// Memory that a [`Texture`](super::Texture) can read: an [`Array`], a [`MipmappedArray`], rows in
/// an `Arc` of a [`PitchedBuffer`], or a [`SharedSlice`] of a buffer. The texture shares it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the memory of a texture",
    label = "not memory that a texture can share",
    note = "pass an `Array`, a `MipmappedArray`, an `Arc<PitchedBuffer<T>>`, or a `SharedSlice<T>`, which `DeviceBuffer` converts to"
)]
pub trait TextureSource: sealed::Sealed {
    /// Returns the memory for a texture.
    #[doc(hidden)]
    fn source(&self, token: sealed::Token) -> Result<TextureMemory>;
}

pub(super) mod sealed {
    /// A value that only this crate can create.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(pub(super) ());

    /// The private supertrait of [`TextureSource`](super::TextureSource).
    pub trait Sealed {}
}

pub(super) const TOKEN: sealed::Token = sealed::Token(());

/// The memory of a texture.
pub struct TextureMemory {
    pub(super) owner: Arc<dyn Owner>,
    pub(super) desc: CUDA_RESOURCE_DESC,
    pub(super) kind: Kind,
    pub(super) format: ChannelFormat,
    pub(super) channels: u32,
    /// The memory that a kernel can read: an address or the number of an array, and bytes or
    /// arrays.
    pub(super) range: (u64, usize),
    /// Whether kernels may gather from the memory.
    pub(super) can_gather: bool,
}

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An array, or a mipmapped array with this number of levels.
    Array {
        shape: ArrayShape,
        levels: u32,
        is_mipmapped: bool,
    },
    Pitched,
    Linear,
}

impl Kind {
    /// Returns the number of dimensions for which the address mode matters.
    pub(super) fn dimensions(self) -> usize {
        match self {
            Self::Array { shape, .. } => shape.dimensions(),
            Self::Pitched => 2,
            Self::Linear => 1,
        }
    }
}

/// The kind of the channels that a texture reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    /// Floats, and blocks that are decompressed to floats.
    Float,
    /// Integers of 8 or 16 bits, which can be read as floats.
    SmallInteger,
    /// Integers of 32 bits.
    Integer,
}

impl Channels {
    fn of(format: ChannelFormat) -> Self {
        if is_float(format) {
            Self::Float
        } else if is_normalizable(format) {
            Self::SmallInteger
        } else {
            Self::Integer
        }
    }

    fn of_view(format: ViewFormat) -> Self {
        type V = ViewFormat;
        // The formats follow each other: integers of 8, 16 and 32 bits, floats, blocks.
        if format.0 >= V::CU_RES_VIEW_FORMAT_FLOAT_1X16.0 {
            Self::Float
        } else if format.0 >= V::CU_RES_VIEW_FORMAT_UINT_1X32.0 {
            Self::Integer
        } else {
            Self::SmallInteger
        }
    }
}

/// An owner of the memory of a texture.
pub(super) trait Owner: Send + Sync {
    fn memory(&self) -> &Memory;
}

impl Owner for ArrayMemory {
    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl<T: Texel> Owner for DeviceBuffer<T> {
    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl<T: Texel> Owner for PitchedBuffer<T> {
    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl TextureMemory {
    fn of_array(memory: &Arc<ArrayMemory>) -> Self {
        let first = memory.first();
        let levels = memory.levels.len();
        Self {
            desc: memory.resource(),
            kind: Kind::Array {
                shape: first.shape,
                // The number was given as a `u32`.
                levels: levels as u32,
                is_mipmapped: matches!(memory.handle, RawHandle::Mipmapped(_)),
            },
            format: memory.format,
            channels: memory.channels,
            range: (first.number, levels),
            can_gather: memory.flags.contains(ArrayFlags::GATHER),
            owner: Arc::clone(memory) as Arc<dyn Owner>,
        }
    }

    /// Returns the kind of channels that kernels read through `view`, or without a view.
    pub(super) fn channels_read(&self, view: Option<&ResourceView>) -> Channels {
        match view.and_then(|view| view.format) {
            Some(format) => Channels::of_view(format),
            None => Channels::of(self.format),
        }
    }

    /// Returns the texture with this handle for safe launches.
    pub(super) fn object(&self, handle: u64) -> ObjectArg {
        let shape = match self.kind {
            Kind::Array { shape, .. } => shape.object_shape(),
            Kind::Pitched => ObjectShape::TwoD,
            Kind::Linear => ObjectShape::Linear,
        };
        let can_gather = self.can_gather;
        ObjectArg {
            handle,
            object: Object {
                kind: ObjectKind::Texture { can_gather },
                shape,
            },
            extents: [0; 3],
        }
    }

    /// Returns the use of the memory by a kernel that reads the texture.
    pub(super) fn part(&self) -> Part<'_> {
        Part {
            memory: self.owner.memory(),
            // The owner may write the array at the same time on another thread, as if this were a
            // part of it.
            access: Access::READ.of_part(),
            address: self.range.0,
            bytes: self.range.1,
        }
    }
}

impl<T: Texel> sealed::Sealed for Array<T> {}

impl<T: Texel> TextureSource for Array<T> {
    fn source(&self, _: sealed::Token) -> Result<TextureMemory> {
        Ok(TextureMemory::of_array(&self.memory))
    }
}

impl<T: Texel> sealed::Sealed for MipmappedArray<T> {}

impl<T: Texel> TextureSource for MipmappedArray<T> {
    fn source(&self, _: sealed::Token) -> Result<TextureMemory> {
        Ok(TextureMemory::of_array(&self.memory))
    }
}

impl<T: Texel> sealed::Sealed for Arc<PitchedBuffer<T>> {}

impl<T: Texel> TextureSource for Arc<PitchedBuffer<T>> {
    fn source(&self, _: sealed::Token) -> Result<TextureMemory> {
        let (extent, pitch, address) = (self.extent(), self.pitch(), self.as_raw());
        let device = self.stream().context().device();
        if extent.depth != 1 {
            return Err(contradiction(
                "a texture reads one plane of pitched memory",
                "use a buffer with one plane, or copy the planes to an array",
            ));
        }
        let of = "a texture of pitched memory";
        let next = "divide the elements among several buffers";
        let limit = |attribute| limit(device, attribute);
        let most = limit(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH)?;
        within("width", of, extent.width as u64, 1..=most, next)?;
        let most = limit(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)?;
        within("height", of, extent.height as u64, 1..=most, next)?;
        let most = limit(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH)?;
        within("pitch in bytes", of, pitch as u64, 1..=most, next)?;
        expect_alignment(device, address)?;
        let divisor = limit(Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT)?;
        if !(pitch as u64).is_multiple_of(divisor.max(1)) {
            return Err(ArrayError::NotMultiple {
                what: "pitch",
                given: pitch as u64,
                of: divisor,
                next: "copy the rows to an array",
            }
            .into());
        }
        let mut desc = no_resource();
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
        desc.res.pitch2D.devPtr = address;
        desc.res.pitch2D.format = T::FORMAT;
        desc.res.pitch2D.numChannels = T::CHANNELS;
        desc.res.pitch2D.width = extent.width;
        desc.res.pitch2D.height = extent.height;
        desc.res.pitch2D.pitchInBytes = pitch;
        Ok(TextureMemory {
            desc,
            kind: Kind::Pitched,
            format: T::FORMAT,
            channels: T::CHANNELS,
            range: (address, self.span_bytes()),
            can_gather: false,
            owner: Arc::clone(self) as Arc<dyn Owner>,
        })
    }
}

impl<T: Texel> sealed::Sealed for SharedSlice<T> {}

impl<T: Texel> TextureSource for SharedSlice<T> {
    fn source(&self, _: sealed::Token) -> Result<TextureMemory> {
        let view = self.as_slice();
        let (address, bytes) = (view.as_raw(), self.len() * size_of::<T>());
        let device = self.buffer().stream().context().device();
        let most = limit(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
        )?;
        let of = "a texture of linear memory";
        let next = "divide the elements among several textures";
        within("number of elements", of, self.len() as u64, 1..=most, next)?;
        expect_alignment(device, address)?;
        let mut desc = no_resource();
        desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
        desc.res.linear.devPtr = address;
        desc.res.linear.format = T::FORMAT;
        desc.res.linear.numChannels = T::CHANNELS;
        desc.res.linear.sizeInBytes = bytes;
        Ok(TextureMemory {
            desc,
            kind: Kind::Linear,
            format: T::FORMAT,
            channels: T::CHANNELS,
            range: (address, bytes),
            can_gather: false,
            owner: Arc::clone(self.buffer()) as Arc<dyn Owner>,
        })
    }
}

fn limit(device: &Device, attribute: Attribute) -> Result<u64> {
    Ok(u64::try_from(device.attribute(attribute)?).unwrap_or(0))
}

/// Fails unless a texture can start at the address.
fn expect_alignment(device: &Device, address: u64) -> Result<()> {
    let of = limit(device, Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)?;
    if address.is_multiple_of(of.max(1)) {
        return Ok(());
    }
    Err(ArrayError::NotMultiple {
        what: "address",
        given: address,
        of,
        next: "start the view at an element whose offset in bytes is a multiple of it",
    }
    .into())
}

/// The part of an array that a texture reads, and the format in which it reads the elements.
///
/// ```
/// use cuda_driver::texture::{ResourceView, ViewFormat};
///
/// // The layers 2 to 5, with each 32-bit element as four bytes.
/// let view = ResourceView::new()
///     .format(ViewFormat::CU_RES_VIEW_FORMAT_UINT_4X8)
///     .layers(2..=5);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "CUDA_RESOURCE_VIEW_DESC")]
#[doc(alias = "cudaResourceViewDesc")]
pub struct ResourceView {
    format: Option<ViewFormat>,
    levels: Option<(u32, u32)>,
    layers: Option<(u32, u32)>,
}

impl ResourceView {
    /// Returns a view of the whole array in its own format.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format. Its elements have the same size as those of the array. In a
    /// block-compressed format, an element of the array is a block of 4 x 4 elements: the array has
    /// two channels (BC1 and BC4) or four channels (the others) of `u32`.
    #[must_use]
    #[doc(alias = "CUresourceViewFormat")]
    pub fn format(self, format: ViewFormat) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// Selects levels of a mipmapped array.
    #[must_use]
    pub fn levels(self, levels: RangeInclusive<u32>) -> Self {
        Self {
            levels: Some(levels.into_inner()),
            ..self
        }
    }

    /// Selects layers, or faces of cubes.
    #[must_use]
    pub fn layers(self, layers: RangeInclusive<u32>) -> Self {
        Self {
            layers: Some(layers.into_inner()),
            ..self
        }
    }

    /// Returns whether the view decompresses blocks.
    pub(super) fn is_block_compressed(&self) -> bool {
        self.format.is_some_and(is_block_compressed)
    }

    /// Returns the driver's description of this view of `source`, and the numbers of the first and
    /// the last level.
    pub(super) fn raw(
        &self,
        source: &TextureMemory,
    ) -> Result<(CUDA_RESOURCE_VIEW_DESC, (u32, u32))> {
        let Kind::Array { shape, levels, .. } = source.kind else {
            return Err(contradiction(
                "a view needs an array or a mipmapped array",
                "use Texture::new for pitched and linear memory",
            ));
        };
        let format = match self.format {
            Some(format) => format,
            None => own_format(source.format, source.channels),
        };
        let (first_level, last_level) =
            selected("levels", self.levels.unwrap_or((0, levels - 1)), levels)?;
        let depth = shape.depth;
        // A limit of the device keeps the number small.
        let layer_count = u32::try_from(depth).unwrap_or(u32::MAX);
        let (first_layer, last_layer) = match self.layers {
            None if shape.is_layered() => (0, layer_count.saturating_sub(1)),
            None => (0, 0),
            Some(layers) if shape.is_layered() => selected("layers", layers, layer_count)?,
            Some(_) => {
                return Err(contradiction(
                    "ResourceView::layers needs an array with layers",
                    "leave the layers out, or use ArrayShape::two_d_layered",
                ));
            }
        };
        let scale = if is_block_compressed(format) { 4 } else { 1 };
        let desc = CUDA_RESOURCE_VIEW_DESC {
            format,
            width: shape.width * scale,
            height: shape.height * scale,
            depth,
            firstMipmapLevel: first_level,
            lastMipmapLevel: last_level,
            firstLayer: first_layer,
            lastLayer: last_layer,
            reserved: [0; 16],
        };
        Ok((desc, (first_level, last_level)))
    }
}

fn selected(what: &'static str, (first, last): (u32, u32), count: u32) -> Result<(u32, u32)> {
    if first <= last && last < count {
        return Ok((first, last));
    }
    Err(ArrayError::View {
        what,
        first,
        last,
        count,
    }
    .into())
}

/// The block-compressed formats.
fn is_block_compressed(format: ViewFormat) -> bool {
    (ViewFormat::CU_RES_VIEW_FORMAT_UNSIGNED_BC1.0..=ViewFormat::CU_RES_VIEW_FORMAT_UNSIGNED_BC7.0)
        .contains(&format.0)
}

/// Returns the view format of elements with these channels.
fn own_format(format: ChannelFormat, channels: u32) -> ViewFormat {
    let one = match format {
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT8 => ViewFormat::CU_RES_VIEW_FORMAT_UINT_1X8,
        ChannelFormat::CU_AD_FORMAT_SIGNED_INT8 => ViewFormat::CU_RES_VIEW_FORMAT_SINT_1X8,
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT16 => ViewFormat::CU_RES_VIEW_FORMAT_UINT_1X16,
        ChannelFormat::CU_AD_FORMAT_SIGNED_INT16 => ViewFormat::CU_RES_VIEW_FORMAT_SINT_1X16,
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT32 => ViewFormat::CU_RES_VIEW_FORMAT_UINT_1X32,
        ChannelFormat::CU_AD_FORMAT_SIGNED_INT32 => ViewFormat::CU_RES_VIEW_FORMAT_SINT_1X32,
        ChannelFormat::CU_AD_FORMAT_HALF => ViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X16,
        _ => ViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32,
    };
    // The formats of two and of four channels follow that of one.
    ViewFormat(one.0 + channels.max(1).ilog2())
}

impl fmt::Debug for TextureMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} of {} x {:?}",
            self.kind, self.channels, self.format
        )
    }
}
