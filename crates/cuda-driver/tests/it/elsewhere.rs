//! Resources that a stream of another context still uses when their owner is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use cuda_driver::Library;
use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
use cuda_driver::graph::Capture;
use cuda_driver::jit::Global;
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, Sampler, Texture};
use cuda_sim::{Builder, Rule};

use crate::borrowed::{Foreign, alive};
use crate::support::{Fixture, block, count_calls, gpu, late, new_stream, software, unpooled};
use crate::task::until;

const VARIABLES: &str = include_str!("kernels/variables.ptx");
const LIMIT: Duration = Duration::from_secs(5);
/// Long enough to observe that a thread is blocked.
const WHILE: Duration = Duration::from_millis(100);

/// Two software devices, with eager and late schedules, and the GPUs.
#[track_caller]
fn fixtures() -> impl Iterator<Item = Fixture> {
    let builders = [Builder::new(), late(1), late(2)];
    let software = builders.map(|builder| software(builder.devices(2)));
    software.into_iter().chain(gpu())
}

/// Creates a second context: on the last device if there are several, otherwise on the same device.
fn second(fixture: &Fixture) -> Context {
    let devices = fixture.context.driver().devices().unwrap();
    Context::new(devices.last().unwrap(), ContextFlags::empty()).unwrap()
}

/// Creates a stream of `context` that is blocked until a message is sent.
fn blocked_stream(context: &Context) -> (Stream, Sender<()>) {
    let stream = new_stream(context);
    let sender = block(&stream);
    (stream, sender)
}

fn ptx() -> Ptx {
    Ptx::new(VARIABLES).unwrap()
}

/// Drops `code` on its own thread while a blocked stream of another context still has to copy from
/// its variable: `unload` must be called only once the copy is done.
fn unload_behind_copies(
    fixture: &Fixture,
    unload: &str,
    variable: impl Fn(&'static str, &Stream) -> Global<u32>,
    is_retaken: bool,
    code: impl Send + 'static,
) {
    let other = second(fixture);
    let (copying, open) = blocked_stream(&other);
    let owning = new_stream(&fixture.context);
    let mut factors_there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
    let mut counter_there = DeviceBuffer::<u32>::zeroed(&copying, 1).unwrap();
    let (factors, counter) = (variable("factors", &owning), variable("counter", &owning));
    let mut view = factors_there.as_mut_slice();
    view.copy_from_peer(factors.as_slice()).unwrap();
    drop(factors);
    // The next owner of a variable takes over its recorded uses.
    let factors = is_retaken.then(|| variable("factors", &new_stream(&fixture.context)));
    let mut view = counter_there.as_mut_slice();
    view.copy_from_peer(counter.as_slice()).unwrap();
    drop((variable, factors, counter));
    let before = fixture.simulator.as_ref().map(|it| count_calls(it, unload));
    let (dropped, is_dropped) = mpsc::channel();
    let worker = thread::spawn(move || {
        drop(code);
        dropped.send(()).unwrap();
    });
    let early = is_dropped.recv_timeout(WHILE);
    assert!(early.is_err(), "{}: the drop does not wait", fixture.name);
    if let Some(simulator) = &fixture.simulator {
        assert_eq!(
            Some(count_calls(simulator, unload)),
            before,
            "{}",
            fixture.name
        );
    }
    open.send(()).unwrap();
    is_dropped.recv_timeout(LIMIT).unwrap();
    worker.join().unwrap();
    if let Some(simulator) = &fixture.simulator {
        let after = before.map(|before| before + 1);
        assert_eq!(
            Some(count_calls(simulator, unload)),
            after,
            "{}",
            fixture.name
        );
    }
    // Another module may reuse the memory.
    let next = Module::load(&fixture.context, &ptx()).unwrap();
    let mut factors = next.global::<u32>("factors", &owning).unwrap();
    factors.copy_from_host(&[9; 4]).unwrap();
    assert_eq!(factors_there.to_vec().unwrap(), [1, 2, 3, 4]);
    assert_eq!(counter_there.to_vec().unwrap(), [5], "{}", fixture.name);
}

#[test]
fn a_module_is_unloaded_behind_copies_of_its_variables() {
    for fixture in fixtures() {
        for is_retaken in [false, true] {
            let module = Module::load(&fixture.context, &ptx()).unwrap();
            let of = module.clone();
            let variable = move |name, owning: &Stream| of.global(name, owning).unwrap();
            unload_behind_copies(&fixture, "cuModuleUnload", variable, is_retaken, module);
        }
    }
}

#[test]
fn a_library_is_unloaded_behind_copies_of_its_variables() {
    for fixture in fixtures() {
        let driver = fixture.context.driver();
        for is_retaken in [false, true] {
            let options = cuda_driver::jit::JitOptions::new();
            let library = Library::load(driver, &ptx(), &options).unwrap();
            let of = library.clone();
            let variable = move |name, owning: &Stream| of.global(name, owning).unwrap();
            unload_behind_copies(&fixture, "cuLibraryUnload", variable, is_retaken, library);
        }
    }
}

#[test]
fn a_capture_outlives_the_drop_of_a_copied_module() {
    for fixture in fixtures() {
        let other = second(&fixture);
        let (copying, open) = blocked_stream(&other);
        let owning = new_stream(&fixture.context);
        let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
        let module = Module::load(&fixture.context, &ptx()).unwrap();
        let factors = module.global::<u32>("factors", &owning).unwrap();
        let mut view = there.as_mut_slice();
        view.copy_from_peer(factors.as_slice()).unwrap();
        let capture = Capture::begin(&fixture.context).unwrap();
        let worker = thread::spawn(move || drop((factors, module)));
        open.send(()).unwrap();
        worker.join().unwrap();
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(
                count_calls(simulator, "cuModuleUnload"),
                0,
                "{}",
                fixture.name
            );
        }
        drop(capture);
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(
                count_calls(simulator, "cuModuleUnload"),
                1,
                "{}",
                fixture.name
            );
        }
        assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4], "{}", fixture.name);
    }
}

