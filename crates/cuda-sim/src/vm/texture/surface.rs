//! Surface accesses, which treat elements of arrays as bytes: `suld.b`, `sust.b`, `sured.b`.

use std::sync::Arc;

use super::lookup::Geometry;
use super::{Elements, Object, Shape, refused};
use crate::vm::access::{Translator, load, store};
use crate::vm::atomic::{self, Shared};
use crate::vm::check::{ObservedAccess, Observer};
use crate::vm::code::Ins;
use crate::vm::fault::FaultKind;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::vector::bits;
use crate::vm::warp::Warp;

/// The effect of an access outside of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Mode {
    /// The kernel fails.
    Trap,
    /// The nearest element is accessed.
    Clamp,
    /// Reads return zero and writes have no effect.
    Zero,
}

impl Mode {
    /// The names in PTX.
    pub(in crate::vm) const NAMES: [&str; 3] = ["trap", "clamp", "zero"];
    const ALL: [Self; 3] = [Self::Trap, Self::Clamp, Self::Zero];

    /// The mode at this index of [`NAMES`](Self::NAMES).
    pub(in crate::vm) fn of_number(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// The encoding in the upper half of `Ins::imm`, together with a geometry, the bytes of a
    /// value, and the operation of a reduction.
    pub(in crate::vm) fn pack(self, geometry: Geometry, bytes: u32, op: u64) -> u64 {
        let bytes = u64::from(bytes) << 16;
        (op << 24 | bytes | (self as u64) << 8 | geometry.number() as u64) << 32
    }
}

/// An access, decoded from the instruction.
struct Access<'a> {
    geometry: Geometry,
    mode: Mode,
    /// The bytes of one value, and the number of values.
    bytes: u64,
    values: &'a [u32],
    /// The layer and the coordinates.
    coordinates: Vec<[u32; LANES]>,
    handles: [u64; LANES],
}

impl<'a> Access<'a> {
    /// Decodes an instruction: list `imm` has the coordinates, then the values; the handle is in
    /// `a`.
    fn new(w: &Warp, env: &Env<'a>, i: &Ins) -> Option<Self> {
        let geometry = Geometry::of_number((i.imm >> 32 & 0xff) as usize);
        let list = env.program.lists.get(i.imm as u32 as usize)?;
        let count = geometry.axes() + usize::from(geometry.is_layered());
        let (coordinates, values) = list.split_at_checked(count)?;
        Some(Self {
            geometry,
            mode: Mode::of_number((i.imm >> 40 & 0xff) as usize),
            bytes: i.imm >> 48 & 0xff,
            values,
            coordinates: coordinates.iter().map(|&slot| w.get32(slot)).collect(),
            handles: w.get64(i.a),
        })
    }

    /// The bytes of all values.
    fn size(&self) -> u64 {
        self.bytes * self.values.len() as u64
    }

    fn is_of(&self, shape: Shape) -> bool {
        match self.geometry {
            Geometry::Line => shape == Shape::Line,
            Geometry::Plane => shape == Shape::Plane,
            Geometry::Space => shape == Shape::Space,
            Geometry::Lines => shape == Shape::Lines,
            // The faces of cubes are layers.
            Geometry::Planes => matches!(shape, Shape::Planes | Shape::Cube | Shape::Cubes),
            Geometry::Cube | Geometry::Cubes => false,
        }
    }

    /// The device address that a lane accesses; `None` if the access has no effect.
    fn place(&self, surface: &Elements, lane: usize) -> Result<Option<u64>, LaneFault> {
        let shape = surface.shape;
        if !self.is_of(shape) {
            let name = self.geometry.name();
            return Err(refused(
                lane,
                format!("a `{name}` access cannot use a surface of shape {shape:?}"),
            ));
        }
        let level = &surface.levels[0];
        let given: Vec<_> = self.coordinates.iter().map(|at| at[lane] as i32).collect();
        let (layer, axes) = match &given[..] {
            [layer, axes @ ..] if self.geometry.is_layered() => (*layer, axes),
            axes => (0, axes),
        };
        let mut at = [0, 0, layer];
        at[..axes.len()].copy_from_slice(axes);
        let size = self.size();
        if !at[0].unsigned_abs().is_multiple_of(size as u32) {
            return Err(LaneFault::misaligned(
                u64::from(at[0] as u32),
                size,
                size,
                lane,
            ));
        }
        let row = u64::from(level.size[0]) * surface.bytes();
        // The last valid position in each dimension: a byte, a row, a plane.
        let Some(last) = row.checked_sub(size) else {
            let message =
                format!("an access of {size} bytes does not fit into rows of {row} bytes");
            return Err(refused(lane, message));
        };
        let last = [last, level.size[1].into(), level.size[2].into()];
        let last = [last[0], last[1] - 1, last[2] - 1].map(|last: u64| last as i64);
        let inside = |(&at, last): (&i32, i64)| (0..=last).contains(&i64::from(at));
        if !at.iter().zip(last).all(inside) {
            match self.mode {
                Mode::Trap => {
                    let [width, height, depth] = level.size;
                    let message = format!(
                        "{size} bytes at {given:?} of a surface of {width} × {height} × {depth} \
                         elements of {} bytes",
                        surface.bytes()
                    );
                    return Err(LaneFault::of(FaultKind::LaunchFailed, lane, message));
                }
                Mode::Clamp => {
                    for (at, last) in at.iter_mut().zip(last) {
                        *at = i64::from(*at).clamp(0, last) as i32;
                    }
                }
                Mode::Zero => return Ok(None),
            }
        }
        let [x, y, z] = at.map(|at| at as u32);
        Ok(Some(level.place([0, y, z], 0).wrapping_add(x.into())))
    }

