//! Planted defects: mutants of kernels that are proven, launched on software devices. In the plain
//! launches, the device checks each access: it continues after an invalid one, and the buffers are
//! far from each other, so that an access that leaves its argument does not reach another. The
//! safe launch must report a violation that is one of these accesses, and must not make any.
//!
//! `CUDA_FULL=1` runs until 500 defects were found, and `CUDA_SEED=n` runs one mutant.

mod accesses;
mod changes;

use std::env;

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_driver::safe::SafeModule;
use cuda_driver::{Error, Result};
use cuda_ptx::{Edits, parse};
use cuda_sim::{Builder, Report, ReportKind, Simulator};
use fastrand::Rng;

use crate::support::{Fixture, software};

const TEXT: &str = include_str!("../../../../../cuda-ptx/tests/it/kernels/known.ptx");
/// Kernels that call functions.
const CALLS: &str = include_str!("../../../../../cuda-ptx/tests/it/kernels/calls.ptx");

/// The number of defects that a run finds, and that with `CUDA_FULL=1`.
const DEFECTS: u32 = 40;
const FULL_DEFECTS: u32 = 500;

/// A kernel, the bytes of its buffers (negative if it only reads them), and its numbers.
struct Kernel {
    text: &'static str,
    name: &'static str,
    buffers: &'static [i64],
    numbers: &'static [u32],
    grid: (u32, u32),
    block: (u32, u32),
    shared: u32,
}

const fn of(
    name: &'static str,
    buffers: &'static [i64],
    numbers: &'static [u32],
    grid: (u32, u32),
    block: (u32, u32),
) -> Kernel {
    Kernel {
        text: TEXT,
        name,
        buffers,
        numbers,
        grid,
        block,
        shared: 0,
    }
}

const KERNELS: &[Kernel] = &[
    of("vector_add", &[-400, -400, 400], &[100], (2, 1), (64, 1)),
    of(
        "vector_add_unguarded",
        &[-512, -512, 512],
        &[],
        (2, 1),
        (64, 1),
    ),
    of("stencil", &[-1280, 1280], &[20, 16], (2, 2), (16, 8)),
    of("grid_stride", &[-1200, 1200], &[300], (2, 1), (64, 1)),
    of(
        "matmul",
        &[-1600, -1600, 1600],
        &[20, 20, 20],
        (2, 2),
        (16, 16),
    ),
    of("matmul_naive", &[-400, -400, 400], &[10], (1, 1), (16, 16)),
    of("transpose", &[-4800, 4800], &[40, 30], (2, 1), (32, 8)),
    Kernel {
        shared: 256,
        ..of("reduction", &[-400, 8], &[100], (2, 1), (64, 1))
    },
    of("gather", &[-400, -400, 400], &[100], (2, 1), (64, 1)),
    of("vectors", &[-416, 416], &[100], (2, 1), (64, 1)),
    of("unrolled", &[-52, 512], &[13], (2, 1), (64, 1)),
    of("clamped", &[-400, 400], &[100], (2, 1), (64, 1)),
    of("divided", &[-384, 800], &[96, 200], (4, 1), (64, 1)),
    of("local_array", &[-32, 512], &[5], (2, 1), (64, 1)),
    Kernel {
        text: CALLS,
        ..of("called", &[-1280, 1280], &[20, 16], (2, 2), (16, 8))
    },
    Kernel {
        text: CALLS,
        ..of("nested", &[-400, 400], &[100], (2, 1), (64, 1))
    },
];

/// A mutant: the text, the kernel, and what was changed.
pub(super) struct Mutant {
    text: String,
    kernel: &'static Kernel,
    change: String,
    numbers: Vec<u32>,
    buffers: Vec<i64>,
}

impl Mutant {
    fn unchanged(kernel: &'static Kernel) -> Self {
        Self {
            text: kernel.text.to_owned(),
            kernel,
            change: String::new(),
            numbers: kernel.numbers.to_vec(),
            buffers: kernel.buffers.to_vec(),
        }
    }

    /// Returns the mutant with its threads and blocks numbered in the opposite order. If its
    /// results differ, then threads race on global memory: the last one that the software device
    /// runs is another.
    pub(super) fn reversed(&self) -> Self {
        let mut text = String::with_capacity(self.text.len());
        for line in self.text.lines() {
            text.push_str(&reversed(line).unwrap_or_else(|| line.to_owned()));
            text.push('\n');
        }
        Self {
            text,
            kernel: self.kernel,
            change: format!("{}; reversed", self.change),
            numbers: self.numbers.clone(),
            buffers: self.buffers.clone(),
        }
    }
}

