//! Turns instructions that use textures and surfaces into operations.
//!
//! The hardware confines a texture fetch to the memory of its object, whatever the coordinates are.
//! So the analysis needs to know only which object the handle names.

use crate::ast::{Base, Instruction, Operand};

use super::Refused;
use super::decode::{Decoder, NO, integer};
use super::names::{Name, bits_of};
use super::object::{BoundaryMode, ObjectShape, ObjectUse, Property};
use super::op::{Access, AccessKind, Ins, Op, Source, UNDEFINED};

/// The types that a texture instruction returns.
const RESULTS: &[&str] = &["u32", "s32", "f32", "f16", "f16x2"];

/// Refuses a form that is not modelled.
fn refuse<T>(instruction: &Instruction<'_>, what: &str) -> Result<T, Refused> {
    let text = format!("textures and surfaces: {}: {what}", instruction.mnemonic());
    Refused::new(instruction.line, text)
}

/// The operands of a vector, or the one operand.
fn elements<'v, 'a>(operand: &'v Operand<'a>) -> &'v [Operand<'a>] {
    match operand {
        Operand::Vector(all) => all,
        single => std::slice::from_ref(single),
    }
}

/// An access to a surface, as its modifiers describe it.
struct SurfaceForm {
    shape: ObjectShape,
    mode: BoundaryMode,
    size: u32,
}

impl SurfaceForm {
    fn parse(instruction: &Instruction<'_>) -> Result<Self, Refused> {
        let (mut shape, mut mode, mut bits) = (None, None, None);
        let (mut count, mut is_bytes) = (1, false);
        let is_reduction = instruction.opcode == "sured";
        for &modifier in &instruction.modifiers {
            match modifier {
                "b" => is_bytes = true,
                "trap" => mode = Some(BoundaryMode::Trap),
                "clamp" => mode = Some(BoundaryMode::Clamp),
                "zero" => mode = Some(BoundaryMode::Zero),
                "v2" => count = 2,
                "v4" => count = 4,
                "ca" | "cg" | "cs" | "cv" | "wb" | "wt" if !is_reduction => {}
                "add" | "min" | "max" | "and" | "or" if is_reduction => {}
                "1d" | "2d" | "3d" => shape = ObjectShape::parse(modifier),
                "a1d" | "a2d" if !is_reduction => shape = ObjectShape::parse(modifier),
                ty if integer(ty).is_some() => bits = Some(bits_of(ty)),
                _ => return refuse(instruction, "an unknown form"),
            }
        }
        let (Some(shape), Some(bits), true) = (shape, bits, is_bytes) else {
            return refuse(instruction, "an access that is not of plain bytes (`.b`)");
        };
        let size = bits / 8 * count;
        let is_known = match is_reduction {
            true => count == 1 && matches!(bits, 32 | 64),
            false => size <= 16,
        };
        if !is_known {
            return refuse(instruction, "an unknown size");
        }
        Ok(Self {
            shape,
            mode: mode.unwrap_or(BoundaryMode::Trap),
            size,
        })
    }

    /// The number of coordinates, and the index of the one in bytes.
    fn coordinates(&self) -> (usize, usize) {
        match self.shape {
            ObjectShape::OneD => (1, 0),
            ObjectShape::TwoD => (2, 0),
            ObjectShape::OneDLayered => (2, 1),
            ObjectShape::TwoDLayered => (4, 1),
            _ => (4, 0),
        }
    }
}

impl<'a> Decoder<'a> {
    /// `tex`, `tld4`, `txq`, `suq`, `suld`, `sust`, `sured`
    pub(super) fn object(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        match instruction.opcode {
            "tex" => self.fetch(instruction),
            "tld4" => self.gather(instruction),
            "txq" | "suq" => self.query(instruction),
            _ => self.surface(instruction),
        }
    }

