//! Writes the code around a checked access to a surface.
//!
//! The coordinates are compared with the extents of the surface, and the access is made in the mode
//! `.zero`. In the modes `.clamp` and `.zero`, coordinates outside of the surface are not
//! violations; only the layer and the alignment are checked.

use std::fmt::Write;

use crate::analysis::{Refusal, Root};
use crate::ast::{Instruction, Literal, Operand, Predicate};
use crate::flow::{BoundaryMode, ObjectShape, ObjectUse};

use super::site::{Checked, Writer};
use super::{Check, ExtraParameter, Site};

/// The coordinates of an access: 0 for the one in bytes, 1 for the row, 2 for the plane or the
/// layer; and the index of the operand of each.
fn places(shape: ObjectShape) -> &'static [(usize, usize)] {
    match shape {
        ObjectShape::OneD => &[(0, 0)],
        ObjectShape::TwoD => &[(0, 0), (1, 1)],
        ObjectShape::OneDLayered => &[(0, 1), (2, 0)],
        ObjectShape::TwoDLayered => &[(0, 1), (1, 2), (2, 0)],
        _ => &[(0, 0), (1, 1), (2, 2)],
    }
}

/// A part of an instruction that the rewritten text uses.
struct Form<'a> {
    shape: ObjectShape,
    mode: BoundaryMode,
    size: u32,
    /// The parameter with the surface.
    parameter: u32,
    coordinates: &'a [Operand<'a>],
}

impl<'a> Writer<'a, '_> {
    fn surface_form(
        &self,
        instruction: &'a Instruction<'a>,
        operand: usize,
        check: &Check,
    ) -> Option<Form<'a>> {
        let object = self.kernel.accesses.get(check.access)?.object?;
        let ObjectUse::Surface {
            shape, mode, size, ..
        } = object
        else {
            return None;
        };
        let Some(Root::Object { parameter }) = check.root else {
            return None;
        };
        let Operand::Bracket(place) = instruction.operands.get(operand)? else {
            return None;
        };
        let coordinates = match place.get(1)? {
            Operand::Vector(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        Some(Form {
            shape,
            mode,
            size,
            parameter,
            coordinates,
        })
    }

    /// The new text of an access to a surface.
    pub(super) fn surface(
        &mut self,
        instruction: &'a Instruction<'a>,
        operand: usize,
        check: &Check,
    ) -> Result<String, Refusal> {
        let line = instruction.line;
        let Some(form) = self.surface_form(instruction, operand, check) else {
            return self.refuse(line, "a check of a surface that is not an argument");
        };
        let registers = [self.r(8), self.r(9), self.r(10)];
        let (ok, low) = (self.p(9), self.r(0));
        let mut out = String::new();
        let _ = write!(out, "setp.eq.u32 {ok}, {0}, {0}; ", self.first());
        let places = places(form.shape);
        let mut coordinates: Vec<Operand<'_>> = form.coordinates.to_vec();
        for (axis, register) in registers.iter().enumerate() {
            let Some(&(_, place)) = places.iter().find(|it| it.0 == axis) else {
                let _ = write!(out, "mov.b32 {register}, 0; ");
                continue;
            };
            let (Some(value), Some(new)) =
                (form.coordinates.get(place), coordinates.get_mut(place))
            else {
                return self.refuse(line, "an access to a surface without a coordinate");
            };
            let is_known = match value {
                Operand::Literal(Literal::Int(_)) => true,
                Operand::Name(name) => self.bits(name) == 32,
                _ => false,
            };
            if !is_known {
                return self.refuse(line, "a coordinate that is not a register of 32 bits");
            }
            let _ = write!(out, "mov.b32 {register}, {value}; ");
            *new = Operand::Name(register);
            if axis == 0 && form.size > 1 {
                let _ = write!(out, "and.b32 {low}, {register}, {}; ", form.size - 1);
                let _ = write!(out, "setp.eq.and.u32 {ok}, {low}, 0, {ok}; ");
            }
            let is_layer = form.shape.is_layered() && axis == 2;
            if form.mode == BoundaryMode::Trap || is_layer {
                let limit = self.parameter(ExtraParameter::Surface {
                    parameter: form.parameter,
                    axis: axis as u32,
                    size: if axis == 0 { form.size } else { 1 },
                });
                let wide = self.d(0);
                let _ = write!(
                    out,
                    "ld.param.u64 {wide}, [{limit}]; cvt.u32.u64 {low}, {wide}; "
                );
                let _ = write!(out, "setp.lt.and.u32 {ok}, {register}, {low}, {ok}; ");
            }
        }
        // The fourth element of a vector is ignored.
        if let (4, Some(last)) = (coordinates.len(), coordinates.last_mut()) {
            *last = Operand::Name(&registers[0]);
        }
        let (run, bad, scratch) = (self.p(5), self.p(6), self.p(7));
        let guard = self.guard(&mut out, instruction);
        let _ = write!(out, "mov.pred {run}, {ok}; ");
        if let Some(guard) = &guard {
            let _ = write!(out, "and.pred {run}, {run}, {guard}; ");
        }
        let address = self.d(8);
        let [x, y, z] = &registers;
        let _ = write!(out, "mov.b64 {address}, {{{x}, {y}}}; ");
        self.sites.push(Site {
            line,
            access: Some(check.access),
            root: check.root.clone(),
        });
        let checked = Checked {
            address,
            is_wide: true,
            third: Some(z.clone()),
            ok,
            site: self.sites.len(),
        };
        self.record(&mut out, &checked, guard.as_deref(), &bad, &scratch);
        let mut new = instruction.clone();
        new.predicate = Some(Predicate {
            name: &run,
            negated: false,
        });
        new.modifiers.retain(|modifier| *modifier != "trap");
        if form.mode == BoundaryMode::Trap {
            new.modifiers.push("zero");
        }
        if let Some(Operand::Bracket(place)) = new.operands.get_mut(operand)
            && let Some(old) = place.get_mut(1)
        {
            *old = Operand::Vector(coordinates);
        }
        self.zero(&mut out, instruction, guard.as_deref(), &run, &bad)?;
        let _ = write!(out, "{new} ");
        Ok(out)
    }
}
