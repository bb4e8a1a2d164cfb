//! Bulk copies of tensors: `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`.

use super::bulk::{Completion, without_policy};
use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, unsupported};
use crate::vm::address::SHARED;
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::memory_fn;
use crate::vm::sync::NOWHERE;
use crate::vm::tensor::{CopyTensor, Direction, IMAGES, OPERATIONS};
use cuda_ptx::{Base, Operand};

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn tensor(&mut self, form: &mut Form<'a>, reduces: bool) -> Decoded {
        let rank = match form.one_of(&["1d", "2d", "3d", "4d", "5d"]) {
            Some("1d") => 1,
            Some("2d") => 2,
            Some("3d") => 3,
            Some("4d") => 4,
            Some(_) => 5,
            None => return unsupported("without a number of dimensions"),
        };
        // Other modes stay among the modifiers and are rejected there.
        let mode = form.one_of(&["tile", "im2col", "im2col_no_offs"]);
        let has_offsets = mode == Some("im2col");
        let is_of_images = has_offsets || mode == Some("im2col_no_offs");
        if is_of_images && rank < 3 {
            return unsupported(format!("images of {rank} dimensions"));
        }
        if form.flag("prefetch") {
            if !form.flag("L2") || !form.flag("global") || is_of_images != has_offsets {
                return unsupported("these state spaces");
            }
            let operands = without_policy(form);
            form.done()?;
            return match operands {
                [_] if !has_offsets => Ok(()),
                [_, Operand::Vector(offsets)] if has_offsets && offsets.len() + 2 == rank => Ok(()),
                _ => unsupported("these operands"),
            };
        }
        let loads = match form.one_of(&["global", "shared::cta", "shared::cluster"]) {
            Some("global") => {
                if !form.flag("shared::cta") {
                    return unsupported("these state spaces");
                }
                false
            }
            Some(_) if form.flag("global") => true,
            _ => return unsupported("these state spaces"),
        };
        let expected = if loads {
            Completion::Barrier
        } else {
            Completion::Group
        };
        if Completion::take(form)? != expected {
            return unsupported("this completion mechanism");
        }
        let direction = match (loads, reduces) {
            (true, false) => Direction::Load,
            (false, false) => Direction::Store,
            (false, true) => {
                let name = form.one_of(&OPERATIONS);
                match OPERATIONS.iter().position(|&other| Some(other) == name) {
                    Some(number) => Direction::Reduce(number as u64),
                    None => return unsupported("this operation"),
                }
            }
            (true, true) => return unsupported("these state spaces"),
        };
        if is_of_images && loads != has_offsets {
            return unsupported("this mode");
        }
        let is_multicast = loads && form.flag("multicast::cluster");
        let operands = without_policy(form);
        form.done()?;
        let (operands, offsets) = match operands {
            [shared, tensor, barrier, Operand::Vector(offsets), mask @ ..] if has_offsets => {
                let mut rest = vec![shared, tensor, barrier];
                rest.extend(mask);
                (rest, &offsets[..])
            }
            _ if has_offsets => return unsupported("offsets"),
            all => (all.iter().collect(), &[][..]),
        };
        let (shared, tensor, barrier, mask) = match (loads, is_multicast, &operands[..]) {
            (true, false, [shared, tensor, barrier]) => (shared, tensor, Some(barrier), None),
            (true, true, [shared, tensor, barrier, mask]) => {
                (shared, tensor, Some(barrier), Some(mask))
            }
            (false, _, [tensor, shared]) => (shared, tensor, None, None),
            _ => return unsupported("these operands"),
        };
        let (map, mut slots) = self.tensor_place(tensor, rank)?;
        if has_offsets && offsets.len() + 2 != rank {
            return super::invalid("Bad vector size");
        }
        for offset in offsets {
            slots.push(self.source(offset, Ty::new(Class::Bits, 16))?);
        }
        let list = self.list(slots);
        let a = self.whole_address(shared, SHARED)?;
        let e = match barrier {
            Some(barrier) => self.whole_address(barrier, SHARED)?,
            None => NOWHERE,
        };
        let d = match mask {
            Some(mask) => self.source(mask, Ty::new(Class::Bits, 16))?,
            None => NOWHERE,
        };
        let kind = Kind::Memory(memory_fn::<CopyTensor>(self.wide()));
        let images = if is_of_images { IMAGES } else { 0 };
        self.emit(kind, d, a, map, 0, list | direction.number() << 32 | images);
        self.last_source(e);
        Ok(())
    }

    /// Decodes `[map, {x, y}]`: the address of the map, and the coordinates.
    fn tensor_place(&mut self, operand: &Operand<'a>, rank: usize) -> Decoded<(Slot, Vec<Slot>)> {
        let Operand::Bracket(parts) = operand else {
            return unsupported("this address of a tensor");
        };
        let [map, Operand::Vector(coordinates)] = &parts[..] else {
            return unsupported("this address of a tensor");
        };
        if coordinates.len() != rank {
            return super::invalid("Bad vector size");
        }
        let map = match map {
            Operand::Name(name) => Operand::Address(Base::Name(name), 0),
            Operand::Offset(name, offset) => Operand::Address(Base::Name(name), *offset),
            _ => return unsupported("this address of a tensor"),
        };
        let map = self.whole_address(&map, 0)?;
        let mut slots = Vec::new();
        for coordinate in coordinates {
            slots.push(self.source(coordinate, Ty::new(Class::Signed, 32))?);
        }
        Ok((map, slots))
    }
}
