//! Borrowed contexts, which other code created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{ptr, thread};

use cuda_driver::context::{ContextFlags, Limit, LivenessToken};
use cuda_driver::error::{Error, Status};
use cuda_driver::memory::ManagedBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::CUctx_st;

use crate::support::{COPY, Fixture, everywhere, new_stream, software};

/// Plays the role of other code: creates a context through raw calls and destroys it when dropped.
pub(crate) struct Foreign {
    driver: Driver,
    raw: *mut CUctx_st,
    destroyed: Arc<AtomicUsize>,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    pub(crate) fn new(fixture: &Fixture) -> Self {
        let driver = fixture.context.driver().clone();
        let mut raw = ptr::null_mut();
        let device = fixture.context.device().as_raw();
        // SAFETY: the pointer is to a local.
        let status = unsafe { driver.library().cuCtxCreate_v2(&raw mut raw, 0, device) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        let mut popped = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        let status = unsafe { driver.library().cuCtxPopCurrent_v2(&raw mut popped) };
        assert_eq!((status, popped), (Status::CUDA_SUCCESS, raw));
        Self {
            driver,
            raw,
            destroyed: Arc::default(),
        }
    }

    pub(crate) fn borrow(&self, token: Arc<dyn LivenessToken>) -> cuda_driver::Result<Context> {
        // SAFETY: the context outlives `self`; the tests drop their handles or declare it dead.
        unsafe { Context::borrow_raw(&self.driver, self.raw, token) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: the context is no longer in use.
        let status = unsafe { self.driver.library().cuCtxDestroy_v2(self.raw) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        self.destroyed.fetch_add(1, Ordering::SeqCst);
    }
}

/// A token that keeps the owner of the context alive.
impl LivenessToken for Foreign {}

pub(crate) fn alive() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

fn copied(context: &Context, words: &[u32]) -> Vec<u32> {
    let n = u32::try_from(words.len()).unwrap();
    let stream = new_stream(context);
    let kernel = Module::load(context, &Ptx::new(COPY).unwrap())
        .unwrap()
        .function("copy")
        .unwrap();
    let input = DeviceBuffer::from_host(context.default_stream().as_ref().unwrap(), words).unwrap();
    let mut output = DeviceBuffer::<u32>::zeroed(&stream, words.len()).unwrap();
    // SAFETY: the kernel reads n words of the one and writes n of the other; each has n.
    unsafe {
        stream.launch(
            &kernel,
            LaunchConfig::for_num_elems(n).unwrap(),
            (&input, &mut output, n),
        )
    }
    .unwrap();
    output.to_vec().unwrap()
}

#[test]
fn borrowed_context_works_and_is_not_destroyed() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let context = foreign.borrow(alive()).unwrap();
        assert!(context.is_borrowed() && !context.is_primary());
        assert_eq!(context.device(), fixture.context.device());
        let words: Vec<u32> = (0..1000).collect();
        assert_eq!(copied(&context, &words), words, "{}", fixture.name);
        context.close().unwrap();
        // The context still exists, unchanged.
        assert_eq!(copied(&foreign.borrow(alive()).unwrap(), &words), words);
        drop(foreign);
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().contexts, 1, "{}", simulator.live());
        }
    }
}

#[test]
fn two_borrows_of_one_context_are_equal() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let (one, two) = (
            foreign.borrow(alive()).unwrap(),
            foreign.borrow(alive()).unwrap(),
        );
        assert_eq!(one, two);
        // A buffer of one handle is ordered with work on a stream of the other.
        let kernel = Module::load(&two, &Ptx::new(COPY).unwrap())
            .unwrap()
            .function("copy")
            .unwrap();
        let (owning, other) = (new_stream(&one), new_stream(&two));
        let source = DeviceBuffer::from_host(&owning, &[3_u32; 4096]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&owning, 4096).unwrap();
        // SAFETY: the kernel reads 4096 words of the one and writes as many of the other.
        unsafe {
            other.launch(
                &kernel,
                LaunchConfig::for_num_elems(4096).unwrap(),
                (&source, &mut target, 4096_u32),
            )
        }
        .unwrap();
        assert_eq!(target.to_vec().unwrap(), [3; 4096]);
        drop((owning, other, source, target, kernel, one, two));
    }
}

