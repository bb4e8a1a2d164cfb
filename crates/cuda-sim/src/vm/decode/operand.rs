//! Conversion of operands to slots.

use super::form::{Class, Ty};
use super::function::{FunctionDecoder, Name, Reg, Width};
use super::{Decoded, invalid, unsupported};
use crate::vm::address::{FUNCTION, LOCAL, NARROW, PARAM, SHARED, TAG_SHIFT};
use crate::vm::code::{CONST, Slot};
use crate::vm::lanes::lanes;
use crate::vm::program::{Fixup, Symbol};
use crate::vm::special;
use cuda_ptx::{Base, Literal, Operand};

/// The meaning of a symbol inside a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sym {
    Global(usize),
    Function(usize),
    /// An offset in the kernel's own shared memory.
    Shared(u32),
    /// A shared variable that several kernels may use, at an offset that depends on the kernel.
    Common(usize),
    /// Dynamic shared memory, with the required alignment.
    DynamicShared(u64),
    /// An offset in the frame's local memory.
    Local(u32),
    /// An offset in the parameters of the kernel.
    Param(u32),
}

/// The conversion that must follow after an instruction has written a temporary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widen {
    to: Reg,
    from: Slot,
    ty: Ty,
}

impl<'a> FunctionDecoder<'a, '_> {
    /// The slot of a 32-bit constant.
    pub(super) fn const32(&mut self, value: u32) -> Slot {
        let consts = &mut self.out.program.consts32;
        let index = *self.out.index32.entry(value).or_insert_with(|| {
            consts.push(value);
            consts.len() as u32 - 1
        });
        index | CONST
    }

    /// The slot of a 64-bit constant.
    pub(super) fn const64(&mut self, value: u64) -> Slot {
        let consts = &mut self.out.program.consts64;
        let index = *self.out.index64.entry(value).or_insert_with(|| {
            consts.push(value);
            consts.len() as u32 - 1
        });
        index | CONST
    }

    fn address_const(&mut self, target: Symbol, offset: i64) -> Slot {
        let constant = self.out.program.consts64.len() as u32;
        self.out.program.consts64.push(0);
        self.out.program.fixups.push(Fixup {
            constant,
            target,
            offset,
        });
        constant | CONST
    }

    /// The bits of a number in the type `ty`.
    pub(super) fn literal(literal: Literal, ty: Ty) -> u64 {
        let bits = match (literal, ty.class, ty.bits) {
            (Literal::Int(value), Class::Float, 32) => (value as i64 as f32).to_bits().into(),
            (Literal::Int(value), Class::Float, 64) => (value as i64 as f64).to_bits(),
            (Literal::Int(value), ..) => value,
            // Also for an f64, of which `0f3f800000` is then the low half.
            (Literal::F32(bits), ..) => bits.into(),
            (Literal::F64(bits), Class::Float, 32) => {
                (f64::from_bits(bits) as f32).to_bits().into()
            }
            (Literal::F64(bits), ..) => bits,
        };
        match ty.width() {
            8 => bits & 0xff,
            16 => bits & 0xffff,
            32 => bits & 0xffff_ffff,
            _ => bits,
        }
    }

    /// The register or symbol that `name` refers to.
    pub(super) fn named(&self, name: &str) -> Decoded<Name> {
        match self.lookup(name) {
            Some(name) => Ok(name),
            None => invalid(format!("Unknown symbol '{name}'")),
        }
    }

    /// The slot of a source of type `ty`.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Ty) -> Decoded<Slot> {
        if ty.class == Class::Pred {
            return self.predicate(operand);
        }
        if ty.width() > 64 {
            return unsupported("a 128-bit operand");
        }
        let wide = ty.width() == 64;
        match operand {
            Operand::Literal(literal) => {
                let bits = Self::literal(*literal, ty);
                Ok(if wide {
                    self.const64(bits)
                } else {
                    self.const32(bits as u32)
                })
            }
            // A declaration hides the special register of the same name.
            Operand::Name(name) => match (self.lookup(name), special::parse(name, "")) {
                (Some(Name::Reg(reg)), _) => self.read(reg, ty),
                (Some(Name::Sym(sym)), _) => self.symbol(sym, 0, wide),
                (None, Some(special)) => self.special(special, ty),
                (None, None) => invalid(format!("Unknown symbol '{name}'")),
            },
            Operand::Offset(name, offset) => match self.named(name)? {
                Name::Sym(sym) => self.symbol(sym, *offset, wide),
                Name::Reg(_) => invalid(format!(
                    "'{name}{offset:+}' is not a valid operand: '{name}' is a register, and only a \
                     symbol can have an offset outside of brackets; add the offset with an \
                     instruction"
                )),
            },
            Operand::Element(name, index) => {
                let offset = self.element_offset(name, *index)?;
                match self.named(name)? {
                    Name::Sym(sym) => self.symbol(sym, offset, wide),
                    Name::Reg(_) => invalid(format!("Array indexing on non-array '{name}'")),
                }
            }
            Operand::Member(name, member) => {
                let is_hidden = self.is_declared(name);
                if let Some(special) = special::parse(name, member).filter(|_| !is_hidden) {
                    return self.special(special, ty);
                }
                match self.lookup_member(name, member) {
                    Some(reg) => self.read(reg, ty),
                    None => invalid(format!("Unknown symbol '{name}.{member}'")),
                }
            }
            Operand::Sink => unsupported("operand `_` as a source"),
            _ => unsupported("this form of operand"),
        }
    }

    /// The slots of `N` sources of one type.
    pub(super) fn sources<const N: usize>(
        &mut self,
        operands: &[Operand<'a>],
        ty: Ty,
    ) -> Decoded<[Slot; N]> {
        let mut slots = [0; N];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            *slot = self.source(operand, ty)?;
        }
        Ok(slots)
    }

    /// The slot of a register read as `ty`, truncated if the register is wider.
    fn read(&mut self, reg: Reg, ty: Ty) -> Decoded<Slot> {
        match (reg.width, ty.width()) {
            (Width::W32, ..=32) | (Width::W64, 64) => Ok(reg.slot),
            (Width::W64, _) => {
                let to = self.temp32();
                let kind = lanes!(self.wide(), |a: u64| -> u32 { a as u32 });
                self.emit(kind, to, reg.slot, 0, 0, 0);
                Ok(to)
            }
            (Width::W32, 64) => {
                let to = self.temp64();
                let kind = lanes!(self.wide(), |a: u32| -> u64 { u64::from(a) });
                self.emit(kind, to, reg.slot, 0, 0, 0);
                Ok(to)
            }
            _ => invalid("Arguments mismatch for instruction"),
        }
    }

    fn special(&mut self, special: &special::Special, ty: Ty) -> Decoded<Slot> {
        let wide = ty.width() == 64;
        let to = if wide { self.temp64() } else { self.temp32() };
        self.read_special(special, wide, to);
        Ok(to)
    }

    /// Emits an instruction that reads a special register into the slot `to`.
    pub(super) fn read_special(&mut self, special: &special::Special, wide: bool, to: Slot) {
        self.out.uses[self.index].reserved_shared |= special.is_in_reserved_shared();
        let kind = special::read(special, wide, self.wide());
        self.emit(kind, to, 0, 0, 0, 0);
    }

    /// The value of a symbol: an address in its own space.
    pub(super) fn symbol(&mut self, sym: Sym, offset: i64, wide: bool) -> Decoded<Slot> {
        let constant = |this: &mut Self, value: u64| {
            if wide {
                this.const64(value)
            } else {
                this.const32(value as u32)
            }
        };
        match sym {
            Sym::Shared(start) => Ok(constant(self, u64::from(start).wrapping_add_signed(offset))),
            Sym::Common(variable) => {
                if let Some(start) = self.common(variable)? {
                    return Ok(constant(self, u64::from(start).wrapping_add_signed(offset)));
                }
                let to = if wide { self.temp64() } else { self.temp32() };
                let kind = special::common_shared(wide);
                self.emit(kind, to, variable as u32, 0, 0, offset as u64);
                Ok(to)
            }
            Sym::Param(start) => Ok(constant(
                self,
                PARAM | u64::from(start).wrapping_add_signed(offset),
            )),
            Sym::Global(index) if wide => Ok(self.address_const(Symbol::Global(index), offset)),
            Sym::Function(index) if wide => Ok(self.const64(FUNCTION + index as u64)),
            Sym::Global(_) | Sym::Function(_) => unsupported("a 32-bit address"),
            Sym::DynamicShared(align) => {
                let uses = &mut self.out.uses[self.index];
                uses.dynamic_align = uses.dynamic_align.max(align);
                let to = if wide { self.temp64() } else { self.temp32() };
                self.emit(special::dynamic_shared(wide), to, 0, 0, 0, offset as u64);
                Ok(to)
            }
            Sym::Local(start) => {
                let to = if wide { self.temp64() } else { self.temp32() };
                let imm = u64::from(start).wrapping_add_signed(offset);
                let kind = if wide {
                    lanes!(self.wide(), with w, i, m {
                        let value = u64::from(w.base.local).wrapping_add(i.imm);
                        w.put64(i.d, m, &[value; 32]);
                    })
                } else {
                    lanes!(self.wide(), with w, i, m {
                        let value = w.base.local.wrapping_add(i.imm as u32);
                        w.put32(i.d, m, &[value; 32]);
                    })
                };
                self.emit(kind, to, 0, 0, 0, imm);
                Ok(to)
            }
        }
    }

    /// The slot of a predicate as a source.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Decoded<Slot> {
        match operand {
            Operand::Name(name @ special::EXPLICIT_CLUSTER) if self.lookup(name).is_none() => {
                let to = self.temp_pred();
                self.emit(special::explicit_cluster(), to, 0, 0, 0, 0);
                Ok(to)
            }
            Operand::Name(name) => match self.named(name)? {
                Name::Reg(reg) if reg.width == Width::Pred => Ok(reg.slot),
                _ => invalid(format!("'{name}' is not a predicate")),
            },
            Operand::Literal(Literal::Int(value)) => Ok(CONST | u32::from(*value != 0)),
            Operand::Not(name) => match self.named(name)? {
                Name::Reg(reg) if reg.width == Width::Pred => {
                    let to = self.temp_pred();
                    let kind = lanes!(self.wide(), with w, i, m {
                        let value = !w.get_pred(i.a);
                        w.put_pred(i.d, m, value);
                    });
                    self.emit(kind, to, reg.slot, 0, 0, 0);
                    Ok(to)
                }
                _ => invalid(format!("'{name}' is not a predicate")),
            },
            _ => unsupported("this form of operand"),
        }
    }

    /// The slot of a destination of type `ty`; [`finish`](Self::finish) must follow the
    /// instruction.
    pub(super) fn dest(&mut self, operand: &Operand<'a>, ty: Ty) -> Decoded<(Slot, Option<Widen>)> {
        let reg = match operand {
            Operand::Sink => {
                let slot = match ty.width() {
                    1 => self.temp_pred(),
                    64 => self.temp64(),
                    _ => self.temp32(),
                };
                return Ok((slot, None));
            }
            Operand::Name(name) => match self.named(name)? {
                Name::Reg(reg) => reg,
                Name::Sym(_) => return invalid(format!("'{name}' is not a register")),
            },
            Operand::Member(name, member) => match self.lookup_member(name, member) {
                Some(reg) => reg,
                None => return invalid(format!("Unknown symbol '{name}.{member}'")),
            },
            _ => return unsupported("this form of operand"),
        };
        let fits = match (reg.width, ty.class, ty.width()) {
            (Width::Pred, Class::Pred, _) | (Width::W64, _, 64) => true,
            (Width::W32, class, ..=32) if class != Class::Pred => true,
            (Width::W64, class, ..=32) if class != Class::Pred => false,
            _ => return invalid("Arguments mismatch for instruction"),
        };
        // A signed value that is narrower than its register is sign-extended.
        if fits && (!ty.signed() || ty.bits >= reg.bits) {
            return Ok((reg.slot, None));
        }
        let from = self.temp32();
        Ok((from, Some(Widen { to: reg, from, ty })))
    }

    /// Extends the result of an instruction to a wider register.
    pub(super) fn finish(&mut self, widen: Option<Widen>) {
        let Some(Widen { to, from, ty }) = widen else {
            return;
        };
        let wide = self.wide();
        let kind = match (to.width, to.bits, ty.signed(), ty.bits) {
            (Width::W64, _, true, 8) => lanes!(wide, |a: i8| -> i64 { i64::from(a) }),
            (Width::W64, _, true, 16) => lanes!(wide, |a: i16| -> i64 { i64::from(a) }),
            (Width::W64, _, true, _) => lanes!(wide, |a: i32| -> i64 { i64::from(a) }),
            (Width::W64, ..) => lanes!(wide, |a: u32| -> u64 { u64::from(a) }),
            (_, 16, true, 8) => lanes!(wide, |a: i8| -> i16 { i16::from(a) }),
            (_, _, true, 8) => lanes!(wide, |a: i8| -> i32 { i32::from(a) }),
            (_, _, true, 16) => lanes!(wide, |a: i16| -> i32 { i32::from(a) }),
            _ => lanes!(wide, |a: u32| -> u32 { a }),
        };
        self.emit(kind, to.slot, from, 0, 0, 0);
    }

    /// The address that a load or store accesses: `g[3]` is an element, as `[g+12]` is.
    pub(super) fn accessed(&self, operand: &Operand<'a>) -> Decoded<Operand<'a>> {
        match operand {
            Operand::Element(name, index) => {
                let offset = self.element_offset(name, *index)?;
                Ok(Operand::Address(Base::Name(name), offset))
            }
            other => Ok(other.clone()),
        }
    }

    /// The base of an address: the slot, the offset and the bits for `Ins::c`.
    ///
    /// `tag` is the tag of the instruction's space; 0 for generic, global and constant memory.
    pub(super) fn address(&mut self, operand: &Operand<'a>, tag: u64) -> Decoded<(Slot, u64, u32)> {
        let Operand::Address(base, offset) = operand else {
            return unsupported("this form of address");
        };
        let bits = ((tag >> 56) as u32) << TAG_SHIFT;
        match base {
            Base::Absolute => Ok((self.const64(0), *offset as u64, bits)),
            Base::Name(name) => match self.named(name)? {
                Name::Reg(reg) => match reg.width {
                    Width::W64 => Ok((reg.slot, *offset as u64, bits)),
                    Width::W32 => Ok((reg.slot, *offset as u64, bits | NARROW)),
                    _ => invalid(format!(
                        "'{name}' is not an address: a register of 32 or 64 bits is required"
                    )),
                },
                Name::Sym(sym) => {
                    let own = match sym {
                        Sym::Local(_) => LOCAL,
                        Sym::Shared(_) | Sym::Common(_) | Sym::DynamicShared(_) => SHARED,
                        _ => 0,
                    };
                    let bits = ((own >> 56) as u32) << TAG_SHIFT;
                    let slot = self.symbol(sym, 0, true)?;
                    Ok((slot, *offset as u64, bits))
                }
            },
        }
    }
}
