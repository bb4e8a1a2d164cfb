//! `wgmma.mma_async`: the products of a warpgroup, four warps that multiply 64 rows together.
//!
//! Each warp computes its own 16 rows. B, and often A, is in shared memory, at the place that a
//! matrix descriptor gives.

use std::collections::BTreeSet;

use super::descriptor::{CHUNK, Descriptor};
use super::sum::{Factor, Precision};
use super::{Element, Fragment};
use crate::vm::access::{Translator, load};
use crate::vm::address::SHARED;
use crate::vm::check::{ObservedAccess, Observer, Started, misused, number_of};
use crate::vm::code::{Ins, Slot};
use crate::vm::fault::FaultKind;
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::warp::Warp;

/// The rows that each warp computes.
const ROWS: usize = 16;
/// The warps of a warpgroup.
const WARPS: usize = 4;

/// The place of a matrix of factors.
#[derive(Clone, Debug)]
pub(in crate::vm) enum Factors {
    /// Registers of the warp, for A.
    Registers(Fragment),
    /// Shared memory, by the descriptor in this register.
    Shared {
        descriptor: Slot,
        element: Element,
        /// Whether the elements of a column of A, or of a row of B, are contiguous.
        is_transposed: bool,
    },
}

impl Factors {
    fn element(&self) -> Element {
        match self {
            Self::Registers(fragment) => fragment.element,
            Self::Shared { element, .. } => *element,
        }
    }
}

/// The places of the elements that a sparse A holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) struct Sparse {
    /// The register of the metadata.
    pub(in crate::vm) metadata: Slot,
    /// The pair of threads of each four whose registers are used, if not all are.
    pub(in crate::vm) selector: usize,
}

/// A product of a warpgroup: `d = a * b + d`.
#[derive(Clone, Debug)]
pub(in crate::vm) struct GroupProduct {
    pub(in crate::vm) a: Factors,
    pub(in crate::vm) b: Factors,
    /// The 16 rows of the sum that a warp holds.
    pub(in crate::vm) d: Fragment,
    /// The depth of B; that of a sparse A is half of it.
    pub(in crate::vm) depth: usize,
    /// Whether the previous sum is added, a predicate.
    pub(in crate::vm) adds: Slot,
    /// Whether the product is negated.
    pub(in crate::vm) is_negated: bool,
    pub(in crate::vm) saturates: bool,
    pub(in crate::vm) sparse: Option<Sparse>,
}

/// Reads a matrix in shared memory.
struct Reader<'a, 'e> {
    w: &'a Warp,
    env: &'a Env<'e>,
    translator: Translator,
    observer: Option<Observer<'a>>,
    /// The addresses of the chunks that were read, if accesses are observed.
    read: Vec<u64>,
}

impl Reader<'_, '_> {
    /// The bytes of the chunk at `offset`.
    fn chunk(&mut self, offset: u64) -> Result<[u8; CHUNK as usize], LaneFault> {
        let at = SHARED | offset;
        let host = self
            .translator
            .translate(self.w, self.env, at, CHUNK, CHUNK, 0)?;
        if let Some(observer) = &mut self.observer {
            observer.read(ObservedAccess::new(0, at, CHUNK));
            self.read.push(at);
        }
        let mut bytes = [0; CHUNK as usize];
        for (index, place) in bytes.chunks_mut(8).enumerate() {
            // SAFETY: these are 8 of the live bytes, aligned to 8 ← `Translator::translate` checked
            // them.
            let word = unsafe { load(8, host + 8 * index as u64) };
            place.copy_from_slice(&word.to_le_bytes());
        }
        Ok(bytes)
    }

