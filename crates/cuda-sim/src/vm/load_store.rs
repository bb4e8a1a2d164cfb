//! Loads and stores of one value for each lane.
//!
//! Most accesses of most kernels are of one of two kinds: all threads use one address, or
//! neighbours use neighbouring values. The rows of a tile that is half as wide as a warp are like
//! this in each half of the warp. Such accesses are found at run time and take a short path; the
//! others translate the address of each lane.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_or_si256,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setr_epi64x,
    _mm256_setzero_si256, _mm256_testz_si256, _mm256_xor_si256,
};
use std::marker::PhantomData;
#[cfg(target_arch = "x86_64")]
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use super::address::{NARROW, Run, TAG_SHIFT};
use super::check::{ObservedAccess, Observer};
use super::code::{Ins, MemoryFn};
use super::lane_fault::LaneFault;
use super::lanes::{Lane, MemoryOp, Row, memory_fn};
use super::space::{Cell, Env, HITS};
use super::vector::{HALF, LANES, bits};
use super::warp::Warp;

/// The kinds of addresses that take a short path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All lanes have the address of the first.
    Uniform,
    /// The values lie side by side.
    Contiguous,
}

impl Kind {
    /// The kind of addresses, if they are as expected.
    #[inline(always)]
    fn of(is_uniform: bool, is_as_expected: bool) -> Option<Self> {
        match (is_as_expected, is_uniform) {
            (false, _) => None,
            (true, true) => Some(Self::Uniform),
            (true, false) => Some(Self::Contiguous),
        }
    }
}

/// How short paths are found and taken.
pub(super) trait Path {
    /// The kind of the addresses of consecutive lanes, relative to some start, for values of `size`
    /// bytes. `N` is a multiple of 8.
    fn kind32<const N: usize>(base: &[u32; N], size: u32) -> Option<Kind>;

    /// Like [`kind32`](Self::kind32).
    fn kind64<const N: usize>(base: &[u64; N], size: u64) -> Option<Kind>;

    /// Copies values that lie side by side in memory to the lanes of half a warp.
    ///
    /// # Safety
    ///
    /// `host` must be the exposed address of `HALF` live, aligned values.
    unsafe fn load<T: Cell>(host: u64, to: &mut [T::Reg; HALF]);

    /// Copies the lanes of half a warp to values that lie side by side in memory.
    ///
    /// # Safety
    ///
    /// The requirements of `load` apply.
    unsafe fn store<T: Cell>(from: &[T::Reg; HALF], host: u64);
}

/// Handles the lanes one by one.
pub(super) struct OneByOne;

impl Path for OneByOne {
    #[inline(always)]
    fn kind32<const N: usize>(base: &[u32; N], size: u32) -> Option<Kind> {
        let is_uniform = base[1] == base[0];
        let step = if is_uniform { 0 } else { size };
        let expected = |lane: usize| base[0].wrapping_add(lane as u32 * step);
        Kind::of(is_uniform, (0..N).all(|lane| base[lane] == expected(lane)))
    }

    #[inline(always)]
    fn kind64<const N: usize>(base: &[u64; N], size: u64) -> Option<Kind> {
        let is_uniform = base[1] == base[0];
        let step = if is_uniform { 0 } else { size };
        let expected = |lane: usize| base[0].wrapping_add(lane as u64 * step);
        Kind::of(is_uniform, (0..N).all(|lane| base[lane] == expected(lane)))
    }

    #[inline(always)]
    unsafe fn load<T: Cell>(host: u64, to: &mut [T::Reg; HALF]) {
        for (lane, to) in to.iter_mut().enumerate() {
            // SAFETY: this must be a live, aligned value ← the caller guarantees it.
            *to = unsafe { T::load(host + (lane * size_of::<T>()) as u64) }.to_reg();
        }
    }

    #[inline(always)]
    unsafe fn store<T: Cell>(from: &[T::Reg; HALF], host: u64) {
        for (lane, from) in from.iter().enumerate() {
            // SAFETY: this must be a live, aligned value ← the caller guarantees it.
            unsafe { T::from_reg(*from).store(host + (lane * size_of::<T>()) as u64) };
        }
    }
}

/// Handles the lanes in vectors. The CPU must have the features of [`wide_cpu`].
///
/// The comparisons name their instructions, because what the compiler makes of a loop is four times
/// slower. The copies are written in assembly: other threads may access the same memory at the same
/// time, and Rust has no vector of atomic accesses. Each value is aligned, so it does not cross a
/// cache line, and x86 CPUs with AVX copy it in one piece.
#[cfg(target_arch = "x86_64")]
pub(super) struct Vectors;

