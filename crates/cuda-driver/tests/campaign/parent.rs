//! The parent: it gives units of work to worker processes, restarts those that end, and counts.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{Child, End};
use crate::message::{Counts, Message};
use crate::options::Options;
use crate::worker::Unit;

/// The restarts of a worker in one unit after which the rest of the unit is left out.
const RESTARTS: u32 = 60;

/// The findings that are printed. All are in files.
const SHOWN: u64 = 3;

/// A defect that a unit has shown.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// `hit`, `fault`, `crash`, or `start` if no worker can be started.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// The counts and the findings of a unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    pub(crate) findings: Vec<Finding>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    fn finding(&mut self, kind: &'static str, text: String) {
        self.counts.add(match kind {
            "hit" => "findings: words outside of the arguments",
            "fault" => "findings: device lost",
            "start" => "findings: worker not started",
            _ => "findings: process ended",
        });
        self.findings.push(Finding { kind, text });
    }
}

/// Runs a unit to its end, in as many processes as it needs.
pub(crate) fn run_unit(options: &Options, worker: &mut Option<Child>, unit: &Unit) -> Report {
    let (mut unit, mut report) = (unit.clone(), Report::default());
    for _ in 0..RESTARTS {
        let child = match worker {
            Some(child) => child,
            None => match Child::start(options) {
                Ok(child) => worker.insert(child),
                Err(error) => {
                    report.finding("start", format!("a worker does not start: {error}"));
                    return report;
                }
            },
        };
        let (mut kernel, mut is_ended_by_kernel) = (None, false);
        let now = unit.clone();
        let end = child.run(&now, |message| match message {
            Message::At(number) => kernel = number,
            Message::Clean(next, counts) => {
                unit.from = next;
                report.counts.merge(&counts);
            }
            Message::Hit(text) => report.finding("hit", text),
            Message::Endless(number) => {
                report.counts.add("endless");
                unit.skip.push(number);
                is_ended_by_kernel = true;
            }
            Message::Fault(number, text) => {
                report.finding("fault", text);
                unit.skip.push(number);
                is_ended_by_kernel = true;
            }
            Message::Note(text) => report.notes.push(text),
            Message::Ready | Message::Done => {}
        });
        let End::Ended(how) = end else {
            return report;
        };
        *worker = None;
        if is_ended_by_kernel {
            continue;
        }
        let Some(number) = kernel.or_else(|| crashing(options, &unit)) else {
            report.finding(
                "crash",
                format!("{how}, and no single kernel does it: {unit:?}"),
            );
            return report;
        };
        let plan = unit.plan();
        let text = plan.text(&[number]).0;
        let seed = plan.kernels[number].seed;
        report.finding("crash", format!("{how} at kernel {seed}\n{text}"));
        unit.skip.push(number);
    }
    report.counts.add("units with too many restarts");
    report
}

/// Finds the kernel whose text ends the process that loads it.
fn crashing(options: &Options, unit: &Unit) -> Option<usize> {
    let (mut from, mut to) = (0, unit.plan().kernels.len());
    while to - from > 1 {
        let middle = from.midpoint(to);
        let mut half = unit.clone();
        half.only_load = Some((from, middle));
        let mut child = Child::start(options).ok()?;
        match child.run(&half, |_| {}) {
            End::Ended(_) => to = middle,
            End::Done => from = middle,
        }
    }
    let mut last = unit.clone();
    last.only_load = Some((from, to));
    let mut child = Child::start(options).ok()?;
    matches!(child.run(&last, |_| {}), End::Ended(_)).then_some(from)
}

/// The state of a campaign, which a file keeps from run to run.
#[derive(Debug, Default)]
struct State {
    /// The first module that no run has begun.
    next: u64,
    /// Modules that a run has begun and not completed.
    open: VecDeque<u64>,
    counts: Counts,
    findings: u64,
}

