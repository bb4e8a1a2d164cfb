//! One value for each lane of a warp, and masks of lanes.

/// The number of lanes of a warp.
pub(super) const LANES: usize = 32;

/// Half the number of lanes of a warp.
pub(super) const HALF: usize = LANES / 2;

/// One value for each lane. Unlike `std::array::from_fn`, it is inlined and compiled for the CPU
/// features of its caller.
#[inline(always)]
pub(super) fn each<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; LANES] {
    let mut all = [T::default(); LANES];
    for (lane, one) in all.iter_mut().enumerate() {
        *one = f(lane);
    }
    all
}

/// Applies a function to each lane.
pub(super) trait Over<T> {
    /// Applies `f` to each lane. Unlike `map`, it is compiled for the CPU features of its caller.
    fn over<U: Copy + Default>(self, f: impl Fn(T) -> U) -> [U; LANES];
}

impl<T: Copy> Over<T> for [T; LANES] {
    #[inline(always)]
    fn over<U: Copy + Default>(self, f: impl Fn(T) -> U) -> [U; LANES] {
        each(|lane| f(self[lane]))
    }
}

/// The lanes of a mask, one by one.
pub(super) fn bits(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