#[test]
fn borrowing_a_known_context_returns_another_handle() {
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        for context in [&fixture.context, &own] {
            // SAFETY: the context is alive and its reference is counted.
            let again = unsafe { Context::borrow_raw(driver, context.as_raw(), alive()) }.unwrap();
            assert_eq!(again, *context);
            assert!(!again.is_borrowed());
        }
    }
}

#[test]
fn borrowing_a_primary_context_retains_it() {
    let fixture = software(Builder::new().devices(2));
    let driver = fixture.context.driver();
    let device = driver.device(1).unwrap();
    let mut raw = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe {
        driver
            .library()
            .cuDevicePrimaryCtxRetain(&raw mut raw, device.as_raw())
    };
    assert_eq!(status, Status::CUDA_SUCCESS);
    // SAFETY: the context is alive, and the handle holds a reference from here on.
    let context = unsafe { Context::borrow_raw(driver, raw, alive()) }.unwrap();
    assert!(context.is_primary());
    assert_eq!(context, device.primary_context().unwrap());
    // SAFETY: this releases the reference retained above.
    let status = unsafe {
        driver
            .library()
            .cuDevicePrimaryCtxRelease_v2(device.as_raw())
    };
    assert_eq!(status, Status::CUDA_SUCCESS);
    assert_eq!(copied(&context, &[1, 2, 3]), [1, 2, 3]);
    drop(context);
    assert!(!device.primary_context_state().unwrap().is_active);
}

#[test]
fn the_last_object_drops_a_token_that_owns_the_context() {
    for fixture in everywhere() {
        let foreign = Arc::new(Foreign::new(&fixture));
        let destroyed = Arc::clone(&foreign.destroyed);
        let token: Arc<dyn LivenessToken> = Arc::clone(&foreign) as _;
        let context = foreign.borrow(token).unwrap();
        drop(foreign);
        let stream = new_stream(&context);
        let buffer = DeviceBuffer::from_host(&stream, &[5_u8; 10]).unwrap();
        drop((context, stream));
        assert_eq!(destroyed.load(Ordering::SeqCst), 0);
        assert_eq!(buffer.to_vec().unwrap(), [5; 10]);
        thread::spawn(move || drop(buffer)).join().unwrap();
        assert_eq!(destroyed.load(Ordering::SeqCst), 1, "{}", fixture.name);
    }
}

#[test]
fn calls_in_a_dead_context_fail_without_the_driver() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let stream = new_stream(&context);
        let event = Event::new(&context, EventFlags::empty()).unwrap();
        let module = Module::load(&context, &Ptx::new(COPY).unwrap()).unwrap();
        let kernel = module.function("copy").unwrap();
        let mut buffer = DeviceBuffer::from_host(&stream, &[5_u32; 8]).unwrap();
        let source = DeviceBuffer::from_host(&stream, &[5_u32; 8]).unwrap();
        let living = fixture.stream();
        let mut elsewhere = DeviceBuffer::from_host(&living, &[1_u32; 8]).unwrap();
        context.synchronize().unwrap();

        token.store(false, Ordering::Release);
        drop(foreign);
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        let results = [
            ("synchronize", context.synchronize()),
            ("memory_info", context.memory_info().map(drop)),
            ("limit", context.limit(Limit::STACK_SIZE).map(drop)),
            ("flags", context.flags().map(drop)),
            ("id", context.id().map(drop)),
            ("api_version", context.api_version().map(drop)),
            ("make_current", context.make_current().map(drop)),
            ("default_stream", context.default_stream().map(drop)),
            (
                "Stream::new",
                Stream::new(&context, StreamFlags::empty(), 0).map(drop),
            ),
            (
                "Event::new",
                Event::new(&context, EventFlags::empty()).map(drop),
            ),
            ("record", event.record(&stream)),
            ("is_done", event.is_done().map(drop)),
            ("event.synchronize", event.synchronize()),
            ("stream.synchronize", stream.synchronize()),
            ("stream.is_done", stream.is_done().map(drop)),
            ("wait", stream.wait(&event)),
            ("a living stream waits", living.wait(&event)),
            (
                "Module::load",
                Module::load(&context, &Ptx::new(COPY).unwrap()).map(drop),
            ),
            ("function", module.function("copy").map(drop)),
            ("zeroed", DeviceBuffer::<u32>::zeroed(&stream, 8).map(drop)),
            ("to_vec", buffer.to_vec().map(drop)),
            ("copy_from_host", buffer.copy_from_host(&[0; 8])),
            (
                "copy_from",
                buffer.as_mut_slice().copy_from(source.as_slice()),
            ),
            (
                "copy_from_peer, from it",
                elsewhere.as_mut_slice().copy_from_peer(source.as_slice()),
            ),
            (
                "copy_from_peer, to it",
                buffer.as_mut_slice().copy_from_peer(elsewhere.as_slice()),
            ),
            // SAFETY: the kernel reads 8 words of the one and writes 8 of the other; each has 8.
            ("launch", unsafe {
                stream.launch(
                    &kernel,
                    LaunchConfig::for_num_elems(8).unwrap(),
                    (&source, &mut buffer, 8_u32),
                )
            }),
            ("close", source.close()),
        ];
        for (what, result) in results {
            let error = result.unwrap_err();
            assert!(
                matches!(error, Error::ContextGone { .. }),
                "{}, {what}: {error}",
                fixture.name
            );
            assert_eq!(
                error.status(),
                Some(Status::CUDA_ERROR_CONTEXT_IS_DESTROYED)
            );
        }
        drop((buffer, kernel, module, event, stream, context));
        if let Some(simulator) = &fixture.simulator {
            let calls = simulator.calls();
            assert!(calls.is_empty(), "{calls:?}");
        }
        assert_eq!(elsewhere.to_vec().unwrap(), [1; 8]);
    }
}

