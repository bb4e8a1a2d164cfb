//! Sets of multiprocessors, and the configuration of work queues.

use cuda_sys::CUdevWorkqueueConfigScope;

use crate::machine::MOST_SMS;

/// A set of multiprocessors of a device, as a bit mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct SmSet(pub(in crate::driver) [u64; 4]);

impl SmSet {
    /// Returns the multiprocessors with the numbers from 0 to `count - 1`.
    pub(in crate::driver) fn first(count: u32) -> Self {
        (0..count).collect()
    }

    pub(in crate::driver) fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the numbers of the multiprocessors in ascending order.
    pub(in crate::driver) fn ids(self) -> impl Iterator<Item = u32> {
        (0..MOST_SMS).filter(move |id| self.0[*id as usize / 64] >> (id % 64) & 1 != 0)
    }

    pub(in crate::driver) fn union(self, other: Self) -> Self {
        Self([0, 1, 2, 3].map(|at| self.0[at] | other.0[at]))
    }

    pub(in crate::driver) fn is_disjoint(self, other: Self) -> bool {
        (0..4).all(|at| self.0[at] & other.0[at] == 0)
    }
}

impl FromIterator<u32> for SmSet {
    fn from_iter<T: IntoIterator<Item = u32>>(ids: T) -> Self {
        let mut this = Self::default();
        for id in ids.into_iter().filter(|id| *id < MOST_SMS) {
            this.0[id as usize / 64] |= 1 << (id % 64);
        }
        this
    }
}

/// How the work queues of a green context are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Workqueues {
    pub(in crate::driver) limit: u32,
    pub(in crate::driver) scope: CUdevWorkqueueConfigScope,
}

impl Default for Workqueues {
    /// Returns the configuration of a primary context: the default of `CUDA_DEVICE_MAX_CONNECTIONS`
    /// queues, which all contexts share.
    fn default() -> Self {
        Self {
            limit: 8,
            scope: CUdevWorkqueueConfigScope::CU_WORKQUEUE_SCOPE_DEVICE_CTX,
        }
    }
}
