//! Sharing with other processes, which is not supported. Objects that were not created for sharing
//! fail with the status that the real driver documents.

use std::ffi::{c_ulonglong, c_void};

use cuda_sys::{CUevent_st, CUipcEventHandle, CUmemAllocationHandleType, CUmemPoolHandle_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status};

exports! {
    cuIpcGetEventHandle => ipc_get_event_handle;
    cuMemPoolExportToShareableHandle => mem_pool_export;
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

    /// `cuMemPoolExportToShareableHandle()`—Always fails: `cuMemPoolCreate` rejects pools with
    /// shareable handles.
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
