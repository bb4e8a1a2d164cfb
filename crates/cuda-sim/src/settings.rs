//! Parsing a [`Builder`] from text, the format of the environment variable `CUDA_SIM`.

use std::fs;
use std::str::FromStr;

use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::engine::Schedule;
use crate::machine::Machine;
use crate::numbers::{bytes, pair};

/// The environment variable that requests the software device and describes it.
pub(crate) const VARIABLE: &str = "CUDA_SIM";

/// Parses `key=value` parts separated by commas. `1` and the empty string are the default
/// configuration.
///
/// | key | value |
/// |---|---|
/// | `version` | CUDA version of the driver: `12.2` |
/// | `devices` | number of devices |
/// | `cc` | compute capability: `9.0` |
/// | `machine` | devices that differ: a name of [`Machine::names`], or a file with a [`Machine`] |
/// | `memory` | memory size of each device in bytes; `K`, `M` and `G` are allowed |
/// | `schedule` | `eager`, or `late:SEED` |
/// | `strict` | `1` rejects PTX with unimplemented instructions when it is loaded |
/// | `limit` | the number of instructions after which a block fails, or `off` |
/// | `threads` | the number of host threads that execute a kernel, or `0` for all of the pool |
/// | `check` | `all`, or `uninitialized`, `races`, `barriers`, `read_only`, `freed` joined by `+` |
///
/// ```
/// let simulator = "version=12.2,devices=2,schedule=late:7".parse::<cuda_sim::Builder>()?.build()?;
/// assert_eq!(simulator.library()?.version().number(), 12020);
/// assert!("devices=many".parse::<cuda_sim::Builder>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl FromStr for Builder {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let mut builder = Self::new();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty() && *part != "1") {
            let bad = || {
                let keys = "version=12.2, devices=2, cc=9.0, memory=1G, schedule=late:7, strict=1, \
                            limit=1000000, limit=off, threads=1, check=all, \
                            machine=two-h100-nvlink, machine=machine.txt";
                BuildError::BadSetting(format!(
                    "{VARIABLE} has an invalid part `{part}`; valid parts are like {keys}"
                ))
            };
            let (key, value) = part.split_once('=').ok_or_else(bad)?;
            let with = |builder: Self| -> Option<Self> {
                Some(match key {
                    "version" => {
                        let (major, minor) = pair(value)?;
                        builder.version(major.checked_mul(1000)? + minor.checked_mul(10)?)
                    }
                    "devices" => builder.devices(value.parse().ok()?),
                    "cc" => {
                        let (major, minor) = pair(value)?;
                        builder.compute_capability(major, minor)
                    }
                    "machine" => builder.machine(machine(value)?),
                    "memory" => builder.memory(bytes(value)?),
                    "schedule" if value == "eager" => builder.schedule(Schedule::Eager),
                    "schedule" => {
                        let seed = value.strip_prefix("late:")?.parse().ok()?;
                        builder.schedule(Schedule::Late { seed })
                    }
                    "strict" => builder.strict_ptx(match value {
                        "0" => false,
                        "1" => true,
                        _ => return None,
                    }),
                    "limit" if value == "off" => builder.without_instruction_limit(),
                    "limit" => builder.instruction_limit(value.parse().ok()?),
                    "threads" => builder.host_threads(value.parse().ok()?),
                    "check" => value.split('+').try_fold(builder, |builder, name| {
                        Some(match name {
                            "all" => builder.check_all(true),
                            "uninitialized" => builder.check_uninitialized(true),
                            "races" => builder.check_races(true),
                            "barriers" => builder.check_barriers(true),
                            "read_only" => builder.check_read_only(true),
                            "freed" => builder.check_freed(true),
                            _ => return None,
                        })
                    })?,
                    _ => return None,
                })
            };
            builder = with(builder).ok_or_else(bad)?;
        }
        Ok(builder)
    }
}

/// Returns the machine with this name, or the one that a file describes.
fn machine(value: &str) -> Option<Machine> {
    Machine::named(value).or_else(|| fs::read_to_string(value).ok()?.parse().ok())
}
