//! Operations: what an instruction computes, as far as addresses can depend on it.

use crate::ast::{Location, Space};

use super::object::ObjectUse;
use super::tile::Tile;

/// A register before [`ssa`](super::ssa) has run, and a value after it.
pub(crate) type Value = u32;

/// The value of a register that no instruction has set.
pub(crate) const UNDEFINED: Value = 0;

/// A coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Axis {
    X,
    Y,
    Z,
}

impl Axis {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "x" => Some(Self::X),
            "y" => Some(Self::Y),
            "z" => Some(Self::Z),
            _ => None,
        }
    }
}

/// A special register whose value the analysis knows something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(Axis),
    Ntid(Axis),
    Ctaid(Axis),
    Nctaid(Axis),
    LaneId,
    WarpSize,
    DynamicShared,
}

/// A source of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A register, or a value.
    Value(Value),
    /// A number, in two's complement.
    Number(u64),
    /// A special register.
    Special(Special),
    /// The address of a variable, plus an offset.
    Address(u32, i64),
    /// Something else, of which nothing is known.
    Unknown,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// What a comparison of a floating-point number says about its bits, as an unsigned number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatRange {
    /// The bits of the number: 32 or 64.
    pub(crate) bits: u32,
    /// Whether the range is that of the bits without the sign.
    pub(crate) is_absolute: bool,
    /// The value of the predicate for which the bits are in the range. Otherwise, nothing is known
    /// about them.
    pub(crate) truth: bool,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl FloatRange {
    /// The bits of infinity.
    pub(crate) fn infinity(&self) -> u64 {
        match self.bits {
            32 => 0xff << 23,
            _ => 0x7ff << 52,
        }
    }
}

/// An operation on integers of `bits` bits. The comment gives its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `a`
    Copy { bits: u32 },
    /// `a + b`
    Add { bits: u32 },
    /// `a - b`
    Sub { bits: u32 },
    /// The low half of `a · b`.
    Mul { bits: u32 },
    /// The high half of `a · b`.
    MulHigh { bits: u32, signed: bool },
    /// `a · b`; the result has twice the bits.
    MulWide { bits: u32, signed: bool },
    /// `a / b`
    Div { bits: u32, signed: bool },
    /// `a % b`
    Rem { bits: u32, signed: bool },
    /// The smaller of `a` and `b`.
    Min { bits: u32, signed: bool },
    /// The larger of `a` and `b`.
    Max { bits: u32, signed: bool },
    /// `a & b`
    And { bits: u32 },
    /// `a | b`
    Or { bits: u32 },
    /// `a ^ b`
    Xor { bits: u32 },
    /// `!a`
    Not { bits: u32 },
    /// `a << b`
    Shl { bits: u32 },
    /// `a >> b`
    Shr { bits: u32, signed: bool },
    /// The unsigned bit field of `a` at `b` with the length `c`.
    Field { bits: u32 },
    /// The low `from` bits of `a`, extended by their sign or by zeros to `bits`.
    Extend { from: u32, signed: bool, bits: u32 },
    /// `c ? a : b`
    Select { bits: u32 },
    /// The predicate `a relation b`.
    Compare {
        bits: u32,
        signed: bool,
        relation: Relation,
    },
    /// The predicate `a & b`.
    BoolAnd,
    /// The predicate `a | b`.
    BoolOr,
    /// The predicate `!a`.
    BoolNot,
    /// A predicate of which nothing is known.
    BoolUnknown,
    /// A number of which only the range is known.
    Unknown { bits: u32, low: i128, high: i128 },
    /// The absolute value of a floating-point number. The number is in `unmodelled`, because no
    /// address depends on the result by this operation alone.
    FloatAbs { bits: u32 },
    /// A sum or difference of floating-point numbers without a rounding modifier.
    FloatSum { bits: u32 },
    /// A product of floating-point numbers without a rounding modifier.
    FloatProduct { bits: u32 },
    /// The predicate that a floating-point number, which is in `unmodelled`, is in a range.
    FloatCompare(FloatRange),
    /// `a` converted from an address in `space` to a generic address.
    ToGeneric { space: Space },
    /// `a` converted from a generic address to an address in `space`.
    FromGeneric { space: Space },
    /// `size` bytes at `offset` of a parameter, extended as by `Extend`.
    Param {
        param: u32,
        offset: u64,
        size: u32,
        signed: bool,
        bits: u32,
    },
    /// `size` bytes of a parameter at the address `a` plus `offset`, extended as by `Extend`. A
    /// lowered kernel has `Param` or `Unknown` in its place.
    ParamAt {
        offset: i64,
        size: u32,
        signed: bool,
        bits: u32,
    },
    /// The access with this number, at the address `a`, or to the object whose handle is `a`. For a
    /// surface, `b` is the coordinate in bytes; for a matrix, the stride in elements.
    Access(u32),
    /// A cache policy that `createpolicy` makes. A lowered kernel has `Unknown` in its place.
    Policy,
    /// The requirement with this number on `a`. In a lowered kernel it has no source.
    Require(u32),
    /// The jump to the target with the number `a` in a table with this number of
    /// targets.
    Jump { targets: u32, line: u32 },
}

