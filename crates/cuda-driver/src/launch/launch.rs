//! Launches of kernels on streams.

use super::conflict::{expect_no_conflict, writes_array};
use super::{KernelArgs, LaunchAttributes, LaunchConfig, Values};
use cuda_sys::{CUlaunchAttribute, LaunchUse};

use crate::context::{Context, ReplayLock};
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::function::Function;
use crate::memory::{is_array_number, recorder_of};
use crate::observer::{KernelLaunch, Work};
use crate::stream::Stream;
use crate::subscriber::event;
use crate::tracking::{Blocked, Scope, retry};
use crate::types::WorkKind;

/// Kernel launches.
impl Stream {
    /// `cuLaunchKernel(function, config, args)`—Queues a kernel on this stream.
    ///
    /// `args` is a tuple: numbers and structs by value; a buffer or view as `&buffer` if the kernel
    /// only reads it and as `&mut buffer` if the kernel writes it. The launch waits for conflicting
    /// uses of the buffers on other streams, and later conflicting uses wait for the launch.
    ///
    /// # Errors
    ///
    /// These errors are found before the driver is called:
    /// [`Error::Argument`] if the number or the sizes of the arguments
    /// differ from the kernel's parameters, or if one of the two is a
    /// float and the other an integer, [`Error::LaunchConfig`] if
    /// the device or the kernel does not allow the configuration,
    /// [`Error::OtherContext`] if the kernel, a buffer and the stream
    /// do not belong to one context. A fault of the kernel itself is reported by a later call.
    ///
    /// # Safety
    ///
    /// With these arguments the kernel only accesses memory that the arguments permit: it reads and
    /// writes within the lengths of the buffers, and writes only to buffers that were passed as
    /// `&mut` or [in place](crate::memory::InPlace). If several arguments refer to the same
    /// elements, the kernel permits it: for example, the parameters are not `__restrict__`. The
    /// arguments have the types that the kernel expects. Only their sizes are checked, and floats
    /// against integers if the image is PTX or was compiled by cuda-nvrtc. Variables of the
    /// kernel's module that the kernel uses by name are not used at the same time on other streams
    /// ([`Module::global`](crate::Module::global)). If an [eager
    /// capture](crate::graph::EagerCapture) captures the launch, the contract of
    /// [`Graph::add_kernel`](crate::Graph::add_kernel) applies.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    #[inline(always)]
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        function.check_packed(args.packed(), args.sizes(), args.types())?;
        // SAFETY: the sizes must match the parameters ← checked above; the caller guarantees the
        // rest.
        unsafe { self.queue(function, config, None, args) }
    }

    /// `cuLaunchKernelEx(function, config, attributes, args)`—Queues a kernel with launch
    /// attributes: cooperative, with clusters, dependent on the previous launch, and more.
    ///
    /// # Errors
    ///
    /// Fails as [`launch`](Self::launch) does. An attribute that the driver or the device does not
    /// know or does not allow is `CUDA_ERROR_INVALID_VALUE`, `CUDA_ERROR_NOT_SUPPORTED` or an error
    /// that names the limit.
    ///
    /// # Safety
    ///
    /// The requirements of [`launch`](Self::launch) apply. With
    /// [`programmatic_serialization`](LaunchAttributes::programmatic_serialization) the kernel also
    /// has to wait before it accesses memory that an earlier launch on this stream uses.
    #[doc(alias = "cuLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelEx")]
    #[doc(alias = "cudaLaunchKernelExC")]
    #[doc(alias = "cuLaunchCooperativeKernel")]
    #[doc(alias = "cudaLaunchCooperativeKernel")]
    pub unsafe fn launch_with<A: KernelArgs>(
        &self,
        function: &Function,
        config: LaunchConfig,
        attributes: &LaunchAttributes<'_>,
        args: A,
    ) -> Result<()> {
        function.check_packed(args.packed(), args.sizes(), args.types())?;
        // SAFETY: the sizes must match the parameters ← checked above; the caller guarantees the
        // rest.
        unsafe { self.queue(function, config, Some(attributes), args) }
    }

    /// The common path of every launch.
    ///
    /// # Safety
    ///
    /// The requirements of [`launch`](Self::launch) apply, and the arguments have the number and
    /// sizes of the kernel's parameters.
    // Inlined because the facts known at the call site (whether there are attributes, and the types
    // of the arguments) save a third of the work.
    #[inline(always)]
    pub(crate) unsafe fn queue<A: KernelArgs>(
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
        if !args.are_in_order(id) || !(state.launches_directly() || state.is_not_captured()?) {
            // SAFETY: the caller upholds the contract of `queue`, which is that of
            // `queue_in_order`.
            return unsafe { self.queue_in_order(function, &config, attributes, args) };
        }
        // SAFETY: the caller upholds the contract of `queue`, and no argument needs a wait
        // (`are_in_order`).
        unsafe { self.call(function, &config, attributes, &args) }?;
        if !args.need_no_record(id, state.epoch()) {
            commit(&mut Scope::new(self), args);
        }
        Ok(())
    }

    /// Does the work of [`queue`](Self::queue) if the stream may have to wait for something, or is
    /// one of C's default streams or has an observer, or if a software driver asks for the memory
    /// of launches.
    ///
    /// # Safety
    ///
    /// The requirements of [`queue`](Self::queue) apply.
    #[cold]
    unsafe fn queue_in_order<A: KernelArgs>(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: A,
    ) -> Result<()> {
        if let Some(recorder) = recorder_of(self, "a launch")? {
            // SAFETY: the caller upholds the contract of `queue`, which is that of `record`.
            return unsafe { self.record(&*recorder, function, config, attributes, &args) };
        }
        let contexts = contexts_of_peers(self, &args);
        // The locks are released before the scope is dropped.
        let (mut scope, _locks) = retry(|| {
            // A graph of any of these contexts may use the memory.
            let locks = ReplayLock::lock_all(contexts.iter().map(Context::replay_lock));
            let scope = Scope::new(self);
            acquire(&scope, &args)?;
            Ok::<_, Blocked<Error>>((scope, locks))
        })?;
        if let Some(receive) = self.driver().library().launch_uses() {
            state_uses(receive, &args);
        }
        let launch = || {
            // SAFETY: the caller upholds the contract of `queue`, and `acquire` has queued the
            // waits.
            unsafe { self.call(function, config, attributes, &args) }
        };
        if cfg!(feature = "profile") && self.state().observer().is_set() {
            observed(self, function, config, &args, launch)?;
        } else {
            launch()?;
        }
        commit(&mut scope, args);
        Ok(())
    }

    /// # Safety
    ///
    /// The requirements of [`queue`](Self::queue) apply, and the stream has waited for all
    /// conflicting uses of the arguments.
    #[inline(always)]
    unsafe fn call<A: KernelArgs>(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: &A,
    ) -> Result<()> {
        // The event comes before the call, so that no code of the program runs between the launch
        // and the record of the memory that it uses.
        event!(
            trace,
            kernel = function.name(),
            stream = self.as_raw().addr(),
            blocks = config.grid.count(),
            threads = config.block.count(),
            "launch"
        );
        match attributes {
            None => {
                let queued = args.with_values(function.layout(), |values| {
                    // SAFETY: the caller upholds the contract; `with_values` makes `values` from
                    // `args`.
                    unsafe { self.call_launch(function, config, values) }
                });
                queued.map_err(|error| function.limit_error(self, error, config, None))?;
            }
            Some(attributes) => {
                function.check_cluster(config, attributes.cluster_blocks())?;
                let raw = attributes.for_launch(self.context())?;
                let queued = args.with_values(function.layout(), |values| {
                    // SAFETY: the caller upholds the contract; `with_values` makes `values` from
                    // `args`.
                    unsafe { self.call_launch_ex(function, config, raw, values) }
                });
                queued
                    .map_err(|error| function.limit_error(self, error, config, Some(attributes)))?;
            }
        }
        self.state().launches().record(function.launch_name());
        Ok(())
    }

    /// # Safety
    ///
    /// `values` have the sizes of the parameters, a packed block has their layout, and the kernel
    /// only accesses memory that it may access.
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
        // SAFETY: the function and the stream must be alive, one of the forms must hold a value of
        // each parameter's size, and the kernel must stay within its memory ← both are borrowed;
        // the caller guarantees the rest.
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
    /// The requirements of [`call_launch`](Self::call_launch) apply.
    pub(crate) unsafe fn call_launch_ex(
        &self,
        function: &Function,
        config: &LaunchConfig,
        attributes: &[CUlaunchAttribute],
        values: Values,
    ) -> Result<(), DriverError> {
        let config = config.raw(self.as_raw(), attributes);
        // SAFETY: as in `call_launch`; in addition the attributes must be valid during the call ←
        // they are borrowed, and the driver only reads them.
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

/// Returns the contexts of the memory that the arguments refer to and of `stream`, or nothing if
/// all memory belongs to the context of `stream`.
fn contexts_of_peers<A: KernelArgs>(stream: &Stream, args: &A) -> Vec<Context> {
    let mut contexts = Vec::new();
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| {
        contexts.extend(tracked.peer_context().cloned());
        Ok(())
    });
    if !contexts.is_empty() {
        contexts.push(stream.context().clone());
    }
    contexts
}

