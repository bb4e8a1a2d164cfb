//! Matrices that are distributed over the lanes of a warp; each lane holds a fragment.

mod descriptor;
mod element;
mod group;
mod product;
mod rows;
mod sum;
mod tile;

pub(super) use descriptor::CHUNK;
pub(super) use element::Element;
pub(super) use group::{Factors, GroupMultiply, GroupProduct, Sparse};
pub(super) use product::{BitOp, Multiply, Product};
pub(super) use rows::{LoadRows, StoreRows, Transpose};
pub(super) use tile::{LoadTile, StoreTile, Tile};

use super::code::Slot;
use super::vector::LANES;
use super::warp::Warp;

/// The matrix of `d = a * b + c` that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
    /// `c` and `d`.
    Sum,
}

/// The specification that fixes the position of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The layout of the PTX ISA, for `mma`.
    Mma,
    /// The private layout of this device, for `wmma`.
    Opaque,
}

/// The registers that hold a matrix.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) element: Element,
    pub(super) side: Side,
    pub(super) layout: Layout,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) slots: Vec<Slot>,
}

impl Fragment {
    /// The number of elements in one register.
    pub(super) fn packed(&self) -> usize {
        self.element.packed()
    }

    /// The row and column of element `e` of register `r` of `lane`.
    pub(super) fn place(&self, r: usize, e: usize, lane: usize) -> (usize, usize) {
        let packed = self.packed();
        if self.layout == Layout::Opaque {
            let index = (lane * self.slots.len() + r) * packed + e;
            // Some fragments hold each element twice.
            let index = index % (self.rows * self.columns);
            return (index / self.columns, index % self.columns);
        }
        let (group, thread) = (lane >> 2, lane & 3);
        match self.side {
            Side::A if self.rows == 8 => (group, thread * packed + e + r * 4 * packed),
            Side::A => (
                group + 8 * (r & 1),
                thread * packed + e + (r >> 1) * 4 * packed,
            ),
            Side::B => (thread * packed + e + r * 4 * packed, group),
            Side::Sum => {
                let i = r * packed + e;
                let column = i / 4 * 8 + thread * 2 + (i & 1);
                (group + 8 * (i >> 1 & 1), column)
            }
        }
    }

    /// The bits of each element, row by row.
    pub(super) fn gather(&self, w: &Warp) -> Vec<u64> {
        let mut all = vec![0; self.rows * self.columns];
        let bits = self.element.bits();
        for (r, &slot) in self.slots.iter().enumerate() {
            if bits == 64 {
                let values = w.get64(slot);
                for (lane, &value) in values.iter().enumerate() {
                    let (row, column) = self.place(r, 0, lane);
                    all[row * self.columns + column] = value;
                }
                continue;
            }
            let values = w.get32(slot);
            let cut = u32::MAX >> (32 - bits);
            for (lane, &value) in values.iter().enumerate() {
                for e in 0..self.packed() {
                    let (row, column) = self.place(r, e, lane);
                    let value = value >> (e as u32 * bits) & cut;
                    all[row * self.columns + column] = value.into();
                }
            }
        }
        all
    }

    /// Writes their elements to the registers of the lanes of `m`.
    pub(super) fn scatter(&self, w: &mut Warp, m: u32, all: &[u64]) {
        let bits = self.element.bits();
        for (r, &slot) in self.slots.iter().enumerate() {
            let mut values = [0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                for e in 0..self.packed() {
                    let (row, column) = self.place(r, e, lane);
                    *value |= all[row * self.columns + column] << (e as u32 * bits);
                }
            }
            if bits == 64 {
                w.put64(slot, m, &values);
            } else {
                w.put32(slot, m, &values.map(|value| value as u32));
            }
        }
    }
}
