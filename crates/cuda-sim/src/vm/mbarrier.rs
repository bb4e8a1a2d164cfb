//! `mbarrier`: a barrier in shared memory that counts threads and transaction bytes.
//!
//! The ISA leaves the layout of its 64 bits open. Here they hold the pending arrivals (20 bits),
//! the expected arrivals of each phase (20), the pending bytes (21, signed) and the phase (3).
//! `mbarrier.arrive` returns the word before the arrival.

use super::access::Translator;
use super::check::{ObservedAccess, Observer};
use super::code::Ins;
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::lanes::MemoryOp;
use super::space::Env;
use super::vector::LANES;
use super::vector::bits;
use super::warp::Warp;
use crate::vm::atomic::Shared;

/// The largest count of threads or bytes.
const MAX: u32 = (1 << 20) - 1;

/// An operation on the barrier at address `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Initializes the barrier for `b` arrivals.
    Init,
    Inval,
    /// Expects `e` more bytes, then `b` threads arrive; the previous word goes to `d`.
    Arrive,
    /// Like `Arrive`, and the threads no longer take part in later phases.
    ArriveDrop,
    /// Like `Arrive`, but must not complete the phase.
    ArriveNoComplete,
    ArriveDropNoComplete,
    /// Expects `e` more bytes.
    ExpectTx,
    /// Reports that `e` bytes have arrived.
    CompleteTx,
    /// Tests whether the phase of the word `b` is complete; the result goes to the predicate `d`.
    TestState,
    /// Tests whether the phase with parity `e` is complete; the result goes to the predicate `d`.
    TestParity,
    /// Has no effect, but requires an initialized barrier.
    Check,
}

/// The unpacked state of a barrier.
#[derive(Clone, Copy, Debug)]
struct State {
    pending: u32,
    expected: u32,
    bytes: i32,
    phase: u32,
}

impl State {
    fn new(word: u64) -> Self {
        Self {
            pending: word as u32 & MAX,
            expected: (word >> 20) as u32 & MAX,
            // The sign is the highest of 21 bits.
            bytes: ((word >> 40) as i32) << 11 >> 11,
            phase: (word >> 61) as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.pending)
            | u64::from(self.expected) << 20
            | u64::from(self.bytes as u32 & 0x1f_ffff) << 40
            | u64::from(self.phase) << 61
    }

    /// The word of an invalidated barrier: more arrivals are pending than expected.
    const GONE: u64 = 1;

    fn settle(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase = (self.phase + 1) & 7;
            self.pending = self.expected;
        }
    }

    fn expect(&mut self, bytes: i64) -> Result<(), &'static str> {
        let sum = i64::from(self.bytes) + bytes;
        if sum.unsigned_abs() > u64::from(MAX) {
            return Err("its count of bytes leaves the range of -1048575 to 1048575");
        }
        self.bytes = sum as i32;
        Ok(())
    }

    fn arrive(&mut self, count: u32, drops: bool, completes: bool) -> Result<(), &'static str> {
        if count == 0 || count > self.pending {
            return Err("more threads arrive than are pending, or none");
        }
        if !completes && count == self.pending {
            return Err("`.noComplete` would complete its phase");
        }
        self.pending -= count;
        if drops {
            self.expected -= count.min(self.expected);
        }
        Ok(())
    }

    /// Applies `op` to the state.
    fn apply(&mut self, op: Op, count: u32, bytes: u32) -> Result<(), &'static str> {
        let bytes = i64::from(bytes);
        match op {
            Op::Arrive | Op::ArriveDrop | Op::ArriveNoComplete | Op::ArriveDropNoComplete => {
                let drops = matches!(op, Op::ArriveDrop | Op::ArriveDropNoComplete);
                let completes = matches!(op, Op::Arrive | Op::ArriveDrop);
                self.expect(bytes)?;
                self.arrive(count, drops, completes)?;
            }
            Op::ExpectTx => self.expect(bytes)?,
            Op::CompleteTx => self.expect(-bytes)?,
            _ => return Ok(()),
        }
        // Byte counts alone do not complete a phase before its bytes are expected.
        if op != Op::ExpectTx {
            self.settle();
        }
        Ok(())
    }
}

