//! Instructions that use textures and surfaces: which elements they read and change.
//!
//! All elements of a texture have one value, so that a fetch from anywhere else is seen, for any
//! coordinates. A surface has random elements, and one column for each thread, and two columns at
//! its ends for coordinates outside of it.

use bytemuck::Pod;
use cuda_driver::Result;
use cuda_driver::memory::SharedSlice;
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Sampler, Texel, Texture};
use fastrand::Rng;

use crate::check::Report;
use crate::device::Device;
use crate::inputs::{Inputs, Outputs};
use crate::item::Item;
use crate::values::Sets;

/// The rows of a column, and the planes or layers.
const ROWS: usize = 4;
/// The width of textures, and the edge of cubes.
const TEXTURE: usize = 32;
/// The value of each element of a texture; a little more than 1 as a float.
const FILL: u32 = 0x3f80_3f80;

/// An instruction with the contents of its object.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    shape: Shape,
    /// The bytes of an element of a surface, or none for a texture.
    bytes: Option<usize>,
    /// The elements of a row of a surface.
    width: usize,
    contents: Vec<u8>,
    /// The element of each thread, unless its coordinates are outside of the surface.
    places: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Linear,
    OneD,
    TwoD,
    ThreeD,
    OneDLayered,
    TwoDLayered,
    Cube,
    CubeLayered,
}

impl Shape {
    fn of(item: &Item) -> Self {
        let shapes = [
            ("2d", Self::TwoD),
            ("3d", Self::ThreeD),
            ("a1d", Self::OneDLayered),
            ("a2d", Self::TwoDLayered),
            ("cube", Self::Cube),
            ("acube", Self::CubeLayered),
        ];
        let found = shapes.iter().find(|(name, _)| item.has(name));
        let is_linear = item.opcode == "tex"
            && item.has("s32")
            && item.text.contains(".s32 {")
            && item
                .sources
                .first()
                .is_some_and(|source| !source.is_float());
        match found {
            Some((_, shape)) => *shape,
            // A query needs an object that has what it asks for.
            None if item.has("depth") => Self::ThreeD,
            None if item.has("array_size") => Self::TwoDLayered,
            None if item.opcode == "txq" || item.opcode == "suq" => Self::TwoD,
            None if is_linear => Self::Linear,
            None => Self::OneD,
        }
    }

    /// The rows and the planes or layers.
    fn extent(self) -> (usize, usize) {
        match self {
            Self::Linear | Self::OneD => (1, 1),
            Self::TwoD => (ROWS, 1),
            Self::OneDLayered => (1, ROWS),
            _ => (ROWS, ROWS),
        }
    }

    fn array(self, width: usize) -> ArrayShape {
        match self {
            Self::Linear | Self::OneD => ArrayShape::one_d(width),
            Self::TwoD => ArrayShape::two_d(width, ROWS),
            Self::ThreeD => ArrayShape::three_d(width, ROWS, ROWS),
            Self::OneDLayered => ArrayShape::one_d_layered(width, ROWS),
            Self::TwoDLayered => ArrayShape::two_d_layered(width, ROWS, ROWS),
            Self::Cube => ArrayShape::cube(width),
            Self::CubeLayered => ArrayShape::cube_layered(width, 2),
        }
    }
}

/// The bytes that a surface instruction accesses.
fn access_bytes(item: &Item) -> usize {
    let types = [
        ("b8", 1),
        ("b16", 2),
        ("b32", 4),
        ("u32", 4),
        ("s32", 4),
        ("b64", 8),
        ("u64", 8),
    ];
    let head = item.text.split(' ').next().unwrap_or("");
    let mut modifiers = head.split('.').skip(3);
    let size = modifiers.find_map(|it| types.iter().find(|ty| ty.0 == it));
    let count = match (item.has("v2"), item.has("v4")) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 1,
    };
    size.map_or(4, |ty| ty.1) * count
}

