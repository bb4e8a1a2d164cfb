//! The configuration of a software driver.

use cuda_sys::CUdevice_attribute;

use crate::engine::Schedule;
use crate::journal::Rule;
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
            checks: Checks::default(),
            check_freed: false,
        }
    }
}
