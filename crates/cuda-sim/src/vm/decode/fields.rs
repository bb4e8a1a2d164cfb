//! Integer instructions on bit fields: funnel shifts, permutes, lookups, dot products.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, invalid, unsupported};
use crate::vm::lanes::{Bit, lanes};
use crate::vm::vector::each;
use cuda_ptx::{Literal, Operand};

/// The number of parts into which an instruction divides a register of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    Two,
    Four,
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `shf`.
    pub(super) fn funnel_shift(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let left = form.flag("l");
        if !left && !form.flag("r") {
            return unsupported("without `.l` or `.r`");
        }
        let clamps = form.flag("clamp");
        if !clamps && !form.flag("wrap") {
            return unsupported("without `.clamp` or `.wrap`");
        }
        let kind = match (left, clamps) {
            (true, true) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                ((join(a, b) << c.min(32)) >> 32) as u32
            }),
            (true, false) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                ((join(a, b) << (c & 31)) >> 32) as u32
            }),
            (false, true) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                (join(a, b) >> c.min(32)) as u32
            }),
            (false, false) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                (join(a, b) >> (c & 31)) as u32
            }),
        };
        self.emit_plain(form, kind, ty, &[ty, ty, Ty::U32])
    }

    /// Decodes `bfe`.
    pub(super) fn extract_field(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let kind = match (ty.signed(), ty.bits) {
            (false, 32) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                field(a.into(), b, c, 32, false) as u32
            }),
            (true, 32) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                field(a.into(), b, c, 32, true) as u32
            }),
            (false, 64) => lanes!(wide, |a: u64, b: u32, c: u32| -> u64 {
                field(a, b, c, 64, false)
            }),
            (true, 64) => lanes!(wide, |a: u64, b: u32, c: u32| -> u64 {
                field(a, b, c, 64, true)
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &[ty, Ty::U32, Ty::U32])
    }

    /// Decodes `bfi`.
    pub(super) fn insert_field(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        // The fourth source is in `imm`.
        let kind = match ty.bits {
            32 => lanes!(wide, with w, i, m {
                let (a, b) = (w.get32(i.a), w.get32(i.b));
                let (c, d) = (w.get32(i.c), w.get32(i.imm as u32));
                let value = each(|lane| {
                    insert(a[lane].into(), b[lane].into(), c[lane], d[lane], 32) as u32
                });
                w.put32(i.d, m, &value);
            }),
            64 => lanes!(wide, with w, i, m {
                let (a, b) = (w.get64(i.a), w.get64(i.b));
                let (c, d) = (w.get32(i.c), w.get32(i.imm as u32));
                let value = each(|lane| {
                    insert(a[lane], b[lane], c[lane], d[lane], 64)
                });
                w.put64(i.d, m, &value);
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &[ty, ty, Ty::U32, Ty::U32])
    }

    /// Decodes `bmsk`.
    pub(super) fn make_mask(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let kind = if form.flag("clamp") {
            lanes!(wide, |a: u32, b: u32| -> u32 { mask(a.min(32), b.min(32)) })
        } else if form.flag("wrap") {
            lanes!(wide, |a: u32, b: u32| -> u32 { mask(a & 31, b & 31) })
        } else {
            return unsupported("without `.clamp` or `.wrap`");
        };
        self.emit_plain(form, kind, ty, &[ty, ty])
    }

    /// Decodes `szext`.
    pub(super) fn sign_extend(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let clamps = form.flag("clamp");
        if !clamps && !form.flag("wrap") {
            return unsupported("without `.clamp` or `.wrap`");
        }
        let kind = match (ty.signed(), clamps) {
            (true, true) => lanes!(wide, |a: u32, b: u32| -> u32 {
                field(a.into(), 0, b.min(32), 32, true) as u32
            }),
            (true, false) => lanes!(wide, |a: u32, b: u32| -> u32 {
                field(a.into(), 0, b & 31, 32, true) as u32
            }),
            (false, true) => {
                lanes!(wide, |a: u32, b: u32| -> u32 { a & mask(0, b.min(32)) })
            }
            (false, false) => lanes!(wide, |a: u32, b: u32| -> u32 { a & mask(0, b & 31) }),
        };
        self.emit_plain(form, kind, ty, &[ty, Ty::U32])
    }

    /// Decodes `fns`.
    pub(super) fn find_nth_bit(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let kind = lanes!(wide, |a: u32, b: u32, c: i32| -> u32 { find_nth(a, b, c) });
        self.emit_plain(
            form,
            kind,
            ty,
            &[Ty::B32, Ty::U32, Ty::new(Class::Signed, 32)],
        )
    }

    /// Decodes `prmt`.
    pub(super) fn permute(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let mode = form.one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
        let kind = match mode {
            None => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 { permute(a, b, c) }),
            Some("f4e") => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                let c = c & 3;
                permute(a, b, 0x3210 + c * 0x1111)
            }),
            Some("b4e") => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                let select = [0x5670, 0x6701, 0x7012, 0x0123];
                permute(a, b, select[(c & 3) as usize])
            }),
            Some("rc8") => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                permute(a, b, (c & 3) * 0x1111)
            }),
            Some("ecl") => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                let select = [0x3210, 0x3211, 0x3222, 0x3333];
                permute(a, b, select[(c & 3) as usize])
            }),
            Some("ecr") => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                let select = [0x0000, 0x1110, 0x2210, 0x3210];
                permute(a, b, select[(c & 3) as usize])
            }),
            _ => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                let select = [0x1010, 0x3232, 0x1010, 0x3232];
                permute(a, b, select[(c & 3) as usize])
            }),
        };
        self.emit_plain(form, kind, ty, &[ty; 3])
    }

    /// Decodes `lop3`.
    pub(super) fn lop3(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        let combine = form.one_of(&["or", "and"]);
        form.arity(if combine.is_some() { 6 } else { 5 })?;
        let Operand::Literal(Literal::Int(table)) = form.operands[4] else {
            return invalid("The lookup table of lop3 is not a constant");
        };
        let [a, b, c] = self.sources(&form.operands[1..4], ty)?;
        let (to, flag) = match (&form.operands[0], combine) {
            (Operand::Pair(pair), Some(combine)) => {
                let q = self.source(&form.operands[5], Ty::PRED)?;
                let p = self.dest(&pair.1, Ty::PRED)?.0;
                (&pair.0, Some((combine, p, q)))
            }
            (to, None) => (to, None),
            _ => return invalid("Arguments mismatch for instruction 'lop3'"),
        };
        let (d, widen) = self.dest(to, ty)?;
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
            let term = |bit: u32| (i.imm >> bit & 1) as u32;
            let on: [u32; 8] = std::array::from_fn(|bit| term(bit as u32).wrapping_neg());
            let value = each(|lane| {
                let (a, b, c) = (a[lane], b[lane], c[lane]);
                (on[0] & !a & !b & !c) | (on[1] & !a & !b & c) | (on[2] & !a & b & !c)
                    | (on[3] & !a & b & c) | (on[4] & a & !b & !c) | (on[5] & a & !b & c)
                    | (on[6] & a & b & !c) | (on[7] & a & b & c)
            });
            w.put32(i.d, m, &value);
        });
        self.emit(kind, d, a, b, c, table);
        if let Some((combine, p, q)) = flag {
            // Whether a bit is set, combined with `q`.
            let kind = if combine == "or" {
                lanes!(self.wide(), |a: u32, b: Bit| -> Bit { Bit(a != 0 || b.0) })
            } else {
                lanes!(self.wide(), |a: u32, b: Bit| -> Bit { Bit(a != 0 && b.0) })
            };
            self.emit(kind, p, d, q, 0, 0);
        }
        self.finish(widen);
        Ok(())
    }

    /// Decodes `dp2a` and `dp4a`: `parts` is the number of products.
    pub(super) fn dot(&mut self, form: &mut Form<'a>, parts: Parts) -> Decoded {
        let wide = self.wide();
        let second = form.ty()?;
        let first = form.ty()?;
        let upper = parts == Parts::Two && form.flag("hi");
        if parts == Parts::Two && !upper && !form.flag("lo") {
            return unsupported("without `.lo` or `.hi`");
        }
        let to = match first.signed() || second.signed() {
            true => Ty::new(Class::Signed, 32),
            false => Ty::U32,
        };
        let kind = lanes!(wide, with w, i, m {
            let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
            let value = each(|lane| dot(a[lane], b[lane], c[lane], i.imm));
            w.put32(i.d, m, &value);
        });
        let imm = u64::from(first.signed())
            | u64::from(second.signed()) << 1
            | u64::from(parts == Parts::Two) << 2
            | u64::from(upper) << 3;
        form.arity(4)?;
        let [a, b, c] = self.sources(&form.operands[1..4], Ty::B32)?;
        let (d, widen) = self.dest(&form.operands[0], to)?;
        self.emit(kind, d, a, b, c, imm);
        self.finish(widen);
        Ok(())
    }

    /// Decodes `vabsdiff2` and `vabsdiff4`: the absolute difference of each of two halves or four
    /// bytes, or with `.add` their sum.
    pub(super) fn differences(&mut self, form: &mut Form<'a>, parts: Parts) -> Decoded {
        let is_sum = form.flag("add");
        let (second, first, to) = (form.ty()?, form.ty()?, form.ty()?);
        if first.signed() != second.signed() {
            return unsupported("these types");
        }
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
            let value = each(|lane| differences(a[lane], b[lane], c[lane], i.imm));
            w.put32(i.d, m, &value);
        });
        let imm = u64::from(first.signed())
            | u64::from(is_sum) << 1
            | u64::from(parts == Parts::Two) << 2;
        form.arity(4)?;
        let [a, b, c] = self.sources(&form.operands[1..4], Ty::B32)?;
        let (d, widen) = self.dest(&form.operands[0], to)?;
        self.emit(kind, d, a, b, c, imm);
        self.finish(widen);
        Ok(())
    }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `len` ones, starting at bit `start`.