impl Objects {
    pub(crate) fn new(
        item: &Item,
        sets: &mut Sets,
        rng: &mut Rng,
    ) -> std::result::Result<Self, String> {
        let shape = Shape::of(item);
        let is_surface = item.opcode.starts_with("su");
        let mut objects = Self {
            shape,
            bytes: is_surface.then(|| access_bytes(item)),
            width: sets.sets.len() + 2,
            contents: Vec::new(),
            places: Vec::new(),
        };
        let Some(bytes) = objects.bytes else {
            return Ok(objects);
        };
        if bytes > 16 {
            return Err(format!("no element has {bytes} bytes"));
        }
        let (rows, planes) = shape.extent();
        objects.contents = vec![0; objects.width * rows * planes * bytes];
        rng.fill(&mut objects.contents);
        if item.opcode == "suq" {
            return Ok(objects);
        }
        let can_leave = item.has("zero") || item.has("clamp");
        for (thread, set) in sets.sets.iter_mut().enumerate() {
            let (y, z) = (rng.usize(..rows), rng.usize(..planes));
            let x = thread + 1;
            let is_outside = can_leave && rng.u32(..4) == 0;
            let outside = |rng: &mut Rng, size: usize| match rng.u32(..3) {
                0 => (rng.u32(1..1000) as i32).wrapping_neg(),
                1 => size as i32 + rng.u32(..1000) as i32,
                _ => i32::MAX / 16 - rng.u32(..9) as i32,
            };
            let mut place = [x as i32, y as i32, z as i32];
            if is_outside {
                // A row or a plane outside, or else a column. Layers must exist.
                match shape {
                    Shape::TwoD | Shape::TwoDLayered if rng.bool() => place[1] = outside(rng, rows),
                    Shape::ThreeD if rng.bool() => place[2] = outside(rng, planes),
                    _ => place[0] = outside(rng, objects.width),
                }
            }
            let [column, row, plane] = place;
            let column = column.wrapping_mul(bytes as i32);
            let coordinates = match shape {
                Shape::OneDLayered => vec![plane, column],
                Shape::TwoDLayered => vec![plane, column, row],
                Shape::TwoD => vec![column, row],
                Shape::ThreeD => vec![column, row, plane],
                _ => vec![column],
            };
            for (word, coordinate) in set.words.iter_mut().zip(coordinates) {
                *word = u64::from(coordinate as u32);
            }
            let index = (z * rows + y) * objects.width + x;
            objects.places.push((!is_outside).then_some(index));
        }
        Ok(objects)
    }

    /// Runs the kernel with its object. Also returns the contents of a surface afterwards.
    pub(crate) fn run(
        &self,
        device: &Device,
        module: &Module,
        name: &str,
        item: &Item,
        inputs: &Inputs,
    ) -> Result<(Outputs, Vec<u8>)> {
        let launch = |handle: u64| {
            let mut parameter = [[0; 64]; 3];
            parameter[1][..8].copy_from_slice(&handle.to_le_bytes());
            device.run(module, name, item, inputs, &[parameter])
        };
        let stream = device.stream();
        match self.bytes {
            Some(1) => self.surface::<u8>(stream, &launch),
            Some(2) => self.surface::<u16>(stream, &launch),
            Some(4) => self.surface::<u32>(stream, &launch),
            Some(8) => self.surface::<[u32; 2]>(stream, &launch),
            Some(_) => self.surface::<[u32; 4]>(stream, &launch),
            None if item.has("f32") && is_float_texel(item) => {
                let texel = [f32::from_bits(FILL); 4];
                Ok((self.texture(stream, texel, item, &launch)?, Vec::new()))
            }
            None => Ok((self.texture(stream, [FILL; 4], item, &launch)?, Vec::new())),
        }
    }

    fn surface<T: Texel + Pod>(
        &self,
        stream: &Stream,
        launch: &dyn Fn(u64) -> Result<Outputs>,
    ) -> Result<(Outputs, Vec<u8>)> {
        let mut texels = vec![T::zeroed(); self.contents.len() / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut texels).copy_from_slice(&self.contents);
        let shape = self.shape.array(self.width);
        let mut array = Array::from_host_with(stream, &shape, ArrayFlags::SURFACE, &texels)?;
        let handle = array.surface_mut()?.as_raw();
        let outputs = launch(handle)?;
        let after = array.to_vec()?;
        Ok((outputs, bytemuck::cast_slice(&after).to_vec()))
    }

    fn texture<T: Texel + Pod>(
        &self,
        stream: &Stream,
        texel: T,
        item: &Item,
        launch: &dyn Fn(u64) -> Result<Outputs>,
    ) -> Result<Outputs> {
        let sampler = Sampler::new();
        if self.shape == Shape::Linear {
            let memory = SharedSlice::from(DeviceBuffer::from_host(stream, &[texel; TEXTURE])?);
            let texture = Texture::new(&memory, &sampler)?;
            return launch(texture.as_raw());
        }
        let shape = self.shape.array(TEXTURE);
        let extent = shape.extent();
        let texels = vec![texel; extent.width * extent.height * extent.depth];
        let flags = match item.opcode.as_str() {
            "tld4" => ArrayFlags::GATHER,
            _ => ArrayFlags::empty(),
        };
        let array = Array::from_host_with(stream, &shape, flags, &texels)?;
        let texture = Texture::new(&array, &sampler)?;
        launch(texture.as_raw())
    }

