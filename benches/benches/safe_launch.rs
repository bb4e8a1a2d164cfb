//! The cost of a launch without `unsafe` over one with it: with values that were seen before (a
//! hit), with values that are new (a miss), and with a contract. Fails if a launch other than the
//! first ones allocates.
//!
//! Hits run in alternating pairs on the null driver and on a GPU if there is one. Misses are the
//! evaluations of the kernels in `fuzz/seeds`, which need no driver. `LAUNCH_PAIRS` is the number
//! of pairs of each row (default: a million).

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use benches::{Pairs, number_of_pairs, on_each_driver};
use cuda_driver::prelude::*;
use cuda_driver::safe::{ContractKernel, LaunchContract};
use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues};
use cuda_ptx::{Function as Parsed, parse};

/// Counts the allocations of the process.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: memory must be that of an allocator ← every call is passed on to the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the layout must have a size ← the caller guarantees it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory must be of this allocator ← `alloc` returned it.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `y[i] = a * x[i] + y[i]` for `i` below `n`. The null driver needs the name, and parameters of 8
/// bytes.
const SAXPY: &str = ".version 7.0\n.target sm_52\n.address_size 64
.visible .entry k4(.param .f64 a, .param .u64 x, .param .u64 y, .param .u64 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %d<8>; .reg .f64 %a;
    ld.param.f64 %a, [a];
    cvt.rn.f32.f64 %f1, %a;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    ld.param.u64 %d6, [n];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    cvt.u64.u32 %d7, %r5;
    setp.ge.u64 %p, %d7, %d6;
    @%p bra end;
    mul.wide.u32 %d3, %r5, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d4];
    ld.global.f32 %f3, [%d5];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%d5], %f4;
end:
    ret;
}
";

/// The number of launches of a row that may allocate: they make plans and proofs for ranges.
const FIRST_LAUNCHES: u64 = 64;

/// A launch of a row of the bench, which gets the number of elements.
type Launch<'a> = dyn FnMut(u64) -> cuda_driver::Result<()> + 'a;

/// Prints the additional cost of a hit, of a launch whose number of elements is always new, and of
/// a launch with a contract.
fn hits(name: &str, driver: &Driver, number: u32) -> cuda_driver::Result<()> {
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
    let ptx = Ptx::new(SAXPY).expect("the text has no NUL");
    let saxpy = SafeModule::load(&context, &ptx)?.kernel("k4")?;
    let contract = LaunchContract::from_ptx(&ptx, "k4")?
        .requires("n <= x.len()", |it| it.number(4) <= it.len::<f32>(2))
        .requires("n <= y.len()", |it| it.number(4) <= it.len::<f32>(3));
    // SAFETY: the kernel reads `n` floats of `x`, and reads and writes `n` of `y`.
    let author: ContractKernel<(f64, Reads<f32>, Writes<f32>, u64)> =
        unsafe { saxpy.function().with_contract(contract) }?;
    let x = DeviceBuffer::filled(&stream, 4096, 1.0_f32)?;
    let mut y = DeviceBuffer::filled(&stream, 4096, 1.0_f32)?;
    let mut z = DeviceBuffer::filled(&stream, 4096, 1.0_f32)?;
    let config = LaunchConfig::for_num_elems(4096)?;
    let mut row = |what: &str, changes: bool, launch: &mut Launch<'_>| {
        let (mut runs, mut counted) = (0_u64, 0);
        let pairs = Pairs::measure(
            number,
            || {
                let args = (0.5_f64, &x, &mut y, 4096_u64);
                // SAFETY: the kernel reads 4096 floats of `x`, and reads and writes 4096 of `y`.
                unsafe { stream.launch(saxpy.function(), config, args) }.expect("it is launched");
            },
            || {
                let n = match changes {
                    true => 1 + runs % 4096,
                    false => 4096,
                };
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                launch(n).expect("it is launched");
                runs += 1;
                if runs > FIRST_LAUNCHES {
                    counted += ALLOCATIONS.load(Ordering::Relaxed) - before;
                }
            },
            || stream.synchronize().expect("the launches succeed"),
        );
        let (first, more) = (pairs.first(), pairs.difference());
        println!(
            "{name}: {what}: {:.1} ns more than {:.1} ns (95 %: {:.1} to {:.1}), {counted} \
             allocations in {runs} launches",
            more.median, first.median, more.low, more.high
        );
        assert_eq!(counted, 0, "{name}: {what} allocates");
    };
    let mut safe = |n| {
        let launch = stream.launch_safe(&saxpy, config, (0.5_f64, &x, &mut z, n))?;
        assert!(!launch.is_checked());
        Ok(())
    };
    row("a hit", false, &mut safe);
    row("n changes at every launch", true, &mut safe);
    row("n and the grid change at every launch", true, &mut |n| {
        // All numbers up to 4096, in an order in which the grid changes, too.
        let n = 1 + (n * 997) % 4096;
        let config = LaunchConfig::for_num_elems(n)?;
        let launch = stream.launch_safe(&saxpy, config, (0.5_f64, &x, &mut z, n))?;
        assert!(!launch.is_checked());
        Ok(())
    });
    row("a contract", true, &mut |n| {
        author.launch(&stream, config, (0.5_f64, &x, &mut z, n))
    });
    Ok(())
}

