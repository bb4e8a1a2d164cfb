//! What is right when a call fails: where its error may be told by nobody, what may be told in its
//! place, and what may be left.

use cuda_driver::{DriverError, Error, Status};
use cuda_sys::Function as Call;

use super::rig::{Fault, Left};

/// Calls whose failure a program need not be told: which of them, with which code (all, if none is
/// named), and why.
const SWALLOWED: &[(&str, Which, &[Status], &str)] = &[
    // What a drop does.
    ("cuCtxDestroy_v2", Any, &[], DROP),
    ("cuDevicePrimaryCtxRelease_v2", Any, &[], DROP),
    ("cuEventDestroy_v2", Any, &[], DROP),
    ("cuGraphDestroy", Any, &[], DROP),
    ("cuGraphExecDestroy", Any, &[], DROP),
    ("cuLibraryUnload", Any, &[], DROP),
    ("cuLinkDestroy", Any, &[], DROP),
    ("cuMemFreeAsync", Any, &[], DROP),
    ("cuMemFreeHost", Any, &[], DROP),
    ("cuMemFree_v2", Any, &[], DROP),
    ("cuMemHostUnregister", Any, &[], DROP),
    ("cuMemPoolDestroy", Any, &[], DROP),
    ("cuModuleUnload", Any, &[], DROP),
    ("cuStreamDestroy_v2", Any, &[], DROP),
    (
        "cuGraphDestroyNode",
        Any,
        &[],
        "what could not be added is not told twice",
    ),
    (
        "cuCtxPopCurrent_v2",
        Any,
        &[],
        "the call that it was made for is done",
    ),
    // What the end of a context, of a module, or of memory that crossed streams waits for.
    ("cuCtxSynchronize", Any, &[], WAIT),
    ("cuCtxGetCurrent", Last, &[], WAIT),
    ("cuCtxPushCurrent_v2", Last, &[], WAIT),
    ("cuStreamSynchronize", Last, &[], WAIT),
    ("cuStreamWaitEvent", Last, &[], WAIT),
    ("cuEventSynchronize", Any, &[], WAIT),
    // Where there is another way.
    ("cuThreadExchangeStreamCaptureMode", Any, &[], MODE),
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
];

/// The same in one scenario.
const SWALLOWED_IN: &[(&str, &str, &[Status], &str)] = &[
    ("start", "cuCtxPushCurrent_v2", &[], WAIT),
    ("devices", "cuCtxPushCurrent_v2", &[], WAIT),
    ("current", "cuCtxPushCurrent_v2", &[], WAIT),
    ("current", "cuCtxGetCurrent", &[], DROP),
    ("plain", "cuStreamSynchronize", &[], WAIT),
    ("managed", "cuStreamSynchronize", &[], WAIT),
    ("dropped transfers", "cuCtxGetCurrent", &[], ASKED),
    ("dropped transfers", "cuCtxPushCurrent_v2", &[], ASKED),
    ("host functions", "cuCtxGetCurrent", &[], TAIL),
    ("host functions", "cuCtxPushCurrent_v2", &[], TAIL),
    ("per-thread stream", "cuCtxGetCurrent", &[], TAIL),
    ("per-thread stream", "cuCtxPushCurrent_v2", &[], TAIL),
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
        "the pool gives back what it keeps",
    ),
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
        "the software device has none",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Any,
    Last,
}
use Which::{Any, Last};

const MODE: &str = "the hidden calls are made in the mode of the thread";
const UNKNOWN: &str = "what may be done counts as not done";
const DROP: &str = "a drop has nobody to tell";
const WAIT: &str = "a drop that cannot wait leaves what it would give back";
const TAIL: &str = "the tail of the stream stands for the use, or is waited for";
const FEWER: &str = "the copy goes on with the blocks that there are";
const PLANNED: &str = "the scenario has a call fail with this code itself";
const ASKED: &str = "what the driver does not report, it is asked for";
const OUT_OF_MEMORY: &[Status] = &[Status::CUDA_ERROR_OUT_OF_MEMORY];
const NOT_PERMITTED: &[Status] = &[Status::CUDA_ERROR_NOT_PERMITTED];
const NOT_SUPPORTED: &[Status] = &[Status::CUDA_ERROR_NOT_SUPPORTED];

/// Kinds of things, and how many of each.
type Kinds = &'static [(&'static str, isize)];

