//! Nodes that signal semaphores of other APIs, or wait for them.

use std::sync::Arc;

use cuda_sys::{
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUexternalSemaphore, CUgraphNode,
};

use super::change::ChangeNode;
use super::params::{Adding, Changing, NodeParams, SetNodeParams, call_add, call_set};
use super::{Graph, GraphExec, Owners};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::external_semaphore::{ExternalSemaphore, signal_params, wait_params};
use crate::types::node::{Edge, Node, node_kind};

/// Semaphores of other APIs.
impl Graph {
    /// `cuGraphAddExternalSemaphoresSignalNode()`—Adds a node that signals a semaphore in each
    /// launch, as [`Stream::signal_external`](crate::Stream::signal_external) does.
    ///
    /// No edge follows from memory: this node needs an edge from each node whose results the other
    /// API uses.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherGraph`] or [`Error::NodeGone`] if an edge does not come from a node of this
    ///   graph.
    /// - [`Error::OtherContext`] if the semaphore is of another context.
    #[doc(alias = "cuGraphAddExternalSemaphoresSignalNode")]
    #[doc(alias = "cudaGraphAddExternalSemaphoresSignalNode")]
    pub fn add_external_signal(
        &mut self,
        after: &[Edge],
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<Node<node_kind::ExternalSignal>> {
        let owners = semaphore_owners(self.context(), semaphore)?;
        let mut node = Signal::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.add(after, owners, &mut node) }
    }

    /// `cuGraphAddExternalSemaphoresWaitNode()`—Adds a node that waits for a semaphore, as
    /// [`Stream::wait_external`](crate::Stream::wait_external) does.
    ///
    /// No edge follows from memory: each node that uses what the other API has written needs an
    /// edge from this node.
    ///
    /// # Errors
    ///
    /// The errors of [`add_external_signal`](Self::add_external_signal).
    #[doc(alias = "cuGraphAddExternalSemaphoresWaitNode")]
    #[doc(alias = "cudaGraphAddExternalSemaphoresWaitNode")]
    pub fn add_external_wait(
        &mut self,
        after: &[Edge],
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<Node<node_kind::ExternalWait>> {
        let mut owners = semaphore_owners(self.context(), semaphore)?;
        // The other API may signal the semaphore after the host has acted.
        owners.note_host_wait();
        let mut node = Wait::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.add(after, owners, &mut node) }
    }
}

/// New parameters of nodes for semaphores of other APIs.
impl GraphExec {
    /// `cuGraphExecExternalSemaphoresSignalNodeSetParams()`—Changes the semaphore and the value
    /// that a node signals, from the next launch on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel),
    /// [`Error::OtherContext`] if the semaphore is of another context.
    #[doc(alias = "cuGraphExecExternalSemaphoresSignalNodeSetParams")]
    #[doc(alias = "cudaGraphExecExternalSemaphoresSignalNodeSetParams")]
    pub fn set_external_signal(
        &self,
        node: Node<node_kind::ExternalSignal>,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<()> {
        let owners = semaphore_owners(self.context(), semaphore)?;
        let mut params = Signal::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.set(node, owners, &mut params) }
    }

    /// `cuGraphExecExternalSemaphoresWaitNodeSetParams()`—Changes the semaphore and the value that
    /// a node waits for, from the next launch on.
    ///
    /// # Errors
    ///
    /// The errors of [`set_external_signal`](Self::set_external_signal).
    #[doc(alias = "cuGraphExecExternalSemaphoresWaitNodeSetParams")]
    #[doc(alias = "cudaGraphExecExternalSemaphoresWaitNodeSetParams")]
    pub fn set_external_wait(
        &self,
        node: Node<node_kind::ExternalWait>,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<()> {
        let mut owners = semaphore_owners(self.context(), semaphore)?;
        // The other API may signal the semaphore after the host has acted.
        owners.note_host_wait();
        let mut params = Wait::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.set(node, owners, &mut params) }
    }
}

/// Changes of nodes for semaphores of other APIs.
impl Graph {
    /// `cuGraphExternalSemaphoresSignalNodeSetParams()`—Changes the semaphore and the value that a
    /// node of this graph signals. Executables that exist already are not affected.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the semaphore is of another context, and the errors of
    /// [`set_kernel`](Self::set_kernel) about the node.
    #[doc(alias = "cuGraphExternalSemaphoresSignalNodeSetParams")]
    #[doc(alias = "cudaGraphExternalSemaphoresSignalNodeSetParams")]
    pub fn set_external_signal(
        &mut self,
        node: Node<node_kind::ExternalSignal>,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<()> {
        let owners = semaphore_owners(self.context(), semaphore)?;
        let mut params = Signal::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.change(node, owners, &mut params) }
    }

