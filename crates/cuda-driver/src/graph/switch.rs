//! Nodes of executables that can be enabled and disabled.

use super::exec::GraphExec;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::types::node::{Node, node_kind};

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

/// Enabled and disabled nodes.
impl GraphExec {
    /// `cuGraphNodeSetEnabled(node, is_enabled)`—Enables or disables a node, from the next launch
    /// on. Dependents of a disabled node still wait for its dependencies.
    ///
    /// # Errors
    ///
    /// [`Error::OtherGraph`] and [`Error::NodeGone`] as for [`set_kernel`](Self::set_kernel),
    /// [`Error::Unsupported`] if the node is
    /// [device-updatable](super::Graph::set_device_updatable).
    #[doc(alias = "cuGraphNodeSetEnabled")]
    #[doc(alias = "cudaGraphNodeSetEnabled")]
    pub fn set_enabled<K: Switchable>(&self, node: Node<K>, is_enabled: bool) -> Result<()> {
        let state = self.inner().lock();
        // A kernel may be enabling or disabling the node at this moment, which the host cannot
        // detect.
        if state.is_device_updatable(state.position_of(node.id())?) {
            return Err(Error::Unsupported {
                what: "enabling or disabling a device-updatable node; let a kernel do it, or use \
                       an ordinary node",
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
    #[doc(alias = "cudaGraphNodeGetEnabled")]
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
