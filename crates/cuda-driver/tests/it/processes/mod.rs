//! Memory and events that two processes share. The second process runs an ignored test of this
//! binary.
//!
//! `CUDA_FULL=1` runs the full number of exchanges and kills.

mod exchange;
mod holder;
mod kills;
mod link;
#[cfg_attr(windows, path = "link_windows.rs")]
#[cfg_attr(not(windows), path = "link_unix.rs")]
mod link_system;
mod random;
mod refusals;
#[cfg(target_os = "linux")]
mod torch;

use std::env;
use std::time::{Duration, Instant};

use crate::support::{Fixture, gpu, late, software};
use cuda_sim::Builder;

use exchange::Side;
pub(crate) use holder::Holder;
use link::{Peer, Role};
use link_system::Link;

/// The limit of what follows the end of a process, and of tests that would otherwise hang.
const LIMIT: Duration = Duration::from_secs(10);
/// The limit of a wait for an event of a process that may have been killed.
const WAIT: Duration = Duration::from_secs(4);

/// Returns `full` if `CUDA_FULL=1` is set, otherwise `daily`.
fn count(full: u32, daily: u32) -> u32 {
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    if is_full { full } else { daily }
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Eager,
    Late(u64),
    Gpu,
}

impl Place {
    fn open(self) -> Option<Fixture> {
        match self {
            Self::Eager => Some(software(Builder::new())),
            Self::Late(seed) => Some(software(late(seed))),
            Self::Gpu => gpu(),
        }
    }
}

/// Exchanges buffers with another process, in both directions.
fn exchange(place: Place, rounds: u32) {
    let Some(fixture) = place.open() else {
        return;
    };
    for role in [Role::Importer, Role::Exporter] {
        let start = Instant::now();
        let (mut peer, link) = Peer::start(place, role, rounds);
        let mut side = Side::new(&fixture, link).unwrap();
        side.run(role.other(), rounds).unwrap();
        side.close().unwrap();
        peer.wait();
        println!(
            "{}: note: {rounds} exchanges, {role:?} in another process, {:.1} s",
            fixture.name,
            start.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn exchange_on_software_devices() {
    exchange(Place::Eager, count(10_000, 100) / 2);
    exchange(Place::Late(3), count(10_000, 60) / 2);
}

#[test]
fn exchange_on_a_gpu() {
    exchange(Place::Gpu, count(10_000, 100) / 2);
}

/// The other process of the tests in this folder.
#[test]
#[ignore = "runs in a process that another test starts"]
fn child() {
    let Some((place, role, rounds)) = Role::of_child() else {
        return;
    };
    let fixture = place.open().unwrap();
    let link = Link::of_child();
    kills::run_child(&fixture, link, role, rounds);
}
