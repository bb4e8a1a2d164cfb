//! The shapes of arrays.

use std::fmt;

use cuda_ptx::analysis::ObjectShape;
use cuda_sys::CUDA_ARRAY3D_DESCRIPTOR;

use super::format::Texel;
use crate::types::Extent;

bitflags::bitflags! {
    /// The uses that an array is made for. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[doc(alias = "CUDA_ARRAY3D_DESCRIPTOR")]
    pub struct ArrayFlags: u32 {
        /// Kernels can access the array through [surfaces](super::SurfaceMut).
        #[doc(alias = "CUDA_ARRAY3D_SURFACE_LDST")]
        #[doc(alias = "cudaArraySurfaceLoadStore")]
        const SURFACE = 2;
        /// Kernels can gather one channel of four neighbours (`tex2Dgather`). Two dimensions only.
        #[doc(alias = "CUDA_ARRAY3D_TEXTURE_GATHER")]
        #[doc(alias = "cudaArrayTextureGather")]
        const GATHER = 8;
        /// Another API draws to the array. For arrays in [external
        /// memory](crate::memory::ExternalMemory::map_array) only.
        #[doc(alias = "CUDA_ARRAY3D_COLOR_ATTACHMENT")]
        #[doc(alias = "cudaArrayColorAttachment")]
        const COLOR_ATTACHMENT = 0x20;
        /// The array has no memory until other code maps memory to its tiles
        /// (`cuMemMapArrayAsync`). Tiles may stay unmapped.
        #[doc(alias = "CUDA_ARRAY3D_SPARSE")]
        #[doc(alias = "cudaArraySparse")]
        const SPARSE = 0x40;
        /// The array has no memory until other code maps memory to all of it
        /// (`cuMemMapArrayAsync`).
        #[doc(alias = "CUDA_ARRAY3D_DEFERRED_MAPPING")]
        #[doc(alias = "cudaArrayDeferredMapping")]
        const DEFERRED_MAPPING = 0x80;
        const _ = !0;
    }
}

/// The flags with which an array has memory of its own.
pub(super) const WITH_MEMORY: ArrayFlags = ArrayFlags::SURFACE.union(ArrayFlags::GATHER);

/// The flags of arrays that have no memory until other code maps memory to them.
pub(super) const WITHOUT_MEMORY: ArrayFlags =
    ArrayFlags::SPARSE.union(ArrayFlags::DEFERRED_MAPPING);

impl ArrayFlags {
    /// Returns a feature that the flags need and not every device has, and what to do without it.
    pub(super) fn optional_feature(self) -> Option<(&'static str, &'static str)> {
        if self.contains(Self::SPARSE) {
            Some(("sparse arrays", "leave out ArrayFlags::SPARSE"))
        } else if self.contains(Self::DEFERRED_MAPPING) {
            Some((
                "arrays whose memory is mapped later",
                "leave out ArrayFlags::DEFERRED_MAPPING",
            ))
        } else {
            None
        }
    }
}

const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;

/// The shape of an [`Array`](super::Array): its dimensions and their sizes.
///
/// ```
/// use cuda_driver::texture::ArrayShape;
///
/// // 16 images of 640 x 480 pixels.
/// let shape = ArrayShape::two_d_layered(640, 480, 16);
/// assert_eq!(shape.extent().depth, 16);
/// // The six faces of a cube.
/// assert_eq!(ArrayShape::cube(64).extent(), (64, 64, 6).into());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    pub(super) kind: ShapeKind,
    pub(super) width: usize,
    /// 0 without a second dimension.
    pub(super) height: usize,
    /// The planes, the layers, or the faces of all cubes; 0 if there are none.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ShapeKind {
    OneD,
    TwoD,
    ThreeD,
    OneDLayered,
    TwoDLayered,
    Cube,
    CubeLayered,
}

impl ArrayShape {
    const fn new(kind: ShapeKind, width: usize, height: usize, depth: usize) -> Self {
        Self {
            kind,
            width,
            height,
            depth,
        }
    }

    /// Returns the shape of one row of `width` elements.
    #[must_use]
    pub const fn one_d(width: usize) -> Self {
        Self::new(ShapeKind::OneD, width, 0, 0)
    }

    /// Returns the shape of an image: `height` rows of `width` elements.
    #[must_use]
    pub const fn two_d(width: usize, height: usize) -> Self {
        Self::new(ShapeKind::TwoD, width, height, 0)
    }

    /// Returns the shape of a volume: `depth` planes of `height` rows of `width` elements. A linear
    /// filter interpolates between planes, too.
    #[must_use]
    pub const fn three_d(width: usize, height: usize, depth: usize) -> Self {
        Self::new(ShapeKind::ThreeD, width, height, depth)
    }

    /// Returns the shape of `layers` rows of `width` elements. A filter never mixes layers.
    #[must_use]
    #[doc(alias = "CUDA_ARRAY3D_LAYERED")]
    #[doc(alias = "cudaArrayLayered")]
    pub const fn one_d_layered(width: usize, layers: usize) -> Self {
        Self::new(ShapeKind::OneDLayered, width, 0, layers)
    }

    /// Returns the shape of `layers` images, each of `height` rows of `width` elements. A filter
    /// never mixes layers.
    #[must_use]
    #[doc(alias = "CUDA_ARRAY3D_LAYERED")]
    #[doc(alias = "cudaArrayLayered")]
    pub const fn two_d_layered(width: usize, height: usize, layers: usize) -> Self {
        Self::new(ShapeKind::TwoDLayered, width, height, layers)
    }