#[test]
fn uses_by_a_dead_context_count_as_complete() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let mut source = DeviceBuffer::from_host(&fixture.stream(), &[5_u32; 8]).unwrap();
        {
            let stream = new_stream(&context);
            let mut copy = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
            copy.as_mut_slice()
                .copy_from_peer(source.as_slice())
                .unwrap();
            context.synchronize().unwrap();
        }
        drop(context);
        token.store(false, Ordering::Release);
        drop(foreign);
        source.copy_from_host(&[6; 8]).unwrap();
        assert_eq!(source.to_vec().unwrap(), [6; 8], "{}", fixture.name);
    }
}

#[test]
fn dead_token_fails_all_borrows_of_the_context() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let dead = Arc::new(AtomicBool::new(false));
        let error = foreign.borrow(dead).unwrap_err();
        assert!(matches!(error, Error::ContextGone { .. }), "{error}");
        let tokens = [alive(), alive()];
        let [one, _two] = [0, 1].map(|i| foreign.borrow(Arc::clone(&tokens[i]) as _).unwrap());
        one.synchronize().unwrap();
        tokens[1].store(false, Ordering::Release);
        let error = one.synchronize().unwrap_err();
        assert!(matches!(error, Error::ContextGone { .. }), "{error}");
        // A context that was declared dead stays dead.
        tokens[1].store(true, Ordering::Release);
        assert!(one.synchronize().is_err());
        // A new borrow starts a new lifetime: the same raw handle may name another context by now.
        let again = foreign.borrow(alive()).unwrap();
        assert_ne!(again, one);
        again.synchronize().unwrap();
        drop(again);
    }
}

#[test]
fn the_current_context_is_returned_if_it_is_known() {
    for fixture in everywhere() {
        thread::scope(|scope| {
            scope.spawn(|| {
                let driver = fixture.context.driver();
                assert_eq!(Context::current(driver).unwrap(), None);
                let foreign = Foreign::new(&fixture);
                // SAFETY: the context is alive.
                let status = unsafe { driver.library().cuCtxSetCurrent(foreign.raw) };
                assert_eq!(status, Status::CUDA_SUCCESS);
                let of = "this thread";
                assert_eq!(Context::current(driver), Err(Error::ForeignContext { of }));
                let borrowed = foreign.borrow(alive()).unwrap();
                assert_eq!(Context::current(driver).unwrap().as_ref(), Some(&borrowed));
                // SAFETY: the context is alive.
                let status = unsafe { driver.library().cuCtxSetCurrent(fixture.context.as_raw()) };
                assert_eq!(status, Status::CUDA_SUCCESS);
                assert_eq!(
                    Context::current(driver).unwrap().as_ref(),
                    Some(&fixture.context)
                );
                // SAFETY: a null pointer makes no context current.
                unsafe { driver.library().cuCtxSetCurrent(ptr::null_mut()) };
            });
        });
    }
}

