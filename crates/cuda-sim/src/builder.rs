//! Describing a software driver.

use std::fmt;
use std::io;
use std::sync::Arc;

use cuda_sys::CUdevice_attribute;

use crate::driver::instance::Instance;
use crate::driver::slot::{SLOTS, Slot};
use crate::engine::Schedule;
use crate::journal::Rule;
use crate::simulator::Simulator;
use crate::vm::Checks;

/// What an instance is made from.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) version: u32,
    pub(crate) devices: usize,
    pub(crate) capability: (u32, u32),
    pub(crate) memory: u64,
    pub(crate) host_limit: u64,
    pub(crate) schedule: Schedule,
    pub(crate) trace: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) strict_ptx: bool,
    /// What the devices tell of themselves, other than usual.
    pub(crate) attributes: Vec<(CUdevice_attribute, i32)>,
    pub(crate) late_pageable: bool,
    pub(crate) capture_output: bool,
    pub(crate) instruction_limit: Option<u64>,
    pub(crate) checks: Checks,
    pub(crate) check_freed: bool,
}

/// Describes a software driver, then builds it.
///
/// ```
/// use cuda_sim::{Builder, Schedule};
///
/// let simulator = Builder::new()
///     .version(12020)
///     .devices(2)
///     .compute_capability(8, 0)
///     .memory(1 << 30)
///     .schedule(Schedule::Late { seed: 7 })
///     .build()?;
/// let driver = simulator.library()?;
/// assert_eq!(driver.version().to_string(), "12.2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    config: Config,
}

