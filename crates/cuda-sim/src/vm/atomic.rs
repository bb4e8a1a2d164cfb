//! Atomic operations on memory. To add one, add a row to the table.

use super::vector::Over;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::address::TAG;
use super::check::{ObservedAccess, Observer};
use super::code::Ins;
use super::decode::{Class, half_add};
use super::lane_fault::LaneFault;
use super::lanes::{Lane, MemoryOp};
use super::rounding::{canonical, flush};
use super::space::{Cell, Env};
use super::vector::LANES;
use super::vector::bits;
use super::warp::Warp;

/// The position of the operation in `Ins::c`.
pub(super) const OP_SHIFT: u32 = 20;

/// The parts from which an operation computes the new value.
#[derive(Clone, Copy)]
struct Parts {
    /// The width of the memory operand in bits.
    width: u32,
    old: u64,
    b: u64,
    c: u64,
}

impl Parts {
    /// A value of the width of the memory operand as a signed number.
    #[inline(always)]
    fn signed(self, value: u64) -> i64 {
        match self.width {
            32 => i64::from(value as i32),
            _ => value as i64,
        }
    }
}

/// The type for which an operation is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct For {
    class: Class,
    bits: u32,
    packed: bool,
}

impl For {
    fn is(self, class: Class, bits: &[u32]) -> bool {
        self.class == class && !self.packed && bits.contains(&self.bits)
    }

    fn is_pair(self, class: Class) -> bool {
        self.class == class && self.packed && self.bits == 16
    }

    fn unsigned(self) -> bool {
        self.class == Class::Unsigned && matches!(self.bits, 32 | 64)
    }

    fn signed(self) -> bool {
        self.class == Class::Signed && matches!(self.bits, 32 | 64)
    }

    fn raw(self) -> bool {
        self.class == Class::Bits && matches!(self.bits, 32 | 64)
    }
}

/// Declares the table of atomic operations. A row has the variant, the name of PTX, the types that
/// it is for, and the new value.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $op:ident = $name:literal for |$ty:ident| $is_for:expr, |$p:ident| $value:expr;
    )*) => {
        /// An atomic operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Op {
            $($(#[$doc])* $op),*
        }

        impl Op {
            /// All operations, in the order of their numbers.
            const ALL: &[Self] = &[$(Self::$op),*];

            /// The name of PTX.
            #[cfg(test)]
            fn name(self) -> &'static str {
                match self {
                    $(Self::$op => $name),*
                }
            }

            /// Returns whether `name` on values of type `ty` is this operation.
            fn is(self, name: &str, ty: For) -> bool {
                match self {
                    $(Self::$op => {
                        let $ty = ty;
                        name == $name && $is_for
                    })*
                }
            }

            #[inline(always)]
            fn value(self, parts: Parts) -> u64 {
                match self {
                    $(Self::$op => {
                        let $p = parts;
                        $value
                    })*
                }
            }
        }
    };
}