#[cfg(target_arch = "x86_64")]
impl Vectors {
    /// Copies 64 bytes.
    ///
    /// # Safety
    ///
    /// Both must point to 64 live bytes, and the CPU must have AVX.
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        // SAFETY: the instructions read and write 64 bytes, and require AVX ← the caller guarantees
        // both.
        unsafe {
            asm!(
                "vmovdqu ymm14, [{from}]",
                "vmovdqu ymm15, [{from} + 32]",
                "vmovdqu [{to}], ymm14",
                "vmovdqu [{to} + 32], ymm15",
                from = in(reg) from,
                to = in(reg) to,
                out("ymm14") _,
                out("ymm15") _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Copies 128 bytes.
    ///
    /// # Safety
    ///
    /// The requirements of [`copy`](Self::copy) apply to 128 bytes.
    #[inline(always)]
    unsafe fn copy_twice(from: *const u8, to: *mut u8) {
        // SAFETY: these must be 64 bytes ← the first half of 128.
        unsafe { Self::copy(from, to) };
        // SAFETY: these must be 64 bytes ← the second half of 128.
        unsafe { Self::copy(from.wrapping_add(64), to.wrapping_add(64)) };
    }
}

#[cfg(target_arch = "x86_64")]
impl Path for Vectors {
    #[inline(always)]
    fn kind32<const N: usize>(base: &[u32; N], size: u32) -> Option<Kind> {
        // SAFETY: the CPU must have AVX2 ← this path is for CPUs with the features of `wide_cpu`.
        unsafe { kind32_with_avx2(base, size) }
    }

    #[inline(always)]
    fn kind64<const N: usize>(base: &[u64; N], size: u64) -> Option<Kind> {
        // SAFETY: as above.
        unsafe { kind64_with_avx2(base, size) }
    }

    #[inline(always)]
    unsafe fn load<T: Cell>(host: u64, to: &mut [T::Reg; HALF]) {
        let from = with_exposed_provenance(host as usize);
        match (size_of::<T>(), size_of::<T::Reg>()) {
            // SAFETY: both must be 16 values of 4 bytes ← so are `to` and, as the caller
            // guarantees, the memory.
            (4, 4) => unsafe { Self::copy(from, to.as_mut_ptr().cast()) },
            // SAFETY: as above, with 8 bytes.
            (8, 8) => unsafe { Self::copy_twice(from, to.as_mut_ptr().cast()) },
            // SAFETY: the requirements are the same.
            _ => unsafe { OneByOne::load::<T>(host, to) },
        }
    }

    #[inline(always)]
    unsafe fn store<T: Cell>(from: &[T::Reg; HALF], host: u64) {
        let to = with_exposed_provenance_mut(host as usize);
        match (size_of::<T>(), size_of::<T::Reg>()) {
            // SAFETY: both must be 16 values of 4 bytes ← so are `from` and, as the caller
            // guarantees, the memory.
            (4, 4) => unsafe { Self::copy(from.as_ptr().cast(), to) },
            // SAFETY: as above, with 8 bytes.
            (8, 8) => unsafe { Self::copy_twice(from.as_ptr().cast(), to) },
            // SAFETY: the requirements are the same.
            _ => unsafe { OneByOne::store::<T>(from, host) },
        }
    }
}

/// See [`Path::kind32`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn kind32_with_avx2<const N: usize>(base: &[u32; N], size: u32) -> Option<Kind> {
    let is_uniform = base[1] == base[0];
    let step = if is_uniform { 0 } else { size as i32 };
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let ramp = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(step));
    let mut expected = _mm256_add_epi32(ramp, _mm256_set1_epi32(base[0] as i32));
    let mut differs = _mm256_setzero_si256();
    for group in base.as_chunks::<8>().0 {
        // SAFETY: it must point to 32 bytes ← these are 8 numbers of 4 bytes.
        let numbers = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        differs = _mm256_or_si256(differs, _mm256_xor_si256(numbers, expected));
        expected = _mm256_add_epi32(expected, _mm256_set1_epi32(8 * step));
    }
    Kind::of(is_uniform, _mm256_testz_si256(differs, differs) == 1)
}

/// See [`Path::kind64`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn kind64_with_avx2<const N: usize>(base: &[u64; N], size: u64) -> Option<Kind> {
    let is_uniform = base[1] == base[0];
    let step = if is_uniform { 0 } else { size as i64 };
    let ramp = _mm256_setr_epi64x(0, step, 2 * step, 3 * step);
    let mut expected = _mm256_add_epi64(ramp, _mm256_set1_epi64x(base[0] as i64));
    let mut differs = _mm256_setzero_si256();
    for group in base.as_chunks::<4>().0 {
        // SAFETY: it must point to 32 bytes ← these are 4 numbers of 8 bytes.
        let numbers = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        differs = _mm256_or_si256(differs, _mm256_xor_si256(numbers, expected));
        expected = _mm256_add_epi64(expected, _mm256_set1_epi64x(4 * step));
    }
    Kind::of(is_uniform, _mm256_testz_si256(differs, differs) == 1)
}

