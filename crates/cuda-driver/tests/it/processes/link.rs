//! The other process, and the socket between the two.

use std::env;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::{LIMIT, Place};

/// The device, the role and the number of rounds of the other process.
const PEER: &str = "CUDA_DRIVER_TEST_PEER";

/// The part of a process in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It opens the buffers of the other process.
    Importer,
    /// It creates the buffers.
    Exporter,
    /// It records an event that never completes, and waits to be killed.
    Stuck,
    /// It keeps memory and an event until the other process ends.
    Holder,
    /// It waits on a stream for the event of a stuck process that it starts and kills.
    Survivor,
    /// It opens the buffers of random programs.
    Player,
}

impl Role {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Importer => Self::Exporter,
            _ => Self::Importer,
        }
    }

    /// Returns what this process is for, if another one has started it.
    pub(super) fn of_child() -> Option<(Place, Self, u32)> {
        let text = env::var(PEER).ok()?;
        let mut parts = text.split(':');
        let mut next = || parts.next().unwrap();
        let place = match next() {
            "eager" => Place::Eager,
            "gpu" => Place::Gpu,
            late => Place::Late(late.parse().unwrap()),
        };
        let role = match next() {
            "importer" => Self::Importer,
            "exporter" => Self::Exporter,
            "stuck" => Self::Stuck,
            "holder" => Self::Holder,
            "player" => Self::Player,
            _ => Self::Survivor,
        };
        Some((place, role, next().parse().unwrap()))
    }
}

/// The other process. It is killed when the value is dropped.
pub(super) struct Peer(Child);

impl Peer {
    /// Starts a process that runs [`super::child`].
    pub(super) fn start(place: Place, role: Role, rounds: u32) -> (Self, Link) {
        let (own, other) = UnixStream::pair().unwrap();
        let place = match place {
            Place::Eager => String::from("eager"),
            Place::Gpu => String::from("gpu"),
            Place::Late(seed) => seed.to_string(),
        };
        let role = format!("{role:?}").to_lowercase();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--test-threads=1", "--nocapture"])
            .arg("processes::child")
            .env(PEER, format!("{place}:{role}:{rounds}"))
            .stdin(OwnedFd::from(other))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (Self(child), Link::new(own))
    }

    /// Kills the process, and waits until it has ended.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until the process has ended, and fails unless its test has passed.
    pub(super) fn wait(&mut self) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "the other process: {status}");
                return;
            }
            assert!(start.elapsed() < LIMIT, "the other process has not ended");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One end of the socket.
pub(super) struct Link(UnixStream);

impl Link {
    fn new(socket: UnixStream) -> Self {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_write_timeout(Some(LIMIT)).unwrap();
        Self(socket)
    }

    /// Returns the end of a child process, which is its standard input.
    pub(super) fn of_child() -> Self {
        Self::new(UnixStream::from(
            io::stdin().as_fd().try_clone_to_owned().unwrap(),
        ))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(super) fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until the other process has ended.
    pub(super) fn until_closed(&mut self) {
        self.0.set_read_timeout(None).unwrap();
        let _ = self.receive::<1>();
    }

    /// Sends a descriptor.
    pub(super) fn send_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let data = [IoSlice::new(b"d")];
        sendmsg(&self.0, &data, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a descriptor.
    pub(super) fn receive_descriptor(&mut self) -> io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut data = [IoSliceMut::new(&mut byte)];
        recvmsg(&self.0, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let received = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
