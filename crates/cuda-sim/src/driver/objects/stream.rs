//! Streams, host functions, and work that is skipped after a device is lost.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cuda_sys::{CUhostFn, CUresult};

use crate::driver::arg::Out;
use crate::driver::objects::callback::callback;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::graph::attribute::Attributes;
use crate::engine::{QueueId, Work};

pub(in crate::driver) const LEAST_PRIORITY: c_int = 0;
pub(in crate::driver) const GREATEST_PRIORITY: c_int = -5;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
pub(in crate::driver) const LEGACY: u64 = 1;
pub(in crate::driver) const PER_THREAD: u64 = 2;

/// `CU_STREAM_NON_BLOCKING`
pub(in crate::driver) const NON_BLOCKING: u32 = 1;

/// A stream, or one of the default streams of a context.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Stream {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) context: Arc<Context>,
    pub(in crate::driver) queue: QueueId,
    pub(in crate::driver) flags: u32,
    pub(in crate::driver) priority: c_int,
    /// The attributes of launches in the stream. The attributes of the default streams cannot be
    /// set.
    pub(in crate::driver) attributes: Arc<Mutex<Attributes>>,
}

impl Stream {
    /// Returns whether it is the legacy default stream.
    pub(in crate::driver) fn is_legacy(&self) -> bool {
        self.queue == self.context.legacy
    }

    /// Returns whether it is one of the default streams.
    pub(in crate::driver) fn is_default(&self) -> bool {
        matches!(self.handle, LEGACY | PER_THREAD)
    }

    /// Returns whether the legacy default stream waits for it.
    pub(in crate::driver) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// The status and the message of a fault that loses a device.
pub(in crate::driver) type DeviceFault = (CUresult, String);

/// A pointer of the program that is passed to a callback.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct UserData(pub(in crate::driver) *mut c_void);

// SAFETY: the pointer is only passed on; the program that registered the callback is responsible
// for its use there.
unsafe impl Send for UserData {}

// SAFETY: as for `Send`; shared access only copies the pointer.
unsafe impl Sync for UserData {}

/// A host function with its argument.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    data: UserData,
}

impl HostCall {
    pub(in crate::driver) fn new(
        function: unsafe extern "C" fn(*mut c_void),
        data: Out<c_void>,
    ) -> Self {
        let data = UserData(data.raw());
        Self { function, data }
    }

    pub(in crate::driver) fn raw(&self) -> (CUhostFn, *mut c_void) {
        (Some(self.function), self.data.0)
    }

    /// Converts the call to queued work. The function is not called once the device is lost.
    pub(in crate::driver) fn work(self, device: &Arc<Device>) -> Work {
        let work = unless_lost(device, move || {
            let Self { function, data } = { self };
            // SAFETY: the function must be callable with `data` until it has run ← the contract of
            // cuLaunchHostFunc and of host nodes, which the program accepted by calling them.
            unsafe { function(data.0) };
            Ok(())
        });
        Work::Host(Box::new(callback(work)))
    }
}

/// The delay until the host learns of a fault; a real device has to interrupt the host first.
const FAULT_LATENCY: Duration = Duration::from_millis(5);

/// Wraps `work` so that it does nothing if the device is lost before it runs.
///
/// The host does not learn of a fault immediately, so that the calls after the failing launch can
/// succeed, as they can with a real device. A call that waits for the work fails.
pub(in crate::driver) fn unless_lost(
    device: &Arc<Device>,
    work: impl FnOnce() -> Result<(), DeviceFault> + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let device = Arc::clone(device);
    move || {
        if device.alive().is_ok()
            && let Err((code, message)) = work()
        {
            thread::sleep(FAULT_LATENCY);
            device.lose(code, message);
        }
    }
}
