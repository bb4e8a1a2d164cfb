//! The memory that a kernel argument refers to.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cuda_ptx::analysis::Object;
use cuda_sys::CUdeviceptr;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::tracking::{Access, Blocked, Scope};

/// The memory that an argument refers to, and how the kernel accesses it.
///
/// Only the arguments of this crate create such values. A [`KernelArg`](super::KernelArg) of
/// another crate returns that of the argument that it contains.
#[derive(Clone, Copy)]
pub struct Tracked<'a> {
    /// `None` for memory of a graph, which only kernels of that graph can use.
    pub(crate) memory: Option<&'a Memory>,
    pub(crate) access: Access,
    /// The address of the first byte that the kernel may access.
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    /// The identity of the graph that owns the memory, or 0.
    pub(crate) graph: u64,
    /// The argument of the launch, counted from 1, or 0.
    pub(crate) argument: u8,
    /// The context of the kernel, if the memory may belong to another context.
    pub(crate) peer: Option<&'a Context>,
    /// An object, such as a texture, that a graph with the launch keeps alive.
    pub(crate) kept: Option<&'a dyn Keep>,
    /// The texture or surface whose handle is the argument.
    pub(crate) object: Option<&'a ObjectArg>,
}

/// A texture or surface as an argument of a kernel, as safe launches need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectArg {
    pub(crate) handle: u64,
    /// A surface is writable here; the access of the argument says whether the kernel may write.
    pub(crate) object: Object,
    /// For a surface: the bytes of a row, the rows, and the planes or layers.
    pub(crate) extents: [u64; 3],
}

/// An argument that refers to an object of the driver.
pub(crate) trait Keep: Send + Sync {
    /// Returns an owner of the object.
    fn keep(&self) -> Arc<dyn Any + Send + Sync>;
}

impl fmt::Debug for Tracked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tracked({:#x}, {} bytes)", self.address, self.bytes)
    }
}

impl Tracked<'_> {
    /// Makes the stream of the launch wait for conflicting uses.
    pub(super) fn acquire(self, scope: &Scope<'_>) -> Result<(), Blocked<Error>> {
        let Some(memory) = self.memory else {
            return Err(Blocked::Failed(Error::Unsupported {
                what: "using memory of a graph outside of that graph; copy it to a buffer in the \
                       graph",
            }));
        };
        match self.peer {
            Some(context) if scope.stream.context() != memory.owning_stream().context() => {
                scope.stream.expect_context(context, "a peer view")?;
                memory.tracker.acquire_for_peer(scope, self.access)
            }
            _ => memory.tracker.acquire(scope, self.access),
        }
    }

    /// Returns the other context that the memory belongs to, or `None` if it belongs to the context
    /// of the kernel.
    pub(super) fn peer_context(&self) -> Option<&Context> {
        let owner = self.memory?.owning_stream().context();
        self.peer.filter(|context| *context != owner).map(|_| owner)
    }

    /// Records the use after the launch was queued.
    pub(super) fn commit(self, scope: &mut Scope<'_>) {
        if let Some(memory) = self.memory {
            memory.tracker.commit(scope, self.access);
        }
    }

    /// Returns whether the use needs no wait on the stream with this id.
    #[inline]
    pub(crate) fn is_in_order(&self, stream: u64) -> bool {
        !self.access.is_signal()
            && self
                .memory
                .is_some_and(|it| it.tracker.is_only_used_on(stream))
    }

    /// Returns whether a launch that was queued in `epoch` leaves nothing to record.
    #[inline]
    pub(crate) fn needs_no_record(&self, stream: u64, epoch: u64) -> bool {
        !self.access.is_signal()
            && self
                .memory
                .is_some_and(|it| it.tracker.needs_no_record(stream, epoch))
    }
}
