//! One product: its form, its operands, and its execution.

use cuda_driver::prelude::*;

use crate::fixture::Fixture;
use crate::kernel::text;
use crate::layout::{Layout, Placed};
use crate::types::Ty;

/// The rows of A.
pub(crate) const ROWS: usize = 64;
const THREADS: usize = 128;

/// The form of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) d: Ty,
    pub(crate) a: Ty,
    pub(crate) b: Ty,
    pub(crate) n: usize,
    pub(crate) sparse: bool,
    pub(crate) selector: usize,
    pub(crate) a_in_registers: bool,
    pub(crate) a_layout: Layout,
    pub(crate) b_layout: Layout,
    pub(crate) scales: [i32; 2],
    pub(crate) adds: bool,
    pub(crate) saturates: bool,
}

/// The elements of a product, as bits: rows of A, columns of B, rows of the sum.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    /// The elements that are in memory or in registers, half of all if A is sparse.
    pub(crate) a: Vec<u32>,
    /// For a sparse A, the metadata of each thread.
    pub(crate) metadata: Vec<u32>,
    pub(crate) b: Vec<u32>,
    pub(crate) c: Vec<u32>,
}

impl Case {
    pub(crate) const fn new([d, a, b]: [Ty; 3], n: usize) -> Self {
        Self {
            d,
            a,
            b,
            n,
            sparse: false,
            selector: 0,
            a_in_registers: false,
            a_layout: Layout::new(128, false),
            b_layout: Layout::new(128, false),
            scales: [1, 1],
            adds: true,
            saturates: false,
        }
    }

    /// The number of elements of a column of B.
    pub(crate) fn depth(&self) -> usize {
        self.a.depth() * if self.sparse { 2 } else { 1 }
    }

    /// The registers of each thread for its part of the sum.
    pub(crate) fn sum_registers(&self) -> usize {
        ROWS * self.n / THREADS * self.d.bits() / 32
    }

    /// The row and column of element `e` of register `r` of a thread's part of the sum.
    fn sum_place(&self, thread: usize, r: usize, e: usize) -> (usize, usize) {
        let i = r * (32 / self.d.bits()) + e;
        let (warp, lane) = (thread / 32, thread % 32);
        let row = 16 * warp + lane / 4 + if i / 2 % 2 == 1 { 8 } else { 0 };
        (row, i / 4 * 8 + lane % 4 * 2 + i % 2)
    }

    /// The row and column of element `e` of register `r` of a thread's part of A.
    fn a_place(&self, thread: usize, r: usize, e: usize) -> (usize, usize) {
        let packed = 32 / self.a.bits();
        let (warp, lane) = (thread / 32, thread % 32);
        let row = 16 * warp + lane / 4 + r % 2 * 8;
        (row, lane % 4 * packed + e + r / 2 * 4 * packed)
    }

    /// The places of A and B in shared memory.
    pub(crate) fn places(&self) -> (Placed, Placed) {
        let a = self.a_layout.place(0, ROWS, self.a.depth(), self.a.bytes());
        let b = self
            .b_layout
            .place(a.end, self.n, self.depth(), self.b.bytes());
        (a, b)
    }

    /// The image of shared memory if the rows of swizzle patterns count from `bases`.
    pub(crate) fn image(&self, operands: &Operands, [a_base, b_base]: [usize; 2]) -> Vec<u8> {
        let (a, b) = self.places();
        // Bytes that are not part of a matrix are NaN or odd numbers.
        let mut image = vec![0x7f; b.end.next_multiple_of(2048) + 2048];
        let matrices = [
            (a, a_base, &operands.a, self.a),
            (b, b_base, &operands.b, self.b),
        ];
        for (index, (placed, base, elements, ty)) in matrices.into_iter().enumerate() {
            let depth = if index == 0 {
                self.a.depth()
            } else {
                self.depth()
            };
            for (at, bits) in elements.iter().enumerate() {
                let offset = placed.offset(at / depth, at % depth, base);
                let bytes = bits.to_le_bytes();
                image[offset..offset + ty.bytes()].copy_from_slice(&bytes[..ty.bytes()]);
            }
        }
        image
    }

    /// Runs the product, and returns the rows of the sum.
    pub(crate) fn run(&self, fixture: &Fixture, operands: &Operands) -> Result<Vec<u32>, String> {
        let bases = [self.a_layout.base, self.b_layout.base];
        self.run_image(fixture, operands, &self.image(operands, bases))
    }

    /// Runs the product with this image of shared memory.
    pub(crate) fn run_image(
        &self,
        fixture: &Fixture,
        operands: &Operands,
        image: &[u8],
    ) -> Result<Vec<u32>, String> {
        let kernel = fixture.kernel(&text(self, image.len()), "product")?;
        let (a, b) = self.places();
        let registers = self.sum_registers();
        let packed = 32 / self.d.bits();
        let mut c = vec![0u32; THREADS * registers];
        let mut regs = vec![0u32; THREADS * 4];
        for thread in 0..THREADS {
            for r in 0..registers {
                for e in 0..packed {
                    let (row, column) = self.sum_place(thread, r, e);
                    let bits = operands.c[row * self.n + column];
                    c[thread * registers + r] |= bits << (e * self.d.bits());
                }
            }
            for r in 0..4 {
                for e in 0..32 / self.a.bits() {
                    let (row, column) = self.a_place(thread, r, e);
                    let bits = operands.a[row * self.a.depth() + column];
                    regs[thread * 4 + r] |= bits << (e * self.a.bits());
                }
            }
        }
        let metadata = match operands.metadata.is_empty() {
            true => vec![0; THREADS],
            false => operands.metadata.clone(),
        };
        let (image, c) = (fixture.upload(image), fixture.upload(&c));
        let (regs, metadata) = (fixture.upload(&regs), fixture.upload(&metadata));
        let mut out = fixture.zeroed::<u32>(THREADS * registers);
        let config = LaunchConfig::new(1, THREADS as u32);
        let args = (
            &image,
            &c,
            &regs,
            &metadata,
            &mut out,
            a.descriptor(),
            b.descriptor(),
            u64::from(self.adds),
        );
        // SAFETY: the kernel reads the image, which is a multiple of the bytes that its threads
        // copy together, and for each thread `registers` words of `c`, four of `regs` and one of
        // `metadata`; it writes `registers` words for each thread.
        unsafe { fixture.stream.launch(&kernel, config, args) }.map_err(|e| e.to_string())?;
        let out = fixture.values(&out)?;
        let mut sums = vec![0; ROWS * self.n];
        for thread in 0..THREADS {
            for r in 0..registers {
                for e in 0..packed {
                    let (row, column) = self.sum_place(thread, r, e);
                    let bits = out[thread * registers + r] >> (e * self.d.bits());
                    sums[row * self.n + column] = if packed == 2 { bits & 0xffff } else { bits };
                }
            }
        }
        Ok(sums)
    }
}
