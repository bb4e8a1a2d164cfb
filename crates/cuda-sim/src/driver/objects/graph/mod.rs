//! Graphs and stream capture: the state and the rules.
//!
//! All graphs, executable graphs, captures and user objects of a driver are in one [`GraphState`]
//! behind one lock. An executable graph is a copy of its graph ([`template`]).

pub(in crate::driver) mod add;
pub(in crate::driver) mod attribute;
pub(in crate::driver) mod capture;
pub(in crate::driver) mod conditional;
pub(in crate::driver) mod convert;
pub(in crate::driver) mod dot;
pub(in crate::driver) mod launch;
pub(in crate::driver) mod memory;
pub(in crate::driver) mod model;
pub(in crate::driver) mod object;
pub(in crate::driver) mod payload;
pub(in crate::driver) mod template;
pub(in crate::driver) mod update;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::driver::objects::graph::capture::{Branch, Capture};
use crate::driver::objects::graph::conditional::Conditionals;
use crate::driver::objects::graph::memory::GraphMemory;
use crate::driver::objects::graph::model::Graph;
use crate::driver::objects::graph::object::{Owned, Reaper};
use crate::driver::objects::graph::template::Exec;
use crate::engine::QueueId;
use crate::live::Live;
use crate::lock::lock;

/// The graphs of a driver.
#[derive(Debug, Default)]
pub(in crate::driver) struct Store {
    state: Mutex<GraphState>,
    /// The number of captures in progress. Every call reads it.
    captures: AtomicUsize,
    pub(in crate::driver) reaper: Arc<Reaper>,
    pub(in crate::driver) conditionals: Arc<Conditionals>,
    /// The amount of memory that graphs use, by the ordinal of the device.
    footprints: Mutex<HashMap<usize, Arc<memory::Footprint>>>,
}

/// The state behind the lock.
#[derive(Debug, Default)]
pub(in crate::driver) struct GraphState {
    graphs: HashMap<u64, Graph>,
    /// The graph of each node, by node handle.
    graph_of: HashMap<u64, u64>,
    pub(in crate::driver) execs: HashMap<u64, Exec>,
    pub(in crate::driver) objects: HashMap<u64, Owned>,
    pub(in crate::driver) captures: HashMap<u64, Capture>,
    /// The streams that take part in a capture.
    pub(in crate::driver) branches: HashMap<QueueId, Branch>,
    /// The memory of allocation nodes, by address.
    memory: HashMap<u64, Weak<GraphMemory>>,
    last_id: u32,
}

/// A lock guard of the [`GraphState`].
pub(in crate::driver) struct Locked<'a> {
    state: MutexGuard<'a, GraphState>,
    store: &'a Store,
}

impl Deref for Locked<'_> {
    type Target = GraphState;

    fn deref(&self) -> &GraphState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut GraphState {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let captures = self.state.captures.len();
        self.store.captures.store(captures, Ordering::Release);
    }
}

impl Store {
    pub(in crate::driver) fn lock(&self) -> Locked<'_> {
        Locked {
            state: lock(&self.state),
            store: self,
        }
    }

    /// Returns whether any stream is being captured. This takes no lock.
    pub(in crate::driver) fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) != 0
    }

    /// Returns the values of conditional nodes, which kernels set.
    pub(in crate::driver) fn conditionals(&self) -> Arc<Conditionals> {
        Arc::clone(&self.conditionals)
    }

    /// Adds the live objects to `live`.
    pub(in crate::driver) fn count(&self, live: &mut Live) {
        let state = self.lock();
        live.graphs = state
            .graphs
            .values()
            .filter(|graph| graph.is_of_user())
            .count();
        live.graph_execs = state.execs.len();
        live.user_objects = self.reaper.live();
    }
}
