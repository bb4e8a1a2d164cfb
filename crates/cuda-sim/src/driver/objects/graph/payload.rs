//! The payload of a node: its parameters, copied when the node was added.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUDA_MEMCPY3D,
    CUgraphConditionalNodeType, CUgraphNodeType, CUstreamBatchMemOpParams, CUstreamBatchMemOpType,
};

use crate::driver::objects::context::Context;
use crate::driver::objects::event::Event;
use crate::driver::objects::external::Semaphores;
use crate::driver::objects::function::Function;
use crate::driver::objects::graph::attribute::Attributes;
use crate::driver::objects::graph::conditional::Cell;
use crate::driver::objects::graph::memory::GraphMemory;
use crate::driver::objects::launch::Shape;
use crate::driver::objects::memset::Fill;
use crate::driver::objects::stream::HostCall;
use crate::driver::objects::transfer::Transfer;
use crate::driver::objects::wait_value::MemOp;
use crate::driver::status::Status;

/// The type and the parameters of a node.
#[derive(Clone, Debug)]
pub(in crate::driver) enum Payload {
    Kernel(Kernel),
    Copy(Copy),
    Fill(Memset),
    Host(HostCall),
    /// The embedded graph.
    Child(u64),
    Empty,
    Record(Arc<Event>),
    Wait(Arc<Event>),
    Alloc(Arc<GraphMemory>),
    Free(Arc<GraphMemory>),
    Operations(Operations),
    /// Signals external semaphores.
    Signal(Semaphores<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>),
    /// Waits for external semaphores.
    Await(Semaphores<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>),
    Conditional(Conditional),
}

/// A kernel launch.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Kernel {
    pub(in crate::driver) function: Arc<Function>,
    pub(in crate::driver) shape: Shape,
    pub(in crate::driver) params: Arc<Packed>,
    pub(in crate::driver) attributes: Attributes,
    /// The context that the kernel runs in: that of the function, or a green context of its device.
    pub(in crate::driver) context: Arc<Context>,
}

/// The parameters of a kernel at a stable address, because the program may query pointers to them.
#[derive(Debug)]
pub(in crate::driver) struct Packed {
    words: Vec<u128>,
    len: usize,
    pointers: Vec<*mut c_void>,
}

// SAFETY: the pointers point to `words`, which does not change while this lives.
unsafe impl Send for Packed {}

// SAFETY: as for `Send`.
unsafe impl Sync for Packed {}

impl Packed {
    fn new(function: &Function, bytes: &[u8]) -> Status<Self> {
        let word = |chunk: &[u8]| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            u128::from_ne_bytes(word)
        };
        let mut words: Vec<u128> = bytes.chunks(16).map(word).collect();
        let start = words.as_mut_ptr().cast::<u8>();
        let params = &function.kernel()?.params;
        let pointers = params
            .iter()
            .map(|param| start.wrapping_add(param.offset as usize).cast())
            .collect();
        Ok(Self {
            words,
            len: bytes.len(),
            pointers,
        })
    }

    pub(in crate::driver) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        bytes.truncate(self.len);
        bytes
    }

    /// Returns the array `kernelParams` of C, which must only be read.
    pub(in crate::driver) fn raw(&self) -> *mut *mut c_void {
        self.pointers.as_ptr().cast_mut()
    }
}

impl Kernel {
    pub(in crate::driver) fn new(
        function: &Arc<Function>,
        shape: Shape,
        params: &[u8],
        attributes: Attributes,
        context: &Arc<Context>,
    ) -> Status<Self> {
        Ok(Self {
            function: Arc::clone(function),
            shape,
            params: Arc::new(Packed::new(function, params)?),
            attributes,
            context: Arc::clone(context),
        })
    }
}

/// A copy.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Copy {
    pub(in crate::driver) params: CopyParams,
    pub(in crate::driver) transfer: Box<Transfer>,
    pub(in crate::driver) context: Arc<Context>,
}

/// The parameters as C passed them.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct CopyParams(pub(in crate::driver) CUDA_MEMCPY3D);

// SAFETY: the pointers are only used as addresses, and are returned unchanged.
unsafe impl Send for CopyParams {}

// SAFETY: as for `Send`.
unsafe impl Sync for CopyParams {}

/// A fill.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Memset {
    pub(in crate::driver) fill: Fill,
    pub(in crate::driver) context: Arc<Context>,
}

/// A batch of stream memory operations, in order.
#[derive(Clone)]
pub(in crate::driver) struct Operations {
    pub(in crate::driver) ops: Arc<[MemOp]>,
    pub(in crate::driver) raw: Arc<[CUstreamBatchMemOpParams]>,
    pub(in crate::driver) flags: u32,
    pub(in crate::driver) context: Arc<Context>,
}

