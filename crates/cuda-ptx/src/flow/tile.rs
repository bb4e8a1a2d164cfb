//! The matrix in memory that `wmma.load` reads and `wmma.store` writes.

use crate::ast::Instruction;

/// A matrix in memory: lines at equal distances. A line is a row or a column whose elements are
/// next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The number of lines.
    pub(crate) lines: u32,
    /// The number of elements of a line. It is the smallest stride, and the one of an instruction
    /// without an operand for it.
    pub(crate) elements: u32,
    /// The bits of an element.
    pub(crate) bits: u32,
    /// The alignment of each line in bytes.
    pub(crate) align: u32,
    /// Whether the instruction has an operand for the stride.
    pub(crate) has_stride: bool,
}

/// The shapes of multiplicands of 8 and of 16 bits.
const LARGE: [[u32; 3]; 3] = [[16, 16, 16], [8, 32, 16], [32, 8, 16]];
const TF32: [[u32; 3]; 1] = [[16, 16, 8]];
const F64: [[u32; 3]; 1] = [[8, 8, 4]];
const NIBBLES: [[u32; 3]; 1] = [[8, 8, 32]];
const SINGLE_BITS: [[u32; 3]; 1] = [[8, 8, 128]];

/// The numbers of a shape such as `m16n8k16`.
fn parse(shape: &str) -> Option<[u32; 3]> {
    let (m, rest) = shape.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// The bits of an element, and whether the manual has this type for the matrix and the shape.
fn element(side: &str, shape: [u32; 3], ty: &str) -> Option<u32> {
    let has = |shapes: &[[u32; 3]]| shapes.contains(&shape);
    let is_sum = !matches!(side, "a" | "b");
    let (bits, is_known) = match (ty, is_sum) {
        ("f16", _) => (16, has(&LARGE)),
        ("bf16", false) => (16, has(&LARGE)),
        ("s8" | "u8", false) => (8, has(&LARGE)),
        ("tf32", false) => (32, has(&TF32)),
        ("s4" | "u4", false) => (4, has(&NIBBLES)),
        ("b1", false) => (1, has(&SINGLE_BITS)),
        ("f32", true) => (32, has(&LARGE) || has(&TF32)),
        ("s32", true) => (32, has(&LARGE) || has(&NIBBLES) || has(&SINGLE_BITS)),
        ("f64", _) => (64, has(&F64)),
        _ => return None,
    };
    is_known.then_some(bits)
}

impl Tile {
    /// The matrix of an instruction, or `None` if its form is not one of the manual.
    pub(crate) fn of(instruction: &Instruction<'_>) -> Option<Self> {
        let has_stride = match instruction.operands.len() {
            2 => false,
            3 => true,
            _ => return None,
        };
        let [what, side, "sync", "aligned", layout, shape, rest @ ..] =
            instruction.modifiers.as_slice()
        else {
            return None;
        };
        let ([ty] | ["global" | "shared" | "shared::cta", ty]) = rest else {
            return None;
        };
        if !matches!((*what, *side), ("load", "a" | "b" | "c") | ("store", "d")) {
            return None;
        }
        let shape = parse(shape)?;
        let bits = element(side, shape, ty)?;
        let [m, n, k] = shape;
        let (rows, columns) = match *side {
            "a" => (m, k),
            "b" => (k, n),
            _ => (m, n),
        };
        let (lines, elements) = match (*layout, *side) {
            // Elements of less than a byte have one layout.
            ("row", "b") | ("col", "a") if bits < 8 => return None,
            ("row", _) => (rows, columns),
            ("col", _) => (columns, rows),
            _ => return None,
        };
        let mut tile = Self {
            lines,
            elements,
            bits,
            align: 0,
            has_stride,
        };
        // The manual requires the size of a fragment, the registers of one thread. Those of an
        // `f16` multiplicand hold each element at least twice.
        let fragment = match (*side, *ty) {
            ("a" | "b", "f16") => 32,
            _ => tile.bytes() / 32,
        };
        // The assembler uses `ldmatrix` for matrices in shared memory, which is a fault unless rows
        // of 16 bytes are aligned to 16.
        tile.align = fragment.max(tile.line_bytes().min(16));
        Some(tile)
    }

    /// The bytes of a line.
    pub(crate) fn line_bytes(&self) -> u32 {
        self.elements * self.bits / 8
    }

    /// The bytes of all lines.
    pub(crate) fn bytes(&self) -> u32 {
        self.lines * self.line_bytes()
    }

    /// The number of elements of which a stride must be a multiple.
    pub(crate) fn stride_unit(&self) -> u32 {
        self.align * 8 / self.bits
    }
}