#[test]
fn a_module_stays_loaded_if_a_copy_cannot_be_awaited() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.as_ref().unwrap();
    let device = fixture.context.device();
    let one = Context::new(device, ContextFlags::empty()).unwrap();
    let other = second(&fixture);
    let (copying, open) = blocked_stream(&other);
    let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
    let module = Module::load(&one, &ptx()).unwrap();
    let factors = module.global::<u32>("factors", &new_stream(&one)).unwrap();
    let mut view = there.as_mut_slice();
    view.copy_from_peer(factors.as_slice()).unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuEventSynchronize"));
    // The context must not end either, because this would free the variable.
    drop((factors, module, one));
    simulator.clear_rules();
    assert_eq!(count_calls(simulator, "cuModuleUnload"), 0);
    assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 0);
    open.send(()).unwrap();
    assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_context_outlives_copied_memory_that_cannot_be_freed() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.as_ref().unwrap();
    let device = fixture.context.device();
    let one = Context::new(device, ContextFlags::empty()).unwrap();
    let other = second(&fixture);
    let (copying, open) = blocked_stream(&other);
    let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
    let source = DeviceBuffer::from_host(&new_stream(&one), &[1_u32, 2, 3, 4]).unwrap();
    there
        .as_mut_slice()
        .copy_from_peer(source.as_slice())
        .unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamWaitEvent"));
    let worker = thread::spawn(move || drop((source, one)));
    thread::sleep(WHILE);
    simulator.clear_rules();
    assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 0);
    open.send(()).unwrap();
    worker.join().unwrap();
    assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_context_outlives_copied_memory_of_other_code() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.as_ref().unwrap();
    let one = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let other = second(&fixture);
    let (copying, open) = blocked_stream(&other);
    let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
    let owning = new_stream(&one);
    let address = unpooled(&owning, &[1_u32, 2, 3, 4]).into_raw().unwrap();
    // SAFETY: the memory has 4 words, which were written on the stream, and is never freed.
    let source = unsafe { DeviceBuffer::<u32>::from_foreign(&owning, address, 4, ()) }.unwrap();
    let mut view = there.as_mut_slice();
    view.copy_from_peer(source.as_slice()).unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuEventSynchronize"));
    drop((source, owning, one));
    simulator.clear_rules();
    assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 0);
    open.send(()).unwrap();
    assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_context_outlives_a_copied_array_that_cannot_be_awaited() {
    for has_texture in [false, true] {
        let fixture = software(Builder::new().devices(2));
        let simulator = fixture.simulator.as_ref().unwrap();
        let one = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let other = second(&fixture);
        let (copying, open) = blocked_stream(&other);
        let shape = ArrayShape::two_d(2, 2);
        let mut there = Array::<u32>::zeroed(&copying, &shape, ArrayFlags::empty()).unwrap();
        let source = Array::from_host(&new_stream(&one), &shape, &[1_u32, 2, 3, 4]).unwrap();
        let texture = has_texture.then(|| Texture::new(&source, &Sampler::new()).unwrap());
        let mut view = there.as_mut_slice();
        view.copy_from_peer(&source.as_slice()).unwrap();
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuEventSynchronize"));
        // The context must not end, because this would free the array.
        drop((texture, source, one));
        simulator.clear_rules();
        assert_eq!(count_calls(simulator, "cuArrayDestroy"), 0);
        assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 0);
        open.send(()).unwrap();
        assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4]);
    }
}

