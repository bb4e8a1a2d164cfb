//! Advice on pages of managed memory, recorded only so that it can be queried.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

use cuda_sys::CUmem_advise;

/// `CU_DEVICE_INVALID`
pub(in crate::driver) const NOWHERE: c_int = -2;

/// The size of a page of managed memory in bytes.
const PAGE: u64 = 4096;

/// The state of the pages of one allocation. The key is an offset in bytes; its state applies to
/// all pages up to the next key.
#[derive(Debug)]
pub(in crate::driver) struct Pages(BTreeMap<u64, State>);

#[derive(Clone, Debug)]
pub(in crate::driver) struct State {
    pub(in crate::driver) is_read_mostly: bool,
    pub(in crate::driver) preferred: c_int,
    pub(in crate::driver) accessed_by: BTreeSet<c_int>,
    pub(in crate::driver) last_prefetch: c_int,
}

impl Pages {
    pub(in crate::driver) fn new() -> Self {
        let state = State {
            is_read_mostly: false,
            preferred: NOWHERE,
            accessed_by: BTreeSet::new(),
            last_prefetch: NOWHERE,
        };
        Self(BTreeMap::from([(0, state)]))
    }

    /// Applies advice of `cuMemAdvise` to every page that the `count` bytes from `offset` touch.
    pub(in crate::driver) fn advise(
        &mut self,
        offset: u64,
        count: u64,
        advice: CUmem_advise,
        device: c_int,
    ) {
        type A = CUmem_advise;
        self.change(offset, count, |state| match advice {
            A::CU_MEM_ADVISE_SET_READ_MOSTLY => state.is_read_mostly = true,
            A::CU_MEM_ADVISE_UNSET_READ_MOSTLY => state.is_read_mostly = false,
            A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => state.preferred = device,
            A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => state.preferred = NOWHERE,
            A::CU_MEM_ADVISE_SET_ACCESSED_BY => {
                state.accessed_by.insert(device);
            }
            A::CU_MEM_ADVISE_UNSET_ACCESSED_BY => {
                state.accessed_by.remove(&device);
            }
            // The caller has checked the advice.
            _ => {}
        });
    }

    /// Records a prefetch to `device`.
    pub(in crate::driver) fn prefetch(&mut self, offset: u64, count: u64, device: c_int) {
        self.change(offset, count, |state| state.last_prefetch = device);
    }

    fn change(&mut self, offset: u64, count: u64, change: impl Fn(&mut State)) {
        let (start, end) = (
            offset / PAGE * PAGE,
            (offset + count).next_multiple_of(PAGE),
        );
        self.split(start);
        self.split(end);
        self.0
            .range_mut(start..end)
            .for_each(|(_, state)| change(state));
    }

    /// Splits the range that contains `at`, so that a state starts there.
    fn split(&mut self, at: u64) {
        let before = self.0.range(..=at).next_back();
        // There always is one, as the first state starts at 0.
        if let Some((_, state)) = before {
            let state = state.clone();
            self.0.insert(at, state);
        }
    }

    /// Returns the states of the pages that the `count` bytes from `offset` touch.
    pub(in crate::driver) fn states(
        &self,
        offset: u64,
        count: u64,
    ) -> impl Iterator<Item = &State> {
        let first = self.0.range(..=offset).next_back();
        let others = self.0.range(offset + 1..offset + count);
        first.into_iter().chain(others).map(|(_, state)| state)
    }

    /// Returns the location that all these pages have in common, or [`NOWHERE`] if they differ.
    pub(in crate::driver) fn location(
        &self,
        offset: u64,
        count: u64,
        of: impl Fn(&State) -> c_int,
    ) -> c_int {
        let mut all = self.states(offset, count).map(of);
        let first = all.next().unwrap_or(NOWHERE);
        if all.all(|other| other == first) {
            first
        } else {
            NOWHERE
        }
    }
}
