//! `ldmatrix`, `stmatrix`, `movmatrix`: 8 × 8 matrices of 16-bit elements.
//!
//! Register `a` of lane `8 * j + row` holds the address of a row of matrix `j`. Register `d` and
//! the following ones hold the matrices. Lane `l` holds the elements `2 * (l % 4)` and `2 * (l % 4)
//! + 1` of row `l / 4`.

use crate::vm::access::Translator;
use crate::vm::check::{ObservedAccess, Observer};
use crate::vm::code::Ins;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::{Cell, Env};
use crate::vm::vector::{LANES, each};
use crate::vm::warp::Warp;

/// The bytes of a row.
const ROW: u64 = 16;

/// The row and column of element `e` of `lane`.
fn place(lane: usize, e: usize, is_transposed: bool) -> (usize, usize) {
    let (outer, inner) = (lane / 4, lane % 4 * 2 + e);
    if is_transposed {
        (inner, outer)
    } else {
        (outer, inner)
    }
}

/// The addresses in this process of the rows of `count` matrices.
fn rows(w: &Warp, env: &Env<'_>, i: &Ins, count: usize) -> Result<Vec<u64>, LaneFault> {
    let address = w.get64(i.a);
    let mut translator = Translator::default();
    (0..8 * count)
        .map(|lane| translator.translate(w, env, address[lane], ROW, ROW, lane))
        .collect()
}

/// Loads `imm` matrices into list number `b`; transposed if `e` is 1.
pub(in crate::vm) struct LoadRows;

impl MemoryOp for LoadRows {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let Some(slots) = env.program.lists.get(i.imm as usize) else {
            return Ok(());
        };
        let rows = rows(w, env, i, slots.len())?;
        if let Some(mut observer) = Observer::new(w, env, i) {
            let address = w.get64(i.a);
            for (lane, &at) in address[..rows.len()].iter().enumerate() {
                observer.read(ObservedAccess::new(lane, at, ROW));
            }
        }
        for (matrix, &slot) in slots.iter().enumerate() {
            let mut values = [0u32; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                for e in 0..2 {
                    let (row, column) = place(lane, e, i.e != 0);
                    let host = rows[8 * matrix + row] + 2 * column as u64;
                    // SAFETY: the row has 16 live bytes, aligned to 16 ← `rows` checked them;
                    // `column` is below 8.
                    let half = unsafe { u16::load(host) };
                    *value |= u32::from(half) << (16 * e);
                }
            }
            w.put32(slot, m, &values);
        }
        Ok(())
    }
}

/// Stores the matrices of list number `imm` to memory; transposed if `e` is 1.
pub(in crate::vm) struct StoreRows;

impl MemoryOp for StoreRows {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, _m: u32) -> Result<(), LaneFault> {
        let Some(slots) = env.program.lists.get(i.imm as usize) else {
            return Ok(());
        };
        let rows = rows(w, env, i, slots.len())?;
        if let Some(mut observer) = Observer::new(w, env, i) {
            let address = w.get64(i.a);
            for (lane, &at) in address[..rows.len()].iter().enumerate() {
                observer.write(ObservedAccess::new(lane, at, ROW), true);
            }
        }
        for (matrix, &slot) in slots.iter().enumerate() {
            for (lane, value) in w.get32(slot).into_iter().enumerate() {
                for e in 0..2 {
                    let (row, column) = place(lane, e, i.e != 0);
                    let host = rows[8 * matrix + row] + 2 * column as u64;
                    let half = (value >> (16 * e)) as u16;
                    // SAFETY: the row has 16 live bytes, aligned to 16 ← `rows` checked them;
                    // `column` is below 8.
                    unsafe { half.store(host) };
                }
            }
        }
        Ok(())
    }
}

/// Transposes the matrix `a` to `d`.
pub(in crate::vm) struct Transpose;

impl MemoryOp for Transpose {
    fn run(w: &mut Warp, _env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let from = w.get32(i.a);
        let value = each(|lane| {
            (0..2).fold(0, |value, e| {
                let (row, column) = place(lane, e, true);
                let half = from[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
                value | half << (16 * e)
            })
        });
        w.put32(i.d, m, &value);
        Ok(())
    }
}