/// If a line copies a coordinate of the thread or of its block to a register, returns code that
/// counts it from the other end.
fn reversed(line: &str) -> Option<String> {
    let operands = line.trim().strip_prefix("mov.u32")?.strip_suffix(';')?;
    let (to, coordinate) = operands.split_once(',')?;
    let (to, coordinate) = (to.trim(), coordinate.trim());
    let (name, axis) = coordinate.split_once('.')?;
    let size = match name {
        "%tid" => "%ntid",
        "%ctaid" => "%nctaid",
        _ => return None,
    };
    Some(format!(
        "{{ .reg .u32 %from; mov.u32 %from, {coordinate}; mov.u32 {to}, {size}.{axis}; \
         sub.u32 {to}, {to}, 1; sub.u32 {to}, {to}, %from; }}"
    ))
}

pub(super) fn mutant(seed: u64) -> Mutant {
    let mut rng = Rng::with_seed(seed);
    let kernel = &KERNELS[rng.usize(..KERNELS.len())];
    let mut mutant = Mutant::unchanged(kernel);
    match rng.u32(..10) {
        0 if !mutant.numbers.is_empty() => {
            let index = rng.usize(..mutant.numbers.len());
            let more = [1, 2, 7, 64, 1 << 20, 1 << 31, u32::MAX][rng.usize(..7)];
            mutant.numbers[index] = mutant.numbers[index].wrapping_add(more);
            mutant.change = format!("number {index} + {more}");
        }
        0 | 1 => {
            let index = rng.usize(..mutant.buffers.len());
            let fewer = [1, 2, 4][rng.usize(..3)];
            let bytes = &mut mutant.buffers[index];
            *bytes -= bytes.signum() * fewer * 4;
            mutant.change = format!("buffer {index} is {fewer} words shorter");
        }
        2 => {
            let index = rng.usize(..mutant.buffers.len());
            mutant.buffers[index] = -mutant.buffers[index].abs();
            mutant.change = format!("buffer {index} is only read");
        }
        _ => changes::change_text(&mut mutant, &mut rng),
    }
    mutant.text = alone(&mutant.text, kernel.name);
    mutant
}

/// The text without the bodies of other kernels, so that it compiles faster.
fn alone(text: &str, name: &str) -> String {
    let module = parse(text).unwrap();
    let mut edits = Edits::new(text);
    for other in module
        .functions
        .iter()
        .filter(|it| it.entry && it.name != name)
    {
        edits.replace(other.body_span.unwrap(), "{ ret; }");
    }
    edits.apply().unwrap()
}

impl Mutant {
    /// The kernel and what was changed.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.kernel.name, self.change)
    }
}

/// The result of a run: whether the launch was accepted, the reports, all words, and the addresses
/// of the buffers.
pub(super) struct Run {
    pub(super) launched: Result<bool>,
    pub(super) reports: Vec<Report>,
    pub(super) words: Vec<Vec<u32>>,
    starts: Vec<u64>,
}

/// The distance of two buffers on a software device, in words. An access at a distance that leads
/// from one buffer into another leads past it with the second distance.
const GAP: usize = 333_331;
const OTHER_GAP: usize = 450_001;

/// Runs a mutant on a software device, with buffers as close and as aligned as on a GPU: what some
/// mutants access depends on the alignment.
pub(super) fn run_as_on_a_gpu(mutant: &Mutant, is_safe: bool) -> Run {
    run_with_gap(mutant, is_safe, 0)
}

/// Runs a mutant on a software device. A plain launch continues after an invalid access.
fn run(mutant: &Mutant, is_safe: bool) -> Run {
    run_with_gap(mutant, is_safe, GAP)
}

fn run_with_gap(mutant: &Mutant, is_safe: bool, gap: usize) -> Run {
    let builder = Builder::new()
        .check_read_only(true)
        .check_races(true)
        .check_uninitialized(true)
        .skip_invalid_accesses(!is_safe)
        // The results of blocks that race with each other depend on their order only.
        .host_threads(1)
        .instruction_limit(3_000_000);
    run_in(&software(builder), mutant, is_safe, gap)
}

