//! Scenarios of device memory.

use cuda_driver::memory::Unpooled;
use cuda_driver::memory::{
    Advice, ManagedAttachment, ManagedBatch, ManagedBuffer, MemoryLocation, MemoryType,
    PitchedBuffer, Storage,
};
use cuda_driver::prelude::*;

use cuda_sim::{Builder, Machine};

use super::{Fixture, N, Result, Scenario, copy, expect, filled, on, one};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("buffers", buffers),
    one("fills", fills),
    one("plain", plain),
    one("foreign memory", foreign),
    one("large copies", large),
    one("crossing", crossing),
    one("chosen streams", chosen_streams),
    one("pitched", pitched),
    one("managed", managed),
    one("managed batches", managed_batches),
    on("managed on the host", exclusive, managed_on_the_host),
    one("pointers", pointers),
    one("storage", storage),
];

fn buffers(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut buffer = filled(&stream, 3)?;
    expect(&buffer, 3)?;
    let clone = buffer.try_clone()?;
    buffer.copy_from_host(&[4; N as usize])?;
    expect(&clone, 3)?;
    let (mut low, high) = buffer.as_mut_slice().split_at_mut(32).unwrap();
    low.copy_from(high.as_slice())?;
    low.copy_from_host(&[4; 32])?;
    expect(&buffer, 4)?;
    clone.close()
}

fn fills(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let bytes = DeviceBuffer::filled(&stream, 9, 0xAB_u8)?;
    assert_eq!(bytes.to_vec()?, [0xAB; 9]);
    let halves = DeviceBuffer::filled(&stream, 9, 0x1234_u16)?;
    assert_eq!(halves.to_vec()?, [0x1234; 9]);
    let words = DeviceBuffer::filled(&stream, 9, 0x1234_5678_u32)?;
    assert_eq!(words.to_vec()?, [0x1234_5678; 9]);
    let long = DeviceBuffer::filled(&stream, 9, 0x1234_5678_9ABC_DEF0_u64)?;
    assert_eq!(long.to_vec()?, [0x1234_5678_9ABC_DEF0; 9]);
    Ok(())
}

/// Untyped memory with several handles.
fn storage(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut storage = Storage::from(filled(&stream, 3)?);
    storage.view_mut::<u32>(..)?.fill(4)?;
    storage.allow_aliases()?;
    let other = storage.clone();
    let part = other.share(4..8)?;
    // SAFETY: no other view is used in the same call, and no code relies on the words.
    unsafe { other.alias_mut::<u32>(..) }?.fill(5)?;
    assert_eq!(part.to_vec()?, 5_u32.to_ne_bytes());
    assert!(storage.view_mut::<u32>(..).is_err());
    drop((other, part));
    expect(&storage.into_buffer::<u32>().unwrap(), 5)
}

fn plain(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 16)?;
    buffer.fill(6)?;
    assert_eq!(buffer.to_vec()?, [6; 16]);
    drop(buffer);
    DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 16)?.close()
}

/// Memory imported from other code and exported to it.
fn foreign(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let buffer = filled(&stream, 8)?;
    let (len, address) = (buffer.len(), buffer.as_raw());
    let mut out = filled(&other, 0)?;
    {
        // SAFETY: the buffer outlives the view.
        let view: DeviceBuffer<u32> =
            unsafe { DeviceBuffer::from_foreign(&stream, address, len, ()) }?;
        copy(&other, &kernel, &view, &mut out)?;
        expect(&view, 8)?;
    }
    expect(&out, 8)?;
    out.close()
}

/// Copies larger than a staging block, and large enough to be split among threads.
fn large(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let words: Vec<u32> = (0..400_000).collect();
    let mut buffer = DeviceBuffer::from_host(&stream, &words)?;
    assert!(buffer.to_vec()? == words, "wrong result");
    let some = &words[..30_000];
    let mut part = buffer.slice_mut(..30_000).unwrap();
    part.copy_from_host(some)?;
    assert!(part.as_slice().to_vec()? == some, "wrong result");
    Ok(())
}

/// Uses on other streams, followed by a free that must be ordered after them.
fn crossing(fixture: &Fixture) -> Result<()> {
    let streams = [fixture.stream()?, fixture.stream()?, fixture.stream()?];
    let kernel = fixture.kernel(COPY, "copy")?;
    let source = filled(&streams[0], 5)?;
    let mut one = filled(&streams[1], 0)?;
    let mut two = filled(&streams[2], 0)?;
    copy(&streams[1], &kernel, &source, &mut one)?;
    copy(&streams[2], &kernel, &one, &mut two)?;
    copy(&streams[2], &kernel, &source, &mut two)?;
    copy(&streams[0], &kernel, &two, &mut one)?;
    drop(source);
    expect(&one, 5)?;
    expect(&two, 5)?;
    drop(streams);
    one.close()
}