fn mask(start: u32, len: u32) -> u32 {
    let ones = ((1u64 << len) - 1) as u32;
    if start > 31 { 0 } else { ones << start }
}

fn field(a: u64, pos: u32, len: u32, width: u32, signed: bool) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if len == 0 {
        return 0;
    }
    let a = if signed && width == 32 {
        a as u32 as i32 as i64 as u64
    } else {
        a
    };
    let top = (pos + len - 1).min(width - 1);
    let sign = signed && a >> top & 1 != 0;
    let shifted = if pos >= width { 0 } else { a >> pos };
    let kept = if pos >= width { 0 } else { top + 1 - pos };
    let low = if kept >= 64 {
        u64::MAX
    } else {
        (1 << kept) - 1
    };
    if sign {
        shifted & low | !low
    } else {
        shifted & low
    }
}

fn insert(a: u64, b: u64, pos: u32, len: u32, width: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if pos >= width || len == 0 {
        return b;
    }
    let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let field = ones << pos;
    b & !field | a << pos & field
}

fn permute(a: u32, b: u32, select: u32) -> u32 {
    let bytes = join(a, b).to_le_bytes();
    let chosen = std::array::from_fn(|index| {
        let nibble = select >> (index * 4);
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 != 0 {
            (byte as i8 >> 7) as u8
        } else {
            byte
        }
    });
    u32::from_le_bytes(chosen)
}

