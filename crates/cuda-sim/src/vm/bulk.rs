//! Asynchronous copies, which a kernel starts and waits for later. Here each copy completes
//! immediately, which is the earliest time that the ISA allows.

use super::access::{Translator, clear, copy};
use super::address::{RANK_SHIFT, SHARED, TAG};
use super::atomic::{self, Shared};
use super::check::{ObservedAccess, Observer};
use super::code::Ins;
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::lanes::MemoryOp;
use super::mbarrier;
use super::space::Env;
use super::sync::NOWHERE;
use super::vector::LANES;
use super::vector::bits;
use super::warp::Warp;

/// The unit of bulk copies in bytes.
const UNIT: u64 = 16;

/// `cp.async`: copies to `a` from `b`. Of the `imm` bytes at `a`, the first `e` are copied and the
/// rest become zero.
pub(super) struct CopyAsync;

impl MemoryOp for CopyAsync {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let (to, from, len) = (w.get64(i.a), w.get64(i.b), w.get32(i.e));
        let size = i.imm;
        let (mut source, mut target) = (Translator::default(), Translator::default());
        for lane in bits(m) {
            let len = u64::from(len[lane]).min(size);
            let to = target.translate(w, env, to[lane], size, size, lane)?;
            if len > 0 {
                let from = source.translate(w, env, from[lane], len, size, lane)?;
                // SAFETY: both ranges have `len` live bytes, at most `size` ←
                // `Translator::translate` checked them.
                unsafe { copy(to, from, len) };
            }
            // SAFETY: these are the rest of the `size` live bytes ← `Translator::translate` checked
            // them.
            unsafe { clear(to + len, size - len) };
        }
        if let Some(mut observer) = Observer::new(w, env, i) {
            let (to, from, len) = (w.get64(i.a), w.get64(i.b), w.get32(i.e));
            for lane in bits(m) {
                let len = u64::from(len[lane]).min(size);
                observer.read(ObservedAccess::new(lane, from[lane], len));
                observer.write(ObservedAccess::new(lane, to[lane], size), true);
            }
        }
        Ok(())
    }
}

/// The shared-memory address `address`, moved to the block of that rank.
pub(super) fn in_block(address: u64, rank: usize) -> u64 {
    if address & TAG != SHARED {
        return address;
    }
    address & !(0xff << RANK_SHIFT) | (rank as u64 + 1) << RANK_SHIFT
}

/// The targets of a copy: this block (`None`), or the blocks in a mask.
pub(super) fn targets(mask: Option<u32>) -> impl Iterator<Item = Option<usize>> {
    let many = mask.map(|mask| bits(mask & 0xffff).map(Some));
    let one = mask.is_none().then_some(None);
    many.into_iter().flatten().chain(one)
}

/// The block mask of each lane, if the instruction has one.
pub(super) fn masks(w: &Warp, slot: u32) -> [Option<u32>; LANES] {
    if slot == NOWHERE {
        return [None; LANES];
    }
    w.get32(slot).map(Some)
}

/// The barrier of each lane, if the instruction has one.
pub(super) fn barriers(w: &Warp, slot: u32) -> [Option<u64>; LANES] {
    if slot == NOWHERE {
        return [None; LANES];
    }
    w.get64(slot).map(Some)
}

/// `cp.async.bulk`: copies `c` bytes from `b` to `a`, in the blocks of the mask `d`; then reports
/// them to the barrier `e`.
pub(super) struct CopyBulk;

