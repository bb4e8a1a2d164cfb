//! Random kernels on a software device: a safe launch accesses nothing outside of its arguments,
//! and reports the access if a plain launch does.
//!
//! The kernels are those of the random tests of `cuda-ptx`, and so are the variables:
//! `CUDA_FULL=1` runs the full number of programs, `CUDA_PTX_PROGRAMS=n` runs n, `CUDA_SEED=n`
//! begins at a seed, and `CUDA_PTX_COUNT=file` continues after those that the file counts, for
//! `CUDA_PTX_MINUTES=n`.

#[path = "../../../../cuda-ptx/tests/it/fuzz/access.rs"]
mod access;
#[path = "../../../../cuda-ptx/tests/it/fuzz/arithmetic.rs"]
mod arithmetic;
#[path = "../../../../cuda-ptx/tests/it/fuzz/calls.rs"]
mod calls;
#[path = "../../../../cuda-ptx/tests/it/fuzz/control.rs"]
mod control;
#[path = "../../../../cuda-ptx/tests/it/fuzz/count.rs"]
mod count;
#[path = "../../../../cuda-ptx/tests/it/fuzz/generate.rs"]
mod generate;

use std::cell::RefCell;

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_driver::safe::Unproven;
use cuda_driver::{Error, Result};
use cuda_sim::{Builder, Report, ReportKind};
use fastrand::Rng;

use super::mutants::is_foreign;
use crate::support::{Fixture, software};

/// The number of programs, and that with `CUDA_FULL=1`.
const PROGRAMS: u64 = 400;
const FULL_PROGRAMS: u64 = 1_000_000;
/// The instructions of one block, after which its kernel counts as endless.
const INSTRUCTIONS: u64 = 20_000;
/// The largest number of bytes of a buffer.
const BYTES: u64 = 1 << 16;
/// The value of the bytes around the part of a buffer that is the argument.
const OUTSIDE: u8 = 0x5a;

count::counts! {
    /// The outcomes of all programs.
    struct Counts {
        programs,
        /// Safe launches of the original kernel, and of its checked copy.
        original,
        checked,
        /// Checked launches that reported a violation.
        violations,
        /// Launches that were refused.
        refused,
        /// Kernels that exceeded the limit of instructions.
        endless,
        /// Plain launches that accessed memory outside of all allocations. The safe launch
        /// reported each one, or refused it.
        foreign,
        /// Checked copies whose results were equal to those of the plain launch.
        compared,
    }
}

/// A part of a buffer that is an argument.
#[derive(Clone, Copy)]
struct Part {
    before: usize,
    bytes: usize,
    after: usize,
    is_writable: bool,
}

struct Program {
    text: String,
    grid: u32,
    block: (u32, u32),
    numbers: (u32, u32, u64),
    parts: [Part; 2],
    unproven: Unproven,
}

