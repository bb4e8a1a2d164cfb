//! Handles: numbers that C holds as pointers.
//!
//! A handle is never an address and is never reused, so the lookup fails for a stale handle, for a
//! handle of another kind, and for a handle of another software driver.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use crate::lock::{read, write};

/// The first handle. No address of a 64-bit process has these upper bits.
const BASE: u64 = 0x5C00_0000_0000_0000;
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a handle that was never used before.
pub(super) fn fresh() -> u64 {
    BASE + 16 * NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Converts a handle to a C pointer.
pub(super) fn pointer<T>(handle: u64) -> *mut T {
    std::ptr::without_provenance_mut(handle as usize)
}

/// The live objects of one kind.
pub(super) struct Table<T>(RwLock<HashMap<u64, Arc<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} live", self.len())
    }
}

impl<T> Table<T> {
    pub(super) fn insert(&self, handle: u64, value: Arc<T>) {
        write(&self.0).insert(handle, value);
    }

    pub(super) fn get(&self, handle: u64) -> Option<Arc<T>> {
        read(&self.0).get(&handle).cloned()
    }

    pub(super) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        write(&self.0).remove(&handle)
    }

    /// Removes and returns the objects for which `which` is true, in the order of creation.
    pub(super) fn drain(&self, which: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut map = write(&self.0);
        let mut gone: Vec<_> = map.extract_if(|_, value| which(value)).collect();
        gone.sort_unstable_by_key(|&(handle, _)| handle);
        gone.into_iter().map(|(_, value)| value).collect()
    }

    /// Returns the live objects in the order of creation.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        let map = read(&self.0);
        let mut all: Vec<_> = map.iter().map(|(&handle, value)| (handle, value)).collect();
        all.sort_unstable_by_key(|&(handle, _)| handle);
        all.into_iter()
            .map(|(_, value)| Arc::clone(value))
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        read(&self.0).len()
    }
}
