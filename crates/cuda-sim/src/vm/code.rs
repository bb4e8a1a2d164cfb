//! Decoded code, which the interpreter executes.

use super::barrier::BarrierAction;
use super::lane_fault::LaneFault;
use super::space::Env;
use super::sync::SyncOp;
use super::warp::Warp;

/// The location of an operand: a register of the current frame or, with the top bit set, a
/// constant.
pub(super) type Slot = u32;

/// Marks a [`Slot`] as a constant. For predicates the remaining bits are 0 or 1; for others they
/// are an index into the pool.
pub(super) const CONST: Slot = 1 << 31;

/// The guard of an unconditional instruction.
pub(super) const ALWAYS: u32 = u32::MAX;

/// Marks a guard as negated.
pub(super) const NEGATED: u32 = 1 << 31;

/// Computes all lanes of a mask; cannot fail.
///
/// Unsafe to call because it may be compiled for CPU features that are missing: see
/// [`pick`](super::lanes::pick).
pub(super) type LaneFn = unsafe fn(&mut Warp, &Ins, u32);

/// Computes all lanes of a mask with access to memory.
///
/// Unsafe to call because it may be compiled for CPU features that are missing: see
/// [`memory_fn`](super::lanes::memory_fn).
pub(super) type MemoryFn = unsafe fn(&mut Warp, &Env<'_>, &Ins, u32) -> Result<(), LaneFault>;

/// The way in which the interpreter executes an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Lanes(LaneFn),
    Memory(MemoryFn),
    /// Like `Memory`, but runs only when all lanes that have not exited have arrived.
    Converged(MemoryFn),
    /// A jump to instruction `imm`.
    Jump,
    /// A jump to entry `a` (a register) of branch table number `imm`.
    JumpTable,
    /// A call at call site number `imm`.
    Call,
    Ret,
    Exit,
    Barrier(BarrierOp),
    /// `barrier.cluster.arrive`
    ClusterArrive,
    /// `barrier.cluster.wait`
    ClusterWait,
    /// Lets other threads run first, because the thread is likely to wait for them.
    Pause,
    Sync(SyncOp),
    Trap,
    /// An unsupported instruction, which fails with message number `imm`.
    Unsupported,
    Nop,
}

/// `bar` and `barrier`: the id is in `a`, the thread count in `b` if `counted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BarrierOp {
    pub(super) counted: bool,
    /// All lanes of a warp must execute the same instruction.
    pub(super) aligned: bool,
    pub(super) action: BarrierAction,
    /// The input of the reduction is negated.
    pub(super) negated: bool,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ins {
    pub(super) kind: Kind,
    /// The predicate that enables lanes; [`ALWAYS`] for none.
    pub(super) guard: u32,
    pub(super) d: Slot,
    pub(super) a: Slot,
    pub(super) b: Slot,
    /// A source. In memory accesses, four fields instead: the alignment (bits 0 to 7),
    /// [`NARROW`](super::address::NARROW) (bit 8), the tag of the address (from
    /// [`TAG_SHIFT`](super::address::TAG_SHIFT) on), and what the access defines above that.
    pub(super) c: Slot,
    /// A further source, used by atomics.
    pub(super) e: Slot,
    pub(super) line: u32,
    pub(super) imm: u64,
}

/// An argument or a result of a call, relative to the frame of caller or callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Local { offset: u32, size: u32 },
    R32(Slot),
    R64(Slot),
    Pred(Slot),
}

/// Functions that the device provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Printf,
    Assert,
    SetConditional,
    Malloc,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Callee {
    Function(usize),
    Builtin(Builtin),
    /// The function address is in this register.
    Indirect(Slot),
    /// A function that is declared but not defined; calls fail with this message number.
    Undefined(u32),
}

#[derive(Clone, Debug)]
pub(super) struct CallSite {
    pub(super) callee: Callee,
    pub(super) args: Vec<Place>,
    pub(super) returns: Vec<Place>,
}

/// A function after decoding.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionCode {
    pub(super) name: String,
    /// The first instruction; `None` for a function without a body.
    pub(super) entry: Option<u32>,
    /// The end of its code.
    pub(super) end: u32,
    pub(super) r32: u32,
    pub(super) r64: u32,
    pub(super) preds: u32,
    /// The size of one frame's local memory in bytes.
    pub(super) frame: u32,
    /// The largest alignment of a variable in the frame.
    pub(super) local_align: u32,
    pub(super) params: Vec<Place>,
    pub(super) returns: Vec<Place>,
    /// Whether it calls functions that have a frame.
    pub(super) calls: bool,
}

/// The limit of register words of a thread in all its frames; the host stores all of them.
pub(super) const MAX_WORDS: u64 = 1 << 18;

/// The words that these registers of a thread take. A predicate takes one bit.
pub(super) fn words(r32: u32, r64: u32, preds: u32) -> u64 {
    u64::from(r32) + 2 * u64::from(r64) + u64::from(preds.div_ceil(32))
}

impl FunctionCode {
    /// The register words of one frame.
    pub(super) fn words(&self) -> u64 {
        words(self.r32, self.r64, self.preds)
    }
}
