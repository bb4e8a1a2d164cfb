//! A worker process, as its parent sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{env, io, process, thread};

use crate::message::Message;
use crate::options::Options;
use crate::worker::Unit;

/// The time without a line after which a worker is ended.
const SILENCE: Duration = Duration::from_secs(150);

/// How a unit ended in a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// The process ended, or was ended.
    Ended(String),
}

#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Child {
    /// Starts a worker, and waits until it has its context and its memory.
    pub(crate) fn start(options: &Options) -> io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(options.for_worker())
            // The texts are compiled once each, so that a cache only costs time.
            .env("CUDA_CACHE_DISABLE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("a worker without pipes"));
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut child = Self {
            process,
            input,
            lines,
        };
        let mut said = String::from("no message");
        loop {
            match child.lines.recv_timeout(SILENCE) {
                Ok(line) => match Message::parse(&line) {
                    Some(Message::Ready) => return Ok(child),
                    Some(Message::Note(text)) => said = text,
                    _ => {}
                },
                Err(_) => {
                    let End::Ended(how) = child.end(true) else {
                        continue;
                    };
                    return Err(io::Error::other(format!("{how}: {said}")));
                }
            }
        }
    }

    /// Runs a unit, and passes on the messages of the worker.
    pub(crate) fn run(&mut self, unit: &Unit, mut each: impl FnMut(Message)) -> End {
        // If the process has ended, so have its lines.
        let _ = writeln!(self.input, "{}", unit.text());
        loop {
            let line = match self.lines.recv_timeout(SILENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return self.end(true),
                Err(RecvTimeoutError::Disconnected) => return self.end(false),
            };
            match Message::parse(&line) {
                Some(Message::Done) => return End::Done,
                // A kernel that does not end would keep the process alive.
                Some(message @ Message::Endless(_)) => {
                    each(message);
                    return self.end(true);
                }
                Some(message) => each(message),
                None => {}
            }
        }
    }

    /// Waits for the end of the process.
    fn end(&mut self, is_killed: bool) -> End {
        if is_killed {
            let _ = self.process.kill();
        }
        End::Ended(match self.process.wait() {
            Ok(status) => format!("the worker ended with {status}"),
            Err(error) => format!("the worker ended: {error}"),
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
