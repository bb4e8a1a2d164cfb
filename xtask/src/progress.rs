//! Progress of long tasks: a line at the bottom of the terminal, with the number of completed steps
//! and the time. Without a terminal, nothing is shown, and commands write their output as usual.
//!
//! The line is shown only while a command runs, so that a task can print between two commands.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of the task that is running.
static RUNNING: Mutex<Option<Steps>> = Mutex::new(None);

/// The first words of progress lines of cargo and pip. Such a line is shown, but not kept in the
/// output.
const PASSING: [&str; 11] = [
    "Building ",
    "Checking ",
    "Collecting ",
    "Compiling ",
    "Downloaded ",
    "Downloading ",
    "Finished ",
    "Installing ",
    "Locking ",
    "Updating ",
    "Using cached ",
];

/// The steps of a task.
#[derive(Clone, Debug)]
struct Steps {
    task: String,
    unit: &'static str,
    start: Instant,
    done: u64,
    total: u64,
}

/// Shows the progress of a task until it is dropped.
#[derive(Debug)]
#[must_use = "the progress is shown until this is dropped"]
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Starts to show the progress of `task`. If `total` is 0, the tests that its commands run are
    /// counted. Does nothing without a terminal, or within another task.
    pub(crate) fn start(task: &str, unit: &'static str, total: usize) -> Self {
        Self::start_if(
            io::stdout().is_terminal() && io::stderr().is_terminal(),
            task,
            unit,
            total,
        )
    }

    fn start_if(is_terminal: bool, task: &str, unit: &'static str, total: usize) -> Self {
        let mut running = lock();
        let is_shown = is_terminal && running.is_none();
        if is_shown {
            *running = Some(Steps {
                task: task.to_owned(),
                unit,
                start: Instant::now(),
                done: 0,
                total: total as u64,
            });
        }
        Self { is_shown }
    }

    /// Counts a step as completed.
    pub(crate) fn step(&self) {
        if let Some(steps) = lock().as_mut().filter(|_| self.is_shown) {
            steps.done += 1;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            *lock() = None;
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Steps>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command and waits for it. While progress is shown, its output appears above the line;
/// otherwise the command writes to the terminal itself.
pub(crate) fn status(command: &mut Command) -> io::Result<ExitStatus> {
    let Some(steps) = lock().clone() else {
        return command.status();
    };
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.env("CARGO_TERM_COLOR", "always").spawn()?;
    let output = child.stdout.take();
    let (status, _) = watch(child, &steps, move |bar| {
        if let Some(output) = output {
            follow(output, bar);
        }
    });
    status
}

/// Runs a command, waits for it and returns what it wrote to its standard output. Its standard
/// error appears as that of [`status`] does.
pub(crate) fn output(command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    command.stdout(Stdio::piped());
    let Some(steps) = lock().clone() else {
        let output = command.stderr(Stdio::inherit()).output()?;
        return Ok((output.status, output.stdout));
    };
    let child = command.stderr(Stdio::piped());
    let mut child = child.env("CARGO_TERM_COLOR", "always").spawn()?;
    let output = child.stdout.take();
    let (status, text) = watch(child, &steps, move |_| {
        let mut text = Vec::new();
        match output.map(|mut output| output.read_to_end(&mut text)) {
            Some(Err(error)) => Err(error),
            _ => Ok(text),
        }
    });
    Ok((status?, text?))
}

/// Shows the line until `child` ends, and the child's standard error above it. `read` reads its
/// standard output.
fn watch<R: Send>(
    mut child: Child,
    steps: &Steps,
    read: impl FnOnce(&ProgressBar) -> R + Send,
) -> (io::Result<ExitStatus>, R) {
    let bar = steps.bar();
    let errors = child.stderr.take();
    let result = thread::scope(|scope| {
        if let Some(errors) = errors {
            scope.spawn(|| follow(errors, &bar));
        }
        read(&bar)
    });
    bar.finish_and_clear();
    if let Some(steps) = lock().as_mut() {
        (steps.done, steps.total) = (bar.position(), bar.length().unwrap_or(0));
    }
    (child.wait(), result)
}

/// Shows each line that `output` yields.
fn follow(output: impl Read, bar: &ProgressBar) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        count(&line, bar);
        if is_passing(&line) {
            bar.set_message(plain(&line).trim().to_owned());
        } else {
            bar.println(line);
        }
    }
}

impl Steps {
    fn bar(&self) -> ProgressBar {
        let style = format!(
            "{{spinner}} {{prefix}}: {{pos}} of {{len}} {} [{{elapsed_precise}}] {{wide_msg}}",
            self.unit
        );
        let style = ProgressStyle::with_template(&style);
        let bar = ProgressBar::new(self.total)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_position(self.done)
            .with_elapsed(self.start.elapsed())
            .with_prefix(self.task.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// Counts tests: `running 3 tests` adds to the total, and `test name ... ok` is one that has ended.
fn count(line: &str, bar: &ProgressBar) {
    if let Some(tests) = line
        .strip_prefix("running ")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
    {
        bar.inc_length(tests);
    } else if line.starts_with("test ") && line.contains(" ... ") {
        bar.inc(1);
    }
}

fn is_passing(line: &str) -> bool {
    let line = plain(line);
    let line = line.trim_start();
    line.is_empty() || PASSING.iter().any(|start| line.starts_with(start))
}

/// Returns the line without the colours that cargo adds.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_without_a_terminal_or_within_a_task() {
        let silent = Progress::start_if(false, "setup", "sets", 3);
        assert!(!silent.is_shown && lock().is_none());
        let outer = Progress::start_if(true, "bundle", "packages", 2);
        let inner = Progress::start_if(true, "setup", "sets", 5);
        assert!(outer.is_shown && !inner.is_shown);
        inner.step();
        drop(inner);
        outer.step();
        let steps = lock().clone().unwrap();
        assert_eq!((steps.done, steps.total), (1, 2));

        // A command runs, its output is read, and its tests are counted.
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        let (status, text) = output(cargo.arg("--version")).unwrap();
        assert!(status.success() && text.starts_with(b"cargo "));
        assert!(super::status(&mut cargo).unwrap().success());
        drop(outer);
        assert!(lock().is_none());
    }

    #[test]
    fn tests_are_counted() {
        let bar = ProgressBar::hidden();
        bar.set_length(1);
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test result: ok. 2 passed",
            "running late",
        ] {
            count(line, &bar);
        }
        assert_eq!((bar.position(), bar.length()), (2, Some(4)));
    }

    #[test]
    fn lines_about_the_build_are_not_kept() {
        let green = "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m half v2.7.1";
        assert_eq!(plain(green), "   Compiling half v2.7.1");
        assert!(is_passing(green) && is_passing("  Downloading x.whl (39 MB)"));
        assert!(!is_passing("\u{1b}[33mwarning\u{1b}[0m: unused"));
        assert!(!is_passing("test a ... ok"));
    }
}