/// Why no software driver was built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The process has as many as it can hold; drop one first.
    TooMany {
        /// How many that is.
        limit: usize,
    },
    /// There is no address space for the memory of the devices.
    NoAddressSpace(io::Error),
    /// A setting has a value that makes no sense.
    BadSetting(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { limit } => {
                write!(
                    f,
                    "all {limit} software drivers that a process can hold are in use"
                )
            }
            Self::NoAddressSpace(error) => {
                write!(
                    f,
                    "no address space for the device memory: {error} (ask for less memory)"
                )
            }
            Self::BadSetting(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoAddressSpace(error) => Some(error),
            _ => None,
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// One device of compute capability 9.0 with 2 GiB, under a driver of the newest version that
    /// is known.
    pub fn new() -> Self {
        Self {
            config: Config {
                version: cuda_sys::BINDINGS.version.number(),
                devices: 1,
                capability: (9, 0),
                memory: 2 << 30,
                host_limit: u64::MAX,
                schedule: Schedule::Eager,
                trace: false,
                rules: Vec::new(),
                strict_ptx: false,
                attributes: Vec::new(),
                late_pageable: false,
                capture_output: false,
                instruction_limit: None,
                checks: Checks::default(),
                check_freed: false,
            },
        }
    }

    /// Acts as a driver of this CUDA version, as 12020 for 12.2: newer functions are absent, newer
    /// PTX is refused.
    pub fn version(mut self, version: u32) -> Self {
        self.config.version = version;
        self
    }

    /// How many devices there are. With none, `cuInit` fails as it does on a machine without a GPU.
    pub fn devices(mut self, count: usize) -> Self {
        self.config.devices = count;
        self
    }

    /// The compute capability of the devices, 7.5 to 12.x.
    pub fn compute_capability(mut self, major: u32, minor: u32) -> Self {
        self.config.capability = (major, minor);
        self
    }

    /// What the devices answer for an attribute. It changes only what they tell, not what they do.
    pub fn attribute(mut self, attribute: CUdevice_attribute, value: i32) -> Self {
        self.config.attributes.push((attribute, value));
        self
    }

    /// Bytes of memory of each device, rounded up to 2 MiB. Only what is used costs anything.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.memory = bytes;
        self
    }

    /// Pinned host memory stops at so many bytes.
    pub fn host_memory(mut self, bytes: u64) -> Self {
        self.config.host_limit = bytes;
        self
    }

    /// When queued work runs.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.config.schedule = schedule;
        self
    }

    /// Makes calls fail. Rules add up; the first that applies decides.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.config.rules.push(rule);
        self
    }

    /// Keeps a trace of all calls: [`Simulator::take_trace`].
    pub fn trace(mut self, on: bool) -> Self {
        self.config.trace = on;
        self
    }

    /// Refuses to load PTX with an instruction that is not implemented, instead of failing when it
    /// is executed.
    pub fn strict_ptx(mut self, on: bool) -> Self {
        self.config.strict_ptx = on;
        self
    }

    /// Queues asynchronous copies from and to pageable memory like all others.
    ///
    /// Drivers copy such memory before they return, but the documentation only says that they may:
    /// with this on, a program that relies on it reads or writes memory that is no longer there. So
    /// it must be one that does not.
    pub fn late_pageable_copies(mut self, on: bool) -> Self {
        self.config.late_pageable = on;
        self
    }

    /// Keeps what kernels print, for [`Simulator::take_output`], instead of writing it to the
    /// standard output.
    pub fn capture_output(mut self, on: bool) -> Self {
        self.config.capture_output = on;
        self
    }

    /// A kernel fails with `CUDA_ERROR_LAUNCH_TIMEOUT` after so many instructions of a warp.
    pub fn instruction_limit(mut self, instructions: u64) -> Self {
        self.config.instruction_limit = Some(instructions);
        self
    }

    /// Reports reads of bytes that nobody has written: in device memory since it was allocated, in
    /// shared memory since the block began, in local memory since the function was called.
    ///
    /// The kernel goes on, with the bytes `0xCD` of fresh memory. Copies of such bytes by the host
    /// are not reported: what they copy to counts as not written too. Pinned, managed and virtual
    /// memory count as written. So do the parameters and results of functions.
    pub fn check_uninitialised(mut self, on: bool) -> Self {
        self.config.checks.uninitialised = on;
        self
    }

    /// Reports races in shared memory: a byte that two threads of a block use, one of them writing
    /// it, with no barrier between. A write of the value that is there already makes no race with
    /// what came before it, be it a write or a read; a read behind it does.
    ///
    /// The kernel goes on. The lanes of a warp are threads like others: only `__syncwarp()` orders
    /// them. Atomic, volatile and relaxed accesses make no race with each other. A thread that
    /// waits for an `mbarrier`, that acquires, or that fences after it has read in one of those
    /// ways, is taken to have seen all that others did before: a race that is hidden so is not
    /// found. Nor are those with other blocks of a cluster.
    pub fn check_races(mut self, on: bool) -> Self {
        self.config.checks.races = on;
        self
    }

    /// Reports barriers of a block that some of its threads go around, and `bar.sync` by which
    /// lanes of a warp meet from different places.
    ///
    /// The kernel goes on. A thread that has returned is not missed at a barrier, as on GPUs since
    /// Volta. A block that waits for ever is a fault with or without this:
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`, where a GPU hangs.
    pub fn check_barriers(mut self, on: bool) -> Self {
        self.config.checks.barriers = on;
        self
    }

    /// Gives memory that was freed to nobody as long as there is other memory, so that a stale
    /// address is a fault that says so, and not another allocation's.
    pub fn check_freed(mut self, on: bool) -> Self {
        self.config.check_freed = on;
        self
    }

    /// All checks of kernels: [`check_uninitialised`](Self::check_uninitialised),
    /// [`check_races`](Self::check_races), [`check_barriers`](Self::check_barriers),
    /// [`check_freed`](Self::check_freed).
    ///
    /// They make kernels several times slower. What is found goes to stderr and to
    /// [`Simulator::take_reports`].
    pub fn check_all(self, on: bool) -> Self {
        self.check_uninitialised(on)
            .check_races(on)
            .check_barriers(on)
            .check_freed(on)
    }

    /// Builds the driver.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the process has too many, for want of address space, or for a setting
    /// without sense.
    pub fn build(self) -> Result<Simulator, BuildError> {
        let bad = |words: String| Err(BuildError::BadSetting(words));
        let config = self.config;
        let newest = cuda_sys::BINDINGS.version.number();
        if !(12000..=newest).contains(&config.version) {
            return bad(format!(
                "version {}: 12000 to {newest} are known",
                config.version
            ));
        }
        if !((7, 5)..=(12, 9)).contains(&config.capability) || config.capability.1 > 9 {
            let (major, minor) = config.capability;
            return bad(format!(
                "compute capability {major}.{minor}: 7.5 to 12.x are known"
            ));
        }
        if config.devices > 64 {
            return bad(format!("{} devices: 64 at most", config.devices));
        }
        if config.memory == 0 {
            return bad(String::from("devices have some memory"));
        }
        let instance = Instance::new(config).map_err(BuildError::NoAddressSpace)?;
        let slot = Slot::take(instance).ok_or(BuildError::TooMany { limit: SLOTS })?;
        slot.instance().set_slot(slot.index());
        Ok(Simulator::new(Arc::new(slot)))
    }
}
