//! The memory that a batch of operations uses.

use std::collections::HashMap;
use std::ptr;

use super::Memory;
use crate::error::Result;
use crate::stream::Stream;
use crate::tracking::{Access, Scope};

/// The uses of a batch, with one entry for each buffer, so that a batch is ordered once for each
/// buffer and not once for each operation.
#[derive(Default)]
pub(crate) struct BatchUses<'a> {
    uses: Vec<(&'a Memory, Access)>,
    /// The position of each buffer in `uses`, by its address in the program.
    places: HashMap<usize, usize>,
    /// The positions of the last two buffers.
    recent: [usize; 2],
}

impl<'a> BatchUses<'a> {
    /// Adds a use of a buffer, and combines it with the other uses of that buffer.
    pub(crate) fn add(&mut self, memory: &'a Memory, access: Access) {
        let known = self.recent.into_iter().find(|&place| {
            let known = self.uses.get(place);
            known.is_some_and(|(known, _)| ptr::eq(*known, memory))
        });
        let place = known.unwrap_or_else(|| {
            let next = self.uses.len();
            let address = ptr::from_ref(memory).addr();
            *self.places.entry(address).or_insert(next)
        });
        self.recent = [self.recent[1], place];
        match self.uses.get_mut(place) {
            Some((_, whole)) if *whole == access => {}
            Some((_, whole)) => *whole = whole.with(access),
            None => self.uses.push((memory, access)),
        }
    }

    /// Returns the buffers and their uses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a Memory, Access)> {
        self.uses.iter().copied()
    }

    /// Adds the uses of another batch.
    pub(crate) fn append(&mut self, other: Self) {
        for (memory, access) in other.uses {
            self.add(memory, access);
        }
    }

    /// Calls `queue` between acquiring and committing all uses on `stream`, as
    /// [`Memory::use_all`] does.
    pub(crate) fn queue<E>(
        &self,
        stream: &Stream,
        call: &'static str,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        crate::error::Error: From<E>,
    {
        let mut scope = Scope::acquire(stream, call, |scope| {
            for (memory, _) in &self.uses {
                scope.lock_replays_if_needed(&memory.tracker);
            }
            self.uses
                .iter()
                .try_for_each(|(memory, access)| memory.tracker.acquire(scope, *access))
        })?;
        let may_be_mapped = self.uses.iter().any(|(memory, _)| memory.may_be_mapped());
        let _current = stream.bind_for_mapped(may_be_mapped)?;
        let queued = queue();
        for (memory, access) in &self.uses {
            memory.tracker.commit(&mut scope, *access);
        }
        Ok(queued?)
    }
}
