//! Slots: the static places where C functions find their instance.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::instance::Instance;
use crate::lock::{lock, read, write};

/// The maximum number of software drivers in a process.
pub(crate) const SLOTS: usize = 32;

static INSTANCES: [RwLock<Option<Arc<Instance>>>; SLOTS] = [const { RwLock::new(None) }; SLOTS];
static TAKEN: Mutex<[bool; SLOTS]> = Mutex::new([false; SLOTS]);
/// The slot at which the search for a free one starts. A released slot is the last to be reused.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A slot that belongs to its owner until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    index: usize,
    instance: Arc<Instance>,
}

impl Slot {
    /// Stores `instance` in a free slot. Returns `None` if all slots are in use.
    pub(crate) fn take(instance: Instance) -> Option<Self> {
        let mut taken = lock(&TAKEN);
        let first = NEXT.load(Ordering::Relaxed);
        let index = (0..SLOTS)
            .map(|step| (first + step) % SLOTS)
            .find(|&index| !taken[index])?;
        taken[index] = true;
        NEXT.store(index + 1, Ordering::Relaxed);
        let instance = Arc::new(instance);
        *write(&INSTANCES[index]) = Some(Arc::clone(&instance));
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
        let gone = write(&INSTANCES[self.index]).take();
        drop(gone);
        lock(&TAKEN)[self.index] = false;
    }
}

/// Returns the instance in slot `index`, if there is one.
pub(super) fn instance(index: usize) -> Option<Arc<Instance>> {
    read(&INSTANCES[index]).clone()
}
