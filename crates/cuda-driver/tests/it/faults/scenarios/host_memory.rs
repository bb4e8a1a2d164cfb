//! Scenarios of page-locked memory and of copies from and to it.

use cuda_driver::memory::{
    CachingPool, CopyBatch, MemoryType, PinnedCachingPool, PinnedStorage, PitchedBuffer,
};
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};

use super::{Fixture, N, Result, Scenario, copy, expect, filled, on, one};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("pinned", pinned),
    one("uninitialized pinned", uninitialized),
    one("registered", registered),
    one("transfers", transfers),
    one("dropped transfers", dropped),
    one("scope", scope),
    one("boxes of page-locked memory", boxes),
    one("batches", batches),
    on("first batches", |it| it.version(12_080), batches),
    one("caching", caching),
];

fn page_locked(fixture: &Fixture, value: u32) -> Result<PinnedBuffer<u32>> {
    PinnedBuffer::from_host(
        &fixture.context,
        &[value; N as usize],
        PinnedFlags::DEVICE_MAP,
    )
}

fn pinned(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut memory = page_locked(fixture, 4)?;
    assert!(memory.flags()?.contains(PinnedFlags::DEVICE_MAP));
    let attributes = fixture
        .context
        .pointer_attributes(memory.device_address()?)?;
    assert_eq!(attributes.memory_type, Some(MemoryType::HOST));
    let mut buffer = filled(&stream, 0)?;
    buffer.copy_from_pinned(&memory)?;
    expect(&buffer, 4)?;
    buffer.fill(5)?;
    buffer.copy_to_pinned(&mut memory)?;
    assert_eq!(memory[..], [5; N as usize]);
    let storage = PinnedStorage::from(memory);
    let mut part = storage.take(..)?;
    buffer.copy_from_pinned(&part)?;
    buffer.copy_to_pinned(&mut part)?;
    assert_eq!(part[..], [5; N as usize]);
    drop(part);
    storage.into_buffer().unwrap().close()
}

fn uninitialized(fixture: &Fixture) -> Result<()> {
    let buffer = filled(&fixture.stream()?, 3)?;
    let memory = PinnedBuffer::uninit(&fixture.context, N as usize, PinnedFlags::DEFAULT)?;
    memory.device_address()?;
    let memory = memory.init_from_device(&buffer.as_slice())?;
    assert_eq!(memory[..], [3; N as usize]);
    PinnedBuffer::<u32>::uninit(&fixture.context, 4, PinnedFlags::DEFAULT)?.close()
}

fn registered(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let vec = vec![6_u32; N as usize];
    let mut memory = RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::DEVICE_MAP)?;
    assert_ne!(memory.device_address()?, 0);
    let mut buffer = filled(&stream, 0)?;
    buffer.copy_from_pinned(&memory)?;
    expect(&buffer, 6)?;
    buffer.fill(7)?;
    buffer.copy_to_pinned(&mut memory)?;
    drop(buffer);
    assert_eq!(memory.into_vec()?, [7; N as usize]);
    let other =
        RegisteredBuffer::from_vec(&fixture.context, vec![1_u8; 9], RegisterFlags::empty())?;
    drop(other);
    RegisteredBuffer::from_vec(&fixture.context, vec![1_u8; 9], RegisterFlags::empty())?.close()
}

fn transfers(fixture: &Fixture) -> Result<()> {
    let (owner, copying) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let mut buffer = filled(&owner, 0)?;
    let up = buffer.copy_from_pinned_async(page_locked(fixture, 8)?, &copying);
    let up = up.map_err(|error| error.error().clone())?;
    let mut out = filled(&owner, 0)?;
    copy(&owner, &kernel, &buffer, &mut out)?;
    let memory = up.wait().map_err(|error| error.error().clone())?;
    let down = out.copy_to_pinned_async(memory, &copying);
    let down = down.map_err(|error| error.error().clone())?;
    // Another buffer may take its memory at once.
    drop(out);
    let next = filled(&owner, 1)?;
    down.is_done()?;
    let memory = down.wait().map_err(|error| error.error().clone())?;
    assert_eq!(memory[..], [8; N as usize]);
    expect(&next, 1)
}

