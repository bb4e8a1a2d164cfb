//! Events that several processes use.

use std::fmt;
use std::ptr;

use cuda_sys::{CUipcEventHandle, CUipcEventHandle_st};

use super::{Event, EventFlags};
use crate::context::Context;
use crate::driver::call;
use crate::error::Result;
use crate::handle::Handle;
use crate::reports::MarkSlot;
use crate::types::SendPtr;

/// The handle by which another process opens an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "CUipcEventHandle")]
#[doc(alias = "cudaIpcEventHandle_t")]
pub struct IpcEventHandle([u8; Self::BYTES]);

impl IpcEventHandle {
    /// The number of bytes.
    pub const BYTES: usize = size_of::<CUipcEventHandle>();

    /// Returns the handle that another process has sent as bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, which the program sends to another process.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl fmt::Debug for IpcEventHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IpcEventHandle(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Other processes.
impl Event {
    /// Creates an event that other processes can [open](Self::open_ipc): one with
    /// [`EventFlags::INTERPROCESS`] and [`EventFlags::DISABLE_TIMING`].
    ///
    /// # Errors
    ///
    /// Fails as [`new`](Self::new) does.
    pub fn interprocess(context: &Context) -> Result<Self> {
        Self::new(
            context,
            EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING,
        )
    }

    /// `cuIpcGetEventHandle()`—Returns the handle by which another process
    /// [opens](Self::open_ipc) the event.
    ///
    /// Events are the way to order the work of two processes without a wait of the host. One
    /// process records the event and sends a message. The other one receives the message and makes
    /// its stream [wait](crate::Stream::wait) for the event. The order of these two calls matters:
    /// a stream waits for the recording that is the latest when `wait` is called.
    ///
    /// What becomes of the recordings of a process that is killed is not documented; on the
    /// software device they never complete. A stream that waits for one may never continue, and
    /// then the stream, the memory that it uses and its context cannot be released before the
    /// process ends. A program that must survive the other process lets the host wait, with a
    /// limit: [`synchronize_timeout`](Self::synchronize_timeout).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_HANDLE` if the event was created without [`EventFlags::INTERPROCESS`].
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device or the operating system cannot share events:
    /// [`Device::has_ipc_events`](crate::Device::has_ipc_events).
    #[doc(alias = "cuIpcGetEventHandle")]
    #[doc(alias = "cudaIpcGetEventHandle")]
    pub fn ipc_handle(&self) -> Result<IpcEventHandle> {
        // Another process may record the event after this one has acted.
        self.context().driver().note_host_wait();
        let _current = self.context().enter()?;
        let mut raw = CUipcEventHandle { reserved: [0; 64] };
        // SAFETY: the pointer must be writable and the event alive ← the pointer is to a local
        // variable, and the event is borrowed.
        unsafe {
            call!(
                self.handle.driver(),
                cuIpcGetEventHandle(&raw mut raw, self.as_raw())
            )
        }?;
        // The bytes have the type `char` in C, whose sign depends on the target.
        Ok(IpcEventHandle(raw.reserved.map(|byte| byte as u8)))
    }

    /// `cuIpcOpenEventHandle()`—Opens an event of another process. Each process can record the
    /// event and wait for it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_CONTEXT` or `CUDA_ERROR_INVALID_VALUE` if the handle is one of this
    /// process, or if its process has ended.
    ///
    /// # Safety
    ///
    /// - The handle is one of `cuIpcGetEventHandle`.
    /// - The process that created the event destroys it only after this process has dropped its
    ///   event, unless it ends.
    #[doc(alias = "cuIpcOpenEventHandle")]
    #[doc(alias = "cudaIpcOpenEventHandle")]
    pub unsafe fn open_ipc(context: &Context, handle: &IpcEventHandle) -> Result<Self> {
        // The other process may record the event after this one has acted.
        context.driver().note_host_wait();
        let _current = context.enter()?;
        let mut event = ptr::null_mut();
        let raw = CUipcEventHandle_st {
            reserved: handle.0.map(|byte| byte as _),
        };
        // SAFETY: the pointer must be writable and the handle valid ← the pointer is to a local
        // variable, and the caller guarantees the handle.
        unsafe { call!(context.driver(), cuIpcOpenEventHandle(&raw mut event, raw)) }?;
        Ok(Self {
            // SAFETY: the handle must be the only owner ← the event was opened just now.
            handle: unsafe { Handle::new(context.driver(), SendPtr(event)) },
            mark: MarkSlot::default(),
            context: context.clone(),
        })
    }
}
