//! Accesses to neighbours: finds their addresses, and copies their values.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mullo_epi32,
    _mm256_or_si256, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setr_epi64x,
    _mm256_setzero_si256, _mm256_testz_si256, _mm256_xor_si256,
};
#[cfg(target_arch = "x86_64")]
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use super::code::Ins;
use super::lane_fault::LaneFault;
#[cfg(target_arch = "x86_64")]
use super::lanes::wide_memory_outlined;
use super::lanes::{MemoryOp, plain_memory_outlined};
use super::space::{Cell, Env};
use super::vector::{HALF, LANES};
use super::warp::Warp;

/// How short paths of [`load_store`](super::load_store) are found and taken.
pub(super) trait Path {
    /// The distance between consecutive lanes in each half of the warp. Returns `None` if it is not
    /// the same for all lanes of a half.
    fn steps32(base: &[u32; LANES]) -> Option<[u32; 2]>;

    /// Like [`steps32`](Self::steps32).
    fn steps64(base: &[u64; LANES]) -> Option<[u64; 2]>;

    /// Whether all lanes are equal.
    fn are_equal(a: &[u32; LANES], b: &[u32; LANES]) -> bool;

    /// Runs `K` as a function of its own, which saves fewer registers at the start of its caller.
    fn run_outlined<K: MemoryOp>(
        w: &mut Warp,
        env: &Env<'_>,
        i: &Ins,
        m: u32,
    ) -> Result<(), LaneFault>;

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
    fn steps32(base: &[u32; LANES]) -> Option<[u32; 2]> {
        let steps = [0, HALF].map(|first| base[first + 1].wrapping_sub(base[first]));
        let is_regular = |lane: usize| {
            let (half, distance) = (lane / HALF, (lane % HALF) as u32);
            base[lane] == base[half * HALF].wrapping_add(distance.wrapping_mul(steps[half]))
        };
        (0..LANES).all(is_regular).then_some(steps)
    }

    #[inline(always)]
    fn steps64(base: &[u64; LANES]) -> Option<[u64; 2]> {
        let steps = [0, HALF].map(|first| base[first + 1].wrapping_sub(base[first]));
        let is_regular = |lane: usize| {
            let (half, distance) = (lane / HALF, (lane % HALF) as u64);
            base[lane] == base[half * HALF].wrapping_add(distance.wrapping_mul(steps[half]))
        };
        (0..LANES).all(is_regular).then_some(steps)
    }

    #[inline(always)]
    fn are_equal(a: &[u32; LANES], b: &[u32; LANES]) -> bool {
        a == b
    }

    #[inline(always)]
    fn run_outlined<K: MemoryOp>(
        w: &mut Warp,
        env: &Env<'_>,
        i: &Ins,
        m: u32,
    ) -> Result<(), LaneFault> {
        plain_memory_outlined::<K>(w, env, i, m)
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
    fn steps32(base: &[u32; LANES]) -> Option<[u32; 2]> {
        // SAFETY: the CPU must have AVX2 ← this path is for CPUs with the features of `wide_cpu`.
        unsafe { steps32_with_avx2(base) }
    }

    #[inline(always)]
    fn steps64(base: &[u64; LANES]) -> Option<[u64; 2]> {
        // SAFETY: as above.
        unsafe { steps64_with_avx2(base) }
    }

    #[inline(always)]
    fn are_equal(a: &[u32; LANES], b: &[u32; LANES]) -> bool {
        // SAFETY: as above.
        unsafe { are_equal_with_avx2(a, b) }
    }

    #[inline(always)]
    fn run_outlined<K: MemoryOp>(
        w: &mut Warp,
        env: &Env<'_>,
        i: &Ins,
        m: u32,
    ) -> Result<(), LaneFault> {
        // SAFETY: the CPU must have the features of `wide_cpu` ← this path is for such CPUs.
        unsafe { wide_memory_outlined::<K>(w, env, i, m) }
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

/// Eight lanes, from lane `8 * index` on.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn eight(row: &[u32; LANES], index: usize) -> __m256i {
    let eight = &row.as_chunks::<8>().0[index];
    // SAFETY: it must point to 32 bytes ← these are 8 numbers of 4 bytes.
    unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) }
}

/// Four lanes, from lane `4 * index` on.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn four(row: &[u64; LANES], index: usize) -> __m256i {
    let four = &row.as_chunks::<4>().0[index];
    // SAFETY: it must point to 32 bytes ← these are 4 numbers of 8 bytes.
    unsafe { _mm256_loadu_si256(four.as_ptr().cast()) }
}

/// See [`Path::steps32`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn steps32_with_avx2(base: &[u32; LANES]) -> Option<[u32; 2]> {
    let steps = [0, HALF].map(|first| base[first + 1].wrapping_sub(base[first]));
    let mut differs = _mm256_setzero_si256();
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for half in 0..2 {
        let step = steps[half];
        let ramp = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(step as i32));
        let low = _mm256_add_epi32(ramp, _mm256_set1_epi32(base[half * HALF] as i32));
        let high = _mm256_add_epi32(low, _mm256_set1_epi32(step.wrapping_mul(8) as i32));
        let low = _mm256_xor_si256(low, eight(base, 2 * half));
        let high = _mm256_xor_si256(high, eight(base, 2 * half + 1));
        differs = _mm256_or_si256(differs, _mm256_or_si256(low, high));
    }
    (_mm256_testz_si256(differs, differs) == 1).then_some(steps)
}

/// See [`Path::steps64`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn steps64_with_avx2(base: &[u64; LANES]) -> Option<[u64; 2]> {
    let steps = [0, HALF].map(|first| base[first + 1].wrapping_sub(base[first]));
    let mut differs = _mm256_setzero_si256();
    for half in 0..2 {
        let at = |lane: u64| steps[half].wrapping_mul(lane) as i64;
        let ramp = _mm256_setr_epi64x(0, at(1), at(2), at(3));
        let mut expected = _mm256_add_epi64(ramp, _mm256_set1_epi64x(base[half * HALF] as i64));
        for index in 0..4 {
            let differ = _mm256_xor_si256(expected, four(base, 4 * half + index));
            differs = _mm256_or_si256(differs, differ);
            expected = _mm256_add_epi64(expected, _mm256_set1_epi64x(at(4)));
        }
    }
    (_mm256_testz_si256(differs, differs) == 1).then_some(steps)
}

/// See [`Path::are_equal`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn are_equal_with_avx2(a: &[u32; LANES], b: &[u32; LANES]) -> bool {
    let mut differs = _mm256_setzero_si256();
    for index in 0..4 {
        let differ = _mm256_xor_si256(eight(a, index), eight(b, index));
        differs = _mm256_or_si256(differs, differ);
    }
    _mm256_testz_si256(differs, differs) == 1
}