/// Runs a mutant on a device.
pub(super) fn run_on(fixture: &Fixture, mutant: &Mutant, is_safe: bool) -> Run {
    run_in(fixture, mutant, is_safe, 0)
}

fn run_in(fixture: &Fixture, mutant: &Mutant, is_safe: bool, gap: usize) -> Run {
    let stream = fixture.stream();
    let ptx = Ptx::new(mutant.text.as_str()).unwrap();
    let mut buffers: Vec<DeviceBuffer<u32>> = Vec::new();
    let mut gaps: Vec<DeviceBuffer<u32>> = Vec::new();
    for bytes in &mutant.buffers {
        let len = (bytes.unsigned_abs() / 4) as usize;
        let words: Vec<u32> = (0..len as u32)
            .map(|at| at.wrapping_mul(37) % 100)
            .collect();
        let mut buffer = DeviceBuffer::zeroed_in(&Unpooled, &stream, len).unwrap();
        buffer.copy_from_host(&words).unwrap();
        buffers.push(buffer);
        if gap > 0 {
            // Of different sizes, so that no two buffers have the same distance.
            let words = gap + 1024 * gaps.len();
            gaps.push(DeviceBuffer::zeroed_in(&Unpooled, &stream, words).unwrap());
        }
    }
    stream.synchronize().unwrap();
    drop(gaps);
    let starts: Vec<u64> = buffers.iter().map(|it| it.device_ptr().as_raw()).collect();
    let is_far = |pair: &[u64]| pair[0].abs_diff(pair[1]) > 4 * gap as u64;
    assert!(gap == 0 || starts.windows(2).all(is_far), "{starts:?}");
    let launched = launch(mutant, is_safe, fixture, &stream, &ptx, &mut buffers);
    let simulator = fixture.simulator.as_ref();
    let reports = simulator.map_or_else(Vec::new, Simulator::take_reports);
    let words = buffers
        .iter()
        .map(|buffer| buffer.to_vec().unwrap_or_default());
    Run {
        launched,
        reports,
        words: words.collect(),
        starts,
    }
}

/// Returns whether the launch was checked.
fn launch(
    mutant: &Mutant,
    is_safe: bool,
    fixture: &Fixture,
    stream: &Stream,
    ptx: &Ptx,
    buffers: &mut [DeviceBuffer<u32>],
) -> Result<bool> {
    let mut args = ArgList::new();
    for (buffer, bytes) in buffers.iter_mut().zip(&mutant.buffers) {
        if *bytes < 0 {
            args.push(&*buffer);
        } else {
            args.push(buffer);
        }
    }
    for number in &mutant.numbers {
        args.push(*number);
    }
    let Kernel { grid, block, .. } = *mutant.kernel;
    let config = LaunchConfig::new(grid, block).with_shared_bytes(mutant.kernel.shared);
    if !is_safe {
        // The lines of the reports are those of this text.
        let function = Module::load(&fixture.context, ptx)?.function(mutant.kernel.name)?;
        // SAFETY: none: the kernel may access anything. The software device stops it.
        unsafe { stream.launch(&function, config, &args) }?;
        stream.synchronize()?;
        return Ok(false);
    }
    let kernel = SafeModule::load(&fixture.context, ptx)?.kernel(mutant.kernel.name)?;
    let launch = stream.launch_safe(&kernel, config, &args)?;
    launch.wait()?;
    stream.synchronize()?;
    Ok(launch.is_checked())
}

/// Whether a report is one of memory that the arguments do not permit.
pub(super) fn is_foreign(report: &Report) -> bool {
    matches!(
        report.kind,
        ReportKind::OutOfBounds
            | ReportKind::UseAfterFree
            | ReportKind::Misaligned
            | ReportKind::ReadOnlyWrite
    )
}

#[derive(Debug, Default)]
struct Counts {
    mutants: u32,
    /// Mutants with an invalid access: reported, and refused before the launch.
    reported: u32,
    refused: u32,
    /// Reported mutants whose violation is also an access of the plain launches in both layouts.
    same_in_both: u32,
    /// Reported mutants whose violation leaves a variable that the device does not know.
    of_variables: u32,
    /// Reported mutants with the same results as the plain launch.
    same_results: u32,
    /// Other mutants: those that were proven, and those that only the safe launch found, because
    /// the device does not know the variables in shared and local memory.
    proven: u32,
    found_alone: u32,
    endless: u32,
}