    /// `cuGraphExternalSemaphoresWaitNodeSetParams()`—Changes the semaphore and the value that a
    /// node of this graph waits for. Executables that exist already are not affected.
    ///
    /// # Errors
    ///
    /// The errors of [`set_external_signal`](Self::set_external_signal).
    #[doc(alias = "cuGraphExternalSemaphoresWaitNodeSetParams")]
    #[doc(alias = "cudaGraphExternalSemaphoresWaitNodeSetParams")]
    pub fn set_external_wait(
        &mut self,
        node: Node<node_kind::ExternalWait>,
        semaphore: &Arc<ExternalSemaphore>,
        value: u64,
    ) -> Result<()> {
        let mut owners = semaphore_owners(self.context(), semaphore)?;
        // The other API may signal the semaphore after the host has acted.
        owners.note_host_wait();
        let mut params = Wait::new(semaphore, value);
        // SAFETY: the node must use only what `owners` keeps ← it keeps the semaphore.
        unsafe { self.change(node, owners, &mut params) }
    }
}

/// Declares the parameters of a node for one semaphore. Signals and waits have the same fields and
/// calls of the same form.
macro_rules! semaphore_node {
    (
        $(#[$doc:meta])*
        $name:ident: $kind:ident, $params:ident by $new:ident, $raw:ident,
        $add:ident, $change:ident, $set:ident
    ) => {
        $(#[$doc])*
        struct $name {
            semaphore: CUexternalSemaphore,
            params: $params,
        }

        impl $name {
            fn new(semaphore: &ExternalSemaphore, value: u64) -> Self {
                Self {
                    semaphore: semaphore.as_raw(),
                    params: $new(value),
                }
            }

            /// Returns the parameters in the form of C, with pointers to `self`.
            fn raw(&mut self) -> $raw {
                $raw {
                    extSemArray: &raw mut self.semaphore,
                    paramsArray: &raw const self.params,
                    numExtSems: 1,
                }
            }
        }

        impl NodeParams for $name {
            type Kind = node_kind::$kind;

            unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError> {
                let raw = self.raw();
                // SAFETY: pointers, graph and semaphore must be valid ← the caller guarantees it
                // for those of `it`, and that the owners keep the semaphore.
                unsafe { call_add!(it, $add, &raw const raw) }
            }
        }

        impl ChangeNode for $name {
            unsafe fn change(
                &mut self,
                driver: &Driver,
                node: CUgraphNode,
            ) -> Result<(), DriverError> {
                let raw = self.raw();
                // SAFETY: node and semaphore must be valid ← the caller guarantees it for the node,
                // and that the owners keep the semaphore.
                unsafe { call!(driver, $change(node, &raw const raw)) }
            }
        }

        impl SetNodeParams for $name {
            unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError> {
                let raw = self.raw();
                // SAFETY: executable, node and semaphore must be valid ← the caller guarantees it
                // for those of `it`, and that the owners keep the semaphore.
                unsafe { call_set!(it, $set, &raw const raw) }
            }
        }
    };
}

semaphore_node! {
    /// The parameters of a node that signals a semaphore.
    Signal: ExternalSignal, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS by signal_params,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, cuGraphAddExternalSemaphoresSignalNode,
    cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams
}

semaphore_node! {
    /// The parameters of a node that waits for a semaphore.
    Wait: ExternalWait, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS by wait_params,
    CUDA_EXT_SEM_WAIT_NODE_PARAMS, cuGraphAddExternalSemaphoresWaitNode,
    cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams
}

/// Returns the owner of a semaphore for a graph in `context`.
fn semaphore_owners(context: &Context, semaphore: &Arc<ExternalSemaphore>) -> Result<Owners> {
    if semaphore.context() != context {
        return Err(Error::other_context(
            "the semaphore",
            semaphore.context(),
            context,
        ));
    }
    let mut owners = Owners::default();
    owners.retain(Arc::clone(semaphore));
    Ok(owners)
}
