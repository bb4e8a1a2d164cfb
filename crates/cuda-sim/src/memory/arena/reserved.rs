//! Ranges that keep their address while they are not live. They implement the allocation nodes of
//! graphs.

use super::Arena;

impl Arena {
    /// Reserves `size` addresses, which are not live yet. Returns `None` if no free range is large
    /// enough.
    pub fn reserve(&self, size: u64, align: u64) -> Option<u64> {
        let (offset, taken) = self.take(size, align)?;
        self.state().reserved.insert(offset, (size, taken));
        Some(self.base + offset)
    }

    /// Whether `len` bytes at `addr` lie in a reserved range.
    pub fn is_reserved(&self, addr: u64, len: u64) -> bool {
        let Some(offset) = addr.checked_sub(self.base) else {
            return false;
        };
        let state = self.state();
        let below = state.reserved.range(..=offset).next_back();
        below.is_some_and(|(&start, &(size, _))| {
            let inside = offset - start;
            inside <= size && len <= size - inside
        })
    }

    /// Makes the range that was reserved at `addr` live and poisons its bytes; returns whether it
    /// was not live before.
    pub fn activate(&self, addr: u64) -> bool {
        let offset = addr.wrapping_sub(self.base);
        let state = self.state();
        let Some(&(size, taken)) = state.reserved.get(&offset) else {
            return false;
        };
        let fresh = !state.live.contains_key(&offset);
        drop(state);
        // A program that uses it in a wrong order sees poison, as with any other allocation.
        self.poison(offset, size);
        let mut state = self.state();
        state.live.insert(offset, (size, taken));
        state.map = None;
        fresh
    }

    /// Ends the live period that [`activate`](Self::activate) began; returns whether the range was
    /// live.
    pub fn deactivate(&self, addr: u64) -> bool {
        let offset = addr.wrapping_sub(self.base);
        let mut state = self.state();
        let Some(&(size, _)) = state.reserved.get(&offset) else {
            return false;
        };
        let was_live = state.live.remove(&offset).is_some();
        state.note_freed(addr, size, "a graph");
        was_live
    }

    /// Releases the range that was reserved at `addr`.
    pub fn unreserve(&self, addr: u64) {
        let offset = addr.wrapping_sub(self.base);
        let mut state = self.state();
        if let Some((size, taken)) = state.reserved.remove(&offset) {
            if state.live.remove(&offset).is_some() {
                state.note_freed(addr, size, "a graph");
            }
            self.give(&mut state, offset, taken);
            state.map = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::Arena;

    #[test]
    fn a_freed_address_stays_reserved() {
        let arena = Arena::new(1 << 20).unwrap();
        let addr = arena.reserve(100, 256).unwrap();
        assert!(arena.map().find(addr, 1).is_none());
        assert!(arena.activate(addr));
        assert!(!arena.activate(addr), "it is live already");
        assert!(arena.map().find(addr, 100).is_some());
        assert!(arena.map().find(addr, 101).is_none());
        assert!(arena.deactivate(addr));
        assert!(!arena.deactivate(addr));
        assert!(arena.map().find(addr, 1).is_none());
        // The address is not reused in the meantime.
        let other = arena.alloc(100, 256).unwrap();
        assert_ne!(other, addr);
        assert!(arena.free(addr, "a test").is_err());
        arena.unreserve(addr);
        arena.free(other, "a test").unwrap();
        assert_eq!(arena.used(), 0);
    }
}
