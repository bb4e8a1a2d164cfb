//! Conversion of node parameters from and to C.

use std::sync::Arc;

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v3, CUDA_MEMCPY3D, CUgraphNodeParams,
    CUgraphNodeType, CUmemAccessDesc, CUmemAllocationType, CUmemLocationType, CUmemPoolProps,
};

use crate::driver::arg::Arg;
use crate::driver::export::Call;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::function::Function;
use crate::driver::objects::graph::attribute::Attributes;
use crate::driver::objects::graph::convert::host;
use crate::driver::objects::graph::payload::{Kernel, Payload};
use crate::driver::objects::launch::{Shape, pack};
use crate::driver::objects::memset::Fill;
use crate::driver::objects::pool::location_id;
use crate::driver::objects::transfer::Transfer;
use crate::driver::objects::wait_value::batch;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};

fn of_v3(new: &CUDA_KERNEL_NODE_PARAMS_v3) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: new.func,
        gridDimX: new.gridDimX,
        gridDimY: new.gridDimY,
        gridDimZ: new.gridDimZ,
        blockDimX: new.blockDimX,
        blockDimY: new.blockDimY,
        blockDimZ: new.blockDimZ,
        sharedMemBytes: new.sharedMemBytes,
        kernelParams: new.kernelParams,
        extra: new.extra,
        kern: new.kern,
        ctx: new.ctx,
    }
}

impl Call {
    pub(in crate::driver) fn kernel_payload(
        &self,
        params: &CUDA_KERNEL_NODE_PARAMS,
    ) -> Status<Payload> {
        let function = match params.func.addr() as u64 {
            0 => self.function_of_kernel(params.kern.addr() as u64)?,
            function => self.function(function)?,
        };
        let grid = [params.gridDimX, params.gridDimY, params.gridDimZ];
        let block = [params.blockDimX, params.blockDimY, params.blockDimZ];
        let shape = Shape::new(grid, block, params.sharedMemBytes);
        let context = self.kernel_context(&function, params.ctx.addr() as u64)?;
        shape.check(&function, &context)?;
        // SAFETY: the pointer must be valid in the way that cuLaunchKernel requires ← the contract
        // of kernel nodes.
        let values = unsafe { params.kernelParams.wrap() };
        // SAFETY: as for `kernelParams`.
        let extra = unsafe { params.extra.wrap() };
        let bytes = pack(&function, values, extra)?;
        self.record(&function, shape, &bytes);
        let kernel = Kernel::new(&function, shape, &bytes, Attributes::default(), &context);
        kernel.map(Payload::Kernel)
    }

    /// Returns the context that a kernel node runs in: the context that the program names or, if it
    /// names none, the current context. If the function does not belong to that context, it is the
    /// context of the function.
    fn kernel_context(&self, function: &Function, named: u64) -> Status<Arc<Context>> {
        let own = &function.module.context;
        let context = match named {
            0 => self.current().unwrap_or_else(|_| Arc::clone(own)),
            named => self.context(named)?,
        };
        let is_usable = context.home_handle() == own.handle;
        Ok(if is_usable { context } else { Arc::clone(own) })
    }

    pub(in crate::driver) fn memcpy_payload(
        &self,
        params: &CUDA_MEMCPY3D,
        ctx: u64,
    ) -> Status<Payload> {
        let context = self.context(ctx)?;
        let spaces = self.spaces();
        let mut transfer = Transfer::new(&spaces, params)?;
        if transfer.is_empty() {
            return Err(INVALID_VALUE);
        }
        transfer.check(&spaces)?;
        Ok(Payload::copy(*params, transfer, &context))
    }

