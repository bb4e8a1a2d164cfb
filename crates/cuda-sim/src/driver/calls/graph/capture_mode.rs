//! Capture modes, which determine the calls that are rejected during a capture.
//!
//! Each capture has a mode, and so has each thread: global, unless
//! `cuThreadExchangeStreamCaptureMode` has changed it. A call that the manual calls potentially
//! unsafe is rejected, and breaks the captures with which it conflicts:
//!
//! | the thread's mode | captures that the thread began | captures of other threads |
//! |---|---|---|
//! | global | conflict unless they are relaxed | conflict if they are global |
//! | thread-local | conflict unless they are relaxed | do not conflict |
//! | relaxed | do not conflict | do not conflict |
//!
//! Source: driver API manual, `cuThreadExchangeStreamCaptureMode`.

use crate::driver::export::Call;
use crate::driver::status::Status;

/// The calls that are always potentially unsafe, by base name.
///
/// These calls are potentially unsafe too, but their own methods check it, because they know the
/// stream or the event ([`Instance::uncapturable`], [`Instance::potentially_unsafe`]):
/// `cuEventQuery`, `cuEventSynchronize`, `cuStreamQuery`, `cuStreamSynchronize`,
/// `cuStreamAddCallback`, `cuMemPrefetchAsync`, `cuStreamAttachMemAsync`, `cuGraphUpload`, and
/// `cuMemAllocAsync` and `cuMemFreeAsync` in a stream that is not being captured. `cuModuleUnload`,
/// `cuArrayDestroy` and `cuCtxEnablePeerAccess` check it once they know that the handle is valid,
/// as an H100 does.
///
/// Other calls do not break captures: creating and destroying streams and events, recording events,
/// `cuCtxSynchronize` in another context and destroying that context (measured on an H100 and on
/// H200s), `cuStreamIsCapturing`, launches and copies in other streams, blocking copies, and
/// loading modules. Work in the legacy stream that would have to wait for a captured stream is
/// rejected in any mode.
const POTENTIALLY_UNSAFE: &[&str] = &[
    // Memory of a device. `cuMemAlloc` and `cuMemFree` were measured on an H100.
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemFree",
    // Page-locked memory. `cuMemHostAlloc` was measured.
    "cuMemAllocHost",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    // Arrays. `cuArrayCreate` was measured.
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    // Calls that return memory of pools to the device.
    "cuMemPoolTrimTo",
    "cuDeviceGraphMemTrim",
    // Unloading waits, as `cuMemFree` does.
    "cuLibraryUnload",
    // Primary contexts. Not measured.
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
];

impl Call {
    /// Fails if the function is always potentially unsafe and a capture conflicts with it.
    pub(in crate::driver) fn check_capture(&self) -> Status {
        if self.graphs.is_capturing() && POTENTIALLY_UNSAFE.contains(&self.function.base) {
            self.potentially_unsafe()?;
        }
        Ok(())
    }
}
