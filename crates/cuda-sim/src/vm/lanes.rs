//! Operations on all lanes of a warp, compiled for baseline CPUs and for CPUs with wide vectors.

use super::code::{CONST, Ins, LaneFn, MemoryFn, Slot};
use super::lane_fault::LaneFault;
use super::space::Env;
use super::vector::{LANES, Over, each};
use super::warp::Warp;

/// A value that a register holds for each of 32 lanes.
pub(super) trait Lane: Copy + Default {
    fn get(warp: &Warp, slot: Slot) -> [Self; LANES];
    fn put(warp: &mut Warp, slot: Slot, mask: u32, value: [Self; LANES]);
}

#[inline(always)]
fn blend<T: Copy>(to: &mut [T; LANES], mask: u32, from: &[T; LANES]) {
    if mask == u32::MAX {
        *to = *from;
    } else {
        for lane in 0..LANES {
            to[lane] = if mask >> lane & 1 != 0 {
                from[lane]
            } else {
                to[lane]
            };
        }
    }
}

impl Warp {
    #[inline(always)]
    pub(super) fn get32(&self, slot: Slot) -> [u32; LANES] {
        if slot & CONST != 0 {
            [self.consts32[(slot & !CONST) as usize]; LANES]
        } else {
            self.r32[self.base.r32 as usize + slot as usize]
        }
    }

    #[inline(always)]
    pub(super) fn get64(&self, slot: Slot) -> [u64; LANES] {
        if slot & CONST != 0 {
            [self.consts64[(slot & !CONST) as usize]; LANES]
        } else {
            self.r64[self.base.r64 as usize + slot as usize]
        }
    }

    #[inline(always)]
    pub(super) fn put32(&mut self, slot: Slot, mask: u32, value: &[u32; LANES]) {
        let to = &mut self.r32[self.base.r32 as usize + slot as usize];
        blend(to, mask, value);
    }

    #[inline(always)]
    pub(super) fn put64(&mut self, slot: Slot, mask: u32, value: &[u64; LANES]) {
        let to = &mut self.r64[self.base.r64 as usize + slot as usize];
        blend(to, mask, value);
    }

    /// The lanes where a predicate is true.
    #[inline(always)]
    pub(super) fn get_pred(&self, slot: Slot) -> u32 {
        if slot & CONST != 0 {
            (slot & 1).wrapping_neg()
        } else {
            self.preds[self.base.preds as usize + slot as usize]
        }
    }

    #[inline(always)]
    pub(super) fn put_pred(&mut self, slot: Slot, mask: u32, value: u32) {
        let to = &mut self.preds[self.base.preds as usize + slot as usize];
        *to = *to & !mask | value & mask;
    }
}

macro_rules! lane_type {
    ($($ty:ty, $get:ident, $put:ident, $bits:ident => $from:expr, $to:expr;)*) => {$(
        impl Lane for $ty {
            #[inline(always)]
            fn get(warp: &Warp, slot: Slot) -> [Self; LANES] {
                warp.$get(slot).over($from)
            }
            #[inline(always)]
            fn put(warp: &mut Warp, slot: Slot, mask: u32, value: [Self; LANES]) {
                warp.$put(slot, mask, &value.over($to));
            }
        }
    )*};
}

lane_type! {
    u8, get32, put32, u32 => |bits| bits as u8, u32::from;
    i8, get32, put32, u32 => |bits| bits as i8, |value| u32::from(value as u8);
    u16, get32, put32, u32 => |bits| bits as u16, u32::from;
    i16, get32, put32, u32 => |bits| bits as i16, |value| u32::from(value as u16);
    u32, get32, put32, u32 => |bits| bits, |value| value;
    i32, get32, put32, u32 => |bits| bits as i32, |value| value as u32;
    f32, get32, put32, u32 => f32::from_bits, f32::to_bits;
    u64, get64, put64, u64 => |bits| bits, |value| value;
    i64, get64, put64, u64 => |bits| bits as i64, |value| value as u64;
    f64, get64, put64, u64 => f64::from_bits, f64::to_bits;
}

/// A value whose registers hold nothing else.
pub(super) trait Row: Lane {
    /// The values of all lanes, unless `slot` is a constant.
    fn row(warp: &Warp, slot: Slot) -> Option<&[Self; LANES]>;
    /// The values of all lanes of the register `slot`.
    fn row_mut(warp: &mut Warp, slot: Slot) -> &mut [Self; LANES];
}

