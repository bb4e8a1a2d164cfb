//! 40 kernels in CUDA C++, launched in three ways: as they are, safely (proven as far as possible),
//! and safely with all accesses to arguments checked. The results are equal, and on a GPU
//! `CUDA_FULL=1` measures the times.

mod cases;
mod pointers;

use std::env;
use std::time::Duration;

use cuda_driver::nvrtc::Source;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeKernel, SafeModule, Unproven};

use crate::nvrtc::{Folder, nvrtc};
use crate::support::{Fixture, everywhere, gpu, skip};

use self::cases::{Arg, Case, Use, cases, line};

const SOURCE: &str = include_str!("../../kernels/cost.cu");

/// The buffers of a case, each with whether the kernel writes to it.
fn buffers(module: &SafeModule, stream: &Stream, case: &Case) -> Vec<(DeviceBuffer<u32>, bool)> {
    let fill = |name: &str, n: u32, more: Option<u32>| {
        let mut buffer = DeviceBuffer::<u32>::zeroed(stream, n as usize).unwrap();
        let mut args = ArgList::new();
        args.push(&mut buffer).push(n);
        if let Some(more) = more {
            args.push(more);
        }
        let kernel = module.kernel(name).unwrap();
        stream.launch_safe(&kernel, line(n), &args).unwrap();
        drop(args);
        buffer
    };
    let all = case.args.iter().filter_map(|arg| match *arg {
        Arg::Floats(n, how) => Some((fill("fill_floats", n, None), how == Use::Update)),
        Arg::Indices(n, end, how) => Some((fill("fill_indices", n, Some(end)), how == Use::Update)),
        Arg::Starts(n, each) => Some((fill("fill_starts", n, Some(each)), false)),
        Arg::Out(n) => Some((DeviceBuffer::zeroed(stream, n as usize).unwrap(), true)),
        Arg::U32(_) | Arg::F32(_) => None,
    });
    all.collect()
}

fn arguments<'a>(case: &Case, buffers: &'a mut [(DeviceBuffer<u32>, bool)]) -> ArgList<'a> {
    let mut list = ArgList::new();
    let mut buffers = buffers.iter_mut();
    for arg in &case.args {
        match *arg {
            Arg::U32(number) => list.push(number),
            Arg::F32(number) => list.push(number),
            _ => match buffers.next() {
                Some((buffer, true)) => list.push(buffer),
                Some((buffer, false)) => list.push(&*buffer),
                None => panic!("no buffer"),
            },
        };
    }
    list
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Plain,
    Safe,
    Checked,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Safe, Way::Checked];

/// Queues one launch. Returns whether accesses of it are checked.
fn launch(stream: &Stream, kernel: &SafeKernel, way: Way, case: &Case, args: &ArgList<'_>) -> bool {
    let kernel = match way {
        Way::Plain => {
            // SAFETY: the kernel must stay in its arguments ← the safe launch proves or checks it
            // with the same arguments.
            unsafe { stream.launch(kernel.function(), case.config, args) }.unwrap();
            return false;
        }
        Way::Safe => kernel.clone(),
        Way::Checked => kernel.clone().with_unproven(Unproven::CheckAll),
    };
    let launch = stream.launch_safe(&kernel, case.config, args);
    let launch = launch.unwrap_or_else(|error| panic!("{} {way:?}: {error}", case.name));
    launch.is_checked()
}

fn module(fixture: &Fixture, folder: &Folder) -> SafeModule {
    let source = Source::from(SOURCE).name("cost.cu").cache(&folder.open());
    SafeModule::from_source(&fixture.context, source).unwrap()
}

/// Whether two words are equal, as integers or nearly as floating-point numbers: an assembler may
/// contract the operations of the two kernels in different ways.
fn is_close(a: u32, b: u32) -> bool {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    a == b || (x - y).abs() <= 1e-3 * x.abs().max(1.0)
}

/// The kernels with accesses that no analysis can prove, because their index is loaded from memory.
const LOADED: [&str; 5] = ["gather", "scatter_add", "embedding", "sparse", "search"];

