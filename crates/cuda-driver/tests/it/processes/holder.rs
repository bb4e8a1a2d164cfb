//! A process that keeps memory and an event for all tests of this process.

use std::sync::OnceLock;

use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{IpcMemoryHandle, MemoryHandle, Unpooled};
use cuda_driver::prelude::*;

use super::{Link, Peer, Place, Role};
use crate::support::Fixture;

/// The memory and the event of the other process, which ends when this one does.
pub(crate) struct Holder {
    pub(crate) memory: IpcMemoryHandle,
    pub(crate) event: IpcEventHandle,
    _peer: Peer,
    _link: Link,
}

impl Holder {
    /// The number of words in the memory, and their value.
    pub(crate) const LEN: usize = 40;
    pub(crate) const VALUE: u32 = 0x1234_5678;

    /// Returns the process, which is started at the first call.
    pub(crate) fn get() -> &'static Self {
        static HOLDER: OnceLock<Holder> = OnceLock::new();
        HOLDER.get_or_init(|| {
            let (peer, mut link) = Peer::start(Place::Eager, Role::Holder, 0);
            Self {
                memory: IpcMemoryHandle::from_bytes(link.receive().unwrap()),
                event: IpcEventHandle::from_bytes(link.receive().unwrap()),
                _peer: peer,
                _link: link,
            }
        })
    }

    /// Runs in the other process until the first one ends.
    pub(super) fn hold(fixture: &Fixture, mut link: Link) {
        let stream = fixture.stream();
        let words = [Self::VALUE; Self::LEN];
        let buffer = DeviceBuffer::from_host_in(&Unpooled, &stream, &words).unwrap();
        let buffer = buffer.export().unwrap();
        let MemoryHandle::Ipc(memory) = buffer.handle() else {
            panic!("{:?}", buffer.handle());
        };
        let event = Event::interprocess(&fixture.context).unwrap();
        event.record(&stream).unwrap();
        link.send(&memory.to_bytes()).unwrap();
        link.send(&event.ipc_handle().unwrap().to_bytes()).unwrap();
        link.until_closed();
        // SAFETY: no process may have the memory open ← the only other one has ended.
        drop(unsafe { buffer.reclaim() });
    }
}
