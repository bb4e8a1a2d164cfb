//! Samplers, the settings with which textures read: coordinates, filters, and conversions.

use cuda_sys::{CUDA_TEXTURE_DESC, CUaddress_mode, CUfilter_mode};

/// The value that a texture returns for coordinates beyond the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "CUaddress_mode")]
#[doc(alias = "cudaTextureAddressMode")]
pub enum AddressMode {
    /// The element at the edge.
    #[default]
    #[doc(alias = "CU_TR_ADDRESS_MODE_CLAMP")]
    Clamp,
    /// The border colour.
    #[doc(alias = "CU_TR_ADDRESS_MODE_BORDER")]
    Border,
    /// The elements repeat. Needs normalized coordinates.
    #[doc(alias = "CU_TR_ADDRESS_MODE_WRAP")]
    Wrap,
    /// The elements repeat, mirrored every second time. Needs normalized coordinates.
    #[doc(alias = "CU_TR_ADDRESS_MODE_MIRROR")]
    Mirror,
}

/// How a texture computes the value at coordinates between elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "CUfilter_mode")]
#[doc(alias = "cudaTextureFilterMode")]
pub enum Filter {
    /// The nearest element.
    #[default]
    #[doc(alias = "CU_TR_FILTER_MODE_POINT")]
    Point,
    /// The elements around the point, weighted by their distance with 8 fraction bits. Needs a
    /// texture that returns floats.
    #[doc(alias = "CU_TR_FILTER_MODE_LINEAR")]
    Linear,
}

/// The type that a texture returns for channels of 8 and 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "cudaTextureReadMode")]
pub enum ReadMode {
    /// The channel as it is stored: an integer or a float.
    #[default]
    #[doc(alias = "CU_TRSF_READ_AS_INTEGER")]
    #[doc(alias = "cudaReadModeElementType")]
    Element,
    /// A float from 0 to 1 for unsigned integers, and from -1 to 1 for signed ones.
    #[doc(alias = "cudaReadModeNormalizedFloat")]
    NormalizedFloat,
}

/// How a [`Texture`](super::Texture) reads its memory. The default reads the nearest element at
/// coordinates in elements, and the element at the edge beyond the edges.
///
/// ```
/// use cuda_driver::texture::{AddressMode, Filter, ReadMode, Sampler};
///
/// // A photo of bytes that repeats and is smooth, at coordinates from 0 to 1.
/// let sampler = Sampler::new()
///     .address(AddressMode::Wrap)
///     .filter(Filter::Linear)
///     .read(ReadMode::NormalizedFloat)
///     .normalized_coordinates();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[doc(alias = "CUDA_TEXTURE_DESC")]
#[doc(alias = "cudaTextureDesc")]
pub struct Sampler {
    pub(super) address: [AddressMode; 3],
    pub(super) filter: Filter,
    pub(super) level_filter: Filter,
    pub(super) read: ReadMode,
    pub(super) is_normalized: bool,
    pub(super) is_srgb: bool,
    pub(super) is_seamless: bool,
    pub(super) has_full_trilinear: bool,
    max_anisotropy: u32,
    bias: f32,
    levels: (f32, f32),
    border: [f32; 4],
}

const READ_AS_INTEGER: u32 = 1;
const NORMALIZED_COORDINATES: u32 = 2;
const SRGB: u32 = 0x10;
const DISABLE_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS_CUBEMAP: u32 = 0x40;

impl Sampler {
    /// Returns the default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the address mode of all dimensions.
    #[must_use]
    pub fn address(self, mode: AddressMode) -> Self {
        self.address_of_each([mode; 3])
    }

    /// Sets the address modes of x, y and z. Modes of dimensions that the memory does not have are
    /// ignored.
    #[must_use]
    pub fn address_of_each(self, address: [AddressMode; 3]) -> Self {
        Self { address, ..self }
    }

    /// Sets the filter between elements.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Sets the filter between the levels of a mipmapped array.
    #[must_use]
    pub fn level_filter(self, level_filter: Filter) -> Self {
        Self {
            level_filter,
            ..self
        }
    }

    /// Sets what is returned for integers.
    #[must_use]
    pub fn read(self, read: ReadMode) -> Self {
        Self { read, ..self }
    }

    /// Reads at coordinates from 0 to 1, and not from 0 to the number of elements.
    #[must_use]
    #[doc(alias = "CU_TRSF_NORMALIZED_COORDINATES")]
    pub fn normalized_coordinates(self) -> Self {
        Self {
            is_normalized: true,
            ..self
        }
    }

