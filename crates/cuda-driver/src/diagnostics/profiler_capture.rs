//! Ranges for NVIDIA's tools (`cuProfilerStart`, `cuProfilerStop`).

use std::fmt;

use crate::context::Context;
use crate::driver::call;
use crate::error::Result;

/// A range that profilers record, from its start until it is dropped.
///
/// NVIDIA's tools have options to record only such ranges: `nsys profile -c cudaProfilerApi`, or
/// `ncu --profile-from-start off`.
#[must_use = "the range ends when it is dropped"]
pub struct ProfilerCapture {
    context: Context,
}

impl ProfilerCapture {
    /// `cuProfilerStart()`—Starts to record the context with a tool that waits for this call.
    /// Without a tool, nothing happens.
    ///
    /// # Errors
    ///
    /// The errors of `cuProfilerStart`.
    #[doc(alias = "cuProfilerStart")]
    #[doc(alias = "cudaProfilerStart")]
    pub fn start(context: &Context) -> Result<Self> {
        let current = context.enter()?;
        // SAFETY: no pointers; the context is current.
        unsafe { call!(context.driver(), cuProfilerStart()) }?;
        drop(current);
        Ok(Self {
            context: context.clone(),
        })
    }
}

/// `cuProfilerStop()`—Stops recording.
impl Drop for ProfilerCapture {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // A drop cannot return the error.
            // SAFETY: no pointers; the context is current.
            let _ = unsafe { call!(self.context.driver(), cuProfilerStop()) };
        }
    }
}

impl fmt::Debug for ProfilerCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfilerCapture({:?})", self.context)
    }
}
