//! Safe launches with attributes.

use cuda_sys::CUlaunchAttributeID as Id;

use super::kernel::{SafeKernel, refused};
use super::launch::SafeLaunch;
use super::memories::{self, Memories};
use crate::error::{Result, SafeLaunchError};
use crate::launch::queue_sealed::TOKEN;
use crate::launch::{KernelArgs, LaunchAttributes, Queue};
use crate::memory::recorder_of;
use crate::stream::Stream;
use crate::types::LaunchConfig;

const ORDERS_LESS: &str = "the kernel could run before earlier work on the stream has ended, and \
                           use memory at the same time; leave it out, or use the unsafe \
                           `launch_with`";

const EVENT: &str = "an event inside of the launch does not order other work with the whole launch; \
                     leave it out and record the event after the launch, or use the unsafe \
                     `launch_with`";

/// Returns the name of an attribute that a safe launch refuses, and the reason.
fn refusal(id: Id) -> Option<(&'static str, &'static str)> {
    match id {
        Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        | Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        | Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | Id::CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE
        | Id::CU_LAUNCH_ATTRIBUTE_PRIORITY
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
        | Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        | Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        | Id::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE
        | Id::CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING => None,
        Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION => {
            Some(("programmatic_serialization", ORDERS_LESS))
        }
        Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT => Some(("programmatic_event", EVENT)),
        Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => Some(("completion_event", EVENT)),
        Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION => Some((
            "preferred_cluster",
            "a proof needs the size of the clusters, and the driver chooses between two sizes; use \
             `cluster` alone, or the unsafe `launch_with`",
        )),
        _ => Some((
            "unknown",
            "it is not known whether it changes which memory the kernel may access; leave it out, \
             or use the unsafe `launch_with`",
        )),
    }
}

/// Fails unless the attributes leave the memory that the kernel may access, and the order of the
/// stream, as they are.
pub(super) fn check(attributes: &LaunchAttributes<'_>, memories: &Memories) -> Result<()> {
    let error =
        |(attribute, reason)| Err(refused(SafeLaunchError::Attribute { attribute, reason }));
    if let Some(refusal) = attributes.ids().find_map(refusal) {
        return error(refusal);
    }
    let Some((start, bytes)) = attributes.window() else {
        return Ok(());
    };
    let is_within = |memory: &memories::MemoryArg| {
        let offset = start.checked_sub(memory.address);
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= memory.bytes)
    };
    match bytes == 0 || memories.iter().any(is_within) {
        true => Ok(()),
        false => error((
            "access_policy_window",
            "its memory is not an argument of the launch, so it could be freed while the launch \
             uses the window; pass a window in an argument, or use the unsafe `launch_with`",
        )),
    }
}

/// Safe launches with attributes.
impl Stream {
    /// `cuLaunchKernelEx(kernel, config, attributes, args)`—Queues a kernel with launch attributes,
    /// as [`launch_safe`](Self::launch_safe) does without them.
    ///
    /// The proof knows the size of the clusters. A launch with attributes looks for its proof under
    /// a lock, as a launch with more than 16 arguments does.
    ///
    /// ```
    /// use cuda_driver::launch::LaunchAttributes;
    /// use cuda_driver::prelude::*;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// let mix = SafeModule::load(&context, &ptx)?.kernel("mix")?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
    /// let attributes = LaunchAttributes::new().cooperative().priority(-1);
    /// let config = LaunchConfig::new(1, 128);
    /// stream.launch_safe_with(&mix, config, &attributes, (&mut x, &y, 100_u32))?;
    /// assert_eq!(x.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`launch_safe`](Self::launch_safe) and [`launch_with`](Self::launch_with) do.
    /// [`SafeLaunchError::Attribute`] for the attributes that a safe launch cannot have:
    /// [programmatic serialization](LaunchAttributes::programmatic_serialization), events inside of
    /// the launch ([one](LaunchAttributes::programmatic_event),
    /// [two](LaunchAttributes::completion_event)), a
    /// [preferred cluster](LaunchAttributes::preferred_cluster), and an
    /// [access policy window](LaunchAttributes::access_policy_window) of memory that is not an
    /// argument.
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelExC")]
    pub fn launch_safe_with<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<SafeLaunch<'_>> {
        if recorder_of(self, "Stream::launch_safe_with")?.is_some() {
            let (function, args) = kernel.for_graph(&config, Some(attributes), args)?;
            // SAFETY: the kernel must use only what the arguments permit, at every launch of the
            // graph ← `for_graph`, which also checks the attributes.
            unsafe { self.launch_with(&function, config, attributes, args) }?;
            return Ok(SafeLaunch::proven(self));
        }
        kernel.check_sizes(&args)?;
        let memories = memories::collect(&args);
        check(attributes, &memories)?;
        self.launch_slowly(kernel, config, Some(attributes), args, &memories)
    }
}

/// Launches with attributes.
impl SafeKernel {
    /// `cuLaunchKernelEx(self, config, attributes, args)`—Queues this kernel on a stream as
    /// [`Stream::launch_safe_with`] does, or captures it as
    /// [`CaptureScope::launch_safe_with`](crate::graph::CaptureScope::launch_safe_with) does.
    ///
    /// # Errors
    ///
    /// The errors of the two functions.
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelExC")]
    pub fn launch_with<'a, Q: Queue, A: KernelArgs>(
        &self,
        queue: &'a Q,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<SafeLaunch<'a>> {
        if let Some(stream) = queue.as_stream(TOKEN) {
            return stream.launch_safe_with(self, config, attributes, args);
        }
        let (function, args) = self.for_graph(&config, Some(attributes), args)?;
        // SAFETY: the kernel must use only what the arguments permit, at every replay ←
        // `for_graph`, which also checks the attributes. A capture adds full edges only.
        unsafe { queue.launch_with(&function, config, attributes, args) }?;
        Ok(SafeLaunch::captured(queue.context()))
    }
}
