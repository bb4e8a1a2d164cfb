//! A launcher for one machine: it starts the processes, and ends all if one fails.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// The time in which the other processes must end after a failure: twice their own limit.
const GRACE: Duration = Duration::from_secs(16);

/// Starts `processes` processes of this program with `arguments`, and waits for all.
pub(crate) fn launch(processes: usize, arguments: &[String]) -> Result<()> {
    let program = std::env::current_exe()?;
    // The system chooses a free port. Process 0 opens it again.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let mut children = Children(Vec::with_capacity(processes));
    for process in 0..processes {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .env("RANK", process.to_string())
            .env("WORLD_SIZE", processes.to_string())
            .env("LOCAL_RANK", process.to_string())
            .env("MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string())
            .env("MASTER_PORT", port.to_string());
        children.0.push((process, command.spawn()?));
    }
    children.wait()
}

/// The running processes. They are killed and waited for when this is dropped.
struct Children(Vec<(usize, Child)>);

impl Children {
    fn wait(&mut self) -> Result<()> {
        let mut failed: Option<Instant> = None;
        let mut failures = Vec::new();
        while !self.0.is_empty() {
            let mut ended: Vec<(usize, ExitStatus)> = Vec::new();
            for (process, child) in &mut self.0 {
                if let Some(status) = child.try_wait()? {
                    ended.push((*process, status));
                }
            }
            for (process, status) in ended {
                self.0.retain(|it| it.0 != process);
                if !status.success() {
                    failed.get_or_insert_with(Instant::now);
                    failures.push(format!("process {process} ended with {status}"));
                }
            }
            if failed.is_some_and(|at| at.elapsed() > GRACE) {
                let left: Vec<_> = self.0.iter().map(|it| it.0.to_string()).collect();
                failures.push(format!("process {} was killed", left.join(", ")));
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(failures.join("; ").into())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // It fails if the process has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
