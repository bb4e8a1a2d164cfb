//! Captures of other code in global mode, the usual one: no internal call of this crate breaks
//! them.

use cuda_driver::memory::Unpooled;
use std::thread;
use std::time::Duration;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::Status;
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};
use cuda_sys::{CUstreamCaptureMode, DriverTable};

use crate::support::{COPY, everywhere, new_stream, software};
use crate::task::block_on;

const SECOND: Duration = Duration::from_secs(1);
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// A capture by other code, through the raw function table.
struct Foreign<'a> {
    table: &'a DriverTable,
    stream: &'a Stream,
}

impl<'a> Foreign<'a> {
    fn begin(table: &'a DriverTable, stream: &'a Stream) -> Self {
        // SAFETY: the stream must be alive ← it is borrowed.
        let status = unsafe { table.cuStreamBeginCapture_v2(stream.as_raw(), GLOBAL) };
        assert_eq!(status, Status::CUDA_SUCCESS);
        Self { table, stream }
    }

    fn end(self, what: &str) {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream must be alive and the pointer writable ← it is borrowed, and a local.
        let status = unsafe {
            self.table
                .cuStreamEndCapture(self.stream.as_raw(), &raw mut graph)
        };
        assert_eq!(status, Status::CUDA_SUCCESS, "{what}");
        // SAFETY: the graph must be alive and not used after ← it was just created.
        let status = unsafe { self.table.cuGraphDestroy(graph) };
        assert_eq!(status, Status::CUDA_SUCCESS);
    }
}

/// Returns the capture mode of this thread without changing it.
fn mode(table: &DriverTable) -> CUstreamCaptureMode {
    let mut mode = GLOBAL;
    // SAFETY: the pointer must be valid ← it is to a local.
    unsafe { table.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    let before = mode;
    // SAFETY: as above.
    unsafe { table.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    before
}

fn pinned(context: &Context) -> PinnedBuffer<u32> {
    PinnedBuffer::zeroed(context, 64, PinnedFlags::empty()).unwrap()
}

/// An operation that a program runs in a context while another thread captures in it. Explicit
/// calls that C refuses during a capture fail here as well, so they are made before the capture.
type Prepared = Box<dyn FnOnce() + Send>;

fn operations(context: &Context, other: Context) -> Vec<(&'static str, Prepared)> {
    let own = new_stream(context);
    let plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &own, 64).unwrap();
    let (freed, sent, left, awaited) = (
        pinned(context),
        pinned(context),
        pinned(context),
        pinned(context),
    );
    let mut buffer = DeviceBuffer::<u32>::zeroed(&own, 64).unwrap();
    let mut large = DeviceBuffer::<u32>::zeroed(&own, 1 << 20).unwrap();
    let pool = CachingPool::new(context);
    let of_module = Module::load(&other, &Ptx::new(COPY).unwrap()).unwrap();
    let crossing = new_stream(context);
    let host = new_stream(context);
    own.synchronize().unwrap();
    vec![
        ("completion", {
            let own = own.clone();
            Box::new(move || block_on(own.completion(), SECOND).unwrap()) as Prepared
        }),
        ("drop of plain memory", Box::new(move || drop(plain))),
        ("drop of page-locked memory", Box::new(move || drop(freed))),
        ("transfers and copies", {
            Box::new(move || {
                let copy = buffer.copy_from_pinned_async(sent, &own).unwrap();
                drop(copy.wait().unwrap());
                drop(buffer.copy_to_pinned_async(left, &own).unwrap());
                let copy = buffer.copy_to_pinned_async(awaited, &own).unwrap();
                drop(block_on(copy, SECOND).unwrap());
                for _ in 0..3 {
                    buffer.copy_from_host(&[3; 64]).unwrap();
                    assert_eq!(buffer.to_vec().unwrap(), [3; 64]);
                }
                large.copy_from_host(&vec![5; 1 << 20]).unwrap();
                assert_eq!(large.to_vec().unwrap(), vec![5; 1 << 20]);
                drop((buffer, large));
                // The reaper thread queries the dropped transfer.
                thread::sleep(SECOND / 3);
            })
        }),
        ("caching pool", {
            Box::new(move || {
                for _ in 0..3 {
                    drop(DeviceBuffer::<u32>::zeroed_in(&pool, &crossing, 64).unwrap());
                    drop(DeviceBuffer::<u32>::zeroed_in(&pool, &host, 64).unwrap());
                }
                host.launch_host(move || drop(pool))
                    .unwrap()
                    .wait()
                    .unwrap();
                thread::sleep(SECOND / 10);
            })
        }),
        ("module of another context", {
            Box::new(move || drop(of_module))
        }),
        ("another context", Box::new(move || drop(other))),
    ]
}

fn check(is_here: bool) {
    for fixture in everywhere() {
        let other = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let library = fixture.context.driver().library().clone();
        let captured = new_stream(&fixture.context);
        for (name, work) in operations(&fixture.context, other) {
            let what = format!("{}: {name}", fixture.name);
            let capture = Foreign::begin(library.table(), &captured);
            if is_here {
                work();
            } else {
                thread::spawn(work).join().unwrap();
            }
            capture.end(&what);
            assert_eq!(mode(library.table()), GLOBAL, "{what}");
        }
    }
}

#[test]
fn a_foreign_capture_survives_work_on_other_threads() {
    check(false);
}

#[test]
fn a_foreign_capture_survives_work_on_its_own_thread() {
    check(true);
}

#[test]
fn a_query_refused_by_a_capture_is_repeated() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 64).unwrap();
    let memory = pinned(&fixture.context);
    // Forces the reaper thread to query.
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuLaunchHostFunc"));
    let refused = Status::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    simulator.add_rule(Rule::new(refused).function("cuEventQuery"));
    let copy = buffer.copy_from_pinned_async(memory, &stream).unwrap();
    let copied = thread::spawn(move || block_on(copy, 5 * SECOND).is_ok());
    // Longer than the time after which a failing query is given up.
    thread::sleep(SECOND);
    assert!(!copied.is_finished());
    simulator.clear_rules();
    assert!(copied.join().unwrap());
}

#[test]
fn a_call_by_name_behaves_as_the_call_of_c() {
    let fixture = software(Builder::new());
    let library = fixture.context.driver().library().clone();
    let (captured, own) = (new_stream(&fixture.context), new_stream(&fixture.context));
    let capture = Foreign::begin(library.table(), &captured);
    let refused = Some(Status::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(own.synchronize().unwrap_err().status(), refused);
    let mut graph = std::ptr::null_mut();
    // SAFETY: the stream must be alive and the pointer writable ← it is borrowed, and a local.
    let status = unsafe {
        library
            .table()
            .cuStreamEndCapture(capture.stream.as_raw(), &raw mut graph)
    };
    assert_eq!(status, Status::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
