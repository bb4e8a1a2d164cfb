//! Launches without `unsafe`.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use cuda_ptx::analysis::{AccessReport, Outcome, Refusal};
use cuda_ptx::instrument::{RECORD_WORDS, needs_variable};
use smallvec::smallvec;

use super::kernel::{SafeKernel, Unproven, of_refusal, refused};
use super::memories::{self, Memories};
use super::plan::{Plan, key};
use super::record::{LaunchRecords, Origin};
use super::variant::{CheckedArgs, RecordMemory, Variant};
use crate::context::Context;
use crate::error::{Error, Result, SafeLaunchError};
use crate::event::poll;
use crate::fence::Fence;
use crate::launch::queue_sealed::TOKEN;
use crate::launch::{KernelArgs, LaunchAttributes, Queue};
use crate::memory::{DeviceBuffer, recorder_of};
use crate::pending::Completion;
use crate::reports::{self, Mark, Place, Report, Waited};
use crate::stream::Stream;
use crate::types::LaunchConfig;

/// A safe launch that was queued: see [`Stream::launch_safe`], and
/// [`GraphExec::launch_reported`](crate::GraphExec::launch_reported) for the replay of a graph.
///
/// It can be waited for, with [`wait`](Self::wait), [`wait_timeout`](Self::wait_timeout) or
/// `.await`. A program can also drop it, as most programs do: the violations of the launch are then
/// returned by the next call that waits for its stream or for memory that it used, such as
/// [`Stream::synchronize`] or [`DeviceBuffer::to_vec`]. Queries and drops report nothing. A
/// violation that no call has returned when the last handle of the stream is dropped, or when the
/// process ends, is printed: as an event of `tracing` if the feature is on and a subscriber is set,
/// and on stderr otherwise.
///
/// The type is not `#[must_use]`, because nothing is lost if it is dropped, and most launches are
/// followed by others instead of a wait. With the attribute, each of them would need a `let _ =`,
/// which would also hide that the *error* of the launch is ignored: `launch_safe` returns a
/// `Result`, which must be used.
pub struct SafeLaunch<'a> {
    queue: Target<'a>,
    /// The number and the records of a checked launch.
    checked: Option<(u64, Arc<LaunchRecords>)>,
}

