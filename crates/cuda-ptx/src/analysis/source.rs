//! The sources of values: special registers, parameters, and addresses of variables.

use crate::ast::Space;
use crate::flow::{Axis, Source, Special, is_window};

use super::form::Form;
use super::known::Known;
use super::round::Round;
use super::symbols::Kind;

/// The largest address in the shared memory of a block. In a cluster, an address is
/// `rank << 24 | offset`, and a cluster has at most 16 blocks. This leaves room for 64.
const SHARED_END: i128 = (1 << 30) - 1;

/// The largest address in the local memory of a thread, of which there are at most 512 KiB, and in
/// constant and parameter memory.
const WINDOW_END: i128 = (1 << 31) - 1;

/// The largest address of a variable in a space whose addresses have 32 bits.
fn native_end(space: Space) -> i128 {
    match space {
        Space::Shared => SHARED_END,
        _ => WINDOW_END,
    }
}

impl Round<'_> {
    /// A source with `bits` bits, modulo 2^bits.
    pub(super) fn number(&mut self, source: Source, bits: u32) -> Option<Form> {
        let launch = self.launch;
        let index = |axis| match axis {
            Axis::X => 0,
            Axis::Y => 1,
            Axis::Z => 2,
        };
        let form = match source {
            Source::Value(value) => match self.read(value, &[self.block]) {
                Some(Known::Number(form)) if self.kernel.is_unstable[value as usize] => {
                    return self.used(form);
                }
                Some(Known::Number(form)) => return Some(form),
                _ => return None,
            },
            Source::Number(value) => Form::number(i128::from(value)),
            Source::Special(Special::Ctaid(axis)) if self.symbols.blocks(axis).is_some() => {
                let blocks = self.symbols.blocks(axis)?;
                Form::symbol(self.symbols.block_of(axis, blocks)?)
            }
            Source::Special(special) => {
                let (kind, count) = match special {
                    Special::Tid(axis) => (Kind::Tid(axis), launch.block[index(axis)]),
                    Special::Ctaid(axis) => (Kind::Ctaid(axis), launch.grid[index(axis)]),
                    Special::Ntid(axis) => {
                        return Some(Form::number(launch.block[index(axis)].into()));
                    }
                    Special::Nctaid(axis) => {
                        let blocks = Form::number(launch.grid[index(axis)].into());
                        let open = self.symbols.blocks(axis).map(Form::symbol);
                        return Some(open.unwrap_or(blocks));
                    }
                    Special::WarpSize => return Some(Form::number(32)),
                    Special::DynamicShared => {
                        return Some(Form::number(launch.dynamic_shared.into()));
                    }
                    // The entry block sets it: block 0.
                    Special::LaneId => (Kind::Opaque(0, 0, 31), 32),
                };
                let high = i128::from(count) - 1;
                if high == 0 {
                    return Some(Form::number(0));
                }
                Form::symbol(self.symbols.simple(kind, Some(0), Some(high), None)?)
            }
            Source::Address(var, offset) => {
                let space = self.kernel.vars.get(var as usize)?.space;
                let high = match is_window(space) {
                    true => native_end(space),
                    false => (1 << 64) - 1,
                };
                let kind = Kind::Variable(var, space == Space::Global);
                let symbol = self.symbols.simple(kind, Some(0), Some(high), None)?;
                let form = Form::symbol(symbol).plus(offset.into())?;
                // An address in a window has 32 bits: the sum wraps, and zeros extend it.
                match is_window(space) {
                    true => self.exact(&form, 32, false, &[])?,
                    false => form,
                }
            }
            Source::Unknown => return None,
        };
        Some(form.reduced(bits))
    }

    /// An address of a variable or buffer in another space, with the same offset. An address
    /// outside of a window has no counterpart.
    pub(super) fn converted(
        &mut self,
        form: Form,
        space: Space,
        to_space: bool,
        facts: &[Form],
    ) -> Option<Form> {
        let mut roots = form
            .terms()
            .iter()
            .filter(|term| self.symbols.is_root(term.0));
        let (&(root, by), None) = (roots.next()?, roots.next()) else {
            return None;
        };
        let kind = self.symbols.info(root).kind.clone();
        match kind {
            // Generic addresses of global memory are its addresses.
            Kind::Buffer(..) => (by == 1 && space == Space::Global).then_some(form),
            Kind::Variable(var, is_generic) => {
                let own = self.kernel.vars.get(var as usize)?.space;
                if by != 1 || own != space {
                    return None;
                }
                if space == Space::Global {
                    return Some(form);
                }
                let size = self.size_of(var)?;
                let offset = form.without(root);
                let prover = self.prover(facts);
                let is_inside =
                    prover.is_at_least(&offset, 0) && prover.is_at_most(&offset, size.into());
                if is_generic != to_space || !is_inside {
                    return None;
                }
                let high = if to_space {
                    native_end(space)
                } else {
                    (1 << 64) - 1
                };
                let kind = Kind::Variable(var, !to_space);
                let symbol = self.symbols.simple(kind, Some(0), Some(high), None)?;
                form.substitute(root, &Form::symbol(symbol))
            }
            _ => None,
        }
    }

    /// The size of a variable in this launch.
    pub(super) fn size_of(&self, var: u32) -> Option<u64> {
        let var = self.kernel.vars.get(var as usize)?;
        match var.is_dynamic {
            true => Some(self.launch.dynamic_shared.into()),
            false => var.size,
        }
    }

    pub(super) fn param(
        &mut self,
        param: u32,
        offset: u64,
        size: u32,
        signed: bool,
    ) -> Option<Form> {
        let argument = self.launch.arguments.get(param as usize)?;
        if size == 8 && argument.buffer_at(offset).is_some() {
            let (low, high) = (Some(1), Some((1 << 64) - 1));
            let root = self
                .symbols
                .simple(Kind::Buffer(param, offset), low, high, None)?;
            return Some(Form::symbol(root));
        }
        if (offset, size) == (0, 8) && argument.object.is_some() {
            let (low, high) = (Some(0), Some((1 << 64) - 1));
            let handle = self.symbols.simple(Kind::Object(param), low, high, None)?;
            return Some(Form::symbol(handle));
        }
        let (low, high) = argument.interval(offset, size)?;
        let (low, high) = (i128::from(low), i128::from(high));
        let bits = 8 * size;
        let kind = Kind::Scalar(param, offset, size);
        let symbol = self.symbols.simple(kind, Some(low), Some(high), None)?;
        if low != high {
            let value = argument.number(offset, size)?;
            self.symbols.add_reference(symbol, value.into());
        }
        // A range has no negative numbers.
        let is_negative = signed && low >> (bits - 1) != 0;
        Form::symbol(symbol).plus(if is_negative { -(1 << bits) } else { 0 })
    }
}
