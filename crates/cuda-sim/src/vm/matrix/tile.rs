//! `wmma.load` and `wmma.store`: a matrix in memory.

use super::{Element, Fragment};
use crate::vm::access::{Translator, load, store};
use crate::vm::check::{ObservedAccess, Observer};
use crate::vm::code::{Ins, Slot};
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::warp::Warp;

/// A matrix in memory and the registers that hold it.
#[derive(Clone, Debug)]
pub(in crate::vm) struct Tile {
    pub(in crate::vm) fragment: Fragment,
    /// Whether the elements of a column are contiguous.
    pub(in crate::vm) by_column: bool,
    /// The generic address of the first element.
    pub(in crate::vm) address: Slot,
    /// The distance between rows (or columns), in elements.
    pub(in crate::vm) stride: Slot,
}

impl Tile {
    /// Calls `access` for each element of the lanes of `m`, with the register, the lane, the shift
    /// in the register, the byte address and the shift in the byte.
    fn each(
        &self,
        w: &Warp,
        m: u32,
        mut access: impl FnMut(usize, usize, u32, u64, u32) -> Result<(), LaneFault>,
    ) -> Result<(), LaneFault> {
        let (start, stride) = (w.get64(self.address), w.get32(self.stride));
        let bits = u64::from(self.fragment.element.bits());
        let count = self.fragment.element.count() as u64;
        for lane in crate::vm::vector::bits(m) {
            let stride = u64::from(stride[lane]) / count;
            for r in 0..self.fragment.slots.len() {
                for e in 0..self.fragment.packed() {
                    let (row, column) = self.fragment.place(r, e, lane);
                    let (outer, inner) = if self.by_column {
                        (column, row)
                    } else {
                        (row, column)
                    };
                    let at = (outer as u64)
                        .wrapping_mul(stride)
                        .wrapping_add(inner as u64)
                        .wrapping_mul(bits);
                    let shift = e as u32 * bits as u32;
                    access(
                        r,
                        lane,
                        shift,
                        start[lane].wrapping_add(at / 8),
                        (at % 8) as u32,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn load(&self, w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let mut values = vec![[0u64; LANES]; self.fragment.slots.len()];
        let mut translator = Translator::default();
        let bits = self.fragment.element.bits();
        let mut observer = Observer::new(w, env, i);
        self.each(w, m, |r, lane, shift, at, part| {
            let bytes = u64::from(bits.div_ceil(8));
            let host = translator.translate(w, env, at, bytes, bytes, lane)?;
            if let Some(observer) = &mut observer {
                observer.read(ObservedAccess::new(lane, at, bytes));
            }
            // SAFETY: `host` is the address of `bytes` live and aligned bytes ←
            // `Translator::translate` checked it.
            let value = unsafe { load(bytes, host) };
            let value = if bits < 8 { value >> part & 0xf } else { value };
            values[r][lane] |= value << shift;
            Ok(())
        })?;
        drop(observer);
        for (&slot, values) in self.fragment.slots.iter().zip(&values) {
            if self.fragment.element == Element::F64 {
                w.put64(slot, m, values);
            } else {
                w.put32(slot, m, &values.map(|value| value as u32));
            }
        }
        Ok(())
    }

    fn store(&self, w: &Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let bits = self.fragment.element.bits();
        let values: Vec<[u64; LANES]> = self
            .fragment
            .slots
            .iter()
            .map(|&slot| match bits {
                64 => w.get64(slot),
                _ => w.get32(slot).map(u64::from),
            })
            .collect();
        let mut translator = Translator::default();
        let mut observer = Observer::new(w, env, i);
        self.each(w, m, |r, lane, shift, at, _| {
            let bytes = u64::from(bits / 8);
            let host = translator.translate(w, env, at, bytes, bytes, lane)?;
            if let Some(observer) = &mut observer {
                observer.write(ObservedAccess::new(lane, at, bytes), true);
            }
            let value = values[r][lane] >> shift;
            // SAFETY: `host` is the address of `bytes` live and aligned bytes ←
            // `Translator::translate` checked it.
            unsafe { store(bytes, host, value) };
            Ok(())
        })
    }
}

/// Loads the fragment of tile number `imm`.
pub(in crate::vm) struct LoadTile;

impl MemoryOp for LoadTile {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        match env.program.tiles.get(i.imm as usize) {
            Some(tile) => tile.load(w, env, i, m),
            None => Ok(()),
        }
    }
}

/// Stores the fragment of tile number `imm` to memory.
pub(in crate::vm) struct StoreTile;

impl MemoryOp for StoreTile {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        match env.program.tiles.get(i.imm as usize) {
            Some(tile) => tile.store(w, env, i, m),
            None => Ok(()),
        }
    }
}
