//! Textures and surfaces: what kernels see arrays through.
//!
//! A texture is elements and the way to read them ([`Sampler`]); a surface is elements alone.
//! Neither keeps memory alive: that an element is there is found out at each access, as for a load.

mod cube;
mod element;
mod filter;
mod look;
mod query;
mod surface;

pub(super) use look::{Gather, Geometry, Look, Lookup};
pub(super) use query::{Query, QueryOp};
pub(super) use surface::{LoadSurface, Mode, ReduceSurface, StoreSurface};

use super::code::Trouble;
use super::fault::FaultKind;

/// What one channel of an element is.
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
    /// The bytes of one.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }
}

/// How elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Plain memory, which has integer coordinates only.
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
    /// Six planes.
    Cube,
    /// Layers of six planes.
    Cubes,
}

/// One level of detail.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// The device address of the first element.
    pub address: u64,
    /// Elements of a row, rows of a plane, planes or layers; each 1 where there is no such
    /// dimension.
    pub size: [u32; 3],
    /// Bytes from row to row. Planes follow each other without a gap.
    pub pitch: u64,
}

/// Elements in the memory of a device.
#[derive(Clone, Debug)]
pub struct Elements {
    /// How they lie.
    pub shape: Shape,
    /// What a channel of them is.
    pub channel: Channel,
    /// How many channels: 1, 2 or 4.
    pub channels: u32,
    /// The levels, from the most detailed one on. At least one.
    pub levels: Vec<Level>,
    /// Whether the footprint of a filter may be gathered.
    pub gathers: bool,
}

/// What a coordinate outside of the elements means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// The elements repeat.
    Wrap,
    /// The nearest one.
    Clamp,
    /// The elements repeat, every second time backwards.
    Mirror,
    /// The border's colour.
    Border,
}

/// How elements are read.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// For each dimension.
    pub address: [AddressMode; 3],
    /// Between elements, not the nearest one.
    pub linear: bool,
    /// Between levels, not the nearest one.
    pub levels_linear: bool,
    /// Coordinates are from 0 to 1.
    pub normalized: bool,
    /// Integers of 8 and 16 bits stay integers, and do not become numbers from 0 or -1 to 1.
    pub integer: bool,
    /// The first three channels are in the sRGB curve.
    pub srgb: bool,
    /// What is added to each level of detail.
    pub bias: f32,
    /// The least and the largest level of detail.
    pub detail: [f32; 2],
    /// The bits of the border's colour.
    pub border: [u32; 4],
}

/// Elements and how they are read.
#[derive(Clone, Debug)]
pub struct Texture {
    /// The elements.
    pub elements: Elements,
    /// How they are read.
    pub sampler: Sampler,
}

impl Texture {
    /// Whether what is read is floating point.
    #[must_use]
    pub fn is_float(&self) -> bool {
        match self.elements.channel {
            Channel::F16 | Channel::F32 => true,
            Channel::U32 | Channel::S32 => false,
            _ => !self.sampler.integer,
        }
    }
}

/// Where a handle in a kernel leads.
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

    /// Nothing has that handle.
    fn unknown(self, handle: u64, lane: usize) -> Trouble {
        let message = format!("{handle:#x} is no live {} object", self.name());
        Trouble::of(FaultKind::IllegalAddress, lane, message)
    }
}

/// What the software device does not do, or no device.
fn refused(lane: usize, message: impl Into<String>) -> Trouble {
    Trouble::of(FaultKind::IllegalInstruction, lane, message)
}
