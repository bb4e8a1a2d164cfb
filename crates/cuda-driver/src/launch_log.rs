//! The last launches of each stream, which may have been running when a device was lost. C has no
//! counterpart.
//!
//! A launch stores the id of its kernel's name in a ring buffer of its stream: two loads and two
//! stores, without a lock. If several threads launch on one stream at the same time, one may
//! overwrite the entry of another. The list is only for diagnostics; nothing relies on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cuda_sys::CUstream;

use crate::error::{DeviceLoss, DriverError, LossId};
use crate::lock::{Mutex, rank};
use crate::types::LaunchesInFlight;

/// The number of launches that are remembered for each stream.
const CAPACITY: usize = 64;
/// The number of destroyed streams whose last launches are still remembered.
const MAX_DESTROYED: usize = 16;

/// The last launches of a stream.
pub(crate) struct RecentLaunches {
    /// The number of launches so far.
    count: AtomicU64,
    /// The number of launches that are known to be complete.
    done: AtomicU64,
    names: [AtomicU32; CAPACITY],
    /// The address of the stream's handle.
    stream: usize,
}

/// The id of a kernel's name within its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(u32);

/// The name of an executable graph, which changes with its nodes.
pub(crate) struct LaunchName(AtomicU32);

impl LaunchName {
    pub(crate) fn new(name: NameId) -> Self {
        Self(AtomicU32::new(name.0))
    }

    pub(crate) fn get(&self) -> NameId {
        NameId(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, name: NameId) {
        self.0.store(name.0, Ordering::Relaxed);
    }
}

/// The launches of all streams of a context.
pub(crate) struct ContextLaunches {
    device: u32,
    names: Mutex<Names, { rank::LAUNCH_NAMES }>,
    streams: Mutex<Vec<Arc<RecentLaunches>>, { rank::LAUNCH_STREAMS }>,
    modules: Mutex<Vec<LoadedModule>, { rank::LOADED_MODULES }>,
}

/// A module that is loaded.
#[derive(Clone)]
pub(crate) struct LoadedModule {
    /// The address of the handle.
    pub(crate) handle: u64,
    /// The kernels, if the image lists them.
    pub(crate) kernels: Arc<[String]>,
}

#[derive(Default)]
struct Names {
    list: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId>,
}

/// The launches of all contexts of a driver, and the devices that were lost.
#[derive(Default)]
pub(crate) struct DriverLaunches {
    contexts: Mutex<Vec<Weak<ContextLaunches>>, { rank::LAUNCH_CONTEXTS }>,
    losses: Mutex<Vec<Known>, { rank::LAUNCH_LOSSES }>,
}

/// A device that was reported as lost.
struct Known {
    device: u32,
    /// The number of launches on the device at that time.
    launches: u64,
    loss: Option<LossId>,
}

impl RecentLaunches {
    fn new(stream: CUstream) -> Self {
        Self {
            count: AtomicU64::new(0),
            done: AtomicU64::new(0),
            names: [const { AtomicU32::new(0) }; CAPACITY],
            stream: stream.addr(),
        }
    }

