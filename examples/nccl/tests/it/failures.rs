//! If one rank fails, all others end with an error within a time limit.

use std::time::{Duration, Instant};

use crate::support::{Fake, Process, has_nvrtc, id_of, port, signal};

/// The limit of the program is 8 seconds. Test machines are busy.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts one process of a pair.
fn process(fake: &Fake, number: usize, port: u16) -> Process {
    // Each process is started here, and not by the launcher, which would end the other one.
    let mut command = fake.command("train --steps 10000000");
    command
        .env("RANK", number.to_string())
        .env("WORLD_SIZE", "2")
        .env("LOCAL_RANK", number.to_string())
        .env("MASTER_PORT", port.to_string());
    Process::start(command)
}

/// Starts two processes, sends a signal to one, and returns the time in which the other one ends,
/// and what it printed.
fn after_signal(victim: usize, name: &str, delay: Duration) -> (Duration, String) {
    let (fake, port) = (Fake::new(), port());
    let mut pair = [0, 1].map(|number| process(&fake, number, port));
    let ids = pair
        .each_mut()
        .map(|it| id_of(&it.wait_for_line("of 2: process ")));
    std::thread::sleep(delay);
    let start = Instant::now();
    signal(ids[victim], name);
    let [first, second] = pair;
    let (other, victim) = if victim == 0 {
        (second, first)
    } else {
        (first, second)
    };
    let (status, text) = other.end(LIMIT);
    let time = start.elapsed();
    drop(victim);
    assert_eq!(status.code(), Some(1), "{text}");
    (time, text)
}

#[test]
fn a_killed_process_ends_the_others() {
    if !has_nvrtc() {
        return;
    }
    for (victim, delay) in [(1, 0), (1, 300), (0, 100)] {
        let (time, text) = after_signal(victim, "-KILL", Duration::from_millis(delay));
        let want = format!("process {victim}");
        assert!(text.contains(&want), "no {want} after {time:?}:\n{text}");
    }
}

#[test]
fn a_stopped_process_ends_the_others() {
    if !has_nvrtc() {
        return;
    }
    for victim in [1, 0] {
        let (_, text) = after_signal(victim, "-STOP", Duration::ZERO);
        let want = format!("process {victim}: did not respond");
        let (want, text) = (want.replace(':', ""), text.replace(':', ""));
        assert!(text.contains(&want), "no {want}:\n{text}");
    }
}

#[test]
fn an_error_of_nccl_ends_all_ranks() {
    if !has_nvrtc() {
        return;
    }
    let arguments = [
        "launch --processes 2 train --steps 10000000",
        "launch --processes 2 train --gpus 2 --steps 10000000",
        "train --gpus 2 --steps 10000000",
    ];
    for arguments in arguments {
        let fake = Fake::new();
        let mut command = fake.command(arguments);
        command.env("FAKE_NCCL_ERROR", "1:20");
        let (status, text) = Process::start(command).end(Duration::from_secs(60));
        assert_eq!(status.code(), Some(1), "{arguments}: {text}");
        assert!(
            text.contains("rank 1: NCCL: remote process exited"),
            "{arguments}: {text}"
        );
        assert!(!text.contains("did not end"), "{arguments}: {text}");
        assert!(!text.contains("was killed"), "{arguments}: {text}");
    }
}

#[test]
fn the_launcher_ends_all_after_one_was_killed() {
    if !has_nvrtc() {
        return;
    }
    let fake = Fake::new();
    let mut launcher = Process::start(fake.command("launch --processes 3 train --steps 10000000"));
    let lines = [0, 1, 2].map(|_| launcher.wait_for_line("of 3: process "));
    let victim = lines.iter().find(|it| it.starts_with("rank 2 ")).unwrap();
    signal(id_of(victim), "-KILL");
    let (status, text) = launcher.end(LIMIT);
    assert_eq!(status.code(), Some(1), "{text}");
    for line in &lines {
        let process = format!("/proc/{}", id_of(line));
        assert!(
            !std::path::Path::new(&process).exists(),
            "{process}: {text}"
        );
    }
    assert!(text.contains("process 2 ended with signal: 9"), "{text}");
    for survivor in [0, 1] {
        let want = format!("process {survivor} ended with exit status: 1");
        assert!(text.contains(&want), "no {want}:\n{text}");
    }
}

/// Process 0 has no GPU, so it fails before it waits for the others.
#[test]
fn a_failure_before_the_start_is_reported() {
    let fake = Fake::new();
    let mut command = fake.command("launch --processes 2 all-reduce --mib 1 --gpus 2");
    command.env("CUDA_SIM", "device");
    let (status, text) = Process::start(command).end(LIMIT);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("process 0 ended with exit status: 1"),
        "{text}"
    );
}

/// Process 1 has joined when it finds that its device is described wrongly.
#[test]
fn a_failure_before_the_communicator_ends_the_others() {
    let (fake, port) = (Fake::new(), port());
    let [first, second] = [0, 1].map(|number| {
        let mut command = fake.command("all-reduce --mib 1");
        command
            .env("RANK", number.to_string())
            .env("WORLD_SIZE", "2")
            .env("MASTER_PORT", port.to_string());
        if number == 1 {
            command.env("CUDA_SIM", "device");
        }
        Process::start(command)
    });
    let (status, text) = second.end(LIMIT);
    assert_eq!(status.code(), Some(1), "{text}");
    let (status, text) = first.end(LIMIT);
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("process 1: ") && text.contains("CUDA_SIM"),
        "{text}"
    );
}