fn find_nth(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |bit: &u32| mask >> bit & 1 != 0;
    let base = base & 31;
    let found = match offset {
        0 => return if set(&base) { base } else { u32::MAX },
        1.. => (base..32).filter(set).nth(offset as usize - 1),
        _ => (0..=base)
            .rev()
            .filter(set)
            .nth(offset.unsigned_abs() as usize - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// The bits of `flags`, lowest first: `a` is signed; `b` is signed; `a` consists of two halves
/// instead of four bytes; the upper bytes of `b` are used.
fn dot(a: u32, b: u32, c: u32, flags: u64) -> u32 {
    let byte = |value: u8, signed: bool| match signed {
        true => i64::from(value as i8),
        false => i64::from(value),
    };
    let bytes = b.to_le_bytes();
    let mut sum = i64::from(c);
    if flags & 4 != 0 {
        for index in 0..2 {
            let half = (a >> (index * 16)) as u16;
            let half = if flags & 1 != 0 {
                i64::from(half as i16)
            } else {
                i64::from(half)
            };
            let from = index as usize + if flags & 8 != 0 { 2 } else { 0 };
            sum += half * byte(bytes[from], flags & 2 != 0);
        }
    } else {
        for (a, b) in a.to_le_bytes().into_iter().zip(bytes) {
            sum += byte(a, flags & 1 != 0) * byte(b, flags & 2 != 0);
        }
    }
    sum as u32
}

/// The bits of `flags`, lowest first: the fields are signed; the result is their sum and `c`
/// instead of each field; the fields are halves instead of bytes.
fn differences(a: u32, b: u32, c: u32, flags: u64) -> u32 {
    let (signed, is_sum) = (flags & 1 != 0, flags & 2 != 0);
    let width = if flags & 4 != 0 { 16 } else { 8 };
    let field = |word: u32, at: u32| {
        let top = word << (32 - width - at);
        if signed {
            i64::from(top as i32 >> (32 - width))
        } else {
            i64::from(top >> (32 - width))
        }
    };
    let apart = |at| (field(a, at) - field(b, at)).unsigned_abs() as u32;
    let places = (0..32).step_by(width as usize);
    if is_sum {
        places.fold(c, |sum, at| sum.wrapping_add(apart(at)))
    } else {
        places.fold(0, |all, at| all | apart(at) << at)
    }
}
