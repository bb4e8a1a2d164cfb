//! The variables of a module that have been looked up, with their dependency tracking.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::stream::Stream;
use crate::tracking::Tracker;

/// The variables of a module that have been looked up, and those that cannot be looked up any more.
#[derive(Default)]
pub(crate) struct Globals {
    all: Mutex<Variables, { rank::GLOBALS }>,
}

#[derive(Default)]
struct Variables {
    /// The variables that have been looked up, keyed by their addresses.
    known: BTreeMap<CUdeviceptr, Known>,
    /// The names of the constant tables that safe launches read. A launch does not record a use of
    /// them, so nothing would order it before a write of the program.
    constant: BTreeSet<String>,
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
        let mut all = self.all.lock();
        let Variables { known, constant } = &mut *all;
        let kept = match known.entry(address) {
            Entry::Vacant(_) if constant.contains(name) => {
                return Err(Error::ConstantVariable {
                    name: name.to_owned(),
                });
            }
            Entry::Vacant(entry) => {
                entry.insert(Known {
                    name: name.to_owned(),
                    tracker: None,
                });
                None
            }
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut().tracker.take();
                Some(kept.ok_or_else(|| Error::GlobalInUse {
                    name: name.to_owned(),
                })?)
            }
        };
        drop(all);
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
        let mut all = self.all.lock();
        let former = match all.known.get_mut(&address) {
            Some(known) => known.tracker.replace(tracker),
            None => Some(tracker),
        };
        drop(all);
        drop(former);
    }

    /// Makes these variables constant from now on, except those that have ever been looked up,
    /// which it returns.
    pub(crate) fn make_constant<'n>(&self, names: &'n [String]) -> Vec<&'n String> {
        let mut all = self.all.lock();
        let Variables { known, constant } = &mut *all;
        let is_known = |name: &&String| known.values().any(|known| known.name == **name);
        let (looked_up, others): (Vec<_>, Vec<_>) = names.iter().partition(is_known);
        constant.extend(others.into_iter().cloned());
        looked_up
    }

    /// Removes all variables, and returns the trackers of those that were ever looked up. None of
    /// them has an owner, as a [`Global`](crate::jit::Global) keeps its module.
    pub(crate) fn take_all(&self) -> Vec<Arc<Tracker>> {
        let all = mem::take(&mut *self.all.lock());
        all.known
            .into_values()
            .filter_map(|known| known.tracker)
            .collect()
    }
}
