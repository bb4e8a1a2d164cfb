//! User objects, which graphs keep alive for the program.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use cuda_sys::{CUgraph_st, CUhostFn, CUuserObject, CUuserObject_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, callback, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::lock::lock;

exports! {
    cuUserObjectCreate => user_object_create;
    cuUserObjectRetain => user_object_retain;
    cuUserObjectRelease => user_object_release;
    cuGraphRetainUserObject => graph_retain_user_object;
    cuGraphReleaseUserObject => graph_release_user_object;
}

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`
const MOVE: u32 = 1;

/// The thread that runs the destructors, as `cuda.h` requires it: a thread of the program might
/// hold a lock that a destructor waits for.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    /// The number of live user objects.
    live: AtomicUsize,
    dead: Mutex<Option<Sender<Destructor>>>,
}

impl Reaper {
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Starts the thread if it is not running. An object is created only if this succeeds.
    fn start(&self) -> Status {
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
struct Destructor {
    data: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
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
pub(super) struct Object {
    destructor: Destructor,
    reaper: Arc<Reaper>,
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
pub(super) struct Owned {
    object: Arc<Object>,
    count: u32,
}

impl Call {
    fn user_object_create(
        &self,
        object: Out<CUuserObject>,
        data: Out<c_void>,
        destroy: CUhostFn,
        count: c_uint,
        flags: c_uint,
    ) -> Status {
        object.required()?;
        let destroy = destroy.ok_or(INVALID_VALUE)?;
        if flags != NO_DESTRUCTOR_SYNC || !is_count(count) {
            return Err(INVALID_VALUE);
        }
        let handle = fresh();
        let reaper = Arc::clone(&self.graphs.reaper);
        reaper.start()?;
        reaper.live.fetch_add(1, Ordering::AcqRel);
        let data = data.raw();
        let created = Arc::new(Object {
            destructor: Destructor { data, destroy },
            reaper,
        });
        let owned = Owned {
            object: created,
            count,
        };
        self.graphs.lock().objects.insert(handle, owned);
        object.set(pointer(handle))
    }

    fn user_object_retain(&self, object: Out<CUuserObject_st>, count: c_uint) -> Status {
        let mut world = self.graphs.lock();
        let owned = world
            .objects
            .get_mut(&object.handle())
            .ok_or(INVALID_VALUE)?;
        if !is_count(count) {
            return Err(INVALID_VALUE);
        }
        owned.count = owned.count.checked_add(count).ok_or(INVALID_VALUE)?;
        Ok(())
    }

    fn user_object_release(&self, object: Out<CUuserObject_st>, count: c_uint) -> Status {
        let mut world = self.graphs.lock();
        let owned = world
            .objects
            .get_mut(&object.handle())
            .ok_or(INVALID_VALUE)?;
        if !is_count(count) {
            return Err(INVALID_VALUE);
        }
        owned.count = owned.count.checked_sub(count).ok_or(INVALID_VALUE)?;
        if owned.count == 0 {
            world.objects.remove(&object.handle());
        }
        Ok(())
    }

    fn graph_retain_user_object(
        &self,
        graph: Out<CUgraph_st>,
        object: Out<CUuserObject_st>,
        count: c_uint,
        flags: c_uint,
    ) -> Status {
        let mut world = self.graphs.lock();
        world.graph(graph.handle())?;
        if !is_count(count) || flags & !MOVE != 0 {
            return Err(INVALID_VALUE);
        }
        let owned = world
            .objects
            .get_mut(&object.handle())
            .ok_or(INVALID_VALUE)?;
        let kept = Arc::clone(&owned.object);
        if flags & MOVE != 0 {
            owned.count = owned.count.checked_sub(count).ok_or(INVALID_VALUE)?;
            if owned.count == 0 {
                world.objects.remove(&object.handle());
            }
        }
        let objects = &mut world.graph_mut(graph.handle())?.objects;
        let entry = objects.entry(object.handle()).or_insert((kept, 0));
        entry.1 = entry.1.checked_add(count).ok_or(INVALID_VALUE)?;
        Ok(())
    }

    fn graph_release_user_object(
        &self,
        graph: Out<CUgraph_st>,
        object: Out<CUuserObject_st>,
        count: c_uint,
    ) -> Status {
        let mut world = self.graphs.lock();
        if !is_count(count) {
            return Err(INVALID_VALUE);
        }
        let objects = &mut world.graph_mut(graph.handle())?.objects;
        let entry = objects.get_mut(&object.handle()).ok_or(INVALID_VALUE)?;
        entry.1 = entry.1.checked_sub(count).ok_or(INVALID_VALUE)?;
        if entry.1 == 0 {
            objects.remove(&object.handle());
        }
        Ok(())
    }
}

/// Returns whether `count` is a valid number of references.
fn is_count(count: u32) -> bool {
    (1..=i32::MAX as u32).contains(&count)
}
