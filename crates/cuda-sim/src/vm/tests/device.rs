//! A software device for one test.

#![expect(
    clippy::result_large_err,
    reason = "tests take the fault apart at once"
)]

use std::sync::{Arc, Mutex};

use crate::memory::Arena;
use crate::report::Report;
use crate::vm::{Fault, Image, LaunchParams, LaunchStats, LoadError, Program, TargetInfo, launch};

pub(super) const TARGET: TargetInfo = TargetInfo {
    compute_capability: (9, 0),
    max_ptx: (9, 5),
    strict: true,
    max_registers: None,
    checked: false,
};

/// A module that is loaded on its own device.
pub(super) struct Device {
    pub(super) arena: Arena,
    pub(super) image: Image,
    pub(super) output: Mutex<String>,
    /// The findings of all launches.
    pub(super) reports: Mutex<Vec<Report>>,
}

impl Device {
    /// Loads `text`, to which the first three directives are added.
    pub(super) fn new(text: &str) -> Self {
        Self::load(text, &TARGET).unwrap()
    }

    pub(super) fn load(text: &str, target: &TargetInfo) -> Result<Self, LoadError> {
        let text = format!(".version 8.0\n.target sm_75\n.address_size 64\n{text}");
        let module = cuda_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let program = Arc::new(Program::load(&[module], target)?);
        let arena = Arena::new(64 << 20).unwrap().know_written(target.checked);
        let image = Image::new(&program, &arena)?;
        Ok(Self {
            arena,
            image,
            output: Mutex::new(String::new()),
            reports: Mutex::default(),
        })
    }

    pub(super) fn upload(&self, bytes: &[u8]) -> u64 {
        let addr = self.arena.alloc(bytes.len() as u64, 256).unwrap();
        self.arena.map().write(addr, bytes).unwrap();
        addr
    }

    pub(super) fn upload32(&self, values: &[u32]) -> u64 {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.upload(&bytes)
    }

    pub(super) fn upload64(&self, values: &[u64]) -> u64 {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.upload(&bytes)
    }

    pub(super) fn download32(&self, addr: u64, len: usize) -> Vec<u32> {
        let mut bytes = vec![0; len * 4];
        self.arena.map().read(addr, &mut bytes).unwrap();
        bytes
            .chunks(4)
            .map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap()))
            .collect()
    }

    pub(super) fn download64(&self, addr: u64, len: usize) -> Vec<u64> {
        let words = self.download32(addr, len * 2);
        words
            .chunks(2)
            .map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0]))
            .collect()
    }

    /// Runs the only kernel; each parameter has 8 bytes.
    pub(super) fn run(&self, grid: u32, block: u32, params: &[u64]) -> Result<LaunchStats, Fault> {
        self.run_with(grid, block, params, |_| {})
    }

    pub(super) fn run_with(
        &self,
        grid: u32,
        block: u32,
        params: &[u64],
        change: impl FnOnce(&mut LaunchParams<'_>),
    ) -> Result<LaunchStats, Fault> {
        let params: Vec<u8> = params
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let map = self.arena.map();
        let sink = |bytes: &[u8]| {
            self.output
                .lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(bytes));
        };
        let mut launch_params = LaunchParams::new([grid, 1, 1], [block, 1, 1], &params, &map);
        launch_params.output = &sink;
        let keep = |report| self.reports.lock().unwrap().push(report);
        launch_params.report = &keep;
        change(&mut launch_params);
        launch(&self.image, 0, &launch_params)
    }
}

/// A deterministic pseudo-random number generator.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