    /// Compares what was read and written.
    pub(crate) fn check(
        &self,
        item: &Item,
        inputs: &Inputs,
        outputs: &Outputs,
        after: &[u8],
        report: &mut Report,
    ) {
        report.accesses = 1;
        match self.bytes {
            None => self.check_texture(item, inputs, outputs, report),
            Some(_) if item.opcode == "suq" => {
                if item.has("width") {
                    check_size(inputs, outputs, self.width, report);
                }
            }
            Some(bytes) => self.check_surface(item, bytes, inputs, outputs, after, report),
        }
    }

    fn check_texture(&self, item: &Item, inputs: &Inputs, outputs: &Outputs, report: &mut Report) {
        if item.opcode == "txq" {
            if item.has("width") {
                check_size(inputs, outputs, TEXTURE, report);
            }
            return;
        }
        for thread in (0..inputs.threads).filter(|it| inputs.is_active(*it)) {
            let results = outputs.values(item, thread);
            let texels = results.iter().zip(&item.results).filter(|it| it.1.bits > 1);
            // The value outside of a texture is 0.
            let is_wrong = |value: u64| value != u64::from(FILL) && value != 0;
            if texels.map(|it| *it.0).any(is_wrong) {
                report.fault(format!(
                    "thread {thread} reads {results:x?}, which is not in the texture"
                ));
            }
        }
    }

    fn check_surface(
        &self,
        item: &Item,
        bytes: usize,
        inputs: &Inputs,
        outputs: &Outputs,
        after: &[u8],
        report: &mut Report,
    ) {
        let is_write = item.opcode != "suld";
        let element = |all: &[u8], index: usize| all[index * bytes..][..bytes].to_vec();
        let rows = self.shape.extent().0;
        for index in 0..self.contents.len() / bytes {
            if element(&self.contents, index) == element(after, index) {
                continue;
            }
            // An access outside of the surface may change its edge.
            let column = index % self.width;
            let thread = column.wrapping_sub(1);
            let place = self.places.get(thread).copied().flatten();
            let is_own = match place {
                Some(place) => place == index && inputs.is_active(thread),
                None => item.has("clamp"),
            };
            if !is_write || !is_own {
                let row = index / self.width % rows;
                report.fault(format!(
                    "element {index} changes (column {column}, row {row})"
                ));
            }
        }
        let mut changed = 0;
        for (thread, place) in self.places.iter().enumerate() {
            let (Some(place), true) = (place, inputs.is_active(thread)) else {
                continue;
            };
            let before = element(&self.contents, *place);
            let now = element(after, *place);
            changed += u64::from(before != now);
            let expected = match item.opcode.as_str() {
                "sust" => self.stored(item, bytes, inputs.record(thread)),
                "suld" => {
                    let loaded = loaded(item, bytes, outputs, thread);
                    if loaded.as_ref().is_some_and(|loaded| *loaded != before) {
                        report.fault(format!(
                            "thread {thread} loads {loaded:x?}, not {before:x?}"
                        ));
                    }
                    None
                }
                _ => None,
            };
            if expected.as_ref().is_some_and(|expected| *expected != now) {
                report.fault(format!(
                    "thread {thread} stores {now:x?}, not {expected:x?}"
                ));
            }
        }
        if is_write && changed == 0 {
            report.fault("no element is changed".to_owned());
        }
    }

    /// The bytes that a thread stores, if all are in registers.
    fn stored(&self, item: &Item, bytes: usize, record: &[u64]) -> Option<Vec<u8>> {
        let data = &item.sources[item.coordinates..];
        let mut all = Vec::new();
        let each = bytes / data.len().max(1);
        for word in &record[1 + item.coordinates..] {
            all.extend(&word.to_le_bytes()[..each]);
        }
        (all.len() == bytes).then_some(all)
    }
}

/// The bytes that a thread has loaded, if all are in registers.
fn loaded(item: &Item, bytes: usize, outputs: &Outputs, thread: usize) -> Option<Vec<u8>> {
    if item.text.contains('_') || item.results.is_empty() {
        return None;
    }
    let each = bytes / item.results.len();
    let values = outputs.values(item, thread);
    let all = values
        .iter()
        .flat_map(|value| value.to_le_bytes()[..each].to_vec());
    Some(all.collect())
}

/// Whether the elements that a texture instruction reads are floating-point numbers.
fn is_float_texel(item: &Item) -> bool {
    item.results.first().is_some_and(|result| result.is_float())
}

fn check_size(inputs: &Inputs, outputs: &Outputs, expected: usize, report: &mut Report) {
    for thread in (0..inputs.threads).filter(|it| inputs.is_active(*it)) {
        let value = outputs.results(thread)[0];
        if value != expected as u64 {
            report.fault(format!(
                "thread {thread} has the size {value}, not {expected}"
            ));
        }
    }
}
