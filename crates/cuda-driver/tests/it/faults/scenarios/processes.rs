//! Scenarios of memory and events that several processes share.

use cuda_driver::memory::{ExportedBuffer, ImportedPool, MemoryHandle, MemoryPool, Unpooled};
#[cfg(unix)]
use cuda_driver::memory::{PhysicalKind, PhysicalMemory, Reservation};
use cuda_driver::prelude::*;

use super::{Fixture, N, Result, Scenario, one};
use crate::other_api::borrow;
use crate::processes::Holder;

pub(super) const ALL: &[Scenario] = &[
    one("exported pools", pools),
    #[cfg(unix)]
    one("exported physical memory", physical),
    one("memory of another process", opened),
];

/// A buffer that no other process opens. Dropping an [`ExportedBuffer`] would leak the memory.
struct Reclaimed(Option<ExportedBuffer<u32>>);

impl Reclaimed {
    fn close(mut self) -> Result<()> {
        // SAFETY: no process may have the memory open ← the scenarios drop what they open before.
        let buffer = self.0.take().map(|buffer| unsafe { buffer.reclaim() });
        buffer.map_or(Ok(()), DeviceBuffer::close)
    }
}

impl Drop for Reclaimed {
    fn drop(&mut self) {
        // SAFETY: no process may have the memory open ← the scenarios drop what they open before.
        drop(self.0.take().map(|buffer| unsafe { buffer.reclaim() }));
    }
}

fn pools(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let device = fixture.context.device();
    let pool = MemoryPool::exportable(device)?;
    let descriptor = pool.export()?;
    // SAFETY: the handle must be one of a pool ← `export` returned it.
    let imported = unsafe { ImportedPool::import(device, borrow(&descriptor)) }?;
    let words = DeviceBuffer::from_host_in(&pool, &stream, &[5_u32; N as usize])?;
    let words = Reclaimed(Some(words.export()?));
    stream.synchronize()?;
    let handle = words.0.as_ref().map(|buffer| *buffer.handle());
    if let Some(MemoryHandle::Pool(pointer)) = handle {
        // SAFETY: the memory must have as many words, which nothing writes ← they were written
        // before.
        let same = unsafe { imported.open::<u32>(&stream, &pointer, N as usize) }?;
        assert_eq!(same.to_vec()?, [5; N as usize]);
        same.close()?;
    }
    stream.synchronize()?;
    words.close()?;
    imported.close()?;
    pool.close()
}

#[cfg(unix)]
fn physical(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let kind = PhysicalKind::of_device(fixture.context.device()).exportable();
    let memory = PhysicalMemory::new(&kind, 1)?;
    let descriptor = memory.export()?;
    // SAFETY: the handle must be that of the memory, whose size this is ← `export` returned it.
    let same = unsafe { PhysicalMemory::import(&kind, borrow(&descriptor), memory.bytes()) }?;
    drop(memory);
    let addresses = Reservation::new(&fixture.driver, same.bytes(), 0)?;
    let words = addresses.map(0, &same)?.zeroed::<u32>(&stream)?;
    assert_eq!(words.slice(..4)?.to_vec()?, [0; 4]);
    words.close()
}

/// Memory outside of any pool, and an event, of a process that lives as long as this one.
fn opened(fixture: &Fixture) -> Result<()> {
    let holder = Holder::get();
    let stream = fixture.stream()?;
    // SAFETY: the event must exist ← the other process keeps it.
    let event = unsafe { Event::open_ipc(&fixture.context, &holder.event) }?;
    stream.wait(&event)?;
    // SAFETY: the memory must have as many words, which nothing writes ← the other process has
    // written them and keeps them.
    let words = unsafe { holder.memory.open::<u32>(&stream, 4, Holder::LEN - 1) }?;
    assert_eq!(words.to_vec()?, [Holder::VALUE; Holder::LEN - 1]);
    words.close()?;
    event.close()?;

    let own = DeviceBuffer::from_host_in(&Unpooled, &stream, &[7_u32; 8])?;
    let own = Reclaimed(Some(own.export()?));
    let event = Event::interprocess(&fixture.context)?;
    event.record(&stream)?;
    event.ipc_handle()?;
    event.close()?;
    own.close()?;
    stream.synchronize()
}