/// Where a launch was queued.
enum Target<'a> {
    Stream(&'a Stream),
    /// A capture in this context.
    Capture(&'a Context),
}

/// Safe launches.
impl Stream {
    /// `cuLaunchKernel(kernel, config, args)`—Queues a kernel on this stream. This is not `unsafe`:
    /// the kernel reads and writes only memory that `args` permits.
    ///
    /// `args` are those of [`launch`](Self::launch): `&buffer` if the kernel reads, `&mut buffer`
    /// if it writes. If the analysis proves from the values of this launch that every access stays
    /// in its buffer, the kernel is launched as it is. Otherwise a copy is launched in which the
    /// other accesses are checked when they run: outside of its argument, a load returns 0, and a
    /// store or an atomic operation does nothing. One of these accesses is a [`Violation`] of the
    /// launch: the first one of the first thread that ends with a violation. It is returned once,
    /// by the first call that waits for the launch: see [`SafeLaunch`]. The context stays usable.
    /// `trap` becomes a violation too.
    ///
    /// A launch whose grid, alignments or numbers are new evaluates the analysis, unless a proof
    /// for a range of numbers covers it. Later launches only compare. The first launch that needs
    /// checks compiles the copy.
    ///
    /// A variable of the module that the kernel uses has to be passed as
    /// [`&Global`](crate::jit::Global) or `&mut Global`, with [`Using`](crate::launch::Using). The
    /// exception is a constant table: a variable that is not visible outside of the module
    /// (`static` in CUDA C++), has an initial value, and is written by no kernel of the module. If
    /// the program looks it up as a `Global`, it counts as a variable again, because the program
    /// may change its contents.
    ///
    /// [`Violation`]: crate::error::Violation
    ///
    /// # Errors
    ///
    /// [`Error::SafeLaunch`] if the kernel can be neither proven nor checked, or if it is not
    /// proven and [`Unproven::Reject`] was set. Otherwise fails as [`launch`](Self::launch) does.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    #[inline]
    pub fn launch_safe<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<SafeLaunch<'_>> {
        if !kernel.is_certified(&config, &args) || self.state().is_recorded() {
            return self.launch_uncertified(kernel, config, args);
        }
        // SAFETY: the sizes must match the parameters ← those of the certificate do. The kernel
        // must access only what `args` permit ← the certificate holds for this launch's values, and
        // proves that each access stays within the bytes of its argument, and that an access writes
        // only if the argument may be written; a kernel with a certificate has no variables of its
        // module. The arguments may overlap only as the borrows permit, and what a race leaves in
        // memory is a valid value of any element, as no proof depends on it.
        unsafe { self.queue(&kernel.function, config, None, args) }?;
        Ok(SafeLaunch::proven(self))
    }

    /// Does the work of [`launch_safe`](Self::launch_safe) for a launch that is captured, or that
    /// no certificate covers.
    #[cold]
    #[inline(never)]
    fn launch_uncertified<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<SafeLaunch<'_>> {
        if recorder_of(self, "Stream::launch_safe")?.is_some() {
            let (function, args) = kernel.for_graph(&config, None, args)?;
            // SAFETY: the kernel must use only what the arguments permit, at every launch of the
            // graph, whatever is in the buffers ← `for_graph`: a proof relies on no contents of
            // memory, checks compare with the arguments, and those of the node stay the same.
            unsafe { self.launch(&function, config, args) }?;
            return Ok(SafeLaunch::proven(self));
        }
        kernel.check_sizes(&args)?;
        let memories = memories::collect(&args);
        let inner = &kernel.inner;
        let key = key(inner, &config, None, &args, &memories);
        let is_all = kernel.unproven == Unproven::CheckAll;
        let has_variables = inner.has_variables || !kernel.changed_tables().is_empty();
        let is_plain = !inner.has_traps && !has_variables && !is_all;
        if !is_plain || !inner.plans.prove(&key, &memories) {
            return self.launch_slowly(kernel, config, None, args, &memories);
        }
        // SAFETY: as in `launch_safe`: the sizes were compared by `check_sizes`, and the plan has
        // the values of this launch.
        unsafe { self.queue(&kernel.function, config, None, args) }?;
        Ok(SafeLaunch::proven(self))
    }

    /// Does the work of [`launch_safe`](Self::launch_safe) for a launch with a new shape, with
    /// checks, with variables or with attributes.
    #[cold]
    pub(super) fn launch_slowly<A: KernelArgs>(
        &self,
        kernel: &SafeKernel,
        config: LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
        memories: &Memories,
    ) -> Result<SafeLaunch<'_>> {
        self.expect_context(kernel.function.context(), "the kernel")?;
        kernel.function.check_config(&config)?;
        let cluster = attributes.and_then(LaunchAttributes::cluster_blocks);
        let plan = kernel.inner.plan(&config, cluster, &args, memories)?;
        kernel.check_variables(&plan, memories)?;
        let is_all = kernel.unproven == Unproven::CheckAll;
        if plan.is_met(memories) && !kernel.inner.has_traps && !is_all {
            // SAFETY: as in `launch_safe`; the variables of the module are among the arguments, and
            // the attributes change neither the memory of the kernel nor the order of the stream.
            unsafe { self.queue(&kernel.function, config, attributes, args) }?;
            return Ok(SafeLaunch::proven(self));
        }
        if kernel.unproven == Unproven::Reject && !plan.is_met(memories) {
            return Err(refused(not_proven(&plan, memories)));
        }
        let variant = kernel.variant(&plan, memories, is_all)?;
        let mut record = DeviceBuffer::<u32>::zeroed(&self.detached(), RECORD_WORDS)?;
        let parameters = &variant.parameters;
        let memory = RecordMemory::Launch(&mut record);
        let all = CheckedArgs::new(args, parameters, memories, &config, memory);
        let function = &variant.function;
        function.check_packed(all.packed(), all.sizes(), all.types())?;
        let origin = Arc::new(Origin::new(plan, &variant, memories.clone(), &all));
        // SAFETY: the sizes must match the parameters ← compared above. The copy must access only
        // what `all` permits ← an access that the plan does not prove is compared with the ranges
        // of the arguments before it is made; the record is the last argument.
        unsafe { self.queue(function, config, attributes, all) }?;
        let records = LaunchRecords::new(record, smallvec![origin]);
        Ok(SafeLaunch::reporting(self, records, 0))
    }
}