/// Calls `launch`, and reports it to the observer of the stream.
#[cold]
fn observed<A: KernelArgs>(
    stream: &Stream,
    function: &Function,
    config: &LaunchConfig,
    args: &A,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let mut bytes = 0;
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| {
        bytes += tracked.bytes;
        Ok(())
    });
    let work = Work {
        name: function.name(),
        kernel: Some(KernelLaunch {
            config: *config,
            resources: &|| function.resources(config),
        }),
        ..Work::of_kind(WorkKind::Kernel, bytes)
    };
    stream.observe(&work, launch)
}

/// Makes the stream of `scope` wait for the uses that conflict with those of a launch.
pub(super) fn acquire<A: KernelArgs>(scope: &Scope<'_>, args: &A) -> Result<(), Blocked<Error>> {
    scope.ready()?;
    let mut is_array_written = false;
    args.each_tracked(&mut |tracked| {
        is_array_written |= writes_array(&tracked);
        if let Some(peer) = tracked.peer_context()
            && !peer.replay_lock().is_held()
        {
            return Err(Error::Unsupported {
                what: "using memory of another context except in a launch; copy it to this context \
                       first",
            });
        }
        if let Some(memory) = tracked.memory {
            scope.lock_replays_if_needed(&memory.tracker);
        }
        Ok(())
    })?;
    if is_array_written {
        expect_no_conflict(args)?;
    }
    let mut blocked = None;
    args.each_tracked(&mut |tracked| match tracked.acquire(scope) {
        Ok(()) => Ok(()),
        Err(Blocked::Failed(error)) => Err(error),
        Err(wait) => {
            blocked = Some(wait);
            Ok(())
        }
    })?;
    blocked.map_or(Ok(()), Err)
}

