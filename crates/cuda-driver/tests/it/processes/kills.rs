//! Processes that are killed while they share memory.

use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::event::IpcEventHandle;
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;

use super::{Holder, LIMIT, Link, Peer, Place, Role, Side, count, random};
use crate::support::{COPY, Fixture, assert_all, filled, launch_copy, unpooled};

/// The task of a process that another one has started.
pub(super) fn run_child(fixture: &Fixture, link: Link, role: Role, rounds: u32) {
    match role {
        Role::Importer | Role::Exporter => {
            let mut side = Side::new(fixture, link).unwrap();
            side.run(role, rounds).unwrap();
            side.close().unwrap();
        }
        Role::Stuck => stuck(fixture, link),
        Role::Holder => Holder::hold(fixture, link),
        Role::Survivor => survive(fixture, link, rounds),
        Role::Player => random::run(fixture, link, Role::Importer, rounds),
    }
}

/// Returns the number of open descriptors of this process.
#[cfg(unix)]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the number of open handles of this process.
#[cfg(windows)]
fn descriptors() -> usize {
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount};
    let mut count = 0;
    // SAFETY: the place must be valid ← it is a local variable.
    let is_done = unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) };
    assert_ne!(is_done, 0);
    count as usize
}

/// Waits until `holds` returns true.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kills the other process in the middle of an exchange. This process gets its data or an error in
/// time, and then holds what it held before.
fn kill(place: Place, kills: u32) {
    let Some(fixture) = place.open() else {
        return;
    };
    // The first exchange creates what the driver and the library keep.
    for role in [Role::Importer, Role::Exporter] {
        let (mut peer, link) = Peer::start(place, role, 1);
        let mut side = Side::new(&fixture, link).unwrap();
        side.run(role.other(), 1).unwrap();
        side.close().unwrap();
        peer.wait();
    }
    fixture.context.synchronize().unwrap();
    let open = descriptors();
    let free = fixture.context.memory_info().unwrap().0;
    let mut random = fastrand::Rng::with_seed(22);
    let (mut longest, mut errors) = (Duration::ZERO, 0);
    for number in 0..kills {
        let role = [Role::Importer, Role::Exporter][number as usize % 2];
        let (mut peer, link) = Peer::start(place, role, u32::MAX);
        let mut side = Side::new(&fixture, link).unwrap();
        side.is_careful = true;
        let progress = Arc::clone(&side.progress);
        let pause = Duration::from_micros(random.u64(..40_000));
        let (result, time) = thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let start = Instant::now();
                while progress.load(Ordering::Relaxed) == 0 {
                    assert!(
                        start.elapsed() < 3 * LIMIT,
                        "the other process has not started"
                    );
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(pause);
                peer.kill();
                Instant::now()
            });
            let result = side
                .run(role.other(), u32::MAX)
                .map_err(|error| error.to_string());
            let ended = Instant::now();
            let killed = killer.join().unwrap();
            (result, ended.saturating_duration_since(killed))
        });
        assert!(time < LIMIT, "{number}: {time:?}");
        longest = longest.max(time);
        errors += u32::from(result.is_err());
        // The other process has ended.
        side.reclaim().unwrap();
        side.close().unwrap();
    }
    println!(
        "{}: note: {kills} kills, {errors} errors, longest wait {longest:?}",
        fixture.name
    );
    eventually("all descriptors are closed", || descriptors() == open);
    eventually("all device memory is free", || {
        fixture.context.synchronize().unwrap();
        // A driver keeps some for itself.
        let lost = free.saturating_sub(fixture.context.memory_info().unwrap().0);
        lost < if place == Place::Gpu { 64 << 20 } else { 1 }
    });
    if let Some(simulator) = &fixture.simulator {
        drop(fixture.context);
        eventually("all objects are destroyed", || simulator.live().is_empty());
    }
}

#[test]
fn survivor_continues_on_software_devices() {
    kill(Place::Eager, count(50, 4));
    kill(Place::Late(5), count(50, 4));
}

#[test]
fn survivor_continues_on_a_gpu() {
    kill(Place::Gpu, count(50, 4));
}

/// Records an event behind work that never completes, and waits to be killed.
fn stuck(fixture: &Fixture, mut link: Link) {
    let stream = fixture.stream();
    let flag = unpooled(&stream, &[0_u32]);
    stream
        .wait_value(&flag, 0, WaitCondition::EQUAL, 1)
        .unwrap();
    let event = Event::interprocess(&fixture.context).unwrap();
    event.record(&stream).unwrap();
    let handle = event.ipc_handle().unwrap();
    link.send(&handle.to_bytes()).unwrap();
    loop {
        thread::sleep(LIMIT);
    }
}

/// Lets the host or a stream wait for an event of a process that is killed meanwhile. Sends how the
/// wait ended: 0 in time, 1 at its limit, 2 with an error.
fn survive(fixture: &Fixture, mut link: Link, on_stream: u32) {
    let (place, ..) = Role::of_child().unwrap();
    let (mut peer, mut other) = Peer::start(place, Role::Stuck, 0);
    let handle = IpcEventHandle::from_bytes(other.receive().unwrap());
    // SAFETY: the handle must be that of an event whose process keeps it ← it ends instead.
    let event = unsafe { Event::open_ipc(&fixture.context, &handle) }.unwrap();
    assert!(!event.is_done().unwrap(), "the work before the event waits");
    let (stream, reader) = (fixture.stream(), fixture.stream());
    let words = filled(&stream, 100, 5);
    let mut copy = filled(&stream, 100, 0);
    launch_copy(&fixture.kernel(COPY, "copy"), &stream, &words, &mut copy).unwrap();
    if on_stream == 1 {
        stream.wait(&event).unwrap();
    }
    // The work before the wait can be waited for.
    let mut result = filled(&reader, 100, 0);
    result.copy_from_on(&copy, &reader).unwrap();
    assert!(reader.synchronize_timeout(LIMIT).unwrap());
    assert_all(&result, 5, &fixture.name);
    peer.kill();
    let limit = Duration::from_secs(2);
    let ended = if on_stream == 1 {
        stream.synchronize_timeout(limit)
    } else {
        event.synchronize_timeout(limit)
    };
    let reply = match &ended {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => 2,
    };
    eprintln!("{}: on a stream: {on_stream}, {ended:?}", fixture.name);
    link.send(&[reply]).unwrap();
    // Dropping the stream or its context might wait forever.
    process::exit(0);
}

/// Returns how the waits of the host and of a stream for a killed process end.
fn ends(place: Place) -> [u8; 2] {
    [0, 1].map(|on_stream| {
        let (mut peer, mut link) = Peer::start(place, Role::Survivor, on_stream);
        let [reply] = link.receive().unwrap();
        peer.wait();
        reply
    })
}

#[test]
fn wait_for_a_killed_process_reaches_its_limit() {
    for place in [Place::Eager, Place::Late(7)] {
        assert_eq!(ends(place), [1, 1], "{place:?}");
    }
}

/// The driver's behaviour is recorded in docs/safety.md; here the waits only have to end.
#[test]
fn wait_for_a_killed_process_ends_on_a_gpu() {
    if let Some(fixture) = Place::Gpu.open() {
        let [host, stream] = ends(Place::Gpu);
        println!("{}: note: host {host}, stream {stream}", fixture.name);
    }
}
