//! Launching kernels.

mod args;
mod attributes;
mod config;
mod kernel;
mod list;
mod recent;
mod using;

pub use args::{KernelArg, KernelArgs};
pub(crate) use args::{Tracked, Values};
pub(crate) use attributes::raw;
pub use attributes::{
    AccessProperty, ClusterScheduling, LaunchAttributes, MemSyncDomain, PortableClusterMode,
    SharedMemoryMode,
};
pub use config::{Dim3, LaunchConfig};
pub use kernel::{Accepts, Kernel, KernelParam, KernelParams, Reads, Writes};
pub use list::ArgList;
pub use recent::LaunchesInFlight;
pub(crate) use recent::{ContextLaunches, DriverLaunches, NameId, RecentLaunches};
pub use using::Using;

use cuda_sys::CUlaunchAttribute;

use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::function::Function;
use crate::order::Scope;
use crate::stream::{Kind, Stream};

impl Stream {
    /// `cuLaunchKernel(function, config, args)`—Queues a kernel on this stream.
    ///
    /// `args` is a tuple: numbers and structs by value, a buffer or view as `&buffer` if the kernel
    /// only reads it and as `&mut buffer` if it writes it. The launch waits for what other streams
    /// do with the buffers, and what comes after waits for the launch.
    ///
    /// # Errors
    ///
    /// Before the driver is called: [`Error::Argument`](crate::Error::Argument) unless the number
    /// and the sizes of the arguments are those of the kernel's parameters,
    /// [`Error::LaunchConfig`](crate::Error::LaunchConfig) if the device or the kernel does not
    /// allow the configuration, [`Error::OtherContext`](crate::Error::OtherContext) if kernel,
    /// buffers and stream are not of one context. What the kernel does wrong shows at a later call.
    ///
    /// # Safety
    ///
    /// With these arguments the kernel reads and writes only memory that the arguments let it: of
    /// the buffers given, writes only of those given as `&mut`, and all within their lengths.
    /// Arguments are of the types that the kernel takes; only their sizes are checked. Variables of
    /// its module that it uses by name are not used at the same time on other streams
    /// ([`Module::global`](crate::Module::global)).
    #[doc(alias = "cuLaunchKernel")]
    #[inline(always)]
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        function.check_packed(args.packed_sizes(), args.sizes())?;
        // SAFETY: the sizes must be right ← checked; for the rest the caller answers.
        unsafe { self.queue(function, config, None, args) }
    }

    /// `cuLaunchKernelEx(function, config, attributes, args)`—The same with attributes:
    /// cooperative, clusters, dependent on the launch before it, and more.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch); what driver or device do not know or allow is
    /// `CUDA_ERROR_INVALID_VALUE`, `CUDA_ERROR_NOT_SUPPORTED` or an error that names the limit.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch). With
    /// [`programmatic_serialization`](LaunchAttributes::programmatic_serialization) the kernel
    /// waits, before it touches memory that an earlier launch on this stream uses.
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cuLaunchCooperativeKernel")]
    pub unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<()> {
        function.check_packed(args.packed_sizes(), args.sizes())?;
        // SAFETY: the sizes must be right ← checked; for the rest the caller answers.
        unsafe { self.queue(function, config, Some(attributes), args) }
    }

    /// Every form of launch comes here.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch), and the arguments are of the kernel's number and sizes.
    // What is known where it is called, attributes or none and the kinds of the arguments, is a
    // third of its work.
    #[inline(always)]
    unsafe fn queue<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
    ) -> Result<()> {
        self.expect_context(function.context(), "the kernel")?;
        function.check_config(&config)?;
        let state = self.state();
        let id = state.shared_id();
        if state.kind() != Kind::Own || !args.are_in_order(id) {
            // SAFETY: as the caller says.
            return unsafe { self.queue_in_order(function, &config, attributes, args) };
        }
        // SAFETY: as the caller says.
        unsafe { self.call(function, &config, attributes, &args) }?;
        if !args.are_noted(id, state.epoch()) {
            note(&mut Scope::new(self), args);
        }
        Ok(())
    }

    /// [`queue`](Self::queue) where the stream has to wait for something, or is one of C's default
    /// streams.
    ///
    /// # Safety
    ///
    /// As there.
    #[cold]
    unsafe fn queue_in_order<A: KernelArgs>(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
    ) -> Result<()> {
        let mut scope = Scope::new(self);
        scope.ready()?;
        args.each_tracked(&mut |tracked| tracked.before(&scope))?;
        // SAFETY: as the caller says.
        unsafe { self.call(function, config, attributes, &args) }?;
        note(&mut scope, args);
        Ok(())
    }

    /// # Safety
    ///
    /// As [`queue`](Self::queue), and the stream has waited for what matters to the uses.
    #[inline(always)]
    unsafe fn call<A: KernelArgs>(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: &A,
    ) -> Result<()> {
        match attributes {
            None => args.with_values(function.layout(), |values| {
                // SAFETY: as the caller says.
                unsafe { self.call_launch(function, config, values) }
            })?,
            Some(attributes) => {
                function.check_cluster(config, attributes.cluster_blocks())?;
                let attributes = attributes.for_launch(self.context())?;
                args.with_values(function.layout(), |values| {
                    // SAFETY: as the caller says.
                    unsafe { self.call_launch_ex(function, config, attributes, values) }
                })?;
            }
        }
        self.state().launches().note(function.launch_name());
        Ok(())
    }

    /// # Safety
    ///
    /// `values` are of the parameters' sizes, a block laid out as they are, and the kernel keeps to
    /// its memory.
    #[inline]
    pub(crate) unsafe fn call_launch(
        &self,
        function: &Function,
        config: &LaunchConfig,
        values: Values,
    ) -> Result<(), DriverError> {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = *config;
        // SAFETY: function and stream must be alive, there must be a value of each parameter's size
        // in one of the forms, and the kernel must keep to its memory ← both are borrowed; the
        // caller says so.
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
                    values.params,
                    values.extra,
                )
            )
        }
    }

    /// # Safety
    ///
    /// As [`call_launch`](Self::call_launch).
    pub(crate) unsafe fn call_launch_ex(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: &[CUlaunchAttribute],
        values: Values,
    ) -> Result<(), DriverError> {
        let config = config.raw(self, attributes);
        // SAFETY: as in `call_launch`; the attributes must be valid for the call ← they are
        // borrowed, and the driver only reads them.
        unsafe {
            call!(
                self.driver(),
                cuLaunchKernelEx(
                    &raw const config,
                    function.as_raw(),
                    values.params,
                    values.extra,
                )
            )
        }
    }
}

/// Notes the uses of a launch that was just queued in `scope`.
#[cold]
fn note<A: KernelArgs>(scope: &mut Scope<'_>, args: A) {
    // What notes one cannot fail.
    let _ = args.each_tracked(&mut |tracked| {
        tracked.after(scope);
        Ok(())
    });
}
