//! Training and timing in one and in several processes, and the launchers.

use std::time::Duration;

use crate::support::{Fake, Process, has_nvrtc, port};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a command; returns its text. Fails unless it succeeds.
#[track_caller]
fn run(arguments: &str) -> String {
    let fake = Fake::new();
    let (status, text) = Process::start(fake.command(arguments)).end(LIMIT);
    assert!(status.success(), "{arguments}: {status}\n{text}");
    text
}

#[test]
fn training_matches_the_host_in_each_division() {
    if !has_nvrtc() {
        return;
    }
    for (arguments, ranks) in [
        ("train --steps 12", 1),
        ("train --gpus 2 --steps 12", 2),
        ("launch --processes 2 train --steps 12", 2),
        ("launch --processes 2 train --gpus 2 --steps 12", 4),
        ("launch --processes 3 train --steps 12", 3),
    ] {
        let text = run(arguments);
        let want = format!("parameters verified, {ranks} ranks");
        assert_eq!(text.matches(&want).count(), 1, "{arguments}:\n{text}");
    }
}

#[test]
fn all_reduce_is_timed_and_verified() {
    let text = run("launch --processes 2 all-reduce --mib 1 --rounds 3");
    assert!(text.contains("all-reduce: 1 MiB, 2 ranks"), "{text}");
    assert!(text.contains("verified"), "{text}");
}

#[test]
fn launchers_of_clusters_start_the_program() {
    let launchers: [[&str; 3]; 2] = [
        ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
        [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
        ],
    ];
    for [rank, size, local] in launchers {
        let (fake, port) = (Fake::new(), port().to_string());
        // The last one starts first: it waits for process 0.
        let processes: Vec<Process> = (0..2)
            .rev()
            .map(|process| {
                let mut command = fake.command("all-reduce --mib 1 --rounds 1");
                let number = process.to_string();
                command
                    .env(rank, &number)
                    .env(size, "2")
                    .env(local, &number)
                    .env("SLURM_JOB_NODELIST", "127.0.0.1")
                    .env("MASTER_PORT", &port);
                Process::start(command)
            })
            .collect();
        let mut verified = 0;
        for process in processes {
            let (status, text) = process.end(LIMIT);
            assert!(status.success(), "{rank}: {status}\n{text}");
            verified += text.matches("2 ranks: ").count();
        }
        assert_eq!(verified, 1, "{rank}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, part) in [
        ("", "the command is missing"),
        ("teach", "\"teach\" is not a command"),
        ("train --rounds 3", "train has no option --rounds"),
        (
            "train --gpus 0",
            "--gpus is \"0\"; it must be a number from 1 on",
        ),
        ("train --steps", "the value of --steps is missing"),
        ("train 7", "\"7\" is not an option of train"),
        (
            "launch --processes 2 launch train",
            "launch cannot start launch",
        ),
        ("launch", "the command is missing"),
    ] {
        let (status, text) = Process::start(Fake::new().command(arguments)).end(LIMIT);
        assert_eq!(status.code(), Some(1), "{arguments}: {text}");
        assert!(text.contains(part), "{arguments}: {text}");
    }
}
