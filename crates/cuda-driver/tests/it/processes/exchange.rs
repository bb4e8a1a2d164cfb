//! The exchange of buffers and events. In each round the exporter fills a buffer, the importer
//! reads and overwrites it, and the exporter reads it again. Events order these steps.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{
    ExportedBuffer, ImportedPool, IpcMemoryHandle, MemoryHandle, MemoryPool, PoolPointer, Unpooled,
};
use cuda_driver::prelude::*;

use super::{LIMIT, Link, Role, WAIT};
use crate::other_api::borrow;
use crate::support::{COPY, Fixture, launch_copy};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The first byte of a message.
const STOP: u8 = 0;
const POOL: u8 = 1;
const IPC: u8 = 2;
/// The answer to a message that needs no data.
const DONE: [u8; 1] = [9];

/// The buffer and the event of one round, in bytes.
struct Offer {
    kind: u8,
    round: u32,
    len: u32,
    memory: [u8; 64],
    event: [u8; 64],
}

impl Offer {
    fn send(&self, link: &mut Link) -> Result {
        let mut bytes = vec![self.kind];
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.memory);
        bytes.extend(self.event);
        Ok(link.send(&bytes)?)
    }

    fn receive(link: &mut Link) -> Result<Self> {
        let [kind] = link.receive()?;
        Ok(Self {
            kind,
            round: u32::from_le_bytes(link.receive()?),
            len: u32::from_le_bytes(link.receive()?),
            memory: link.receive()?,
            event: link.receive()?,
        })
    }
}

/// The words that the exporter writes in a round.
fn question(round: u32, len: u32) -> Vec<u32> {
    let first = round.wrapping_mul(0x9E37_79B9);
    (0..len)
        .map(|index| first.wrapping_add(index * 7))
        .collect()
}

/// The words that the importer writes in a round.
fn answer(round: u32, len: u32) -> Vec<u32> {
    question(round, len).iter().map(|word| !word).collect()
}

/// One process in an exchange.
pub(super) struct Side<'f> {
    fixture: &'f Fixture,
    pub(super) link: Link,
    stream: Stream,
    other: Stream,
    kernel: Function,
    /// The buffer that the other process may have open.
    held: Option<ExportedBuffer<u32>>,
    /// Whether only the host waits for events of the other process, which may be killed.
    pub(super) is_careful: bool,
    /// The number of complete rounds.
    pub(super) progress: Arc<AtomicU32>,
}

impl<'f> Side<'f> {
    pub(super) fn new(fixture: &'f Fixture, link: Link) -> Result<Self> {
        Ok(Self {
            fixture,
            link,
            stream: fixture.stream(),
            other: fixture.stream(),
            kernel: fixture.kernel(COPY, "copy"),
            held: None,
            is_careful: false,
            progress: Arc::default(),
        })
    }

    /// Exchanges `rounds` buffers as an importer or an exporter. An importer ends when the exporter
    /// does.
    pub(super) fn run(&mut self, role: Role, rounds: u32) -> Result {
        let device = self.fixture.context.device();
        if role == Role::Exporter {
            let pool = MemoryPool::exportable(device)?;
            self.link.send_handle(borrow(&pool.export()?))?;
            let result = (0..rounds).try_for_each(|round| self.export(&pool, round));
            if result.is_ok() {
                self.link.send(&[STOP; 137])?;
            }
            return result;
        }
        let descriptor = self.link.receive_handle()?;
        // SAFETY: the handle must be one of a pool ← the other process sends it.
        let pool = unsafe { ImportedPool::import(device, borrow(&descriptor)) }?;
        assert_eq!(
            pool.access(device)?,
            cuda_driver::memory::MemoryAccess::ReadWrite
        );
        drop(descriptor);
        while self.import(&pool)? {}
        Ok(pool.close()?)
    }

    fn wait(&self, event: &Event, round: u32) -> Result {
        if self.is_careful || round.is_multiple_of(2) {
            if !event.synchronize_timeout(WAIT)? {
                return Err("the event has not completed".into());
            }
        } else {
            self.stream.wait(event)?;
        }
        Ok(())
    }

