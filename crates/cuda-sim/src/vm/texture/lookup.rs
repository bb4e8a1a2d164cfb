//! Texture lookups: `tex` and `tld4`.

use std::sync::Arc;

use super::cube;
use super::element::Reader;
use super::filter::TexelPosition;
use super::{Object, Sampler, Shape, Texture, refused};
use crate::vm::access::Translator;
use crate::vm::code::Ins;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::vector::bits;
use crate::vm::warp::Warp;

/// The geometry that an instruction assumes of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Geometry {
    Line,
    Plane,
    Space,
    Lines,
    Planes,
    Cube,
    Cubes,
}

impl Geometry {
    /// The names in PTX.
    pub(in crate::vm) const NAMES: [&str; 7] = ["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"];
    const ALL: [Self; 7] = [
        Self::Line,
        Self::Plane,
        Self::Space,
        Self::Lines,
        Self::Planes,
        Self::Cube,
        Self::Cubes,
    ];

    /// The geometry at this index of [`NAMES`](Self::NAMES).
    pub(in crate::vm) fn of_number(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    pub(in crate::vm) fn number(self) -> usize {
        self as usize
    }

    pub(in crate::vm) fn name(self) -> &'static str {
        Self::NAMES[self.number()]
    }

    /// Whether a layer precedes the coordinates.
    pub(in crate::vm) fn is_layered(self) -> bool {
        matches!(self, Self::Lines | Self::Planes | Self::Cubes)
    }

    /// The number of coordinates, without the layer.
    pub(in crate::vm) fn axes(self) -> usize {
        match self {
            Self::Line | Self::Lines => 1,
            Self::Plane | Self::Planes => 2,
            Self::Space | Self::Cube | Self::Cubes => 3,
        }
    }

    /// Whether an instruction of this geometry can read a texture of this shape.
    fn is_of(self, shape: Shape) -> bool {
        matches!(
            (self, shape),
            (Self::Line, Shape::Line)
                | (Self::Plane, Shape::Plane)
                | (Self::Space, Shape::Space)
                | (Self::Lines, Shape::Lines)
                | (Self::Planes, Shape::Planes)
                | (Self::Cube, Shape::Cube)
                | (Self::Cubes, Shape::Cubes)
        )
    }
}

/// The way in which a level of detail is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Lookup {
    /// The most detailed level.
    Base,
    /// The level is an operand.
    Level,
    /// The level follows from the gradients of the coordinates.
    Gradient,
    /// The most detailed level, with integer coordinates.
    Integer,
}

impl Lookup {
    const ALL: [Self; 4] = [Self::Base, Self::Level, Self::Gradient, Self::Integer];

    /// The encoding in the upper half of `Ins::imm`, together with a geometry.
    pub(in crate::vm) fn pack(self, geometry: Geometry) -> u64 {
        ((self as u64) << 8 | geometry.number() as u64) << 32
    }

    fn unpack(imm: u64) -> (Self, Geometry) {
        let geometry = Geometry::of_number((imm >> 32 & 0xff) as usize);
        (Self::ALL[(imm >> 40 & 3) as usize], geometry)
    }
}

/// The last texture that was looked up, and its handle.
#[derive(Default)]
pub(super) struct Last(Option<(u64, Arc<Texture>)>);

impl Last {
    pub(super) fn get(
        &mut self,
        env: &Env<'_>,
        handle: u64,
        lane: usize,
    ) -> Result<Arc<Texture>, LaneFault> {
        if let Some((last, texture)) = &self.0
            && *last == handle
        {
            return Ok(Arc::clone(texture));
        }
        let texture = (env.launch.textures)(handle);
        let texture = texture.ok_or_else(|| Object::Texture.unknown(handle, lane))?;
        self.0 = Some((handle, Arc::clone(&texture)));
        Ok(texture)
    }
}

/// The operands of one lane.
struct Operands<'a>(std::slice::Iter<'a, [u32; LANES]>, usize);

