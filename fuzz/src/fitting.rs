//! Numbers and values of enums that fit a parameter.

use std::any;

use crate::maker::{LONGEST_TEXT, Maker};

/// The granularity of virtual memory.
const PAGES: u64 = 2 << 20;

/// Numbers whose sums and products overflow.
pub(crate) const EXTREMES: &[u64] = &[
    u64::MAX,
    u64::MAX - 255,
    1 << 63,
    1 << 33,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    i32::MAX as u64,
];

/// Whether the number is neither the size of host memory or of a list, nor that of a large grid,
/// which would only take long.
pub(crate) fn takes_any_number(function: &str, param: &str) -> bool {
    let functions = [
        "cuMemset",
        "cuMemPrefetchAsync",
        "cuMemAdvise",
        "cuMemMap",
        "cuMemUnmap",
        "cuMemAddress",
        "cuMemSetAccess",
        "cuMemPoolTrim",
        "cuOccupancy",
        "cuFuncSet",
        "cuParamSetSize",
        "cuParamSeti",
        "cuParamSetf",
        "cuCtxSetLimit",
        "cuStreamAttach",
        "cuMipmapped",
        "cuArray",
        "cuMemAlloc",
        "cuMemHostAlloc",
        "cuLaunchKernel",
        "cuGraphExecKernel",
        "cuStreamWrite",
        "cuGraphRetain",
        "cuGraphRelease",
        "cuUserObject",
        "cuDevSmResourceSplitByCount",
        "cuMemPoolSet",
        "cuDeviceGet",
        "cuStreamCreate",
        "cuEventRecord",
        "cuFuncGetParamInfo",
        "cuKernelGetParamInfo",
        "cuTensorMap",
        "cuMemcpyAtoA",
        "cuMemGetHandle",
        "cuMemExport",
    ];
    let is_list = function.starts_with("cuMemSetAccess") && param == "count";
    functions.iter().any(|prefix| function.starts_with(prefix))
        && !is_list
        && !param.starts_with("grid")
        && !["tensorRank", "numAttributes"].contains(&param)
}

/// The name of a type in cuda.h.
pub(crate) fn type_name<T>() -> &'static str {
    let path = any::type_name::<T>();
    let name = path.rsplit("::").next().unwrap_or(path);
    name.trim_end_matches("_st")
}

