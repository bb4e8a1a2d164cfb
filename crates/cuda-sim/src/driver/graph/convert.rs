//! Conversion of node parameters from and to C.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1,
    CUDA_KERNEL_NODE_PARAMS_v3, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v2,
    CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUDA_MEMSET_NODE_PARAMS_v2, CUgraphChildGraphNodeOwnership, CUgraphNodeParams, CUgraphNodeType,
    CUhostFn, CUmemAccessDesc, CUmemAllocationType, CUmemLocationType, CUmemPoolProps,
};

use super::attribute::Attributes;
use super::memory::GraphMemory;
use super::payload::{Kernel, Memset, Operations, Payload};
use crate::driver::arg::Arg;
use crate::driver::device::Device;
use crate::driver::export::Call;
use crate::driver::handle::pointer;
use crate::driver::launch::{Shape, pack};
use crate::driver::memset::Fill;
use crate::driver::pool::location_id;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::driver::stream::HostCall;
use crate::driver::transfer::Transfer;
use crate::driver::wait_value::batch;

/// Converts version 1 parameters to version 2.
pub(super) fn v2_of(old: &CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: old.func,
        gridDimX: old.gridDimX,
        gridDimY: old.gridDimY,
        gridDimZ: old.gridDimZ,
        blockDimX: old.blockDimX,
        blockDimY: old.blockDimY,
        blockDimZ: old.blockDimZ,
        sharedMemBytes: old.sharedMemBytes,
        kernelParams: old.kernelParams,
        extra: old.extra,
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    }
}

pub(super) fn v1_of(new: &CUDA_KERNEL_NODE_PARAMS) -> CUDA_KERNEL_NODE_PARAMS_v1 {
    CUDA_KERNEL_NODE_PARAMS_v1 {
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
    }
}

fn v3_of(new: &CUDA_KERNEL_NODE_PARAMS) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    CUDA_KERNEL_NODE_PARAMS_v3 {
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

pub(super) fn fill_of(params: &CUDA_MEMSET_NODE_PARAMS) -> Fill {
    Fill {
        dst: params.dst,
        pitch: params.pitch,
        value: params.value,
        element: params.elementSize as usize,
        width: params.width,
        height: params.height,
    }
}

pub(super) fn host(function: CUhostFn, data: *mut c_void) -> Status<Payload> {
    let function = function.ok_or(INVALID_VALUE)?;
    // SAFETY: nothing is read through the pointer; it is only passed to the function.
    let data = unsafe { data.wrap() };
    Ok(Payload::Host(HostCall::new(function, data)))
}

impl Kernel {
    pub(super) fn raw(&self) -> CUDA_KERNEL_NODE_PARAMS {
        let [grid, block] = [self.shape.grid, self.shape.block];
        CUDA_KERNEL_NODE_PARAMS {
            func: pointer(self.function.handle),
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: self.shape.shared,
            kernelParams: self.params.raw(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: pointer(self.context().handle),
        }
    }
}

impl Memset {
    pub(super) fn raw(&self) -> CUDA_MEMSET_NODE_PARAMS {
        CUDA_MEMSET_NODE_PARAMS {
            dst: self.fill.dst,
            pitch: self.fill.pitch,
            value: self.fill.value,
            elementSize: self.fill.element as u32,
            width: self.fill.width,
            height: self.fill.height,
        }
    }
}

impl Operations {
    pub(super) fn raw(&self) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: pointer(self.context.handle),
            count: self.raw.len() as u32,
            paramArray: self.raw.as_ptr().cast_mut(),
            flags: self.flags,
        }
    }
}

impl GraphMemory {
    fn props(&self) -> CUmemPoolProps {
        // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers,
        // newtypes of integers and a pointer.
        let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
        props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let id = std::ptr::from_mut(&mut props.location)
            .cast::<i32>()
            .wrapping_add(1);
        // SAFETY: the second `int` of the location must be writable ← it is the `id` in every
        // version of the header.
        unsafe { id.write(self.device.ordinal as i32) };
        props
    }

    pub(super) fn raw(&self) -> CUDA_MEM_ALLOC_NODE_PARAMS {
        CUDA_MEM_ALLOC_NODE_PARAMS {
            poolProps: self.props(),
            accessDescs: std::ptr::null(),
            accessDescCount: 0,
            bytesize: self.size as usize,
            dptr: self.addr,
        }
    }
}

