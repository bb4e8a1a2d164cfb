//! Semaphores of other APIs, such as Vulkan (`cuImportExternalSemaphore`).
//!
//! In C a semaphore must not be destroyed before its signals and waits are complete. Here dropping
//! one waits for that.

use cuda_sys::{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st__bindgen_ty_1 as RawHandle,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUextSemaphore_st,
    CUexternalSemaphore, CUexternalSemaphoreHandleType,
};

use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::ipc::ShareableHandle;
use crate::stream::Stream;
use crate::tracking::{DestroyWhenIdle, Report, report_of};
use crate::types::SendPtr;

type T = CUexternalSemaphoreHandleType;

/// A semaphore of another API, such as Vulkan, that streams signal and wait for.
///
/// Dropping it waits for all work of its context.
#[derive(Debug)]
pub struct ExternalSemaphore {
    /// `None` only while the semaphore is being dropped.
    handle: Option<Handle<RawSemaphore>>,
    raw: SendPtr<CUextSemaphore_st>,
    context: Context,
    report: Option<Report>,
}

struct RawSemaphore;

impl Destroy for RawSemaphore {
    type Raw = SendPtr<CUextSemaphore_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the semaphore must be alive, and its signals and waits complete ← the caller
        // guarantees the former, and `DestroyWhenIdle` has waited for the latter.
        unsafe { call!(driver, cuDestroyExternalSemaphore(raw.0)) }
    }
}

impl ExternalSemaphore {
    /// `cuImportExternalSemaphore()`—Imports a binary semaphore. `handle` is an opaque handle: a
    /// file descriptor on Unix, and an NT handle on Windows.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` or another error of the driver if the handle is not one of a
    /// semaphore of this kind. The handle is then closed.
    ///
    /// # Safety
    ///
    /// - The handle is one of a semaphore of this kind, of an API and a device that CUDA supports:
    ///   for Vulkan, one of `VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT` (on Windows, of
    ///   `…_OPAQUE_WIN32_BIT`) of the same device.
    /// - Signals and waits by this value follow the rules of the other API: for example, a binary
    ///   semaphore is not signalled again before a wait has reset it, and the value of a timeline
    ///   semaphore only increases.
    #[doc(alias = "cuImportExternalSemaphore")]
    #[doc(alias = "cudaImportExternalSemaphore")]
    pub unsafe fn import_binary(context: &Context, handle: ShareableHandle) -> Result<Self> {
        let type_ = if cfg!(windows) {
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32
        } else {
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
        };
        // SAFETY: the handle must be one of a semaphore of this kind ← the caller guarantees it.
        unsafe { Self::import(context, handle, type_) }
    }

    /// `cuImportExternalSemaphore()`—Imports a timeline semaphore, which has a value that
    /// increases. `handle` is a handle as for [`import_binary`](Self::import_binary).
    ///
    /// # Errors
    ///
    /// Fails as [`import_binary`](Self::import_binary) does.
    ///
    /// # Safety
    ///
    /// As for [`import_binary`](Self::import_binary).
    #[doc(alias = "cuImportExternalSemaphore")]
    pub unsafe fn import_timeline(context: &Context, handle: ShareableHandle) -> Result<Self> {
        let type_ = if cfg!(windows) {
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32
        } else {
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
        };
        // SAFETY: the handle must be one of a semaphore of this kind ← the caller guarantees it.
        unsafe { Self::import(context, handle, type_) }
    }

    /// # Safety
    ///
    /// The handle is one of a semaphore of the type `type_`, whose rules are followed.
    unsafe fn import(context: &Context, handle: ShareableHandle, type_: T) -> Result<Self> {
        let desc = CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
            type_,
            handle: raw_handle(&handle),
            flags: 0,
            reserved: [0; 16],
        };
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointers must be valid and the handle one of a semaphore ← they point to
        // local variables, and the caller guarantees the handle.
        unsafe {
            call!(
                context.driver(),
                cuImportExternalSemaphore(&raw mut raw, &raw const desc)
            )
        }?;
        if cfg!(unix) {
            // The driver owns the descriptor now.
            std::mem::forget(handle);
        }
        let raw = SendPtr(raw);
        // SAFETY: the handle must be the only owner ← the semaphore was imported just now.
        let handle = unsafe { Handle::new(context.driver(), raw) };
        Ok(Self {
            handle: Some(handle),
            raw,
            context: context.clone(),
            report: None,
        })
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the raw handle.
    #[must_use]
    pub fn as_raw(&self) -> CUexternalSemaphore {
        self.raw.0
    }