/// Reports that `bytes` have arrived to the barrier at the generic address `at`.
pub(super) fn complete(
    w: &Warp,
    env: &Env<'_>,
    at: u64,
    bytes: u32,
    lane: usize,
) -> Result<(), LaneFault> {
    operate(w, env, Op::CompleteTx, (at, 0, bytes), lane).map(drop)
}

/// Applies `op` to the barrier at a generic address; returns the previous word.
fn operate(
    w: &Warp,
    env: &Env<'_>,
    op: Op,
    (at, count, bytes): (u64, u32, u32),
    lane: usize,
) -> Result<u64, LaneFault> {
    let wrong = |why: &str| {
        let message = format!("mbarrier at {:#x}: {why}", at & 0xffff_ffff);
        LaneFault::of(FaultKind::IllegalInstruction, lane, message)
    };
    let host = Translator::default().translate(w, env, at, 8, 8, lane)?;
    if op == Op::Init && !(1..=MAX).contains(&count) {
        return Err(wrong("its count must be from 1 to 1048575"));
    }
    let mut problem = None;
    let change = |word| {
        let mut state = State::new(word);
        match op {
            Op::Init => {
                return State {
                    pending: count,
                    expected: count,
                    bytes: 0,
                    phase: 0,
                }
                .word();
            }
            _ if state.pending > state.expected => {
                return word;
            }
            Op::Inval => return State::GONE,
            _ => {}
        }
        match state.apply(op, count, bytes) {
            Ok(()) => state.word(),
            Err(_) => word,
        }
    };
    // SAFETY: `host` is the address of 8 live bytes, aligned to 8 ← `Translator::translate` checked
    // it.
    let before = unsafe { u64::update(host, change) };
    if op != Op::Init {
        let mut state = State::new(before);
        if state.pending > state.expected {
            problem = Some("it has not been initialized");
        } else if let Err(why) = state.apply(op, count, bytes) {
            problem = Some(why);
        }
    }
    match problem {
        Some(why) => Err(wrong(why)),
        None => Ok(before),
    }
}

const ALL: [Op; 11] = [
    Op::Init,
    Op::Inval,
    Op::Arrive,
    Op::ArriveDrop,
    Op::ArriveNoComplete,
    Op::ArriveDropNoComplete,
    Op::ExpectTx,
    Op::CompleteTx,
    Op::TestState,
    Op::TestParity,
    Op::Check,
];

impl Op {
    /// The encoding in `Ins::imm`.
    pub(super) fn number(self) -> u64 {
        ALL.iter().position(|&op| op == self).unwrap_or(0) as u64
    }
}

/// Applies operation `imm`, lane by lane.
pub(super) struct Operate;

impl MemoryOp for Operate {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let op = ALL[i.imm as usize % ALL.len()];
        let address = w.get64(i.a);
        let states = match op {
            Op::TestState => w.get64(i.b),
            _ => [0; LANES],
        };
        let counts = match op {
            Op::TestState | Op::TestParity => [0; LANES],
            _ => w.get32(i.b),
        };
        let bytes = w.get32(i.e);
        let (mut words, mut passed) = ([0; LANES], 0);
        if let Some(mut observer) = Observer::new(w, env, i) {
            for lane in bits(m) {
                observer.initialize(ObservedAccess::new(lane, address[lane], 8));
            }
        }
        for lane in bits(m) {
            let of = (address[lane], counts[lane], bytes[lane]);
            words[lane] = operate(w, env, op, of, lane)?;
            let phase = State::new(words[lane]).phase;
            let is_over = match op {
                Op::TestState => phase != State::new(states[lane]).phase,
                _ => phase & 1 != bytes[lane] & 1,
            };
            passed |= u32::from(is_over) << lane;
        }
        let tests = matches!(op, Op::TestState | Op::TestParity);
        if tests
            && passed != 0
            && let Some(mut observer) = Observer::new(w, env, i)
        {
            observer.acquire();
        }
        match op {
            Op::TestState | Op::TestParity => w.put_pred(i.d, m, passed),
            Op::Arrive | Op::ArriveDrop | Op::ArriveNoComplete | Op::ArriveDropNoComplete => {
                w.put64(i.d, m, &words);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The pending arrivals of the word `a`.
pub(super) fn pending(word: u64) -> u32 {
    State::new(word).pending
}