    /// The elements of `rows` rows (columns of B) from number `first` on, row by row.
    fn matrix(
        &mut self,
        descriptor: Descriptor,
        (element, is_transposed): (Element, bool),
        (first, rows, depth): (usize, usize, usize),
    ) -> Result<Vec<u64>, LaneFault> {
        let size = element.bits() as usize / 8;
        let each = CHUNK as usize / size;
        let mut all = vec![0; rows * depth];
        let value = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        if is_transposed {
            for chunk in 0..rows.div_ceil(each) {
                for k in 0..depth {
                    let number = first / each + chunk;
                    let bytes = self.chunk(descriptor.across(number as u64, k as u64))?;
                    for (e, bytes) in bytes.chunks(size).enumerate() {
                        if let Some(place) = all.get_mut((chunk * each + e) * depth + k) {
                            *place = value(bytes);
                        }
                    }
                }
            }
            return Ok(all);
        }
        for row in 0..rows {
            for chunk in 0..depth.div_ceil(each) {
                let bytes = self.chunk(descriptor.in_row((first + row) as u64, chunk as u64))?;
                let to = all[row * depth..(row + 1) * depth]
                    .chunks_mut(each)
                    .nth(chunk);
                for (place, bytes) in to.into_iter().flatten().zip(bytes.chunks(size)) {
                    *place = value(bytes);
                }
            }
        }
        Ok(all)
    }
}

impl GroupProduct {
    /// Computes the sums of one warp. Also returns the addresses of the chunks that it read, if
    /// accesses are observed.
    fn compute(&self, w: &Warp, env: &Env<'_>, i: &Ins) -> Result<(Vec<u64>, Vec<u64>), LaneFault> {
        let rank = w.index % WARPS;
        let [x, y, z] = env.launch.block.map(u64::from);
        if (w.index / WARPS + 1) * WARPS * LANES > (x * y * z) as usize {
            let message = "`wgmma` in a warpgroup of fewer than four full warps";
            return Err(LaneFault::of(FaultKind::IllegalInstruction, 0, message));
        }
        let mut reader = Reader {
            w,
            env,
            translator: Translator::default(),
            observer: Observer::new(w, env, i),
            read: Vec::new(),
        };
        let kept = match self.sparse {
            Some(_) => self.depth / 2,
            None => self.depth,
        };
        let a = match &self.a {
            Factors::Registers(fragment) => fragment.gather(w),
            &Factors::Shared {
                descriptor,
                element,
                is_transposed,
            } => reader.matrix(
                Descriptor::new(w.get64(descriptor)[0]),
                (element, is_transposed),
                (rank * ROWS, ROWS, kept),
            )?,
        };
        let a = match self.sparse {
            Some(sparse) => self.expanded(w, sparse, &a),
            None => a,
        };
        let columns = self.d.columns;
        let b = match &self.b {
            Factors::Registers(fragment) => fragment.gather(w),
            &Factors::Shared {
                descriptor,
                element,
                is_transposed,
            } => reader.matrix(
                Descriptor::new(w.get64(descriptor)[0]),
                (element, is_transposed),
                (0, columns, self.depth),
            )?,
        };
        let read = reader.read;
        let mut sums = self.d.gather(w);
        let adds = w.get_pred(self.adds);
        if adds & 1 == 0 {
            sums.fill(0);
        }
        if self.a.element().is_float() {
            self.floats(&a, &b, &mut sums);
        } else {
            self.integers(&a, &b, &mut sums);
        }
        Ok((sums, read))
    }

    /// Records the product for the checks.
    fn start(&self, w: &mut Warp, env: &Env<'_>, i: &Ins, chunks: Vec<u64>) {
        let Some(mut groups) = w.groups.take() else {
            return;
        };
        let pc = number_of(env, i);
        let base = w.base.r32;
        let numbered = |slots: &[Slot]| slots.iter().map(|slot| base + slot).collect();
        let is_unfenced = groups.start(Started {
            pc,
            sums: numbered(&self.d.slots),
            factors: match &self.a {
                Factors::Registers(fragment) => numbered(&fragment.slots),
                Factors::Shared { .. } => Vec::new(),
            },
            chunks,
            copies: BTreeSet::new(),
        });
        if is_unfenced {
            let message = "uses a register that was written after the last `wgmma.fence`";
            misused(w, env, (pc, None), message);
        }
        w.groups = Some(groups);
    }

