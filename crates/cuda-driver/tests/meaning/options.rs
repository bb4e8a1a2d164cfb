//! The options of the program.

use std::path::PathBuf;

use crate::planted::Defect;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A short run on the software device, as a test.
    Test,
    /// All instructions.
    Run,
    /// Wrong claims, which must be found.
    SelfTest,
    /// Prints the kernels.
    Print,
    /// A worker of another process.
    Worker,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) is_software: bool,
    pub(crate) workers: usize,
    /// The operand sets of each instruction.
    pub(crate) sets: usize,
    /// The instructions of each row at most; 0 for all.
    pub(crate) examples: usize,
    /// The seconds after which no further module is begun.
    pub(crate) seconds: u64,
    /// Only rows or instructions with this text.
    pub(crate) only: Option<String>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) defect: Option<Defect>,
    pub(crate) names: Vec<String>,
}

const HELP: &str = "\
meaning [MODE] [OPTIONS]

Modes: (none): a short run of --self-test and --run on the software device
  --run           executes the instructions, and compares them with the analysis
  --self-test     wrong claims, which must be found
  --print         prints the kernels
Options:
  --software      the software device instead of the GPU
  --workers N     processes (the number of processors, at most 16)
  --sets N        operand sets of each instruction (1024)
  --examples N    instructions of each row at most (all)
  --seconds N     time after which no further module is begun (600)
  --only TEXT     rows and instructions that contain the text
  --folder DIR    for `meaning.txt`, which has a line for each row and each finding
";

impl Options {
    /// Reads the arguments of the program. Returns a message for a wrong one.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(4, usize::from);
        let mut options = Self {
            mode: Mode::Test,
            is_software: false,
            workers: processors.min(16),
            sets: 1024,
            examples: 0,
            seconds: 600,
            only: None,
            folder: None,
            defect: None,
            names: Vec::new(),
        };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{argument} needs a value\n{HELP}"))
            };
            let number = |text: String| {
                let number = text.parse::<usize>();
                number.map_err(|_| format!("{text} is not a number\n{HELP}"))
            };
            match argument.as_str() {
                "--run" => options.mode = Mode::Run,
                "--self-test" => options.mode = Mode::SelfTest,
                "--print" => options.mode = Mode::Print,
                "--worker" => options.mode = Mode::Worker,
                "--software" => options.is_software = true,
                "--workers" => options.workers = number(value()?)?.max(1),
                "--sets" => options.sets = number(value()?)?.max(64),
                "--examples" => options.examples = number(value()?)?,
                "--seconds" => options.seconds = number(value()?)? as u64,
                "--only" => options.only = Some(value()?),
                "--folder" => options.folder = Some(value()?.into()),
                "--defect" => {
                    let name = value()?;
                    let defect = Defect::parse(&name);
                    options.defect = Some(defect.ok_or(format!("no defect is named {name}"))?);
                }
                "--help" => return Err(HELP.to_owned()),
                // The options of the test harness.
                other => options.names.push(other.to_owned()),
            }
        }
        Ok(options)
    }

    /// The arguments of a worker.
    pub(crate) fn for_worker(&self) -> Vec<String> {
        let mut arguments = vec![
            "--worker".to_owned(),
            "--sets".to_owned(),
            self.sets.to_string(),
        ];
        if self.is_software {
            arguments.push("--software".to_owned());
        }
        if let Some(defect) = self.defect {
            arguments.extend(["--defect".to_owned(), defect.name().to_owned()]);
        }
        arguments
    }
}