/// Passes to a software driver which memory the next launch of this thread accesses, and how.
#[cold]
fn state_uses<A: KernelArgs>(receive: fn(&[LaunchUse]), args: &A) {
    let mut uses = Vec::new();
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| {
        if is_array_number(tracked.address) {
            // An array has no address.
            return Ok(());
        }
        uses.push(LaunchUse {
            argument: tracked.argument.into(),
            address: tracked.address,
            bytes: tracked.bytes,
            is_written: tracked.access.is_write(),
        });
        Ok(())
    });
    receive(&uses);
}

/// Records the uses of a launch that was just queued in `scope`.
#[cold]
pub(super) fn commit<A: KernelArgs>(scope: &mut Scope<'_>, args: A) {
    // The closure never fails.
    let _ = args.each_tracked(&mut |tracked| {
        tracked.commit(scope);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use cuda_sim::Builder;

    use super::{Scope, acquire};
    use crate::driver::Driver;
    use crate::launch::{KernelArg, Tracked};
    #[cfg(debug_assertions)]
    use crate::lock::locked;
    use crate::memory::DeviceBuffer;
    use crate::stream::{Stream, StreamFlags};

    /// An argument without memory that notes whether the thread holds the replay lock whenever the
    /// launch asks for its memory.
    struct Probe<'a>(&'a Stream, &'a RefCell<Vec<bool>>);

    // SAFETY: `Value` must be what the kernel expects ← nothing is launched.
    unsafe impl KernelArg for Probe<'_> {
        type Value = u32;

        fn value(&self) -> u32 {
            0
        }

        fn tracked(&self) -> Option<Tracked<'_>> {
            let is_held = self.0.context().replay_lock().is_held();
            self.1.borrow_mut().push(is_held);
            None
        }
    }

    /// The memory of the first argument has no aliases yet. Another thread could write it through
    /// its first alias as soon as it is acquired, unless the launch holds the lock by then.
    #[test]
    fn the_lock_is_taken_before_the_first_argument() {
        let simulator = Builder::new().build().unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let plain = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let mut other = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        other.allow_aliases().unwrap();
        let held = RefCell::default();
        let probe = || Probe(&stream, &held);

        let args = (probe(), &plain, probe(), &other);
        let scope = Scope::new(&stream);
        assert!(acquire(&scope, &args).is_ok());
        let held = held.take();
        // Both probes are asked before the lock is taken, and again while the memory is acquired.
        assert_eq!(held, [false, false, true, true]);
        drop(scope);
        assert!(!context.replay_lock().is_held());
    }

    /// Nothing that observes a program locks a mutex in a launch while it is off.
    #[cfg(debug_assertions)]
    #[test]
    fn a_launch_locks_no_mutex_while_nothing_is_observed() {
        use crate::Ptx;
        use crate::launch::LaunchConfig;
        use crate::module::Module;

        let simulator = Builder::new().build().unwrap();
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let ptx = include_str!("../../tests/it/kernels/copy.ptx");
        let module = Module::load(&context, &Ptx::new(ptx).unwrap()).unwrap();
        let copy = module.function("copy").unwrap();
        let from = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut to = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut locks_of_a_launch = || {
            let before = locked();
            // SAFETY: the kernel copies 8 words, and both buffers have 8.
            unsafe { stream.launch(&copy, LaunchConfig::new(1, 8), (&from, &mut to, 8_u32)) }
                .unwrap();
            locked() - before
        };
        assert_eq!(locks_of_a_launch(), 0);
        #[cfg(feature = "profile")]
        {
            let profiler = crate::profile::Profiler::start(&context).unwrap();
            assert!(locks_of_a_launch() > 0);
            drop(profiler);
            assert_eq!(locks_of_a_launch(), 0);
        }
    }
}