    /// Records the use of the object in `handle` by an instruction.
    fn use_object(
        &mut self,
        instruction: &Instruction<'a>,
        (operand, handle): (usize, &'a str),
        object: ObjectUse,
        at: [Source; 2],
    ) -> Result<(), Refused> {
        let handle = match self.names.find(handle) {
            Some(Name::Reg(reg)) if reg.bits == 64 => Source::Value(reg.number),
            Some(Name::Reg(_)) => {
                return refuse(
                    instruction,
                    "a handle in a register that does not have 64 bits",
                );
            }
            _ => {
                return refuse(
                    instruction,
                    "a texture or surface reference; only handles in parameters are supported",
                );
            }
        };
        let (kind, size) = match object {
            ObjectUse::Surface { size, is_write, .. } => match is_write {
                true => (AccessKind::Write, size),
                false => (AccessKind::Read, size),
            },
            _ => (AccessKind::Read, 0),
        };
        let number = self.accesses.len() as u32;
        self.accesses.push(Access {
            kind,
            space: None,
            is_common: false,
            is_store: false,
            size,
            is_simple: true,
            tile: None,
            offset: 0,
            bits: 64,
            line: instruction.line,
            location: self.location,
            mnemonic: instruction.mnemonic(),
            statement: self.statement,
            operand: operand as u32,
            object: Some(object),
        });
        self.ins.push(Ins {
            op: Op::Access(number),
            sources: [handle, at[0], at[1]],
            unmodelled: Vec::new(),
            target: None,
            guard: self.guard,
            previous: UNDEFINED,
        });
        Ok(())
    }

    /// `tex{.mode}.geometry.v4.type.type d{|p}, [handle, coordinates]{, level or gradients}`
    fn fetch(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let Some((&of_coordinates, rest)) = instruction.modifiers.split_last() else {
            return refuse(instruction, "an unknown form");
        };
        let (mut shape, mut operands, mut is_gradient) = (None, 2, false);
        for &modifier in rest {
            match modifier {
                "base" | "v2" | "v4" => {}
                "level" => operands = 3,
                "grad" => (operands, is_gradient) = (4, true),
                ty if RESULTS.contains(&ty) => {}
                geometry if shape.is_none() && ObjectShape::parse(geometry).is_some() => {
                    shape = ObjectShape::parse(geometry);
                }
                _ => return refuse(instruction, "an unknown form"),
            }
        }
        let shape = match (of_coordinates, shape) {
            ("f32", Some(ObjectShape::Cube | ObjectShape::CubeLayered)) if is_gradient => {
                return refuse(instruction, "gradients on cubes");
            }
            ("f32", Some(shape)) => shape,
            ("s32", Some(ObjectShape::OneD)) if operands == 2 => ObjectShape::Linear,
            _ => {
                return refuse(
                    instruction,
                    "integer coordinates, except in linear memory (`tex.1d`)",
                );
            }
        };
        let (target, place) = match instruction.operands.as_slice() {
            [target, Operand::Bracket(place), ..] if instruction.operands.len() == operands => {
                (target, place)
            }
            _ => return refuse(instruction, "offsets or depth comparisons"),
        };
        let [Operand::Name(handle), _] = place.as_slice() else {
            return refuse(instruction, "a separate sampler");
        };
        self.use_object(instruction, (1, handle), ObjectUse::Fetch(shape), [NO; 2])?;
        self.clobber(target);
        Ok(())
    }

    /// `tld4.channel.2d.v4.type.f32 d{|p}, [handle, coordinates]`
    fn gather(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let is_known = |modifier: &&str| {
            matches!(*modifier, "r" | "g" | "b" | "a" | "2d" | "v4") || RESULTS.contains(modifier)
        };
        let is_plane = instruction.has("2d") && instruction.modifiers.iter().all(is_known);
        let (target, place) = match instruction.operands.as_slice() {
            [target, Operand::Bracket(place)] if is_plane => (target, place),
            _ => return refuse(instruction, "a gather other than `.2d` without offsets"),
        };
        let [Operand::Name(handle), _] = place.as_slice() else {
            return refuse(instruction, "a separate sampler");
        };
        self.use_object(instruction, (1, handle), ObjectUse::Gather, [NO; 2])?;
        self.clobber(target);
        Ok(())
    }

    /// `txq.property.b32 d, [handle]`
    fn query(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let property = match instruction.modifiers.as_slice() {
            [property, "b32"] => Property::parse(property),
            _ => None,
        };
        let of_surface = instruction.opcode == "suq";
        let property = property.filter(|it| !of_surface || *it != Property::Levels);
        let (Some(property), [target, Operand::Address(Base::Name(handle), 0)]) =
            (property, instruction.operands.as_slice())
        else {
            return refuse(instruction, "an unknown form");
        };
        let object = match of_surface {
            true => ObjectUse::QuerySurface(property),
            false => ObjectUse::QueryTexture(property),
        };
        self.use_object(instruction, (1, handle), object, [NO; 2])?;
        self.clobber(target);
        Ok(())
    }

    /// `suld.b d, [handle, coordinates]`, `sust.b [handle, coordinates], a`, and `sured.b` alike.
    fn surface(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let form = SurfaceForm::parse(instruction)?;
        let is_write = instruction.opcode != "suld";
        let (operand, place) = match (instruction.operands.as_slice(), is_write) {
            ([_, Operand::Bracket(place)], false) => (1, place),
            ([Operand::Bracket(place), _], true) => (0, place),
            _ => return refuse(instruction, "an unknown form"),
        };
        let [Operand::Name(handle), coordinates] = place.as_slice() else {
            return refuse(instruction, "an unknown form");
        };
        let (count, in_bytes) = form.coordinates();
        let coordinates = elements(coordinates);
        let (true, Some(x)) = (coordinates.len() == count, coordinates.get(in_bytes)) else {
            return refuse(instruction, "an unknown number of coordinates");
        };
        let x = self.source(x, 32);
        // The layer comes first. It is compared in every mode, so it must be defined.
        let layer = match coordinates.first() {
            Some(layer) if in_bytes == 1 => self.source(layer, 32),
            _ => NO,
        };
        let object = ObjectUse::Surface {
            shape: form.shape,
            mode: form.mode,
            size: form.size,
            is_write,
        };
        self.use_object(instruction, (operand, handle), object, [x, layer])?;
        if let (false, Some(target)) = (is_write, instruction.operands.first()) {
            self.clobber(target);
        }
        Ok(())
    }
}
