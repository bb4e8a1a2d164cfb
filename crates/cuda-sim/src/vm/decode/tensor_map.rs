//! Changes of tensor maps: `tensormap.replace`, `tensormap.cp_fenceproxy`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::matrix::aligned;
use super::{Decoded, invalid, unsupported};
use crate::vm::address::SHARED;
use crate::vm::code::Kind;
use crate::vm::lanes::memory_fn;
use crate::vm::tensor_map::{BYTES, MAX_RANK, Swizzle};
use crate::vm::tensor_replace::{CopyMap, Field, ReplaceField, element};
use cuda_ptx::{Literal, Operand};

/// The fields of a map, sorted by the operands of an instruction.
const FIELDS: [&str; 11] = [
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "fill_mode",
    "swizzle_atomicity",
];

/// The value of an operand that must be an immediate.
fn immediate(operand: &Operand<'_>) -> Decoded<u64> {
    match operand {
        Operand::Literal(Literal::Int(value)) => Ok(*value),
        _ => invalid("Immediate operand expected for instruction 'tensormap'"),
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `tensormap`.
    pub(super) fn tensor_map(&mut self, form: &mut Form<'a>) -> Decoded {
        match form.one_of(&["replace", "cp_fenceproxy"]) {
            Some("replace") => self.replace_field(form),
            Some(_) => self.copy_map(form),
            None => unsupported(""),
        }
    }

    fn replace_field(&mut self, form: &mut Form<'a>) -> Decoded {
        if !form.flag("tile") || !form.flag("b1024") {
            return unsupported("this mode");
        }
        let tag = match form.one_of(&["global", "shared::cta"]) {
            Some("shared::cta") => SHARED,
            _ => 0,
        };
        let Some(name) = form.one_of(&FIELDS) else {
            return unsupported("this field");
        };
        let ty = form.ty()?;
        let is_wide = matches!(name, "global_address" | "global_stride");
        if ty != if is_wide { Ty::B64 } else { Ty::B32 } {
            return invalid(format!(
                "Unexpected type of field '.{name}' for instruction 'tensormap.replace'"
            ));
        }
        let dimensions = match name {
            "box_dim" | "global_dim" | "element_stride" => MAX_RANK,
            "global_stride" => MAX_RANK - 1,
            _ => 0,
        };
        let (map, dimension, value) = match form.operands {
            [map, dimension, value] if dimensions > 0 => (map, immediate(dimension)?, value),
            [map, value] if dimensions == 0 => (map, 0, value),
            _ => return invalid("Arguments mismatch for instruction 'tensormap.replace'"),
        };
        if dimensions > 0 && dimension >= dimensions as u64 {
            return invalid(format!(
                "The ordinal of field '.{name}' of 'tensormap.replace' must be 0 to {}",
                dimensions - 1
            ));
        }
        form.done()?;
        let dimension = dimension as usize;
        let field = match name {
            "global_address" => Field::GlobalAddress,
            "rank" => Field::Rank,
            "box_dim" => Field::BoxDim(dimension),
            "global_dim" => Field::GlobalDim(dimension),
            "global_stride" => Field::GlobalStride(dimension),
            "element_stride" => Field::ElementStride(dimension),
            "elemtype" => match element(immediate(value)?) {
                Some(_) => Field::ElementType,
                None => return unsupported("this element type"),
            },
            "swizzle_mode" => match u32::try_from(immediate(value)?).map(Swizzle::of_number) {
                Ok(Some(_)) => Field::SwizzleMode,
                _ => return unsupported("this swizzle mode"),
            },
            // Other values than the first are not implemented, so there is nothing to set.
            other => {
                if immediate(value)? != 0 {
                    return unsupported(format!("this value of `.{other}`"));
                }
                self.emit(Kind::Nop, 0, 0, 0, 0, 0);
                return Ok(());
            }
        };
        let a = self.whole_address(map, tag)?;
        let b = self.source(value, Ty::U64)?;
        let kind = Kind::Memory(memory_fn::<ReplaceField>(self.wide()));
        self.emit(kind, 0, a, b, 0, field.number());
        Ok(())
    }

    fn copy_map(&mut self, form: &mut Form<'a>) -> Decoded {
        aligned(form)?;
        if !form.flag("global") || !form.flag("shared::cta") || !form.flag("tensormap::generic") {
            return unsupported("these state spaces");
        }
        if !form.flag("release") || form.one_of(&["cta", "cluster", "gpu", "sys"]).is_none() {
            return unsupported("this ordering");
        }
        form.arity(3)?;
        form.done()?;
        if immediate(&form.operands[2])? != BYTES as u64 {
            return invalid("The size of 'tensormap.cp_fenceproxy' must be 128");
        }
        let a = self.whole_address(&form.operands[0], 0)?;
        let b = self.whole_address(&form.operands[1], SHARED)?;
        let kind = Kind::Converged(memory_fn::<CopyMap>(self.wide()));
        self.emit(kind, 0, a, b, 0, 0);
        self.fence();
        Ok(())
    }
}