macro_rules! row_type {
    ($($ty:ty, $registers:ident;)*) => {$(
        impl Row for $ty {
            #[inline(always)]
            fn row(warp: &Warp, slot: Slot) -> Option<&[Self; LANES]> {
                if slot & CONST != 0 {
                    return None;
                }
                Some(&warp.$registers[warp.base.$registers as usize + slot as usize])
            }
            #[inline(always)]
            fn row_mut(warp: &mut Warp, slot: Slot) -> &mut [Self; LANES] {
                &mut warp.$registers[warp.base.$registers as usize + slot as usize]
            }
        }
    )*};
}

row_type! {
    u32, r32;
    u64, r64;
}

/// The lane value of a predicate.
#[derive(Clone, Copy, Default)]
pub(super) struct Bit(pub(super) bool);

impl Lane for Bit {
    #[inline(always)]
    fn get(warp: &Warp, slot: Slot) -> [Self; LANES] {
        let bits = warp.get_pred(slot);
        let mut value = [Self(false); LANES];
        for (lane, bit) in value.iter_mut().enumerate() {
            bit.0 = bits >> lane & 1 != 0;
        }
        value
    }

    #[inline(always)]
    fn put(warp: &mut Warp, slot: Slot, mask: u32, value: [Self; LANES]) {
        warp.put_pred(slot, mask, mask_of(&value));
    }
}

/// The lanes whose bit is true.
///
/// Not inlined, so that the caller computes the bits in vectors: the compiler handles the lanes one
/// by one where it sees that they are combined.
#[inline(never)]
fn mask_of(value: &[Bit; LANES]) -> u32 {
    let (eights, _) = value.as_chunks::<8>();
    let mut mask = 0;
    for (index, eight) in eights.iter().enumerate() {
        let bytes = u64::from_le_bytes(eight.map(|bit| bit.0.into()));
        // The product moves the lowest bit of byte `n` to bit `56 + n`.
        let bits = bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= (bits as u32) << (8 * index);
    }
    mask
}

#[inline(always)]
pub(super) fn unary<A: Lane, D: Lane>(w: &mut Warp, i: &Ins, m: u32, f: impl Fn(A) -> D) {
    let a = A::get(w, i.a);
    D::put(w, i.d, m, each(|lane| f(a[lane])));
}

#[inline(always)]
pub(super) fn binary<A: Lane, B: Lane, D: Lane>(
    w: &mut Warp,
    i: &Ins,
    m: u32,
    f: impl Fn(A, B) -> D,
) {
    let a = A::get(w, i.a);
    let b = B::get(w, i.b);
    D::put(w, i.d, m, each(|lane| f(a[lane], b[lane])));
}

#[inline(always)]
pub(super) fn ternary<A: Lane, B: Lane, C: Lane, D: Lane>(
    w: &mut Warp,
    i: &Ins,
    m: u32,
    f: impl Fn(A, B, C) -> D,
) {
    let a = A::get(w, i.a);
    let b = B::get(w, i.b);
    let c = C::get(w, i.c);
    D::put(w, i.d, m, each(|lane| f(a[lane], b[lane], c[lane])));
}

/// The body of a [`LaneFn`], before it is compiled for particular CPU features.
pub(super) trait LaneOp {
    fn run(w: &mut Warp, i: &Ins, m: u32);
}

/// The body of a [`MemoryFn`], before it is compiled for particular CPU features.
pub(super) trait MemoryOp {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault>;
}

/// Whether this CPU has the features that the wide versions are compiled for.
pub(super) fn wide_cpu() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("f16c")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

// `K` is compiled separately for a whole warp, which is the usual case: without the code that keeps
// the values of some lanes, the compiler uses vectors for more operations and saves no registers.

fn plain<K: LaneOp>(w: &mut Warp, i: &Ins, m: u32) {
    if m == u32::MAX {
        K::run(w, i, u32::MAX);
    } else {
        plain_partial::<K>(w, i, m);
    }
}

#[inline(never)]
fn plain_partial<K: LaneOp>(w: &mut Warp, i: &Ins, m: u32) {
    K::run(w, i, m);
}

