//! Launching kernels.

mod args;
mod config;

use args::Uses;
pub use args::{KernelArg, KernelArgs};
pub use config::{Dim3, LaunchConfig};

use std::ptr;

use crate::driver::call;
use crate::error::Result;
use crate::function::Function;
use crate::order::Scope;
use crate::stream::Stream;

impl Stream {
    /// `cuLaunchKernel(function, config, args)`—Queues a kernel on this stream.
    ///
    /// `args` is a tuple: numbers and structs by value, a buffer or view as `&buffer` if the kernel only reads it
    /// and as `&mut buffer` if it writes it. The launch waits for what other streams do with the buffers, and what
    /// comes after waits for the launch.
    ///
    /// # Errors
    ///
    /// Before the driver is called: [`Error::Argument`](crate::Error::Argument) unless the number and the sizes of
    /// the arguments are those of the kernel's parameters, [`Error::LaunchConfig`](crate::Error::LaunchConfig) if the
    /// device or the kernel does not allow the configuration, [`Error::OtherContext`](crate::Error::OtherContext) if
    /// kernel, buffers and stream are not of one context. What the kernel does wrong shows at a later call.
    ///
    /// # Safety
    ///
    /// With these arguments the kernel reads and writes only memory that the arguments let it: of the buffers
    /// given, writes only of those given as `&mut`, and all within their lengths. Arguments are of the types
    /// that the kernel takes; only their sizes are checked. Variables of its module that it uses by name are not
    /// used at the same time on other streams ([`Module::global`](crate::Module::global)).
    #[doc(alias = "cuLaunchKernel")]
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        mut args: A,
    ) -> Result<()> {
        self.expect_context(function.context(), "the kernel")?;
        function.check_arguments(A::SIZES)?;
        function.check_config(&config)?;
        let mut uses = Uses(Scope::new(self));
        args.before(&uses)?;
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = config;
        args.with_pointers(|pointers| {
            // SAFETY: function and stream must be alive, there must be a pointer to a value of each parameter's size,
            // and the kernel must keep to its memory ← both are borrowed, the sizes were checked (before CUDA 12.4:
            // the caller says so), and the caller says so.
            unsafe {
                call!(
                    self.driver(),
                    cuLaunchKernel(
                        function.as_raw(),
                        grid.x,
                        grid.y,
                        grid.z,
                        block.x,
                        block.y,
                        block.z,
                        shared_bytes,
                        self.as_raw(),
                        pointers.as_mut_ptr(),
                        ptr::null_mut(),
                    )
                )
            }
        })?;
        args.after(&mut uses);
        Ok(())
    }
}
