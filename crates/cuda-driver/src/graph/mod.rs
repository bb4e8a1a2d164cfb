//! Graphs: work that is described once and launched often.
//!
//! Where C's graphs are bare handles with pointers in them, these own what they touch: memory,
//! modules and closures of a node live until the last graph, executable and launch that uses them
//! is done, whatever becomes of their owners. And launches of a graph take part in the order of
//! uses of its buffers, as any kernel does.

mod batch;
mod build;
mod capture;
mod child;
mod conditional;
mod conflicts;
mod copy;
mod device_node;
mod event;
mod exec;
mod fill;
mod host;
mod host_buffer;
mod kernel;
mod list;
mod memory;
mod node;
mod owners;
mod parts;
mod remove;
mod set;
mod state;
mod update;

pub use capture::{Capture, CaptureScope};
pub use conditional::ConditionalHandle;
pub use copy::{CopySource, CopyTarget};
pub use device_node::DeviceNode;
pub use exec::{GraphExec, InstantiateFlags};
pub use host_buffer::{GraphHostBuffer, HostRead, HostWrite};
pub use kernel::KernelAttributes;
pub use list::DotFlags;
pub use memory::{GraphAllocation, GraphMemoryStatistics};
pub use node::{Edge, EdgeKind, Node, NodeId, NodeKind, node_kind};
pub(crate) use owners::Owners;
pub(crate) use parts::Root;
pub use set::Switchable;

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUgraph, CUgraph_st};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::stream::SendPtr;

/// Work that is described once: nodes, and which of them wait for which. [`GraphExec`] runs it.
///
/// ```no_run
/// # use cuda_driver::{DeviceBuffer, Function, Graph, LaunchConfig, Stream};
/// # fn f(stream: &Stream, twice: &Function) -> cuda_driver::Result<()> {
/// let mut x = DeviceBuffer::<f32>::zeroed(stream, 256)?;
/// let mut graph = Graph::new(stream.context())?;
/// let ones = graph.fill(&[], &mut x, 1.0)?;
/// // SAFETY: the kernel doubles 256 floats of `x`.
/// let kernel = unsafe { graph.kernel(&[ones.edge()], twice, LaunchConfig::new(1, 256), (&mut x,)) }?;
/// let exec = graph.instantiate()?;
/// exec.launch(stream)?;
/// assert_eq!(x.to_vec()?, [2.0; 256]);
/// # Ok(())
/// # }
/// ```
///
/// A node waits for the nodes behind whose [edges](Edge) it is added, and besides for each earlier
/// node that uses the same memory in a way that matters, as work queued on one stream would. So
/// copies and fills of one graph never race.
///
/// The buffers of a node stay usable: the graph holds the memory, and uses outside wait for
/// launches and launches for them. Memory that is dropped stays until the last graph and executable
/// that uses it is gone.
pub struct Graph {
    pub(crate) root: Arc<Root>,
    /// Which of the graphs of `root`: itself, or the body of a conditional node.
    pub(crate) at: usize,
}

pub(crate) struct RawGraph;

impl Destroy for RawGraph {
    type Raw = SendPtr<CUgraph_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the graph must be alive and used by no other thread ← the handle owns it, and
        // this is its end. Executables of it live on.
        unsafe { call!(driver, cuGraphDestroy(raw.0)) }
    }
}

impl Graph {
    /// `cuGraphCreate()`—A graph without nodes, for streams of `context`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable, the flags 0 ← it is to a local; they are.
        unsafe { call!(context.driver(), cuGraphCreate(&raw mut raw, 0)) }?;
        // SAFETY: nobody else must destroy it ← it was made just now.
        Ok(unsafe { Self::of_raw(context, raw) })
    }

    /// Takes a graph that the driver has just made, none of whose nodes are known.
    ///
    /// # Safety
    ///
    /// `raw` is alive and of this context, and nobody else destroys or uses it.
    pub(crate) unsafe fn of_raw(context: &Context, raw: CUgraph) -> Self {
        // SAFETY: as the caller says.
        let handle = unsafe { Handle::new(context.driver(), SendPtr(raw)) };
        Self {
            root: Arc::new(Root::new(handle, context)),
            at: 0,
        }
    }

    /// The context in which it runs.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.root.context()
    }

    /// The raw graph. It stays alive as long as this, and every executable of it. Nodes that are
    /// added by other means are not known here: what they use is for the caller to keep, and their
    /// edges too.
    #[must_use]
    pub fn as_raw(&self) -> CUgraph {
        self.root.lock()[self.at].raw.0
    }

    pub(crate) fn id(&self) -> u64 {
        self.root.lock()[self.at].id
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        let all = self.root.lock();
        let nodes = all[self.at].nodes.iter();
        nodes.filter(|node| !node.is_gone()).count()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `cuGraphDestroy()`—Lets the graph go; if no executable of it is there, destroys it and
    /// answers what the driver says.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if there is an executable, with which it then goes; or what the call
    /// answers.
    #[doc(alias = "cuGraphDestroy")]
    pub fn close(self) -> Result<()> {
        match Arc::into_inner(self.root) {
            Some(root) => Ok(root.close()?),
            None => Err(Error::StillInUse { what: "the graph" }),
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?}, {} nodes)", self.as_raw(), self.len())
    }
}