    /// Converts the first three channels from sRGB to linear numbers. The elements must be `[u8;
    /// 4]`, read as [normalized floats](ReadMode::NormalizedFloat).
    ///
    /// The device converts before it filters. An H100 uses a table of 256 numbers of type `f16`,
    /// which are at most 0.00375 from the formula of sRGB.
    #[must_use]
    #[doc(alias = "CU_TRSF_SRGB")]
    pub fn srgb(self) -> Self {
        Self {
            is_srgb: true,
            ..self
        }
    }

    /// Filters across the edges between the faces of a cube.
    #[must_use]
    #[doc(alias = "CU_TRSF_SEAMLESS_CUBEMAP")]
    pub fn seamless(self) -> Self {
        Self {
            is_seamless: true,
            ..self
        }
    }

    /// Always interpolates between two levels, even if the weight of one is small.
    #[must_use]
    #[doc(alias = "CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION")]
    pub fn full_trilinear(self) -> Self {
        Self {
            has_full_trilinear: true,
            ..self
        }
    }

    /// Sets the largest ratio of an anisotropic filter: 1 to 16. 0 and 1 mean none.
    #[must_use]
    pub fn max_anisotropy(self, max_anisotropy: u32) -> Self {
        Self {
            max_anisotropy,
            ..self
        }
    }

    /// Sets a number that is added to each level of detail.
    #[must_use]
    pub fn level_bias(self, bias: f32) -> Self {
        Self { bias, ..self }
    }

    /// Sets the smallest and the largest level of detail that is read, from 0, which is the most
    /// detailed level that the texture has.
    #[must_use]
    pub fn levels(self, least: f32, most: f32) -> Self {
        Self {
            levels: (least, most),
            ..self
        }
    }

    /// Sets the colour of [`AddressMode::Border`]. For integers that are read as [normalized
    /// floats](ReadMode::NormalizedFloat), the device rounds it to a number that the elements can
    /// have.
    #[must_use]
    pub fn border(self, border: [f32; 4]) -> Self {
        Self { border, ..self }
    }

    /// Returns the driver's description for memory with `dimensions` dimensions besides layers.
    /// `is_float` says whether the elements are floats.
    pub(super) fn raw(&self, is_float: bool, dimensions: usize) -> CUDA_TEXTURE_DESC {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let filter = |filter: Filter| match filter {
            Filter::Point => CUfilter_mode::CU_TR_FILTER_MODE_POINT,
            Filter::Linear => CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
        };
        let mut address = self.address;
        // An H100 filters a 1-D array as one row, at the edge of which is the border if the mode of
        // the second dimension says so.
        for missing in address.iter_mut().skip(dimensions) {
            *missing = AddressMode::Clamp;
        }
        CUDA_TEXTURE_DESC {
            addressMode: address.map(|mode| match mode {
                AddressMode::Clamp => CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP,
                AddressMode::Border => CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER,
                AddressMode::Wrap => CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP,
                AddressMode::Mirror => CUaddress_mode::CU_TR_ADDRESS_MODE_MIRROR,
            }),
            filterMode: filter(self.filter),
            flags: flag(self.read == ReadMode::Element && !is_float, READ_AS_INTEGER)
                | flag(self.is_normalized, NORMALIZED_COORDINATES)
                | flag(self.is_srgb, SRGB)
                | flag(self.has_full_trilinear, DISABLE_TRILINEAR_OPTIMIZATION)
                | flag(self.is_seamless, SEAMLESS_CUBEMAP),
            maxAnisotropy: self.max_anisotropy,
            mipmapFilterMode: filter(self.level_filter),
            mipmapLevelBias: self.bias,
            minMipmapLevelClamp: self.levels.0,
            maxMipmapLevelClamp: self.levels.1,
            borderColor: self.border,
            reserved: [0; 12],
        }
    }

    /// Returns the ratio of the anisotropic filter.
    pub(super) fn anisotropy(&self) -> u32 {
        self.max_anisotropy
    }

    /// Returns a feature that the sampler needs and not every device has, and what to do without
    /// it.
    pub(super) fn optional_feature(&self) -> Option<(&'static str, &'static str)> {
        if self.max_anisotropy > 1 {
            Some(("anisotropic filters", "leave out Sampler::max_anisotropy"))
        } else if self.is_seamless {
            Some((
                "filters across the edges of cubes",
                "leave out Sampler::seamless",
            ))
        } else if self.is_srgb {
            Some((
                "sRGB for these elements",
                "use elements [u8; 4] and ReadMode::NormalizedFloat",
            ))
        } else {
            None
        }
    }
}