/// Copies and fills on another stream than the owning one.
fn chosen_streams(fixture: &Fixture) -> Result<()> {
    let (owner, other) = (fixture.stream()?, fixture.stream()?);
    let source = filled(&owner, 5)?;
    let mut target = filled(&owner, 0)?;
    let mut read = [0; N as usize];
    target.fill_on(3, &other)?;
    target.copy_to_host_on(&mut read, &other)?;
    assert_eq!(read, [3; N as usize]);
    let mut view = target.as_mut_slice();
    view.copy_from_async(source.as_slice(), &other)?.wait()?;
    expect(&target, 5)?;
    target.copy_from_host_on(&[6; N as usize], &other)?;
    expect(&target, 6)?;
    target.fill_async(7, &other)?.wait()?;
    expect(&target, 7)?;
    target.close()
}

fn pitched(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let words: Vec<u32> = (0..24).collect();
    let mut box_of = PitchedBuffer::from_host(&stream, (4, 3, 2), &words)?;
    assert_eq!(box_of.to_vec()?, words);
    let mut rows = PitchedBuffer::<u32>::zeroed(&stream, (4, 3))?;
    assert_eq!(rows.to_vec()?, [0; 12]);
    rows.as_mut_slice()
        .copy_from(&box_of.region(0..4, 0..3, 1..2).unwrap())?;
    assert_eq!(rows.to_vec()?, words[12..]);
    let mut pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, 24, PinnedFlags::empty())?;
    box_of.as_slice().copy_to_pinned(&mut pinned)?;
    assert_eq!(pinned[..], words);
    pinned.fill(1);
    box_of.as_mut_slice().copy_from_pinned(&pinned)?;
    assert_eq!(box_of.to_vec()?, [1; 24]);
    box_of.region_mut(1..3, 1.., ..)?.fill(7)?;
    assert_eq!(box_of.region(1..3, 1.., ..)?.to_vec()?, [7; 8]);
    let mut bytes = PitchedBuffer::<u8>::zeroed(&stream, (4, 3))?;
    bytes.fill(5)?;
    assert_eq!(bytes.to_vec()?, [5; 12]);
    let mut halves = PitchedBuffer::<u16>::zeroed(&stream, (4, 3))?;
    halves.fill(0x1234)?;
    assert_eq!(halves.to_vec()?, [0x1234; 12]);
    let mut long = PitchedBuffer::<u64>::zeroed(&stream, (4, 3))?;
    long.fill(1 << 40)?;
    assert_eq!(long.to_vec()?, [1 << 40; 12]);
    rows.close()
}

fn managed(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let mut source = ManagedBuffer::<u32>::zeroed(&stream, N as usize)?;
    source.host_mut()?.fill(7);
    let device = MemoryLocation::Device(fixture.context.device().clone());
    let view = source.as_slice();
    view.advise(&Advice::ReadMostly)?;
    assert!(view.is_read_mostly()?);
    view.unadvise(&Advice::ReadMostly)?;
    view.advise(&Advice::PreferredLocation(device.clone()))?;
    view.preferred_location()?;
    view.accessed_by()?;
    view.prefetch(&device, &stream)?;
    view.last_prefetch_location()?;
    let node = MemoryLocation::HostNuma(0);
    view.advise(&Advice::AccessedBy(node.clone()))?;
    view.prefetch(&node, &stream)?;
    let mut target = ManagedBuffer::from_host(&stream, &[0_u32; N as usize])?;
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { other.launch(&kernel, super::config(), (&source, &mut target, N)) }?;
    assert_eq!(target.host()?, [7; N as usize]);
    // SAFETY: the memory is used on no other stream.
    unsafe { target.attach(&stream, ManagedAttachment::Global) }?;
    drop(source);
    target.close()
}

fn managed_batches(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let mut buffer = ManagedBuffer::<u32>::zeroed(&stream, 64 << 10)?;
    let device = MemoryLocation::Device(fixture.context.device().clone());
    let mut batch = ManagedBatch::new();
    let mut parts = buffer.as_mut_slice().chunks_mut(16 << 10)?;
    if let (Some(one), Some(two), Some(three)) = (parts.next(), parts.next(), parts.next()) {
        batch.discard(one);
        batch.discard_and_prefetch(two, &MemoryLocation::HostNuma(0));
        batch.discard_and_prefetch(three, &device);
    }
    drop(parts);
    batch.queue(&other)?;
    buffer.as_mut_slice().fill(4)?;
    let mut batch = ManagedBatch::new();
    batch.prefetch(&*buffer, &device);
    batch.queue(&stream)?;
    assert!(buffer.host()?.iter().all(|&word| word == 4));
    buffer.close()
}

fn exclusive(builder: Builder) -> Builder {
    match Machine::named("one-gtx1650-exclusive") {
        Some(machine) => builder.machine(machine),
        None => builder,
    }
}

fn managed_on_the_host(fixture: &Fixture) -> Result<()> {
    let mut buffer = ManagedBuffer::<u32>::zeroed(&fixture.stream()?, N as usize)?;
    buffer.with_host(|words| words.fill(6))?;
    assert_eq!(buffer.to_vec()?, [6; N as usize]);
    buffer.close()
}

fn pointers(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let buffer = filled(&stream, 1)?;
    let whole = buffer.as_slice().pointer_attributes()?;
    assert_eq!(whole.memory_type, Some(MemoryType::DEVICE));
    assert_eq!(whole.device_address, buffer.as_raw());
    Ok(())
}
