//! Decoded code: what the interpreter executes.

use super::fault::{Detail, FaultKind};
use super::space::{Env, LOCAL, PARAM, SHARED, TAG};
use super::sync::SyncOp;
use super::warp::Warp;
use crate::report::{Access, MemorySpace};

/// Where an operand is: a register of the current frame, or with the top bit set a constant.
pub(super) type Slot = u32;

/// Marks a [`Slot`] as a constant. For predicates the rest is 0 or 1; for others it is an index
/// into the pool.
pub(super) const CONST: Slot = 1 << 31;

/// No guard.
pub(super) const ALWAYS: u32 = u32::MAX;

/// Marks a guard as negated.
pub(super) const NEGATED: u32 = 1 << 31;

/// Computes all lanes of a mask; cannot fail.
///
/// Unsafe to call because it may be compiled for CPU features: see [`pick`](super::lanes::pick).
pub(super) type LaneFn = unsafe fn(&mut Warp, &Ins, u32);

/// Computes all lanes of a mask with access to memory.
///
/// Unsafe to call because it may be compiled for CPU features: see
/// [`pick_touch`](super::lanes::pick_touch).
pub(super) type TouchFn = unsafe fn(&mut Warp, &Env<'_>, &Ins, u32) -> Result<(), Trouble>;

/// What an instruction is to the interpreter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Lanes(LaneFn),
    Touch(TouchFn),
    /// The same, once all lanes that have not exited are here.
    Together(TouchFn),
    /// To `imm`.
    Jump,
    /// To entry `a` (a register) of the branch table number `imm`.
    JumpTable,
    /// Call site number `imm`.
    Call,
    Ret,
    Exit,
    Barrier(BarrierOp),
    /// `barrier.cluster.arrive`
    ClusterArrive,
    /// `barrier.cluster.wait`
    ClusterWait,
    /// Lets others run first: the thread is likely to wait for them.
    Pause,
    Sync(SyncOp),
    Trap,
    /// Message number `imm`.
    Missing,
    Nop,
}

/// `bar` and `barrier`: id in `a`, count in `b` if `counted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BarrierOp {
    pub(super) counted: bool,
    /// All lanes of a warp must execute the same one.
    pub(super) aligned: bool,
    pub(super) action: BarrierAction,
    /// The input of a reduction is negated.
    pub(super) negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarrierAction {
    Sync,
    Arrive,
    /// Number of true predicates, to `d`.
    Popc,
    /// All, to the predicate `d`.
    And,
    /// Any, to the predicate `d`.
    Or,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ins {
    pub(super) kind: Kind,
    /// The predicate that lanes need, [`ALWAYS`] for none.
    pub(super) guard: u32,
    pub(super) d: Slot,
    pub(super) a: Slot,
    pub(super) b: Slot,
    pub(super) c: Slot,
    /// A further source, of atomics.
    pub(super) e: Slot,
    pub(super) line: u32,
    pub(super) imm: u64,
}

/// What passes between caller and callee, relative to the frame of either.
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
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Callee {
    Function(usize),
    Builtin(Builtin),
    /// The address is in this register.
    Indirect(Slot),
    /// Declared, defined nowhere: message number.
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
    /// Where its code starts; `None` for one that has no body.
    pub(super) entry: Option<u32>,
    /// Where its code ends.
    pub(super) end: u32,
    pub(super) r32: u32,
    pub(super) r64: u32,
    pub(super) preds: u32,
    /// Bytes of local memory of one frame.
    pub(super) frame: u32,
    /// The largest alignment of what is in a frame.
    pub(super) local_align: u32,
    pub(super) params: Vec<Place>,
    pub(super) returns: Vec<Place>,
    /// Whether it calls functions that have a frame.
    pub(super) calls: bool,
}

/// Words of registers that a thread may have in all its frames; the host keeps them all.
pub(super) const MAX_WORDS: u64 = 1 << 18;

/// The words of so many registers of a thread. (A predicate is a bit.)
pub(super) fn words(r32: u32, r64: u32, preds: u32) -> u64 {
    u64::from(r32) + 2 * u64::from(r64) + u64::from(preds.div_ceil(32))
}

impl FunctionCode {
    /// The words of registers of a frame.
    pub(super) fn words(&self) -> u64 {
        words(self.r32, self.r64, self.preds)
    }
}

/// Why a lane cannot go on.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: FaultKind,
    pub(super) lane: u32,
    pub(super) message: String,
    /// Apart, so that a result is small where nothing is wrong.
    pub(super) more: Box<More>,
}

/// What else is known of a [`Trouble`].
#[derive(Debug, Default)]
pub(super) struct More {
    /// The access that fails.
    pub(super) access: Option<Access>,
    pub(super) detail: Detail,
}

impl Trouble {
    pub(super) fn new(kind: FaultKind, mask: u32, message: impl Into<String>) -> Self {
        Self {
            kind,
            lane: mask.trailing_zeros() & 31,
            message: message.into(),
            more: Box::default(),
        }
    }

    /// The same, with what else is known.
    pub(super) fn with(self, access: Option<Access>, detail: Detail) -> Self {
        let more = Box::new(More { access, detail });
        Self { more, ..self }
    }

    /// The trouble of one lane.
    pub(super) fn of(kind: FaultKind, lane: usize, message: impl Into<String>) -> Self {
        Self::new(kind, 1 << (lane & 31), message)
    }

    /// The access of one lane is at no multiple of `align`.
    pub(super) fn misaligned(at: u64, size: u64, align: u64, lane: usize) -> Self {
        let message = format!("{:#x} is not a multiple of {align}", at & !TAG);
        let trouble = Self::of(FaultKind::MisalignedAddress, lane, message);
        trouble.with(Some(access(at, size)), Detail::None)
    }
}

/// An access at a generic address.
pub(super) fn access(at: u64, size: u64) -> Access {
    Access {
        space: match at & TAG {
            SHARED => MemorySpace::Shared,
            LOCAL => MemorySpace::Local,
            PARAM => MemorySpace::Param,
            _ => MemorySpace::Global,
        },
        address: match at & TAG {
            SHARED | LOCAL | PARAM => at & !TAG,
            _ => at,
        },
        size,
    }
}
