//! The attributes of kernel nodes.

use cuda_sys::{CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue};

use crate::driver::{Driver, call};
use crate::error::Result;
use crate::types::Dim3;

/// The attributes of a kernel node, as the driver reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Whether all blocks run at the same time (a cooperative launch).
    pub is_cooperative: bool,
    /// The number of blocks in a cluster, or `None` without clusters.
    pub cluster: Option<Dim3>,
    /// The priority; lower numbers are more urgent. It has an effect only with
    /// [`USE_NODE_PRIORITY`](super::InstantiateFlags::USE_NODE_PRIORITY).
    pub priority: i32,
}

impl KernelAttributes {
    /// Returns the attributes of a node.
    ///
    /// # Safety
    ///
    /// `raw` is a live kernel node, and its graph is locked.
    pub(super) unsafe fn of_node(driver: &Driver, raw: CUgraphNode) -> Result<Self> {
        let get = |id: CUlaunchAttributeID| -> Result<[u32; 16]> {
            let mut value = CUlaunchAttributeValue { pad: [0; 64] };
            // SAFETY: the node must be a live kernel node and the pointer writable ← the caller
            // guarantees the former; `value` is a local.
            unsafe {
                call!(
                    driver,
                    cuGraphKernelNodeGetAttribute(raw, id, &raw mut value)
                )
            }?;
            // SAFETY: every bit pattern must be valid, and all bytes initialized ← the array holds
            // integers and is as long as the union, all bytes of which were set above.
            Ok(unsafe { std::mem::transmute::<CUlaunchAttributeValue, [u32; 16]>(value) })
        };
        let [cooperative, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE)?;
        let [x, y, z, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)?;
        let [priority, ..] = get(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY)?;
        Ok(Self {
            is_cooperative: cooperative != 0,
            cluster: (x > 0).then_some(Dim3 { x, y, z }),
            priority: priority.cast_signed(),
        })
    }
}
