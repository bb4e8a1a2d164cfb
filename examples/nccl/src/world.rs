//! The place of a process among all processes, as launchers describe it in environment variables.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::Result;
use crate::arguments::positive;

/// The port of process 0 unless `MASTER_PORT` is set: that of `torchrun`.
const PORT: u16 = 29500;

/// The names of the variables of a launcher: the number of the process among all, the number of all
/// processes, and the number of the process on its machine.
const LAUNCHERS: [[&str; 3]; 4] = [
    // This program, and `torchrun`.
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    // Open MPI.
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ],
    // MPICH and Intel MPI.
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    // Slurm. A job may run `mpirun`, so the variables of MPI are read first.
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

/// The place of a process among all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The number of this process, from 0 on.
    pub process: usize,
    /// The number of all processes.
    pub processes: usize,
    /// The number of this process among those on this machine, which chooses its GPUs.
    pub local_process: usize,
    /// The name or the address of the machine of process 0.
    pub host: String,
    /// The TCP port on which process 0 waits for the others.
    pub port: u16,
}

impl World {
    /// Reads the variables of `torchrun`, Open MPI, MPICH or Slurm, the first of these that are
    /// set. Without any, this is the only process.
    ///
    /// The variables `MASTER_ADDR` and `MASTER_PORT` name the place where process 0 waits. Without
    /// the first, it is the first machine of `SLURM_JOB_NODELIST` or, without that, this machine.
    ///
    /// # Errors
    ///
    /// Fails if the variables contradict each other.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Works as [`from_env`](Self::from_env) does, with other variables.
    ///
    /// # Errors
    ///
    /// Fails as [`from_env`](Self::from_env) does.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let port = match variable("MASTER_PORT") {
            Some(port) => positive("MASTER_PORT", &port)?,
            None => PORT,
        };
        let (mut process, mut processes, mut local_process) = (0, 1, 0);
        let set = LAUNCHERS
            .iter()
            .find_map(|names| Some((names, variable(names[0])?)));
        if let Some((names, value)) = set {
            process = number(names[0], &value)?;
            let missing = || format!("{} is set, but {} is not", names[0], names[1]);
            processes = positive(names[1], &variable(names[1]).ok_or_else(missing)?)?;
            local_process = match variable(names[2]) {
                Some(value) => number(names[2], &value)?,
                None => process,
            };
            if process >= processes {
                return Err(format!(
                    "{} is {process}; it must be less than {}, {processes}",
                    names[0], names[1]
                )
                .into());
            }
        }
        let host = variable("MASTER_ADDR")
            .or_else(|| first_node(&variable("SLURM_JOB_NODELIST")?))
            .filter(|_| processes > 1)
            .unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string());
        Ok(Self {
            process,
            processes,
            local_process,
            host,
            port,
        })
    }

    /// Returns whether process 0 can be reached from this machine only.
    pub(crate) fn is_local(&self) -> bool {
        let address = self.host.parse().map(|it: IpAddr| it.is_loopback());
        self.host == "localhost" || address.unwrap_or(false)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T> {
    let number = value.parse();
    Ok(number.map_err(|_| format!("{name} is {value:?}; it must be a number"))?)
}

/// Returns the first name of a list of Slurm, such as `node[08-11,20],login1`.
fn first_node(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let mut name = list[..end].to_owned();
    if let Some(numbers) = list[end..].strip_prefix('[') {
        let (numbers, after) = numbers.split_once(']')?;
        name += numbers.split([',', '-']).next()?;
        name += after.split(',').next()?;
    }
    (!name.is_empty()).then_some(name)
}
