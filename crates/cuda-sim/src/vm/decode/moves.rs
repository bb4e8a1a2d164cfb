//! `mov`, including packing and unpacking of vectors.

use super::form::{Class, Form, Ty};
use super::function::{FunctionDecoder, Name, Width};
use super::{Decoded, invalid, unsupported};
use crate::vm::code::Slot;
use crate::vm::lanes::lanes;
use crate::vm::special;
use crate::vm::vector::{Over, each};
use cuda_ptx::Operand;

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn mov(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        let count = Self::vector(form);
        form.arity(2)?;
        if count > 1 {
            return self.move_elements(form, ty, count);
        }
        match (&form.operands[0], &form.operands[1]) {
            (Operand::Vector(parts), from) => return self.unpack(parts, from, ty),
            (to, Operand::Vector(parts)) => return self.pack(to, parts, ty),
            _ => {}
        }
        let wide = self.wide();
        if ty.class == Class::Pred {
            let a = self.predicate(&form.operands[1])?;
            let (d, _) = self.dest(&form.operands[0], ty)?;
            let kind = lanes!(wide, with w, i, m {
                let value = w.get_pred(i.a);
                w.put_pred(i.d, m, value);
            });
            self.emit(kind, d, a, 0, 0, 0);
            return Ok(());
        }
        if ty.bits == 128 {
            return self.mov128(form);
        }
        let found = match &form.operands[1] {
            // A declaration hides the special register of the same name.
            Operand::Name(name) | Operand::Member(name, _) if self.is_declared(name) => None,
            Operand::Name(name) => special::parse(name, ""),
            Operand::Member(name, member) => special::parse(name, member),
            _ => None,
        };
        if let Some(special) = found {
            let (d, widen) = self.dest(&form.operands[0], ty)?;
            self.read_special(special, ty.bits == 64, d);
            self.finish(widen);
            return Ok(());
        }
        let kind = if ty.width() == 64 {
            lanes!(wide, |a: u64| -> u64 { a })
        } else {
            lanes!(wide, |a: u32| -> u32 { a })
        };
        self.emit_plain(form, kind, ty, &[ty])
    }

    /// Decodes `mov.v2` and `mov.v4`, which copy each element.
    fn move_elements(&mut self, form: &Form<'a>, ty: Ty, count: usize) -> Decoded {
        if ty.class == Class::Pred || ty.width() > 64 {
            return unsupported("this type");
        }
        // A destination may be a source, so copy into temporaries first.
        let mut slots = Vec::new();
        for element in self.elements(&form.operands[1], count)?.iter() {
            let from = self.source(element, ty)?;
            slots.push(self.copied(from, ty.width() == 64));
        }
        let targets = self.elements(&form.operands[0], count)?;
        for (element, from) in targets.iter().zip(slots) {
            let (d, widen) = self.dest(element, ty)?;
            let kind = if ty.width() == 64 {
                lanes!(self.wide(), |a: u64| -> u64 { a })
            } else {
                lanes!(self.wide(), |a: u32| -> u32 { a })
            };
            self.emit(kind, d, from, 0, 0, 0);
            self.finish(widen);
        }
        Ok(())
    }

    fn halves(&self, operand: &Operand<'a>) -> Decoded<Slot> {
        if let Operand::Name(name) = operand
            && let Name::Reg(reg) = self.named(name)?
            && reg.width == Width::W128
        {
            return Ok(reg.slot);
        }
        unsupported("a 128-bit operand")
    }

    fn mov128(&mut self, form: &Form<'a>) -> Decoded {
        let (to, from) = (
            self.halves(&form.operands[0])?,
            self.halves(&form.operands[1])?,
        );
        for half in 0..2 {
            let kind = lanes!(self.wide(), |a: u64| -> u64 { a });
            self.emit(kind, to + half, from + half, 0, 0, 0);
        }
        Ok(())
    }

    /// Decodes `mov.b64 {a, b}, c`.
    fn unpack(&mut self, parts: &[Operand<'a>], from: &Operand<'a>, ty: Ty) -> Decoded {
        let wide = self.wide();
        if ty.bits == 128 {
            let from = self.halves(from)?;
            for (part, half) in parts.iter().zip(0..2) {
                let (d, _) = self.dest(part, Ty::B64)?;
                let kind = lanes!(wide, |a: u64| -> u64 { a });
                self.emit(kind, d, from + half, 0, 0, 0);
            }
            return Ok(());
        }
        if parts.is_empty() || !(ty.width() as usize).is_multiple_of(parts.len()) {
            return invalid("Bad vector size");
        }
        let bits = ty.width() / parts.len() as u32;
        let from = self.source(from, Ty::new(Class::Bits, ty.width()))?;
        // A destination may be the source, so unpack into temporaries first.
        let mut slots = Vec::new();
        for index in 0..parts.len() as u32 {
            let part = self.temp32();
            let kind = match (ty.width(), bits) {
                (64, 32) => lanes!(wide, with w, i, m {
                    let value = w.get64(i.a).over(|a| (a >> i.imm) as u32);
                    w.put32(i.d, m, &value);
                }),
                (64, 16) => lanes!(wide, with w, i, m {
                    let value = w.get64(i.a).over(|a| (a >> i.imm) as u32 & 0xffff);
                    w.put32(i.d, m, &value);
                }),
                (32, 16) => lanes!(wide, with w, i, m {
                    let value = w.get32(i.a).over(|a| a >> i.imm & 0xffff);
                    w.put32(i.d, m, &value);
                }),
                (16 | 32, 8) => lanes!(wide, with w, i, m {
                    let value = w.get32(i.a).over(|a| a >> i.imm & 0xff);
                    w.put32(i.d, m, &value);
                }),
                _ => return unsupported("this vector size"),
            };
            self.emit(kind, part, from, 0, 0, u64::from(index * bits));
            slots.push(part);
        }
        for (part, slot) in parts.iter().zip(slots) {
            let (d, _) = self.dest(part, Ty::new(Class::Bits, bits))?;
            let kind = lanes!(wide, |a: u32| -> u32 { a });
            self.emit(kind, d, slot, 0, 0, 0);
        }
        Ok(())
    }

    /// Decodes `mov.b64 c, {a, b}`.
    fn pack(&mut self, to: &Operand<'a>, parts: &[Operand<'a>], ty: Ty) -> Decoded {
        let wide = self.wide();
        if ty.bits == 128 {
            let to = self.halves(to)?;
            let mut slots = Vec::new();
            for part in parts {
                slots.push(self.source(part, Ty::B64)?);
            }
            for (slot, half) in slots.into_iter().zip(0..2) {
                let kind = lanes!(wide, |a: u64| -> u64 { a });
                self.emit(kind, to + half, slot, 0, 0, 0);
            }
            return Ok(());
        }
        if parts.is_empty() || !(ty.width() as usize).is_multiple_of(parts.len()) {
            return invalid("Bad vector size");
        }
        let bits = ty.width() / parts.len() as u32;
        if bits < 8 || (ty.width() == 64 && bits < 16) {
            return unsupported("this vector size");
        }
        let mut slots = Vec::new();
        for part in parts {
            slots.push(self.source(part, Ty::new(Class::Bits, bits))?);
        }
        let mut sum = self.const32(0);
        if ty.width() == 64 {
            sum = self.const64(0);
        }
        for (index, slot) in slots.into_iter().enumerate() {
            let next = if ty.width() == 64 {
                self.temp64()
            } else {
                self.temp32()
            };
            let kind = if ty.width() == 64 {
                lanes!(wide, with w, i, m {
                    let (a, b) = (w.get64(i.a), w.get32(i.b));
                    let value = each(|lane| a[lane] | u64::from(b[lane]) << i.imm);
                    w.put64(i.d, m, &value);
                })
            } else {
                lanes!(wide, with w, i, m {
                    let (a, b) = (w.get32(i.a), w.get32(i.b));
                    let value = each(|lane| a[lane] | b[lane] << i.imm);
                    w.put32(i.d, m, &value);
                })
            };
            self.emit(kind, next, sum, slot, 0, u64::from(index as u32 * bits));
            sum = next;
        }
        let (d, _) = self.dest(to, Ty::new(Class::Bits, ty.width()))?;
        let kind = if ty.width() == 64 {
            lanes!(wide, |a: u64| -> u64 { a })
        } else {
            lanes!(wide, |a: u32| -> u32 { a })
        };
        self.emit(kind, d, sum, 0, 0, 0);
        Ok(())
    }
}
