//! Random inputs test more than the checks of arguments.

use std::collections::BTreeSet;

use crate::{calls_observed, random};

/// The number of inputs.
const INPUTS: u64 = 150;

/// Functions that need several objects, or arguments that fit together.
const FUNCTIONS: &[&str] = &[
    "cuArray3DCreate_v2",
    "cuEventElapsedTime",
    "cuExternalMemoryGetMappedBuffer",
    "cuFuncGetAttribute",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddChildGraphNode",
    "cuGraphAddDependencies",
    "cuGraphAddEventRecordNode",
    "cuGraphAddExternalSemaphoresWaitNode",
    "cuGraphAddHostNode",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemAllocNode",
    "cuGraphAddMemFreeNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphAddNode",
    "cuGraphInstantiateWithFlags",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphLaunch",
    "cuGreenCtxCreate",
    "cuKernelGetFunction",
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLibraryGetKernel",
    "cuLinkAddData_v2",
    "cuLinkAddFile_v2",
    "cuLinkComplete",
    "cuMemAllocFromPoolAsync",
    "cuMemExportToShareableHandle",
    "cuMemMap",
    "cuMemPoolSetAttribute",
    "cuMemSetAccess",
    "cuMemcpyBatchAsync",
    "cuMemcpyDtoA_v2",
    "cuMipmappedArrayGetLevel",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuOccupancyMaxPotentialBlockSize",
    "cuStreamEndCapture",
    "cuSurfObjectCreate",
    "cuTensorMapEncodeTiled",
    "cuTexObjectCreate",
    "cuUserObjectRetain",
];

#[test]
fn important_functions_succeed_in_random_inputs() {
    let mut missing: BTreeSet<&str> = FUNCTIONS.iter().copied().collect();
    let (mut calls, mut successes) = (0, 0);
    for seed in 1..=INPUTS {
        calls_observed(&random(seed), &mut |name, status| {
            calls += 1;
            if status.is_success() {
                successes += 1;
                missing.remove(name);
            }
        });
    }
    assert!(missing.is_empty(), "never succeeded: {missing:?}");
    assert!(
        successes * 3 > calls * 2,
        "only {successes} of {calls} calls succeeded"
    );
}
