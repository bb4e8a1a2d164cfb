//! Starting the program.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use cuda_nvrtc::Nvrtc;
use tempfile::TempDir;

/// The program with NCCL.
pub(crate) const REAL: &str = "nccl";
/// The program with a fake NCCL.
pub(crate) const FAKE: &str = "nccl_with_fake";

/// Returns the path of a program, which cargo builds beside this test.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    folder.join("examples").join(name)
}

/// Returns whether the program can compile its kernels. If not, reports that the test is skipped.
#[track_caller]
pub(crate) fn has_nvrtc() -> bool {
    test_needs::found("NVRTC", Nvrtc::load()).is_some()
}

/// A command on software devices with a fake NCCL, and the folder that its processes share.
pub(crate) struct Fake {
    folder: TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = command(FAKE, arguments);
        command
            .env("CUDA_SIM", "1")
            .env("FAKE_NCCL_DIR", self.folder.path());
        command
    }
}

/// Returns a command without the variables of launchers.
pub(crate) fn command(name: &str, arguments: &str) -> Command {
    let mut command = Command::new(program(name));
    command.args(arguments.split_whitespace());
    let variables = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        "SLURM_JOB_NODELIST",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
    ];
    for variable in variables {
        command.env_remove(variable);
    }
    command
}

/// A started process. It is killed when it is dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let other = sender.clone();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |lines: BufReader<_>, sender: std::sync::mpsc::Sender<String>| {
            for line in lines.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        };
        thread::spawn(move || {
            read(
                BufReader::new(Box::new(out) as Box<dyn std::io::Read>),
                sender,
            )
        });
        thread::spawn(move || {
            read(
                BufReader::new(Box::new(err) as Box<dyn std::io::Read>),
                other,
            )
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line that contains `text`, and returns it.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {text:?} in {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until the process has ended; returns its status and all that it printed.
    pub(crate) fn end(mut self, limit: Duration) -> (ExitStatus, String) {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < end,
                "still running after {limit:?}: {:#?}",
                self.seen
            );
            thread::sleep(Duration::from_millis(10));
        };
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(10)) {
            self.seen.push(line);
        }
        (status, self.seen.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the id of the process of a rank from the line that it prints when it starts.
pub(crate) fn id_of(line: &str) -> u32 {
    let (_, after) = line.split_once("process ").unwrap();
    after.split(',').next().unwrap().parse().unwrap()
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, signal: &str) {
    let status = Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(status.unwrap().success(), "kill {signal} {process}");
}

/// Returns a free port.
pub(crate) fn port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
