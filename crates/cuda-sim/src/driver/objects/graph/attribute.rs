//! Attributes of launches and of kernel nodes.

use std::collections::BTreeMap;

use cuda_sys::{CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue};

use crate::driver::arg::Out;
use crate::driver::handle::fresh;
use crate::driver::status::{INVALID_CLUSTER_SIZE, INVALID_VALUE, NOT_SUPPORTED, Status};

/// The attributes of a launch. Only the named fields affect its result; the numbers affect at most
/// its speed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct Attributes {
    pub(in crate::driver) cooperative: bool,
    /// The size of a cluster in blocks.
    pub(in crate::driver) cluster: Option<[u32; 3]>,
    /// The values of the other attributes, by attribute id.
    numbers: BTreeMap<u32, u32>,
    /// Whether kernels can update the node, if that was set: the device handle for an updatable
    /// node, or 0 for a node that is not updatable.
    updatable: Option<u64>,
}

pub(in crate::driver) const UPDATABLE: CUlaunchAttributeID =
    CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;

impl Attributes {
    /// Returns the attributes of `cuLaunchCooperativeKernel`.
    pub(in crate::driver) fn cooperative() -> Self {
        Self {
            cooperative: true,
            ..Self::default()
        }
    }

    /// Sets an attribute. Fails with `INVALID_VALUE` if a driver of `version` does not know the
    /// attribute or the value, and with `NOT_SUPPORTED` if it would change the result of a launch
    /// and is not implemented.
    pub(in crate::driver) fn set(
        &mut self,
        version: u32,
        id: CUlaunchAttributeID,
        value: &CUlaunchAttributeValue,
    ) -> Status {
        type A = CUlaunchAttributeID;
        if !is_known(id, version) {
            return Err(INVALID_VALUE);
        }
        match id {
            A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                // SAFETY: the field of the union must be set ← the attribute's id says that it is.
                self.cooperative = unsafe { value.cooperative } != 0;
            }
            A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: the field of the union must be set ← the attribute's id says that it is.
                let cluster = unsafe { value.clusterDim };
                if cluster.x == 0 || cluster.y == 0 || cluster.z == 0 {
                    return Err(INVALID_CLUSTER_SIZE);
                }
                self.cluster = Some([cluster.x, cluster.y, cluster.z]);
            }
            A::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            | A::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | A::CU_LAUNCH_ATTRIBUTE_PRIORITY
            | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | A::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                // SAFETY: the first 4 bytes of the union must be set ← the attribute's id says that
                // a field of that size is.
                let number = unsafe { std::ptr::from_ref(value).cast::<u32>().read() };
                if id == A::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE && number > 2 {
                    return Err(INVALID_VALUE);
                }
                self.numbers.insert(id.0, number);
            }
            UPDATABLE => {
                // SAFETY: the first 4 bytes of the union must be set ← `deviceUpdatable`, which the
                // attribute's id says is set, lies there.
                let wanted = unsafe { std::ptr::from_ref(value).cast::<i32>().read() };
                self.updatable = match (wanted, self.device_node()) {
                    (0, None) => Some(0),
                    (1, None) => Some(fresh()),
                    (1, known) => known,
                    // An updatable node cannot be made not updatable.
                    (0, Some(_)) => return Err(NOT_SUPPORTED),
                    _ => return Err(INVALID_VALUE),
                };
            }
            // A kernel starts only after the kernels before it have ended, which programmatic
            // serialization allows.
            A::CU_LAUNCH_ATTRIBUTE_IGNORE
            | A::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            | A::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            // A kernel has the shape of cluster that it asks for, not the preferred one, on a
            // device whose clusters and shared memory have no limits beyond the portable ones.
            | A::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
            | A::CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING
            | A::CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE
            | A::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE => {}
            _ => return Err(NOT_SUPPORTED),
        }
        Ok(())
    }

    /// Returns an attribute. Fails with `NOT_SUPPORTED` for an attribute that is not stored.
    pub(in crate::driver) fn get(&self, id: CUlaunchAttributeID) -> Status<CUlaunchAttributeValue> {
        type A = CUlaunchAttributeID;
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        match id {
            A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => value.cooperative = i32::from(self.cooperative),
            A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                let cluster = self.cluster.unwrap_or_default();
                // SAFETY: the union must have room for the value with its alignment ← `clusterDim`
                // of the union consists of three of these.
                unsafe { (&raw mut value).cast::<[u32; 3]>().write(cluster) };
            }
            A::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            | A::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | A::CU_LAUNCH_ATTRIBUTE_PRIORITY
            | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | A::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                value.sharedMemCarveout = self.numbers.get(&id.0).copied().unwrap_or(0);
            }
            UPDATABLE => {
                if let Some(node) = self.device_node() {
                    value = updatable(node);
                }
            }
            _ => return Err(NOT_SUPPORTED),
        }
        Ok(value)
    }

    /// Returns the handle through which kernels update the node, if it is updatable.
    pub(in crate::driver) fn device_node(&self) -> Option<u64> {
        self.updatable.filter(|&node| node != 0)
    }

    /// Returns the priority of a node.
    pub(in crate::driver) fn priority(&self) -> u32 {
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY.0;
        self.numbers.get(&id).copied().unwrap_or(0)
    }

    /// Returns the attributes of a captured launch: the priority is that of the stream, unless the
    /// launch sets one.
    pub(in crate::driver) fn captured(mut self, priority: i32) -> Self {
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY.0;
        self.numbers.entry(id).or_insert(priority as u32);
        self
    }

    /// Returns whether an attribute is set that only nodes of graphs can have.
    pub(in crate::driver) fn is_of_graphs(&self) -> bool {
        self.updatable.is_some()
    }
}

/// Returns whether a driver of `version` knows the attribute, according to its header.
/// (`CU_LAUNCH_ATTRIBUTE_MAX` depends on the header from which the bindings were generated.)
fn is_known(id: CUlaunchAttributeID, version: u32) -> bool {
    let since = match id.0 {
        ..=10 => 12_000,
        12 => 12_030,
        13 => 12_040,
        14 => 12_050,
        11 => 12_080,
        15..=16 => 13_000,
        17..=18 => 13_020,
        _ => return false,
    };
    version >= since
}

/// Returns the attribute value that contains the device handle of an updatable node.
pub(in crate::driver) fn updatable(node: u64) -> CUlaunchAttributeValue {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    // SAFETY: the union must have room for the value with its alignment ←
    // `deviceUpdatableKernelNode` of the union is an `int` and a pointer.
    unsafe { (&raw mut value).cast::<[u64; 2]>().write([1, node]) };
    value
}

/// Writes the device handle of a captured node to the attribute of the launch that requested it.
pub(in crate::driver) fn write_device_node(
    attributes: Out<CUlaunchAttribute>,
    count: usize,
    node: u64,
) -> Status {
    for index in 0..count {
        let attribute = attributes.get_at(index)?;
        if attribute.id == UPDATABLE {
            let value = updatable(node);
            attributes.set_at(index, CUlaunchAttribute { value, ..attribute });
        }
    }
    Ok(())
}