/// The files with the extension `ptx` in a folder.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => texts(&path, found),
            false => found.push(path),
        }
    }
}

/// The values of a launch: a parameter of 8 bytes is a large buffer, and every number is 1000.
fn values(function: &Parsed<'_>) -> LaunchValues {
    let buffer = Buffer {
        bytes: 1 << 40,
        align: 256,
        is_writable: true,
    };
    let argument = |bytes: u64| match bytes {
        8 => Argument::buffer(buffer),
        _ => {
            let number = 1000_u32.to_le_bytes().into_iter().cycle();
            Argument::scalar(number.take(bytes as usize).collect::<Vec<u8>>())
        }
    };
    let arguments = function.params.iter().map(|param| {
        let bits = param.ty.trim_start_matches(char::is_alphabetic).parse();
        let bits: u64 = bits.unwrap_or(64);
        argument(bits / 8 * u64::from(param.vector) * param.count.unwrap_or(1))
    });
    LaunchValues {
        cluster: None,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        dynamic_shared: 32 << 10,
        arguments: arguments.collect(),
    }
}

/// Prints the times of the analysis, which is made once for each kernel, and of its evaluation.
fn misses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/nvrtc_output");
    let mut found = Vec::new();
    texts(&root, &mut found);
    let (mut once, mut evaluated) = (Vec::new(), Vec::new());
    for path in found {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let Ok(module) = parse(&text) else { continue };
        for function in module.functions.iter().filter(|function| function.entry) {
            let start = Instant::now();
            let analysis = Analysis::of(&module, function);
            once.push(start.elapsed());
            let values = values(function);
            let best = (0..5).map(|_| {
                let start = Instant::now();
                std::hint::black_box(analysis.evaluate(&values));
                start.elapsed()
            });
            evaluated.extend(best.min());
        }
    }
    for (what, mut times) in [("analysis, once", once), ("evaluation, a miss", evaluated)] {
        times.sort();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied();
        let below = times.iter().filter(|it| **it <= Duration::from_micros(100));
        println!(
            "{what}: {} kernels, median {:?}, 95 % {:?}, longest {:?}; {} % take 100 µs or less",
            times.len(),
            at(50).unwrap_or_default(),
            at(95).unwrap_or_default(),
            times.last().copied().unwrap_or_default(),
            100 * below.count() / times.len().max(1)
        );
    }
}

fn main() {
    let number = number_of_pairs("LAUNCH_PAIRS", 1_000_000);
    misses();
    on_each_driver(|name, driver| hits(name, driver, number).expect("the bench runs"));
}
