//! Advice on and attributes of ranges of managed memory (`cuMemAdvise`, `cuMemRangeGetAttribute`).
//!
//! The software device does not migrate pages. Advice and prefetches are recorded only so that they
//! can be queried.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};

use cuda_sys::{CUdeviceptr, CUmem_advise, CUmem_range_attribute};

use super::arg::Out;
use super::export::{Call, exports};
use super::memory::Kind;
use super::status::{INVALID_VALUE, Status};

exports! {
    cuMemRangeGetAttribute => mem_range_get_attribute;
}

/// `CU_DEVICE_INVALID`
const NOWHERE: c_int = -2;
/// The size of a page of managed memory in bytes.
const PAGE: u64 = 4096;

/// The state of the pages of one allocation. The key is an offset in bytes; its state applies to
/// all pages up to the next key.
#[derive(Debug)]
pub(super) struct Pages(BTreeMap<u64, State>);

#[derive(Clone, Debug)]
struct State {
    is_read_mostly: bool,
    preferred: c_int,
    accessed_by: BTreeSet<c_int>,
    last_prefetch: c_int,
}

impl Pages {
    pub(super) fn new() -> Self {
        let state = State {
            is_read_mostly: false,
            preferred: NOWHERE,
            accessed_by: BTreeSet::new(),
            last_prefetch: NOWHERE,
        };
        Self(BTreeMap::from([(0, state)]))
    }

    /// Applies advice of `cuMemAdvise` to every page that the `count` bytes from `offset` touch.
    pub(super) fn advise(&mut self, offset: u64, count: u64, advice: CUmem_advise, device: c_int) {
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
    pub(super) fn prefetch(&mut self, offset: u64, count: u64, device: c_int) {
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
    fn states(&self, offset: u64, count: u64) -> impl Iterator<Item = &State> {
        let first = self.0.range(..=offset).next_back();
        let others = self.0.range(offset + 1..offset + count);
        first.into_iter().chain(others).map(|(_, state)| state)
    }

    /// Returns the location that all these pages have in common, or [`NOWHERE`] if they differ.
    fn location(&self, offset: u64, count: u64, of: impl Fn(&State) -> c_int) -> c_int {
        let mut all = self.states(offset, count).map(of);
        let first = all.next().unwrap_or(NOWHERE);
        if all.all(|other| other == first) {
            first
        } else {
            NOWHERE
        }
    }
}

impl Call {
    /// Calls `change` with the pages of the managed allocation that contains the range, and with
    /// the offset of the range in that allocation.
    pub(super) fn with_pages<R>(
        &self,
        dptr: CUdeviceptr,
        count: usize,
        change: impl FnOnce(&mut Pages, u64) -> R,
    ) -> Status<R> {
        let mut allocations = self.allocations();
        let (start, allocation) = allocations
            .range_mut(..=dptr)
            .next_back()
            .ok_or(INVALID_VALUE)?;
        let end = dptr.checked_add(count as u64);
        let is_within = count > 0 && end.is_some_and(|end| end <= start + allocation.size);
        match &mut allocation.kind {
            Kind::Managed(pages) if is_within => Ok(change(pages, dptr - start)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn mem_range_get_attribute(
        &self,
        data: Out<c_void>,
        size: usize,
        attribute: CUmem_range_attribute,
        dptr: CUdeviceptr,
        count: usize,
    ) -> Status {
        type A = CUmem_range_attribute;
        data.required()?;
        let data = data.typed::<c_int>();
        let slots = size / size_of::<c_int>();
        if slots == 0 || !size.is_multiple_of(size_of::<c_int>()) {
            return Err(INVALID_VALUE);
        }
        if attribute != A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && slots != 1 {
            return Err(INVALID_VALUE);
        }
        let bytes = count as u64;
        let answer = self.with_pages(dptr, count, |pages, at| match attribute {
            A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => {
                let all = pages.states(at, bytes).all(|state| state.is_read_mostly);
                Some(vec![c_int::from(all)])
            }
            A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => {
                Some(vec![pages.location(at, bytes, |state| state.preferred)])
            }
            A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => {
                Some(vec![pages.location(at, bytes, |state| state.last_prefetch)])
            }
            A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
                let mut states = pages.states(at, bytes);
                let first = states.next().map(|state| state.accessed_by.clone());
                let all = states.fold(first.unwrap_or_default(), |all, state| {
                    &all & &state.accessed_by
                });
                Some(all.into_iter().collect())
            }
            _ => None,
        })?;
        let answer = answer.ok_or(INVALID_VALUE)?;
        for slot in 0..slots {
            data.set_at(slot, answer.get(slot).copied().unwrap_or(NOWHERE));
        }
        Ok(())
    }
}