/// Launches.
impl SafeKernel {
    /// `cuLaunchKernel(self, config, args)`—Queues this kernel on a stream as
    /// [`Stream::launch_safe`] does, or captures it as
    /// [`CaptureScope::launch_safe`](crate::graph::CaptureScope::launch_safe) does.
    ///
    /// The result of a launch on a stream is that of [`Stream::launch_safe`]. A captured launch
    /// cannot be waited for.
    ///
    /// # Errors
    ///
    /// The errors of the two functions.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch<'a, Q: Queue, A: KernelArgs>(
        &self,
        queue: &'a Q,
        config: LaunchConfig,
        args: A,
    ) -> Result<SafeLaunch<'a>> {
        if let Some(stream) = queue.as_stream(TOKEN) {
            return stream.launch_safe(self, config, args);
        }
        let (function, args) = self.for_graph(&config, None, args)?;
        // SAFETY: the kernel must use only what the arguments permit, at every replay, whatever is
        // in the buffers ← `for_graph`: a proof relies on no contents of memory, checks compare
        // with the arguments, and those of the node stay the same. A capture adds full edges only.
        unsafe { queue.launch(&function, config, args) }?;
        Ok(SafeLaunch::captured(queue.context()))
    }
}

/// The error for a launch that is not proven.
pub(super) fn not_proven(plan: &Plan, memories: &Memories) -> SafeLaunchError {
    let checks = plan.checks(memories, false);
    let accesses = checks.iter().filter_map(|check| {
        let access = plan.contract.accesses.get(check.access)?;
        let reason = reason(access);
        let (mnemonic, line) = (&access.mnemonic, access.line);
        Some(format!("{mnemonic}, PTX line {line}: {reason}"))
    });
    let accesses: Vec<String> = accesses.collect();
    SafeLaunchError::NotProven {
        accesses: format!("kernel {}: {}", plan.contract.kernel, accesses.join("; ")),
    }
}

/// The reason for which an access is not proven.
fn reason(access: &AccessReport) -> String {
    match &access.outcome {
        Outcome::Checked { reason, .. } => reason.to_string(),
        Outcome::Proven { high, .. } => {
            format!("it needs {high} bytes, and a buffer that it may access in this way")
        }
        _ => String::new(),
    }
}

impl SafeKernel {
    /// The copy for a launch that is not proven, or in which all accesses are checked.
    pub(super) fn variant(
        &self,
        plan: &Plan,
        memories: &Memories,
        is_all: bool,
    ) -> Result<Arc<Variant>> {
        let checks = plan.checks(memories, is_all);
        let explain = |refusal| explained(refusal, plan, memories);
        if let Some(table) = self.changed_tables().first() {
            return Err(explain(needs_variable(
                &self.inner.analysis,
                table,
                &checks,
            )));
        }
        self.inner.variants.get(self, checks, memories, explain)
    }
}

/// Adds to the refusal of a checked copy why the access that cannot be checked is not proven.
fn explained(mut refusal: Refusal, plan: &Plan, memories: &Memories) -> Error {
    let not_proven = plan.checks(memories, false);
    let accesses = not_proven.iter().map(|check| check.access);
    let access = refusal
        .access
        .filter(|access| accesses.clone().any(|it| it == *access));
    if let Some(access) = access.and_then(|access| plan.contract.accesses.get(access)) {
        refusal.reason = format!(
            "{}, and it is not proven: {}",
            refusal.reason,
            reason(access)
        );
    }
    of_refusal(refusal)
}

impl<'a> SafeLaunch<'a> {
    /// Adds the records of a checked launch, or of a replay of the executable with this identity,
    /// to the reports of its stream.
    pub(crate) fn reporting(stream: &'a Stream, records: LaunchRecords, replays: usize) -> Self {
        let records = Arc::new(records);
        let place = Place {
            context: stream.context().identity(),
            stream: stream.state().id(),
            replays,
        };
        let report: Arc<dyn Report> = Arc::<LaunchRecords>::clone(&records);
        let number = stream.reports().add(place, report);
        Self {
            queue: Target::Stream(stream),
            checked: Some((number, records)),
        }
    }

    /// A launch without checks.
    #[inline]
    pub(crate) fn proven(stream: &'a Stream) -> Self {
        Self {
            queue: Target::Stream(stream),
            checked: None,
        }
    }

    /// A launch that became a node of a graph.
    pub(super) fn captured(context: &'a Context) -> Self {
        Self {
            queue: Target::Capture(context),
            checked: None,
        }
    }

