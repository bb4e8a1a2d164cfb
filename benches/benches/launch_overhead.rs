//! The cost of a launch: by the raw function pointer, by the table's method, and by the safe layer
//! with a tuple.
//!
//! Runs on the null driver (`null`), where only the wrapper's own cost remains, and on a GPU if
//! there is one. The name of a row ends with the number of arguments. The stream is drained outside
//! the measured time, because a full queue blocks a launch.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use benches::{Rows, drained, empty_kernels, null_driver};
use criterion::{Criterion, criterion_group, criterion_main};
use cuda_driver::prelude::*;

fn bench(rows: &mut Rows<'_>, driver: &Driver) -> cuda_driver::Result<()> {
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
    let [k0, k4, k12, _] = empty_kernels(&context)?;
    let mut buffers = Vec::new();
    for _ in 0..8 {
        buffers.push(DeviceBuffer::<u64>::zeroed(&stream, 1)?);
    }
    let config = LaunchConfig::new(1, 32);

    for (function, count) in [(&k0, 0), (&k4, 4), (&k12, 12)] {
        let mut values: Vec<u64> = (0..12)
            .map(|i| buffers.get(i).map_or(7, DeviceBuffer::as_raw))
            .collect();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| ptr::from_mut(value).cast())
            .collect();
        let entry_point = driver
            .library()
            .cuLaunchKernel
            .expect("every driver has cuLaunchKernel");
        let (raw, on) = (function.as_raw(), stream.as_raw());
        rows.bench_function(&format!("raw pointer/{count}"), |b| {
            b.iter_custom(|n| {
                drained(&stream, n, || {
                    let arguments = black_box(pointers.as_mut_ptr());
                    // SAFETY: `count` pointers to 8-byte values, which the kernel does not read.
                    let status = unsafe {
                        entry_point(raw, 1, 1, 1, 32, 1, 1, 0, on, arguments, ptr::null_mut())
                    };
                    assert!(status.is_success());
                })
            });
        });
        rows.bench_function(&format!("table/{count}"), |b| {
            b.iter_custom(|n| {
                drained(&stream, n, || {
                    let arguments = black_box(pointers.as_mut_ptr());
                    // SAFETY: `count` pointers to 8-byte values, which the kernel does not read.
                    let status = unsafe {
                        driver.library().cuLaunchKernel(
                            raw,
                            1,
                            1,
                            1,
                            32,
                            1,
                            1,
                            0,
                            on,
                            arguments,
                            ptr::null_mut(),
                        )
                    };
                    assert!(status.is_success());
                })
            });
        });
    }

    let launched = "the launch succeeds";
    rows.bench_function("tuple/0", |b| {
        b.iter_custom(|n| {
            drained(&stream, n, || {
                // SAFETY: the kernel does nothing.
                unsafe { stream.launch(&k0, config, ()) }.expect(launched)
            })
        });
    });
    rows.bench_function("tuple/4", |b| {
        let [a, b2] = [black_box(1_u64), black_box(2)];
        let [x, y, ..] = buffers.as_mut_slice() else {
            return;
        };
        b.iter_custom(|n| {
            drained(&stream, n, || {
                // SAFETY: the kernel does nothing.
                unsafe { stream.launch(&k4, config, (&*x, &mut *y, a, b2)) }.expect(launched)
            })
        });
    });
    rows.bench_function("tuple/12", |b| {
        let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
        let [a, b2, c, d, e, f, g, h] = buffers.as_mut_slice() else {
            return;
        };
        b.iter_custom(|n| {
            drained(&stream, n, || {
                let arguments = (&*a, &*b2, &*c, &*d, &*e, &*f, &mut *g, &mut *h, s, t, u, v);
                // SAFETY: the kernel does nothing.
                unsafe { stream.launch(&k12, config, arguments) }.expect(launched);
            })
        });
    });
    Ok(())
}

fn launch_overhead(criterion: &mut Criterion) {
    let null = null_driver().expect("the null driver has every required function");
    let mut drivers = vec![("null", Driver::new(null))];
    drivers.push(("GPU", Driver::load()));
    for (name, driver) in drivers {
        match driver {
            Ok(driver) => {
                bench(&mut Rows::new(criterion, name), &driver).expect("the bench runs");
            }
            Err(error) => println!("skipped: {name}: {error}"),
        }
    }
}

criterion_group!(benches, launch_overhead);
criterion_main!(benches);
