//! Scenarios of streams and events.

use std::sync::Arc;

use cuda_driver::launch::MemSyncDomain;
use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;
use cuda_driver::stream::{PriorityRange, StreamPool, SynchronizationPolicy};

use super::{Fixture, N, Result, Scenario, config, copy, expect, filled, one};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("streams", streams),
    one("stream attributes", attributes),
    one("events", events),
    one("fences", fences),
    one("legacy stream", legacy),
    one("per-thread stream", per_thread),
    one("borrowed stream", borrowed),
    one("thread stream", thread),
    one("borrowed objects", objects),
];

fn streams(fixture: &Fixture) -> Result<()> {
    let PriorityRange { least, greatest } = fixture.context.stream_priority_range()?;
    assert!(greatest <= least);
    let stream = Stream::new(&fixture.context, StreamFlags::NON_BLOCKING, greatest)?;
    assert_eq!(stream.priority()?, greatest);
    assert_eq!(stream.flags()?, StreamFlags::NON_BLOCKING);
    let other = stream.fork()?;
    assert_ne!(stream.id()?, other.id()?);
    let buffer = filled(&other, 1)?;
    stream.join(&other)?;
    stream.is_done()?;
    stream.synchronize()?;
    assert!(stream.is_done()?);
    drop(other);
    expect(&buffer, 1)?;
    drop(buffer);
    let pool = StreamPool::new(&fixture.context, 2, 0)?;
    let words = filled(pool.next(), 2)?;
    pool.synchronize()?;
    expect(&words, 2)?;
    drop((words, pool));
    fixture.context.synchronize()?;
    stream.close()
}

fn attributes(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    stream.set_synchronization_policy(SynchronizationPolicy::YIELD)?;
    stream.set_mem_sync_domain(MemSyncDomain::Remote)?;
    other.copy_attributes(&stream)?;
    assert_eq!(
        other.synchronization_policy()?,
        SynchronizationPolicy::YIELD
    );
    assert_eq!(other.mem_sync_domain()?, MemSyncDomain::Remote);
    Ok(())
}

fn events(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let start = Event::new(&fixture.context, EventFlags::empty())?;
    let end = Event::new(&fixture.context, EventFlags::empty())?;
    start.record(&stream)?;
    let buffer = filled(&stream, 4)?;
    end.record(&stream)?;
    other.wait(&end)?;
    other.synchronize()?;
    end.synchronize()?;
    assert!(start.is_done()?);
    assert!(end.milliseconds_since(&start)? >= 0.0);
    start.elapsed_until(&end)?;
    expect(&buffer, 4)?;
    drop(start);
    end.close()
}

fn legacy(fixture: &Fixture) -> Result<()> {
    let legacy = fixture.context.legacy_stream();
    let other = Stream::new(&fixture.context, StreamFlags::empty(), 0)?;
    let kernel = fixture.kernel(COPY, "copy")?;
    let source = filled(&legacy, 6)?;
    let mut target = filled(&other, 0)?;
    copy(&other, &kernel, &source, &mut target)?;
    drop(source);
    expect(&target, 6)
}

fn per_thread(fixture: &Fixture) -> Result<()> {
    let own = fixture.context.per_thread_stream();
    let other = fixture.stream()?;
    let kernel = fixture.kernel(COPY, "copy")?;
    let source = filled(&own, 7)?;
    let mut target = filled(&other, 0)?;
    copy(&other, &kernel, &source, &mut target)?;
    copy(&own, &kernel, &source, &mut target)?;
    drop(source);
    expect(&target, 7)?;
    // The per-thread stream of another thread is a different queue.
    let context = &fixture.context;
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let there = context.per_thread_stream();
            let source = filled(&there, 8)?;
            copy(&there, &kernel, &source, &mut target)
        });
        thread.join().unwrap()
    });
    result?;
    expect(&target, 8)
}

/// Buffers that stay on this thread, until another thread gets them.
fn thread(fixture: &Fixture) -> Result<()> {
    let own = fixture.context.thread_stream();
    let other = fixture.stream()?;
    let kernel = fixture.kernel(COPY, "copy")?;
    let mut source = ThreadBuffer::<u32>::zeroed(&own, N as usize)?;
    source.copy_from_host(&[7; N as usize])?;
    let mut target = ThreadBuffer::filled(&own, N as usize, 0)?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { own.launch(&kernel, config(), (&source, &mut target, N)) }?;
    // SAFETY: as above.
    unsafe { other.launch(&kernel, config(), (&source, &mut target, N)) }?;
    assert_eq!(target.to_vec()?, [7; N as usize]);
    drop(source);
    let target = target.into_shared();
    std::thread::scope(|scope| scope.spawn(|| expect(&target, 7)).join().unwrap())
}

/// A stream of other code, and work that other code queues.
fn borrowed(fixture: &Fixture) -> Result<()> {
    let owner = Arc::new(fixture.stream()?);
    // The context knows its own streams, so the handle is one of the same stream.
    // SAFETY: `owner` keeps the stream alive, and nothing captures it.
    let stream =
        unsafe { Stream::borrow_raw(&fixture.context, owner.as_raw(), Arc::clone(&owner)) }?;
    let (x, mut y) = (filled(&fixture.stream()?, 3)?, filled(&stream, 0)?);
    // SAFETY: the closure queues nothing.
    unsafe { stream.using((&x, &mut y), |_| ()) }?;
    // SAFETY: no work is queued.
    drop(unsafe { stream.begin_use((&x, &mut y)) }?);
    expect(&y, 0)?;
    stream.allow_capture()?;
    y.fill(4)?;
    expect(&y, 4)?;
    let owner = fixture.kernel(COPY, "copy")?;
    // SAFETY: `owner` keeps the module loaded, which has no variables.
    let kernel = unsafe { Function::borrow_raw(&fixture.context, owner.as_raw(), ()) }?;
    copy(&stream, &kernel, &x, &mut y)?;
    expect(&y, 3)
}

fn fences(fixture: &Fixture) -> Result<()> {
    let (one, two) = (fixture.stream()?, fixture.stream()?);
    let buffer = filled(&one, 3)?;
    let fence = one.fence()?;
    two.wait_fence(&fence)?;
    fence.synchronize()?;
    assert!(fence.is_done()?);
    fence.completion().wait()?;
    let event = two.record_event_with(EventFlags::DISABLE_TIMING)?;
    event.synchronize()?;
    assert!(!two.is_captured()?);
    expect(&buffer, 3)
}

/// An event and a module of other code.
fn objects(fixture: &Fixture) -> Result<()> {
    let (one, two) = (fixture.stream()?, fixture.stream()?);
    let owner = Arc::new(one.record_event()?);
    // SAFETY: `owner` keeps the event alive, and nothing captures it.
    let event = unsafe { Event::borrow_raw(&fixture.context, owner.as_raw(), Arc::clone(&owner)) };
    let source = filled(&one, 3)?;
    event.record(&one)?;
    two.wait(&event)?;
    event.synchronize()?;
    // If the wait for the kernels fails, the owner of the borrowed module is leaked. So it owns
    // nothing here.
    let owner = Module::load(&fixture.context, &Ptx::new(COPY).unwrap())?;
    // SAFETY: `owner` is dropped after the borrowed module; the module has no variables.
    let module = unsafe { Module::borrow_raw(&fixture.context, owner.as_raw(), ()) };
    let kernel = module.function("copy")?;
    let mut target = filled(&two, 0)?;
    copy(&two, &kernel, &source, &mut target)?;
    expect(&target, 3)
}