impl Operations {
    /// Returns the type of each operation in the form of C.
    pub(in crate::driver) fn kinds(&self) -> impl Iterator<Item = CUstreamBatchMemOpType> {
        // SAFETY: the field of the union must be set ← every struct of the union begins with it.
        self.raw.iter().map(|op| unsafe { op.operation })
    }
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&*self.ops).finish()
    }
}

/// A conditional node.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Conditional {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) cell: Arc<Cell>,
    pub(in crate::driver) kind: CUgraphConditionalNodeType,
    /// The handles of the bodies, stored as C reads them: handles are pointers.
    pub(in crate::driver) bodies: Arc<[usize]>,
    pub(in crate::driver) context: Arc<Context>,
}

impl Payload {
    pub(in crate::driver) fn fill(fill: Fill, context: &Arc<Context>) -> Self {
        Self::Fill(Memset {
            fill,
            context: Arc::clone(context),
        })
    }

    pub(in crate::driver) fn copy(
        params: CUDA_MEMCPY3D,
        transfer: Transfer,
        context: &Arc<Context>,
    ) -> Self {
        Self::Copy(Copy {
            params: CopyParams(params),
            transfer: Box::new(transfer),
            context: Arc::clone(context),
        })
    }

    pub(in crate::driver) fn operations(
        batch: &[(MemOp, CUstreamBatchMemOpParams)],
        flags: u32,
        context: &Arc<Context>,
    ) -> Self {
        Self::Operations(Operations {
            ops: batch.iter().map(|&(op, _)| op).collect(),
            raw: batch.iter().map(|&(_, raw)| raw).collect(),
            flags,
            context: Arc::clone(context),
        })
    }

    pub(in crate::driver) fn kind(&self) -> CUgraphNodeType {
        type T = CUgraphNodeType;
        match self {
            Self::Kernel(_) => T::CU_GRAPH_NODE_TYPE_KERNEL,
            Self::Copy(_) => T::CU_GRAPH_NODE_TYPE_MEMCPY,
            Self::Fill(_) => T::CU_GRAPH_NODE_TYPE_MEMSET,
            Self::Host(_) => T::CU_GRAPH_NODE_TYPE_HOST,
            Self::Child(_) => T::CU_GRAPH_NODE_TYPE_GRAPH,
            Self::Empty => T::CU_GRAPH_NODE_TYPE_EMPTY,
            Self::Record(_) => T::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            Self::Wait(_) => T::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
            Self::Alloc(_) => T::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            Self::Free(_) => T::CU_GRAPH_NODE_TYPE_MEM_FREE,
            Self::Operations(_) => T::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            Self::Signal(_) => T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
            Self::Await(_) => T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
            Self::Conditional(_) => T::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        }
    }

    /// Copies the attributes of the old kernel node, which stay when its parameters change. Fails
    /// if the new kernel does not support them.
    pub(in crate::driver) fn keep_attributes(&mut self, old: &Self) -> Status {
        let (Self::Kernel(new), Self::Kernel(old)) = (self, old) else {
            return Ok(());
        };
        new.attributes = old.attributes.clone();
        new.shape.cooperative = old.shape.cooperative;
        new.shape.cluster = old.shape.cluster;
        new.shape.check(&new.function, &new.context)
    }

    /// Returns the graphs that the node contains.
    pub(in crate::driver) fn inner(&self) -> Vec<u64> {
        match self {
            Self::Child(graph) => vec![*graph],
            Self::Conditional(conditional) => {
                conditional.bodies.iter().map(|&body| body as u64).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether the node is allowed in the body of a conditional node.
    pub(in crate::driver) fn may_be_in_body(&self) -> bool {
        matches!(
            self,
            Self::Kernel(_)
                | Self::Copy(_)
                | Self::Fill(_)
                | Self::Child(_)
                | Self::Empty
                | Self::Conditional(_)
        )
    }

    /// Returns whether it allocates or frees memory.
    pub(in crate::driver) fn is_memory(&self) -> bool {
        matches!(self, Self::Alloc(_) | Self::Free(_))
    }

    /// Returns whether kernels can update it.
    pub(in crate::driver) fn is_device_updatable(&self) -> bool {
        matches!(self, Self::Kernel(kernel) if kernel.attributes.device_node().is_some())
    }

    /// Returns whether it is a conditional node. A graph that contains one cannot be cloned.
    pub(in crate::driver) fn is_conditional(&self) -> bool {
        matches!(self, Self::Conditional(_))
    }
}