    /// Returns the shape of a cube: six faces, each with `width` rows of `width` elements.
    #[must_use]
    #[doc(alias = "CUDA_ARRAY3D_CUBEMAP")]
    #[doc(alias = "cudaArrayCubemap")]
    pub const fn cube(width: usize) -> Self {
        Self::new(ShapeKind::Cube, width, width, 6)
    }

    /// Returns the shape of `cubes` cubes with six faces each.
    #[must_use]
    #[doc(alias = "CUDA_ARRAY3D_CUBEMAP")]
    pub const fn cube_layered(width: usize, cubes: usize) -> Self {
        // A number of faces that does not fit is above every limit.
        Self::new(
            ShapeKind::CubeLayered,
            width,
            width,
            cubes.saturating_mul(6),
        )
    }

    /// Returns the number of elements per row, the number of rows, and the number of planes, layers
    /// or faces. A missing dimension has the size 1.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let has_rows = !matches!(self.kind, ShapeKind::OneD | ShapeKind::OneDLayered);
        let has_planes = !matches!(self.kind, ShapeKind::OneD | ShapeKind::TwoD);
        Extent {
            width: self.width,
            height: if has_rows { self.height } else { 1 },
            depth: if has_planes { self.depth } else { 1 },
        }
    }

    /// Returns the shape of a level of a mipmapped array: each dimension is half of that of the
    /// level before, and at least 1.
    pub(super) fn level(&self, level: u32) -> Self {
        let half = |size: usize| match size {
            0 => 0,
            size => (size >> level.min(usize::BITS - 1)).max(1),
        };
        Self {
            width: half(self.width),
            height: half(self.height),
            depth: match self.kind {
                ShapeKind::ThreeD => half(self.depth),
                _ => self.depth,
            },
            ..*self
        }
    }

    /// Returns the shapes of the first `levels` levels of a mipmapped array.
    pub(super) fn all_levels(&self, levels: u32) -> Vec<Self> {
        (0..levels).map(|level| self.level(level)).collect()
    }

    /// Returns the largest possible number of levels.
    pub(super) fn most_levels(&self) -> u32 {
        let depth = match self.kind {
            ShapeKind::ThreeD => self.depth,
            _ => 1,
        };
        1 + self.width.max(self.height).max(depth).max(1).ilog2()
    }

    /// Returns the shape for safe launches.
    pub(super) fn object_shape(&self) -> ObjectShape {
        match self.kind {
            ShapeKind::OneD => ObjectShape::OneD,
            ShapeKind::TwoD => ObjectShape::TwoD,
            ShapeKind::ThreeD => ObjectShape::ThreeD,
            ShapeKind::OneDLayered => ObjectShape::OneDLayered,
            ShapeKind::TwoDLayered => ObjectShape::TwoDLayered,
            ShapeKind::Cube => ObjectShape::Cube,
            ShapeKind::CubeLayered => ObjectShape::CubeLayered,
        }
    }

    pub(super) fn is_layered(&self) -> bool {
        !matches!(
            self.kind,
            ShapeKind::OneD | ShapeKind::TwoD | ShapeKind::ThreeD
        )
    }

    /// Returns the number of dimensions without layers. Directions into a cube have three.
    pub(super) fn dimensions(&self) -> usize {
        match self.kind {
            ShapeKind::OneD | ShapeKind::OneDLayered => 1,
            ShapeKind::TwoD | ShapeKind::TwoDLayered => 2,
            ShapeKind::ThreeD | ShapeKind::Cube | ShapeKind::CubeLayered => 3,
        }
    }

    pub(super) fn is_cube(&self) -> bool {
        matches!(self.kind, ShapeKind::Cube | ShapeKind::CubeLayered)
    }

    /// Returns the driver's description of an array of `T`.
    pub(super) fn descriptor<T: Texel>(&self, flags: ArrayFlags) -> CUDA_ARRAY3D_DESCRIPTOR {
        let own = match self.kind {
            ShapeKind::OneD | ShapeKind::TwoD | ShapeKind::ThreeD => 0,
            ShapeKind::OneDLayered | ShapeKind::TwoDLayered => LAYERED,
            ShapeKind::Cube => CUBEMAP,
            ShapeKind::CubeLayered => CUBEMAP | LAYERED,
        };
        CUDA_ARRAY3D_DESCRIPTOR {
            Width: self.width,
            Height: self.height,
            Depth: self.depth,
            Format: T::FORMAT,
            NumChannels: T::CHANNELS,
            Flags: flags.bits() | own,
        }
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            width,
            height,
            depth,
            ..
        } = self;
        match self.kind {
            ShapeKind::OneD => write!(f, "{width}"),
            ShapeKind::TwoD => write!(f, "{width} x {height}"),
            ShapeKind::ThreeD => write!(f, "{width} x {height} x {depth}"),
            ShapeKind::OneDLayered => write!(f, "{depth} layers of {width}"),
            ShapeKind::TwoDLayered => write!(f, "{depth} layers of {width} x {height}"),
            ShapeKind::Cube => write!(f, "cube of {width} x {width}"),
            ShapeKind::CubeLayered => write!(f, "{} cubes of {width} x {width}", depth / 6),
        }
    }
}
