//! The other process.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{LIMIT, Link, Place};

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
        let place = match place {
            Place::Eager => String::from("eager"),
            Place::Gpu => String::from("gpu"),
            Place::Late(seed) => seed.to_string(),
        };
        let role = format!("{role:?}").to_lowercase();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "--ignored", "--test-threads=1", "--nocapture"])
            .arg("processes::child")
            .env(PEER, format!("{place}:{role}:{rounds}"))
            .stdout(Stdio::null());
        let (child, link) = Link::start(&mut command);
        (Self(child), link)
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
