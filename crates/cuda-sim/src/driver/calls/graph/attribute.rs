//! Attributes of kernel nodes.

use cuda_sys::{CUgraphNode_st, CUlaunchAttributeID, CUlaunchAttributeValue};

use crate::driver::arg::{Arg, In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::objects::graph::attribute::{Attributes, UPDATABLE, updatable};
use crate::driver::objects::graph::payload::{Kernel, Payload};
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuGraphKernelNodeSetAttribute => graph_kernel_node_set_attribute;
    cuGraphKernelNodeGetAttribute => graph_kernel_node_get_attribute;
    cuGraphKernelNodeCopyAttributes => graph_kernel_node_copy_attributes;
}

fn kernel(payload: &Payload) -> Status<&Kernel> {
    match payload {
        Payload::Kernel(kernel) => Ok(kernel),
        _ => Err(INVALID_VALUE),
    }
}

impl Call {
    fn set_attributes(&self, node: u64, set: impl FnOnce(&mut Attributes) -> Status) -> Status {
        let mut state = self.graphs.lock();
        let node = state.node_mut(node)?;
        let mut changed = kernel(&node.payload)?.clone();
        set(&mut changed.attributes)?;
        changed.shape.cooperative = changed.attributes.cooperative;
        changed.shape.cluster = changed.attributes.cluster;
        changed.shape.check(&changed.function, &changed.context)?;
        node.payload = Payload::Kernel(changed);
        Ok(())
    }

    fn graph_kernel_node_set_attribute(
        &self,
        node: Out<CUgraphNode_st>,
        attribute: CUlaunchAttributeID,
        value: In<CUlaunchAttributeValue>,
    ) -> Status {
        let given = value.get()?;
        let mut device_node = None;
        let version = self.config.version;
        self.set_attributes(node.handle(), |all| {
            all.set(version, attribute, &given)?;
            device_node = all.device_node();
            Ok(())
        })?;
        if let (UPDATABLE, Some(device_node)) = (attribute, device_node) {
            // SAFETY: the attribute must be valid for a write ← the manual says that the handle is
            // returned there, although the pointer is declared const.
            let value = unsafe { value.raw().cast_mut().wrap() };
            value.set(updatable(device_node))?;
        }
        Ok(())
    }

    fn graph_kernel_node_get_attribute(
        &self,
        node: Out<CUgraphNode_st>,
        attribute: CUlaunchAttributeID,
        value: Out<CUlaunchAttributeValue>,
    ) -> Status {
        let state = self.graphs.lock();
        let kernel = kernel(&state.node(node.handle())?.payload)?;
        value.set(kernel.attributes.get(attribute)?)
    }

    fn graph_kernel_node_copy_attributes(
        &self,
        dst: Out<CUgraphNode_st>,
        src: Out<CUgraphNode_st>,
    ) -> Status {
        let from = {
            let state = self.graphs.lock();
            let source = kernel(&state.node(src.handle())?.payload)?;
            let target = kernel(&state.node(dst.handle())?.payload)?;
            if source.context.handle != target.context.handle {
                return Err(INVALID_VALUE);
            }
            source.attributes.clone()
        };
        self.set_attributes(dst.handle(), |all| {
            if from.device_node().or(all.device_node()).is_some() {
                return Err(NOT_SUPPORTED);
            }
            *all = from;
            Ok(())
        })
    }
}
