//! Queries of the memory that graphs allocate.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cuda_sys::{CUdevice, CUgraphMem_attribute};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuDeviceGetGraphMemAttribute => device_get_graph_mem_attribute;
    cuDeviceSetGraphMemAttribute => device_set_graph_mem_attribute;
    cuDeviceGraphMemTrim => device_graph_mem_trim;
}

impl Call {
    fn device_get_graph_mem_attribute(
        &self,
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUgraphMem_attribute;
        let footprint = self.graphs.footprint(self.device(device)?.ordinal);
        let number = match attribute {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT | A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => {
                &footprint.held
            }
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => &footprint.used_high,
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => &footprint.reserved_high,
            _ => return Err(INVALID_VALUE),
        };
        value.typed::<u64>().set(number.load(Ordering::Relaxed))
    }

    /// `cuDeviceSetGraphMemAttribute()`—Resets the high-water marks.
    fn device_set_graph_mem_attribute(
        &self,
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUgraphMem_attribute;
        let footprint = self.graphs.footprint(self.device(device)?.ordinal);
        let mark = match attribute {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => &footprint.used_high,
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => &footprint.reserved_high,
            _ => return Err(INVALID_VALUE),
        };
        if value.typed::<u64>().get()? != 0 {
            return Err(INVALID_VALUE);
        }
        mark.store(footprint.held.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// `cuDeviceGraphMemTrim()`—Returns unused memory to the device.
    fn device_graph_mem_trim(&self, device: CUdevice) -> Status {
        self.graphs.footprint(self.device(device)?.ordinal).trim();
        Ok(())
    }
}
