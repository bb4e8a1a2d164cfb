//! Conversion of node parameters to C.

use std::ffi::c_void;

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
    CUDA_EVENT_WAIT_NODE_PARAMS, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v3,
    CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v2, CUDA_MEM_FREE_NODE_PARAMS,
    CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2,
    CUgraphChildGraphNodeOwnership, CUgraphNodeParams, CUhostFn, CUmemAllocationType,
    CUmemLocationType, CUmemPoolProps,
};

use crate::driver::arg::Arg;
use crate::driver::handle::pointer;
use crate::driver::objects::external::Semaphores;
use crate::driver::objects::graph::memory::GraphMemory;
use crate::driver::objects::graph::payload::{Kernel, Memset, Operations, Payload};
use crate::driver::objects::memset::Fill;
use crate::driver::objects::stream::HostCall;
use crate::driver::status::{INVALID_VALUE, Status};

/// Converts version 1 parameters to version 2.
pub(in crate::driver) fn v2_of(old: &CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS {
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

pub(in crate::driver) fn v1_of(new: &CUDA_KERNEL_NODE_PARAMS) -> CUDA_KERNEL_NODE_PARAMS_v1 {
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

pub(in crate::driver) fn fill_of(params: &CUDA_MEMSET_NODE_PARAMS) -> Fill {
    Fill {
        dst: params.dst,
        pitch: params.pitch,
        value: params.value,
        element: params.elementSize as usize,
        width: params.width,
        height: params.height,
    }
}

pub(in crate::driver) fn host(function: CUhostFn, data: *mut c_void) -> Status<Payload> {
    let function = function.ok_or(INVALID_VALUE)?;
    // SAFETY: nothing is read through the pointer; it is only passed to the function.
    let data = unsafe { data.wrap() };
    Ok(Payload::Host(HostCall::new(function, data)))
}

impl Kernel {
    pub(in crate::driver) fn raw(&self) -> CUDA_KERNEL_NODE_PARAMS {
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
            ctx: pointer(self.context.handle),
        }
    }
}

impl Memset {
    pub(in crate::driver) fn raw(&self) -> CUDA_MEMSET_NODE_PARAMS {
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
    pub(in crate::driver) fn raw(&self) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
        CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: pointer(self.context.handle),
            count: self.raw.len() as u32,
            paramArray: self.raw.as_ptr().cast_mut(),
            flags: self.flags,
        }
    }
}

impl Semaphores<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> {
    pub(in crate::driver) fn raw(&self) -> CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
        CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            extSemArray: self.handles().as_ptr().cast_mut().cast(),
            paramsArray: self.params().as_ptr(),
            numExtSems: self.ops.len() as u32,
        }
    }
}

impl Semaphores<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> {
    pub(in crate::driver) fn raw(&self) -> CUDA_EXT_SEM_WAIT_NODE_PARAMS {
        CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            extSemArray: self.handles().as_ptr().cast_mut().cast(),
            paramsArray: self.params().as_ptr(),
            numExtSems: self.ops.len() as u32,
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

    pub(in crate::driver) fn raw(&self) -> CUDA_MEM_ALLOC_NODE_PARAMS {
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
    pub(in crate::driver) fn raw(&self) -> CUgraphNodeParams {
        // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers
        // and a union of plain structs of integers, pointers and optional function pointers.
        let mut all: CUgraphNodeParams = unsafe { std::mem::zeroed() };
        all.type_ = self.kind();
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
            Self::Signal(semaphores) => {
                let raw = semaphores.raw();
                params.extSemSignal.extSemArray = raw.extSemArray;
                params.extSemSignal.paramsArray = raw.paramsArray;
                params.extSemSignal.numExtSems = raw.numExtSems;
            }
            Self::Await(semaphores) => {
                let raw = semaphores.raw();
                params.extSemWait.extSemArray = raw.extSemArray;
                params.extSemWait.paramsArray = raw.paramsArray;
                params.extSemWait.numExtSems = raw.numExtSems;
            }
            Self::Conditional(conditional) => {
                params.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                    handle: conditional.handle,
                    type_: conditional.kind,
                    size: conditional.bodies.len() as u32,
                    phGraph_out: conditional.bodies.as_ptr().cast_mut().cast(),
                    ctx: pointer(conditional.context.handle),
                };
            }
        }
        all
    }
}
