//! The expected results of a failing call: errors that may go unreported, errors that may replace
//! it, and what may be leaked.

use cuda_driver::error::{DriverError, Error, Status};
use cuda_sys::Function as Call;

use super::fixture::{Fault, Left};

/// Calls whose failure need not be reported: the function, which of its calls, the status codes
/// (all if empty), and the reason.
const SWALLOWED: &[(&str, Which, &[Status], &str)] = &[
    // Calls made by drops.
    ("cuArrayDestroy", Any, &[], DROP),
    ("cuMipmappedArrayDestroy", Any, &[], DROP),
    ("cuSurfObjectDestroy", Any, &[], DROP),
    ("cuTexObjectDestroy", Any, &[], DROP),
    ("cuCtxDestroy_v2", Any, &[], DROP),
    ("cuDevicePrimaryCtxRelease_v2", Any, &[], DROP),
    ("cuEventDestroy_v2", Any, &[], DROP),
    ("cuGraphDestroy", Any, &[], DROP),
    ("cuGreenCtxDestroy", Any, &[], DROP),
    ("cuGraphExecDestroy", Any, &[], DROP),
    ("cuLibraryUnload", Any, &[], DROP),
    ("cuLinkDestroy", Any, &[], DROP),
    ("cuMemFreeAsync", Any, &[], DROP),
    ("cuMemFreeHost", Any, &[], DROP),
    ("cuMemFree_v2", Any, &[], DROP),
    ("cuMemHostUnregister", Any, &[], DROP),
    ("cuMemAddressFree", Any, &[], DROP),
    ("cuIpcCloseMemHandle", Any, &[], DROP),
    ("cuDestroyExternalMemory", Any, &[], DROP),
    ("cuDestroyExternalSemaphore", Any, &[], DROP),
    ("cuMemPoolDestroy", Any, &[], DROP),
    ("cuMemRelease", Any, &[], DROP),
    ("cuMemUnmap", Any, &[], DROP),
    ("cuModuleUnload", Any, &[], DROP),
    ("cuStreamDestroy_v2", Any, &[], DROP),
    (
        "cuGraphDestroyNode",
        Any,
        &[],
        "the failed addition is already reported",
    ),
    (
        "cuCtxPopCurrent_v2",
        Any,
        &[],
        "the actual call has already succeeded",
    ),
    // Waits at the end of a context, of a module, or of memory that was shared between streams.
    ("cuCtxSynchronize", Any, &[], WAIT),
    ("cuCtxGetCurrent", Last, &[], WAIT),
    ("cuCtxPushCurrent_v2", Last, &[], WAIT),
    ("cuStreamSynchronize", Last, &[], WAIT),
    ("cuStreamWaitEvent", Last, &[], WAIT),
    ("cuEventSynchronize", Any, &[], WAIT),
    // Calls for which the library has a fallback.
    ("cuThreadExchangeStreamCaptureMode", Any, &[], MODE),
    (
        "cuStreamIsCapturing",
        Any,
        &[],
        "a drop asks, and the call that frees the memory asks again",
    ),
    ("cuEventQuery", Any, &[], UNKNOWN),
    ("cuStreamQuery", Any, &[], UNKNOWN),
    ("cuEventRecord", Any, &[], TAIL),
    ("cuEventCreate", Any, &[], TAIL),
    ("cuMemHostAlloc", Any, &[], FEWER),
    (
        "cuMemHostRegister_v2",
        Any,
        OUT_OF_MEMORY,
        "the copy waits for a block",
    ),
    ("cuCtxGetId", Any, &[], RESET),
    ("cuDevicePrimaryCtxGetState", Any, &[], RESET),
];