    pub(in crate::driver) fn memset_payload(&self, fill: &Fill, ctx: u64) -> Status<Payload> {
        let context = self.context(ctx)?;
        if fill.is_empty() || !matches!(fill.element, 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        fill.check(&self.spaces())?;
        Ok(Payload::fill(*fill, &context))
    }

    pub(in crate::driver) fn operations_payload(
        &self,
        params: &CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) -> Status<Payload> {
        let context = self.context(params.ctx.addr() as u64)?;
        // SAFETY: there must be `count` elements ← the contract of the node type.
        let array = unsafe { params.paramArray.wrap() };
        let ops = batch(&self.spaces(), params.count, array, params.flags)?;
        Ok(Payload::operations(&ops, params.flags, &context))
    }

    /// Returns the device of an allocation node.
    pub(in crate::driver) fn pool_device(&self, props: &CUmemPoolProps) -> Status<Arc<Device>> {
        if props.allocType != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
            || props.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
            || props.handleTypes.0 != 0
        {
            return Err(INVALID_VALUE);
        }
        let device = self
            .device(location_id(&props.location))
            .map_err(|_| INVALID_VALUE)?;
        Ok(Arc::clone(device))
    }

    /// Checks the devices that get access to the memory of an allocation node: they must exist.
    /// (Every device can access all memory here.)
    pub(in crate::driver) fn check_access(
        &self,
        all: *const CUmemAccessDesc,
        count: usize,
    ) -> Status {
        // SAFETY: there must be `count` elements ← the contract of the node type.
        let all = unsafe { all.wrap() };
        for index in 0..count {
            let location = all.get_at(index)?.location;
            if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
                return Err(INVALID_VALUE);
            }
            self.device(location_id(&location))?;
        }
        Ok(())
    }

    /// Creates the payload of a node that needs no other object of the graph; fails with
    /// `INVALID_VALUE` for other types.
    pub(in crate::driver) fn plain_payload(&self, params: &CUgraphNodeParams) -> Status<Payload> {
        type T = CUgraphNodeType;
        let all = &params.__bindgen_anon_1;
        match params.type_ {
            T::CU_GRAPH_NODE_TYPE_KERNEL => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let kernel = unsafe { all.kernel };
                self.kernel_payload(&of_v3(&kernel))
            }
            T::CU_GRAPH_NODE_TYPE_MEMCPY => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let copy = unsafe { all.memcpy };
                if copy.flags != 0 {
                    return Err(INVALID_VALUE);
                }
                self.memcpy_payload(&copy.copyParams, copy.copyCtx.addr() as u64)
            }
            T::CU_GRAPH_NODE_TYPE_MEMSET => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let memset = unsafe { all.memset };
                let fill = Fill {
                    dst: memset.dst,
                    pitch: memset.pitch,
                    value: memset.value,
                    element: memset.elementSize as usize,
                    width: memset.width,
                    height: memset.height,
                };
                self.memset_payload(&fill, memset.ctx.addr() as u64)
            }
            T::CU_GRAPH_NODE_TYPE_HOST => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let function = unsafe { all.host.fn_ };
                // SAFETY: the field of the union must be set ← the type says that it is.
                let data = unsafe { all.host.userData };
                host(function, data)
            }
            T::CU_GRAPH_NODE_TYPE_EMPTY => Ok(Payload::Empty),
            T::CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let event = unsafe { all.eventRecord.event };
                Ok(Payload::Record(self.event(event.addr() as u64)?))
            }
            T::CU_GRAPH_NODE_TYPE_WAIT_EVENT => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let event = unsafe { all.eventWait.event };
                Ok(Payload::Wait(self.event(event.addr() as u64)?))
            }
            T::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let batch = unsafe { all.memOp };
                self.operations_payload(&CUDA_BATCH_MEM_OP_NODE_PARAMS {
                    ctx: batch.ctx,
                    count: batch.count,
                    paramArray: batch.paramArray,
                    flags: batch.flags,
                })
            }
            T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let signal = unsafe { all.extSemSignal };
                self.signal_payload(&CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
                    extSemArray: signal.extSemArray,
                    paramsArray: signal.paramsArray,
                    numExtSems: signal.numExtSems,
                })
            }
            T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT => {
                // SAFETY: the field of the union must be set ← the type says that it is.
                let wait = unsafe { all.extSemWait };
                self.wait_payload(&CUDA_EXT_SEM_WAIT_NODE_PARAMS {
                    extSemArray: wait.extSemArray,
                    paramsArray: wait.paramsArray,
                    numExtSems: wait.numExtSems,
                })
            }
            T::CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
            | T::CU_GRAPH_NODE_TYPE_EXTERNAL_ENGINE
            | T::CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH => Err(NOT_SUPPORTED),
            _ => Err(INVALID_VALUE),
        }
    }
}
