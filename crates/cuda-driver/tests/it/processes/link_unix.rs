//! The socket between the two processes, which transfers descriptors too.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::LIMIT;

/// One end of the socket.
pub(super) struct Link(UnixStream);

impl Link {
    /// Starts a process, and returns it and this end of its socket.
    pub(super) fn start(command: &mut Command) -> (Child, Self) {
        let (own, other) = UnixStream::pair().unwrap();
        let child = command.stdin(OwnedFd::from(other)).spawn().unwrap();
        (child, Self::new(own))
    }

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
    pub(super) fn send_handle(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let data = [IoSlice::new(b"d")];
        sendmsg(&self.0, &data, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a descriptor.
    pub(super) fn receive_handle(&mut self) -> io::Result<OwnedFd> {
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
