//! The connection between the two processes. Each of them duplicates handles into the other one.

use std::env;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::process::{self, Child, Command};
use std::ptr;

use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcess, PROCESS_DUP_HANDLE};

use super::LIMIT;

/// The port at which the first process listens.
const PORT: &str = "CUDA_DRIVER_TEST_PORT";

/// One end of the connection.
pub(super) struct Link {
    socket: TcpStream,
    /// The other process.
    peer: OwnedHandle,
}

impl Link {
    /// Starts a process, and returns it and this end of the connection.
    pub(super) fn start(command: &mut Command) -> (Child, Self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let child = command.env(PORT, port.to_string()).spawn().unwrap();
        let link = Self::new(listener.accept().unwrap().0);
        (child, link)
    }

    fn new(mut socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_write_timeout(Some(LIMIT)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.write_all(&process::id().to_le_bytes()).unwrap();
        let mut peer = [0; 4];
        socket.read_exact(&mut peer).unwrap();
        let peer = u32::from_le_bytes(peer);
        // SAFETY: the function takes any number, and fails if there is no such process.
        let peer = unsafe { OpenProcess(PROCESS_DUP_HANDLE, 0, peer) };
        assert!(!peer.is_null(), "{}", io::Error::last_os_error());
        // SAFETY: the handle must be open and have no other owner ← it was opened just now.
        let peer = unsafe { OwnedHandle::from_raw_handle(peer) };
        Self { socket, peer }
    }

    /// Returns the end of a child process.
    pub(super) fn of_child() -> Self {
        let port: u16 = env::var(PORT).unwrap().parse().unwrap();
        Self::new(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    pub(super) fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until the other process has ended.
    pub(super) fn until_closed(&mut self) {
        self.socket.set_read_timeout(None).unwrap();
        let _ = self.receive::<1>();
    }

    /// Duplicates a handle into the other process.
    pub(super) fn send_handle(&mut self, handle: BorrowedHandle<'_>) -> io::Result<()> {
        let mut theirs = ptr::null_mut();
        // SAFETY: the handles must be open, and the place valid ← the handles are borrowed, and the
        // place is a local variable.
        let is_done = unsafe {
            DuplicateHandle(
                GetCurrentProcess(),
                handle.as_raw_handle(),
                self.peer.as_raw_handle(),
                &raw mut theirs,
                0,
                0,
                DUPLICATE_SAME_ACCESS,
            )
        };
        if is_done == 0 {
            return Err(io::Error::last_os_error());
        }
        self.send(&(theirs.addr() as u64).to_le_bytes())
    }

    /// Receives a handle.
    pub(super) fn receive_handle(&mut self) -> io::Result<OwnedHandle> {
        let number = u64::from_le_bytes(self.receive()?);
        let raw = ptr::without_provenance_mut(number as usize);
        // SAFETY: the handle must be open and have no other owner ← the other process has
        // duplicated it into this one.
        Ok(unsafe { OwnedHandle::from_raw_handle(raw) })
    }
}