/// Queues a copy from memory of `fixture` into another context and drops all handles of that
/// context before the copy runs. A message to the returned sender lets the copy run.
fn copied_by_a_dropped_context(fixture: &Fixture) -> (DeviceBuffer<u32>, Sender<()>) {
    let (holding, open) = blocked_stream(&fixture.context);
    let event = cuda_driver::Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
    event.record(&holding).unwrap();
    let source = DeviceBuffer::from_host(&new_stream(&fixture.context), &[1_u32, 2, 3, 4]).unwrap();
    let other = second(fixture);
    let copying = new_stream(&other);
    let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
    copying.synchronize().unwrap();
    copying.wait(&event).unwrap();
    there
        .as_mut_slice()
        .copy_from_peer(source.as_slice())
        .unwrap();
    drop((there, copying, other));
    (source, open)
}

/// Calls `call` on a buffer with a queued copy: it must return before the copy has run. The context
/// of the copy ends later.
#[track_caller]
fn does_not_wait(call: fn(DeviceBuffer<u32>) -> Option<DeviceBuffer<u32>>) {
    for fixture in fixtures() {
        let (source, open) = copied_by_a_dropped_context(&fixture);
        let (done, is_done) = mpsc::channel();
        let worker = thread::spawn(move || {
            let left = call(source);
            done.send(()).unwrap();
            left
        });
        let result = is_done.recv_timeout(LIMIT);
        open.send(()).unwrap();
        let left = worker.join().unwrap();
        assert!(
            result.is_ok(),
            "{}: the call waits for the other context",
            fixture.name
        );
        if let Some(left) = left {
            assert_eq!(left.to_vec().unwrap(), [0; 4], "{}", fixture.name);
        }
        if let Some(simulator) = &fixture.simulator {
            let what = "the other context ends";
            until(what, LIMIT, || {
                count_calls(simulator, "cuCtxDestroy_v2") == 1
            });
        }
    }
}

#[test]
fn a_fill_does_not_wait_for_a_context_that_copied() {
    does_not_wait(|mut source| {
        source.set_zero().unwrap();
        Some(source)
    });
}

#[test]
fn a_drop_does_not_wait_for_a_context_that_copied() {
    does_not_wait(|source| {
        drop(source);
        None
    });
}

#[test]
fn borrowed_memory_is_read_before_a_peer_copy_returns() {
    for fixture in fixtures() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let borrowed = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let (copying, open) = blocked_stream(&second(&fixture));
        // The size is more than one chunk of a copy through the host.
        let words: Vec<u32> = (0..(3 << 20)).collect();
        let source = DeviceBuffer::from_host(&new_stream(&borrowed), &words).unwrap();
        let mut there = DeviceBuffer::<u32>::zeroed(&copying, words.len()).unwrap();
        let worker = thread::spawn(move || {
            let copied = there.as_mut_slice().copy_from_peer(source.as_slice());
            copied.unwrap();
            (source, there)
        });
        // The copy exceeds what can be queued in page-locked memory.
        let early = if fixture.simulator.is_some() {
            WHILE
        } else {
            LIMIT
        };
        thread::sleep(early / 2);
        open.send(()).unwrap();
        let (source, there) = worker.join().unwrap();
        // All work queued in the context is done, as its owner promises.
        borrowed.synchronize().unwrap();
        token.store(false, Ordering::SeqCst);
        drop(foreign);
        let error = source.to_vec().unwrap_err();
        assert!(matches!(error, Error::ContextGone { .. }), "{error}");
        assert!(there.to_vec().unwrap() == words, "{}", fixture.name);
    }
}