impl Operands<'_> {
    fn bits(&mut self) -> u32 {
        self.0.next().map_or(0, |lanes| lanes[self.1])
    }

    fn float(&mut self) -> f32 {
        f32::from_bits(self.bits())
    }

    fn floats(&mut self, count: usize) -> [f32; 3] {
        let mut all = [0.0; 3];
        for value in all.iter_mut().take(count) {
            *value = self.float();
        }
        all
    }
}

fn length(gradient: [f32; 3], scale: [f32; 3]) -> f64 {
    let squares = gradient.iter().zip(scale).map(|(change, scale)| {
        let change = f64::from(*change) * f64::from(scale);
        change * change
    });
    squares.sum::<f64>().sqrt()
}

/// The level of detail at which a step of one pixel is one element.
fn detail(texture: &Texture, gradients: [[f32; 3]; 2]) -> f32 {
    let Sampler { normalized, .. } = texture.sampler;
    let size = texture.elements.levels[0].size;
    let scale = size.map(|axis| if normalized { axis as f32 } else { 1.0 });
    let [across, down] = gradients.map(|gradient| length(gradient, scale));
    libm::log2(across.max(down)) as f32
}

/// The request that a lane's coordinates describe.
fn texel(texture: &Texture, geometry: Geometry, layer: u32, at: [f32; 3]) -> TexelPosition {
    let layers = texture.elements.levels[0].size[2];
    let mut position = TexelPosition {
        at,
        axes: geometry.axes(),
        layer: layer.min(layers - 1),
        normalized: false,
    };
    match geometry {
        Geometry::Cube | Geometry::Cubes => {
            let (face, [s, t]) = cube::face(at);
            position.layer = layer.min(layers / 6 - 1) * 6 + face;
            (position.at, position.axes, position.normalized) = ([s, t, 0.0], 2, true);
        }
        Geometry::Line | Geometry::Plane | Geometry::Space => position.layer = 0,
        Geometry::Lines | Geometry::Planes => {}
    }
    position
}

impl Reader<'_, '_> {
    /// Reads the element at integer coordinates.
    fn exact(
        &mut self,
        texture: &Texture,
        layer: u32,
        at: [u32; 3],
    ) -> Result<[u32; 4], LaneFault> {
        let elements = &texture.elements;
        let level = &elements.levels[0];
        let at = match elements.shape {
            Shape::Lines => [at[0], 0, layer],
            Shape::Planes => [at[0], at[1], layer],
            _ => at,
        };
        let is_inside = at.iter().zip(level.size).all(|(&at, size)| at < size);
        match elements.shape {
            _ if is_inside => self.element(texture, level, at),
            // Only documented for plain memory.
            Shape::Buffer => Ok([0; 4]),
            _ => {
                let message = format!("the integer coordinates {at:?} are outside of the array");
                Err(refused(self.lane, message))
            }
        }
    }
}

/// Executes `tex`: list `imm` has four destinations, then the operands; the handle is in `a`.
pub(in crate::vm) struct LookupOp;

