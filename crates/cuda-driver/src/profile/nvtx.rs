//! Ranges that NVIDIA's tools show under the names of the profiler's ranges.

use std::ffi::CString;

use cuda_sys::nvtx::NvtxTool;

/// An open range of NVTX, which ends when it is dropped. A tool attributes ranges to threads, so it
/// must be dropped on the thread that opened it.
pub(super) struct Range(Option<&'static NvtxTool>);

impl Range {
    /// Opens a range on this thread, if a tool observes the process. The name ends at a NUL byte.
    pub(super) fn open(name: &str) -> Self {
        let tool = NvtxTool::attached();
        if let Some(tool) = tool {
            let name = name.split('\0').next().unwrap_or_default();
            tool.push(&CString::new(name).unwrap_or_default());
        }
        Self(tool)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(tool) = self.0 {
            tool.pop();
        }
    }
}

/// `nvtxRangePushA(name)`, `nvtxRangePop()`—Calls `call` within a range that NVIDIA's tools show,
/// such as Nsight Systems.
///
/// [`Profiler::range`](super::Profiler::range) does so too. This function needs no profiler.
/// Without a tool, it only calls `call`.
#[doc(alias = "nvtxRangePush")]
#[doc(alias = "nvtxRangePop")]
pub fn nvtx_range<R>(name: &str, call: impl FnOnce() -> R) -> R {
    let _open = Range::open(name);
    call()
}
