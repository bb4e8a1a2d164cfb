//! The throughput of copies between a slice and the device: `copy_from_host` and `copy_to_host`
//! against the driver's own copy of pageable memory, and against page-locked memory.
//!
//! GPU only. The two copies that are compared alternate in ABBA order, and medians are printed.
//! `call` is the time until the call returns, with the device drained outside the measured time;
//! `queue` is many calls with the device drained at the end, inside the measured time.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cuda_driver::prelude::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SIZES: [usize; 15] = [
    4 * KIB,
    16 * KIB,
    64 * KIB,
    96 * KIB,
    128 * KIB,
    256 * KIB,
    512 * KIB,
    MIB,
    2 * MIB,
    4 * MIB,
    16 * MIB,
    64 * MIB,
    256 * MIB,
    512 * MIB,
    1024 * MIB,
];
/// The measuring time of each line of the table.
const TIME: Duration = Duration::from_millis(1100);
const MOST_ROUNDS: usize = 400;

/// A way to copy `bytes` bytes, and to wait until the copy is done.
struct Way<'a> {
    copy: &'a mut dyn FnMut() -> cuda_driver::Result<()>,
    /// The number of calls in one measurement.
    calls: u32,
    /// Whether the device is drained within the measured time.
    drained: bool,
}

/// The seconds that one call takes.
fn once(way: &mut Way<'_>, context: &Context) -> cuda_driver::Result<f64> {
    let start = Instant::now();
    for _ in 0..way.calls {
        (way.copy)()?;
    }
    if way.drained {
        context.synchronize()?;
    }
    let elapsed = start.elapsed();
    context.synchronize()?;
    Ok(elapsed.as_secs_f64() / f64::from(way.calls))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The medians of two alternating ways, in seconds.
fn abba(context: &Context, a: &mut Way<'_>, b: &mut Way<'_>) -> cuda_driver::Result<(f64, f64)> {
    once(a, context)?;
    once(b, context)?;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while of_a.len() < 6 || (start.elapsed() < TIME && of_a.len() < 2 * MOST_ROUNDS) {
        of_a.push(once(a, context)?);
        of_b.push(once(b, context)?);
        of_b.push(once(b, context)?);
        of_a.push(once(a, context)?);
    }
    Ok((median(of_a), median(of_b)))
}

fn size(bytes: usize) -> String {
    if bytes < MIB {
        format!("{} KiB", bytes / KIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}

/// The worst results of all lines: the slowest ratio to the driver, and the lowest throughput from
/// 16 MiB on.
struct Worst {
    ratio: f64,
    rate: f64,
}

impl Worst {
    fn line(&mut self, what: &str, bytes: usize, ours: f64, driver: f64, pinned: f64) {
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        let ratio = driver / ours;
        self.ratio = self.ratio.min(ratio);
        if bytes >= 16 * MIB {
            self.rate = self.rate.min(rate(ours));
        }
        println!(
            "{what:<18} {:>9} {:>8.2} {:>8.2} {ratio:>7.2} {:>8.2} {:>10.1} {:>10.1}",
            size(bytes),
            rate(ours),
            rate(driver),
            rate(pinned),
            ours * 1e6,
            driver * 1e6,
        );
    }
}

fn bench(driver: &Driver) -> cuda_driver::Result<()> {
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
    let library = driver.library();
    // SAFETY: the raw context lives as long as `context`.
    let status = unsafe { library.cuCtxSetCurrent(context.as_raw()) };
    assert!(status.is_success(), "{status}");
    println!("{}, {} CPUs", context.device().name()?, cpus());

    let most = SIZES.into_iter().max().unwrap_or(0);
    let mut host: Vec<u8> = (0..most).map(|i| (i ^ (i >> 12)) as u8).collect();
    let start = Instant::now();
    let cold = DeviceBuffer::from_host(&stream, &host[..16 * MIB])?;
    context.synchronize()?;
    println!(
        "the first copy of 16 MiB, which page-locks the blocks: {:.2} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    assert!(cold.to_vec()? == host[..16 * MIB], "the bytes come back");
    drop(cold);

    println!(
        "{:<18} {:>9} {:>8} {:>8} {:>7} {:>8} {:>10} {:>10}",
        "GB/s", "size", "ours", "driver", "ratio", "pinned", "ours us", "driver us"
    );
    let mut worst = Worst {
        ratio: f64::INFINITY,
        rate: f64::INFINITY,
    };
    for bytes in SIZES {
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, bytes)?;
        let mut pinned = PinnedBuffer::<u8>::zeroed(&context, bytes, PinnedFlags::empty())?;
        context.synchronize()?;
        let address = buffer.as_raw();
        let host = &mut host[..bytes];
        let many = u32::try_from((32 * MIB / bytes).clamp(1, 64)).unwrap_or(1);
        for (what, calls, drained) in [
            ("to device, call", 1, false),
            ("to device, queue", many, true),
        ] {
            let from = host.as_ptr().cast::<c_void>();
            let mut ours = || buffer.copy_from_host(host);
            let mut raw = || {
                // SAFETY: both sides have `bytes` bytes, and the driver has read the source when it
                // returns.
                let status = unsafe { library.cuMemcpyHtoD_v2(address, from, bytes) };
                assert!(status.is_success(), "{status}");
                Ok(())
            };
            let (ours, raw) = abba(
                &context,
                &mut Way {
                    copy: &mut ours,
                    calls,
                    drained,
                },
                &mut Way {
                    copy: &mut raw,
                    calls,
                    drained,
                },
            )?;
            let mut direct = || buffer.copy_from_pinned(&pinned);
            let mut direct = Way {
                copy: &mut direct,
                calls,
                drained,
            };
            once(&mut direct, &context)?;
            let direct: Result<Vec<f64>, _> = (0..5).map(|_| once(&mut direct, &context)).collect();
            worst.line(what, bytes, ours, raw, median(direct?));
        }
        buffer.copy_from_host(host)?;
        let to = host.as_mut_ptr().cast::<c_void>();
        let mut raw = || {
            // SAFETY: both sides have `bytes` bytes, and nothing else uses the destination.
            let status = unsafe { library.cuMemcpyDtoH_v2(to, address, bytes) };
            assert!(status.is_success(), "{status}");
            Ok(())
        };
        let mut target = vec![1_u8; bytes];
        let mut ours = || buffer.copy_to_host(&mut target);
        let (ours, raw) = abba(
            &context,
            &mut Way {
                copy: &mut ours,
                calls: 1,
                drained: false,
            },
            &mut Way {
                copy: &mut raw,
                calls: 1,
                drained: false,
            },
        )?;
        let mut direct = || buffer.copy_to_pinned(&mut pinned);
        let mut direct = Way {
            copy: &mut direct,
            calls: 1,
            drained: false,
        };
        once(&mut direct, &context)?;
        let direct: Result<Vec<f64>, _> = (0..5).map(|_| once(&mut direct, &context)).collect();
        worst.line("to host, call", bytes, ours, raw, median(direct?));
        assert!(target == *host, "the copied bytes differ");
    }
    println!(
        "worst ratio to the driver: {:.2}; lowest throughput from 16 MiB on: {:.1} GB/s",
        worst.ratio, worst.rate
    );
    Ok(())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() {
    match Driver::load() {
        Ok(driver) => bench(&driver).expect("the bench runs"),
        Err(error) => println!("skipped: copies through the host need a GPU: {error}"),
    }
}