impl MemoryOp for LookupOp {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some((to, from)) = operands(env, i) else {
            return Ok(());
        };
        let (lookup, geometry) = Lookup::unpack(i.imm);
        let handles = w.get64(i.a);
        let sources: Vec<_> = from.iter().map(|&slot| w.get32(slot)).collect();
        let mut found = [[0; LANES]; 4];
        let mut last = Last::default();
        for lane in bits(m) {
            let texture = last.get(env, handles[lane], lane)?;
            let shape = texture.elements.shape;
            let is_integer = lookup == Lookup::Integer;
            let of_buffer = is_integer && (geometry, shape) == (Geometry::Line, Shape::Buffer);
            if !geometry.is_of(shape) && !of_buffer {
                let message = format!(
                    "`tex.{}` cannot read a texture of shape {shape:?}",
                    geometry.name()
                );
                return Err(refused(lane, message));
            }
            let is_cube = matches!(geometry, Geometry::Cube | Geometry::Cubes);
            if is_cube && lookup == Lookup::Gradient && texture.elements.levels.len() > 1 {
                // The gradient on a face for a given gradient of the direction is not documented.
                return Err(refused(
                    lane,
                    "gradients on cube maps with several levels are not supported",
                ));
            }
            let mut reader = Reader {
                w,
                env,
                ins: i,
                lane,
                translator: Translator::default(),
            };
            let mut operands = Operands(sources.iter(), lane);
            let layer = if geometry.is_layered() {
                operands.bits()
            } else {
                0
            };
            let value = if is_integer {
                let mut at = [0; 3];
                for at in at.iter_mut().take(geometry.axes()) {
                    *at = operands.bits();
                }
                reader.exact(&texture, layer, at)?
            } else {
                let position = texel(&texture, geometry, layer, operands.floats(geometry.axes()));
                let detail = match lookup {
                    Lookup::Level => Some(operands.float()),
                    Lookup::Gradient => {
                        let axes = geometry.axes();
                        let gradients = [operands.floats(axes), operands.floats(axes)];
                        Some(detail(&texture, gradients))
                    }
                    Lookup::Base | Lookup::Integer => None,
                };
                reader.sample(&texture, &position, detail)?
            };
            for (found, value) in found.iter_mut().zip(value) {
                found[lane] = value;
            }
        }
        for (&slot, value) in to.iter().zip(&found) {
            w.put32(slot, m, value);
        }
        Ok(())
    }
}

/// The destinations and the operands of an instruction.
pub(super) fn operands<'a>(env: &Env<'a>, i: &Ins) -> Option<(&'a [u32], &'a [u32])> {
    let list = env.program.lists.get(i.imm as u32 as usize)?;
    list.split_at_checked(4)
}

/// Executes `tld4`: like [`LookupOp`], with a channel instead of the choice of level.
pub(in crate::vm) struct Gather;

impl Gather {
    /// The names of the channels in PTX.
    pub(in crate::vm) const CHANNELS: [&str; 4] = ["r", "g", "b", "a"];

    /// The encoding in the upper half of `Ins::imm`.
    pub(in crate::vm) fn pack(channel: usize) -> u64 {
        (channel as u64) << 32
    }
}

impl MemoryOp for Gather {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some((to, from)) = operands(env, i) else {
            return Ok(());
        };
        let channel = (i.imm >> 32 & 3) as usize;
        let handles = w.get64(i.a);
        let sources: Vec<_> = from.iter().map(|&slot| w.get32(slot)).collect();
        let mut found = [[0; LANES]; 4];
        let mut last = Last::default();
        for lane in bits(m) {
            let texture = last.get(env, handles[lane], lane)?;
            if texture.elements.shape != Shape::Plane || !texture.elements.gathers {
                let message =
                    "`tld4` of an array that was created without CUDA_ARRAY3D_TEXTURE_GATHER";
                return Err(refused(lane, message));
            }
            let mut reader = Reader {
                w,
                env,
                ins: i,
                lane,
                translator: Translator::default(),
            };
            let at = Operands(sources.iter(), lane).floats(2);
            let position = texel(&texture, Geometry::Plane, 0, at);
            let level = &texture.elements.levels[0];
            let [x, y] = [0, 1].map(|axis| position.axis(&texture, level, axis).between(at[axis]));
            let [left, right] = [0, 1].map(|tap| x.get()[tap].0);
            let [above, below] = [0, 1].map(|tap| y.get()[tap].0);
            // Counter-clockwise from the lower left corner.
            let corners = [(left, below), (right, below), (right, above), (left, above)];
            for (found, (x, y)) in found.iter_mut().zip(corners) {
                found[lane] = reader.tap(&texture, level, [x, y, Some(0)])?[channel];
            }
        }
        for (&slot, value) in to.iter().zip(&found) {
            w.put32(slot, m, value);
        }
        Ok(())
    }
}
