//! The green context and the multiprocessors of a stream.

use std::ptr;

use cuda_sys::CUgreenCtx;

use super::Stream;
use crate::device::SmResource;
use crate::driver::call;
use crate::error::Result;

/// The multiprocessors of the stream.
impl Stream {
    /// `cuStreamGetGreenCtx()`—Returns the handle of the stream's [green
    /// context](crate::Context::green), or `None` if the stream belongs to another context. Other
    /// code may own the green context.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 12.4.
    #[doc(alias = "cuStreamGetGreenCtx")]
    pub fn green_context_as_raw(&self) -> Result<Option<CUgreenCtx>> {
        let mut green = ptr::null_mut();
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local; `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetGreenCtx(self.as_raw(), &raw mut green)
            )
        }?;
        Ok((!green.is_null()).then_some(green))
    }

    /// `cuStreamGetDevResource(SM)`—Returns the multiprocessors that kernels on this stream can
    /// use.
    ///
    /// [`Context::sm_resource`](crate::Context::sm_resource) returns the same from CUDA 12.4 on.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) with `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` if the
    /// driver is older than CUDA 13.1.
    #[doc(alias = "cuStreamGetDevResource")]
    #[doc(alias = "cudaStreamGetDevResource")]
    pub fn sm_resource(&self) -> Result<SmResource> {
        let _current = self.bind_for_query()?;
        let device = self.context().device();
        // SAFETY: the stream must be alive, and its context current if it is a default stream ←
        // `self` owns it, and `bind_for_query` made the context current.
        unsafe { SmResource::of_stream(self.driver(), device, self.as_raw()) }
    }
}