impl Maker<'_> {
    /// Makes a number that fits the parameter, if there are numbers that do not.
    pub(crate) fn fitting_number(&mut self, param: &str) -> Option<u64> {
        let function = self.function;
        let is = |part: &str| function.contains(part);
        let lower = param.to_lowercase();
        let choices: &[u64] = match &*lower {
            "flags" => return Some(self.fitting_flags()),
            "numoptions" | "numjitoptions" | "numlibraryoptions" | "numparams" => &[0],
            // The input of a link is a whole text.
            "size" if is("cuLinkAdd") => &[LONGEST_TEXT as u64],
            "size" if is("cuMemPoolTrimTo") => &[0, PAGES],
            "size" if is("cuMemGetHandleForAddressRange") => &[PAGES],
            "size" | "bytesize" if is("cuMemAddress") || is("cuMemMap") || is("cuMemUnmap") => {
                &[PAGES]
            }
            "size" if is("cuMemCreate") || is("cuMemSetAccess") => &[PAGES],
            "alignment" | "addr" if is("cuMemAddressReserve") => &[0],
            "bytesize" | "size" if is("Alloc") => &[4096, 4096, 8192, 65_536],
            "bytesize" if is("cuMemHostRegister") => &[4096, 8192],
            "count" | "length" if is("cuMemAdvise") || is("Prefetch") || is("cuMemRange") => {
                &[4096, 1, 1000]
            }
            "length" => &[0],
            "numdependencies" if self.graphs.is_empty => &[0],
            "numdependencies" => &[1, 1, 0],
            "count" | "initialrefcount" if is("UserObject") => &[1],
            "nbgroups" | "nbresources" | "numattrs" | "numprefetchlocs" => &[1],
            "count" if is("Batch") || is("cuMemSetAccess") => &[1, 1, 2],
            "mincount" => &[0, 8, 16, 32],
            "mipmaplevels" | "nummipmaplevels" => &[1, 2, 3],
            "level" | "miplevel" | "arrayindex" | "planeidx" => &[0],
            "isenabled" => &[0, 1],
            "paramindex" => &[0, 0, 1],
            "cudaversion" => &[12_000, 13_000],
            "griddimx" | "grid_width" => &[1, 2, 3],
            "griddimy" | "griddimz" | "grid_height" | "blockdimy" | "blockdimz" | "y" | "z" => &[1],
            "blockdimx" | "x" => &[1, 2, 4],
            "blocksize" | "blocksizelimit" => &[32, 64, 128],
            "numblocks" => &[1],
            "sharedmembytes" | "dynamicsmemsize" => &[0, 64, 1024],
            "numbytes" if is("SetSize") => &[32],
            "numbytes" => &[4, 8],
            "offset" if is("cuParam") => &[0, 8],
            "offset" => &[0],
            // Offsets into arrays, and the size of a copy, which fit into the smallest array.
            "dstoffset" | "srcoffset" => &[0, 4, 16],
            "bytecount" => &[4, 16, 64],
            "n" | "width" => &[1, 16, 64],
            "height" => &[1, 2, 4],
            "dstpitch" | "pitch" => &[256, 512],
            "widthinbytes" => &[4, 16, 64],
            "elementsizebytes" => &[4, 8, 16],
            "tensorrank" => &[3],
            "channelsperpixel" | "pixelspercolumn" => &[4, 8],
            "val" if is("Limit") => &[1024],
            _ if lower.starts_with("num") => &[1, 1, 2],
            _ => return None,
        };
        Some(self.choose(choices))
    }

    fn fitting_flags(&mut self) -> u64 {
        let choices: &[u64] = match self.function {
            "cuStreamCreate" | "cuStreamCreateWithPriority" => &[0, 1],
            // The last can be used by other processes.
            "cuEventCreate" => &[0, 0, 1, 6],
            "cuMemHostAlloc" => &[0, 1, 2, 3, 4],
            "cuMemHostRegister" | "cuMemHostRegister_v2" => &[0, 1, 2],
            "cuMemAllocManaged" => &[1, 1, 2],
            "cuStreamAttachMemAsync" | "cuStreamAttachMemAsync_ptsz" => &[1, 2, 4],
            "cuGreenCtxCreate" | "cuGreenCtxStreamCreate" | "cuUserObjectCreate" => &[1],
            "cuGraphRetainUserObject" | "cuIpcOpenMemHandle_v2" => &[0, 1],
            "cuGraphInstantiateWithFlags" => &[0, 0, 1, 8],
            "cuGraphConditionalHandleCreate" => &[0, 1],
            "cuDevicePrimaryCtxSetFlags_v2" | "cuCtxSetFlags" => &[0, 1, 2, 4],
            name if name.starts_with("cuStreamUpdateCapture") => &[0, 1],
            name if name.starts_with("cuEventRecordWithFlags") => &[0, 1],
            _ => &[0],
        };
        self.choose(choices)
    }

    /// Makes the first words of a value of an enum, or of a small structure, that fits.
    pub(crate) fn fitting_value<T>(&mut self) -> Option<[u32; 2]> {
        let function = self.function;
        let sets = function.contains("Set");
        let ty = type_name::<T>();
        let choices: &[u64] = match ty {
            "CUfunction_attribute" if sets => &[8, 9, 14],
            "CUfunction_attribute" => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15],
            "CUdevice_attribute" => &[1, 2, 10, 16, 39, 75, 76, 95, 102, 115],
            "CUmemPool_attribute" if sets => &[1, 2, 3, 4],
            "CUmemPool_attribute" => &[1, 2, 3, 4, 5, 6, 7, 8],
            "CUmem_advise" => &[1, 2, 3, 4, 5, 6],
            "CUmem_range_attribute" => &[1, 2, 3, 4, 5, 6, 7, 8],
            // A capture in another mode makes many calls fail.
            "CUstreamCaptureMode" => &[2, 2, 2, 1, 0],
            "CUlimit" => &[0, 1, 2, 5],
            "CUpointer_attribute" if sets => &[6],
            "CUpointer_attribute" => &[1, 2, 3, 4, 7, 8, 9, 11, 12],
            "CUdevResourceType" | "CUjitInputType" | "CUmemAllocationHandleType" => &[1],
            "CUmemRangeHandleType" | "CUmemAllocationType" => &[1],
            "CUgraphMem_attribute" if sets => &[1, 3],
            "CUgraphMem_attribute" => &[0, 1, 2, 3],
            "CUlaunchAttributeID" if function.contains("Stream") => &[1, 3, 8],
            "CUlaunchAttributeID" => &[2, 3, 4, 6, 8],
            "CUmemAllocationGranularity_flags" => &[0, 1],
            "CUdevice_P2PAttribute" => &[1, 2, 3, 4],
            "CUexecAffinityType" | "CUtensorMapInterleave" | "CUtensorMapSwizzle" => &[0],
            "CUtensorMapFloatOOBfill" | "CUtensorMapIm2ColWideMode" => &[0],
            "CUtensorMapL2promotion" => &[0, 1, 2, 3],
            "CUtensorMapDataType" => &[2, 3, 7],
            "CUfunc_cache" | "CUsharedconfig" => &[0, 1, 2],
            "CUresult" => &[0, 1, 2, 700],
            "CUarray_format" => &[1, 0x20],
            "CUmemLocation" => return Some([1, 0]),
            _ => return None,
        };
        Some([self.choose(choices) as u32, 0])
    }
}
