//! Creating, retaining and releasing user objects.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{CUgraph_st, CUhostFn, CUuserObject, CUuserObject_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::graph::object::{Destructor, Object, Owned};
use crate::driver::status::{INVALID_VALUE, Status};

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
        let mut state = self.graphs.lock();
        let owned = state
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
        let mut state = self.graphs.lock();
        let owned = state
            .objects
            .get_mut(&object.handle())
            .ok_or(INVALID_VALUE)?;
        if !is_count(count) {
            return Err(INVALID_VALUE);
        }
        owned.count = owned.count.checked_sub(count).ok_or(INVALID_VALUE)?;
        if owned.count == 0 {
            state.objects.remove(&object.handle());
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
        let mut state = self.graphs.lock();
        state.graph(graph.handle())?;
        if !is_count(count) || flags & !MOVE != 0 {
            return Err(INVALID_VALUE);
        }
        let owned = state
            .objects
            .get_mut(&object.handle())
            .ok_or(INVALID_VALUE)?;
        let kept = Arc::clone(&owned.object);
        if flags & MOVE != 0 {
            owned.count = owned.count.checked_sub(count).ok_or(INVALID_VALUE)?;
            if owned.count == 0 {
                state.objects.remove(&object.handle());
            }
        }
        let objects = &mut state.graph_mut(graph.handle())?.objects;
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
        let mut state = self.graphs.lock();
        if !is_count(count) {
            return Err(INVALID_VALUE);
        }
        let objects = &mut state.graph_mut(graph.handle())?.objects;
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
