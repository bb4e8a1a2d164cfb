//! The modules of the campaign: which kernels a module has, with which options it is loaded, and
//! how its kernels are launched. All of it follows from the number of the module.

use std::fmt::Write as _;

use cuda_driver::LaunchConfig;
use cuda_driver::jit::{JitOptions, OptimizationLevel};
use cuda_driver::safe::Unproven;
use fastrand::Rng;

use crate::generate::{self, Hang, Kernel, Layout};

/// The seeds of the kernels of module m are m · SEEDS, m · SEEDS + 1 and so on.
pub(crate) const SEEDS: u64 = 1000;
/// The seed of the first kernel that may be launched with hostile data although it may hang.
const HOSTILE: u64 = 600;
/// The words between the first and the last byte that an argument may have.
pub(crate) const WINDOW: usize = 1 << 16;

/// A part of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Kernels that end, or that end with the data of the launch.
    Main,
    /// Few kernels that may run for ever.
    Hostile,
}

/// The words in the buffers of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Below 3.
    Tiny,
    /// Indices in the buffers, indices outside of them, and any numbers.
    Mixed,
    /// Indices outside of the buffers.
    Outside,
}

/// A launch of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The index of the kernel in its module.
    pub(crate) kernel: usize,
    pub(crate) seed: u64,
    pub(crate) numbers: (u32, u32, u64),
    pub(crate) config: LaunchConfig,
    pub(crate) data: Data,
    pub(crate) unproven: Unproven,
    /// Whether another stream writes to the buffers meanwhile.
    pub(crate) is_disturbed: bool,
}

/// A module with its launches.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// The first word of each buffer in the window.
    pub(crate) offsets: [usize; 3],
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) launches: Vec<Launch>,
    head: String,
    options: (usize, bool, bool, u32),
}

const LEVELS: [OptimizationLevel; 5] = [
    OptimizationLevel::O0,
    OptimizationLevel::O1,
    OptimizationLevel::O2,
    OptimizationLevel::O3,
    OptimizationLevel::O4,
];

impl Plan {
    /// Plans a part of a module with `count` kernels.
    pub(crate) fn new(number: u64, part: Part, count: u64) -> Self {
        let mut rng = Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let words = [0, 1, 2].map(|_| [32, 64, 100, 128, 256, 1000, 4096][rng.usize(..7)]);
        let layout = Layout { words };
        let offsets = offsets(&mut rng, words);
        // The last version is the newest that a driver of CUDA 13.0 reads.
        let version = ["8.0", "8.3", "8.5", "8.8", "9.0"][rng.usize(..5)];
        let is_hopper = rng.u32(..5) > 0;
        let target = if is_hopper { "sm_90" } else { "sm_80" };
        let mut options = (
            [4, 4, 4, 3, 2, 1, 0][rng.usize(..7)],
            rng.u32(..6) == 0,
            rng.u32(..6) == 0,
            [0, 0, 0, 24, 32, 64][rng.usize(..6)],
        );
        if options.1 {
            // The compiler refuses other levels with debug information.
            options.0 = 0;
        }
        let first = number * SEEDS;
        let make = |seed| generate::kernel(seed, &layout, is_hopper);
        let kernels: Vec<Kernel> = match part {
            Part::Main => (first..first + count.min(HOSTILE))
                .map(make)
                .filter(|kernel| kernel.hang < Hang::Likely)
                .collect(),
            Part::Hostile => (first + HOSTILE..first + SEEDS)
                .map(make)
                .filter(|kernel| kernel.hang > Hang::Never)
                .take(count as usize)
                .collect(),
        };
        let mut plan = Self {
            number,
            layout,
            offsets,
            kernels,
            launches: Vec::new(),
            head: generate::head(version, target),
            options,
        };
        plan.launches = (0..plan.kernels.len())
            .flat_map(|kernel| plan.launches_of(kernel, part))
            .collect();
        plan
    }

    /// Plans one kernel, with the layout and the options of its module.
    pub(crate) fn of_kernel(seed: u64) -> Self {
        let part = match seed % SEEDS {
            ..HOSTILE => Part::Main,
            HOSTILE.. => Part::Hostile,
        };
        let mut plan = Self::new(seed / SEEDS, part, SEEDS);
        let found = plan.kernels.iter().position(|kernel| kernel.seed == seed);
        plan.keep(|kernel| Some(kernel) == found);
        plan
    }

