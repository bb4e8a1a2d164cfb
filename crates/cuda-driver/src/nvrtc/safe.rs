//! Modules for safe launches, from CUDA C++.

use super::{CompileError, Source};
use crate::context::Context;
use crate::safe::SafeModule;

/// Available with the feature `nvrtc`.
impl SafeModule {
    /// Compiles CUDA C++ for the device of `context` to PTX, and loads it for launches without
    /// `unsafe`.
    ///
    /// ```no_run
    /// # use cuda_driver::prelude::*;
    /// # fn f(context: &Context, stream: &Stream) -> cuda_driver::Result<()> {
    /// let source = r#"extern "C" __global__ void scale(float *x, float a, unsigned n) {
    ///     unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    ///     if (i < n) x[i] *= a;
    /// }"#;
    /// let scale = SafeModule::from_source(context, source)?.kernel("scale")?;
    /// let mut x = DeviceBuffer::from_host(stream, &[1.0_f32, 2.0, 3.0])?;
    /// stream.launch_safe(&scale, LaunchConfig::for_num_elems(3)?, (&mut x, 10.0_f32, 3_u32))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// This finds NVRTC and CUDA's headers, and uses the disk cache, as
    /// [`Module::from_source`](crate::Module::from_source) does. The driver compiles the PTX to
    /// machine code. The PTX contains the lines of the source, which a
    /// [`Violation`](crate::error::Violation) then names.
    ///
    /// If NVRTC is newer than the driver, the PTX is declared to have the newest version that the
    /// driver knows. That fails only if the text needs the newer version.
    ///
    /// # Errors
    ///
    /// Fails as [`Module::from_source`](crate::Module::from_source) does.
    pub fn from_source(context: &Context, source: impl Into<Source>) -> Result<Self, CompileError> {
        source.into().load_with(context, |job| job.load_safe())
    }
}
