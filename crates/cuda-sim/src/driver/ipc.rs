//! Sharing with other processes, which is not there: what was not made to be shared is told apart
//! from what was.

use std::ffi::{c_ulonglong, c_void};

use cuda_sys::{
    CUevent, CUevent_st, CUipcEventHandle, CUmemAllocationHandleType, CUmemPoolHandle_st,
    CUmemoryPool,
};

use super::arg::Out;
use super::export::{Call, exports};
use super::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuIpcGetEventHandle => ipc_get_event_handle(handle: *mut CUipcEventHandle, event: CUevent);
    cuMemPoolExportToShareableHandle => mem_pool_export(
        handle: *mut c_void, pool: CUmemoryPool, sort: CUmemAllocationHandleType,
        flags: c_ulonglong);
}

impl Call {
    fn ipc_get_event_handle(
        &self,
        handle: Out<CUipcEventHandle>,
        event: Out<CUevent_st>,
    ) -> Status {
        handle.required()?;
        if self.event(event.handle())?.is_shared() {
            Err(NOT_SUPPORTED)
        } else {
            Err(INVALID_HANDLE)
        }
    }

    /// No pool has handles: `cuMemPoolCreate` refuses to make one that does.
    fn mem_pool_export(
        &self,
        handle: Out<c_void>,
        pool: Out<CUmemPoolHandle_st>,
        _sort: CUmemAllocationHandleType,
        _flags: c_ulonglong,
    ) -> Status {
        handle.required()?;
        self.pool(pool.handle())?;
        Err(INVALID_VALUE)
    }
}
