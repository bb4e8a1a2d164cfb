//! Accesses to memory at one address at a time, for instructions that access several ranges.

use super::address::{LOCAL, TAG, Window};
use super::lane_fault::LaneFault;
use super::space::{Cell, Env};
use super::warp::Warp;

/// Translates generic addresses to addresses in this process, and caches the range of the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Translator {
    window: Window,
}

impl Translator {
    /// Returns the address in this process of the `size` bytes at the generic address `at` of
    /// `lane`. The address is exposed, live and a multiple of `align`.
    pub(super) fn translate(
        &mut self,
        w: &Warp,
        env: &Env<'_>,
        at: u64,
        size: u64,
        align: u64,
        lane: usize,
    ) -> Result<u64, LaneFault> {
        if !at.is_multiple_of(align.max(1)) {
            return Err(LaneFault::misaligned(at, size, align, lane));
        }
        if !self.window.holds(at, size) {
            self.window = w.window(env, at, lane);
            if !self.window.holds(at, size) {
                self.window = Window::default();
                return Err(w.outside(env, at, size, lane));
            }
        }
        let host = at
            .wrapping_sub(self.window.start)
            .wrapping_add(self.window.host);
        if at & TAG == LOCAL {
            self.window = Window::default();
        }
        Ok(host)
    }
}

/// Loads a value of `bytes` bytes, 1, 2, 4 or 8.
///
/// # Safety
///
/// `host` must be the exposed address of `bytes` live bytes, and a multiple of `bytes`.
pub(super) unsafe fn load(bytes: u64, host: u64) -> u64 {
    match bytes {
        // SAFETY: `host` is a live, aligned value of this size ← the caller guarantees it.
        8 => unsafe { u64::load(host) },
        // SAFETY: as above.
        4 => unsafe { u32::load(host) }.into(),
        // SAFETY: as above.
        2 => unsafe { u16::load(host) }.into(),
        // SAFETY: as above.
        _ => unsafe { u8::load(host) }.into(),
    }
}

/// Stores the low `bytes` bytes of a value.
///
/// # Safety
///
/// The requirements of [`load`] apply.
pub(super) unsafe fn store(bytes: u64, host: u64, value: u64) {
    match bytes {
        // SAFETY: `host` is a live, aligned value of this size ← the caller guarantees it.
        8 => unsafe { value.store(host) },
        // SAFETY: as above.
        4 => unsafe { (value as u32).store(host) },
        // SAFETY: as above.
        2 => unsafe { (value as u16).store(host) },
        // SAFETY: as above.
        _ => unsafe { (value as u8).store(host) },
    }
}
/// Copies bytes in pieces, each atomically, like the accesses of kernels.
///
/// # Safety
///
/// Both must be exposed addresses of `len` live bytes.
pub(super) unsafe fn copy(to: u64, from: u64, len: u64) {
    let step = if (to | from | len) & 7 == 0 { 8 } else { 1 };
    for at in (0..len).step_by(step) {
        if step == 8 {
            // SAFETY: these are 8 of the live bytes, aligned to 8 ← the caller guarantees the
            // bytes, the check above the alignment.
            let word = unsafe { u64::load(from + at) };
            // SAFETY: as for the load, at `to + at`.
            unsafe { word.store(to + at) };
        } else {
            // SAFETY: this is one of the live bytes ← the caller guarantees it.
            let byte = unsafe { u8::load(from + at) };
            // SAFETY: as for the load, at `to + at`.
            unsafe { byte.store(to + at) };
        }
    }
}

/// Sets bytes to zero with atomic accesses, like [`copy`].
///
/// # Safety
///
/// `to` must be the exposed address of `len` live bytes.
pub(super) unsafe fn clear(to: u64, len: u64) {
    for at in 0..len {
        // SAFETY: this is one of the live bytes ← the caller guarantees it.
        unsafe { 0u8.store(to + at) };
    }
}
