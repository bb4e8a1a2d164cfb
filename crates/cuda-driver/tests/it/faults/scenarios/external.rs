//! Scenarios of memory and semaphores of other APIs.

#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[cfg(unix)]
use cuda_driver::memory::GrowableBuffer;
use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;
use cuda_driver::texture::{ArrayFlags, ArrayShape, Sampler, Texture};

use super::{Fixture, N, Result, Scenario, one};
use crate::other_api::file;

pub(super) const ALL: &[Scenario] = &[
    one("external memory", memory),
    one("arrays in external memory", arrays),
    one("external semaphores", semaphores),
    one("external semaphores in graphs", nodes),
    #[cfg(unix)]
    one("device memory as a dma-buf", dma_buf),
];

fn memory(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let (context, bytes) = (&fixture.context, 4 * N as usize);
    let file = file(bytes as u64);
    let handle = file.try_clone().unwrap().into();
    let flags = ExternalMemoryFlags::empty();
    // SAFETY: the file must have as many bytes, all of them written, and accesses must not overlap
    // ← it was created with zeros, and is read after the stream was waited for.
    let memory = unsafe { ExternalMemory::import(context, handle, bytes, flags) }?;
    let mut words = memory.map::<u32>(&stream, 0, N as usize)?;
    words.fill(3)?;
    stream.synchronize()?;
    let mut first = [0; 4];
    file.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(u32::from_le_bytes(first), 3);
    words.close()?;
    memory.close()
}

fn arrays(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let file = file(4096);
    let handle = file.try_clone().unwrap().into();
    let flags = ExternalMemoryFlags::empty();
    // SAFETY: the file must have as many bytes, all of them written, and accesses must not overlap
    // ← it was created with zeros, and is read after the stream was waited for.
    let memory = unsafe { ExternalMemory::import(&fixture.context, handle, 4096, flags) }?;
    let (shape, flags) = (ArrayShape::two_d(4, 4), ArrayFlags::SURFACE);
    // SAFETY: the bytes must hold an image of this shape ← the software device takes contiguous
    // rows, and any bytes are a `u32`.
    let mut image = unsafe { memory.map_array::<u32>(&stream, ..1024, &shape, flags) }?;
    let pyramid = 1024..2048;
    // SAFETY: as above, for an image with two levels.
    let pyramid = unsafe { memory.map_mipmapped_array::<u32>(&stream, pyramid, &shape, 2, flags) }?;
    memory.close()?;
    image.copy_from_host(&[7; 16])?;
    assert_eq!(pyramid.level(1)?.to_vec()?, [0; 4]);
    let texture = Texture::new(&image, &Sampler::new())?;
    drop((image, texture, pyramid));
    let mut word = [0; 4];
    file.read_exact_at(&mut word, 60).unwrap();
    assert_eq!(u32::from_le_bytes(word), 7);
    Ok(())
}

/// Returns a timeline semaphore.
fn semaphore(fixture: &Fixture) -> Result<ExternalSemaphore> {
    let handle = file(4096).into();
    // SAFETY: the file must be a semaphore ← it has a page of zeros.
    unsafe { ExternalSemaphore::import_timeline(&fixture.context, handle) }
}

fn semaphores(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let semaphore = semaphore(fixture)?;
    stream.signal_external(&semaphore, 1)?;
    other.wait_external(&semaphore, 1)?;
    other.synchronize()?;
    stream.synchronize()?;
    semaphore.close()
}

fn nodes(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let semaphore = Arc::new(semaphore(fixture)?);
    let mut graph = Graph::new(&fixture.context)?;
    let signal = graph.add_external_signal(&[], &semaphore, 1)?;
    let wait = graph.add_external_wait(&[signal.edge()], &semaphore, 1)?;
    graph.set_external_signal(signal, &semaphore, 2)?;
    graph.set_external_wait(wait, &semaphore, 2)?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    exec.set_external_signal(signal, &semaphore, 3)?;
    exec.set_external_wait(wait, &semaphore, 3)?;
    exec.launch(&stream)?;
    stream.synchronize()
}

/// The descriptor of device memory is imported as memory of another API.
#[cfg(unix)]
fn dma_buf(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut words = GrowableBuffer::<u32>::new(&stream, 4096)?;
    words.grow_to(2048)?;
    words.as_mut_slice().fill(7)?;
    stream.synchronize()?;
    let descriptor = words.as_slice().slice(1024..2048)?.export_dma_buf()?;
    let (context, flags) = (&fixture.context, ExternalMemoryFlags::empty());
    // SAFETY: the descriptor must be that of 4096 bytes, all of them written, and accesses must not
    // overlap ← it was exported just now, and the fill is complete.
    let memory = unsafe { ExternalMemory::import_dma_buf(context, descriptor, 4096, flags) }?;
    let same = memory.map::<u32>(&stream, 4, 1023)?;
    assert_eq!(same.to_vec()?, [7; 1023]);
    same.close()?;
    memory.close()
}
