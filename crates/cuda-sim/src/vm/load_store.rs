//! Loads and stores of one value for each lane.
//!
//! Most accesses of most kernels are of one of two kinds: all threads use one address, or
//! neighbours use neighbouring values. The rows of a tile that is half as wide as a warp are like
//! this in each half of the warp. Such accesses are found at run time and take a short path; the
//! others translate the address of each lane.

use std::marker::PhantomData;

use super::address::{NARROW, Run, TAG_SHIFT};
use super::check::{ObservedAccess, Observer};
use super::code::{Ins, MemoryFn};
use super::lane_fault::LaneFault;
use super::lanes::{Lane, MemoryOp, Row, memory_fn};
#[cfg(target_arch = "x86_64")]
use super::neighbours::Vectors;
use super::neighbours::{OneByOne, Path};
use super::space::{Cell, Env, HITS};
use super::vector::{HALF, LANES, bits};
use super::warp::Warp;

/// The values of an address register at a recent access, and the distance of the addresses of
/// consecutive lanes in each half of the warp.
///
/// Kernels use one register for many accesses: for the elements of a vector, and in each iteration
/// of an unrolled loop. It is faster to compare the register with these values than to compute the
/// distances again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    base: [u32; LANES],
    steps: [u32; 2],
}

impl Warp {
    /// The addresses of the two halves of the warp, if each half has one of the two kinds, and they
    /// lie in the range that was accessed last through this register.
    #[inline(always)]
    fn runs<T: Cell, P: Path>(&mut self, i: &Ins) -> Option<[Run; 2]> {
        if i.c & NARROW != 0 {
            let base = u32::row(self, i.a)?;
            let recent = &self.recent[i.a as usize % HITS];
            let steps = if P::are_equal(base, &recent.base) {
                recent.steps
            } else {
                let (base, steps) = (*base, P::steps32(base)?);
                self.recent[i.a as usize % HITS] = Recent { base, steps };
                steps
            };
            let base = u32::row(self, i.a)?;
            let at = |lane: usize| u64::from(base[lane].wrapping_add(i.imm as u32));
            let low = self.half::<T>(i, at(0), steps[0].into())?;
            Some([low, self.half::<T>(i, at(HALF), steps[1].into())?])
        } else {
            let base = u64::row(self, i.a)?;
            let steps = P::steps64(base)?;
            let at = |lane: usize| base[lane].wrapping_add(i.imm);
            let low = self.half::<T>(i, at(0), steps[0])?;
            Some([low, self.half::<T>(i, at(HALF), steps[1])?])
        }
    }

    /// The addresses of half a warp. The first lane has the address `first` without its tag, and
    /// the distance between lanes is `step`.
    #[inline(always)]
    fn half<T: Cell>(&self, i: &Ins, first: u64, step: u64) -> Option<Run> {
        let size = size_of::<T>() as u64;
        let align = u64::from(i.c & 0xff);
        let first = first | u64::from(i.c >> TAG_SHIFT) << 56;
        let hit = &self.hits[i.a as usize % HITS];
        if step == 0 {
            return hit.host_of(first, size, align).map(Run::Uniform);
        }
        // An access to a vector has the alignment of the whole vector. Its elements are loaded one
        // by one, and values side by side are not aligned like that.
        if step != size || align >= size {
            return None;
        }
        hit.host_of(first, HALF as u64 * size, align)
            .map(Run::Contiguous)
    }
}

#[inline(always)]
fn half_of<T>(base: &[T; LANES], half: usize) -> &[T; HALF] {
    let (halves, _) = base.as_chunks::<HALF>();
    &halves[half]
}

/// `d = [a + imm]`, by a short path if there is one.
struct Load<T, P>(PhantomData<(T, P)>);

impl<T: Cell, P: Path> MemoryOp for Load<T, P> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let runs = if m == u32::MAX {
            w.runs::<T, P>(i)
        } else {
            None
        };
        let Some(runs) = runs else {
            return P::run_outlined::<LoadEach<T, false>>(w, env, i, m);
        };
        let (to, _) = T::Reg::row_mut(w, i.d).as_chunks_mut::<HALF>();
        for half in 0..2 {
            match runs[half] {
                // SAFETY: it must be a live, aligned value ← `runs` checked it.
                Run::Uniform(host) => to[half] = [unsafe { T::load(host) }.to_reg(); HALF],
                // SAFETY: they must be live, aligned values ← `runs` checked them.
                Run::Contiguous(host) => unsafe { P::load::<T>(host, &mut to[half]) },
            }
        }
        Ok(())
    }
}

/// `[a + imm] = b`, by a short path if there is one.
struct Store<T, P>(PhantomData<(T, P)>);