    /// Returns the stream. Fails if the launch was captured.
    fn stream(&self, call: &'static str) -> Result<&'a Stream> {
        match self.queue {
            Target::Stream(stream) => {
                stream.expect_direct(call)?;
                Ok(stream)
            }
            Target::Capture(_) => Err(Error::Unsupported {
                what: "waiting for a launch that was captured; wait for the launches of the graph",
            }),
        }
    }

    /// The launches that a wait for this one waits for: this one and earlier ones on the stream.
    /// For a proven launch, which has no event, all on the stream.
    fn waited(&self, stream: &Stream) -> Waited {
        match &self.checked {
            Some((number, _)) => stream.waited().up_to(*number),
            None => stream.waited(),
        }
    }

    /// The event after a checked launch.
    fn fence(&self) -> Option<&Fence> {
        self.checked.as_ref()?.1.fence()
    }
}

impl SafeLaunch<'_> {
    /// `cuEventSynchronize()`—Waits for the launch. For a launch that was proven, waits for
    /// everything that is queued on its stream (`cuStreamSynchronize()`).
    ///
    /// # Errors
    ///
    /// [`Error::Violation`] with the violations of this launch and of earlier ones on the stream,
    /// unless another call has returned them. A fault of any kernel that was still running.
    /// [`Error::Unsupported`] if the launch was captured.
    #[doc(alias = "cuEventSynchronize")]
    #[doc(alias = "cudaEventSynchronize")]
    pub fn wait(&self) -> Result<()> {
        let stream = self.stream("SafeLaunch::wait")?;
        match self.fence() {
            Some(fence) => fence.synchronize()?,
            None => stream.state().synchronize_explicitly(stream.context())?,
        }
        if reports::any() {
            self.waited(stream).report()?;
        }
        Ok(())
    }

    /// `cuEventQuery()`—Waits as [`wait`](Self::wait) does, but at most for `limit`. Returns
    /// `false` if the launch is not complete then. See [`Event::synchronize_timeout`].
    ///
    /// # Errors
    ///
    /// Fails as [`wait`](Self::wait) does.
    ///
    /// [`Event::synchronize_timeout`]: crate::Event::synchronize_timeout
    #[doc(alias = "cuEventQuery")]
    #[doc(alias = "cudaEventQuery")]
    pub fn wait_timeout(&self, limit: Duration) -> Result<bool> {
        let stream = self.stream("SafeLaunch::wait_timeout")?;
        let is_done = poll(limit, || match self.fence() {
            Some(fence) => Ok(fence.query()?),
            None => stream.is_done(),
        })?;
        if is_done && reports::any() {
            self.waited(stream).report()?;
        }
        Ok(is_done)
    }

    /// `cuStreamWaitEvent()`, `cuLaunchHostFunc()`—Returns a future that is ready when the launch
    /// is complete, and fails as [`wait`](Self::wait) does. `launch.await` is the same.
    #[must_use]
    pub fn completion(&self) -> Completion {
        let stream = match (self.stream("SafeLaunch::completion"), &self.queue) {
            (Ok(stream), _) => stream,
            (Err(error), Target::Stream(stream)) => {
                return Completion::failed(stream.context(), error);
            }
            (Err(error), Target::Capture(context)) => return Completion::failed(context, error),
        };
        let (Some((number, _)), Some(fence)) = (&self.checked, self.fence()) else {
            return stream.completion();
        };
        let mark = Mark::up_to(stream.reports(), stream.waited(), *number);
        Completion::behind(stream.context(), fence.clone()).with_mark(Some(mark))
    }

    /// Returns whether accesses of this launch are checked when they run. If it returns `false`,
    /// all are proven, or the launch was captured: then
    /// [`GraphExec::launch_reported`](crate::GraphExec::launch_reported) reports the violations of
    /// each replay.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.checked.is_some()
    }
}

impl IntoFuture for SafeLaunch<'_> {
    type Output = Result<()>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        self.completion()
    }
}

impl IntoFuture for &SafeLaunch<'_> {
    type Output = Result<()>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        self.completion()
    }
}

impl fmt::Debug for SafeLaunch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SafeLaunch({:?}, checked: {})",
            match self.queue {
                Target::Stream(stream) => stream as &dyn fmt::Debug,
                Target::Capture(_) => &"captured",
            },
            self.is_checked()
        )
    }
}
