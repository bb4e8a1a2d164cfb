//! The connection of a process with the others. It delivers the id of the communicator, and then
//! both sides send a line each second, so that the end of a process or of its machine is noticed.
//!
//! NCCL itself does not report that a process on the same machine has ended: its kernels wait.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::library::UniqueId;
use crate::server::Server;
use crate::{Result, World};

/// The first word of each connection. Connections of other programs are closed.
pub(crate) const HELLO: &str = "nccl-example-1";

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For all processes to start.
    pub join: Duration,
    /// For a process to be silent. It sends a line in each quarter of this time.
    pub silence: Duration,
    /// For the ranks of a process to end after a failure. Then the process ends itself.
    pub abort: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            join: Duration::from_secs(60),
            silence: Duration::from_secs(4),
            abort: Duration::from_secs(4),
        }
    }
}

/// The outcome of a group, shared by all threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// The first failure.
    failure: Option<String>,
    /// Whether all processes are done.
    is_over: bool,
}

impl Failure {
    /// Returns an error if a rank has failed.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn check(&self) -> Result<()> {
        match &self.lock().failure {
            Some(message) => Err(message.clone().into()),
            None => Ok(()),
        }
    }

    /// Records a failure, unless there was one before or all processes are done. Returns whether it
    /// was recorded.
    pub fn set(&self, message: impl fmt::Display) -> bool {
        let mut state = self.lock();
        let is_first = state.failure.is_none() && !state.is_over;
        if is_first {
            state.failure = Some(message.to_string());
            self.shared.1.notify_all();
        }
        is_first
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.shared.1.notify_all();
    }

    /// Waits until all processes are done, or until one has failed.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn wait(&self) -> Result<()> {
        let mut state = self.lock();
        loop {
            if let Some(message) = &state.failure {
                return Err(message.clone().into());
            }
            if state.is_over {
                return Ok(());
            }
            let waited = self.shared.1.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        let state = self.shared.0.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process in a group of processes.
#[derive(Debug)]
pub struct Group {
    /// The rank of the first GPU of this process.
    pub first_rank: usize,
    /// The number of GPUs of all processes.
    pub ranks: usize,
    /// The id of the communicator.
    pub id: UniqueId,
    failure: Failure,
    /// `None` if there is one process only.
    socket: Option<TcpStream>,
}

impl Group {
    /// Connects this process with the others. It has `gpus` GPUs. `make_id` is called in process 0,
    /// when it waits for the others already: they notice if it fails.
    ///
    /// # Errors
    ///
    /// Fails if not all processes join within [`Limits::join`].
    pub fn join(
        world: &World,
        gpus: usize,
        limits: Limits,
        make_id: impl FnOnce() -> Result<UniqueId>,
    ) -> Result<Self> {
        if world.processes == 1 {
            return Ok(Self {
                first_rank: 0,
                ranks: gpus,
                id: make_id()?,
                failure: Failure::default(),
                socket: None,
            });
        }
        if world.process == 0 {
            let address = if world.is_local() {
                Ipv4Addr::LOCALHOST
            } else {
                Ipv4Addr::UNSPECIFIED
            };
            let listener = TcpListener::bind((address, world.port)).map_err(|error| {
                let port = world.port;
                format!("process 0 cannot use port {port}: {error}; set MASTER_PORT to another one")
            })?;
            let id = Server::start(listener, world.processes, limits)?;
            // The server is in this process.
            let _ = id.send(make_id()?);
        }
        let mut socket = connect(world, limits)?;
        let (process, processes) = (world.process, world.processes);
        writeln!(socket, "{HELLO} {process} {processes} {gpus}")?;
        let mut lines = BufReader::new(socket.try_clone()?);
        // Process 0 reports missing processes a little earlier.
        socket.set_read_timeout(Some(limits.join + limits.silence))?;
        let line = read_line(&mut lines).map_err(|why| format!("process 0 {why}"))?;
        if let Some(why) = line.strip_prefix("failed ") {
            return Err(why.into());
        }
        let (first_rank, ranks, id) = parse_start(&line)
            .ok_or_else(|| format!("process 0 sent {line:?}, which is not the start"))?;
        socket.set_read_timeout(Some(limits.silence))?;
        let failure = Failure::default();
        let seen = failure.clone();
        thread::spawn(move || listen(&mut lines, &seen));
        let mut beats = socket.try_clone()?;
        thread::spawn(move || {
            while writeln!(beats, "beat").is_ok() {
                thread::sleep(limits.silence / 4);
            }
        });
        Ok(Self {
            first_rank,
            ranks,
            id,
            failure,
            socket: Some(socket),
        })
    }

    /// Returns the state of the group, for the threads of this process.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Records that a rank of this process failed, and reports it to the other processes.
    pub fn fail(&self, message: &str) {
        if self.failure.set(message)
            && let Some(mut socket) = self.socket.as_ref()
        {
            // Without a connection, the others notice its end.
            let _ = writeln!(socket, "failed {}", message.replace('\n', " "));
        }
    }

    /// Waits until all processes are done.
    ///
    /// # Errors
    ///
    /// The failure of another process.
    pub fn leave(self) -> Result<()> {
        match self.socket {
            None => {
                self.failure.end();
                self.failure.check()
            }
            Some(mut socket) => {
                writeln!(socket, "done")?;
                self.failure.wait()
            }
        }
    }
}

/// Connects to process 0, which may not be started yet.
fn connect(world: &World, limits: Limits) -> Result<TcpStream> {
    let start = Instant::now();
    let mut last = String::from("no address");
    loop {
        match (world.host.as_str(), world.port).to_socket_addrs() {
            Err(error) => last = error.to_string(),
            Ok(addresses) => {
                for address in addresses {
                    match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                        Ok(socket) => {
                            socket.set_nodelay(true)?;
                            return Ok(socket);
                        }
                        Err(error) => last = error.to_string(),
                    }
                }
            }
        }
        if start.elapsed() > limits.join {
            let World { host, port, .. } = world;
            let seconds = limits.join.as_secs_f32();
            return Err(format!(
                "process 0 cannot be reached at {host}:{port} within {seconds} s: {last}"
            )
            .into());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Reads the lines of process 0 until the end.
fn listen(lines: &mut impl BufRead, failure: &Failure) {
    loop {
        match read_line(lines) {
            Ok(line) if line == "end" => return failure.end(),
            Ok(line) => {
                if let Some(why) = line.strip_prefix("failed ") {
                    failure.set(why);
                    return;
                }
            }
            Err(why) => {
                failure.set(format!("process 0 {why}"));
                return;
            }
        }
    }
}

/// Reads a line without its end. The error says what the other process did instead.
pub(crate) fn read_line(lines: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    match lines.read_line(&mut line) {
        Ok(0) => Err("closed the connection".to_owned()),
        Ok(_) if !line.ends_with('\n') => Err("closed the connection".to_owned()),
        Ok(_) => Ok(line.trim_end().to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err("did not respond within the time limit".to_owned())
        }
        Err(error) => Err(format!("lost the connection: {error}")),
    }
}

/// Returns the first line that process 0 sends to a process.
pub(crate) fn format_start(first_rank: usize, ranks: usize, id: &UniqueId) -> String {
    let id: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("start {first_rank} {ranks} {id}")
}

fn parse_start(line: &str) -> Option<(usize, usize, UniqueId)> {
    let mut words = line.strip_prefix("start ")?.split(' ');
    let first_rank = words.next()?.parse().ok()?;
    let ranks = words.next()?.parse().ok()?;
    let text = words.next()?;
    let mut id = UniqueId([0; 128]);
    for (at, byte) in id.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some((first_rank, ranks, id))
}