#[test]
fn planted_defects_are_detected() {
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let one: Option<u64> = env::var("CUDA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let wanted = if full { FULL_DEFECTS } else { DEFECTS };
    let mut counts = Counts::default();
    let mut seed = one.unwrap_or(0);
    while counts.reported + counts.refused < wanted {
        check(seed, &mut counts);
        if one.is_some() {
            break;
        }
        seed += 1;
        assert!(seed < 40 * u64::from(wanted), "too few defects: {counts:?}");
    }
    println!("{counts:?}");
    if one.is_none() && !full {
        println!("CUDA_FULL=1 runs until {FULL_DEFECTS} defects");
    }
}

fn check(seed: u64, counts: &mut Counts) {
    let mutant = mutant(seed);
    let what = format!("CUDA_SEED={seed}: {}", mutant.name());
    let plain = run(&mutant, false);
    let other = run_with_gap(&mutant, false, OTHER_GAP);
    let safe = run(&mutant, true);
    counts.mutants += 1;
    let mut reports = plain.reports.iter().chain(&other.reports);
    let foreign = reports.find(|report| is_foreign(report));
    // The safe launch accesses nothing outside of its arguments.
    let faults: Vec<_> = safe.reports.iter().filter(|it| is_foreign(it)).collect();
    assert!(faults.is_empty(), "{what}: {faults:?}");
    match (&safe.launched, foreign) {
        (Err(Error::Violation(violations)), Some(_)) => {
            let [violation] = &violations[..] else {
                panic!("{what}: {violations}");
            };
            counts.reported += 1;
            let differences = [&plain, &other].map(|it| accesses::difference(violation, it));
            // The device does not know where a variable in shared or local memory ends.
            let is_same = differences.iter().any(Option::is_none);
            let is_known = is_same || accesses::is_of_variable(violation);
            assert!(is_known, "{what}: {differences:?}");
            counts.of_variables += u32::from(!is_same);
            counts.same_in_both += u32::from(differences.iter().all(Option::is_none));
            if is_same && accesses::have_comparable_results(&mutant.text, &plain) {
                let is_race = || run(&mutant.reversed(), false).words != plain.words;
                assert!(
                    plain.words == safe.words || is_race(),
                    "{what}: other results"
                );
                counts.same_results += u32::from(plain.words == safe.words);
            }
        }
        (Err(Error::SafeLaunch(_)), Some(_)) => counts.refused += 1,
        (Err(Error::Violation(violations)), None) => {
            let is_known = violations.iter().all(accesses::is_of_variable);
            assert!(is_known, "{what}: {violations}");
            counts.found_alone += 1;
        }
        // Neither launch loads a text that can end the assembler.
        (Err(Error::SafeLaunch(_) | Error::Ptx(_)), None) => {}
        // An endless loop in both, or in the copy, which executes more instructions.
        (Err(Error::Driver(_)), None) => counts.endless += 1,
        (Err(Error::Driver(error)), Some(_)) => {
            let is_endless = safe.reports.iter().any(|it| it.kind == ReportKind::Fault);
            assert!(is_endless, "{what}: {error}");
            counts.endless += 1;
        }
        (Ok(is_checked), None) => {
            counts.proven += u32::from(!is_checked);
            if plain.launched.is_ok() {
                assert_eq!(plain.words, safe.words, "{what}");
            }
        }
        (other, Some(report)) => panic!("{what}: not reported: {report}; {other:?}"),
        (other, None) => panic!("{what}: {other:?}"),
    }
}

#[test]
fn results_of_reversed_threads_differ_if_there_is_a_race() {
    for kernel in KERNELS {
        let kernel = Mutant::unchanged(kernel);
        let (forward, backward) = (run(&kernel, false), run(&kernel.reversed(), false));
        assert_eq!(forward.words, backward.words, "{}", kernel.name());
    }
    // All threads store to the same element.
    let mut racy = Mutant::unchanged(&KERNELS[0]);
    let store = "st.global.f32 \t[%rd10]";
    assert!(racy.text.contains(store));
    racy.text = racy.text.replace(store, "st.global.f32 \t[%rd3]");
    assert_ne!(run(&racy, false).words, run(&racy.reversed(), false).words);
}
