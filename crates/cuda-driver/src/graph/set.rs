//! Changing single nodes of executables.

use std::sync::Arc;

use super::Graph;
use super::batch::{batch_of, params as batch_params};
use super::copy::{CopySource, CopyTarget, copy_of_ends};
use super::event::event_owners;
use super::exec::GraphExec;
use super::fill::fill_of;
use super::host::host_of;
use super::kernel::{kernel_owners, params};
use super::node::{Node, node_kind};
use super::update::Changing;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::function::Function;
use crate::launch::{KernelArgs, LaunchConfig};
use crate::memory::DeviceRepr;
use crate::stream::ValueBatch;

/// The number of no graph: memory that a graph allocates is no memory before and after, so no other
/// node may come to use it.
const NOT_ITS_OWN: u64 = 0;

mod sealed {
    pub trait Sealed {}
}

/// Kinds of nodes that can be switched off: kernels, copies and fills.
pub trait Switchable: sealed::Sealed {}

macro_rules! switchable {
    ($($kind:ident)*) => {
        $(
            impl sealed::Sealed for node_kind::$kind {}
            impl Switchable for node_kind::$kind {}
        )*
    };
}

switchable!(Kernel Memcpy Memset);

impl GraphExec {
    /// `cuGraphExecKernelNodeSetParams(node, function, config, args)`—What the node launches from
    /// the next launch on.
    ///
    /// The new kernel and buffers are held before the old ones are let go; launches under way keep
    /// the old ones.
    ///
    /// # Errors
    ///
    /// Those of [`Graph::kernel`]; [`Error::OtherGraph`] unless the node was in the graph, or in
    /// the body of a conditional node of it, when this was made; [`Error::NodeGone`] if it was
    /// [taken out](Graph::remove) since. Then nothing has changed.
    ///
    /// # Safety
    ///
    /// As [`Graph::kernel`]; and nodes that use the same memory in a way that matters wait for this
    /// one, or it for them. If [kernels change the node](Graph::set_device_updatable), none does so
    /// now, and no other thread launches the executable.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub unsafe fn set_kernel<A: KernelArgs>(
        &self,
        node: Node<node_kind::Kernel>,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        if function.context() != self.context() {
            return Err(Error::OtherContext { what: "the kernel" });
        }
        let owners = kernel_owners(NOT_ITS_OWN, function, &config, &args)?;
        let change = |it: &Changing<'_>| {
            args.with_pointers(|pointers| {
                let params = params(function, &config, pointers.as_mut_ptr());
                // SAFETY: executable, node and pointers must be valid ← those of `it` are; the
                // driver copies the parameters.
                unsafe {
                    call!(
                        it.driver,
                        cuGraphExecKernelNodeSetParams_v2(it.exec, it.node, &raw const params)
                    )
                }
            })
        };
        // SAFETY: the node must keep to `owners` ← the caller says so.
        unsafe { self.change(node.id(), owners, false, change) }
    }

    /// `cuGraphExecMemcpyNodeSetParams(node)`—What the node copies from the next launch on.
    ///
    /// # Errors
    ///
    /// Those of [`Graph::copy`]; [`Error::OtherGraph`] as for [`set_kernel`](Self::set_kernel);
    /// [`Error::GraphOrder`] if another node uses the same memory in a way that matters, and
    /// neither waits for the other; `CUDA_ERROR_INVALID_VALUE` for copies that the driver cannot
    /// change so, such as those of rows. Then nothing has changed.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy<'a, T: DeviceRepr>(
        &self,
        node: Node<node_kind::Memcpy>,
        to: impl Into<CopyTarget<'a, T>>,
        from: impl Into<CopySource<'a, T>>,
    ) -> Result<()> {
        let context = self.context();
        let (params, owners) = copy_of_ends(context, NOT_ITS_OWN, to.into(), from.into())?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and pointers must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecMemcpyNodeSetParams(
                        it.exec,
                        it.node,
                        &raw const params,
                        context.as_raw()
                    )
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← both ends are within their memory, which
        // `owners` holds.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecMemsetNodeSetParams(node)`—What the node fills from the next launch on.
    ///
    /// # Errors
    ///
    /// Those of [`Graph::fill`], and as [`set_copy`](Self::set_copy).
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    pub fn set_fill<'a, T: DeviceRepr>(
        &self,
        node: Node<node_kind::Memset>,
        to: impl Into<CopyTarget<'a, T>>,
        value: T,
    ) -> Result<()> {
        let context = self.context();
        let (params, owners) = fill_of(context, NOT_ITS_OWN, to.into(), value)?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and pointers must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecMemsetNodeSetParams(
                        it.exec,
                        it.node,
                        &raw const params,
                        context.as_raw()
                    )
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← the range is that of the view, whose memory
        // `owners` holds.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecHostNodeSetParams(node)`—What the node calls from the next launch on. Launches
    /// under way call the old closure.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] as for [`set_kernel`](Self::set_kernel), or what the call answers.
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    pub fn set_host(
        &self,
        node: Node<node_kind::Host>,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<()> {
        let (params, owners) = host_of(function);
        let change = |it: &Changing<'_>| {
            // SAFETY: executable and node must be valid, the function callable at any later time ←
            // those of `it` are, and it only looks for a closure of this number.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecHostNodeSetParams(it.exec, it.node, &raw const params)
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← it has the closure.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecEventRecordNodeSetEvent(node)`—The event that the node records from the next
    /// launch on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] as for [`set_kernel`](Self::set_kernel), [`Error::OtherContext`], or
    /// what the call answers.
    #[doc(alias = "cuGraphExecEventRecordNodeSetEvent")]
    pub fn set_event_record(
        &self,
        node: Node<node_kind::EventRecord>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and event must be valid ← those of `it` are; it is borrowed.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecEventRecordNodeSetEvent(it.exec, it.node, event.as_raw())
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← it has the event.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecEventWaitNodeSetEvent(node)`—The event that the node waits for from the next
    /// launch on.
    ///
    /// # Errors
    ///
    /// As [`set_event_record`](Self::set_event_record).
    #[doc(alias = "cuGraphExecEventWaitNodeSetEvent")]
    pub fn set_event_wait(
        &self,
        node: Node<node_kind::EventWait>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and event must be valid ← those of `it` are; it is borrowed.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecEventWaitNodeSetEvent(it.exec, it.node, event.as_raw())
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← it has the event.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecChildGraphNodeSetParams(node)`—The graph that the node runs from the next launch
    /// on; it has the same nodes and edges as that before.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] as for [`set_kernel`](Self::set_kernel), [`Error::GraphOrder`] as for
    /// [`set_copy`](Self::set_copy), [`Error::OtherContext`], [`Error::GraphMemoryKept`], or what
    /// the call answers: `CUDA_ERROR_INVALID_VALUE` for another topology.
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    pub fn set_child(&self, node: Node<node_kind::Child>, child: &Graph) -> Result<()> {
        if child.context() != self.context() {
            return Err(Error::OtherContext { what: "the graph" });
        }
        // Its own copy is the one that nobody changes meanwhile.
        let child = child.try_clone()?;
        let (raw, owners, _) = child.whole()?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and graph must be valid ← those of `it` are; the copy is
            // ours alone.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecChildGraphNodeSetParams(it.exec, it.node, raw.0)
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← they are those of the child's nodes.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecBatchMemOpNodeSetParams(node)`—What the node waits for and sets from the next
    /// launch on: as many operations of the same kinds.
    ///
    /// # Errors
    ///
    /// Those of [`Graph::batch`], and as [`set_copy`](Self::set_copy).
    #[doc(alias = "cuGraphExecBatchMemOpNodeSetParams")]
    pub fn set_batch(
        &self,
        node: Node<node_kind::BatchMemOp>,
        batch: ValueBatch<'_>,
    ) -> Result<()> {
        let context = self.context();
        let (mut ops, owners) = batch_of(context, batch)?;
        let params = batch_params(context, &mut ops);
        let change = |it: &Changing<'_>| {
            // SAFETY: executable and node must be valid, and there be as many operations ← those of
            // `it` are, and they are in the vector, of which the driver makes a copy.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecBatchMemOpNodeSetParams(it.exec, it.node, &raw const params)
                )
            }
        };
        // SAFETY: the node must keep to `owners` ← they hold the words.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphNodeSetEnabled(node, is_enabled)`—Whether the node does anything, from the next
    /// launch on. One that does not is waited for all the same.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] as for [`set_kernel`](Self::set_kernel), [`Error::Unsupported`] for a
    /// node that [kernels change](Graph::set_device_updatable), or what the call answers.
    #[doc(alias = "cuGraphNodeSetEnabled")]
    pub fn set_enabled<K: Switchable>(&self, node: Node<K>, is_enabled: bool) -> Result<()> {
        let state = self.inner().lock();
        // One may do so right now, which nobody could know here.
        if state.is_device_updatable(state.place(node.id())?) {
            return Err(Error::Unsupported {
                what: "switching a node that kernels change",
            });
        }
        drop(state);
        self.with_node(node.id(), |it| {
            // SAFETY: executable and node must be valid ← those of `it` are.
            unsafe {
                call!(
                    it.driver,
                    cuGraphNodeSetEnabled(it.exec, it.node, is_enabled.into())
                )
            }
        })
    }

    /// `cuGraphNodeGetEnabled(node)`—Whether the node does anything, as far as the host has said
    /// it.
    ///
    /// # Errors
    ///
    /// As [`set_enabled`](Self::set_enabled).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    pub fn is_enabled<K: Switchable>(&self, node: Node<K>) -> Result<bool> {
        let mut is_enabled = 0;
        self.with_node(node.id(), |it| {
            // SAFETY: executable and node must be valid, the pointer writable ← those of `it` are;
            // a local.
            unsafe {
                call!(
                    it.driver,
                    cuGraphNodeGetEnabled(it.exec, it.node, &raw mut is_enabled)
                )
            }
        })?;
        Ok(is_enabled != 0)
    }
}
