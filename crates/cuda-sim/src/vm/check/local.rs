//! Tracks which bytes of local memory have been written.

use crate::vm::vector::LANES;
use crate::vm::vector::bits;

/// A bit for each byte of local memory of each thread in a block, which is set while the byte has
/// not been written.
#[derive(Debug, Default)]
pub(super) struct LocalShadow {
    stride: usize,
    warps: Vec<Vec<u64>>,
}

impl LocalShadow {
    pub(super) fn reset(&mut self, warps: usize, stride: usize) {
        self.stride = stride;
        self.warps.resize_with(warps, Vec::new);
        for warp in &mut self.warps {
            warp.clear();
            warp.resize((stride * LANES).div_ceil(64), 0);
        }
    }

    pub(super) fn forget(&mut self, warp: usize, mask: u32, offset: u32, len: u32) {
        for lane in bits(mask) {
            for (word, bits) in words(self.stride, lane, offset.into(), len.into()) {
                if let Some(word) = self.warps.get_mut(warp).and_then(|all| all.get_mut(word)) {
                    *word |= bits;
                }
            }
        }
    }

    pub(super) fn wrote(&mut self, warp: usize, lane: usize, offset: u64, len: u64) {
        for (word, bits) in words(self.stride, lane, offset, len) {
            if let Some(word) = self.warps.get_mut(warp).and_then(|all| all.get_mut(word)) {
                *word &= !bits;
            }
        }
    }

    /// The first of `len` bytes at `offset` that has not been written.
    pub(super) fn unwritten(&self, warp: usize, lane: usize, offset: u64, len: u64) -> Option<u64> {
        let all = self.warps.get(warp)?;
        words(self.stride, lane, offset, len).find_map(|(word, bits)| {
            let unwritten = all.get(word)? & bits;
            let place = (word * 64) as u64 + u64::from(unwritten.trailing_zeros());
            (unwritten != 0).then(|| place - (lane * self.stride) as u64)
        })
    }
}

/// The bits of `len` bytes of a lane, as (word index, bit mask) pairs.
fn words(stride: usize, lane: usize, offset: u64, len: u64) -> impl Iterator<Item = (usize, u64)> {
    let from = (lane * stride) as u64 + offset.min(stride as u64);
    let to = (from + len).min(((lane + 1) * stride) as u64);
    (from / 64..to.div_ceil(64)).map(move |word| {
        let first = from.max(word * 64) - word * 64;
        let last = to.min((word + 1) * 64) - word * 64;
        let below = |n: u64| if n == 64 { u64::MAX } else { (1 << n) - 1 };
        (word as usize, below(last) & !below(first))
    })
}
