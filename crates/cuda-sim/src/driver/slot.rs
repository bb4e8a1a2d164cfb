//! Where instances sit so that C functions find them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::lock::lock;

use super::instance::Instance;

/// How many software drivers a process can hold at once.
pub(crate) const SLOTS: usize = 32;

static INSTANCES: [RwLock<Option<Arc<Instance>>>; SLOTS] = [const { RwLock::new(None) }; SLOTS];
static TAKEN: Mutex<[bool; SLOTS]> = Mutex::new([false; SLOTS]);
/// Where the search begins: a slot just given back is the last to be taken again.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A slot that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    index: usize,
    instance: Arc<Instance>,
}

impl Slot {
    /// Puts `instance` into a free slot; `None` if there is none.
    pub(crate) fn take(instance: Instance) -> Option<Self> {
        let mut taken = lock(&TAKEN);
        let first = NEXT.load(Ordering::Relaxed);
        let index = (0..SLOTS)
            .map(|step| (first + step) % SLOTS)
            .find(|&index| !taken[index])?;
        taken[index] = true;
        NEXT.store(index + 1, Ordering::Relaxed);
        let instance = Arc::new(instance);
        *INSTANCES[index]
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&instance));
        Some(Self { index, instance })
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let gone = INSTANCES[self.index]
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(gone);
        lock(&TAKEN)[self.index] = false;
    }
}

/// The instance in slot number `index`, if one is there.
pub(super) fn instance(index: usize) -> Option<Arc<Instance>> {
    INSTANCES[index]
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Whether an instance with this number is alive.
pub(super) fn is_alive(id: u64) -> bool {
    (0..SLOTS).any(|index| instance(index).is_some_and(|instance| instance.id == id))
}