/// Calls whose failure need not be reported in one particular scenario.
const SWALLOWED_IN: &[(&str, &str, &[Status], &str)] = &[
    ("start", "cuCtxPushCurrent_v2", &[], WAIT),
    ("array copies", "cuCtxPushCurrent_v2", &[], WAIT),
    ("mipmapped array", "cuCtxPushCurrent_v2", &[], WAIT),
    ("textures and surfaces", "cuCtxPushCurrent_v2", &[], WAIT),
    ("texture in a graph", "cuCtxPushCurrent_v2", &[], WAIT),
    ("arrays of two devices", "cuCtxPushCurrent_v2", &[], WAIT),
    (
        "boxes of page-locked memory",
        "cuCtxPushCurrent_v2",
        &[],
        WAIT,
    ),
    ("batches", "cuCtxPushCurrent_v2", &[], WAIT),
    ("first batches", "cuCtxPushCurrent_v2", &[], WAIT),
    (
        "arrays in external memory",
        "cuCtxPushCurrent_v2",
        &[],
        WAIT,
    ),
    ("devices", "cuCtxPushCurrent_v2", &[], WAIT),
    ("current", "cuCtxPushCurrent_v2", &[], WAIT),
    ("current", "cuCtxGetCurrent", &[], DROP),
    ("bound thread", "cuCtxPushCurrent_v2", &[], WAIT),
    ("green", "cuCtxPushCurrent_v2", &[], WAIT),
    ("work queues", "cuCtxPushCurrent_v2", &[], WAIT),
    ("plain", "cuStreamSynchronize", &[], WAIT),
    ("managed", "cuStreamSynchronize", &[], WAIT),
    ("dropped transfers", "cuCtxGetCurrent", &[], ASKED),
    ("dropped transfers", "cuCtxPushCurrent_v2", &[], ASKED),
    ("host functions", "cuCtxGetCurrent", &[], TAIL),
    ("host functions", "cuCtxPushCurrent_v2", &[], TAIL),
    ("legacy stream", "cuCtxGetCurrent", &[], DROP),
    ("borrowed stream", "cuStreamIsCapturing", &[], DROP),
    ("log", "cuCtxPushCurrent_v2", &[], DROP),
    ("log", "cuProfilerStop", &[], DROP),
    ("per-thread stream", "cuCtxGetCurrent", &[], TAIL),
    ("per-thread stream", "cuCtxPushCurrent_v2", &[], TAIL),
    ("exported tensor", "cuCtxGetCurrent", &[], WAIT),
    ("exported tensor", "cuCtxPushCurrent_v2", &[], WAIT),
    ("imported tensor", "cuStreamWaitEvent", &[], WAIT),
    ("pinned tensor", "cuCtxPushCurrent_v2", &[], WAIT),
    ("thread stream", "cuStreamWaitEvent", &[], WAIT),
    ("thread stream", "cuCtxGetCurrent", &[], TAIL),
    ("thread stream", "cuCtxPushCurrent_v2", &[], TAIL),
    ("large copies", "cuCtxGetCurrent", &[], FEWER),
    ("large copies", "cuCtxPushCurrent_v2", &[], FEWER),
    (
        "undone node",
        "cuGraphAddKernelNode_v2",
        NOT_PERMITTED,
        PLANNED,
    ),
    (
        "undone node",
        "cuGraphAddDependencies_v2",
        NOT_PERMITTED,
        PLANNED,
    ),
    (
        "caching",
        "cuMemAllocAsync",
        OUT_OF_MEMORY,
        "the pool frees its cached blocks and retries",
    ),
    ("fences", "cuLaunchHostFunc", &[], ASKED),
    ("fences", "cuStreamCreateWithPriority", &[], ASKED),
    ("awaited transfers", "cuLaunchHostFunc", &[], ASKED),
    (
        "awaited transfers",
        "cuStreamCreateWithPriority",
        &[],
        ASKED,
    ),
    ("awaited transfers", "cuStreamWaitEvent", &[], ASKED),
    (
        "wide tensor maps",
        "cuTensorMapEncodeIm2colWide",
        NOT_SUPPORTED,
        "the software device does not support them",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Any,
    Last,
}
use Which::{Any, Last};

const MODE: &str = "internal calls are then made in the thread's own mode";
const UNKNOWN: &str = "work of unknown state counts as not done";
const DROP: &str = "a drop cannot report an error";
const WAIT: &str = "a drop that cannot wait leaks its resource";
const RESET: &str = "a reset of the context is then found later, or not at all";
const TAIL: &str = "the tail of the stream fences the use, or is waited for";
const FEWER: &str = "the copy continues with fewer blocks";
const PLANNED: &str = "the scenario injects this status itself";
const ASKED: &str = "completion that the driver does not report is polled";
const OUT_OF_MEMORY: &[Status] = &[Status::CUDA_ERROR_OUT_OF_MEMORY];
const NOT_PERMITTED: &[Status] = &[Status::CUDA_ERROR_NOT_PERMITTED];
const NOT_SUPPORTED: &[Status] = &[Status::CUDA_ERROR_NOT_SUPPORTED];

/// Kinds of objects, with a number of each.
type Kinds = &'static [(&'static str, isize)];

