//! User objects, which graphs keep alive for the program.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;

use crate::driver::objects::callback::callback;
use crate::driver::status::{OUT_OF_MEMORY, Status};
use crate::lock::lock;

/// The thread that runs the destructors, as `cuda.h` requires it: a thread of the program might
/// hold a lock that a destructor waits for.
#[derive(Debug, Default)]
pub(in crate::driver) struct Reaper {
    /// The number of live user objects.
    pub(in crate::driver) live: AtomicUsize,
    dead: Mutex<Option<Sender<Destructor>>>,
}

impl Reaper {
    pub(in crate::driver) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Starts the thread if it is not running. An object is created only if this succeeds.
    pub(in crate::driver) fn start(&self) -> Status {
        let mut dead = self.dead();
        if dead.is_none() {
            let (to, from) = mpsc::channel::<Destructor>();
            let run = move || from.into_iter().for_each(Destructor::run);
            let thread = thread::Builder::new().name(String::from("cuda-sim destructors"));
            thread.spawn(run).map_err(|_| OUT_OF_MEMORY)?;
            *dead = Some(to);
        }
        Ok(())
    }

    fn take(&self, destructor: Destructor) {
        if let Some(dead) = &*self.dead() {
            // The thread runs as long as there is a sender, so sending cannot fail.
            let _ = dead.send(destructor);
        }
    }

    fn dead(&self) -> MutexGuard<'_, Option<Sender<Destructor>>> {
        lock(&self.dead)
    }
}

/// A pointer of the program and the destructor that is called with it.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Destructor {
    pub(in crate::driver) data: *mut c_void,
    pub(in crate::driver) destroy: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the pointer is only passed on; the program is responsible for its use in the destructor,
// which may run on any thread.
unsafe impl Send for Destructor {}

// SAFETY: as for `Send`; shared references do not read through the pointer.
unsafe impl Sync for Destructor {}

impl Destructor {
    fn run(self) {
        callback(move || {
            let Self { data, destroy } = { self };
            // SAFETY: the destructor must be callable once with `data` ← the contract of
            // cuUserObjectCreate; this is the only call.
            unsafe { destroy(data) };
        })();
    }
}

/// A user object, whose destructor is called after this is dropped.
#[derive(Debug)]
pub(in crate::driver) struct Object {
    pub(in crate::driver) destructor: Destructor,
    pub(in crate::driver) reaper: Arc<Reaper>,
}

impl Drop for Object {
    fn drop(&mut self) {
        // The count is decremented before the destructor runs, so that code that waits for the
        // destructor reads the new count.
        self.reaper.live.fetch_sub(1, Ordering::AcqRel);
        self.reaper.take(self.destructor);
    }
}

/// The references to a user object that the program itself holds.
#[derive(Debug)]
pub(in crate::driver) struct Owned {
    pub(in crate::driver) object: Arc<Object>,
    pub(in crate::driver) count: u32,
}
