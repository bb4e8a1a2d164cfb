//! The type [`Graph`].

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::CUgraph;

use super::parts::Root;
use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::types::SendPtr;

/// A description of work: nodes and the dependencies between them.
/// [`GraphExec`](crate::GraphExec) runs it.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Graph, LaunchConfig, Module, Ptx};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
/// let y = DeviceBuffer::filled(&stream, 256, 5_u32)?;
/// let mut graph = Graph::new(&context)?;
/// let ones = graph.add_fill(&[], &mut x, 1_u32)?;
/// let config = LaunchConfig::new(1, 256);
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 256 words.
/// unsafe { graph.add_kernel(&[ones.edge()], &mix, config, (&mut x, &y, 256_u32)) }?;
/// let exec = graph.instantiate()?;
/// exec.launch(&stream)?;
/// assert_eq!(x.to_vec()?, [7; 256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A node depends on the nodes of the [edges](super::Edge) that it is added with. It also
/// depends on every earlier node that has a conflicting access to the same memory, as if both were
/// queued on one stream. Copies and fills of one graph therefore never race.
///
/// The program can keep using the buffers of a node: the graph shares the ownership of the memory,
/// and uses outside of the graph and launches of the graph wait for each other. Memory whose buffer
/// is dropped stays allocated until the last graph and executable that uses it is dropped.
///
/// Every method that calls the driver can fail with [`Error::Driver`], in addition to the errors
/// that it lists.
pub struct Graph {
    pub(crate) root: Arc<Root>,
    /// The index of this graph in `root`: 0 for the whole graph, else the body of a conditional
    /// node.
    pub(crate) at: usize,
}

impl Graph {
    /// `cuGraphCreate()`—Creates a graph without nodes, for streams of `context`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the driver cannot allocate the graph.
    #[doc(alias = "cuGraphCreate")]
    #[doc(alias = "cudaGraphCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the pointer must be writable and the flags 0 ← `raw` is a local; the flags are 0.
        unsafe { call!(context.driver(), cuGraphCreate(&raw mut raw, 0)) }?;
        // SAFETY: the graph must have no other owner ← it was created just above.
        Ok(unsafe { Self::of_raw(context, raw) })
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        let all = self.root.lock();
        let nodes = all[self.at].nodes.iter();
        nodes.filter(|node| !node.is_gone()).count()
    }

    /// Returns whether the graph has no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the context in which the graph runs.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.root.context()
    }

    /// `cuGraphDestroy()`—Drops this handle. If it was the last one, destroys the graph and returns
    /// the result of the call.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if an executable or another handle, such as the body of a conditional
    /// node, still exists. The graph is then destroyed when the last of them is dropped.
    #[doc(alias = "cuGraphDestroy")]
    #[doc(alias = "cudaGraphDestroy")]
    pub fn close(self) -> Result<()> {
        match Arc::into_inner(self.root) {
            Some(root) => Ok(root.close()?),
            None => Err(Error::StillInUse {
                what: "the graph",
                by: "other handles of it, such as executables and bodies of conditional nodes",
            }),
        }
    }

    /// Returns the raw graph. It stays alive until this graph, all handles to its bodies and all
    /// executables of it are dropped.
    ///
    /// Nodes that are added through it by other code are not tracked: the caller keeps alive what
    /// they use, and adds their edges.
    #[must_use]
    pub fn as_raw(&self) -> CUgraph {
        self.root.lock()[self.at].raw.0
    }
}

impl Graph {
    /// Takes ownership of a graph that the driver has just created. None of its nodes are tracked.
    ///
    /// # Safety
    ///
    /// `raw` is a live graph of this context, and nothing else uses or destroys it.
    pub(crate) unsafe fn of_raw(context: &Context, raw: CUgraph) -> Self {
        // SAFETY: the handle must be the only owner of `raw` ← the caller guarantees it.
        let handle = unsafe { Handle::new(context.driver(), SendPtr(raw)) };
        Self {
            root: Arc::new(Root::new(handle, context)),
            at: 0,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.root.lock()[self.at].id
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?}, {} nodes)", self.as_raw(), self.len())
    }
}