/// Leaks that a failed call may cause: at most the given number of one of these kinds.
const LEFT: &[(&str, Kinds, &str)] = &[
    ("cuArrayDestroy", &[("arrays", 1)], ITSELF),
    (
        "cuMipmappedArrayDestroy",
        &[("mipmapped arrays", 1)],
        ITSELF,
    ),
    ("cuSurfObjectDestroy", &[("surfaces", 1)], ITSELF),
    ("cuTexObjectDestroy", &[("textures", 1)], ITSELF),
    ("cuCtxDestroy_v2", &[("contexts", 1)], ITSELF),
    ("cuEventDestroy_v2", &[("events", 1)], ITSELF),
    ("cuGraphDestroy", &[("graphs", 1)], ITSELF),
    ("cuGreenCtxDestroy", &[("contexts", 1)], ITSELF),
    ("cuGraphExecDestroy", &[("executables", 1)], ITSELF),
    ("cuLibraryUnload", &[("libraries", 1)], ITSELF),
    ("cuLinkDestroy", &[("links", 1)], ITSELF),
    (
        "cuMemFreeAsync",
        &[("allocations", 1), ("host allocations", 1)],
        ITSELF,
    ),
    ("cuMemFreeHost", &[("host allocations", 1)], ITSELF),
    ("cuMemFree_v2", &[("allocations", 1)], ITSELF),
    ("cuMemHostUnregister", &[("host allocations", 1)], ITSELF),
    ("cuIpcCloseMemHandle", &[("allocations", 1)], ITSELF),
    ("cuDestroyExternalMemory", &[("external memory", 1)], ITSELF),
    (
        "cuDestroyExternalSemaphore",
        &[("external semaphores", 1)],
        ITSELF,
    ),
    ("cuDeviceGetMemPool", &[("pools", 1)], ITSELF),
    ("cuMemGetDefaultMemPool", &[("pools", 1)], ITSELF),
    ("cuMemGetMemPool", &[("pools", 1)], ITSELF),
    ("cuMemSetMemPool", &[("pools", 1)], ITSELF),
    ("cuMemPoolGetAttribute", &[("pools", 1)], ITSELF),
    ("cuMemAddressFree", &[("address ranges", 1)], ITSELF),
    ("cuMemPoolDestroy", &[("pools", 1)], ITSELF),
    ("cuMemRelease", &[("physical allocations", 1)], ITSELF),
    ("cuMemUnmap", &[("address ranges", 1)], ITSELF),
    ("cuModuleUnload", &[("modules", 1)], ITSELF),
    ("cuStreamDestroy_v2", &[("streams", 1)], ITSELF),
    // Memory and code whose uses cannot be waited for are leaked.
    ("cuCtxGetCurrent", CODE_OR_MEMORY, UNWAITED),
    ("cuCtxPushCurrent_v2", CODE_OR_MEMORY, UNWAITED),
    ("cuCtxSynchronize", CODE_OR_MEMORY, UNWAITED),
    ("cuEventCreate", MEMORY, UNWAITED),
    ("cuEventQuery", MEMORY, UNWAITED),
    ("cuEventRecord", MEMORY, UNWAITED),
    ("cuEventSynchronize", MEMORY, UNWAITED),
    ("cuStreamSynchronize", MEMORY, UNWAITED),
    ("cuStreamWaitEvent", MEMORY, UNWAITED),
    // A capture that cannot be ended has a graph without a known handle.
    (
        "cuStreamEndCapture",
        &[("graphs", 1)],
        "the state of a broken capture's graph is undocumented",
    ),
    ("cuMemcpyDtoHAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpyHtoDAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpy2DAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpy3DAsync_v2", MEMORY, UNWAITED),
];

const MEMORY: Kinds = &[
    ("allocations", 1),
    ("external memory", 1),
    ("host allocations", 1),
    ("arrays", 1),
    ("mipmapped arrays", 1),
    ("textures", 1),
];
const CODE_OR_MEMORY: Kinds = &[
    ("modules", 1),
    ("libraries", 1),
    ("pools", 1),
    ("allocations", 1),
    ("external memory", 1),
    ("external semaphores", 1),
    ("host allocations", 1),
    ("arrays", 1),
    ("mipmapped arrays", 1),
    ("textures", 1),
];
const ITSELF: &str = "the resource that could not be released";
const UNWAITED: &str = "a resource that may still be in use";

/// Scenarios in which the failure of the call ends the process, as documented; `aborts` tests them.
const ABORTS: &[(&str, &str)] = &[
    ("scope", "cuStreamSynchronize"),
    ("boxes of page-locked memory", "cuStreamSynchronize"),
    ("batches", "cuStreamSynchronize"),
    ("first batches", "cuStreamSynchronize"),
];

/// Calls whose failure must be reported in a scenario, although it may be swallowed in others.
const ALWAYS_REPORTED: &[(&str, &[&str])] = &[
    (
        "closes",
        &[
            "cuCtxDestroy_v2",
            "cuEventDestroy_v2",
            "cuGraphDestroy",
            "cuGraphExecDestroy",
            "cuMemFreeAsync",
            "cuMemFreeHost",
            "cuMemFree_v2",
            "cuMemHostUnregister",
            "cuStreamDestroy_v2",
        ],
    ),
    ("streams", &["cuStreamQuery"]),
];