impl<T: Cell, P: Path> MemoryOp for Store<T, P> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let runs = if m == u32::MAX {
            w.runs::<T, P>(i)
        } else {
            None
        };
        let (Some([Run::Contiguous(low), Run::Contiguous(high)]), Some(from)) =
            (runs, T::Reg::row(w, i.b))
        else {
            return P::run_outlined::<StoreEach<T, false>>(w, env, i, m);
        };
        for (half, host) in [low, high].into_iter().enumerate() {
            // SAFETY: they must be live, aligned values ← `runs` checked them.
            unsafe { P::store::<T>(half_of(from, half), host) };
        }
        Ok(())
    }
}

/// `d = [a + imm]`, lane by lane; with `CHECKED` the access is observed, and is strong if `e` is 1.
struct LoadEach<T, const CHECKED: bool>(PhantomData<T>);

impl<T: Cell, const CHECKED: bool> MemoryOp for LoadEach<T, CHECKED> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if m == 0 {
            return Ok(());
        }
        // A lane whose invalid access is skipped gets 0.
        let all = m;
        let m = if CHECKED {
            w.valid(env, i, m, size_of::<T>() as u64)
        } else {
            m
        };
        let hosts = w.hosts(env, i.a, i, m, size_of::<T>() as u64)?;
        if CHECKED && let Some(mut observer) = Observer::new(w, env, i) {
            let address = w.generic(i.a, i);
            for lane in bits(m) {
                observer.read(ObservedAccess::of::<T>(lane, address[lane], i.e));
            }
        }
        let mut value = [T::default().to_reg(); LANES];
        if m == u32::MAX {
            for lane in 0..LANES {
                // SAFETY: `hosts` checked all lanes.
                value[lane] = unsafe { T::load(hosts[lane]) }.to_reg();
            }
        } else {
            for lane in bits(m) {
                // SAFETY: `hosts` checked the lanes of `m`.
                value[lane] = unsafe { T::load(hosts[lane]) }.to_reg();
            }
        }
        T::Reg::put(w, i.d, all, value);
        Ok(())
    }
}

/// `[a + imm] = b`, lane by lane; with `CHECKED` the access is observed, and is strong if `e` is 1.
struct StoreEach<T, const CHECKED: bool>(PhantomData<T>);

impl<T: Cell, const CHECKED: bool> MemoryOp for StoreEach<T, CHECKED> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if m == 0 {
            return Ok(());
        }
        let m = if CHECKED {
            w.valid(env, i, m, size_of::<T>() as u64)
        } else {
            m
        };
        let hosts = w.hosts(env, i.a, i, m, size_of::<T>() as u64)?;
        let value = T::Reg::get(w, i.b);
        if CHECKED && let Some(mut observer) = Observer::new(w, env, i) {
            let address = w.generic(i.a, i);
            for lane in bits(m) {
                let new = T::from_reg(value[lane]);
                // SAFETY: `hosts` checked the lanes of `m`.
                let changes = new != unsafe { T::load(hosts[lane]) };
                observer.write(ObservedAccess::of::<T>(lane, address[lane], i.e), changes);
                // SAFETY: as above.
                unsafe { new.store(hosts[lane]) };
            }
            return Ok(());
        }
        if m == u32::MAX {
            for lane in 0..LANES {
                // SAFETY: `hosts` checked all lanes.
                unsafe { T::from_reg(value[lane]).store(hosts[lane]) };
            }
        } else {
            for lane in bits(m) {
                // SAFETY: `hosts` checked the lanes of `m`.
                unsafe { T::from_reg(value[lane]).store(hosts[lane]) };
            }
        }
        Ok(())
    }
}

/// The function that loads values of type `T`, for CPUs with wide vectors if `is_wide` (the result
/// of [`wide_cpu`](super::lanes::wide_cpu)). With `CHECKED`, accesses are observed.
pub(super) fn load_fn<T: Cell, const CHECKED: bool>(is_wide: bool) -> MemoryFn {
    if CHECKED {
        return memory_fn::<LoadEach<T, true>>(is_wide);
    }
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return memory_fn::<Load<T, Vectors>>(true);
    }
    memory_fn::<Load<T, OneByOne>>(is_wide)
}

/// The function that stores values of type `T`. See [`load_fn`].
pub(super) fn store_fn<T: Cell, const CHECKED: bool>(is_wide: bool) -> MemoryFn {
    if CHECKED {
        return memory_fn::<StoreEach<T, true>>(is_wide);
    }
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return memory_fn::<Store<T, Vectors>>(true);
    }
    memory_fn::<Store<T, OneByOne>>(is_wide)
}
