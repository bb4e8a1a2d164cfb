//! Code that queues work on a stream or captures it into a graph. C uses one handle for both: a
//! stream that is being captured.

use super::{KernelArgs, LaunchAttributes, LaunchConfig};
use crate::context::Context;
use crate::error::Result;
use crate::function::Function;
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut, recorder_of};
use crate::stream::Stream;
use crate::types::node::node_kind;

/// Accepts work: a [`Stream`] runs it, and a [`CaptureScope`](crate::graph::CaptureScope) makes it
/// nodes of a graph. A function that takes a `Queue` is written once for both.
///
/// ```
/// use cuda_driver::prelude::*;
///
/// /// Computes `x = 2 * (2 * x + y) + y`.
/// fn twice<Q: Queue>(
///     queue: &Q,
///     mix: &Kernel<(Writes<u32>, Reads<u32>, u32)>,
///     x: &mut DeviceBuffer<u32>,
///     y: &DeviceBuffer<u32>,
/// ) -> cuda_driver::Result<()> {
///     let config = LaunchConfig::for_num_elems(100)?;
///     for _ in 0..2 {
///         // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words, and both have 100.
///         unsafe { mix.launch(queue, config, (&mut *x, y, 100_u32)) }?;
///     }
///     Ok(())
/// }
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?.typed()?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// // Queued now.
/// twice(&stream, &mix, &mut x, &y)?;
/// assert_eq!(x.to_vec()?, [19; 100]);
/// // Runs each time that the graph is launched.
/// let graph = Graph::capture(&context, |scope| twice(scope, &mix, &mut x, &y))?;
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(x.to_vec()?, [91; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The methods of the two types with these names accept more: a capture also copies pitched memory,
/// and a stream also calls closures that can be called only once. The trait has what both accept.
#[diagnostic::on_unimplemented(
    message = "work cannot be queued on `{Self}`",
    label = "neither a stream nor the scope of a capture",
    note = "pass a `Stream` or a `CaptureScope`; the scope that a closure receives is passed as `scope`, not `&scope`"
)]
pub trait Queue: sealed::Sealed {
    /// The result of a queued call: `()` on a stream, and the [`Node`](crate::graph::Node) of kind
    /// `K` in a capture.
    type Queued<K>;

    /// Returns the context in which the work runs.
    fn context(&self) -> &Context;