impl Payload {
    /// Returns the parameters in the form of `cuGraphNodeGetParams`.
    pub(super) fn raw(&self) -> CUgraphNodeParams {
        // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers
        // and a union of plain structs of integers, pointers and optional function pointers.
        let mut all: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        all.type_ = self.sort();
        let params = &mut all.__bindgen_anon_1;
        match self {
            Self::Kernel(kernel) => params.kernel = v3_of(&kernel.raw()),
            Self::Copy(copy) => {
                params.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                    flags: 0,
                    reserved: 0,
                    copyCtx: pointer(copy.context.handle),
                    copyParams: copy.params.0,
                };
            }
            Self::Fill(memset) => {
                let raw = memset.raw();
                params.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
                    dst: raw.dst,
                    pitch: raw.pitch,
                    value: raw.value,
                    elementSize: raw.elementSize,
                    width: raw.width,
                    height: raw.height,
                    ctx: pointer(memset.context.handle),
                };
            }
            Self::Host(host) => (params.host.fn_, params.host.userData) = host.raw(),
            Self::Child(graph) => {
                params.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
                    graph: pointer(*graph),
                    // The driver owns the graph, so these parameters cannot be used for a new node
                    // unchanged.
                    ownership:
                        CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID,
                };
            }
            Self::Empty => {}
            Self::Record(event) => params.eventRecord.event = pointer(event.handle),
            Self::Wait(event) => {
                params.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS {
                    event: pointer(event.handle),
                };
            }
            Self::Alloc(memory) => {
                let raw = memory.raw();
                params.alloc = CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
                    poolProps: raw.poolProps,
                    accessDescs: raw.accessDescs,
                    accessDescCount: raw.accessDescCount,
                    bytesize: raw.bytesize,
                    dptr: raw.dptr,
                };
            }
            Self::Free(memory) => params.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: memory.addr },
            Self::Operations(operations) => {
                let raw = operations.raw();
                params.memOp.ctx = raw.ctx;
                params.memOp.count = raw.count;
                params.memOp.paramArray = raw.paramArray;
                params.memOp.flags = raw.flags;
            }
            Self::Conditional(conditional) => {
                params.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                    handle: conditional.handle,
                    type_: conditional.sort,
                    size: conditional.bodies.len() as u32,
                    phGraph_out: conditional.bodies.as_ptr().cast_mut().cast(),
                    ctx: pointer(conditional.context.handle),
                };
            }
        }
        all
    }
}

impl Call {
    pub(super) fn kernel_payload(&self, params: &CUDA_KERNEL_NODE_PARAMS) -> Status<Payload> {
        let function = match params.func.addr() as u64 {
            0 => self.function_of_kernel(params.kern.addr() as u64)?,
            function => self.function(function)?,
        };
        let shape = Shape {
            grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
            block: [params.blockDimX, params.blockDimY, params.blockDimZ],
            shared: params.sharedMemBytes,
            cooperative: false,
            cluster: None,
        };
        shape.check(&function)?;
        // SAFETY: the pointer must be valid in the way that cuLaunchKernel requires ← the contract
        // of kernel nodes.
        let values = unsafe { params.kernelParams.wrap() };
        // SAFETY: as for `kernelParams`.
        let extra = unsafe { params.extra.wrap() };
        let bytes = pack(&function, values, extra)?;
        Kernel::new(&function, shape, &bytes, Attributes::default()).map(Payload::Kernel)
    }

    pub(super) fn memcpy_payload(&self, params: &CUDA_MEMCPY3D, ctx: u64) -> Status<Payload> {
        let context = self.context(ctx)?;
        let spaces = self.spaces();
        let mut transfer = Transfer::new(&spaces, params)?;
        if transfer.is_empty() {
            return Err(INVALID_VALUE);
        }
        transfer.check(&spaces)?;
        Ok(Payload::copy(*params, transfer, &context))
    }

    pub(super) fn memset_payload(&self, fill: &Fill, ctx: u64) -> Status<Payload> {
        let context = self.context(ctx)?;
        if fill.is_empty() || !matches!(fill.element, 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        fill.check(&self.spaces())?;
        Ok(Payload::fill(*fill, &context))
    }

    pub(super) fn operations_payload(
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
    pub(super) fn pool_device(&self, props: &CUmemPoolProps) -> Status<Arc<Device>> {
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
    pub(super) fn check_access(&self, all: *const CUmemAccessDesc, count: usize) -> Status {
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
    pub(super) fn plain_payload(&self, params: &CUgraphNodeParams) -> Status<Payload> {
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
            T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL
            | T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT
            | T::CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
            | T::CU_GRAPH_NODE_TYPE_EXTERNAL_ENGINE
            | T::CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH => Err(NOT_SUPPORTED),
            _ => Err(INVALID_VALUE),
        }
    }
}
