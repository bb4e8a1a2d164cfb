//! Scenarios in which the device waits for the program, and the program for the device.

use cuda_driver::memory::Unpooled;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};

use super::{Fixture, N, Result, Scenario, expect, filled, one};
use crate::task::block_on;

pub(super) const ALL: &[Scenario] = &[
    one("values", values),
    one("host functions", host_functions),
    one("futures", futures),
    one("awaited transfers", awaited),
];

fn words(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    let mut words = DeviceBuffer::zeroed_in(&Unpooled, stream, 4)?;
    words.copy_from_host(&[0, 0, 0, 0])?;
    Ok(words)
}

fn values(fixture: &Fixture) -> Result<()> {
    let (one, two) = (fixture.stream()?, fixture.stream()?);
    let flags = words(&one)?;
    // The write that ends the wait is queued first, so that a failed call leaves no stream blocked.
    two.write_value(&flags, 0, 1_u32)?;
    one.wait_value(&flags, 0, WaitCondition::EQUAL, 1_u32)?;
    let buffer = filled(&one, 5)?;
    let batch =
        ValueBatch::new()
            .write(&flags, 1, 2_u32)?
            .wait(&flags, 1, WaitCondition::EQUAL, 2_u32)?;
    batch.queue(&two)?;
    two.synchronize()?;
    expect(&buffer, 5)?;
    assert_eq!(flags.to_vec()?, [1, 2, 0, 0]);
    let mut long = DeviceBuffer::<u64>::zeroed_in(&Unpooled, &one, 1)?;
    long.copy_from_host(&[0])?;
    two.write_value(&long, 0, 1_u64 << 40)?;
    one.wait_value(&long, 0, WaitCondition::EQUAL, 1_u64 << 40)?;
    assert_eq!(long.to_vec()?, [1 << 40]);
    Ok(())
}

fn host_functions(fixture: &Fixture) -> Result<()> {
    let stream = Stream::new(&fixture.context, StreamFlags::empty(), 0)?;
    let calls = Arc::new(AtomicU32::new(0));
    let count = |by| {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(by, Ordering::SeqCst);
        }
    };
    let buffer = filled(&stream, 3)?;
    let waited = stream.launch_host(count(1))?;
    let second = stream.launch_host(count(10))?;
    // The buffer is dropped inside the host function, so another thread frees it.
    let inside = filled(&stream, 1)?;
    let last = stream.launch_host(move || drop(inside))?;
    waited.wait()?;
    second.wait()?;
    last.wait()?;
    stream.synchronize()?;
    assert_eq!(calls.load(Ordering::SeqCst), 11, "wrong result");
    expect(&buffer, 3)
}

fn futures(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING)?;
    let buffer = filled(&stream, 2)?;
    event.record(&stream)?;
    let of_event = event.completion();
    block_on(stream.completion(), Duration::from_secs(10))?;
    block_on(of_event, Duration::from_secs(10))?;
    let again = stream.completion();
    again.is_done()?;
    again.wait()?;
    expect(&buffer, 2)
}

fn awaited(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let memory =
        PinnedBuffer::from_host(&fixture.context, &[9_u32; N as usize], PinnedFlags::empty())?;
    let mut buffer = filled(&stream, 0)?;
    let up = buffer.copy_from_pinned_async(memory, &stream);
    let up = up.map_err(|error| error.error().clone())?;
    let memory = block_on(up, Duration::from_secs(10)).map_err(|error| error.error().clone())?;
    expect(&buffer, 9)?;
    memory.close()
}
