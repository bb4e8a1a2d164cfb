//! Graphs and stream capture.
//!
//! All graphs, executable graphs, captures and user objects of a driver are in one [`World`] behind
//! one lock. An executable graph is a copy of its graph ([`template`]). A launch turns it into
//! steps for the engine ([`launch`]), which are ordered only by the edges.

mod add;
mod attribute;
mod capture;
mod capture_calls;
mod capture_mode;
mod conditional;
mod convert;
mod create;
mod dot;
mod edges;
mod exec;
mod launch;
mod memory;
mod model;
mod object;
mod params;
mod payload;
mod template;
mod update;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use capture::{Branch, Capture};
use model::Graph;
use object::{Owned, Reaper};
use template::Exec;

use super::export::Entry;
use crate::engine::QueueId;
use crate::lock::lock;

pub(super) use attribute::{Attributes, tell_device_node};
pub(super) use conditional::Conditionals;
pub(super) use memory::GraphMemory;
pub(super) use model::Edge;
pub(super) use payload::{Kernel, Payload};

/// Returns the C functions of this module for the slot `SLOT`.
pub(super) fn entries<const SLOT: usize>() -> [&'static [Entry]; 12] {
    [
        add::Exports::<SLOT>::ENTRIES,
        attribute::Exports::<SLOT>::ENTRIES,
        capture_calls::Exports::<SLOT>::ENTRIES,
        conditional::Exports::<SLOT>::ENTRIES,
        create::Exports::<SLOT>::ENTRIES,
        dot::Exports::<SLOT>::ENTRIES,
        edges::Exports::<SLOT>::ENTRIES,
        exec::Exports::<SLOT>::ENTRIES,
        memory::Exports::<SLOT>::ENTRIES,
        object::Exports::<SLOT>::ENTRIES,
        params::Exports::<SLOT>::ENTRIES,
        update::Exports::<SLOT>::ENTRIES,
    ]
}

/// The graphs of a driver.
#[derive(Debug, Default)]
pub(super) struct Store {
    world: Mutex<World>,
    /// The number of captures in progress. Every call reads it.
    captures: AtomicUsize,
    reaper: Arc<Reaper>,
    conditionals: Arc<Conditionals>,
    footprints: Mutex<HashMap<usize, Arc<memory::Footprint>>>,
}

/// The state behind the lock.
#[derive(Debug, Default)]
struct World {
    graphs: HashMap<u64, Graph>,
    /// The graph of each node, by node handle.
    homes: HashMap<u64, u64>,
    execs: HashMap<u64, Exec>,
    objects: HashMap<u64, Owned>,
    captures: HashMap<u64, Capture>,
    /// The streams that take part in a capture.
    branches: HashMap<QueueId, Branch>,
    /// The memory of allocation nodes, by address.
    memory: HashMap<u64, Weak<GraphMemory>>,
    last_id: u32,
}

/// A lock guard of the [`World`].
struct Locked<'a> {
    world: MutexGuard<'a, World>,
    store: &'a Store,
}

impl Deref for Locked<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let captures = self.world.captures.len();
        self.store.captures.store(captures, Ordering::Release);
    }
}

impl Store {
    fn lock(&self) -> Locked<'_> {
        Locked {
            world: lock(&self.world),
            store: self,
        }
    }

    /// Returns whether any stream is being captured. This takes no lock.
    fn is_capturing(&self) -> bool {
        self.captures.load(Ordering::Acquire) != 0
    }

    /// Returns the values of conditional nodes, which kernels set.
    pub(super) fn conditionals(&self) -> Arc<Conditionals> {
        Arc::clone(&self.conditionals)
    }

    /// Adds the live objects to `live`.
    pub(super) fn count(&self, live: &mut crate::Live) {
        let world = self.lock();
        live.graphs = world
            .graphs
            .values()
            .filter(|graph| graph.is_users())
            .count();
        live.graph_execs = world.execs.len();
        live.user_objects = self.reaper.live();
    }
}
