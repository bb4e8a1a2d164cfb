//! Events that several processes record and wait for, through a page that all of them map.
//!
//! A recording gets the next number of the page, and completes by storing its number in a slot. So
//! each process sees which recording is the latest, and whether it is complete, also if another
//! process made it.
//!
//! If a process is killed, its recordings that are not complete never become so, and a wait for one
//! of them never ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::driver::objects::shared::{Kind, SharedHandle};
use crate::driver::status::{INVALID_CONTEXT, INVALID_VALUE, Status};
use crate::lock::lock;
use crate::memory::shared_file::{PAGE, SharedFile, SharedPage, create, open, place};

/// The maximum number of shared events of one driver.
const EVENTS: u64 = 1 << 16;

/// The word with the generation of the event, or 0 after the event was destroyed.
const GENERATION: usize = 0;
/// The word with the number of the latest recording.
const LATEST: usize = 1;
/// The first word with the number of a completed recording, and how many words there are.
const DONE: usize = 2;
const SLOTS: u64 = (SharedPage::WORDS - DONE) as u64;

/// The file with the pages of the shared events of one driver.
#[derive(Debug, Default)]
pub(in crate::driver) struct EventFile(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    file: Option<Arc<SharedFile>>,
    /// The number of pages that were ever used.
    pages: u64,
    free: Vec<u64>,
    generation: u64,
}

impl EventFile {
    /// Creates a shared event.
    pub(in crate::driver) fn create(self: &Arc<Self>) -> io::Result<SharedEvent> {
        let mut state = lock(&self.0);
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(create(EVENTS * PAGE)?),
        };
        state.file = Some(Arc::clone(&file));
        let index = state.free.last().copied().unwrap_or(state.pages);
        if index == EVENTS {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let page = SharedPage::map(&file, index * PAGE)?;
        if state.free.pop().is_none() {
            state.pages += 1;
        }
        state.generation += 1;
        let generation = state.generation;
        for word in 0..SharedPage::WORDS {
            page.word(word).store(0, Ordering::Relaxed);
        }
        page.word(GENERATION).store(generation, Ordering::Release);
        Ok(SharedEvent {
            page,
            generation,
            own: Some(Own {
                events: Arc::clone(self),
                file,
                index,
            }),
        })
    }
}

/// An event of this process or of another one, which several processes use.
#[derive(Debug)]
pub(in crate::driver) struct SharedEvent {
    page: SharedPage,
    generation: u64,
    /// `None` in a process that has opened it.
    own: Option<Own>,
}

/// The place of an event that this process created.
#[derive(Debug)]
struct Own {
    events: Arc<EventFile>,
    file: Arc<SharedFile>,
    index: u64,
}

impl SharedEvent {
    /// Returns the handle by which another process opens the event. Fails with `INVALID_CONTEXT` if
    /// another process has created it.
    pub(in crate::driver) fn handle(&self) -> Status<SharedHandle> {
        let own = self.own.as_ref().ok_or(INVALID_CONTEXT)?;
        Ok(SharedHandle {
            kind: Kind::Event,
            place: place(&own.file).map_err(|_| INVALID_VALUE)?,
            offset: own.index * PAGE,
            size: PAGE,
            number: self.generation,
        })
    }

    /// Opens the event of another process. Fails with `INVALID_CONTEXT` if the handle is one of
    /// this process, and with `INVALID_VALUE` if the event or its process has ended.
    pub(in crate::driver) fn open(handle: SharedHandle) -> Status<Self> {
        if handle.place.pid == std::process::id() {
            return Err(INVALID_CONTEXT);
        }
        let page = open(handle.place).and_then(|file| SharedPage::map(&file, handle.offset));
        let event = Self {
            page: page.map_err(|_| INVALID_VALUE)?,
            generation: handle.number,
            own: None,
        };
        if event.is_alive() {
            Ok(event)
        } else {
            Err(INVALID_VALUE)
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.page.word(index)
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        self.word(DONE + (number % SLOTS) as usize)
    }

    /// Returns whether the process that created the event has not destroyed it.
    pub(in crate::driver) fn is_alive(&self) -> bool {
        self.word(GENERATION).load(Ordering::Acquire) == self.generation
    }

    /// Returns the number of a new recording, which is now the latest one.
    pub(in crate::driver) fn begin(&self) -> u64 {
        self.word(LATEST).fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the number of the latest recording, or 0 if there was none.
    pub(in crate::driver) fn latest(&self) -> u64 {
        self.word(LATEST).load(Ordering::Acquire)
    }

    /// Marks a recording as complete.
    pub(in crate::driver) fn complete(&self, number: u64) {
        self.slot(number).fetch_max(number, Ordering::AcqRel);
    }

    /// Returns whether a recording is complete. One that many later ones have followed counts as
    /// complete when the first of these is.
    pub(in crate::driver) fn is_complete(&self, number: u64) -> bool {
        self.slot(number).load(Ordering::Acquire) >= number
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            self.word(GENERATION).store(0, Ordering::Release);
            lock(&own.events.0).free.push(own.index);
        }
    }
}

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use std::sync::Arc;

    use super::{EventFile, SLOTS};

    #[test]
    fn recordings_complete_in_any_order() {
        let file = Arc::new(EventFile::default());
        let event = file.create().unwrap();
        assert!(event.is_alive() && event.is_complete(0), "not recorded");
        let (one, two) = (event.begin(), event.begin());
        assert_eq!(event.latest(), two);
        event.complete(two);
        assert!(event.is_complete(two) && !event.is_complete(one));
        event.complete(one);
        assert!(event.is_complete(one));
        let mut late = 0;
        for _ in 0..SLOTS {
            late = event.begin();
        }
        assert!(!event.is_complete(late));
        event.complete(late);
        assert!(event.is_complete(late) && event.is_complete(late - SLOTS));
        assert_eq!(event.handle().unwrap().offset, 0);
        assert!(super::SharedEvent::open(event.handle().unwrap()).is_err());

        let other = file.create().unwrap();
        assert_ne!(other.handle().unwrap().offset, 0);
        drop(event);
        let reused = file.create().unwrap();
        assert_eq!(reused.handle().unwrap().offset, 0);
        assert_eq!(reused.latest(), 0);
    }
}