    /// Records a launch that was queued.
    #[inline]
    pub(crate) fn record(&self, name: NameId) {
        let count = self.count.load(Ordering::Relaxed);
        self.names[count as usize % CAPACITY].store(name.0, Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the number of launches so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Records that the first `count` launches are complete.
    pub(crate) fn mark_complete(&self, count: u64) {
        self.done.store(count, Ordering::Relaxed);
    }

    /// Returns the number of launches that are not known to be complete.
    pub(crate) fn in_flight(&self) -> u64 {
        let (count, done) = (self.count(), self.done.load(Ordering::Relaxed));
        // `count < done` is possible if threads raced. Then none may be complete.
        count.checked_sub(done).unwrap_or(count)
    }

    /// Returns the names of those launches, latest first.
    fn names(&self) -> impl Iterator<Item = NameId> {
        self.last_names(self.in_flight())
    }

    /// Returns the names of the last `most` launches that are remembered, latest first.
    fn last_names(&self, most: u64) -> impl Iterator<Item = NameId> {
        let (count, kept) = (self.count(), most.min(CAPACITY as u64));
        (count.saturating_sub(kept)..count)
            .rev()
            .map(|at| NameId(self.names[at as usize % CAPACITY].load(Ordering::Relaxed)))
    }
}

impl ContextLaunches {
    pub(crate) fn new(device: u32) -> Self {
        Self {
            device,
            names: Mutex::default(),
            streams: Mutex::default(),
            modules: Mutex::default(),
        }
    }

    /// Returns the id of a name. The context keeps it as long as it lives.
    pub(crate) fn name(&self, name: &str) -> NameId {
        let mut names = self.names.lock();
        if let Some(id) = names.ids.get(name) {
            return *id;
        }
        let id = NameId(u32::try_from(names.list.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        names.list.push(Arc::clone(&name));
        names.ids.insert(name, id);
        id
    }

    /// Returns the name with this id.
    pub(crate) fn text(&self, NameId(id): NameId) -> Option<Arc<str>> {
        self.names.lock().list.get(id as usize).map(Arc::clone)
    }

    /// Returns all names.
    pub(crate) fn all_names(&self) -> Vec<String> {
        let names = self.names.lock();
        names.list.iter().map(|name| name.to_string()).collect()
    }

    pub(crate) fn add_module(&self, module: LoadedModule) {
        self.modules.lock().push(module);
    }

    /// Removes the module with this handle, which is about to be unloaded.
    pub(crate) fn remove_module(&self, handle: u64) {
        let mut modules = self.modules.lock();
        let at = modules.iter().position(|module| module.handle == handle);
        let removed = at.map(|at| modules.remove(at));
        drop(modules);
        drop(removed);
    }

    /// Returns the modules that are loaded, in the order in which they were loaded.
    pub(crate) fn modules(&self) -> Vec<LoadedModule> {
        self.modules.lock().clone()
    }

    /// Creates and registers the launches of a new stream.
    pub(crate) fn of_stream(&self, stream: CUstream) -> Arc<RecentLaunches> {
        let this = Arc::new(RecentLaunches::new(stream));
        let mut streams = self.streams.lock();
        if streams.len() == streams.capacity() {
            // Keep only the latest of the destroyed streams. A stream can be destroyed at any time.
            let mut room = MAX_DESTROYED;
            let mut is_kept = |stream: &Arc<RecentLaunches>| {
                if Arc::strong_count(stream) > 1 {
                    return true;
                }
                let is_kept = room > 0 && stream.in_flight() > 0;
                room -= usize::from(is_kept);
                is_kept
            };
            let mut kept: Vec<_> = streams.drain(..).rev().filter(|it| is_kept(it)).collect();
            kept.reverse();
            *streams = kept;
        }
        streams.push(Arc::clone(&this));
        this
    }

    /// Calls `wait`, which waits for all work that is queued in the context. If it succeeds,
    /// records that all launches before the call are complete.
    pub(crate) fn mark_complete_after<R, E>(
        &self,
        wait: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let before: Vec<_> = self
            .streams
            .lock()
            .iter()
            .filter(|stream| stream.in_flight() > 0)
            .map(|stream| (Arc::clone(stream), stream.count()))
            .collect();
        let result = wait()?;
        for (stream, count) in before {
            stream.mark_complete(count);
        }
        Ok(result)
    }

    fn count(&self) -> u64 {
        let streams = self.streams.lock();
        streams.iter().map(|stream| stream.count()).sum()
    }

    pub(crate) fn names_of(&self, stream: &RecentLaunches) -> LaunchesInFlight {
        let names = self.names.lock();
        let known = |NameId(id)| names.list.get(id as usize).map(Arc::clone);
        LaunchesInFlight::new(stream.stream, stream.names().filter_map(known).collect())
    }

    /// Returns the names of the launches that are remembered, complete or not, latest first.
    pub(crate) fn recent_names_of(&self, stream: &RecentLaunches) -> Vec<String> {
        let names = self.names.lock();
        let last = stream.last_names(u64::MAX);
        last.filter_map(|NameId(id)| names.list.get(id as usize).map(|name| name.to_string()))
            .collect()
    }

    fn in_flight(&self) -> Vec<LaunchesInFlight> {
        let streams: Vec<_> = self.streams.lock().clone();
        let launches = streams.iter().map(|stream| self.names_of(stream));
        launches.filter(|launches| !launches.is_empty()).collect()
    }
}

impl DriverLaunches {
    /// Registers the launches of a new context.
    pub(crate) fn add(&self, launches: &Arc<ContextLaunches>) {
        let mut contexts = self.contexts.lock();
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(launches));
    }

    /// Returns the loss of the device that `error` reports: the known loss, or a new one.
    ///
    /// Makes no driver call, so it can be used within any call that failed.
    pub(crate) fn loss(&self, device: u32, error: &DriverError) -> Option<LossId> {
        let contexts: Vec<_> = self
            .contexts
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|context| context.device == device)
            .collect();
        let launches = contexts.iter().map(|context| context.count()).sum();
        let mut losses = self.losses.lock();
        // If there were launches since the known loss, the device was not lost then.
        let known = losses.iter().find(|known| known.device == device);
        if let Some(known) = known.filter(|known| known.launches >= launches) {
            return known.loss;
        }
        let streams = contexts.iter().flat_map(|context| context.in_flight());
        let loss = LossId::new(DeviceLoss::new(
            device,
            error.status(),
            error.call(),
            streams.collect(),
        ));
        losses.retain(|known| known.device != device);
        losses.push(Known {
            device,
            launches,
            loss,
        });
        loss
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::Arc;

    use super::{CAPACITY, ContextLaunches, MAX_DESTROYED};

    fn names(launches: &ContextLaunches) -> Vec<String> {
        let streams = launches.in_flight();
        streams.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn launches_in_flight_are_listed_latest_first() {
        let launches = ContextLaunches::new(0);
        let (a, b) = (launches.name("a"), launches.name("b"));
        assert_eq!((launches.name("a"), launches.name("b")), (a, b));
        let stream = launches.of_stream(ptr::without_provenance_mut(0x10));
        assert!(names(&launches).is_empty());
        stream.record(a);
        stream.record(b);
        stream.record(b);
        assert_eq!(names(&launches), ["b ×2, a on Stream(0x10)"]);
        for _ in 0..CAPACITY {
            stream.record(a);
        }
        assert_eq!(names(&launches), ["a ×64 on Stream(0x10)"]);
    }

    #[test]
    fn complete_launches_are_not_listed() {
        let launches = ContextLaunches::new(0);
        let a = launches.name("a");
        let stream = launches.of_stream(ptr::without_provenance_mut(1));
        stream.record(a);
        let failed: Result<(), ()> = launches.mark_complete_after(|| Err(()));
        assert_eq!((failed, names(&launches).len()), (Err(()), 1));
        // A launch during the wait may still be running.
        let waited: Result<(), ()> = launches.mark_complete_after(|| {
            stream.record(launches.name("b"));
            Ok(())
        });
        assert_eq!(waited, Ok(()));
        assert_eq!(names(&launches), ["b on Stream(0x1)"]);
    }

    #[test]
    fn destroyed_streams_with_launches_are_remembered() {
        let launches = ContextLaunches::new(0);
        let name = launches.name("a");
        let kept = launches.of_stream(ptr::without_provenance_mut(1));
        kept.record(name);
        for at in 2..1000 {
            let stream = launches.of_stream(ptr::without_provenance_mut(at));
            if at % 2 == 0 {
                stream.record(name);
            }
        }
        let streams = launches.streams.lock();
        assert!(Arc::ptr_eq(&streams[0], &kept));
        assert!(streams.len() <= 4 * MAX_DESTROYED, "{}", streams.len());
        drop(streams);
        let names_now = names(&launches);
        assert!(names_now.contains(&"a on Stream(0x1)".to_owned()));
        assert!(
            names_now.contains(&"a on Stream(0x3e6)".to_owned()),
            "{names_now:?}"
        );
    }
}