    /// Keeps some of the kernels.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.launches.retain(|launch| is_kept(launch.kernel));
    }

    fn launches_of(&self, index: usize, part: Part) -> Vec<Launch> {
        let kernel = &self.kernels[index];
        let mut rng = Rng::with_seed(!kernel.seed);
        let is_friendly = kernel.hang > Hang::Never && part == Part::Main;
        let count = if part == Part::Main { 2 } else { 1 };
        let mut launches = Vec::new();
        for time in 0..count {
            let words = self.layout.words[[0, 0, 2][rng.usize(..3)]];
            let number = |rng: &mut Rng| match rng.u32(..10) {
                0..=3 => words,
                4 => words - 1,
                5 => words + 1,
                6 => rng.u32(..8),
                7 => 1000 + rng.u32(..1 << 22),
                8 => rng.u32(..),
                _ => [0, 31, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff][rng.usize(..5)],
            };
            let (n, m) = (number(&mut rng), number(&mut rng));
            let w = match rng.u32(..3) {
                0 => rng.u64(..),
                1 => number(&mut rng).into(),
                _ => u64::from(number(&mut rng)) << rng.u32(..33),
            };
            let cluster = kernel.cluster.max(1);
            let mut launch = Launch {
                kernel: index,
                seed: kernel.seed ^ (time << 32),
                numbers: (n, m, w),
                config: LaunchConfig::new(
                    cluster * [1, 1, 2, 5][rng.usize(..4)],
                    [1, 1, 32, 64, 96, 33][rng.usize(..6)],
                ),
                data: [Data::Mixed, Data::Mixed, Data::Outside, Data::Tiny][rng.usize(..4)],
                unproven: [Unproven::Check, Unproven::CheckAll][usize::from(rng.u32(..4) == 0)],
                is_disturbed: rng.u32(..3) == 0,
            };
            // A copy of the kernel cannot use the variables of its module.
            if kernel.uses_variables {
                launch.unproven = Unproven::Check;
            }
            if is_friendly {
                launch.numbers = (2, 2, 2);
                launch.config = LaunchConfig::new(cluster, 1);
                launch.data = Data::Tiny;
                launch.is_disturbed = false;
            }
            launches.push(launch);
        }
        launches
    }

    /// The text of the kernels whose indices are given, and the line at which each begins.
    pub(crate) fn text(&self, kernels: &[usize]) -> (String, Vec<usize>) {
        let mut text = self.head.clone();
        let mut lines = Vec::new();
        for kernel in kernels {
            lines.push(text.lines().count() + 1);
            text += &self.kernels[*kernel].text;
        }
        (text, lines)
    }

    /// The options with which the module is loaded.
    pub(crate) fn options(&self) -> JitOptions {
        let (level, debug, line, registers) = self.options;
        let mut options = JitOptions::new().optimization_level(LEVELS[level]);
        if debug {
            options = options.debug_info(true);
        }
        if line {
            options = options.line_info(true);
        }
        if registers > 0 {
            options = options.max_registers(registers);
        }
        options
    }

    /// A description of a launch, for the report of a hit.
    pub(crate) fn describe(&self, launch: &Launch) -> String {
        let kernel = &self.kernels[launch.kernel];
        let (level, debug, line, registers) = self.options;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "seed {}; module {}; words of x, y, z: {:?}, from word {:?} of the window",
            kernel.seed, self.number, self.layout.words, self.offsets
        );
        let _ = writeln!(
            text,
            "n, m, w = {:?}; grid {:?}, block {:?}; data {:?}; {:?}; disturbed: {}",
            launch.numbers,
            launch.config.grid,
            launch.config.block,
            launch.data,
            launch.unproven,
            launch.is_disturbed
        );
        let _ = writeln!(
            text,
            "-O{level}, debug info: {debug}, line info: {line}, register limit: {registers} (0 is \
             none)"
        );
        text += &self.text(&[launch.kernel]).0;
        text
    }

    /// The first word and the number of words of each buffer in the window, in this order.
    pub(crate) fn ranges(&self) -> [(usize, usize); 3] {
        [0, 1, 2].map(|buffer| {
            let words = self.layout.words[buffer] as usize;
            (self.offsets[buffer], words)
        })
    }
}

/// Chooses places for the buffers in the window, with words between them that nothing may change.
fn offsets(rng: &mut Rng, words: [u32; 3]) -> [usize; 3] {
    let mut order = [0, 1, 2];
    rng.shuffle(&mut order);
    let mut offsets = [0; 3];
    let mut at = 1024;
    for buffer in order {
        // Most buffers are aligned to 16 bytes, as vectors need.
        at += 4 * rng.usize(1..1000) + [0, 0, 0, 0, 0, 1, 2][rng.usize(..7)];
        offsets[buffer] = at;
        at = (at + words[buffer] as usize).next_multiple_of(4);
    }
    offsets
}

/// The words of the buffers of a launch.
pub(crate) fn words(launch: &Launch, layout: &Layout) -> [Vec<u32>; 3] {
    let mut rng = Rng::with_seed(launch.seed.wrapping_mul(3));
    layout.words.map(|count| {
        let outside = |rng: &mut Rng| match rng.u32(..4) {
            0 => rng.u32(..),
            1 => count + rng.u32(..64),
            _ => 1000 + rng.u32(..1 << 22),
        };
        (0..count)
            .map(|_| match (launch.data, rng.u32(..5)) {
                (Data::Tiny, _) => rng.u32(..3),
                (Data::Mixed, 0..=2) => rng.u32(..count),
                _ => outside(&mut rng),
            })
            .collect()
    })
}