/// The predicate that guards an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) predicate: Source,
    pub(crate) negated: bool,
}

/// An operation with its sources and its destination.
#[derive(Clone, Debug)]
pub(crate) struct Ins {
    pub(crate) op: Op,
    pub(crate) sources: [Source; 3],
    /// The registers that an unknown result depends on.
    pub(super) unmodelled: Vec<Value>,
    /// The destination.
    pub(crate) target: Option<Value>,
    pub(crate) guard: Option<Guard>,
    /// The value of the destination if the guard is false.
    pub(crate) previous: Value,
}

impl Ins {
    /// The values that an unknown result depends on.
    pub(crate) fn unmodelled(&self) -> &[Value] {
        &self.unmodelled
    }
}

/// The merge of values at the beginning of a block.
#[derive(Clone, Debug)]
pub(crate) struct Phi {
    /// The register that it merges.
    pub(super) register: Value,
    pub(crate) target: Value,
    /// A value for each predecessor of the block.
    pub(crate) args: Vec<Value>,
}

/// A block: operations without branches between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) phis: Vec<Phi>,
    pub(crate) ins: Vec<Ins>,
    /// The condition under which the one predecessor of this block branches to it.
    pub(crate) edge: Option<Guard>,
    pub(crate) succs: Vec<u32>,
    /// Whether it has an effect that an assembler must keep in each iteration of a loop.
    pub(crate) has_effect: bool,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store, or a reduction.
    Write,
    /// An atomic operation.
    Atomic,
}

/// An access to memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) kind: AccessKind,
    /// The state space; `None` for a generic address.
    pub(crate) space: Option<Space>,
    /// Whether only global and shared memory may be accessed, even with a generic address.
    pub(crate) is_common: bool,
    /// Whether it stores: an atomic operation or a `discard` does not set the bytes to a value of
    /// the thread.
    pub(crate) is_store: bool,
    /// The number of bytes; for a `tile`, those of all lines.
    pub(crate) size: u32,
    /// Whether it accesses `size` bytes at one address: not for matrices.
    pub(crate) is_simple: bool,
    /// The matrix of `wmma.load` or `wmma.store`, if it is modelled.
    pub(crate) tile: Option<Tile>,
    /// The offset that the instruction adds to its address.
    pub(crate) offset: i64,
    /// The bits of the register that holds the address.
    pub(crate) bits: u32,
    pub(crate) line: u32,
    pub(crate) location: Option<Location>,
    /// The opcode with its modifiers.
    pub(crate) mnemonic: String,
    /// The index of the statement in the body of the kernel.
    pub(crate) statement: u32,
    /// The index of the operand that holds the address.
    pub(crate) operand: u32,
    /// The use of a texture or a surface, whose handle takes the place of the address.
    pub(crate) object: Option<ObjectUse>,
}

impl Access {
    /// Whether a generic address may be that of a variable in `space`.
    pub(crate) fn fits(&self, space: Space) -> bool {
        !self.is_common || matches!(space, Space::Global | Space::Shared)
    }
}

impl Access {
    /// The alignment that the address must have.
    pub(crate) fn align(&self) -> u32 {
        self.tile.map_or(self.size, |tile| tile.align)
    }
}

/// A parameter of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The alignment that the code relies on for the memory at the address in this parameter.
    pub(crate) target_align: u64,
}

/// A variable whose address the kernel uses.
#[derive(Clone, Debug)]
pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) space: Space,
    /// The size in bytes; `None` if another module may define it.
    pub(crate) size: Option<u64>,
    /// Whether its size is that of the dynamic shared memory of the launch.
    pub(crate) is_dynamic: bool,
    pub(crate) align: u64,
    /// Whether it belongs to the module and keeps its contents after the kernel.
    pub(crate) is_module: bool,
    /// Whether it is a constant table of the module, which the kernel reads like a variable of its
    /// own.
    pub(crate) is_table: bool,
    /// The number of the parameter if it is one.
    pub(crate) param: Option<u32>,
    /// Whether code that a thread may reach takes the address.
    pub(crate) is_used: bool,
}
