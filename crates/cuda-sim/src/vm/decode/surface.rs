//! Surface instructions: `suld.b`, `sust.b`, `sured.b`. Accesses that convert (`.p`) are not
//! supported.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, invalid, unsupported};
use crate::vm::atomic;
use crate::vm::code::Kind;
use crate::vm::lanes::memory_fn;
use crate::vm::texture::{Geometry, LoadSurface, Mode, ReduceSurface, StoreSurface};
use cuda_ptx::Operand;

const S32: Ty = Ty::new(Class::Signed, 32);

/// An access to a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurfaceOp {
    Load,
    Store,
    Reduce,
}

/// The parts of an access that precede its values.
struct Parts<'v, 'a> {
    geometry: Geometry,
    mode: Mode,
    ty: Ty,
    count: usize,
    place: &'v [Operand<'a>],
    value: &'v Operand<'a>,
}

fn parts<'a>(form: &mut Form<'a>, access: SurfaceOp) -> Decoded<Parts<'a, 'a>> {
    if !form.flag("b") {
        return unsupported("this conversion");
    }
    let geometry = FunctionDecoder::geometry(form)?;
    if matches!(geometry, Geometry::Cube | Geometry::Cubes) {
        return unsupported("this geometry");
    }
    let name = form.one_of(&Mode::NAMES).unwrap_or("trap");
    let number = Mode::NAMES.iter().position(|&other| other == name);
    let mode = Mode::of_number(number.unwrap_or(0));
    // Cache modifiers have no effect, because the software device has no caches.
    form.one_of(&["ca", "cg", "cs", "cv", "wb", "wt"]);
    let count = match form.one_of(&["v2", "v4"]) {
        Some("v2") => 2,
        Some(_) => 4,
        None => 1,
    };
    let ty = form.ty()?;
    let (place, value) = match form.operands {
        [value, Operand::Bracket(place)] if access == SurfaceOp::Load => (place, value),
        [Operand::Bracket(place), value] if access != SurfaceOp::Load => (place, value),
        _ => return unsupported("these operands"),
    };
    Ok(Parts {
        geometry,
        mode,
        ty,
        count,
        place,
        value,
    })
}

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn surface(&mut self, form: &mut Form<'a>, access: SurfaceOp) -> Decoded {
        let parts = parts(form, access)?;
        let Parts { ty, count, .. } = parts;
        let bytes = ty.bits / 8;
        let op = if access == SurfaceOp::Reduce {
            let is_integer = matches!(ty.class, Class::Unsigned | Class::Signed | Class::Bits);
            if !is_integer || !matches!(ty.bits, 32 | 64) {
                return unsupported("this type");
            }
            let name = form.one_of(&["add", "min", "max", "and", "or"]);
            let op = name.and_then(|name| atomic::Op::parse(name, ty.class, ty.bits, false));
            match op {
                Some(op) if count == 1 => op as u64,
                _ => return unsupported("this operation"),
            }
        } else {
            if ty.class != Class::Bits || ty.bits > 64 || bytes * count as u32 > 16 {
                return unsupported("this type");
            }
            0
        };
        form.done()?;
        let [handle, at] = parts.place else {
            return unsupported("these operands");
        };
        let handle = self.object(handle)?;
        let values = match parts.value {
            Operand::Vector(values) => &values[..],
            single => std::slice::from_ref(single),
        };
        if values.len() != count {
            return invalid("Bad vector size");
        }
        let (mut slots, mut after) = (Vec::new(), Vec::new());
        self.coordinates(at, parts.geometry, S32, &mut slots)?;
        for value in values {
            if access == SurfaceOp::Load {
                let (slot, widen) = self.dest(value, ty)?;
                slots.push(slot);
                after.push(widen);
            } else {
                slots.push(self.source(value, ty)?);
            }
        }
        let imm = self.list(slots) | parts.mode.pack(parts.geometry, bytes, op);
        let kind = Kind::Memory(match access {
            SurfaceOp::Load => memory_fn::<LoadSurface>(self.wide()),
            SurfaceOp::Store => memory_fn::<StoreSurface>(self.wide()),
            SurfaceOp::Reduce => memory_fn::<ReduceSurface>(self.wide()),
        });
        self.emit(kind, 0, handle, 0, 0, imm);
        for widen in after {
            self.finish(widen);
        }
        Ok(())
    }
}