    /// `cuLaunchKernel(function, config, args)`—Queues a kernel launch.
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::launch`] and
    /// [`CaptureScope::launch`](crate::graph::CaptureScope::launch) do.
    ///
    /// # Safety
    ///
    /// The requirements of [`Stream::launch`] apply. In a capture, those of
    /// [`Graph::add_kernel`](crate::Graph::add_kernel) apply instead.
    unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Self::Queued<node_kind::Kernel>>;

    /// `cuLaunchKernelEx(function, config, attributes, args)`—Queues a kernel launch with
    /// attributes.
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::launch_with`] and
    /// [`CaptureScope::launch_with`](crate::graph::CaptureScope::launch_with) do.
    ///
    /// # Safety
    ///
    /// The requirements of [`launch`](Self::launch) and of [`Stream::launch_with`] apply.
    unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Self::Queued<node_kind::Kernel>>;

    /// `cuMemcpyDtoDAsync()`—Queues a copy between two views of the same length.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_on`] and
    /// [`CaptureScope::copy`](crate::graph::CaptureScope::copy) do. In a capture, a copy of no
    /// bytes is an error.
    fn copy<'a, 'b, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        from: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<Self::Queued<node_kind::Memcpy>>;

    /// `cuMemsetD8Async(value)`, `cuMemsetD16Async`, `cuMemsetD32Async`—Queues a fill of all
    /// elements with `value`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::fill_on`] and
    /// [`CaptureScope::fill`](crate::graph::CaptureScope::fill) do. In a capture, a fill of no
    /// bytes is an error, and so is a value whose bytes do not repeat every 1, 2 or 4 bytes.
    fn fill<'a, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<Self::Queued<node_kind::Memset>>;

    /// `cuLaunchHostFunc(function)`—Queues a call of a closure, which runs in each launch of a
    /// captured graph. [`Stream::launch_host`] states what the closure may do.
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::launch_host`] and
    /// [`CaptureScope::host`](crate::graph::CaptureScope::host) do. On a stream, a panic of the
    /// closure is ignored; `launch_host` returns a handle that reports it.
    fn host(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self::Queued<node_kind::Host>>;

    /// Queues a launch of a kernel whose signature was checked.
    ///
    /// # Safety
    ///
    /// The requirements of [`launch`](Self::launch), or of [`launch_with`](Self::launch_with) if
    /// there are attributes, apply. The arguments have the number and sizes of the parameters.
    #[doc(hidden)]
    unsafe fn launch_checked<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
        token: sealed::Token,
    ) -> Result<Self::Queued<node_kind::Kernel>>;

    /// Returns the stream, if this is one.
    #[doc(hidden)]
    fn as_stream(&self, token: sealed::Token) -> Option<&Stream>;
}

/// The part of [`Queue`] that only this crate can use.
pub(crate) mod sealed {
    /// A value that only this crate can create.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(());

    /// The token of this crate.
    pub(crate) const TOKEN: Token = Token(());

    /// The private supertrait of [`Queue`](super::Queue).
    pub trait Sealed {}

    impl<Q: Sealed> Sealed for &Q {}
}

impl sealed::Sealed for Stream {}

impl Queue for Stream {
    type Queued<K> = ();

    fn context(&self) -> &Context {
        self.context()
    }

    #[inline(always)]
    unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        // SAFETY: the contract of `launch` must hold ← the caller upholds it.
        unsafe { self.launch(function, config, args) }
    }

    unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<()> {
        // SAFETY: the contract of `launch_with` must hold ← the caller upholds it.
        unsafe { self.launch_with(function, config, attributes, args) }
    }

    fn copy<'a, 'b, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        from: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<()> {
        to.into().copy_from_on(from, self)
    }

    fn fill<'a, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<()> {
        to.into().fill_on(value, self)
    }

    fn host(&self, function: impl Fn() + Send + Sync + 'static) -> Result<()> {
        match recorder_of(self, "Queue::host")? {
            Some(recorder) => recorder.host(Box::new(function)),
            None => self.launch_host(function).map(drop),
        }
    }

    #[inline(always)]
    unsafe fn launch_checked<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
        _: sealed::Token,
    ) -> Result<()> {
        // SAFETY: the contract of `queue` must hold ← the caller upholds it.
        unsafe { self.queue(function, config, attributes, args) }
    }

    fn as_stream(&self, _: sealed::Token) -> Option<&Stream> {
        Some(self)
    }
}

/// A borrowed queue is a queue, so generic code may pass `&queue` for a parameter that is itself a
/// reference.
impl<Q: Queue> Queue for &Q {
    type Queued<K> = Q::Queued<K>;

    fn context(&self) -> &Context {
        (**self).context()
    }

    #[inline(always)]
    unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<Self::Queued<node_kind::Kernel>> {
        // SAFETY: the contract of `launch` must hold ← the caller upholds it.
        unsafe { (**self).launch(function, config, args) }
    }

    unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<Self::Queued<node_kind::Kernel>> {
        // SAFETY: the contract of `launch_with` must hold ← the caller upholds it.
        unsafe { (**self).launch_with(function, config, attributes, args) }
    }

    fn copy<'a, 'b, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        from: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<Self::Queued<node_kind::Memcpy>> {
        (**self).copy(to, from)
    }

    fn fill<'a, T: DeviceRepr>(
        &self,
        to: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<Self::Queued<node_kind::Memset>> {
        (**self).fill(to, value)
    }

    fn host(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self::Queued<node_kind::Host>> {
        (**self).host(function)
    }

    #[inline(always)]
    unsafe fn launch_checked<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
        token: sealed::Token,
    ) -> Result<Self::Queued<node_kind::Kernel>> {
        // SAFETY: the contract of `launch_checked` must hold ← the caller upholds it.
        unsafe { (**self).launch_checked(function, config, attributes, args, token) }
    }

    fn as_stream(&self, token: sealed::Token) -> Option<&Stream> {
        (**self).as_stream(token)
    }
}
