//! Atomic operations on memory.

use super::lanes::Over;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::check::{ObservedAccess, Observer};
use super::code::{Ins, LaneFault};
use super::decode::{Class, half_add};
use super::lanes::{LANES, Lane, MemoryOp};
use super::rounding::{canonical, flush};
use super::space::{Cell, Env, TAG, bits};
use super::warp::Warp;

/// The position of the operation in `Ins::c`.
pub(super) const OP_SHIFT: u32 = 20;

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Op {
    Add,
    AddF32,
    /// Subnormal numbers are flushed to zero, as in global memory.
    AddF32Flushed,
    AddF64,
    AddF16,
    AddBf16,
    AddF16x2,
    AddBf16x2,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Inc,
    Dec,
}

const ALL: [Op; 19] = {
    use Op::*;
    [
        Add,
        AddF32,
        AddF32Flushed,
        AddF64,
        AddF16,
        AddBf16,
        AddF16x2,
        AddBf16x2,
        MinU,
        MinS,
        MaxU,
        MaxS,
        And,
        Or,
        Xor,
        Exchange,
        CompareAndSwap,
        Inc,
        Dec,
    ]
};

impl Op {
    /// The operation with this number, as encoded in `Ins::c` of [`Rmw`] and `Ins::imm` of bulk
    /// reductions.
    pub(super) fn of_number(number: u64) -> Self {
        ALL[number as usize % ALL.len()]
    }

    /// The operation that PTX calls `name`, for a type.
    pub(super) fn parse(name: &str, class: Class, bits: u32, packed: bool) -> Option<Self> {
        let whole = matches!(bits, 32 | 64) && matches!(class, Class::Unsigned | Class::Signed);
        let raw = matches!(bits, 32 | 64) && class == Class::Bits;
        Some(match (name, class) {
            ("add", Class::Float) if packed => Self::AddF16x2,
            ("add", Class::Brain) if packed => Self::AddBf16x2,
            ("add", Class::Float) => match bits {
                16 => Self::AddF16,
                32 => Self::AddF32,
                _ => Self::AddF64,
            },
            ("add", Class::Brain) => Self::AddBf16,
            ("add", _) if whole => Self::Add,
            ("min", Class::Unsigned) if whole => Self::MinU,
            ("min", Class::Signed) if whole => Self::MinS,
            ("max", Class::Unsigned) if whole => Self::MaxU,
            ("max", Class::Signed) if whole => Self::MaxS,
            ("and", _) if raw => Self::And,
            ("or", _) if raw => Self::Or,
            ("xor", _) if raw => Self::Xor,
            ("exch", _) if raw => Self::Exchange,
            ("cas", Class::Bits) if matches!(bits, 16 | 32 | 64) => Self::CompareAndSwap,
            ("inc", Class::Unsigned) if bits == 32 => Self::Inc,
            ("dec", Class::Unsigned) if bits == 32 => Self::Dec,
            _ => return None,
        })
    }
}

/// The new value; `width` is the width of the memory operand in bits.
pub(super) fn apply(op: Op, width: u32, old: u64, b: u64, c: u64) -> u64 {
    let sign = |value: u64| {
        if width == 32 {
            i64::from(value as i32)
        } else {
            value as i64
        }
    };
    let single = |bits: u64| f32::from_bits(bits as u32);
    match op {
        Op::Add => old.wrapping_add(b),
        Op::AddF32 => canonical(single(old) + single(b)).to_bits().into(),
        Op::AddF32Flushed => {
            let sum = flush(single(old)) + flush(single(b));
            flush(canonical(sum)).to_bits().into()
        }
        Op::AddF64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        Op::AddF16 => half_add(old as u16, b as u16, false).into(),
        Op::AddBf16 => half_add(old as u16, b as u16, true).into(),
        Op::AddF16x2 | Op::AddBf16x2 => {
            let brain = op == Op::AddBf16x2;
            let high = half_add((old >> 16) as u16, (b >> 16) as u16, brain);
            u64::from(high) << 16 | u64::from(half_add(old as u16, b as u16, brain))
        }
        Op::MinU => old.min(b),
        Op::MaxU => old.max(b),
        Op::MinS => sign(old).min(sign(b)) as u64,
        Op::MaxS => sign(old).max(sign(b)) as u64,
        Op::And => old & b,
        Op::Or => old | b,
        Op::Xor => old ^ b,
        Op::Exchange => b,
        Op::CompareAndSwap => {
            if old == b {
                c
            } else {
                old
            }
        }
        Op::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        Op::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}

/// Memory that can be changed atomically.
pub(super) trait Shared: Cell {
    /// # Safety
    ///
    /// `host` is the exposed address of a live, aligned value of this size.
    unsafe fn update(host: u64, f: impl Fn(u64) -> u64) -> u64;
    fn lanes(w: &Warp, slot: u32) -> [u64; LANES];
    fn give(w: &mut Warp, slot: u32, m: u32, value: &[u64; LANES]);
}

macro_rules! shared {
    ($($ty:ty, $atomic:ty;)*) => {$(
        impl Shared for $ty {
            #[inline(always)]
            unsafe fn update(host: u64, f: impl Fn(u64) -> u64) -> u64 {
                let cell: *const $atomic = std::ptr::with_exposed_provenance(host as usize);
                // SAFETY: the caller guarantees a live aligned value; all accesses of kernels are
                // atomic.
                let cell = unsafe { &*cell };
                let mut old = cell.load(Ordering::Relaxed);
                loop {
                    let new = f(old.into()) as $ty;
                    match cell.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                        Ok(_) => return old.into(),
                        Err(now) => old = now,
                    }
                }
            }
            #[inline(always)]
            fn lanes(w: &Warp, slot: u32) -> [u64; LANES] {
                <$ty as Cell>::Reg::get(w, slot).over(u64::from)
            }
            #[inline(always)]
            fn give(w: &mut Warp, slot: u32, m: u32, value: &[u64; LANES]) {
                let value = value.over(|value| <$ty as Cell>::Reg::from(value as $ty));
                <$ty as Cell>::Reg::put(w, slot, m, value);
            }
        }
    )*};
}

shared! {
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// `d = [a + imm]`, and stores the result of the operation on the old value, `b` and `e` there,
/// lane by lane. With `CHECKED` the access is observed.
pub(super) struct Rmw<T, const CHECKED: bool>(PhantomData<T>);

impl<T: Shared, const CHECKED: bool> MemoryOp for Rmw<T, CHECKED> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let width = size_of::<T>() as u32 * 8;
        let op = Op::of_number((i.c >> OP_SHIFT).into());
        let address = w.generic(i.a, i);
        let hosts = w.hosts(env, i.a, i, m, size_of::<T>() as u64)?;
        if CHECKED && let Some(mut observer) = Observer::new(w, env, i) {
            for lane in bits(m) {
                observer.update(
                    ObservedAccess::of::<T>(lane, address[lane], 1),
                    op != Op::Exchange,
                );
            }
        }
        let (b, c) = (T::lanes(w, i.b), T::lanes(w, i.e));
        let mut old = [0; LANES];
        for lane in bits(m) {
            let op = match op {
                Op::AddF32 if address[lane] & TAG == 0 => Op::AddF32Flushed,
                op => op,
            };
            let change = |old| apply(op, width, old, b[lane], c[lane]);
            // SAFETY: `hosts` checked the lanes of `m`.
            old[lane] = unsafe { T::update(hosts[lane], change) };
        }
        T::give(w, i.d, m, &old);
        Ok(())
    }
}