#[test]
fn checked_kernels_have_the_same_results() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let mut proven = 0;
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = module(&fixture, &folder);
        let cases = cases(false);
        assert_eq!(cases.len(), 40);
        proven = 0;
        for case in &cases {
            let kernel = module.kernel(case.name).unwrap();
            let mut results = Vec::new();
            for way in WAYS {
                let mut buffers = buffers(&module, &stream, case);
                let args = arguments(case, &mut buffers);
                let is_checked = launch(&stream, &kernel, way, case, &args);
                drop(args);
                stream.synchronize().unwrap_or_else(|error| {
                    panic!("{}: {} {way:?}: {error}", fixture.name, case.name)
                });
                proven += u32::from(way == Way::Safe && !is_checked);
                assert!(is_checked || way != Way::Checked, "{}", case.name);
                if LOADED.contains(&case.name) {
                    assert_eq!(is_checked, way != Way::Plain, "{}", case.name);
                }
                let words = buffers.iter().map(|(buffer, _)| buffer.to_vec().unwrap());
                results.push(words.collect::<Vec<_>>());
            }
            for (way, result) in WAYS.iter().zip(&results) {
                let pairs = results[0].iter().flatten().zip(result.iter().flatten());
                let differ = pairs.filter(|(a, b)| !is_close(**a, **b)).count();
                assert_eq!(differ, 0, "{}: {} {way:?}", fixture.name, case.name);
            }
        }
    }
    println!("{proven} of 40 kernels are proven");
    assert!(proven >= 32, "{proven}");
}

/// The time of one of `count` launches.
fn time(
    stream: &Stream,
    spin: &Function,
    kernel: &SafeKernel,
    (way, count): (Way, u32),
    case: &Case,
    args: &ArgList<'_>,
) -> Duration {
    // SAFETY: the kernel accesses no memory.
    unsafe { stream.launch(spin, LaunchConfig::new(1, 1), (3000_u32,)) }.unwrap();
    let start = stream.record_event().unwrap();
    for _ in 0..count {
        launch(stream, kernel, way, case, args);
    }
    let end = stream.record_event().unwrap();
    stream.synchronize().unwrap();
    end.elapsed_since(&start).unwrap() / count
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Prints what safe launches cost on a GPU. The goals are a geometric mean of 1.01 with proofs, and
/// 1.10 with all accesses checked, none above 1.7.
#[test]
fn the_cost_of_checks_on_a_gpu() {
    if nvrtc().is_none() {
        return;
    }
    let Some(fixture) = gpu() else { return };
    if env::var("CUDA_FULL").as_deref() != Ok("1") {
        return skip("CUDA_FULL=1 measures the cost of checks");
    }
    let folder = Folder::new();
    let (stream, module) = (fixture.stream(), module(&fixture, &folder));
    let spin = module.module().function("spin").unwrap();
    let name = fixture.context.device().name().unwrap();
    println!(
        "{name}\nkernel            plain in µs    safe  all checked  accesses unproven  launch"
    );
    let (mut proven, mut safe, mut checked) = (Vec::new(), Vec::new(), Vec::new());
    for case in cases(true) {
        let kernel = module.kernel(case.name).unwrap();
        let mut buffers = buffers(&module, &stream, &case);
        let args = arguments(&case, &mut buffers);
        let unproven = kernel.contract(case.config, &args).unwrap().unproven();
        // A buffer may also be smaller than a precondition of its accesses.
        let [_, is_checked, _] = WAYS.map(|way| launch(&stream, &kernel, way, &case, &args));
        stream.synchronize().unwrap();
        let first = time(&stream, &spin, &kernel, (Way::Plain, 2), &case, &args);
        let count = (2e-3 / first.as_secs_f64().max(1e-6)).clamp(1.0, 12.0) as u32;
        let mut times = [const { Vec::new() }; 3];
        for round in 0..15 {
            for turn in 0..3 {
                let index = (round + turn) % 3;
                let way = (WAYS[index], count);
                times[index].push(time(&stream, &spin, &kernel, way, &case, &args));
            }
        }
        let [plain, with_proof, with_checks] = times.each_mut().map(|times| median(times));
        let (with_proof, with_checks) = (with_proof / plain, with_checks / plain);
        safe.push(with_proof);
        checked.push(with_checks);
        if !is_checked {
            proven.push(with_proof);
        }
        let how = if is_checked { "checked" } else { "proven" };
        println!(
            "{:16} {:12.1} {with_proof:7.3} {with_checks:12.3} {unproven:17}  {how}",
            case.name,
            plain * 1e6,
        );
    }
    let worst = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    for (what, ratios) in [
        ("safe, proven kernels", &proven),
        ("safe, all kernels", &safe),
        ("all checked", &checked),
    ] {
        println!(
            "{what}: {} kernels, geometric mean {:.3}, worst {:.3}",
            ratios.len(),
            geometric_mean(ratios),
            worst(ratios)
        );
    }
    assert!(proven.len() >= 32, "{} kernels are proven", proven.len());
    assert!(geometric_mean(&proven) < 1.05, "{proven:?}");
}
