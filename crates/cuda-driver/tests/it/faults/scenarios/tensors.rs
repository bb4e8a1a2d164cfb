//! Scenarios of tensors that are exchanged with other code.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::dlpack::{ArrayInterface, Consumer, DlTensor, RawTensor};
use cuda_driver::prelude::*;

use super::{Fixture, N, Result, Scenario, copy, expect, filled, one};
use crate::dlpack::produced;
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("exported tensor", exported),
    one("imported tensor", imported),
    one("unversioned tensor", unversioned),
    one("pinned tensor", pinned),
];

/// A consumer uses a buffer on its stream and releases it.
fn exported(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let handle = Some(other.dlpack_argument());
    for consumer in [Some(-1), None, Some(2), handle] {
        // SAFETY: the stream of the handle is alive, and nothing captures it.
        let consumer = unsafe { Consumer::from_python(&fixture.context, consumer) }?;
        let tensor = filled(&stream, 3)?.into_dlpack(&[N as usize], &consumer)?;
        // SAFETY: the tensor was exported just now.
        drop(unsafe { DlTensor::from_raw(tensor.into_raw()) }?);
    }
    let shared = Arc::new(filled(&stream, 4)?);
    ArrayInterface::of(&shared.as_slice(), &[N as usize])?;
    let (view, owner) = (shared.as_slice(), Arc::clone(&shared));
    let consumer = Consumer::on(&other);
    // SAFETY: the owner keeps the memory alive, and nothing writes it.
    let tensor = unsafe { DlTensor::export(&view, &[8], &[2], true, &consumer, owner) }?;
    drop(tensor);
    expect(&shared, 4)
}

/// The memory of a tensor. It is freed if the consumer has released the tensor in time. A consumer
/// that cannot wait for its uses leaks the tensor, and then the memory is leaked too.
struct Produced {
    memory: Option<DeviceBuffer<u32>>,
    released: Arc<AtomicUsize>,
}

impl Drop for Produced {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.released.load(Ordering::SeqCst) == 0 {
            if start.elapsed() > Duration::from_secs(1) {
                // The stream of the buffer is not leaked.
                let _ = self.memory.take().map(DeviceBuffer::into_raw);
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A buffer that is imported and used on two streams.
fn imported(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let kernel = fixture.kernel(COPY, "copy")?;
    let memory = filled(&stream, 5)?;
    let (raw, released) = produced(&memory, |_, _| ());
    let _kept = Produced {
        memory: Some(memory),
        released,
    };
    // SAFETY: the tensor is valid.
    let tensor = unsafe { DlTensor::from_raw(raw) }?;
    // SAFETY: the stream is that of the memory, which nothing else uses.
    let imported = unsafe { tensor.into_buffer::<u32>(&stream) }?;
    let source = imported.into_buffer()?;
    let mut target = filled(&other, 0)?;
    copy(&other, &kernel, &source, &mut target)?;
    drop(source);
    expect(&target, 5)
}

/// A tensor in the form of DLPack before version 1.0.
fn unversioned(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let tensor = filled(&stream, 5)?.into_dlpack(&[N as usize], &Consumer::on(&stream))?;
    let tensor = match tensor.into_raw_for(None)? {
        // SAFETY: the tensor was exported just now.
        RawTensor::Unversioned(raw) => unsafe { DlTensor::from_raw_unversioned(raw) },
        RawTensor::Versioned(_) => panic!("no version was asked for"),
    };
    assert_eq!(tensor.shape()?, [N as usize]);
    Ok(())
}

/// Page-locked memory that the host reads through a tensor.
fn pinned(fixture: &Fixture) -> Result<()> {
    let memory = PinnedBuffer::from_host(&fixture.context, &[6_u32; 4], PinnedFlags::DEFAULT)?;
    let tensor = memory.into_dlpack(&[2, 2])?;
    assert_eq!(tensor.shape()?, [2, 2]);
    Ok(())
}