impl MemoryOp for CopyBulk {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let (to, from, len) = (w.get64(i.a), w.get64(i.b), w.get32(i.c));
        let (masks, barriers) = (masks(w, i.d), barriers(w, i.e));
        for lane in bits(m) {
            let bytes = u64::from(len[lane]);
            if !bytes.is_multiple_of(UNIT) {
                return Err(odd_size(bytes, UNIT, lane));
            }
            let source = Translator::default().translate(w, env, from[lane], bytes, UNIT, lane)?;
            for rank in targets(masks[lane]) {
                let place = |address| rank.map_or(address, |rank| in_block(address, rank));
                let at = place(to[lane]);
                let target = Translator::default().translate(w, env, at, bytes, UNIT, lane)?;
                // SAFETY: both ranges have `bytes` live bytes ← `Translator::translate` checked
                // them.
                unsafe { copy(target, source, bytes) };
                if let Some(mut observer) = Observer::new(w, env, i) {
                    observer.read(ObservedAccess::new(lane, from[lane], bytes));
                    observer.write(ObservedAccess::new(lane, at, bytes), true);
                }
                if let Some(barrier) = barriers[lane] {
                    mbarrier::complete(w, env, place(barrier), len[lane], lane)?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn odd_size(bytes: u64, unit: u64, lane: usize) -> LaneFault {
    let message = format!("a bulk copy of {bytes} bytes, which is not a multiple of {unit}");
    LaneFault::of(FaultKind::IllegalInstruction, lane, message)
}

/// `cp.reduce.async.bulk`: like [`CopyBulk`], but combines elements with operation `imm` instead of
/// copying.
pub(super) struct ReduceBulk<T>(std::marker::PhantomData<T>);

impl<T: Shared> MemoryOp for ReduceBulk<T> {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let (to, from, len) = (w.get64(i.a), w.get64(i.b), w.get32(i.c));
        let barriers = barriers(w, i.e);
        let op = atomic::Op::of_number(i.imm);
        for lane in bits(m) {
            let bytes = u64::from(len[lane]);
            if !bytes.is_multiple_of(UNIT) {
                return Err(odd_size(bytes, UNIT, lane));
            }
            let source = Translator::default().translate(w, env, from[lane], bytes, UNIT, lane)?;
            let target = Translator::default().translate(w, env, to[lane], bytes, UNIT, lane)?;
            // SAFETY: both ranges have `bytes` live bytes, aligned to 16 ← `Translator::translate`
            // checked them.
            unsafe { reduce::<T>(op, target, source, bytes) };
            if let Some(mut observer) = Observer::new(w, env, i) {
                observer.read(ObservedAccess::new(lane, from[lane], bytes));
                observer.update(ObservedAccess::new(lane, to[lane], bytes), true);
            }
            if let Some(barrier) = barriers[lane] {
                mbarrier::complete(w, env, barrier, len[lane], lane)?;
            }
        }
        Ok(())
    }
}

/// `to[..] = op(to[..], from[..])`
///
/// # Safety
///
/// Both must be exposed addresses of `bytes` live bytes. The addresses and `bytes` must be
/// multiples of the size of `T`.
pub(super) unsafe fn reduce<T: Shared>(op: atomic::Op, to: u64, from: u64, bytes: u64) {
    let size = size_of::<T>() as u64;
    for at in (0..bytes).step_by(size as usize) {
        // SAFETY: `from + at` is an aligned element of the live bytes ← the caller guarantees it.
        let value = unsafe { super::access::load(size, from + at) };
        let change = |old| atomic::apply(op, size as u32 * 8, old, value, 0);
        // SAFETY: as above, for `to + at`.
        unsafe { T::update(to + at, change) };
    }
}

/// `st.bulk`: sets `b` bytes at `a` to zero.
pub(super) struct ClearBulk;

impl MemoryOp for ClearBulk {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let (to, len) = (w.get64(i.a), w.get64(i.b));
        for lane in bits(m) {
            if !len[lane].is_multiple_of(8) {
                return Err(odd_size(len[lane], 8, lane));
            }
            let host = Translator::default().translate(w, env, to[lane], len[lane], 8, lane)?;
            // SAFETY: the range has `len[lane]` live bytes ← `Translator::translate` checked them.
            unsafe { clear(host, len[lane]) };
            if let Some(mut observer) = Observer::new(w, env, i) {
                observer.write(ObservedAccess::new(lane, to[lane], len[lane]), true);
            }
        }
        Ok(())
    }
}
