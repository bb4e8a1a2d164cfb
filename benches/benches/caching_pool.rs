//! The cost of allocating and freeing: from a caching pool, from the driver through the safe layer,
//! and by raw calls.
//!
//! Runs on the software device (`sim`), which an allocation from the cache does not call, and on a
//! GPU if there is one. Streams are drained outside the measured time.

use std::hint::black_box;
use std::ptr;
use std::time::Duration;

use benches::{Rows, drained};
use criterion::{Criterion, criterion_group, criterion_main};
use cuda_driver::memory::{CachingPool, PinnedCachingPool};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

/// The size of each allocation in bytes.
const BYTES: usize = 1 << 20;

fn device_memory(rows: &mut Rows<'_>, stream: &Stream) {
    let driver = stream.context().driver();
    let table = driver.library();
    rows.bench_function("device/raw calls", |b| {
        b.iter_custom(|n| {
            drained(stream, n, || {
                let mut address = 0;
                // SAFETY: the pointer is to a local, and the stream is alive.
                let status =
                    unsafe { table.cuMemAllocAsync(&raw mut address, BYTES, stream.as_raw()) };
                assert!(status.is_success());
                // SAFETY: the memory was allocated just now, and nothing uses it.
                let status = unsafe { table.cuMemFreeAsync(black_box(address), stream.as_raw()) };
                assert!(status.is_success());
            })
        });
    });
    rows.bench_function("device/buffer", |b| {
        b.iter_custom(|n| {
            drained(stream, n, || {
                // SAFETY: the buffer is not read.
                let buffer = unsafe { DeviceBuffer::<u8>::uninit(stream, BYTES) };
                drop(black_box(buffer.expect("there is memory")));
            })
        });
    });
    let pool = CachingPool::new(stream.context());
    rows.bench_function("device/caching pool", |b| {
        b.iter(|| {
            // SAFETY: the buffer is not read.
            let buffer = unsafe { DeviceBuffer::<u8>::uninit_in(&pool, stream, BYTES) };
            drop(black_box(buffer.expect("there is memory")));
        });
    });
    assert!(
        pool.statistics().misses <= 1,
        "every allocation but the first is a hit"
    );
}

fn pinned_memory(rows: &mut Rows<'_>, context: &Context) {
    let table = context.driver().library();
    // SAFETY: the context is alive.
    let status = unsafe { table.cuCtxSetCurrent(context.as_raw()) };
    assert!(status.is_success());
    rows.bench_function("pinned/raw calls", |b| {
        b.iter(|| {
            let mut start = ptr::null_mut();
            // SAFETY: the pointer is to a local.
            let status = unsafe { table.cuMemHostAlloc(&raw mut start, BYTES, 0) };
            assert!(status.is_success());
            // SAFETY: the memory was allocated just now, and nothing uses it.
            let status = unsafe { table.cuMemFreeHost(black_box(start)) };
            assert!(status.is_success());
        });
    });
    let pool = PinnedCachingPool::new(context, PinnedFlags::empty());
    rows.bench_function("pinned/caching pool", |b| {
        b.iter(|| {
            let buffer = pool.take::<u8>(BYTES);
            drop(black_box(buffer.expect("there is memory")));
        });
    });
    assert!(
        pool.statistics().misses <= 1,
        "every allocation but the first is a hit"
    );
}

fn caching_pool(criterion: &mut Criterion) {
    let simulator = Builder::new().build().expect("a software device");
    let software = simulator
        .library()
        .expect("the software device has every required function");
    let drivers = [("sim", Driver::new(software)), ("GPU", Driver::load())];
    for (name, driver) in drivers {
        let driver = match driver {
            Ok(driver) => driver,
            Err(error) => {
                println!("skipped: {name}: {error}");
                continue;
            }
        };
        let device = driver.device(0).expect("there is one");
        let context = device.primary_context().expect("a context");
        let stream = context.default_stream().expect("a stream");
        let mut rows = Rows::new(criterion, name);
        device_memory(&mut rows, &stream);
        pinned_memory(&mut rows, &context);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = caching_pool
}
criterion_main!(benches);
