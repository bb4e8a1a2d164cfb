//! The configuration of a software driver.

use std::sync::Arc;

use cuda_sys::CUdevice_attribute;

use crate::build_error::BuildError;
use crate::config::Config;
use crate::driver::instance::Instance;
use crate::driver::slot::{SLOTS, Slot};
use crate::engine::Schedule;
use crate::journal::Rule;
use crate::machine::Machine;
use crate::simulator::Simulator;

/// Configures a software driver, then builds it.
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

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Starts with one device of compute capability 9.0 with 2 GiB of memory and the newest driver
    /// version that the bindings know.
    pub fn new() -> Self {
        Self {
            config: Config::default(),
        }
    }

    /// Acts as a driver of this CUDA version, for example 12020 for 12.2: newer functions are
    /// absent and newer PTX versions are rejected.
    pub fn version(mut self, version: u32) -> Self {
        self.config.version = version;
        self
    }

    /// Sets the number of devices. With 0, `cuInit` fails as it does on a machine without a GPU.
    pub fn devices(mut self, count: usize) -> Self {
        self.config.devices = count;
        self
    }

    /// Raises the number of devices to `count`, unless it is 0.
    pub(crate) fn at_least(mut self, count: usize) -> Self {
        if self.config.devices > 0 {
            self.config.devices = self.config.devices.max(count);
        }
        self
    }

    /// Sets the compute capability of the devices, 7.5 to 12.x.
    pub fn compute_capability(mut self, major: u32, minor: u32) -> Self {
        self.config.capability = (major, minor);
        self
    }

    /// Sets the devices and the connections between them, in place of
    /// [`devices`](Self::devices), [`compute_capability`](Self::compute_capability) and
    /// [`memory`](Self::memory), which have no effect then.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.config.machine = Some(Arc::new(machine));
        self
    }

    /// Overrides the value of a device attribute. This changes only the reported value, not the
    /// behaviour of the devices.
    pub fn attribute(mut self, attribute: CUdevice_attribute, value: i32) -> Self {
        self.config.attributes.push((attribute, value));
        self
    }

    /// Sets the memory size of each device in bytes, rounded up to 2 MiB. Only memory that is used
    /// takes up host memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.memory = bytes;
        self
    }

    /// Limits pinned host memory to this many bytes.
    pub fn host_memory(mut self, bytes: u64) -> Self {
        self.config.host_limit = bytes;
        self
    }

    /// Sets when queued work runs.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.config.schedule = schedule;
        self
    }

    /// Adds a rule that makes calls fail. If several rules apply to a call, the first one that was
    /// added decides.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.config.rules.push(rule);
        self
    }

    /// Records every call for [`Simulator::take_trace`].
    pub fn trace(mut self, on: bool) -> Self {
        self.config.trace = on;
        self
    }

    /// Rejects PTX with an unimplemented instruction when it is loaded, instead of failing when a
    /// kernel that contains the instruction is launched.
    ///
    /// An instruction that is not in the PTX manual is always rejected when it is loaded.
    pub fn strict_ptx(mut self, on: bool) -> Self {
        self.config.strict_ptx = on;
        self
    }

    /// Queues asynchronous copies from and to pageable memory like all other copies.
    ///
    /// Real drivers copy pageable memory before the call returns, but the documentation only says
    /// that they may. With this on, a program that relies on it reads or writes memory that is no
    /// longer valid, which is undefined behaviour: enable it only for programs that keep the memory
    /// valid until the copy is complete.
    pub fn late_pageable_copies(mut self, on: bool) -> Self {
        self.config.late_pageable = on;
        self
    }

    /// Sets whether `cuMemUnmap` waits for queued work, which is the default.
    ///
    /// The documentation only says that this call waits "for most use cases". With this off, queued
    /// work that has not started finds the memory unmapped, and the device is lost. So a program
    /// that relies on the wait fails.
    pub fn unmap_waits(mut self, on: bool) -> Self {
        self.config.unmap_waits = on;
        self
    }

    /// Keeps the output of `printf` in kernels for [`Simulator::take_output`] instead of writing it
    /// to standard output.
    pub fn capture_output(mut self, on: bool) -> Self {
        self.config.capture_output = on;
        self
    }

    /// Makes a kernel fail with `CUDA_ERROR_LAUNCH_TIMEOUT` once one of its blocks (or clusters)
    /// has executed this many instructions. An instruction counts once for each warp that executes
    /// it.
    ///
    /// The default is 2^30, which takes a core about 15 seconds. A kernel that spins forever, where
    /// a GPU hangs, therefore ends with an error that names the kernel and this limit.
    pub fn instruction_limit(mut self, instructions: u64) -> Self {
        self.config.instruction_limit = Some(instructions);
        self
    }

    /// Lets kernels run forever: for persistent kernels, which end only when the host or another
    /// kernel sets a flag.
    pub fn without_instruction_limit(mut self) -> Self {
        self.config.instruction_limit = None;
        self
    }

    /// Executes each kernel on at most `count` host threads; 0, the default, means all threads of
    /// rayon's global pool.
    ///
    /// With 1, the blocks of a kernel are executed in the same order at every launch, so a kernel
    /// whose blocks race with each other has the same results every time.
    pub fn host_threads(mut self, count: usize) -> Self {
        self.config.host_threads = count;
        self
    }

    /// Reports reads of uninitialized bytes: of device memory since it was allocated, of shared
    /// memory since the block started, and of local memory since the function was called.
    ///
    /// The kernel continues and reads the bytes `0xCD` with which new memory is filled. Copies of
    /// uninitialized bytes by the host are not reported; the destination then counts as
    /// uninitialized too. Pinned, managed and virtual memory count as initialized, as do the
    /// parameters and results of functions.
    pub fn check_uninitialized(mut self, on: bool) -> Self {
        self.config.checks.uninitialized = on;
        self
    }

    /// Reports races in shared memory: two threads of a block access the same byte without a
    /// barrier in between, and at least one of the accesses is a write. A write of the value that
    /// the byte already holds does not race with earlier accesses; a later read does race with it.
    ///
    /// The kernel continues. The lanes of a warp count as separate threads: only `__syncwarp()`
    /// orders them. Atomic, volatile and relaxed accesses do not race with each other. A thread
    /// that waits for an `mbarrier`, that performs an acquire, or that executes a fence after it
    /// has read in one of those ways is assumed to synchronize with all earlier accesses of other
    /// threads, so races that this assumption hides are not found. Races with other blocks of a
    /// cluster are not found either.
    ///
    /// Also reports registers of `wgmma` that are used before `wgmma.wait_group`, or written after
    /// the last `wgmma.fence`, and writes to shared memory that a `wgmma` may still read.
    pub fn check_races(mut self, on: bool) -> Self {
        self.config.checks.races = on;
        self
    }

    /// Reports barriers of a block that some of its threads do not reach, and `bar.sync` executed
    /// by lanes of one warp at different instructions. On by default.
    ///
    /// The kernel continues. Threads that have returned are not required at a barrier, as on GPUs
    /// since Volta. A block that waits forever is a fault even without this check:
    /// `CUDA_ERROR_LAUNCH_TIMEOUT`, where a GPU hangs.
    pub fn check_barriers(mut self, on: bool) -> Self {
        self.config.checks.barriers = on;
        self
    }

    /// Reports writes to memory that a program passes to a launch as read-only, such as `&buffer`
    /// instead of `&mut buffer` in cuda-driver.
    ///
    /// The kernel continues. Only programs that use cuda-driver state what a kernel may write.
    /// Nodes of graphs are not checked, nor are copies of memory by kernels in bulk.
    pub fn check_read_only(mut self, on: bool) -> Self {
        self.config.checks.read_only = on;
        self
    }

    /// Reports each load, store and atomic operation that is outside of memory or misaligned, and
    /// continues the kernel: the access does nothing, and returns 0. By default, the first one ends
    /// the kernel, as on a GPU.
    ///
    /// There is a report for each thread and instruction, up to 1,000 for a launch, in the order of
    /// the accesses, and the same holds for the reports of
    /// [`check_read_only`](Self::check_read_only). Each element of a vector is an access of its
    /// own. Other invalid accesses, such as those of asynchronous copies, still end the kernel.
    pub fn skip_invalid_accesses(mut self, on: bool) -> Self {
        self.config.checks.skip_invalid = on;
        self
    }

    /// Does not reuse freed memory as long as other memory is available, so that an access through
    /// a stale address is reported as such and does not hit another allocation.
    pub fn check_freed(mut self, on: bool) -> Self {
        self.config.check_freed = on;
        self
    }

    /// Enables or disables all checks of kernels:
    /// [`check_uninitialized`](Self::check_uninitialized), [`check_races`](Self::check_races),
    /// [`check_barriers`](Self::check_barriers), [`check_read_only`](Self::check_read_only),
    /// [`check_freed`](Self::check_freed).
    ///
    /// The checks make kernels several times slower. Findings go to stderr and to
    /// [`Simulator::take_reports`].
    pub fn check_all(self, on: bool) -> Self {
        self.check_uninitialized(on)
            .check_races(on)
            .check_barriers(on)
            .check_read_only(on)
            .check_freed(on)
    }

    /// Builds the driver.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the process already holds the maximum number of software drivers, if the
    /// address space has no room for the device memory, or if a setting is invalid.
    pub fn build(self) -> Result<Simulator, BuildError> {
        let bad = |words: String| Err(BuildError::BadSetting(words));
        let config = self.config;
        let newest = cuda_sys::BINDINGS.version.number();
        if !(12000..=newest).contains(&config.version) {
            return bad(format!(
                "version is {}; supported are 12000 to {newest}",
                config.version
            ));
        }
        for (capability, memory) in config.sizes() {
            if !((7, 5)..=(12, 9)).contains(&capability) || capability.1 > 9 {
                let (major, minor) = capability;
                return bad(format!(
                    "compute capability is {major}.{minor}; supported are 7.5 to 12.9"
                ));
            }
            if memory == 0 {
                return bad(String::from(
                    "memory is 0; each device needs at least 1 byte",
                ));
            }
        }
        if config.count() > 64 {
            return bad(format!(
                "devices is {}; at most 64 are supported",
                config.count()
            ));
        }
        let instance = Instance::new(config).map_err(BuildError::NoAddressSpace)?;
        let slot = Slot::take(instance).ok_or(BuildError::TooMany { limit: SLOTS })?;
        slot.instance().set_slot(slot.index());
        Ok(Simulator::new(Arc::new(slot)))
    }
}