    /// The device address that a lane accesses, and its address in this process.
    fn find(
        &self,
        w: &Warp,
        env: &Env<'_>,
        lane: usize,
        last: &mut Option<(u64, Arc<Elements>)>,
    ) -> Result<Option<(u64, u64)>, LaneFault> {
        let handle = self.handles[lane];
        if !matches!(last, Some((known, _)) if *known == handle) {
            let surface = (env.launch.surfaces)(handle);
            let surface = surface.ok_or_else(|| Object::Surface.unknown(handle, lane))?;
            *last = Some((handle, surface));
        }
        let Some((_, surface)) = last else {
            return Ok(None);
        };
        let Some(place) = self.place(surface, lane)? else {
            return Ok(None);
        };
        let size = self.size();
        let host = Translator::default().translate(w, env, place, size, self.bytes, lane)?;
        Ok(Some((place, host)))
    }
}

/// `suld.b`
pub(in crate::vm) struct LoadSurface;

impl MemoryOp for LoadSurface {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some(access) = Access::new(w, env, i) else {
            return Ok(());
        };
        let mut found = [[0; LANES]; 4];
        let mut last = None;
        for lane in bits(m) {
            let Some((place, host)) = access.find(w, env, lane, &mut last)? else {
                continue;
            };
            if let Some(mut observer) = Observer::new(w, env, i) {
                observer.read(ObservedAccess::new(lane, place, access.size()));
            }
            for (number, found) in found.iter_mut().enumerate().take(access.values.len()) {
                let at = host + access.bytes * number as u64;
                // SAFETY: this is one of the live values, aligned to its size ←
                // `Translator::translate` checked the first one, and the others follow it.
                found[lane] = unsafe { load(access.bytes, at) };
            }
        }
        for (&slot, value) in access.values.iter().zip(&found) {
            if access.bytes == 8 {
                w.put64(slot, m, value);
            } else {
                w.put32(slot, m, &value.map(|value| value as u32));
            }
        }
        Ok(())
    }
}

/// The values in a list of registers.
fn values(w: &Warp, access: &Access<'_>) -> Vec<[u64; LANES]> {
    let slots = access.values.iter();
    let value = |&slot: &u32| match access.bytes {
        8 => w.get64(slot),
        _ => w.get32(slot).map(u64::from),
    };
    slots.map(value).collect()
}

/// `sust.b`
pub(in crate::vm) struct StoreSurface;

impl MemoryOp for StoreSurface {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some(access) = Access::new(w, env, i) else {
            return Ok(());
        };
        let values = values(w, &access);
        let mut last = None;
        for lane in bits(m) {
            let Some((place, host)) = access.find(w, env, lane, &mut last)? else {
                continue;
            };
            if let Some(mut observer) = Observer::new(w, env, i) {
                observer.write(ObservedAccess::new(lane, place, access.size()), true);
            }
            for (number, value) in values.iter().enumerate() {
                let at = host + access.bytes * number as u64;
                // SAFETY: this is one of the live values, aligned to its size ←
                // `Translator::translate` checked the first one, and the others follow it.
                unsafe { store(access.bytes, at, value[lane]) };
            }
        }
        Ok(())
    }
}

/// `sured.b`
pub(in crate::vm) struct ReduceSurface;

impl MemoryOp for ReduceSurface {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some(access) = Access::new(w, env, i) else {
            return Ok(());
        };
        let op = atomic::Op::of_number(i.imm >> 56);
        let values = values(w, &access);
        let Some(values) = values.first() else {
            return Ok(());
        };
        let mut last = None;
        for lane in bits(m) {
            let Some((place, host)) = access.find(w, env, lane, &mut last)? else {
                continue;
            };
            if let Some(mut observer) = Observer::new(w, env, i) {
                observer.update(ObservedAccess::new(lane, place, access.size()), true);
            }
            let value = values[lane];
            if access.bytes == 8 {
                // SAFETY: `host` is a live, aligned value ← `Translator::translate` checked it.
                unsafe { u64::update(host, |old| atomic::apply(op, 64, old, value, 0)) };
            } else {
                // SAFETY: as above.
                unsafe { u32::update(host, |old| atomic::apply(op, 32, old, value, 0)) };
            }
        }
        Ok(())
    }
}