    /// The rows of a sparse A with zeros for the elements that it does not hold.
    fn expanded(&self, w: &Warp, sparse: Sparse, a: &[u64]) -> Vec<u64> {
        let depth = self.depth;
        let metadata = w.get32(sparse.metadata);
        // The bits of metadata for each element of a row.
        let bits = match self.a.element() {
            Element::Tf32 => 2,
            _ => 1,
        };
        let is_byte = self.a.element().bits() == 8;
        let mut all = vec![0; ROWS * depth];
        for row in 0..ROWS {
            for (group, pair) in a[row * depth / 2..(row + 1) * depth / 2]
                .chunks(2 / bits)
                .enumerate()
            {
                // The position of the four bits that describe this group of elements.
                let at = group * 4;
                let lane = row % 8 * 4;
                let nibble = if is_byte {
                    metadata[lane + row / 8 + at / 32 * 2] >> (at % 32)
                } else {
                    let lane = lane + sparse.selector * 2 + at / 16;
                    metadata[lane] >> (row / 8 * 16 + at % 16)
                };
                let start = row * depth + group * 4 / bits;
                if bits == 2 {
                    // One element of two: the places of its halves are 0 and 1, or 2 and 3.
                    all[start + (nibble >> 1 & 1) as usize] = pair[0];
                } else {
                    all[start + (nibble & 3) as usize] = pair[0];
                    all[start + (nibble >> 2 & 3) as usize] = pair[1];
                }
            }
        }
        all
    }

    fn floats(&self, a: &[u64], b: &[u64], sums: &mut [u64]) {
        let (depth, columns, to) = (self.depth, self.d.columns, self.d.element);
        let precision = Precision::of(self.a.element());
        let factors = |element: Element, all: &[u64]| -> Vec<Option<Factor>> {
            all.iter().map(|&bits| Factor::of(element, bits)).collect()
        };
        // The factors of each row, if all are finite.
        let rows = |all: &[Option<Factor>]| -> Vec<Option<Vec<Factor>>> {
            let rows = all.chunks(depth);
            rows.map(|row| row.iter().copied().collect()).collect()
        };
        let negated = |factor: Option<Factor>| {
            factor.map(|factor| Factor {
                significand: -factor.significand,
                ..factor
            })
        };
        let mut left = factors(self.a.element(), a);
        if self.is_negated {
            left = left.into_iter().map(negated).collect();
        }
        let (left, right) = (rows(&left), rows(&factors(self.b.element(), b)));
        for (at, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            *sum = match (&left[row], &right[column], Factor::of(to, *sum)) {
                (Some(a), Some(b), Some(c)) => precision.sum((a, b), c, to),
                _ => {
                    let a = &a[row * depth..(row + 1) * depth];
                    let b = &b[column * depth..(column + 1) * depth];
                    to.nearest(self.special(a, b, to.float(*sum)))
                }
            };
        }
    }

    /// The sum of products if a factor is infinite or NaN: an infinity or NaN.
    fn special(&self, a: &[u64], b: &[u64], c: f64) -> f64 {
        let (left, right) = (self.a.element(), self.b.element());
        let sign = if self.is_negated { -1.0 } else { 1.0 };
        let products = a
            .iter()
            .zip(b)
            .map(|(&a, &b)| sign * left.float(a) * right.float(b));
        products.sum::<f64>() + c
    }

    fn integers(&self, a: &[u64], b: &[u64], sums: &mut [u64]) {
        let (depth, columns) = (self.depth, self.d.columns);
        let (left, right) = (self.a.element(), self.b.element());
        for (at, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let a = &a[row * depth..(row + 1) * depth];
            let b = &b[column * depth..(column + 1) * depth];
            let products = a.iter().zip(b).map(|(&a, &b)| match left {
                Element::B1 => i64::from((a & b).count_ones()),
                _ => left.integer(a) * right.integer(b),
            });
            let total = products.sum::<i64>() + Element::S32.integer(*sum);
            let total = if self.saturates {
                total.clamp(i32::MIN.into(), i32::MAX.into())
            } else {
                total
            };
            *sum = u64::from(total as u32);
        }
    }
}

/// Executes product number `imm` of a warpgroup.
pub(in crate::vm) struct GroupMultiply;

impl MemoryOp for GroupMultiply {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if let Some(product) = env.program.group_products.get(i.imm as usize) {
            let (sums, chunks) = product.compute(w, env, i)?;
            product.start(w, env, i, chunks);
            product.d.scatter(w, m, &sums);
        }
        Ok(())
    }
}