impl Warp {
    /// The addresses of the two halves of the warp, if each half has one of the two kinds, and they
    /// lie in the range that was accessed last through this register.
    #[inline(always)]
    fn runs<T: Cell, P: Path>(&self, i: &Ins) -> Option<[Run; 2]> {
        let size = size_of::<T>();
        if i.c & NARROW != 0 {
            let base = u32::row(self, i.a)?;
            let at = |lane: usize| u64::from(base[lane].wrapping_add(i.imm as u32));
            if let Some(kind) = P::kind32(base, size as u32) {
                let run = self.addresses::<T>(i, at(0), kind, LANES)?;
                return Some([run, run.after(HALF * size)]);
            }
            let low = P::kind32(half_of(base, 0), size as u32)?;
            let high = P::kind32(half_of(base, 1), size as u32)?;
            let low = self.addresses::<T>(i, at(0), low, HALF)?;
            Some([low, self.addresses::<T>(i, at(HALF), high, HALF)?])
        } else {
            let base = u64::row(self, i.a)?;
            let at = |lane: usize| base[lane].wrapping_add(i.imm);
            if let Some(kind) = P::kind64(base, size as u64) {
                let run = self.addresses::<T>(i, at(0), kind, LANES)?;
                return Some([run, run.after(HALF * size)]);
            }
            let low = P::kind64(half_of(base, 0), size as u64)?;
            let high = P::kind64(half_of(base, 1), size as u64)?;
            let low = self.addresses::<T>(i, at(0), low, HALF)?;
            Some([low, self.addresses::<T>(i, at(HALF), high, HALF)?])
        }
    }

    /// The addresses of `lanes` lanes, of which the first has the address `first` without its tag.
    #[inline(always)]
    fn addresses<T: Cell>(&self, i: &Ins, first: u64, kind: Kind, lanes: usize) -> Option<Run> {
        let size = size_of::<T>();
        let align = u64::from(i.c & 0xff);
        let first = first | u64::from(i.c >> TAG_SHIFT) << 56;
        let hit = &self.hits[i.a as usize % HITS];
        match kind {
            Kind::Uniform => hit.host_of(first, size as u64, align).map(Run::Uniform),
            // An access to a vector has the alignment of the whole vector. Its elements are loaded
            // one by one, and values side by side are not aligned like that.
            Kind::Contiguous if align + 1 > size as u64 => None,
            Kind::Contiguous => hit
                .host_of(first, (lanes * size) as u64, align)
                .map(Run::Contiguous),
        }
    }
}

#[inline(always)]
fn half_of<T>(base: &[T; LANES], half: usize) -> &[T; HALF] {
    let (halves, _) = base.as_chunks::<HALF>();
    &halves[half]
}

/// `d = [a + imm]`; with `CHECKED` the access is observed, and is strong if `e` is 1.
struct Load<T, P, const CHECKED: bool>(PhantomData<(T, P)>);

impl<T: Cell, P: Path, const CHECKED: bool> MemoryOp for Load<T, P, CHECKED> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if m == 0 {
            return Ok(());
        }
        if !CHECKED
            && m == u32::MAX
            && let Some(runs) = w.runs::<T, P>(i)
        {
            let (to, _) = T::Reg::row_mut(w, i.d).as_chunks_mut::<HALF>();
            for (to, run) in to.iter_mut().zip(runs) {
                match run {
                    // SAFETY: it must be a live, aligned value ← `runs` checked it.
                    Run::Uniform(host) => to.fill(unsafe { T::load(host) }.to_reg()),
                    // SAFETY: they must be live, aligned values ← `runs` checked them.
                    Run::Contiguous(host) => unsafe { P::load::<T>(host, to) },
                }
            }
            return Ok(());
        }
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
        T::Reg::put(w, i.d, m, value);
        Ok(())
    }
}

/// `[a + imm] = b`; with `CHECKED` the access is observed, and is strong if `e` is 1.
struct Store<T, P, const CHECKED: bool>(PhantomData<(T, P)>);

impl<T: Cell, P: Path, const CHECKED: bool> MemoryOp for Store<T, P, CHECKED> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        if m == 0 {
            return Ok(());
        }
        if !CHECKED
            && m == u32::MAX
            && let Some([Run::Contiguous(low), Run::Contiguous(high)]) = w.runs::<T, P>(i)
            && let Some(from) = T::Reg::row(w, i.b)
        {
            for (half, host) in [low, high].into_iter().enumerate() {
                // SAFETY: they must be live, aligned values ← `runs` checked them.
                unsafe { P::store::<T>(half_of(from, half), host) };
            }
            return Ok(());
        }
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
/// of [`wide_cpu`](super::lanes::wide_cpu)).
pub(super) fn load_fn<T: Cell, const CHECKED: bool>(is_wide: bool) -> MemoryFn {
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return memory_fn::<Load<T, Vectors, CHECKED>>(true);
    }
    memory_fn::<Load<T, OneByOne, CHECKED>>(is_wide)
}

/// The function that stores values of type `T`. See [`load_fn`].
pub(super) fn store_fn<T: Cell, const CHECKED: bool>(is_wide: bool) -> MemoryFn {
    #[cfg(target_arch = "x86_64")]
    if is_wide {
        return memory_fn::<Store<T, Vectors, CHECKED>>(true);
    }
    memory_fn::<Store<T, OneByOne, CHECKED>>(is_wide)
}