#[test]
fn page_locked_memory_outlives_a_context_that_others_destroy() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let stream = new_stream(&context);
        let words: Vec<u32> = (0..100_000).map(|i| i * 7 + 1).collect();
        let mut pinned =
            PinnedBuffer::<u32>::zeroed(&context, 100_000, PinnedFlags::DEVICE_MAP).unwrap();
        let mut buffer = DeviceBuffer::from_host(&stream, &words).unwrap();
        buffer.copy_to_pinned(&mut pinned).unwrap();
        buffer.copy_from_pinned(&pinned).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), words);
        let flags = PinnedFlags::WRITE_COMBINED;
        let error = PinnedBuffer::<u32>::zeroed(&context, 1, flags).unwrap_err();
        assert!(
            matches!(error, Error::UnsafeFlags { bits: 4, .. }),
            "{error}"
        );
        context.synchronize().unwrap();
        token.store(false, Ordering::SeqCst);
        drop(foreign);
        assert_eq!(*pinned, *words);
        pinned[0] = 5;
        assert_eq!(pinned.iter().copied().max(), words.last().copied());
        assert!(matches!(
            buffer.copy_from_pinned(&pinned),
            Err(Error::ContextGone { .. })
        ));
        assert!(pinned.close().is_err());
    }
}

#[test]
fn the_host_gets_no_slice_of_memory_that_others_can_destroy() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let context = foreign.borrow(alive()).unwrap();
        let stream = context.default_stream().unwrap();
        let mut managed = ManagedBuffer::from_host(&stream, &[5_u32; 100]).unwrap();
        for result in [managed.host().map(drop), managed.host_mut().map(drop)] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        }
        assert_eq!(managed.to_vec().unwrap(), [5; 100]);
        drop((managed, stream, context));
    }
}

#[test]
fn a_scope_ends_though_its_context_was_declared_dead_in_it() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let stream = new_stream(&context);
        let buffer = DeviceBuffer::from_host(&stream, &[3_u32; 100]).unwrap();
        let flags = PinnedFlags::empty();
        let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 100, flags).unwrap();
        stream
            .copy_scope(|scope| {
                scope.copy_to_host(buffer.as_slice(), &mut pinned)?;
                context.synchronize()?;
                token.store(false, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
        assert_eq!(*pinned, [3; 100], "{}", fixture.name);
        drop((buffer, stream, context));
    }
}

#[test]
fn a_transfer_returns_its_memory_if_its_context_is_dead() {
    for fixture in everywhere() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let stream = new_stream(&context);
        let buffer = DeviceBuffer::from_host(&stream, &[3_u32; 9]).unwrap();
        let pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, 9, PinnedFlags::empty());
        let transfer = buffer
            .copy_to_pinned_async(pinned.unwrap(), &stream)
            .unwrap();
        context.synchronize().unwrap();
        token.store(false, Ordering::SeqCst);
        let error = transfer.wait().unwrap_err();
        let is_gone = matches!(error.error(), Error::ContextGone { .. });
        assert!(is_gone, "{error}");
        assert_eq!(*error.into_memory().unwrap(), [3; 9], "{}", fixture.name);
    }
}

#[test]
fn host_waits_for_managed_memory_read_by_dead_context() {
    for fixture in everywhere() {
        if !fixture
            .context
            .device()
            .has_concurrent_managed_access()
            .unwrap()
        {
            continue;
        }
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let context = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let mut source = ManagedBuffer::from_host(&fixture.stream(), &[4_u32; 100]).unwrap();
        {
            let stream = context.default_stream().unwrap();
            let mut copy = DeviceBuffer::<u32>::zeroed(&stream, 100).unwrap();
            copy.as_mut_slice()
                .copy_from_peer(source.as_slice())
                .unwrap();
            context.synchronize().unwrap();
        }
        token.store(false, Ordering::SeqCst);
        drop((context, foreign));
        source.host_mut().unwrap()[7] = 9;
        assert_eq!(source.host().unwrap()[6..8], [4, 9], "{}", fixture.name);
    }
}