/// What a failed call may leave: so many of one of these kinds at most.
const LEFT: &[(&str, Kinds, &str)] = &[
    ("cuCtxDestroy_v2", &[("contexts", 1)], ITSELF),
    ("cuEventDestroy_v2", &[("events", 1)], ITSELF),
    ("cuGraphDestroy", &[("graphs", 1)], ITSELF),
    ("cuGraphExecDestroy", &[("executables", 1)], ITSELF),
    ("cuLibraryUnload", &[("libraries", 1)], ITSELF),
    ("cuLinkDestroy", &[("links", 1)], ITSELF),
    ("cuMemFreeAsync", &[("allocations", 1)], ITSELF),
    ("cuMemFreeHost", &[("host allocations", 1)], ITSELF),
    ("cuMemFree_v2", &[("allocations", 1)], ITSELF),
    ("cuMemHostUnregister", &[("host allocations", 1)], ITSELF),
    ("cuMemPoolDestroy", &[("pools", 1)], ITSELF),
    ("cuModuleUnload", &[("modules", 1)], ITSELF),
    ("cuStreamDestroy_v2", &[("streams", 1)], ITSELF),
    // What is given back behind uses that cannot be waited for stays.
    ("cuCtxGetCurrent", CODE_OR_MEMORY, UNWAITED),
    ("cuCtxPushCurrent_v2", CODE_OR_MEMORY, UNWAITED),
    ("cuCtxSynchronize", CODE_OR_MEMORY, UNWAITED),
    ("cuEventCreate", MEMORY, UNWAITED),
    ("cuEventQuery", MEMORY, UNWAITED),
    ("cuEventRecord", MEMORY, UNWAITED),
    ("cuEventSynchronize", MEMORY, UNWAITED),
    ("cuStreamSynchronize", MEMORY, UNWAITED),
    ("cuStreamWaitEvent", MEMORY, UNWAITED),
    // A capture that cannot be ended has no graph that anybody knows of.
    (
        "cuStreamEndCapture",
        &[("graphs", 1)],
        "what a broken capture makes of its graph is not said",
    ),
    ("cuMemcpyDtoHAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpyHtoDAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpy2DAsync_v2", MEMORY, UNWAITED),
    ("cuMemcpy3DAsync_v2", MEMORY, UNWAITED),
];

const MEMORY: Kinds = &[("allocations", 1), ("host allocations", 1)];
const CODE_OR_MEMORY: Kinds = &[
    ("modules", 1),
    ("libraries", 1),
    ("allocations", 1),
    ("host allocations", 1),
];
const ITSELF: &str = "what could not be given back";
const UNWAITED: &str = "what may still be in use";

/// Scenarios in which the failure of that call ends the process, as is documented: tested apart.
const ABORTS: &[(&str, &str)] = &[("scope", "cuStreamSynchronize")];

/// Calls whose failure must be told in a scenario, though it may be swallowed in others.
const TOLD: &[(&str, &[&str])] = &[
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

/// Codes that are an answer and no failure: what calls say by them, which calls, and in which
/// scenario if not in all.
const ANSWERS: &[(Status, &[&str], Option<&str>, &str)] = &[
    (
        Status::CUDA_ERROR_INVALID_VALUE,
        &["cuFuncGetParamInfo", "cuKernelGetParamInfo"],
        Some("foreign cubin on 13.0"),
        "that a kernel has no more parameters, before CUDA 13.2",
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
        "that an older driver does not tell parameters",
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
        "that there is nothing of that name, for which there is an error of ours",
    ),
    (
        Status::CUDA_ERROR_NOT_READY,
        &["cuEventQuery", "cuStreamQuery"],
        None,
        "that it is not done",
    ),
    (
        Status::CUDA_ERROR_LOSSY_QUERY,
        &["cuStreamGetCaptureInfo_v2", "cuGraphNodeGetDependencies"],
        None,
        "that edges have data, for which it is asked again",
    ),
    (
        Status::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        &["cuCtxEnablePeerAccess"],
        None,
        "that it is so already",
    ),
    (
        Status::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        &["cuCtxDisablePeerAccess"],
        None,
        "that it is so already",
    ),
];

/// Whether a case is none: the failure ends the process, or is an answer.
pub(super) fn is_none(scenario: &str, fault: &Fault) -> bool {
    let name = fault.call.name;
    ABORTS.contains(&(scenario, name))
        || ANSWERS.iter().any(|(status, calls, of, _)| {
            *status == fault.status && calls.contains(&name) && of.is_none_or(|of| of == scenario)
        })
}

/// The call that an error names.
fn call_of(error: &Error) -> Option<DriverError> {
    Some(match error {
        Error::Driver(error) | Error::OutOfMemory { source: error, .. } => *error,
        Error::Jit(error) => error.driver_error(),
        Error::Instantiate(error) => error.driver_error(),
        Error::GraphUpdate(error) => error.driver_error(),
        _ => return None,
    })
}

/// Whether a scenario in which this call fails may answer that error: the code, and the call that
/// answered it.
pub(super) fn is_right(fault: &Fault, error: &Error) -> bool {
    call_of(error)
        .is_some_and(|told| told.status() == fault.status && told.call().name == fault.call.name)
}

/// Whether a scenario may succeed although this call fails.
pub(super) fn may_be_swallowed(scenario: &str, fault: &Fault) -> bool {
    let is_told =
        |(of, names): &(&str, &[&str])| *of == scenario && names.contains(&fault.call.name);
    if TOLD.iter().any(is_told) {
        return false;
    }
    let is_one = |statuses: &[Status]| statuses.is_empty() || statuses.contains(&fault.status);
    SWALLOWED.iter().any(|(name, which, statuses, _)| {
        *name == fault.call.name && (*which == Any || fault.is_last) && is_one(statuses)
    }) || SWALLOWED_IN.iter().any(|(of, name, statuses, _)| {
        *of == scenario && *name == fault.call.name && is_one(statuses)
    })
}

/// Whether that may be left when this call fails.
pub(super) fn may_be_left(fault: &Fault, left: &Left) -> bool {
    let [(kind, count)] = left.0[..] else {
        return false;
    };
    LEFT.iter().any(|(name, most, _)| {
        let is_within = |(it, most): &(&str, isize)| *it == kind && (1..=*most).contains(&count);
        *name == fault.call.name && most.iter().any(is_within)
    })
}

/// Whether a context may stay current on the thread if this call fails.
pub(super) fn keeps_current(call: &Call) -> bool {
    call.name == "cuCtxPopCurrent_v2"
}
