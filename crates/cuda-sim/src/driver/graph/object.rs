//! User objects: what graphs keep alive for the program.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::{CUgraph, CUgraph_st, CUhostFn, CUuserObject, CUuserObject_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, callback, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuUserObjectCreate => user_object_create(
        object: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn, count: c_uint,
        flags: c_uint);
    cuUserObjectRetain => user_object_retain(object: CUuserObject, count: c_uint);
    cuUserObjectRelease => user_object_release(object: CUuserObject, count: c_uint);
    cuGraphRetainUserObject => graph_retain_user_object(
        graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint);
    cuGraphReleaseUserObject => graph_release_user_object(
        graph: CUgraph, object: CUuserObject, count: c_uint);
}

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`
const MOVE: u32 = 1;

/// A pointer of the program's and its destructor, which runs when this is dropped.
#[derive(Debug)]
pub(super) struct Object {
    data: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    live: Arc<AtomicUsize>,
}

// SAFETY: the pointer is only handed on; the program answers for its use in the destructor, on any thread.
unsafe impl Send for Object {}
// SAFETY: as for `Send`; nothing is read through shared references.
unsafe impl Sync for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        // Counted as gone before it says so: who waits for the destructor finds it so.
        self.live.fetch_sub(1, Ordering::AcqRel);
        let (destroy, data) = (self.destroy, Data(self.data));
        callback(move || {
            let Data(data) = { data };
            // SAFETY: the destructor must be callable with `data`, once ← the contract of cuUserObjectCreate, and this
            // is the only call.
            unsafe { destroy(data) };
        })();
    }
}

/// The pointer on its way into the destructor.
struct Data(*mut c_void);

// SAFETY: as for `Object`.
unsafe impl Send for Data {}

/// The references that the program itself holds.
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
        let live = self.graphs.live_objects();
        live.fetch_add(1, Ordering::AcqRel);
        let created = Arc::new(Object {
            data: data.raw(),
            destroy,
            live,
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
        if owned.count == 0
            && let Some(owned) = world.objects.remove(&object.handle())
        {
            world.trash.push(owned.object);
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
        if entry.1 == 0
            && let Some((kept, _)) = objects.remove(&object.handle())
        {
            world.trash.push(kept);
        }
        Ok(())
    }
}

/// What `cuda.h` takes as a number of references.
fn is_count(count: u32) -> bool {
    (1..=i32::MAX as u32).contains(&count)
}
