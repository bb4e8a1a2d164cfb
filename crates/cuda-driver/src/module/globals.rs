//! The variables of a module that have been looked up, with their dependency tracking.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::stream::Stream;
use crate::tracking::Tracker;

/// The variables of a module that have been looked up, keyed by their addresses. `None` means that
/// a [`Global`](crate::jit::Global) of the variable exists, which owns the tracker.
#[derive(Default)]
pub(crate) struct Globals(Mutex<BTreeMap<CUdeviceptr, Option<Arc<Tracker>>>, { rank::GLOBALS }>);

impl Globals {
    /// Gives the variable at `address` to a new owner, with `stream` as its owning stream.
    pub(crate) fn take(
        &self,
        address: CUdeviceptr,
        name: &str,
        stream: &Stream,
    ) -> Result<Arc<Tracker>> {
        let kept = match self.0.lock().entry(address) {
            Entry::Vacant(entry) => {
                entry.insert(None);
                None
            }
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut().take();
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
        let former = self.0.lock().insert(address, Some(tracker));
        drop(former);
    }

    /// Removes all variables, and returns the trackers of those that were ever looked up. None of
    /// them has an owner, as a [`Global`](crate::jit::Global) keeps its module.
    pub(crate) fn take_all(&self) -> Vec<Arc<Tracker>> {
        let known = mem::take(&mut *self.0.lock());
        known.into_values().flatten().collect()
    }
}
