//! Integer multiplication.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::integer::any;
use super::{Decoded, unsupported};
use crate::vm::code::Kind;
use crate::vm::lanes::lanes;

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `mul`, or `mad` if `adds`.
    pub(super) fn multiply(&mut self, form: &mut Form<'a>, ty: Ty, adds: bool) -> Decoded {
        let wide = self.wide();
        let Some(part) = form.one_of(&["lo", "hi", "wide"]) else {
            return unsupported("without `.lo`, `.hi` or `.wide`");
        };
        if part == "wide" {
            let to = Ty::new(ty.class, ty.bits * 2);
            let kind = match (ty.signed(), ty.bits, adds) {
                (true, 16, false) => {
                    lanes!(wide, |a: i16, b: i16| -> i32 {
                        i32::from(a) * i32::from(b)
                    })
                }
                (false, 16, false) => {
                    lanes!(wide, |a: u16, b: u16| -> u32 {
                        u32::from(a) * u32::from(b)
                    })
                }
                (true, 32, false) => {
                    lanes!(wide, |a: i32, b: i32| -> i64 {
                        i64::from(a) * i64::from(b)
                    })
                }
                (false, 32, false) => {
                    lanes!(wide, |a: u32, b: u32| -> u64 {
                        u64::from(a) * u64::from(b)
                    })
                }
                (true, 16, true) => lanes!(wide, |a: i16, b: i16, c: i32| -> i32 {
                    (i32::from(a) * i32::from(b)).wrapping_add(c)
                }),
                (false, 16, true) => lanes!(wide, |a: u16, b: u16, c: u32| -> u32 {
                    (u32::from(a) * u32::from(b)).wrapping_add(c)
                }),
                (true, 32, true) => lanes!(wide, |a: i32, b: i32, c: i64| -> i64 {
                    (i64::from(a) * i64::from(b)).wrapping_add(c)
                }),
                (false, 32, true) => lanes!(wide, |a: u32, b: u32, c: u64| -> u64 {
                    (u64::from(a) * u64::from(b)).wrapping_add(c)
                }),
                _ => return unsupported("this type"),
            };
            let from = [ty, ty, to];
            return self.emit_plain(form, kind, to, &from[..if adds { 3 } else { 2 }]);
        }
        if part == "lo" {
            if adds {
                let kind = any!(wide, ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
                return self.emit_plain(form, kind, ty, &[ty; 3]);
            }
            let kind = any!(wide, ty, |a, b| a.wrapping_mul(b));
            return self.emit_plain(form, kind, ty, &[ty; 2]);
        }
        if !adds {
            let kind = product_kind(wide, ty, true)?;
            return self.emit_plain(form, kind, ty, &[ty; 2]);
        }
        let kind = match (ty.signed(), ty.bits) {
            (true, 16) => lanes!(wide, |a: i16, b: i16, c: i16| -> i16 {
                (((i32::from(a) * i32::from(b)) >> 16) as i16).wrapping_add(c)
            }),
            (false, 16) => lanes!(wide, |a: u16, b: u16, c: u16| -> u16 {
                (((u32::from(a) * u32::from(b)) >> 16) as u16).wrapping_add(c)
            }),
            (true, 32) => lanes!(wide, |a: i32, b: i32, c: i32| -> i32 {
                (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)
            }),
            (false, 32) => lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)
            }),
            (true, 64) => lanes!(wide, |a: i64, b: i64, c: i64| -> i64 {
                (((i128::from(a) * i128::from(b)) >> 64) as i64).wrapping_add(c)
            }),
            (false, 64) => lanes!(wide, |a: u64, b: u64, c: u64| -> u64 {
                (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &[ty; 3])
    }

    /// Decodes `mul24`, or `mad24` if `adds`.
    pub(super) fn multiply24(&mut self, form: &mut Form<'a>, ty: Ty, adds: bool) -> Decoded {
        let wide = self.wide();
        let part = form.one_of(&["lo", "hi", "wide"]);
        let three = [ty; 3];
        let kind = match (adds, part, ty.signed(), ty.bits) {
            (false, Some("lo"), true, 32) => lanes!(wide, |a: i32, b: i32| -> i32 {
                (a << 8 >> 8).wrapping_mul(b << 8 >> 8)
            }),
            (false, Some("lo"), false, 32) => lanes!(wide, |a: u32, b: u32| -> u32 {
                (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)
            }),
            (false, Some("hi"), true, 32) => {
                lanes!(wide, |a: i32, b: i32| -> i32 { high24(a, b) })
            }
            (false, Some("hi"), false, 32) => lanes!(wide, |a: u32, b: u32| -> u32 {
                ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32
            }),
            (true, Some("lo"), true, 32) => {
                let kind = lanes!(wide, |a: i32, b: i32, c: i32| -> i32 {
                    (a << 8 >> 8).wrapping_mul(b << 8 >> 8).wrapping_add(c)
                });
                return self.emit_plain(form, kind, ty, &three);
            }
            (true, Some("lo"), false, 32) => {
                let kind = lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                    (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)
                });
                return self.emit_plain(form, kind, ty, &three);
            }
            (true, Some("hi"), true, 32) => {
                let kind = lanes!(wide, |a: i32, b: i32, c: i32| -> i32 {
                    high24(a, b).wrapping_add(c)
                });
                return self.emit_plain(form, kind, ty, &three);
            }
            (true, Some("hi"), false, 32) => {
                let kind = lanes!(wide, |a: u32, b: u32, c: u32| -> u32 {
                    let product = u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff);
                    ((product >> 16) as u32).wrapping_add(c)
                });
                return self.emit_plain(form, kind, ty, &three);
            }
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &three[..2])
    }
}

/// The upper 32 bits of the 48-bit product of two 24-bit numbers.
#[inline(always)]
pub(super) fn high24(a: i32, b: i32) -> i32 {
    ((i64::from(a << 8 >> 8) * i64::from(b << 8 >> 8)) >> 16) as i32
}

/// The instruction for the lower or upper half of a product.
pub(super) fn product_kind(wide: bool, ty: Ty, high: bool) -> Decoded<Kind> {
    Ok(match (high, ty.signed(), ty.bits) {
        (false, ..) => any!(wide, ty, |a, b| a.wrapping_mul(b)),
        (_, true, 16) => lanes!(wide, |a: i16, b: i16| -> i16 {
            ((i32::from(a) * i32::from(b)) >> 16) as i16
        }),
        (_, false, 16) => lanes!(wide, |a: u16, b: u16| -> u16 {
            ((u32::from(a) * u32::from(b)) >> 16) as u16
        }),
        (_, true, 32) => lanes!(wide, |a: i32, b: i32| -> i32 {
            ((i64::from(a) * i64::from(b)) >> 32) as i32
        }),
        (_, false, 32) => lanes!(wide, |a: u32, b: u32| -> u32 {
            ((u64::from(a) * u64::from(b)) >> 32) as u32
        }),
        (_, true, 64) => lanes!(wide, |a: i64, b: i64| -> i64 {
            ((i128::from(a) * i128::from(b)) >> 64) as i64
        }),
        (_, false, 64) => lanes!(wide, |a: u64, b: u64| -> u64 {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        _ => return unsupported("this type"),
    })
}
