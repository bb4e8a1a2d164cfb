//! Best-fit allocation in a linear address range.

use std::collections::{BTreeMap, BTreeSet};

/// The free ranges of `0..capacity`, indexed by position and by size.
#[derive(Debug)]
pub(super) struct FreeList {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeList {
    /// Creates a list in which `0..capacity` is free.
    pub(super) fn new(capacity: u64) -> Self {
        let mut list = Self {
            by_start: BTreeMap::new(),
            by_size: BTreeSet::new(),
        };
        list.insert(0, capacity);
        list
    }

    /// Takes `size` bytes at a multiple of `align` (a power of two) from the smallest free range
    /// that fits.
    pub(super) fn take(&mut self, size: u64, align: u64) -> Option<u64> {
        let (part, start, len) = self.by_size.range((size, 0)..).find_map(|&(len, start)| {
            let first = start.checked_next_multiple_of(align)?;
            let needed = (first - start).checked_add(size)?;
            (needed <= len).then_some((first, start, len))
        })?;
        self.remove(start, len);
        if part > start {
            self.insert(start, part - start);
        }
        let rest = start + len - (part + size);
        if rest > 0 {
            self.insert(part + size, rest);
        }
        Some(part)
    }

    /// Takes `size` bytes at `start`; returns whether all of them were free.
    pub(super) fn take_at(&mut self, start: u64, size: u64) -> bool {
        let Some((&part, &len)) = self.by_start.range(..=start).next_back() else {
            return false;
        };
        let before = start - part;
        let Some(after) = len
            .checked_sub(before)
            .and_then(|rest| rest.checked_sub(size))
        else {
            return false;
        };
        self.remove(part, len);
        self.insert(part, before);
        self.insert(start + size, after);
        true
    }

    /// Returns `size` bytes at `start` to the list and merges them with free neighbours.
    pub(super) fn give(&mut self, mut start: u64, mut size: u64) {
        if let Some((&before, &len)) = self.by_start.range(..start).next_back()
            && before + len == start
        {
            self.remove(before, len);
            start = before;
            size += len;
        }
        if let Some(&len) = self.by_start.get(&(start + size)) {
            self.remove(start + size, len);
            size += len;
        }
        self.insert(start, size);
    }

    fn insert(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.by_start.insert(start, len);
            self.by_size.insert((len, start));
        }
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use super::FreeList;

    #[test]
    fn parts_join_again() {
        let mut list = FreeList::new(4096);
        let parts: Vec<u64> = (0..4).filter_map(|_| list.take(1024, 256)).collect();
        assert_eq!(parts, [0, 1024, 2048, 3072]);
        assert_eq!(list.take(1, 256), None);
        for part in [1024, 3072, 0, 2048] {
            list.give(part, 1024);
        }
        assert_eq!(list.take(4096, 256), Some(0));
    }

    #[test]
    fn alignment_leaves_the_gap_free() {
        let mut list = FreeList::new(4096);
        assert_eq!(list.take(256, 256), Some(0));
        assert_eq!(list.take(256, 2048), Some(2048));
        assert_eq!(list.take(1792, 256), Some(256));
    }

    #[test]
    fn the_smallest_part_that_fits_is_taken() {
        let mut list = FreeList::new(8192);
        let parts: Vec<u64> = [512, 256, 1024, 256]
            .into_iter()
            .filter_map(|size| list.take(size, 256))
            .collect();
        list.give(parts[2], 1024);
        list.give(parts[0], 512);
        assert_eq!(list.take(512, 256), Some(parts[0]));
    }
}
