//! Copies with non-temporal stores, which bypass the caches, for destinations that this processor
//! does not read soon.
//!
//! A store that goes through the caches first reads the cache line and then leaves it in the cache.
//! The device must then fetch the line from there, and lines that are needed sooner are evicted.
//! With several threads and a device that reads at the same time, that costs a third of the rate.

/// Copies `bytes` bytes. Other threads and devices see them when this function returns.
///
/// # Safety
///
/// Both sides hold `bytes` bytes and do not overlap. During the call no other code uses the
/// destination or writes the source.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    const STEP: usize = size_of::<__m128i>();
    let head = to.align_offset(LINE).min(bytes);
    let body = head..head + (bytes - head) / LINE * LINE;
    // SAFETY: both sides must hold the bytes and must not overlap ← the head is a part of the
    // ranges that the caller guarantees.
    unsafe { from.copy_to_nonoverlapping(to, head) };
    for at in body.clone().step_by(STEP) {
        // SAFETY: the bytes must be readable ← they are in the body.
        let step = unsafe { _mm_loadu_si128(from.wrapping_add(at).cast()) };
        // SAFETY: the bytes must be writable and aligned ← they are in the body, which starts at a
        // cache line.
        unsafe { _mm_stream_si128(to.wrapping_add(at).cast(), step) };
    }
    let (from, to) = (from.wrapping_add(body.end), to.wrapping_add(body.end));
    // SAFETY: both sides must hold the bytes and must not overlap ← these are the remaining bytes.
    unsafe { from.copy_to_nonoverlapping(to, bytes - body.end) };
    // Without the fence, streaming stores are not ordered with other stores.
    // SAFETY: the processor must support the instruction ← every x86-64 processor does.
    unsafe { _mm_sfence() };
}

/// Copies `bytes` bytes on processors without a known faster method than an ordinary copy.
///
/// # Safety
///
/// Both sides hold `bytes` bytes and do not overlap. During the call no other code uses the
/// destination or writes the source.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both sides must hold the bytes and must not overlap ← the caller guarantees it.
    unsafe { from.copy_to_nonoverlapping(to, bytes) };
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn copies_every_byte_and_no_other() {
        let source: Vec<u8> = (0..1000_u32).map(|i| (i * 7 % 251) as u8 + 1).collect();
        for (from, to, bytes) in [
            (0, 0, 0),
            (0, 0, 64),
            (1, 3, 5),
            (3, 1, 63),
            (0, 5, 500),
            (7, 63, 700),
            (16, 64, 900),
        ] {
            let mut target = vec![0; 1100];
            let room = target[to..].as_mut_ptr();
            // SAFETY: both sides must hold the bytes and must not overlap ← they are two vectors,
            // both long enough.
            unsafe { copy(source[from..].as_ptr(), room, bytes) };
            let mut expected = vec![0; 1100];
            expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
            assert!(target == expected, "{from} {to} {bytes}");
        }
    }
}
