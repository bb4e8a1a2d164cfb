//! The process that starts the workers, gives them lists of runs, and counts what they report.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use crate::check::Report;
use crate::item::{Item, Run};
use crate::message::{self, Message};
use crate::options::Options;
use crate::worker;

/// The time without a line after which a worker is ended.
const SILENCE: Duration = Duration::from_secs(30);
/// The runs of one module at most.
const MODULE: usize = 48;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done(Report),
    /// It was not executed, for this reason.
    None(String),
    /// The device or the process was lost.
    Lost(String),
}

/// The outcomes by the number of the run.
pub(crate) type Outcomes = BTreeMap<usize, Ended>;

struct Child {
    process: process::Child,
    lines: Receiver<String>,
}

impl Child {
    fn start(options: &Options) -> io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(options.for_worker())
            // The texts are compiled once each, so that a cache only costs time.
            .env("CUDA_CACHE_DISABLE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let Some(output) = process.stdout.take() else {
            return Err(io::Error::other("a worker without output"));
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines })
    }

    fn next(&self) -> Option<Message> {
        loop {
            let line = self.lines.recv_timeout(SILENCE).ok()?;
            if let Some(message) = Message::parse(&line) {
                return Some(message);
            }
        }
    }

    fn give(&mut self, runs: &[usize]) {
        if let Some(input) = &mut self.process.stdin {
            // If the process has ended, so have its lines.
            let _ = writeln!(input, "{}", message::list(runs));
        }
    }

    /// Ends the process, and says how it had ended.
    fn end(&mut self) -> String {
        let ended = self.process.try_wait().ok().flatten();
        let _ = self.process.kill();
        let status = self.process.wait();
        match (ended, status) {
            (Some(status), _) => format!("the process ended with {status}"),
            (None, Ok(status)) => format!("the process said nothing, or ended with {status}"),
            (None, Err(error)) => format!("the process ended: {error}"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lists of runs whose kernels can be in one module.
fn units(items: &[Item], runs: &[Run], chosen: &[usize]) -> VecDeque<Vec<usize>> {
    let mut groups: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
    for &number in chosen {
        let item = &items[runs[number].item];
        groups.entry(worker::key(item)).or_default().push(number);
    }
    let all = groups.values();
    all.flat_map(|group| group.chunks(MODULE).map(<[usize]>::to_vec))
        .collect()
}

/// Executes the chosen runs in workers.
pub(crate) fn execute(
    options: &Options,
    items: &[Item],
    runs: &[Run],
    chosen: &[usize],
) -> Result<Outcomes, String> {
    let queue = Mutex::new(units(items, runs, chosen));
    let outcomes = Mutex::new(Outcomes::new());
    let failure = Mutex::new(None);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..options.workers {
            scope.spawn(|| {
                if let Err(message) = work(options, start, &queue, &outcomes) {
                    *lock(&failure) = Some(message);
                }
            });
        }
    });
    let outcomes = lock(&outcomes).clone();
    match lock(&failure).take() {
        Some(message) if outcomes.is_empty() => Err(message),
        Some(message) => {
            println!("a worker was not started: {message}");
            Ok(outcomes)
        }
        None => Ok(outcomes),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives units to one worker after the other, until none is left.
fn work(
    options: &Options,
    start: Instant,
    queue: &Mutex<VecDeque<Vec<usize>>>,
    outcomes: &Mutex<Outcomes>,
) -> Result<(), String> {
    let mut child: Option<Child> = None;
    loop {
        if start.elapsed() > Duration::from_secs(options.seconds) {
            return Ok(());
        }
        let Some(unit) = lock(queue).pop_front() else {
            return Ok(());
        };
        let mut current = match child.take() {
            Some(child) => child,
            None => match begin(options) {
                Ok(child) => child,
                Err(message) => {
                    lock(queue).push_front(unit);
                    return Err(message);
                }
            },
        };
        if follow(&mut current, &unit, queue, outcomes) {
            child = Some(current);
        }
    }
}

fn begin(options: &Options) -> Result<Child, String> {
    let mut child = Child::start(options).map_err(|error| error.to_string())?;
    match child.next() {
        Some(Message::Ready(_)) => Ok(child),
        _ => Err(child.end()),
    }
}

/// Records the messages about a unit. Returns whether the worker can go on.
fn follow(
    child: &mut Child,
    unit: &[usize],
    queue: &Mutex<VecDeque<Vec<usize>>>,
    outcomes: &Mutex<Outcomes>,
) -> bool {
    let record = |run, ended| lock(outcomes).insert(run, ended);
    child.give(unit);
    let (mut at, mut loading) = (None, Vec::new());
    let lost = loop {
        match child.next() {
            Some(Message::Load(runs)) => (at, loading) = (None, runs),
            Some(Message::At(run)) => (at, loading) = (Some(run), Vec::new()),
            Some(Message::Done(run, report)) => {
                record(run, Ended::Done(report));
                at = None;
            }
            Some(Message::None(run, reason)) => {
                record(run, Ended::None(reason));
            }
            Some(Message::Lost(run, text)) => {
                at = Some(run);
                break text;
            }
            Some(Message::End) => return true,
            Some(Message::Ready(_)) => {}
            None => break child.end(),
        }
    };
    if let Some(run) = at {
        record(run, Ended::Lost(lost));
    } else if let [run] = loading[..] {
        record(run, Ended::Lost(format!("while it is assembled: {lost}")));
    } else if !loading.is_empty() {
        // One of them ends the assembler.
        let (first, second) = loading.split_at(loading.len() / 2);
        let mut queue = lock(queue);
        queue.push_back(first.to_vec());
        queue.push_back(second.to_vec());
    } else if let Some(run) = unit.iter().find(|run| !lock(outcomes).contains_key(run)) {
        record(*run, Ended::Lost(lost));
    }
    let is_left = |run: &&usize| !lock(outcomes).contains_key(run) && !loading.contains(run);
    let rest: Vec<usize> = unit.iter().filter(is_left).copied().collect();
    if !rest.is_empty() {
        lock(queue).push_back(rest);
    }
    false
}
