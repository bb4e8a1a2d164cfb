//! Memory that graphs hold: it outlives its owner.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::CUdeviceptr;

use super::uses::{Removed, Use};
use super::{Access, Record, Tracker, matters};
use crate::error::{Error, Result};
use crate::memory::{Block, Memory, Source};
use crate::pending;
use crate::planted::Fault;

/// What a tracker knows of the graphs that hold its memory.
#[derive(Default)]
pub(super) struct Estate {
    /// How many [`Held`] there are.
    holders: usize,
    /// What the owner has left when it went.
    left: Option<(CUdeviceptr, usize, Source)>,
    /// The executables whose replays use the memory.
    pub(super) users: Vec<User>,
    /// How many guards of the host read it, if it is the host's.
    pub(super) readers: usize,
    /// How many write it: one at most.
    pub(super) writers: usize,
}

/// An executable that uses the memory.
pub(super) struct User {
    pub(super) record: Arc<Record>,
    /// The number that the record knows the tracker by.
    pub(super) slot: usize,
    /// What all its nodes together do to the memory.
    pub(super) access: Access,
    /// How many nodes use it.
    pub(super) nodes: usize,
}

impl Estate {
    /// How many guards of the host are in the way of `access`.
    pub(super) fn lent_against(&self, access: Access) -> usize {
        if access.write {
            self.readers + self.writers
        } else {
            self.writers
        }
    }

    /// The count of guards of this kind.
    pub(super) fn guards(&mut self, access: Access) -> &mut usize {
        if access.write {
            &mut self.writers
        } else {
            &mut self.readers
        }
    }

    /// The users whose replays matter to `access`.
    pub(super) fn users_against(&self, access: Access) -> impl Iterator<Item = &User> {
        self.users
            .iter()
            .filter(move |user| matters(user.access, access))
    }
}

/// Keeps memory that a graph uses: as long as one lives, the memory is not given back, whatever its
/// owner does.
pub(crate) struct Held {
    tracker: ManuallyDrop<Arc<Tracker>>,
}

impl Held {
    /// Holds the memory behind a borrow that allows what the graph is to do with it.
    ///
    /// From now on each use of it takes the slow way: replays borrow nothing, so they are not to be
    /// missed. The borrow sees to it that no use that this is in the way of is between its order
    /// and its note.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for managed memory, which the host may touch at any time.
    pub(crate) fn new(memory: &Memory) -> Result<Self> {
        if memory.is_managed() {
            return Err(Error::Unsupported {
                what: "managed memory in a graph",
            });
        }
        memory.tracker.hold();
        Ok(Self {
            tracker: ManuallyDrop::new(Arc::clone(&memory.tracker)),
        })
    }

    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.tracker.hold();
        Self {
            tracker: ManuallyDrop::new(Arc::clone(&self.tracker)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: it must not be used again ← this is the end of `self`.
        let tracker = unsafe { ManuallyDrop::take(&mut self.tracker) };
        let driver = tracker.home().driver().clone();
        // Inside a host function not even the tracker is locked: who has it may wait for that
        // function.
        pending::outside(&driver, move || {
            if let Some((address, bytes, source)) = tracker.let_go() {
                let _ = source.take_back(Block {
                    address,
                    bytes,
                    tracker,
                });
            }
        });
    }
}

impl Tracker {
    /// Whether a graph holds the memory, or has held it.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// One holder more.
    fn hold(&self) {
        // Declared before the guard, so that it is dropped after it.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        if !self.crossed.cross() {
            // As for a use elsewhere: uses at home left no trace, so one stands for all of them.
            removed.extend(uses.list.drain(..));
            uses.list.push(Use::at_home(self.home(), true));
        }
        self.is_held.store(true, Ordering::Release);
        uses.estate.get_or_insert_default().holders += 1;
    }

    /// One holder less; answers what the owner has left if it was the last.
    fn let_go(&self) -> Option<(CUdeviceptr, usize, Source)> {
        let mut uses = self.lock();
        let estate = uses.estate.as_mut()?;
        estate.holders -= 1;
        if estate.holders == 0 {
            estate.left.take()
        } else {
            None
        }
    }

    /// Its owner goes: answers the source if nobody holds the memory, which otherwise goes with the
    /// last holder.
    pub(crate) fn leave(
        &self,
        address: CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> Option<Source> {
        let mut uses = self.lock();
        match uses.estate.as_mut() {
            Some(estate) if estate.holders > 0 && !Fault::HeldIgnored.is_planted() => {
                estate.left = Some((address, bytes, source));
                None
            }
            _ => Some(source),
        }
    }

    /// Whether somebody holds the memory now.
    pub(crate) fn has_holders(&self) -> bool {
        let uses = self.lock();
        uses.estate
            .as_ref()
            .is_some_and(|estate| estate.holders > 0)
    }
}
