//! The configuration of a software driver.

use std::sync::Arc;

use cuda_sys::CUdevice_attribute;

use crate::engine::Schedule;
use crate::journal::Rule;
use crate::machine::{Machine, MachineDevice};
use crate::vm::Checks;

/// The number of instructions that a block executes by default before its kernel fails: about 15
/// seconds of one core. All tests of cuda-driver pass with a 64th of it.
pub(crate) const INSTRUCTION_LIMIT: u64 = 1 << 30;

/// The configuration that an instance is built from.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) version: u32,
    pub(crate) devices: usize,
    pub(crate) capability: (u32, u32),
    pub(crate) memory: u64,
    /// The devices, if they differ: the number, the capability and the memory above do not count
    /// then.
    pub(crate) machine: Option<Arc<Machine>>,
    pub(crate) host_limit: u64,
    pub(crate) schedule: Schedule,
    pub(crate) trace: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) strict_ptx: bool,
    /// Device attributes that override the defaults.
    pub(crate) attributes: Vec<(CUdevice_attribute, i32)>,
    pub(crate) late_pageable: bool,
    pub(crate) unmap_waits: bool,
    pub(crate) capture_output: bool,
    pub(crate) instruction_limit: Option<u64>,
    /// The number of threads that execute one kernel; 0 for all of rayon's pool.
    pub(crate) host_threads: usize,
    pub(crate) checks: Checks,
    pub(crate) check_freed: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: cuda_sys::BINDINGS.version.number(),
            devices: 1,
            capability: (9, 0),
            memory: 2 << 30,
            machine: None,
            host_limit: u64::MAX,
            schedule: Schedule::Eager,
            trace: false,
            rules: Vec::new(),
            strict_ptx: false,
            attributes: Vec::new(),
            late_pageable: false,
            unmap_waits: true,
            capture_output: false,
            instruction_limit: Some(INSTRUCTION_LIMIT),
            host_threads: 0,
            // It costs little, and a block that misses a barrier otherwise seems to work.
            checks: Checks {
                barriers: true,
                ..Checks::default()
            },
            check_freed: false,
        }
    }
}

impl Config {
    /// Returns the number of devices.
    pub(crate) fn count(&self) -> usize {
        let machine = self.machine.as_ref();
        machine.map_or(self.devices, |machine| machine.devices().len())
    }

    /// Returns the capability and the memory size of each kind of device.
    pub(crate) fn sizes(&self) -> Vec<((u32, u32), u64)> {
        match &self.machine {
            Some(machine) => {
                let devices = machine.devices().iter();
                devices.map(|it| (it.capability, it.memory)).collect()
            }
            None => vec![(self.capability, self.memory)],
        }
    }

    /// Returns the description of a device.
    pub(crate) fn device(&self, ordinal: usize) -> MachineDevice {
        let machine = self.machine.as_ref();
        let described = machine.and_then(|machine| machine.devices().get(ordinal));
        described.cloned().unwrap_or_else(|| MachineDevice {
            capability: self.capability,
            memory: self.memory,
            ..MachineDevice::default()
        })
    }

    /// Returns whether kernels of the device `from` can access memory of the device `to`.
    pub(crate) fn has_access(&self, from: usize, to: usize) -> bool {
        let machine = self.machine.as_ref();
        from != to && machine.is_none_or(|machine| machine.has_access(from, to))
    }
}