    /// `cuDestroyExternalSemaphore()`—Waits for all work of the context, and gives up the
    /// semaphore.
    ///
    /// # Errors
    ///
    /// A fault of the work, or the error of the driver, which a drop would swallow.
    #[doc(alias = "cuDestroyExternalSemaphore")]
    #[doc(alias = "cudaDestroyExternalSemaphore")]
    pub fn close(mut self) -> Result<()> {
        report_of(|report| {
            self.report = Some(report);
            drop(self);
        })
    }
}

impl Drop for ExternalSemaphore {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let contexts = vec![self.context.clone()];
            DestroyWhenIdle::new(handle, Vec::new(), contexts, self.report.take()).start();
        }
    }
}

/// Returns the handle in the form of C.
fn raw_handle(handle: &ShareableHandle) -> RawHandle {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        RawHandle {
            fd: handle.as_raw_fd(),
        }
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;
        RawHandle {
            win32: cuda_sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1 {
                handle: handle.as_raw_handle(),
                name: std::ptr::null(),
            },
        }
    }
}

/// Returns the parameters of a signal with a value.
pub(crate) fn signal_params(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
    // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers and a
    // union of integers and pointers.
    let mut params: CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = unsafe { std::mem::zeroed() };
    params.params.fence.value = value;
    params
}

/// Returns the parameters of a wait for a value.
pub(crate) fn wait_params(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
    // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers and a
    // union of integers and pointers.
    let mut params: CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = unsafe { std::mem::zeroed() };
    params.params.fence.value = value;
    params
}

/// Semaphores of other APIs.
impl Stream {
    /// `cuSignalExternalSemaphoresAsync()`—Signals a semaphore once all work that was queued before
    /// is complete. A timeline semaphore gets the value; a binary one ignores it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the semaphore is of another context.
    #[doc(alias = "cuSignalExternalSemaphoresAsync")]
    #[doc(alias = "cudaSignalExternalSemaphoresAsync")]
    pub fn signal_external(&self, semaphore: &ExternalSemaphore, value: u64) -> Result<()> {
        self.expect_context(&semaphore.context, "the semaphore")?;
        self.expect_direct("Stream::signal_external")?;
        let (raw, params) = (semaphore.as_raw(), signal_params(value));
        let queueing = self.queueing()?;
        // SAFETY: the arrays must have one element, and semaphore and stream must be alive ← the
        // arrays are local variables, the stream is borrowed, and the drop of the semaphore waits
        // for the signal.
        Ok(unsafe {
            call!(
                self.driver(),
                cuSignalExternalSemaphoresAsync(
                    &raw const raw,
                    &raw const params,
                    1,
                    queueing.raw()
                )
            )
        }?)
    }

    /// `cuWaitExternalSemaphoresAsync()`—Makes work that is queued from now on wait for a
    /// semaphore: a timeline semaphore must have the value or a larger one; a binary one must be
    /// signalled, is then reset, and ignores the value.
    ///
    /// If the semaphore is never signalled, the stream is blocked forever, and so is every wait for
    /// the stream or for the context.
    ///
    /// # Errors
    ///
    /// Fails as [`signal_external`](Self::signal_external) does.
    #[doc(alias = "cuWaitExternalSemaphoresAsync")]
    #[doc(alias = "cudaWaitExternalSemaphoresAsync")]
    pub fn wait_external(&self, semaphore: &ExternalSemaphore, value: u64) -> Result<()> {
        self.expect_context(&semaphore.context, "the semaphore")?;
        self.expect_direct("Stream::wait_external")?;
        let (raw, params) = (semaphore.as_raw(), wait_params(value));
        // The other API may signal the semaphore after the host has acted.
        self.driver().note_host_wait();
        Ok(self.state().queue_host_wait(self.context(), || {
            // SAFETY: the arrays must have one element, and semaphore and stream must be alive ←
            // the arrays are local variables, the stream is borrowed, and the drop of the semaphore
            // waits for the wait.
            unsafe {
                call!(
                    self.driver(),
                    cuWaitExternalSemaphoresAsync(
                        &raw const raw,
                        &raw const params,
                        1,
                        self.as_raw()
                    )
                )
            }
        })?)
    }
}