/// Numbers near which mistakes are likely.
const EDGES: [u32; 10] = [
    0,
    1,
    3,
    31,
    64,
    100,
    1000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

fn number(rng: &mut Rng) -> u32 {
    let edge = EDGES[rng.usize(..EDGES.len())];
    match rng.u32(..4) {
        0 => edge.wrapping_sub(rng.u32(..300)),
        1 => rng.u32(..300),
        _ => edge,
    }
}

fn part(rng: &mut Rng, n: u32) -> Part {
    let of_number = u64::from(n) * [1, 2, 4, 8, 16][rng.usize(..5)];
    let bytes = match rng.u32(..4) {
        0..=1 if of_number <= BYTES => of_number,
        0..=2 => rng.u64(..5000),
        _ => 1 << rng.u32(..17),
    };
    let (before, after) = match rng.u32(..3) {
        0 => ([0, 1, 4, 16, 48][rng.usize(..5)], 64),
        _ => (0, usize::from(bytes == 0)),
    };
    Part {
        before,
        bytes: bytes as usize,
        after,
        is_writable: rng.u32(..4) > 0,
    }
}

fn program(seed: u64) -> Program {
    let mut text = generate::kernel(Rng::with_seed(seed));
    // The software device moves the address of these variables to 64 bits only.
    for name in ["stack", "bank"] {
        let wide = format!("mov.u64 %d9, {name};\ncvt.u32.u64 %r9, %d9;");
        text = text.replace(&format!("mov.u32 %r9, {name};"), &wide);
    }
    // A checked copy has the variables of functions in other places.
    text = text.replace(".local .align 8", ".local .align 16");
    // Results must not contain an address, which differs from device to device.
    for register in 0..5 {
        let part = |name: &str| format!("ld.param.u32 %r{register}, [{name}];");
        text = text.replace(&part("x"), &part("n"));
    }
    let mut rng = Rng::with_seed(!seed);
    let (n, m) = (number(&mut rng), number(&mut rng));
    let w = match rng.u32(..4) {
        0 => u64::from(number(&mut rng)),
        1 => rng.u64(..),
        2 => u64::from(number(&mut rng)) << rng.u32(..33),
        _ => rng.u64(..100),
    };
    Program {
        text,
        grid: [1, 1, 2, 5][rng.usize(..4)],
        block: [(1, 1), (1, 1), (8, 1), (32, 2), (6, 4), (128, 1)][rng.usize(..6)],
        numbers: (n, m, w),
        parts: [part(&mut rng, n), part(&mut rng, n)],
        unproven: [Unproven::Check, Unproven::CheckAll][usize::from(rng.u32(..4) == 0)],
    }
}

/// The outcome of a launch.
struct Run {
    launched: Result<bool>,
    reports: Vec<Report>,
    /// The contents of both buffers, unless the device is lost.
    bytes: Option<[Vec<u8>; 2]>,
}

fn run(fixture: &Fixture, program: &Program, is_safe: bool) -> Run {
    let stream = fixture.stream();
    let mut buffers = [0, 1].map(|index| {
        let part = &program.parts[index];
        let inside = (0..part.bytes).map(|at| (at * (37 + index)) as u8);
        let mut bytes = vec![OUTSIDE; part.before];
        bytes.extend(inside);
        bytes.resize(bytes.len() + part.after, OUTSIDE);
        let mut buffer = DeviceBuffer::zeroed_in(&Unpooled, &stream, bytes.len()).unwrap();
        buffer.copy_from_host(&bytes).unwrap();
        buffer
    });
    let launched = launch(fixture, &stream, program, &mut buffers, is_safe);
    let simulator = fixture.simulator.as_ref().expect("a software device");
    let reports = simulator.take_reports();
    let [x, y] = buffers.map(|buffer| buffer.to_vec().ok());
    Run {
        launched,
        reports,
        bytes: x.zip(y).map(|(x, y)| [x, y]),
    }
}

/// Returns whether the launch was checked.
fn launch(
    fixture: &Fixture,
    stream: &Stream,
    program: &Program,
    buffers: &mut [DeviceBuffer<u8>; 2],
    is_safe: bool,
) -> Result<bool> {
    let module = SafeModule::load(&fixture.context, &Ptx::new(program.text.as_str())?)?;
    let mut args = ArgList::new();
    for (buffer, part) in buffers.iter_mut().zip(&program.parts) {
        let range = part.before..part.before + part.bytes;
        if part.is_writable {
            args.push(buffer.slice_mut(range)?);
        } else {
            args.push(buffer.slice(range)?);
        }
    }
    let (n, m, w) = program.numbers;
    args.push(n);
    args.push(m as i32);
    args.push(w);
    let config = LaunchConfig::new(program.grid, program.block);
    if !is_safe {
        let function = module.module().function("k")?;
        // SAFETY: none: the kernel may access anything. The software device stops it.
        unsafe { stream.launch(&function, config, &args) }?;
        stream.synchronize()?;
        return Ok(false);
    }
    let kernel = module.kernel("k")?.with_unproven(program.unproven);
    let launch = stream.launch_safe(&kernel, config, &args)?;
    launch.wait()?;
    stream.synchronize()?;
    Ok(launch.is_checked())
}

thread_local! {
    /// The devices of the safe and of the plain launches of this thread, until they are lost.
    static DEVICES: RefCell<[Option<Fixture>; 2]> = const { RefCell::new([None, None]) };
}

/// Runs the program on the device of this thread.
fn run_here(program: &Program, is_safe: bool) -> Run {
    DEVICES.with_borrow_mut(|devices| {
        let device = &mut devices[usize::from(is_safe)];
        let fixture = device.get_or_insert_with(|| {
            let builder = Builder::new().check_read_only(true);
            software(builder.instruction_limit(INSTRUCTIONS))
        });
        let run = run(fixture, program, is_safe);
        if run.bytes.is_none() {
            *device = None;
        }
        run
    })
}

fn check(seed: u64, counts: &mut Counts) {
    let program = program(seed);
    let what = || format!("CUDA_SEED={seed}\n{}", program.text);
    let safe = run_here(&program, true);
    if let Some(report) = safe.reports.iter().find(|report| is_foreign(report)) {
        panic!("{report}\n{}", what());
    }
    for (bytes, part) in safe.bytes.iter().flatten().zip(&program.parts) {
        let (before, rest) = bytes.split_at(part.before);
        let around = before.iter().chain(&rest[part.bytes..]);
        let is_unchanged = around.copied().all(|byte| byte == OUTSIDE);
        assert!(is_unchanged, "memory around an argument: {}", what());
    }
    let is_endless = |run: &Run| run.reports.iter().any(|it| it.kind == ReportKind::Fault);
    match &safe.launched {
        Ok(true) => counts.checked += 1,
        Ok(false) => counts.original += 1,
        Err(Error::Violation(_)) => counts.violations += 1,
        Err(Error::SafeLaunch(_)) => counts.refused += 1,
        Err(_) if is_endless(&safe) => {
            counts.endless += 1;
            return;
        }
        Err(error) => panic!("{error}: {}", what()),
    }
    let plain = run_here(&program, false);
    if plain.reports.iter().any(is_foreign) {
        counts.foreign += 1;
        let is_missed =
            |safe: &Run, plain: &Run| safe.launched.is_ok() && plain.reports.iter().any(is_foreign);
        let launched = format!("{:?}", safe.launched);
        assert!(
            !lasts(&program, (safe, plain), is_missed),
            "an access is not reported, and the safe launch returned {launched}: {}",
            what()
        );
        return;
    }
    // The results of several threads may depend on their order.
    let is_alone = program.grid == 1 && program.block == (1, 1);
    if is_alone && plain.launched.is_ok() && matches!(safe.launched, Ok(true)) {
        counts.compared += 1;
        let differ = |safe: &Run, plain: &Run| plain.bytes != safe.bytes;
        assert!(
            !lasts(&program, (safe, plain), differ),
            "the results differ: {}",
            what()
        );
    }
}

/// Returns whether a difference between a safe and a plain run is there again whenever both are
/// repeated. What a kernel does can also depend on the addresses of its buffers, which differ from
/// device to device, and on the order of its threads.
///
/// In a checked copy, a function that the kernel calls is a part of the kernel, so its registers
/// that are not set may have other values. There is no difference if all are set.
fn lasts(program: &Program, first: (Run, Run), is_there: impl Fn(&Run, &Run) -> bool) -> bool {
    let again = |program: &Program| is_there(&run_here(program, true), &run_here(program, false));
    is_there(&first.0, &first.1)
        && (0..8).all(|_| again(program))
        && (!program.text.contains("call") || again(&with_values(program)))
}

/// Returns the program with a value for each register and each argument of a call.
fn with_values(program: &Program) -> Program {
    let declared = ".reg .b64 %d<11>;\n";
    let mut values = declared.to_owned();
    for (ty, register, count) in [("b16", 'h', 3), ("b32", 'r', 14), ("b64", 'd', 11)] {
        for number in 0..count {
            values += &format!("mov.{ty} %{register}{number}, 0;\n");
        }
    }
    for number in 0..6 {
        values += &format!("setp.ne.u32 %p{number}, 0, 0;\n");
    }
    let text = program.text.replace(declared, &values);
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some((guard, rest)) if guard.starts_with('@') && rest.starts_with("st.param") => rest,
        _ => line,
    });
    Program {
        text: lines.collect::<Vec<_>>().join("\n"),
        parts: program.parts,
        ..*program
    }
}

#[test]
fn random_kernels_stay_in_their_arguments() {
    let (programs, first) = count::programs(PROGRAMS, FULL_PROGRAMS);
    let counts: Counts = count::run(first, programs, check);
    println!("{}", count::text(counts));
    if counts.programs > 100 {
        let all = [
            counts.original,
            counts.checked,
            counts.violations,
            counts.foreign,
            counts.compared,
        ];
        assert!(
            all.into_iter().all(|count| count * 100 > counts.programs),
            "a kind of program is rare: {counts:?}"
        );
    }
}
