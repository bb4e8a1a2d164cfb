//! Advice on and attributes of ranges of managed memory (`cuMemAdvise`, `cuMemRangeGetAttribute`).
//!
//! The software device does not migrate pages. Advice and prefetches are recorded only so that they
//! can be queried.

use std::ffi::{c_int, c_void};

use cuda_sys::{CUdeviceptr, CUmem_range_attribute};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::advice::{NOWHERE, Pages};
use crate::driver::objects::memory::Kind;
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuMemRangeGetAttribute => mem_range_get_attribute;
    cuMemRangeGetAttributes => mem_range_get_attributes;
}

impl Call {
    /// Calls `change` with the pages of the managed allocation that contains the range, and with
    /// the offset of the range in that allocation.
    pub(in crate::driver) fn with_pages<R>(
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
            Kind::Managed(pages) | Kind::ManagedPool(_, pages) if is_within => {
                Ok(change(pages, dptr - start))
            }
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
        let result = self.with_pages(dptr, count, |pages, at| match attribute {
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
                // As an unsigned number, the host, which is -1, comes after the devices.
                let mut all: Vec<c_int> = all.into_iter().collect();
                all.sort_unstable_by_key(|&location| location.cast_unsigned());
                Some(all)
            }
            _ => None,
        })?;
        let result = result.ok_or(INVALID_VALUE)?;
        for slot in 0..slots {
            data.set_at(slot, result.get(slot).copied().unwrap_or(NOWHERE));
        }
        Ok(())
    }

    fn mem_range_get_attributes(
        &self,
        data: Out<*mut c_void>,
        sizes: Out<usize>,
        attributes: Out<CUmem_range_attribute>,
        attribute_count: usize,
        dptr: CUdeviceptr,
        count: usize,
    ) -> Status {
        if attribute_count == 0 {
            return Err(INVALID_VALUE);
        }
        for index in 0..attribute_count {
            let (size, attribute) = (sizes.get_at(index)?, attributes.get_at(index)?);
            let place = data.get_at(index)?;
            // SAFETY: `place` must be valid for `size` bytes ← the contract of this function for
            // each element of `data`.
            let place = unsafe { crate::driver::arg::Arg::wrap(place) };
            self.mem_range_get_attribute(place, size, attribute, dptr, count)?;
        }
        Ok(())
    }
}
