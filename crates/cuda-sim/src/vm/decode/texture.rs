//! Texture instructions: `tex`, `tld4`, `txq`, `suq`. Handles are numbers; variables of type
//! `.texref` and separate samplers are not supported.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::operand::Widen;
use super::{Decoded, invalid, unsupported};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::{MemoryOp, lanes, memory_fn};
use crate::vm::texture::{Gather, Geometry, Lookup, LookupOp, Query, QueryOp};
use cuda_ptx::{Base, Operand};

const F32: Ty = Ty::new(Class::Float, 32);
const S32: Ty = Ty::new(Class::Signed, 32);

/// The coordinates of a vector that must hold `count`: its length is `count`, or 4 if `count` is 3.
pub(super) fn coordinates<'v, 'a>(
    operand: &'v Operand<'a>,
    count: usize,
) -> Decoded<&'v [Operand<'a>]> {
    let all = match operand {
        Operand::Vector(all) => &all[..],
        single => std::slice::from_ref(single),
    };
    let padded = if count == 3 { 4 } else { count };
    if all.len() != padded {
        return invalid("Bad vector size");
    }
    Ok(&all[..count])
}

/// Four registers, and the predicate that says whether the elements are resident.
type Registers<'v, 'a> = (&'v [Operand<'a>], Option<&'v Operand<'a>>);

