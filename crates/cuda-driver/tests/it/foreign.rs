//! Streams, events and modules of other code, and work that other code queues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sys::{CUmodule, CUstream, CUstreamCaptureMode};

use crate::support::{
    COPY, Fixture, assert_all, everywhere, filled, late_devices, launch_copy, new_stream,
};
use crate::task::until;

pub(crate) const N: u32 = 1 << 12;

/// A stream that raw calls create. It is destroyed and counted when it is dropped.
struct RawStream {
    driver: Driver,
    raw: CUstream,
    destroyed: Arc<AtomicUsize>,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

impl RawStream {
    fn new(context: &Context, flags: StreamFlags) -> Self {
        let driver = context.driver().clone();
        let mut raw = ptr::null_mut();
        let _current = context.make_current().unwrap();
        // SAFETY: the pointer is to a local.
        let status = unsafe { driver.library().cuStreamCreate(&raw mut raw, flags.bits()) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        Self {
            driver,
            raw,
            destroyed: Arc::default(),
        }
    }

    /// Borrows the stream, which becomes its own owner. Returns the count of destroyed streams too.
    fn borrow(self, context: &Context) -> (cuda_driver::Result<Stream>, Arc<AtomicUsize>) {
        let (raw, destroyed) = (self.raw, Arc::clone(&self.destroyed));
        // SAFETY: the stream is alive until `self` is dropped, and nothing captures it.
        (unsafe { Stream::borrow_raw(context, raw, self) }, destroyed)
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream any more.
        let status = unsafe { self.driver.library().cuStreamDestroy_v2(self.raw) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        self.destroyed.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn borrowed(fixture: &Fixture, flags: StreamFlags) -> (Stream, Arc<AtomicUsize>) {
    let (stream, destroyed) = RawStream::new(&fixture.context, flags).borrow(&fixture.context);
    (stream.unwrap(), destroyed)
}

#[test]
fn uses_on_a_borrowed_stream_are_ordered() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        for flags in [StreamFlags::NON_BLOCKING, StreamFlags::DEFAULT] {
            let (foreign, destroyed) = borrowed(&fixture, flags);
            assert!(foreign.is_borrowed());
            let own = fixture.stream();
            let mut source = filled(&own, N, 1);
            let mut middle = filled(&foreign, N, 0);
            let mut result = filled(&own, N, 0);
            launch_copy(&kernel, &foreign, &source, &mut middle).unwrap();
            launch_copy(&kernel, &own, &middle, &mut result).unwrap();
            source.as_mut_slice().fill(5).unwrap();
            middle.as_mut_slice().fill(6).unwrap();
            assert_all(&result, 1, &fixture.name);
            assert_all(&middle, 6, &fixture.name);
            drop((middle, result, source));
            assert_eq!(destroyed.load(Ordering::SeqCst), 0);
            drop(foreign);
            assert_eq!(destroyed.load(Ordering::SeqCst), 1);
        }
    }
}

#[test]
fn handles_of_one_stream_are_equal() {
    for fixture in everywhere() {
        let context = &fixture.context;
        let (foreign, destroyed) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        // SAFETY: `foreign` keeps the stream alive, and nothing captures it.
        let again = unsafe { Stream::borrow_raw(context, foreign.as_raw(), ()) }.unwrap();
        assert_eq!(again, foreign);
        drop(foreign);
        assert_eq!(destroyed.load(Ordering::SeqCst), 0);
        drop(again);
        assert_eq!(destroyed.load(Ordering::SeqCst), 1);

        for own in [fixture.stream(), context.default_stream().unwrap()] {
            let dropped = Arc::new(());
            // SAFETY: `own` keeps the stream alive, and nothing captures it.
            let again =
                unsafe { Stream::borrow_raw(context, own.as_raw(), Arc::clone(&dropped)) }.unwrap();
            assert_eq!(again, own);
            assert!(!again.is_borrowed());
            assert_eq!(Arc::strong_count(&dropped), 1);
        }
    }
}

#[test]
fn default_handles_are_the_default_streams() {
    for fixture in everywhere() {
        let context = &fixture.context;
        for (raw, expected) in [
            (0, context.legacy_stream()),
            (1, context.legacy_stream()),
            (2, context.per_thread_stream()),
        ] {
            // SAFETY: these handles are always valid.
            let stream =
                unsafe { Stream::borrow_raw(context, ptr::without_provenance_mut(raw), ()) };
            assert_eq!(stream.unwrap(), expected);
        }
    }
}

#[test]
fn a_stream_of_another_context_is_refused() {
    for fixture in everywhere() {
        let other = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let (refused, destroyed) =
            RawStream::new(&other, StreamFlags::NON_BLOCKING).borrow(&fixture.context);
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        assert_eq!(destroyed.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_stream_in_capture_is_refused() {
    for fixture in everywhere() {
        let foreign = RawStream::new(&fixture.context, StreamFlags::NON_BLOCKING);
        let table = foreign.driver.library().clone();
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let raw = foreign.raw;
        // SAFETY: the stream is alive.
        let status = unsafe { table.cuStreamBeginCapture_v2(raw, relaxed) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        // SAFETY: the stream is alive as long as `foreign`; this crate queues nothing on it.
        let error = unsafe { Stream::borrow_raw(&fixture.context, raw, ()) }.unwrap_err();
        assert!(matches!(error, Error::Capturing { .. }), "{error}");
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is alive, and the pointer is to a local.
        let status = unsafe { table.cuStreamEndCapture(raw, &raw mut graph) };
        assert_eq!(status, Status::CUDA_SUCCESS, "the capture is intact");
        // SAFETY: the graph was created just now, and is not used afterwards.
        let status = unsafe { table.cuGraphDestroy(graph) };
        assert_eq!(status, Status::CUDA_SUCCESS);
    }
}

#[test]
fn streams_wait_for_a_borrowed_event() {
    for fixture in late_devices(4) {
        let (writer, reader) = (fixture.stream(), fixture.stream());
        let owner = Arc::new(writer.record_event().unwrap());
        // SAFETY: `owner` keeps the event alive, and nothing captures it.
        let event =
            unsafe { Event::borrow_raw(&fixture.context, owner.as_raw(), Arc::clone(&owner)) };
        let buffer = filled(&writer, N, 3);
        event.record(&writer).unwrap();
        reader.wait(&event).unwrap();
        reader.synchronize().unwrap();
        assert!(owner.is_done().unwrap(), "{}", fixture.name);
        assert_all(&buffer, 3, &fixture.name);
        drop(event);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

/// A module that raw calls load. It is unloaded and counted when it is dropped.
struct RawModule {
    driver: Driver,
    raw: CUmodule,
    unloaded: Arc<AtomicUsize>,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for RawModule {}
// SAFETY: as above.
unsafe impl Sync for RawModule {}

impl Drop for RawModule {
    fn drop(&mut self) {
        // SAFETY: nothing uses the module any more.
        let status = unsafe { self.driver.library().cuModuleUnload(self.raw) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        self.unloaded.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_borrowed_module_is_released_after_its_kernels() {
    for fixture in late_devices(4) {
        let driver = fixture.context.driver().clone();
        let mut raw = ptr::null_mut();
        let image = std::ffi::CString::new(COPY).unwrap();
        let current = fixture.context.make_current().unwrap();
        // SAFETY: the pointer is to a local, and the image ends with NUL.
        let status = unsafe {
            driver
                .library()
                .cuModuleLoadData(&raw mut raw, image.as_ptr().cast())
        };
        assert_eq!(status, Status::CUDA_SUCCESS);
        drop(current);
        let unloaded = Arc::new(AtomicUsize::new(0));
        let owner = RawModule {
            driver,
            raw,
            unloaded: Arc::clone(&unloaded),
        };
        // SAFETY: the owner unloads the module when it is dropped; the module has no variables.
        let module = unsafe { Module::borrow_raw(&fixture.context, raw, owner) };
        let kernel = module.function("copy").unwrap();
        drop(module);
        let stream = fixture.stream();
        let (source, mut result) = (filled(&stream, N, 8), filled(&stream, N, 0));
        launch_copy(&kernel, &stream, &source, &mut result).unwrap();
        assert_eq!(unloaded.load(Ordering::SeqCst), 0);
        drop(kernel);
        assert_all(&result, 8, &fixture.name);
        until("the owner is dropped", Duration::from_secs(20), || {
            unloaded.load(Ordering::SeqCst) == 1
        });
    }
}

#[test]
fn a_borrowed_kernel_keeps_its_owner() {
    for fixture in late_devices(4) {
        let owner = Arc::new(fixture.kernel(COPY, "copy"));
        // SAFETY: `owner` keeps the module loaded, which has no variables.
        let kernel =
            unsafe { Function::borrow_raw(&fixture.context, owner.as_raw(), Arc::clone(&owner)) };
        let kernel = kernel.unwrap();
        assert_eq!(kernel.name(), "copy");
        let sizes = |of: &Function| -> Vec<usize> {
            let parameters = of.parameters().unwrap_or_default();
            parameters.iter().map(|it| it.size).collect()
        };
        assert_eq!(sizes(&kernel), sizes(&owner));
        let stream = fixture.stream();
        let (source, mut result) = (filled(&stream, N, 8), filled(&stream, N, 0));
        launch_copy(&kernel, &stream, &source, &mut result).unwrap();
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(kernel);
        assert_all(&result, 8, &fixture.name);
        let limit = Duration::from_secs(20);
        until("the owner is dropped", limit, || {
            Arc::strong_count(&owner) == 1
        });
    }
}

/// Queues a raw copy of `N` words from `source` to `target` through `using`.
pub(crate) fn raw_copy(
    stream: &Stream,
    source: &DeviceBuffer<u32>,
    target: &mut DeviceBuffer<u32>,
) -> cuda_driver::Result<()> {
    let table = stream.context().driver().library().clone();
    let (from, to) = (source.as_raw(), target.as_raw());
    // SAFETY: both ranges have N words, which the stream may use while `using` runs the closure.
    let copy = |raw| unsafe { table.cuMemcpyDtoDAsync_v2(to, from, 4 * N as usize, raw) };
    // SAFETY: the copy is queued on the stream, reads `source` and writes `target`.
    let status = unsafe { stream.using((source, target), copy) }?;
    assert_eq!(status, Status::CUDA_SUCCESS);
    Ok(())
}

#[test]
fn work_of_other_code_is_ordered_before_and_after() {
    for fixture in late_devices(32) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let per_thread = fixture.context.per_thread_stream();
        let (foreign, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        for stream in [
            &two,
            &per_thread,
            &foreign,
            &fixture.context.legacy_stream(),
        ] {
            let mut source = filled(&one, N, 1);
            let mut target = filled(&two, N, 0);
            raw_copy(stream, &source, &mut target).unwrap();
            source.as_mut_slice().fill(7).unwrap();
            let mut last = filled(&one, N, 0);
            raw_copy(&one, &target, &mut last).unwrap();
            target.as_mut_slice().fill(9).unwrap();
            assert_all(&last, 1, &fixture.name);
            assert_all(&source, 7, &fixture.name);
            assert_all(&target, 9, &fixture.name);
        }
    }
}

#[test]
fn uses_are_recorded_when_the_closure_panics() {
    for fixture in late_devices(16) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let table = fixture.context.driver().library().clone();
        let mut source = filled(&one, N, 1);
        let mut target = filled(&one, N, 0);
        let (from, to) = (source.as_raw(), target.as_raw());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let copy = |raw| {
                // SAFETY: both ranges have N words, which the stream may use meanwhile.
                let _ = unsafe { table.cuMemcpyDtoDAsync_v2(to, from, 4 * N as usize, raw) };
                panic!("after the copy was queued");
            };
            // SAFETY: the copy is queued on the stream, reads `source` and writes `target`.
            let _: Result<(), _> = unsafe { two.using((&source, &mut target), copy) };
        }));
        assert!(panicked.is_err());
        source.as_mut_slice().fill(4).unwrap();
        assert_all(&target, 1, &fixture.name);
    }
}

#[test]
fn other_code_cannot_use_memory_of_other_contexts() {
    for fixture in everywhere() {
        let mut target = filled(&fixture.stream(), N, 0);
        let other = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let elsewhere = new_stream(&other);
        let source = filled(&elsewhere, N, 1);
        let error = raw_copy(&elsewhere, &source, &mut target).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        assert_all(&target, 0, &fixture.name);
    }
}

#[test]
fn guards_order_work_of_other_code_before_and_after() {
    for fixture in late_devices(16) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let table = fixture.context.driver().library().clone();
        for panics in [false, true] {
            let mut source = filled(&one, N, 1);
            let mut target = filled(&one, N, 0);
            let (from, to) = (source.as_raw(), target.as_raw());
            let copied = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the copy is queued before the guard is dropped, reads `source` and writes
                // `target`.
                let work = unsafe { two.begin_use((&source, &mut target)) }.unwrap();
                assert_eq!((work.stream(), work.raw()), (&two, two.as_raw()));
                // SAFETY: both ranges have N words, which the stream may use meanwhile.
                let status =
                    unsafe { table.cuMemcpyDtoDAsync_v2(to, from, 4 * N as usize, work.raw()) };
                assert_eq!(status, Status::CUDA_SUCCESS);
                assert!(!panics, "after the copy was queued");
            }));
            assert_eq!(copied.is_err(), panics);
            source.as_mut_slice().fill(4).unwrap();
            assert_all(&target, 1, &fixture.name);
        }
    }
}

#[test]
fn guards_are_refused_on_default_streams_of_c() {
    for fixture in everywhere() {
        let context = &fixture.context;
        let x = filled(&fixture.stream(), N, 1);
        for stream in [context.legacy_stream(), context.per_thread_stream()] {
            // SAFETY: no work is queued.
            let error = unsafe { stream.begin_use((&x,)) }.unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        }
    }
}
