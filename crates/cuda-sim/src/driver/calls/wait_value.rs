//! Stream memory operations: waiting for a value in memory, and writing one.

use std::ffi::c_uint;

use cuda_sys::{
    CUdeviceptr, CUstream_st, CUstreamBatchMemOpParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as CUstreamMemOpWaitValueParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st__bindgen_ty_1 as WaitValue,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as CUstreamMemOpWriteValueParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 as WriteValue,
    CUstreamBatchMemOpType, cuuint32_t, cuuint64_t,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::stream::Stream;
use crate::driver::objects::wait_value::{MemOp, batch};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz => stream_wait_value_32;
    cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz => stream_wait_value_64;
    cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz => stream_write_value_32;
    cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz => stream_write_value_64;
    cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz => stream_batch_mem_op;
}

impl Call {
    fn stream_batch_mem_op(
        &self,
        stream: Out<CUstream_st>,
        count: c_uint,
        params: Out<CUstreamBatchMemOpParams>,
        flags: c_uint,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        if count == 0 && flags == 0 {
            return Ok(());
        }
        self.queue_mem_ops(&stream, batch(&self.spaces(), count, params, flags)?)
    }

    fn queue_mem_ops(
        &self,
        stream: &Stream,
        ops: Vec<(MemOp, CUstreamBatchMemOpParams)>,
    ) -> Status {
        let words = ops.iter().filter_map(|(op, _)| op.word());
        if !words.into_iter().all(|word| self.takes_mem_ops(word.addr)) {
            return Err(INVALID_VALUE);
        }
        let spaces = self.spaces();
        if self.captured(stream, || Ok(Payload::operations(&ops, 0, &stream.context)))? {
            return Ok(());
        }
        for (op, _) in ops {
            let work = op.work(&spaces, &stream.context.device);
            self.engine.submit(stream.queue, &[], work);
        }
        Ok(())
    }

    fn wait_value(&self, stream: u64, word: (u64, bool), value: u64, flags: u32) -> Status {
        let stream = self.stream(stream)?;
        let op = MemOp::wait(&self.spaces(), word, value, flags)?;
        self.queue_mem_ops(&stream, vec![(op, wait_params(word, value, flags))])
    }

    fn write_value(&self, stream: u64, word: (u64, bool), value: u64, flags: u32) -> Status {
        let stream = self.stream(stream)?;
        let op = MemOp::write(&self.spaces(), word, value, flags)?;
        self.queue_mem_ops(&stream, vec![(op, write_params(word, value, flags))])
    }

    fn stream_wait_value_32(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> Status {
        self.wait_value(stream.handle(), (addr, false), u64::from(value), flags)
    }

    fn stream_wait_value_64(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> Status {
        self.wait_value(stream.handle(), (addr, true), value, flags)
    }

    fn stream_write_value_32(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> Status {
        self.write_value(stream.handle(), (addr, false), u64::from(value), flags)
    }

    fn stream_write_value_64(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> Status {
        self.write_value(stream.handle(), (addr, true), value, flags)
    }
}

/// Returns the batch parameters of a wait.
fn wait_params((addr, wide): (u64, bool), value: u64, flags: u32) -> CUstreamBatchMemOpParams {
    type T = CUstreamBatchMemOpType;
    let operation = if wide {
        T::CU_STREAM_MEM_OP_WAIT_VALUE_64
    } else {
        T::CU_STREAM_MEM_OP_WAIT_VALUE_32
    };
    let mut params = CUstreamBatchMemOpParams { pad: [0; 6] };
    params.waitValue = CUstreamMemOpWaitValueParams {
        operation,
        address: addr,
        __bindgen_anon_1: WaitValue { value64: value },
        flags,
        alias: 0,
    };
    params
}

/// Returns the batch parameters of a write.
fn write_params((addr, wide): (u64, bool), value: u64, flags: u32) -> CUstreamBatchMemOpParams {
    type T = CUstreamBatchMemOpType;
    let operation = if wide {
        T::CU_STREAM_MEM_OP_WRITE_VALUE_64
    } else {
        T::CU_STREAM_MEM_OP_WRITE_VALUE_32
    };
    let mut params = CUstreamBatchMemOpParams { pad: [0; 6] };
    params.writeValue = CUstreamMemOpWriteValueParams {
        operation,
        address: addr,
        __bindgen_anon_1: WriteValue { value64: value },
        flags,
        alias: 0,
    };
    params
}