operations! {
    Add = "add" for |ty| ty.unsigned() || ty.signed(), |p| p.old.wrapping_add(p.b);
    AddF32 = "add" for |ty| ty.is(Class::Float, &[32]),
        |p| canonical(single(p.old) + single(p.b)).to_bits().into();
    /// Flushes subnormal numbers to zero. Additions in global memory use it in place of `AddF32`.
    AddF32Flushed = "add" for |_ty| false,
        |p| flush(canonical(flush(single(p.old)) + flush(single(p.b)))).to_bits().into();
    AddF64 = "add" for |ty| ty.is(Class::Float, &[64]),
        |p| (f64::from_bits(p.old) + f64::from_bits(p.b)).to_bits();
    AddF16 = "add" for |ty| ty.is(Class::Float, &[16]),
        |p| half_add(p.old as u16, p.b as u16, false).into();
    AddBf16 = "add" for |ty| ty.is(Class::Brain, &[16]),
        |p| half_add(p.old as u16, p.b as u16, true).into();
    AddF16x2 = "add" for |ty| ty.is_pair(Class::Float),
        |p| add_halves(p.old, p.b, false);
    AddBf16x2 = "add" for |ty| ty.is_pair(Class::Brain),
        |p| add_halves(p.old, p.b, true);
    MinU = "min" for |ty| ty.unsigned(), |p| p.old.min(p.b);
    MinS = "min" for |ty| ty.signed(), |p| p.signed(p.old).min(p.signed(p.b)) as u64;
    MaxU = "max" for |ty| ty.unsigned(), |p| p.old.max(p.b);
    MaxS = "max" for |ty| ty.signed(), |p| p.signed(p.old).max(p.signed(p.b)) as u64;
    And = "and" for |ty| ty.raw(), |p| p.old & p.b;
    Or = "or" for |ty| ty.raw(), |p| p.old | p.b;
    Xor = "xor" for |ty| ty.raw(), |p| p.old ^ p.b;
    Exchange = "exch" for |ty| ty.raw(), |p| p.b;
    CompareAndSwap = "cas" for |ty| ty.raw() || ty.is(Class::Bits, &[16]),
        |p| if p.old == p.b { p.c } else { p.old };
    Inc = "inc" for |ty| ty.is(Class::Unsigned, &[32]),
        |p| if p.old >= p.b { 0 } else { p.old + 1 };
    Dec = "dec" for |ty| ty.is(Class::Unsigned, &[32]),
        |p| if p.old == 0 || p.old > p.b { p.b } else { p.old - 1 };
}

impl Op {
    /// The operation with this number, as encoded in `Ins::c` of [`Rmw`] and `Ins::imm` of bulk
    /// reductions.
    pub(super) fn of_number(number: u64) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }

    /// The operation that PTX calls `name`, for a type.
    pub(super) fn parse(name: &str, class: Class, bits: u32, packed: bool) -> Option<Self> {
        let ty = For {
            class,
            bits,
            packed,
        };
        Self::ALL.iter().copied().find(|op| op.is(name, ty))
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The sums of the lower and of the upper halves.
fn add_halves(a: u64, b: u64, brain: bool) -> u64 {
    let high = half_add((a >> 16) as u16, (b >> 16) as u16, brain);
    u64::from(high) << 16 | u64::from(half_add(a as u16, b as u16, brain))
}

/// The new value; `width` is the width of the memory operand in bits.
pub(super) fn apply(op: Op, width: u32, old: u64, b: u64, c: u64) -> u64 {
    op.value(Parts { width, old, b, c })
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
        // A lane whose invalid access is skipped gets 0.
        let all = m;
        let m = if CHECKED {
            w.valid(env, i, m, size_of::<T>() as u64)
        } else {
            m
        };
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
        T::give(w, i.d, all, &old);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Op};

    const CLASSES: [Class; 6] = [
        Class::Unsigned,
        Class::Signed,
        Class::Float,
        Class::Brain,
        Class::Bits,
        Class::Pred,
    ];

    /// All types, valid or not.
    fn types() -> impl Iterator<Item = (Class, u32, bool)> {
        let bits = [1, 8, 16, 32, 64, 128];
        let classes = CLASSES.into_iter();
        classes.flat_map(move |class| {
            bits.into_iter()
                .flat_map(move |bits| [false, true].map(|packed| (class, bits, packed)))
        })
    }

    #[test]
    fn a_name_and_a_type_select_at_most_one_operation() {
        for op in Op::ALL {
            for (class, bits, packed) in types() {
                let ty = super::For {
                    class,
                    bits,
                    packed,
                };
                let found: Vec<Op> = Op::ALL
                    .iter()
                    .copied()
                    .filter(|o| o.is(op.name(), ty))
                    .collect();
                assert!(found.len() <= 1, "{} of {ty:?}: {found:?}", op.name());
            }
        }
    }

    #[test]
    fn every_operation_parses_and_keeps_its_number() {
        for (number, &op) in Op::ALL.iter().enumerate() {
            assert_eq!(op as usize, number);
            assert_eq!(Op::of_number(number as u64), op);
            let is_parsed = types()
                .any(|(class, bits, packed)| Op::parse(op.name(), class, bits, packed) == Some(op));
            // `AddF32Flushed` has no name of its own: it is selected for global memory.
            assert_eq!(is_parsed, op != Op::AddF32Flushed, "{op:?}");
        }
    }
}
