//! The calls that are potentially unsafe during a capture.
//!
//! `instance/graph/capture_mode.rs` has the rules: whether one of them is rejected depends on the
//! mode of the capture and of the thread.

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
