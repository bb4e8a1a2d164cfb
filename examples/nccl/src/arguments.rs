//! The arguments of the program.

use std::str::FromStr;

use crate::Result;

/// The arguments of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The task of the program.
    pub command: Command,
    /// The number of GPUs that each process uses.
    pub gpus: usize,
}

/// The task of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Starts several processes of this program.
    Launch {
        /// The number of processes.
        processes: usize,
        /// The arguments of each process.
        command: Vec<String>,
    },
    /// Trains a network.
    Train {
        /// The number of steps.
        steps: usize,
    },
    /// Times an all-reduce.
    AllReduce {
        /// The size of the buffer in MiB.
        mib: usize,
        /// The number of timed operations.
        rounds: usize,
    },
}

impl Arguments {
    /// Parses the arguments after the name of the program.
    ///
    /// # Errors
    ///
    /// Fails if an argument is unknown or has no valid value.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = arguments.peekable();
        let command = arguments.next();
        let command = command.ok_or("the command is missing: launch, train or all-reduce")?;
        let known: &[&str] = match command.as_str() {
            "launch" => &["--processes"],
            "train" => &["--gpus", "--steps"],
            "all-reduce" => &["--gpus", "--mib", "--rounds"],
            _ => {
                return Err(format!(
                    "{command:?} is not a command; the commands are launch, train and all-reduce"
                )
                .into());
            }
        };
        let (mut gpus, mut processes, mut steps, mut mib, mut rounds) = (1, 2, 100, 1024, 20);
        while let Some(name) = arguments.next_if(|it| it.starts_with("--")) {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(format!("{command} has no option {name}; it has {known}").into());
            }
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("the value of {name} is missing"))?;
            let target = match name.as_str() {
                "--gpus" => &mut gpus,
                "--processes" => &mut processes,
                "--steps" => &mut steps,
                "--mib" => &mut mib,
                _ => &mut rounds,
            };
            *target = positive(&name, &value)?;
        }
        let rest: Vec<String> = arguments.collect();
        let command = match command.as_str() {
            "launch" => {
                // A wrong command is reported once, here, and not by each process.
                match Self::parse(rest.iter().cloned())?.command {
                    Command::Launch { .. } => return Err("launch cannot start launch".into()),
                    _ => Command::Launch {
                        processes,
                        command: rest,
                    },
                }
            }
            _ if !rest.is_empty() => {
                return Err(format!("{:?} is not an option of {command}", rest[0]).into());
            }
            "train" => Command::Train { steps },
            _ => Command::AllReduce { mib, rounds },
        };
        Ok(Self { command, gpus })
    }
}

/// Parses a number that is at least 1.
pub(crate) fn positive<T: FromStr + PartialOrd + From<u8>>(name: &str, value: &str) -> Result<T> {
    match value.parse() {
        Ok(number) if number >= T::from(1) => Ok(number),
        _ => Err(format!("{name} is {value:?}; it must be a number from 1 on").into()),
    }
}
