//! The part of process 0 that all processes are connected with.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::group::{HELLO, Limits, format_start, read_line};
use crate::library::UniqueId;

/// The connections with all processes.
#[derive(Debug)]
pub(crate) struct Server {
    members: Vec<Member>,
    /// Whether all processes are done, or one has failed.
    is_over: bool,
}

#[derive(Debug)]
struct Member {
    socket: TcpStream,
    gpus: usize,
    is_done: bool,
}

type Lines = BufReader<TcpStream>;

impl Server {
    /// Starts the threads of the server. They end with the process. The other processes wait until
    /// the id is sent through the returned channel.
    pub(crate) fn start(
        listener: TcpListener,
        processes: usize,
        limits: Limits,
    ) -> Result<Sender<UniqueId>> {
        let (sender, id) = channel();
        listener.set_nonblocking(true)?;
        thread::spawn(move || {
            let mut members = accept(&listener, processes, limits);
            let missing: Vec<String> = (0..processes)
                .filter(|it| members[*it].is_none())
                .map(|it| it.to_string())
                .collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                let seconds = limits.join.as_secs_f32();
                for (member, _) in members.iter_mut().flatten() {
                    send(
                        &mut member.socket,
                        &format!("failed process {missing} did not join within {seconds} s"),
                    );
                }
                return;
            }
            let Ok(id) = id.recv() else {
                // Process 0 has failed, and ends.
                return;
            };
            let ranks = members.iter().flatten().map(|it| it.0.gpus).sum();
            let mut first_rank = 0;
            for (member, _) in members.iter_mut().flatten() {
                send(&mut member.socket, &format_start(first_rank, ranks, &id));
                first_rank += member.gpus;
            }
            Self::serve(members.into_iter().flatten().collect(), limits);
        });
        Ok(sender)
    }

    fn serve(members: Vec<(Member, Lines)>, limits: Limits) {
        let (members, lines): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let server = Arc::new(Mutex::new(Self {
            members,
            is_over: false,
        }));
        for (process, mut lines) in lines.into_iter().enumerate() {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                loop {
                    let line = read_line(&mut lines);
                    let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
                    match line.as_deref() {
                        Ok("beat") => {}
                        Ok("done") => server.done(process),
                        Ok(line) => {
                            let why = line.strip_prefix("failed ").unwrap_or(line);
                            server.fail(process, why);
                        }
                        Err(why) => return server.fail(process, why),
                    }
                }
            });
        }
        loop {
            {
                let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
                if server.is_over {
                    return;
                }
                server.send_to_all("beat");
            }
            thread::sleep(limits.silence / 4);
        }
    }

    fn done(&mut self, process: usize) {
        self.members[process].is_done = true;
        if self.members.iter().all(|it| it.is_done) {
            self.is_over = true;
            self.send_to_all("end");
        }
    }

    fn fail(&mut self, process: usize, why: &str) {
        if !self.is_over {
            self.is_over = true;
            self.send_to_all(&format!("failed process {process}: {why}"));
        }
    }

    /// Sends a line to all processes; to process 0 last, because it may end then.
    fn send_to_all(&mut self, line: &str) {
        for member in self.members.iter_mut().rev() {
            send(&mut member.socket, line);
        }
    }
}

/// Sends a line. The end of a connection is noticed by the thread that reads from it.
fn send(socket: &mut TcpStream, line: &str) {
    let _ = socket.write_all(format!("{line}\n").as_bytes());
}

/// Waits until all processes have joined, or until the time is over.
fn accept(
    listener: &TcpListener,
    processes: usize,
    limits: Limits,
) -> Vec<Option<(Member, Lines)>> {
    let mut members: Vec<Option<(Member, Lines)>> = (0..processes).map(|_| None).collect();
    let start = Instant::now();
    while start.elapsed() < limits.join && members.iter().any(Option::is_none) {
        match listener.accept() {
            // A connection of another program is closed.
            Ok((socket, _)) => {
                if let Some((process, member)) = greet(socket, processes, limits)
                    && members[process].is_none()
                {
                    members[process] = Some(member);
                }
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    members
}

/// Reads the first line of a process: its number, the number of processes, and its number of GPUs.
fn greet(socket: TcpStream, processes: usize, limits: Limits) -> Option<(usize, (Member, Lines))> {
    socket.set_nonblocking(false).ok()?;
    socket.set_nodelay(true).ok()?;
    socket.set_read_timeout(Some(limits.silence)).ok()?;
    socket.set_write_timeout(Some(limits.silence / 4)).ok()?;
    let mut lines = BufReader::new(socket.try_clone().ok()?);
    let line = read_line(&mut lines).ok()?;
    let words = line.strip_prefix(HELLO)?.split_whitespace();
    let numbers: Vec<usize> = words.map_while(|word| word.parse().ok()).collect();
    let &[process, total, gpus] = numbers.as_slice() else {
        return None;
    };
    let member = Member {
        socket,
        gpus,
        is_done: false,
    };
    (process < processes && total == processes).then_some((process, (member, lines)))
}
