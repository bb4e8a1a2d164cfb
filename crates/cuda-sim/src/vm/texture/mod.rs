//! Textures and surfaces, through which kernels access arrays.
//!
//! A texture consists of elements and a description of how to read them ([`Sampler`]); a surface
//! consists of elements only. Neither keeps memory alive: each access checks that its element is
//! live, as a load does.

mod cube;
mod element;
mod filter;
mod lookup;
mod query;
mod srgb;
mod surface;

pub(super) use lookup::{Gather, Geometry, Lookup, LookupOp};
pub(super) use query::{Query, QueryOp};
pub(super) use surface::{LoadSurface, Mode, ReduceSurface, StoreSurface};

use super::fault::FaultKind;
use super::lane_fault::LaneFault;

/// The type of a channel of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    S8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    S16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    S32,
    /// Floating point, 16 bits.
    F16,
    /// Floating point, 32 bits.
    F32,
}

impl Channel {
    /// The bytes of one channel.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }
}

/// The arrangement of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Plain memory, which is read with integer coordinates only.
    Buffer,
    /// One dimension.
    Line,
    /// Two dimensions.
    Plane,
    /// Three dimensions.
    Space,
    /// Layers of one dimension.
    Lines,
    /// Layers of two dimensions.
    Planes,
    /// Six faces of two dimensions.
    Cube,
    /// Layers of six faces.
    Cubes,
}

/// One mipmap level.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// The device address of the first element.
    pub address: u64,
    /// The elements of a row, the rows of a plane, and the planes or layers; 1 for each missing
    /// dimension.
    pub size: [u32; 3],
    /// The distance between rows in bytes. Planes follow each other without a gap.
    pub pitch: u64,
}

/// Elements in the memory of a device.
#[derive(Clone, Debug)]
pub struct Elements {
    /// The arrangement of the elements.
    pub shape: Shape,
    /// The type of each channel.
    pub channel: Channel,
    /// The number of channels: 1, 2 or 4.
    pub channels: u32,
    /// The mipmap levels, the most detailed one first. There is at least one.
    pub levels: Vec<Level>,
    /// Whether `tld4` may gather the footprint of a filter.
    pub gathers: bool,
}

/// The treatment of coordinates outside of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// The elements repeat.
    Wrap,
    /// The nearest element is read.
    Clamp,
    /// The elements repeat, mirrored every second time.
    Mirror,
    /// The border colour is read.
    Border,
}

/// The description of how elements are read.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// The address mode of each dimension.
    pub address: [AddressMode; 3],
    /// Whether to interpolate between elements instead of reading the nearest one.
    pub linear: bool,
    /// Whether to interpolate between levels instead of reading the nearest one.
    pub levels_linear: bool,
    /// Whether coordinates are from 0 to 1.
    pub normalized: bool,
    /// Whether integers of 8 and 16 bits are returned as integers instead of numbers from 0 or -1
    /// to 1.
    pub integer: bool,
    /// Whether the first three channels are sRGB-encoded.
    pub srgb: bool,
    /// The value that is added to each level of detail.
    pub bias: f32,
    /// The minimum and the maximum level of detail.
    pub detail: [f32; 2],
    /// The bits of the border colour.
    pub border: [u32; 4],
}

/// Elements and the description of how they are read.
#[derive(Clone, Debug)]
pub struct Texture {
    /// The elements.
    pub elements: Elements,
    /// The way in which the elements are read.
    pub sampler: Sampler,
}

impl Texture {
    /// Whether the texture returns floating-point values.
    #[must_use]
    pub fn is_float(&self) -> bool {
        match self.elements.channel {
            Channel::F16 | Channel::F32 => true,
            Channel::U32 | Channel::S32 => false,
            _ => !self.sampler.integer,
        }
    }
}

/// The kind of object that a handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Texture,
    Surface,
}

impl Object {
    fn name(self) -> &'static str {
        match self {
            Self::Texture => "texture",
            Self::Surface => "surface",
        }
    }

    /// The fault of a handle that does not refer to a live object.
    fn unknown(self, handle: u64, lane: usize) -> LaneFault {
        let message = format!(
            "{handle:#x} is not the handle of a live {} object",
            self.name()
        );
        LaneFault::of(FaultKind::IllegalAddress, lane, message)
    }
}

/// The fault of an operation that the software device, or no device, supports.
fn refused(lane: usize, message: impl Into<String>) -> LaneFault {
    LaneFault::of(FaultKind::IllegalInstruction, lane, message)
}
