//! Changes of single nodes of executables.

use std::sync::Arc;

use super::Graph;
use super::batch::{batch_of, params as batch_params};
use super::copy::{CopySource, CopyTarget, copy_of_ends};
use super::event::event_owners;
use super::exec::GraphExec;
use super::fill::fill_of;
use super::host::host_of;
use super::kernel::{kernel_owners, params};
use super::update::Changing;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::function::Function;
use crate::launch::KernelArgs;
use crate::memop::ValueBatch;
use crate::memory::DeviceRepr;
use crate::types::LaunchConfig;
use crate::types::node::{Node, node_kind};

/// A number that no graph has. Memory that a graph allocates is valid only within its launches
/// between two nodes, so changed nodes must not refer to it.
const NOT_ITS_OWN: u64 = 0;

mod sealed {
    pub trait Sealed {}
}

/// The kinds of nodes that can be disabled: kernels, copies and fills.
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
    /// `cuGraphExecKernelNodeSetParams(node, function, config, args)`—Changes what a kernel node
    /// launches, from the next launch of the executable on.
    ///
    /// The executable takes the new kernel and buffers before it releases the old ones. Launches in
    /// flight keep using the old ones.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - The errors of [`Graph::kernel`].
    /// - [`Error::OtherGraph`] if the node was not in the graph, or in a body of one of its
    ///   conditional nodes, when the executable was made.
    /// - [`Error::OtherGraph`] if an argument is memory that a graph allocates, even this one.
    /// - [`Error::NodeGone`] if the node was [removed](Graph::remove) since.
    ///
    /// # Safety
    ///
    /// The contract of [`Graph::kernel`] holds. Every node with a conflicting access to the same
    /// memory depends on this one, or this one on it. If the node is
    /// [device-updatable](Graph::set_device_updatable), no kernel changes it during the call, and
    /// no other thread launches the executable.
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
        // SAFETY: the node must use only what `owners` keeps, in an order with conflicting nodes ←
        // the caller guarantees both.
        unsafe { self.change(node.id(), owners, false, change) }
    }

    /// `cuGraphExecMemcpyNodeSetParams(node)`—Changes what a copy node copies, from the next launch
    /// on.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - The errors of [`Graph::copy`], and those of [`set_kernel`](Self::set_kernel) that concern
    ///   the node.
    /// - [`Error::GraphOrder`] if another node has a conflicting access to the same memory and
    ///   neither node depends on the other.
    /// - `CUDA_ERROR_INVALID_VALUE` for copies that the driver cannot change in this way, such as
    ///   copies of several rows.
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
            // SAFETY: executable, node and pointers must be valid ← those of `it` are; `params` is
            // a local.
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
        // SAFETY: the node must use only what `owners` keeps ← both sides are within their memory,
        // which `owners` holds.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecMemsetNodeSetParams(node)`—Changes what a fill node fills, from the next launch
    /// on.
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::fill`], and those of [`set_copy`](Self::set_copy).
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
            // SAFETY: executable, node and pointers must be valid ← those of `it` are; `params` is
            // a local.
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
        // SAFETY: the node must use only what `owners` keeps ← the range is that of the view, whose
        // memory `owners` holds.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecHostNodeSetParams(node)`—Changes the closure that a host node calls, from the
    /// next launch on. Launches in flight call the old closure.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    pub fn set_host(
        &self,
        node: Node<node_kind::Host>,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<()> {
        let (params, owners) = host_of(function);
        let change = |it: &Changing<'_>| {
            // SAFETY: executable and node must be valid, and the function callable with this data
            // at any later time ← those of `it` are; the data is a number, by which the function
            // looks up the closure.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecHostNodeSetParams(it.exec, it.node, &raw const params)
                )
            }
        };
        // SAFETY: the node must use only what `owners` keeps ← it keeps the closure.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecEventRecordNodeSetEvent(node)`—Changes the event that a node records, from the
    /// next launch on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel),
    /// [`Error::OtherContext`] if the event is of another context.
    #[doc(alias = "cuGraphExecEventRecordNodeSetEvent")]
    pub fn set_event_record(
        &self,
        node: Node<node_kind::EventRecord>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and event must be valid ← those of `it` are; the event is
            // borrowed.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecEventRecordNodeSetEvent(it.exec, it.node, event.as_raw())
                )
            }
        };
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecEventWaitNodeSetEvent(node)`—Changes the event that a node waits for, from the
    /// next launch on.
    ///
    /// # Errors
    ///
    /// The errors of [`set_event_record`](Self::set_event_record).
    #[doc(alias = "cuGraphExecEventWaitNodeSetEvent")]
    pub fn set_event_wait(
        &self,
        node: Node<node_kind::EventWait>,
        event: &Arc<Event>,
    ) -> Result<()> {
        let owners = event_owners(self.context(), event)?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and event must be valid ← those of `it` are; the event is
            // borrowed.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecEventWaitNodeSetEvent(it.exec, it.node, event.as_raw())
                )
            }
        };
        // SAFETY: the node must use only what `owners` keeps ← it keeps the event.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecChildGraphNodeSetParams(node)`—Changes the graph that a child node runs, from
    /// the next launch on. The new graph must have the same nodes and edges as the old one.
    ///
    /// # Errors
    ///
    /// The executable is unchanged after an error.
    ///
    /// - [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel).
    /// - [`Error::GraphOrder`] as for [`set_copy`](Self::set_copy).
    /// - [`Error::OtherContext`] if `child` is of another context.
    /// - [`Error::GraphMemoryKept`] if a node of `child` allocates memory that none of its nodes
    ///   frees.
    /// - The errors of [`Graph::try_clone`].
    /// - `CUDA_ERROR_INVALID_VALUE` if the topology of `child` differs.
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    pub fn set_child(&self, node: Node<node_kind::Child>, child: &Graph) -> Result<()> {
        if child.context() != self.context() {
            return Err(Error::OtherContext { what: "the graph" });
        }
        // Works on a clone, which no other thread can change.
        let child = child.try_clone()?;
        let (raw, owners, _) = child.whole()?;
        let change = |it: &Changing<'_>| {
            // SAFETY: executable, node and graph must be valid ← those of `it` are; no other code
            // has the clone.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecChildGraphNodeSetParams(it.exec, it.node, raw.0)
                )
            }
        };
        // SAFETY: the node must use only what `owners` keeps ← they are the owners of the child's
        // nodes.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphExecBatchMemOpNodeSetParams(node)`—Changes the values that a batch node waits for
    /// and writes, from the next launch on. The number of operations and their kinds must stay the
    /// same.
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::batch`], and those of [`set_copy`](Self::set_copy).
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
            // SAFETY: executable and node must be valid, and `params` must describe as many
            // operations as it counts ← those of `it` are; the operations are in the vector `ops`,
            // which the driver copies.
            unsafe {
                call!(
                    it.driver,
                    cuGraphExecBatchMemOpNodeSetParams(it.exec, it.node, &raw const params)
                )
            }
        };
        // SAFETY: the node must use only what `owners` keeps ← it holds the memory of all
        // operations.
        unsafe { self.change(node.id(), owners, true, change) }
    }

    /// `cuGraphNodeSetEnabled(node, is_enabled)`—Enables or disables a node, from the next launch
    /// on. Dependents of a disabled node still wait for its dependencies.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel),
    /// [`Error::Unsupported`] if the node is [device-updatable](Graph::set_device_updatable).
    #[doc(alias = "cuGraphNodeSetEnabled")]
    pub fn set_enabled<K: Switchable>(&self, node: Node<K>, is_enabled: bool) -> Result<()> {
        let state = self.inner().lock();
        // A kernel may be enabling or disabling the node at this moment, which the host cannot
        // detect.
        if state.is_device_updatable(state.place(node.id())?) {
            return Err(Error::Unsupported {
                what: "enabling or disabling a device-updatable node",
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

    /// `cuGraphNodeGetEnabled(node)`—Returns whether the node is enabled. Changes made by kernels
    /// are not included.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    pub fn is_enabled<K: Switchable>(&self, node: Node<K>) -> Result<bool> {
        let mut is_enabled = 0;
        self.with_node(node.id(), |it| {
            // SAFETY: executable and node must be valid and the pointer writable ← those of `it`
            // are; `is_enabled` is a local.
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