/// Status codes that are results and not failures: the status, the calls, the scenario unless it
/// applies to all, and the meaning.
const ANSWERS: &[(Status, &[&str], Option<&str>, &str)] = &[
    (
        Status::CUDA_ERROR_INVALID_VALUE,
        &["cuFuncGetParamInfo", "cuKernelGetParamInfo"],
        Some("foreign cubin on 13.0"),
        "a kernel has no more parameters, before CUDA 13.2",
    ),
    (
        Status::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
        &[
            "cuFuncGetParamInfo",
            "cuKernelGetParamInfo",
            "cuFuncGetParamCount",
            "cuKernelGetParamCount",
        ],
        None,
        "an older driver does not report parameters",
    ),
    (
        Status::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
        &["cuFuncGetName", "cuFuncLoad"],
        Some("borrowed stream"),
        "an older driver does not report the name, and loads functions with their module",
    ),
    (
        Status::CUDA_ERROR_NOT_FOUND,
        &[
            "cuModuleGetFunction",
            "cuModuleGetGlobal_v2",
            "cuLibraryGetKernel",
            "cuLibraryGetGlobal",
        ],
        None,
        "no object has this name, which has its own error variant",
    ),
    (
        Status::CUDA_ERROR_NOT_READY,
        &["cuEventQuery", "cuStreamQuery"],
        None,
        "the work is not done",
    ),
    (
        Status::CUDA_ERROR_LOSSY_QUERY,
        &["cuStreamGetCaptureInfo_v2", "cuGraphNodeGetDependencies"],
        None,
        "edges have data, so another call repeats the query",
    ),
    (
        Status::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        &["cuCtxEnablePeerAccess"],
        None,
        "access already has this state",
    ),
    (
        Status::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        &["cuCtxDisablePeerAccess"],
        None,
        "access already has this state",
    ),
];

/// Returns whether a case must be skipped, because the failure ends the process or is a regular
/// result.
pub(super) fn is_none(scenario: &str, fault: &Fault) -> bool {
    let name = fault.call.name;
    ABORTS.contains(&(scenario, name))
        || ANSWERS.iter().any(|(status, calls, of, _)| {
            *status == fault.status && calls.contains(&name) && of.is_none_or(|of| of == scenario)
        })
}

/// Returns the driver error inside an error.
fn call_of(error: &Error) -> Option<DriverError> {
    Some(match error {
        Error::Driver(error) | Error::OutOfMemory { source: error, .. } => *error,
        Error::Jit(error) => error.driver_error(),
        Error::Instantiate(error) => error.driver_error(),
        Error::GraphUpdate(error) => error.driver_error(),
        _ => return None,
    })
}

/// Returns whether a scenario may return this error if the call fails: status and call must match.
pub(super) fn is_right(fault: &Fault, error: &Error) -> bool {
    call_of(error).is_some_and(|reported| {
        reported.status() == fault.status && reported.call().name == fault.call.name
    })
}

/// Returns whether a scenario may succeed although this call fails.
pub(super) fn may_be_swallowed(scenario: &str, fault: &Fault) -> bool {
    let is_listed =
        |(of, names): &(&str, &[&str])| *of == scenario && names.contains(&fault.call.name);
    if ALWAYS_REPORTED.iter().any(is_listed) {
        return false;
    }
    let is_one = |statuses: &[Status]| statuses.is_empty() || statuses.contains(&fault.status);
    SWALLOWED.iter().any(|(name, which, statuses, _)| {
        *name == fault.call.name && (*which == Any || fault.is_last) && is_one(statuses)
    }) || SWALLOWED_IN.iter().any(|(of, name, statuses, _)| {
        *of == scenario && *name == fault.call.name && is_one(statuses)
    })
}

/// Returns whether `left` may be leaked when this call fails.
pub(super) fn may_be_left(fault: &Fault, left: &Left) -> bool {
    // An array that is left has surfaces, and may have a texture.
    let mut left = left.0.clone();
    if left.iter().any(|(kind, _)| kind.ends_with("arrays")) {
        left.retain(|(kind, _)| !matches!(*kind, "surfaces" | "textures"));
    }
    let (kind, count) = match left[..] {
        [one] => one,
        // External memory is not destroyed while a buffer or an array of it exists.
        [
            ("external memory", 1),
            one @ ("allocations" | "mipmapped arrays", 1),
        ] => one,
        // A pool is not destroyed while it has memory that could not be freed.
        [("pools", 1), one @ ("allocations" | "host allocations", _)]
        | [one @ ("allocations" | "host allocations", _), ("pools", 1)] => one,
        _ => return false,
    };
    LEFT.iter().any(|(name, most, _)| {
        let is_within = |(it, most): &(&str, isize)| *it == kind && (1..=*most).contains(&count);
        *name == fault.call.name && most.iter().any(is_within)
    })
}

/// Returns whether a context may stay current on the thread if this call fails.
pub(super) fn keeps_current(call: &Call) -> bool {
    call.name == "cuCtxPopCurrent_v2"
}