/// Transfers that are dropped without a wait.
fn dropped(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut buffer = filled(&stream, 0)?;
    let up = buffer.copy_from_pinned_async(page_locked(fixture, 3)?, &stream);
    drop(up.map_err(|error| error.error().clone())?);
    let down = buffer.copy_to_pinned_async(page_locked(fixture, 0)?, &stream);
    drop(down.map_err(|error| error.error().clone())?);
    expect(&buffer, 3)
}

fn scope(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let (source, mut target) = (page_locked(fixture, 2)?, page_locked(fixture, 0)?);
    let mut buffer = filled(&stream, 0)?;
    stream.copy_scope(|scope| {
        scope.copy_from_host(buffer.as_mut_slice(), &source)?;
        scope.copy_to_host(buffer.as_slice(), &mut target)
    })?;
    assert_eq!(target[..], [2; N as usize]);
    Ok(())
}

fn boxes(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let (source, mut target) = (page_locked(fixture, 2)?, page_locked(fixture, 0)?);
    let (shape, flags) = (ArrayShape::one_d(N as usize), ArrayFlags::empty());
    let mut array = Array::<u32>::zeroed(&other, &shape, flags)?;
    let up = array.as_mut_slice().copy_from_pinned_async(source, &stream);
    let source = up.map_err(|error| error.error().clone())?.wait()?;
    let mut rows = PitchedBuffer::<u32>::zeroed(&stream, (N as usize, 1))?;
    let up = rows.as_mut_slice().copy_from_pinned_async(source, &other);
    drop(up.map_err(|error| error.error().clone())?);
    stream.copy_scope(|scope| scope.copy_box_to_host(rows.as_slice(), &mut target))?;
    assert_eq!(target[..], [2; N as usize]);
    let down = array.as_slice().copy_to_pinned_async(target, &stream);
    let down = down.map_err(|error| error.error().clone())?;
    assert_eq!(down.wait()?[..], [2; N as usize]);
    Ok(())
}

fn batches(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let (source, mut target) = (page_locked(fixture, 2)?, page_locked(fixture, 0)?);
    let mut buffer = filled(&stream, 0)?;
    let mut copied = filled(&other, 0)?;
    let mut rows = PitchedBuffer::<u32>::zeroed(&other, (4, 4))?;
    let mut array = Array::<u32>::zeroed(&other, &ArrayShape::two_d(4, 4), ArrayFlags::empty())?;
    stream.copy_scope(|scope| {
        let mut batch = scope.batch();
        batch.copy_from_host(&mut buffer, &source)?;
        batch.queue()
    })?;
    let mut batch = CopyBatch::new();
    for (to, from) in (copied.as_mut_slice().chunks_mut(16)?).zip(buffer.as_slice().chunks(16)?) {
        batch.copy(to, from)?;
    }
    let boxes = buffer.slice(..16)?.rows(4)?;
    batch.copy_box(rows.as_mut_slice(), boxes)?;
    batch.copy_array(&mut array, buffer.slice(..16)?)?;
    batch.queue(&other)?;
    let mut elements = PinnedBuffer::<u32>::zeroed(&fixture.context, 16, PinnedFlags::DEFAULT)?;
    other.copy_scope(|scope| {
        let mut batch = scope.batch();
        batch.copy_to_host(&copied, &mut target)?;
        batch.copy_array_to_host(array.as_slice(), &mut elements)?;
        batch.queue()
    })?;
    assert_eq!(elements[..], [2; 16]);
    drop(array);
    assert_eq!(target[..], [2; N as usize]);
    assert_eq!(rows.to_vec()?, [2; 16]);
    copied.close()
}

fn caching(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let pool = CachingPool::new(&fixture.context);
    for value in 1..4 {
        let source = DeviceBuffer::from_host_in(&pool, &stream, &[value; N as usize])?;
        let mut target = DeviceBuffer::<u32>::zeroed_in(&pool, &other, N as usize)?;
        copy(&other, &kernel, &source, &mut target)?;
        drop(source);
        expect(&target, value)?;
    }
    let host = PinnedCachingPool::new(&fixture.context, PinnedFlags::empty());
    for value in 1..3 {
        let memory = PinnedBuffer::from_host_in(&host, &[value; N as usize])?;
        let mut buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, N as usize)?;
        buffer.copy_from_pinned(&memory)?;
        expect(&buffer, value)?;
    }
    pool.trim_to(0);
    host.trim_to(0);
    Ok(())
}
