//! The variables of a module that have been looked up, with their dependency tracking.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::CUdeviceptr;

use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::stream::Stream;
use crate::tracking::Tracker;

/// The variables of a module that have been looked up, keyed by their addresses.
#[derive(Default)]
pub(crate) struct Globals {
    known: Mutex<BTreeMap<CUdeviceptr, Known>, { rank::GLOBALS }>,
    /// Whether a variable was ever looked up.
    is_any: AtomicBool,
}

/// A variable that has been looked up.
struct Known {
    name: String,
    /// `None` means that a [`Global`](crate::jit::Global) of the variable exists, which owns the
    /// tracker.
    tracker: Option<Arc<Tracker>>,
}

impl Globals {
    /// Gives the variable at `address` to a new owner, with `stream` as its owning stream.
    pub(crate) fn take(
        &self,
        address: CUdeviceptr,
        name: &str,
        stream: &Stream,
    ) -> Result<Arc<Tracker>> {
        let kept = match self.known.lock().entry(address) {
            Entry::Vacant(entry) => {
                entry.insert(Known {
                    name: name.to_owned(),
                    tracker: None,
                });
                self.is_any.store(true, Ordering::Release);
                None
            }
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut().tracker.take();
                Some(kept.ok_or_else(|| Error::GlobalInUse {
                    name: name.to_owned(),
                })?)
            }
        };
        let Some(mut tracker) = kept else {
            return Ok(Arc::new(Tracker::new(stream)));
        };
        // The list is not locked, because this can wait for the device. Meanwhile the variable
        // counts as in use.
        match Tracker::hand_over(&mut tracker, stream) {
            Ok(()) => Ok(tracker),
            Err(error) => {
                self.put(address, tracker);
                Err(error.into())
            }
        }
    }

    /// Takes a variable back, with its tracker.
    pub(crate) fn put(&self, address: CUdeviceptr, tracker: Arc<Tracker>) {
        let mut known = self.known.lock();
        let former = match known.get_mut(&address) {
            Some(known) => known.tracker.replace(tracker),
            None => Some(tracker),
        };
        drop(known);
        drop(former);
    }

    /// Returns those of these variables that have ever been looked up. Takes no lock if none of the
    /// module has.
    #[inline]
    pub(crate) fn looked_up<'n>(&self, names: &'n [String]) -> Vec<&'n String> {
        if names.is_empty() || !self.is_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let known = self.known.lock();
        let is_known = |name: &&String| known.values().any(|known| known.name == **name);
        names.iter().filter(is_known).collect()
    }

    /// Removes all variables, and returns the trackers of those that were ever looked up. None of
    /// them has an owner, as a [`Global`](crate::jit::Global) keeps its module.
    pub(crate) fn take_all(&self) -> Vec<Arc<Tracker>> {
        let known = mem::take(&mut *self.known.lock());
        known
            .into_values()
            .filter_map(|known| known.tracker)
            .collect()
    }
}
