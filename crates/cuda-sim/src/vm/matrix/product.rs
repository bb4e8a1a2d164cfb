//! `d = a * b + c`
//!
//! Products and sums of halves are computed in f64, exactly or almost exactly, and rounded once.
//! This is more accurate than the ISA requires, which leaves the order of the sums open.

use super::{Element, Fragment};
use crate::vm::code::Ins;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::rounding::{Round, fma64};
use crate::vm::space::Env;
use crate::vm::warp::Warp;

/// The multiplication of single bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum BitOp {
    And,
    Xor,
}

/// A matrix multiplication.
#[derive(Clone, Debug)]
pub(in crate::vm) struct Product {
    pub(in crate::vm) a: Fragment,
    pub(in crate::vm) b: Fragment,
    pub(in crate::vm) c: Fragment,
    pub(in crate::vm) d: Fragment,
    /// Whether sums saturate at the bounds of s32 instead of wrapping around.
    pub(in crate::vm) saturates: bool,
    pub(in crate::vm) round: Round,
    pub(in crate::vm) bits: BitOp,
}

impl Product {
    fn compute(&self, w: &Warp) -> Vec<u64> {
        let (a, b) = (self.a.gather(w), self.b.gather(w));
        let c = self.c.gather(w);
        if self.a.element.is_float() {
            let a: Vec<f64> = a.iter().map(|&bits| self.a.element.float(bits)).collect();
            let b: Vec<f64> = b.iter().map(|&bits| self.b.element.float(bits)).collect();
            return self.each(|row, column, at| {
                let c = self.c.element.float(c[at]);
                let terms = self.terms(&a, &b, row, column);
                let sum = if self.a.element == Element::F64 {
                    terms.fold(c, |sum, (a, b)| fma64(a, b, sum, self.round))
                } else {
                    terms.map(|(a, b)| a * b).sum::<f64>() + c
                };
                self.d.element.nearest(sum)
            });
        }
        let is_bits = self.a.element == Element::B1;
        self.each(|row, column, at| {
            let terms = self.terms(&a, &b, row, column);
            let products = terms.map(|(a, b)| match self.bits {
                BitOp::And if is_bits => i64::from((a & b).count_ones()),
                BitOp::Xor if is_bits => i64::from((a ^ b).count_ones()),
                _ => self.a.element.integer(a) * self.b.element.integer(b),
            });
            let sum = products.sum::<i64>() + self.c.element.integer(c[at]);
            let sum = if self.saturates {
                sum.clamp(i32::MIN.into(), i32::MAX.into())
            } else {
                sum
            };
            u64::from(sum as u32)
        })
    }

    fn each(&self, element: impl Fn(usize, usize, usize) -> u64) -> Vec<u64> {
        let columns = self.d.columns;
        (0..self.d.rows * columns)
            .map(|at| element(at / columns, at % columns, at))
            .collect()
    }

    /// The pairs of factors of one element.
    fn terms<'t, T: Copy>(
        &self,
        a: &'t [T],
        b: &'t [T],
        row: usize,
        column: usize,
    ) -> impl Iterator<Item = (T, T)> + 't + use<'t, T> {
        let (depth, columns) = (self.a.columns, self.b.columns);
        let a = &a[row * depth..(row + 1) * depth];
        let b = b[column..].iter().step_by(columns);
        a.iter().copied().zip(b.copied())
    }
}

/// Executes product number `imm`.
pub(in crate::vm) struct Multiply;

impl MemoryOp for Multiply {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if let Some(product) = env.program.products.get(i.imm as usize) {
            let d = product.compute(w);
            product.d.scatter(w, m, &d);
        }
        Ok(())
    }
}