fn plain_memory<K: MemoryOp>(w: &mut Warp, e: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
    K::run(w, e, i, m)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2,popcnt,lzcnt,f16c")]
fn wide<K: LaneOp>(w: &mut Warp, i: &Ins, m: u32) {
    if m == u32::MAX {
        K::run(w, i, u32::MAX);
    } else {
        wide_partial::<K>(w, i, m);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma,bmi2,popcnt,lzcnt,f16c")]
fn wide_partial<K: LaneOp>(w: &mut Warp, i: &Ins, m: u32) {
    K::run(w, i, m);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2,popcnt,lzcnt,f16c")]
fn wide_memory<K: MemoryOp>(w: &mut Warp, e: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
    K::run(w, e, i, m)
}

/// The version of `K` for all CPUs, as a function that is never inlined.
#[inline(never)]
pub(super) fn plain_memory_outlined<K: MemoryOp>(
    w: &mut Warp,
    e: &Env<'_>,
    i: &Ins,
    m: u32,
) -> Result<(), LaneFault> {
    K::run(w, e, i, m)
}

/// The version of `K` for wide CPUs, as a function that is never inlined.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma,bmi2,popcnt,lzcnt,f16c")]
pub(super) fn wide_memory_outlined<K: MemoryOp>(
    w: &mut Warp,
    e: &Env<'_>,
    i: &Ins,
    m: u32,
) -> Result<(), LaneFault> {
    K::run(w, e, i, m)
}

/// Returns the version of `K` for wide CPUs if `is_wide` (the result of [`wide_cpu`]), and
/// otherwise the version for all CPUs.
pub(super) fn pick<K: LaneOp>(is_wide: bool) -> LaneFn {
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return wide::<K>;
    }
    let _ = is_wide;
    plain::<K>
}

/// Returns the version of `K` for wide CPUs if `is_wide` (the result of [`wide_cpu`]), and
/// otherwise the version for all CPUs.
pub(super) fn memory_fn<K: MemoryOp>(is_wide: bool) -> MemoryFn {
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return wide_memory::<K>;
    }
    let _ = is_wide;
    plain_memory::<K>
}

/// Creates a [`Kind::Lanes`](super::code::Kind) from a computation on one lane.
macro_rules! lanes {
    ($wide:expr, |$a:ident: $ta:ty| -> $td:ty $body:block) => {{
        struct K;
        impl $crate::vm::lanes::LaneOp for K {
            #[inline(always)]
            fn run(w: &mut $crate::vm::warp::Warp, i: &$crate::vm::code::Ins, m: u32) {
                $crate::vm::lanes::unary(w, i, m, |$a: $ta| -> $td { $body });
            }
        }
        $crate::vm::code::Kind::Lanes($crate::vm::lanes::pick::<K>($wide))
    }};
    ($wide:expr, |$a:ident: $ta:ty, $b:ident: $tb:ty| -> $td:ty $body:block) => {{
        struct K;
        impl $crate::vm::lanes::LaneOp for K {
            #[inline(always)]
            fn run(w: &mut $crate::vm::warp::Warp, i: &$crate::vm::code::Ins, m: u32) {
                $crate::vm::lanes::binary(w, i, m, |$a: $ta, $b: $tb| -> $td { $body });
            }
        }
        $crate::vm::code::Kind::Lanes($crate::vm::lanes::pick::<K>($wide))
    }};
    ($wide:expr, |$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| -> $td:ty $body:block) => {{
        struct K;
        impl $crate::vm::lanes::LaneOp for K {
            #[inline(always)]
            fn run(w: &mut $crate::vm::warp::Warp, i: &$crate::vm::code::Ins, m: u32) {
                $crate::vm::lanes::ternary(w, i, m, |$a: $ta, $b: $tb, $c: $tc| -> $td { $body });
            }
        }
        $crate::vm::code::Kind::Lanes($crate::vm::lanes::pick::<K>($wide))
    }};
    ($wide:expr, with $w:ident, $i:ident, $m:ident $body:block) => {{
        struct K;
        impl $crate::vm::lanes::LaneOp for K {
            #[inline(always)]
            fn run($w: &mut $crate::vm::warp::Warp, $i: &$crate::vm::code::Ins, $m: u32) $body
        }
        $crate::vm::code::Kind::Lanes($crate::vm::lanes::pick::<K>($wide))
    }};
}
pub(super) use lanes;