fn registers<'v, 'a>(operand: &'v Operand<'a>) -> Decoded<Registers<'v, 'a>> {
    let (all, resident) = match operand {
        Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
        all => (all, None),
    };
    match all {
        Operand::Vector(all) if all.len() == 4 => Ok((&all[..], resident)),
        _ => invalid("Bad vector size"),
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Takes the geometry; `None` if it is missing or unknown.
    pub(super) fn geometry(form: &mut Form<'_>) -> Decoded<Geometry> {
        let name = form.one_of(&Geometry::NAMES);
        let number = name.and_then(|name| Geometry::NAMES.iter().position(|&other| other == name));
        match number {
            Some(number) => Ok(Geometry::of_number(number)),
            None => unsupported("this geometry"),
        }
    }

    /// The slot of a handle in a register.
    pub(super) fn object(&mut self, operand: &Operand<'a>) -> Decoded<Slot> {
        match operand {
            Operand::Name(name) if matches!(self.named(name)?, super::function::Name::Reg(_)) => {
                self.source(operand, Ty::U64)
            }
            _ => unsupported("a variable instead of a handle"),
        }
    }

    /// The slots of the coordinates after `[handle,`, with the layer first.
    pub(super) fn coordinates(
        &mut self,
        operand: &Operand<'a>,
        geometry: Geometry,
        ty: Ty,
        slots: &mut Vec<u32>,
    ) -> Decoded {
        let layers = usize::from(geometry.is_layered());
        // Two-dimensional coordinates with a layer make three.
        let all = coordinates(operand, geometry.axes() + layers)?;
        let (layer, axes) = all.split_at(layers);
        for layer in layer {
            slots.push(self.source(layer, Ty::U32)?);
        }
        for axis in axes {
            slots.push(self.source(axis, ty)?);
        }
        Ok(())
    }

    fn texture_dests(
        &mut self,
        all: &[Operand<'a>],
        ty: Ty,
        slots: &mut Vec<u32>,
    ) -> Decoded<Vec<Option<Widen>>> {
        let mut after = Vec::new();
        for operand in all {
            let (slot, widen) = self.dest(operand, ty)?;
            slots.push(slot);
            after.push(widen);
        }
        Ok(after)
    }

    /// Emits the instruction and the conversions of its destinations.
    fn finish_texture<K: MemoryOp>(
        &mut self,
        handle: Slot,
        imm: u64,
        after: Vec<Option<Widen>>,
        resident: Option<&Operand<'a>>,
    ) -> Decoded {
        let kind = Kind::Memory(memory_fn::<K>(self.wide()));
        self.emit(kind, 0, handle, 0, 0, imm);
        for widen in after {
            self.finish(widen);
        }
        if let Some(resident) = resident {
            // All elements are resident.
            let (d, _) = self.dest(resident, Ty::PRED)?;
            let kind = lanes!(self.wide(), with w, i, m {
                w.put_pred(i.d, m, u32::MAX);
            });
            self.emit(kind, d, 0, 0, 0, 0);
        }
        Ok(())
    }

    pub(super) fn texture(&mut self, form: &mut Form<'a>) -> Decoded {
        let geometry = Self::geometry(form)?;
        let (of_coordinates, ty) = (form.ty()?, form.ty()?);
        let mut lookup = match form.one_of(&["base", "level", "grad"]) {
            Some("level") => Lookup::Level,
            Some("grad") => Lookup::Gradient,
            _ => Lookup::Base,
        };
        let is_cube = matches!(geometry, Geometry::Cube | Geometry::Cubes);
        if of_coordinates == S32 {
            if lookup != Lookup::Base || is_cube {
                return unsupported("integer coordinates");
            }
            lookup = Lookup::Integer;
        } else if of_coordinates != F32 {
            return unsupported("these coordinates");
        }
        if !form.flag("v4") || !matches!(ty.class, Class::Float | Class::Signed | Class::Unsigned) {
            return unsupported("this vector size");
        }
        if ty.bits != 32 || ty.packed {
            return unsupported("this type");
        }
        let (to, place, rest) = match form.operands {
            [to, Operand::Bracket(place), rest @ ..] => (to, place, rest),
            _ => return unsupported("these operands"),
        };
        let [handle, at] = &place[..] else {
            return unsupported("a separate sampler");
        };
        let rest = match (lookup, rest.len()) {
            (Lookup::Level, 1) | (Lookup::Gradient, 2) => rest,
            (Lookup::Base | Lookup::Integer, 0) => rest,
            _ => return unsupported("offsets or a depth comparison"),
        };
        form.done()?;
        let handle = self.object(handle)?;
        let (to, resident) = registers(to)?;
        let mut slots = Vec::new();
        let after = self.texture_dests(to, ty, &mut slots)?;
        self.coordinates(at, geometry, of_coordinates, &mut slots)?;
        for operand in rest {
            let count = match lookup {
                Lookup::Gradient => geometry.axes(),
                _ => 1,
            };
            for operand in coordinates(operand, count)? {
                slots.push(self.source(operand, F32)?);
            }
        }
        let list = self.list(slots);
        self.finish_texture::<LookupOp>(handle, list | lookup.pack(geometry), after, resident)
    }

    pub(super) fn gather(&mut self, form: &mut Form<'a>) -> Decoded {
        let name = form.one_of(&Gather::CHANNELS);
        let channel = name.and_then(|name| Gather::CHANNELS.iter().position(|&one| one == name));
        let Some(channel) = channel else {
            return unsupported("without a channel");
        };
        let geometry = Self::geometry(form)?;
        let (of_coordinates, ty) = (form.ty()?, form.ty()?);
        if geometry != Geometry::Plane || of_coordinates != F32 {
            return unsupported("this geometry");
        }
        if !form.flag("v4") || ty.bits != 32 || ty.packed {
            return unsupported("this vector size");
        }
        let [to, Operand::Bracket(place)] = form.operands else {
            return unsupported("offsets or a depth comparison");
        };
        let [handle, at] = &place[..] else {
            return unsupported("a separate sampler");
        };
        form.done()?;
        let handle = self.object(handle)?;
        let (to, resident) = registers(to)?;
        let mut slots = Vec::new();
        let after = self.texture_dests(to, ty, &mut slots)?;
        self.coordinates(at, geometry, F32, &mut slots)?;
        let list = self.list(slots);
        self.finish_texture::<Gather>(handle, list | Gather::pack(channel), after, resident)
    }

    /// Decodes `txq`, or `suq` if `of_surface`.
    pub(super) fn object_query(&mut self, form: &mut Form<'a>, of_surface: bool) -> Decoded {
        let is_leveled = form.flag("level");
        let name = form.one_of(&Query::NAMES);
        let number = name.and_then(|name| Query::NAMES.iter().position(|&other| other == name));
        let Some(query) = number.map(Query::of_number) else {
            return unsupported("this query");
        };
        if form.ty()? != Ty::B32 || of_surface && (is_leveled || query == Query::Levels) {
            return unsupported("this query");
        }
        form.arity(if is_leveled { 3 } else { 2 })?;
        let Operand::Address(Base::Name(name), 0) = &form.operands[1] else {
            return unsupported("a variable instead of a handle");
        };
        form.done()?;
        let handle = self.object(&Operand::Name(name))?;
        let level = match form.operands.get(2) {
            Some(level) => self.source(level, Ty::U32)?,
            None => self.const32(0),
        };
        let (d, widen) = self.dest(&form.operands[0], Ty::B32)?;
        let kind = Kind::Memory(memory_fn::<QueryOp>(self.wide()));
        self.emit(kind, d, handle, level, 0, query.pack(of_surface));
        self.finish(widen);
        Ok(())
    }
}