impl State {
    fn read(folder: &Path, first: u64) -> Self {
        let text = fs::read_to_string(folder.join("counts.txt")).unwrap_or_default();
        let mut counts = Counts::parse(&text, '\n');
        let mut take = |name: &str| counts.0.remove(name);
        let next = take("next module").unwrap_or(first);
        let findings = take("findings").unwrap_or(0);
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("open module "));
        Self {
            next,
            open: lines.filter_map(|line| line.parse().ok()).collect(),
            counts,
            findings,
        }
    }

    fn write(&self, folder: &Path, running: &[u64]) {
        let mut text = format!("{} next module\n{} findings\n", self.next, self.findings);
        for module in self.open.iter().chain(running) {
            text += &format!("open module {module}\n");
        }
        text += &self.counts.text('\n');
        let path = folder.join("counts.txt");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

struct Shared {
    state: State,
    running: Vec<u64>,
    begun: u64,
    last_line: Instant,
}

/// Runs random kernels until the time is over or the goal is reached. Returns whether there was no
/// finding, in this run or an earlier one.
pub(crate) fn campaign(options: &Options) -> bool {
    let folder = options.folder.clone();
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("cuda-campaign"));
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let state = match options.seed {
        Some(_) => State::default(),
        None => State::read(&folder, options.first),
    };
    let (before, old) = (state.counts.get("kernels"), state.findings);
    let start = Instant::now();
    let shared = Mutex::new(Shared {
        state,
        running: Vec::new(),
        begun: 0,
        last_line: start,
    });
    let workers = if options.seed.is_some() {
        1
    } else {
        options.workers
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| serve(options, &folder, &shared, start));
        }
    });
    let state = shared.into_inner().expect("no thread panics").state;
    if options.seed.is_none() {
        state.write(&folder, &[]);
    }
    let (kernels, seconds) = (state.counts.get("kernels"), start.elapsed().as_secs_f64());
    print!("{}", state.counts.text('\n'));
    println!(
        "{} kernels in {seconds:.0} s, {:.1} a second; {kernels} of {} in all runs; {} findings, \
         {} in all runs, in {}",
        kernels - before,
        (kernels - before) as f64 / seconds,
        options.goal,
        state.findings - old,
        state.findings,
        folder.display()
    );
    state.findings == 0
}

/// Gives modules to one worker.
fn serve(options: &Options, folder: &Path, shared: &Mutex<Shared>, start: Instant) {
    let mut worker = None;
    loop {
        let module = {
            let mut shared = shared.lock().expect("no thread panics");
            let is_over = start.elapsed() > options.time
                || shared.begun >= options.modules
                || shared.state.findings >= options.findings
                || (shared.state.counts.get("kernels") >= options.goal && options.seed.is_none())
                || (options.seed.is_some() && shared.begun > 0);
            if is_over {
                return;
            }
            shared.begun += 1;
            let module = shared.state.open.pop_front().unwrap_or_else(|| {
                shared.state.next += 1;
                shared.state.next - 1
            });
            shared.running.push(module);
            module
        };
        for is_hostile in [false, true] {
            if is_hostile && (options.seed.is_some() || options.hostile == 0) {
                continue;
            }
            let unit = Unit {
                module,
                is_hostile,
                kernels: [options.kernels, options.hostile][usize::from(is_hostile)],
                seed: options.seed,
                ..Unit::default()
            };
            let report = run_unit(options, &mut worker, &unit);
            record(options, folder, shared, module, &report, start);
            if report
                .findings
                .iter()
                .any(|finding| finding.kind == "start")
            {
                return;
            }
        }
        let mut shared = shared.lock().expect("no thread panics");
        shared.running.retain(|it| *it != module);
        if options.seed.is_none() {
            shared.state.write(folder, &shared.running);
        }
    }
}

/// Adds a report to the counts, and writes its findings to files.
fn record(
    options: &Options,
    folder: &Path,
    shared: &Mutex<Shared>,
    module: u64,
    report: &Report,
    start: Instant,
) {
    let mut shared = shared.lock().expect("no thread panics");
    shared.state.counts.merge(&report.counts);
    for note in report.notes.iter().take(3) {
        println!("module {module}: {note}");
    }
    for finding in &report.findings {
        shared.state.findings += 1;
        let name = format!("{}-{module}-{}.txt", finding.kind, shared.state.findings);
        let path = folder.join(name);
        fs::write(&path, &finding.text).unwrap_or_else(|error| panic!("{error}"));
        let kernels = shared.state.counts.get("kernels");
        println!(
            "FOUND {} after {kernels} kernels: module {module}: {}",
            finding.kind,
            path.display()
        );
        if shared.state.findings <= SHOWN {
            println!("{}", finding.text);
        }
    }
    if shared.last_line.elapsed() > Duration::from_secs(15) {
        shared.last_line = Instant::now();
        let kernels = shared.state.counts.get("kernels");
        println!(
            "{:.0} s: {kernels} of {} kernels, module {}, {} findings",
            start.elapsed().as_secs_f64(),
            options.goal,
            shared.state.next,
            shared.state.findings
        );
    }
}
