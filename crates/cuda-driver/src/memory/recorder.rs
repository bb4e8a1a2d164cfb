//! Calls that an eager capture captures instead of queueing them: see
//! [`EagerCapture`](crate::graph::EagerCapture).

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUstream};

use super::{Block, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, Reclaim, Source};
use crate::error::{DriverError, Error, Result};
use crate::stream::Stream;
use crate::tracking::{Access, Tracker};

/// Captures the calls of one thread on one stream.
pub(crate) trait Recorder {
    /// Captures the nodes that `queue` adds on the stream that it receives. They use `uses`, and
    /// `kernel`, which is a [`Function`](crate::Function). `queue` is called once, or not at all if
    /// there is an error before.
    fn call(
        &self,
        uses: Vec<RecordedUse>,
        kernel: Option<&dyn Any>,
        queue: &mut dyn FnMut(&Stream) -> Result<(), DriverError>,
    ) -> Result<()>;

    /// Captures the nodes that other code adds in `queue`, which is called without a lock, and not
    /// at all if there is an error before. They use `uses`. If `queue` panics, its nodes are
    /// recorded as well.
    fn foreign(&self, uses: Vec<RecordedUse>, queue: &mut dyn FnMut(CUstream)) -> Result<()>;

    /// Captures an allocation of `bytes` bytes, at least one, for a buffer whose owning stream is
    /// `owner`.
    fn allocate(&self, owner: &Stream, bytes: usize) -> Result<Memory>;

    /// Captures a call of a closure.
    fn host(&self, function: Box<dyn Fn() + Send + Sync>) -> Result<()>;

    /// Captures the free of memory that [`allocate`](Self::allocate) has allocated. Returns `None`
    /// if another recorder has allocated it.
    fn free(&self, temporary: &dyn Any) -> Option<Result<()>>;
}

/// A recorder as a stream registers it.
pub(crate) struct Registered(pub(crate) Rc<dyn Recorder>);

/// A use of memory by a captured call.
pub(crate) struct RecordedUse {
    pub(crate) memory: RecordedMemory,
    pub(crate) access: Access,
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    /// An object, such as a texture, that the nodes use as well.
    pub(crate) kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// The memory of a captured call.
pub(crate) enum RecordedMemory {
    /// The memory of a buffer.
    Buffer {
        tracker: Arc<Tracker>,
        is_managed: bool,
    },
    /// The memory that a node of the graph with this number allocates.
    OfGraph(u64),
}

/// A part of an allocation, and how a call uses it.
pub(crate) struct Part<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) access: Access,
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
}

impl Part<'_> {
    /// Returns the use for a recorder.
    pub(crate) fn recorded(&self) -> RecordedUse {
        RecordedUse {
            memory: RecordedMemory::of(self.memory),
            access: self.access,
            address: self.address,
            bytes: self.bytes,
            kept: None,
        }
    }
}

impl RecordedMemory {
    pub(crate) fn of(memory: &Memory) -> Self {
        Self::Buffer {
            tracker: Arc::clone(&memory.tracker),
            is_managed: memory.is_managed(),
        }
    }
}

impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Returns the use of the elements.
    pub(crate) fn part(&self) -> Part<'a> {
        Part {
            memory: self.memory,
            access: self.access,
            address: self.address,
            bytes: self.bytes(),
        }
    }
}

impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Returns the use of the elements.
    pub(crate) fn part(&self) -> Part<'a> {
        Part {
            memory: self.memory,
            access: self.access,
            address: self.address,
            bytes: self.bytes(),
        }
    }
}

impl Memory {
    /// Queues a call on `stream` that uses parts of several allocations, as
    /// [`use_all`](Self::use_all) does, or captures it if an eager capture captures the calls on
    /// `stream`. `queue` receives the stream on which it makes its driver calls.
    pub(crate) fn queue_all<const N: usize>(
        stream: &Stream,
        call: &'static str,
        parts: [Part<'_>; N],
        queue: impl FnOnce(&Stream) -> Result<(), DriverError>,
    ) -> Result<()> {
        if let Some(recorder) = recorder_of(stream, call)? {
            let uses = parts.iter().map(Part::recorded).collect();
            let may_be_mapped = parts.iter().any(|part| part.memory.may_be_mapped());
            let mut queue = Some(queue);
            // The recorder calls the closure once.
            return recorder.call(uses, None, &mut |on| {
                let _current = on.bind_for_mapped(may_be_mapped)?;
                queue.take().map_or(Ok(()), |queue| queue(on))
            });
        }
        let uses = parts.map(|part| (part.memory, part.access));
        Self::use_all(stream, call, uses, || queue(stream))
    }

    /// Creates an allocation of memory that nodes of the graph with this number allocate and free.
    /// `owner` is notified when it is dropped.
    #[track_caller]
    pub(crate) fn of_graph(
        stream: &Stream,
        (address, bytes): (CUdeviceptr, usize),
        graph: u64,
        owner: Arc<dyn Reclaim>,
    ) -> Self {
        let block = Block {
            address,
            bytes,
            tracker: Tracker::of_graph(stream, graph),
        };
        // SAFETY: the memory must be usable, from `source`, and freed by no other code, and the
        // tracker must know all its uses ← the tracker refuses every use, and the recorder of the
        // graph captures only uses between the nodes that allocate and free the memory.
        let memory = unsafe { Self::of_block(block, Source::Other(owner)) };
        memory.record();
        memory
    }
}

/// Returns the recorder that captures the calls of this thread on `stream`, or `None` if calls are
/// not captured.
///
/// # Errors
///
/// [`Error::EagerCapture`] if another thread captures the calls on `stream`.
#[inline]
pub(crate) fn recorder_of(stream: &Stream, call: &'static str) -> Result<Option<Rc<dyn Recorder>>> {
    match stream.recorder_for(call)? {
        None => Ok(None),
        Some(recorder) => downcast(&recorder, call).map(Some),
    }
}

#[cold]
fn downcast(recorder: &Rc<dyn Any>, call: &'static str) -> Result<Rc<dyn Recorder>> {
    let registered = recorder.downcast_ref::<Registered>();
    // Each recorder is registered in this form.
    registered
        .map(|it| Rc::clone(&it.0))
        .ok_or(Error::EagerCapture {
            call,
            is_elsewhere: false,
        })
}
