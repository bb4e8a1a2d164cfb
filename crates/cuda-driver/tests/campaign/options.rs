//! The options of the program.

use std::path::PathBuf;
use std::time::Duration;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A short run of everything on the software device, as a test.
    Test,
    /// Random kernels.
    Campaign,
    /// Planted defects.
    SelfTest,
    /// The known attacks, each in a process of its own.
    Attacks,
    /// One attack, in this process.
    Attack,
    /// A worker of another process.
    Worker,
    /// Prints the text of a module, or of a kernel with `--seed`.
    Print,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) is_software: bool,
    pub(crate) workers: usize,
    /// The bytes on each side of the window of a worker.
    side: u64,
    pub(crate) time: Duration,
    /// The number of kernels of all runs after which the campaign is complete.
    pub(crate) goal: u64,
    /// The number of modules of this run at most.
    pub(crate) modules: u64,
    /// The number of findings of all runs after which a run ends.
    pub(crate) findings: u64,
    pub(crate) first: u64,
    pub(crate) kernels: u64,
    pub(crate) hostile: u64,
    pub(crate) patience_ms: u64,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) names: Vec<String>,
}

const HELP: &str = "\
campaign [MODE] [OPTIONS]

Modes: (none): a short run of all modes on the software device
  --run           random kernels
  --self-test     planted defects, which the run must find
  --attacks       the known attacks, or those that are named
  --print         the text of module --first, or of kernel --seed
Options:
  --software      the software device instead of the GPU
  --folder DIR    for `counts.txt`, with which a later run continues, and for reports
  --workers N     processes (8)
  --gib N         GiB of unused memory on each side of the arguments, for each worker (8)
  --minutes N     time limit of this run (8)
  --goal N        kernels of all runs (100000)
  --modules N     modules of this run at most
  --findings N    findings of all runs after which a run ends (100)
  --first N       the first module
  --kernels N     kernels of a module (200)
  --hostile N     kernels of a module that may run for ever (2)
  --patience N    milliseconds after which a kernel is endless (2000)
  --seed N        one kernel
";

impl Options {
    /// Reads the arguments of the program. Returns a message for a wrong one.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            mode: Mode::Test,
            is_software: false,
            workers: 8,
            side: 8 << 30,
            time: Duration::from_secs(480),
            goal: 100_000,
            modules: u64::MAX,
            findings: 100,
            first: 0,
            kernels: 200,
            hostile: 2,
            patience_ms: 2000,
            folder: None,
            seed: None,
            names: Vec::new(),
        };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut value = || -> Result<u64, String> {
                let value = arguments.next();
                let number = value.as_ref().and_then(|value| value.parse().ok());
                number.ok_or_else(|| format!("{argument} needs a number, not {value:?}\n{HELP}"))
            };
            match argument.as_str() {
                "--run" => options.mode = Mode::Campaign,
                "--self-test" => options.mode = Mode::SelfTest,
                "--attacks" => options.mode = Mode::Attacks,
                "--attack" => options.mode = Mode::Attack,
                "--worker" => options.mode = Mode::Worker,
                "--print" => options.mode = Mode::Print,
                "--software" => options.is_software = true,
                "--workers" => options.workers = value()? as usize,
                "--gib" => options.side = value()? << 30,
                "--side-bytes" => options.side = value()?,
                "--minutes" => options.time = Duration::from_secs(60 * value()?),
                "--goal" => options.goal = value()?,
                "--modules" => options.modules = value()?,
                "--findings" => options.findings = value()?,
                "--first" => options.first = value()?,
                "--kernels" => options.kernels = value()?,
                "--hostile" => options.hostile = value()?,
                "--patience" => options.patience_ms = value()?,
                "--seed" => options.seed = Some(value()?),
                "--folder" => options.folder = arguments.next().map(PathBuf::from),
                "--help" => return Err(HELP.to_owned()),
                // Options of the test harness.
                _ if argument.starts_with('-') && options.mode == Mode::Test => {
                    options.names.push(argument);
                }
                _ if argument.starts_with('-') => {
                    return Err(format!("{argument} is not an option\n{HELP}"));
                }
                _ => options.names.push(argument),
            }
        }
        // The software device ends a kernel after a number of instructions, whatever time it takes.
        if options.is_software {
            options.side = options.side.min(1 << 16);
            options.patience_ms = options.patience_ms.max(60_000);
        }
        Ok(options)
    }

    /// The number of words on each side of the window.
    pub(crate) fn side_words(&self) -> usize {
        (self.side / 4) as usize
    }

    /// The options of a worker of this run.
    pub(crate) fn for_worker(&self) -> Vec<String> {
        let mut options = vec![
            "--worker".to_owned(),
            "--side-bytes".to_owned(),
            self.side.to_string(),
            "--patience".to_owned(),
            self.patience_ms.to_string(),
        ];
        if self.is_software {
            options.push("--software".to_owned());
        }
        options
    }
}