    fn export(&mut self, pool: &MemoryPool, round: u32) -> Result {
        let len = 1 + round.wrapping_mul(31) % 3000;
        let words = question(round, len);
        let buffer = if round % 4 == 3 {
            DeviceBuffer::from_host_in(&Unpooled, &self.stream, &words)?
        } else {
            DeviceBuffer::from_host_in(pool, &self.stream, &words)?
        };
        let buffer = self.held.insert(buffer.export()?);
        let (kind, memory) = match buffer.handle() {
            MemoryHandle::Pool(pointer) => (POOL, pointer.to_bytes()),
            MemoryHandle::Ipc(handle) => (IPC, handle.to_bytes()),
            other => panic!("{other:?}"),
        };
        let event = Event::interprocess(&self.fixture.context)?;
        event.record(&self.stream)?;
        let offer = Offer {
            kind,
            round,
            len,
            memory,
            event: event.ipc_handle()?.to_bytes(),
        };
        offer.send(&mut self.link)?;

        let reply = IpcEventHandle::from_bytes(self.link.receive()?);
        // SAFETY: the handle must be that of an event which the other process keeps ← it waits for
        // the message below.
        let reply = unsafe { Event::open_ipc(&self.fixture.context, &reply) }?;
        self.wait(&reply, round)?;
        if let Some(buffer) = &self.held {
            assert_eq!(buffer.to_vec()?, answer(round, len), "round {round}");
        }
        reply.close()?;
        self.link.send(&DONE)?;
        assert_eq!(self.link.receive()?, DONE);
        event.close()?;
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.reclaim()
    }

    /// Frees the buffer, which the other process has closed.
    pub(super) fn reclaim(&mut self) -> Result {
        if let Some(buffer) = self.held.take() {
            // SAFETY: no process may have the memory open ← the other one has said so, or has
            // ended.
            unsafe { buffer.reclaim() }.close()?;
        }
        Ok(())
    }

    fn import(&mut self, pool: &ImportedPool) -> Result<bool> {
        let offer = Offer::receive(&mut self.link)?;
        let len = offer.len as usize;
        if offer.kind == STOP {
            return Ok(false);
        }
        let event = IpcEventHandle::from_bytes(offer.event);
        // SAFETY: the handle must be that of an event which the other process keeps ← it waits for
        // the reply.
        let event = unsafe { Event::open_ipc(&self.fixture.context, &event) }?;
        self.wait(&event, offer.round)?;
        let stream = &self.stream;
        let mut buffer: DeviceBuffer<u32> = if offer.kind == POOL {
            let pointer = PoolPointer::from_bytes(offer.memory);
            // SAFETY: the other process must keep the memory, and not use it meanwhile ← it has
            // recorded the event behind its uses, and waits for the reply.
            unsafe { pool.open(stream, &pointer, len) }?
        } else {
            let handle = IpcMemoryHandle::from_bytes(offer.memory);
            // SAFETY: as for memory of the pool.
            unsafe { handle.open(stream, 0, len) }?
        };
        // A kernel on another stream reads the buffer, and a copy on the first one overwrites it.
        let mut copy = DeviceBuffer::zeroed(&self.other, len)?;
        launch_copy(&self.kernel, &self.other, &buffer, &mut copy)?;
        buffer.copy_from_host(&answer(offer.round, offer.len))?;
        let reply = Event::interprocess(&self.fixture.context)?;
        reply.record(stream)?;
        self.link.send(&reply.ipc_handle()?.to_bytes())?;
        let round = offer.round;
        assert_eq!(copy.to_vec()?, question(round, offer.len), "round {round}");
        assert_eq!(self.link.receive()?, DONE);
        reply.close()?;
        event.close()?;
        buffer.close()?;
        if !stream.synchronize_timeout(LIMIT)? {
            return Err("the stream has not completed".into());
        }
        self.link.send(&DONE)?;
        self.progress.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Waits for the work of both streams.
    pub(super) fn close(self) -> Result {
        assert!(self.held.is_none());
        assert!(self.stream.synchronize_timeout(LIMIT)? && self.other.synchronize_timeout(LIMIT)?);
        Ok(())
    }
}
