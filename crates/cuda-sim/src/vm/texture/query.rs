//! `txq` and `suq`: the extents of textures and surfaces.

use super::lookup::Last;
use super::{Elements, Object, Shape, refused};
use crate::vm::code::Ins;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::vector::bits;
use crate::vm::warp::Warp;

/// The queried property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Query {
    Width,
    Height,
    Depth,
    ArraySize,
    Levels,
}

impl Query {
    /// The names in PTX.
    pub(in crate::vm) const NAMES: [&str; 5] = [
        "width",
        "height",
        "depth",
        "array_size",
        "num_mipmap_levels",
    ];
    const ALL: [Self; 5] = [
        Self::Width,
        Self::Height,
        Self::Depth,
        Self::ArraySize,
        Self::Levels,
    ];

    /// The query at this index of [`NAMES`](Self::NAMES).
    pub(in crate::vm) fn of_number(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// The encoding in `Ins::imm`, for a surface or a texture.
    pub(in crate::vm) fn pack(self, of_surface: bool) -> u64 {
        self as u64 | u64::from(of_surface) << 8
    }

    /// The result; `None` if such elements do not have the property.
    fn value(self, elements: &Elements, level: usize) -> Option<u32> {
        use Shape::{Buffer, Cube, Cubes, Line, Lines, Plane, Planes, Space};
        let [width, height, depth] = elements.levels.get(level)?.size;
        match (self, elements.shape) {
            (Self::Width, _) => Some(width),
            (Self::Height, Plane | Space | Planes | Cube | Cubes) => Some(height),
            (Self::Depth, Space) | (Self::ArraySize, Lines | Planes) => Some(depth),
            (Self::Levels, Buffer | Line | Plane | Space | Lines | Planes | Cube | Cubes) => {
                Some(elements.levels.len() as u32)
            }
            _ => None,
        }
    }
}

/// Executes `txq` or `suq`: the handle is in `a`, the level in `b`.
pub(in crate::vm) struct QueryOp;

impl MemoryOp for QueryOp {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let query = Query::of_number((i.imm & 0xff) as usize);
        let (handles, levels) = (w.get64(i.a), w.get32(i.b));
        let mut found = [0; LANES];
        let mut last = Last::default();
        for lane in bits(m) {
            let (handle, level) = (handles[lane], levels[lane] as usize);
            let (shape, value) = if i.imm >> 8 & 1 != 0 {
                let surface = (env.launch.surfaces)(handle);
                let surface = surface.ok_or_else(|| Object::Surface.unknown(handle, lane))?;
                (surface.shape, query.value(&surface, level))
            } else {
                let elements = &last.get(env, handle, lane)?.elements;
                (elements.shape, query.value(elements, level))
            };
            let Some(value) = value else {
                let message = format!("level {level} of the shape {shape:?} has no {query:?}");
                return Err(refused(lane, message));
            };
            found[lane] = value;
        }
        w.put32(i.d, m, &found);
        Ok(())
    }
}