#[test]
fn borrowed_memory_may_end_while_the_copy_is_queued() {
    for fixture in fixtures() {
        let foreign = Foreign::new(&fixture);
        let token = alive();
        let borrowed = foreign.borrow(Arc::clone(&token) as _).unwrap();
        let other = second(&fixture);
        let (copying, open) = blocked_stream(&other);
        let source = DeviceBuffer::from_host(&new_stream(&borrowed), &[1_u32, 2, 3, 4]).unwrap();
        let mut there = DeviceBuffer::<u32>::zeroed(&copying, 4).unwrap();
        there
            .as_mut_slice()
            .copy_from_peer(source.as_slice())
            .unwrap();
        // All work queued in the context is done, as its owner promises.
        borrowed.synchronize().unwrap();
        token.store(false, Ordering::SeqCst);
        // A driver may delay the end of a context for host functions of other contexts.
        let end = thread::spawn(move || drop(foreign));
        thread::sleep(WHILE);
        open.send(()).unwrap();
        end.join().unwrap();
        assert_eq!(there.to_vec().unwrap(), [1, 2, 3, 4], "{}", fixture.name);
    }
}

#[test]
fn borrowed_locked_memory_is_not_used_elsewhere() {
    for fixture in fixtures() {
        let foreign = Foreign::new(&fixture);
        let borrowed = foreign.borrow(alive()).unwrap();
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
        let flags = PinnedFlags::empty();
        let mut pinned = PinnedBuffer::<u32>::zeroed(&borrowed, 4, flags).unwrap();
        let refused = |result: cuda_driver::Result<()>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        };
        refused(buffer.as_slice().copy_to_pinned(&mut pinned));
        refused(buffer.as_mut_slice().copy_from_pinned(&pinned));
        let queued = buffer.copy_to_pinned_async(pinned, &stream);
        let error = queued.map(drop).unwrap_err();
        assert!(
            matches!(error.error(), Error::OtherContext { .. }),
            "{error}"
        );
        let pinned = error.into_memory().unwrap();
        let queued = buffer.copy_from_pinned_async(pinned, &stream);
        let pinned = queued.map(drop).unwrap_err().into_memory().unwrap();
        assert_eq!(*pinned, [0; 4]);
        drop((pinned, borrowed));
    }
}

/// A copy in one context uses page-locked memory of another, and waiting for the copy fails. The
/// memory must not be freed with its context.
#[test]
fn a_failed_copy_keeps_the_context_of_its_memory() {
    for kind in ["transfer", "dropped transfer", "download", "upload"] {
        let fixture = software(Builder::new().devices(2));
        let simulator = fixture.simulator.as_ref().unwrap();
        let driver = fixture.context.driver().clone();
        let new = |ordinal| {
            let device = driver.device(ordinal).unwrap();
            Context::new(&device, ContextFlags::empty()).unwrap()
        };
        let (one, other) = (new(0), new(1));
        let mut pinned = PinnedBuffer::from_host(&one, &[7_u32; 4], PinnedFlags::PORTABLE).unwrap();
        let queue = new_stream(&other);
        let mut there = DeviceBuffer::<u32>::zeroed(&queue, 4).unwrap();
        queue.synchronize().unwrap();
        let (events, streams) = ("cuEventSynchronize", "cuStreamSynchronize");
        for call in [events, streams, "cuEventQuery"] {
            simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function(call));
        }
        match kind {
            "transfer" => {
                let transfer = there.as_mut_slice().copy_from_pinned_async(pinned, &queue);
                assert!(transfer.unwrap().wait().is_err());
            }
            "dropped transfer" => {
                let transfer = there.as_mut_slice().copy_from_pinned_async(pinned, &queue);
                drop(transfer.unwrap());
                // The reaper thread tries three times.
                thread::sleep(10 * WHILE);
            }
            "download" => {
                assert!(there.copy_to_pinned(&mut pinned).is_err());
                drop(pinned);
            }
            _ => {
                assert!(there.as_mut_slice().copy_from_pinned(&pinned).is_err());
                drop(pinned);
            }
        }
        simulator.clear_rules();
        assert_eq!(count_calls(simulator, "cuMemFreeHost"), 0, "{kind}");
        assert!(
            matches!(one.close(), Err(Error::StillInUse { .. })),
            "{kind}: the context ended during the copy"
        );
        assert_eq!(count_calls(simulator, "cuCtxDestroy_v2"), 0, "{kind}");
    }
}
