//! Copying to memory that is not soon read here.
//!
//! A store that goes through the caches reads each line first and leaves it there, where the device
//! has to ask for it, and where it puts out what is needed sooner. Between several threads and a
//! device that reads at the same time, that costs a third of the rate.

/// Copies `bytes` bytes; other threads and devices see them when this returns.
///
/// # Safety
///
/// Both sides have so many bytes, apart. Nobody else uses the destination, nor writes the source,
/// meanwhile.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    const STEP: usize = size_of::<__m128i>();
    let head = to.align_offset(LINE).min(bytes);
    let body = head..head + (bytes - head) / LINE * LINE;
    // SAFETY: both sides must hold the bytes, apart ← the head is a part of them.
    unsafe { from.copy_to_nonoverlapping(to, head) };
    for at in body.clone().step_by(STEP) {
        // SAFETY: the bytes must be readable ← they are of the body.
        let step = unsafe { _mm_loadu_si128(from.wrapping_add(at).cast()) };
        // SAFETY: the bytes must be writable, aligned ← they are of the body, which begins with a
        // line.
        unsafe { _mm_stream_si128(to.wrapping_add(at).cast(), step) };
    }
    let (from, to) = (from.wrapping_add(body.end), to.wrapping_add(body.end));
    // SAFETY: both sides must hold the bytes, apart ← these are the rest.
    unsafe { from.copy_to_nonoverlapping(to, bytes - body.end) };
    // Such stores are not in order with others until here.
    // SAFETY: the processor must know the instruction ← each of this architecture does.
    unsafe { _mm_sfence() };
}

/// The same on processors for which nothing better is known than a copy.
///
/// # Safety
///
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both sides must hold the bytes, apart ← the caller says so.
    unsafe { from.copy_to_nonoverlapping(to, bytes) };
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn every_byte_arrives_and_no_other_is_touched() {
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
            // SAFETY: both sides must have the bytes, apart ← two vectors that are longer.
            unsafe { copy(source[from..].as_ptr(), room, bytes) };
            let mut expected = vec![0; 1100];
            expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
            assert!(target == expected, "{from} {to} {bytes}");
        }
    }
}
