//! Tests of the kernel `saxpy`, each on its own software device.

use cuda_driver::prelude::*;
use cuda_driver::{Error, Result};
use cuda_sim::{Builder, Schedule, Simulator};

/// The code under test: computes `a * x + y` on the device of `stream`.
fn saxpy(stream: &Stream, kernel: &SafeKernel, a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>> {
    let n = x.len().min(y.len()) as u32;
    let x = DeviceBuffer::from_host(stream, x)?;
    let mut y = DeviceBuffer::from_host(stream, y)?;
    stream.launch_safe(kernel, LaunchConfig::for_num_elems(n)?, (a, &x, &mut y, n))?;
    y.to_vec()
}

/// Returns a stream on the first device of `simulator`, and the kernel.
fn load(simulator: &Simulator) -> (Stream, SafeKernel) {
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let ptx = Ptx::new(include_str!("../kernels/saxpy.ptx")).unwrap();
    let module = SafeModule::load(&context, &ptx).unwrap();
    (
        context.default_stream().unwrap(),
        module.kernel("saxpy").unwrap(),
    )
}

#[test]
fn it_adds_three_times_x_to_y() {
    let simulator = Builder::new().check_all(true).build().unwrap();
    let (stream, kernel) = load(&simulator);
    let result = saxpy(&stream, &kernel, 3.0, &[1.0, 2.0], &[10.0, 20.0]).unwrap();
    assert_eq!(result, [13.0, 26.0]);
    // The kernel made no mistake that the checks find, and all memory was freed.
    assert_eq!(simulator.take_reports(), []);
    assert_eq!(simulator.live().allocations, 0);
}

#[test]
fn it_does_not_depend_on_when_work_runs() {
    for seed in 0..10 {
        // Queued work runs as late as possible, in an order that depends on the seed.
        let schedule = Schedule::Late { seed };
        let simulator = Builder::new().schedule(schedule).build().unwrap();
        let (stream, kernel) = load(&simulator);
        let result = saxpy(&stream, &kernel, 3.0, &[1.0], &[10.0]).unwrap();
        assert_eq!(result, [13.0], "seed {seed}");
    }
}

#[test]
fn a_full_device_is_an_error() {
    let simulator = Builder::new().memory(1 << 20).build().unwrap();
    let (stream, kernel) = load(&simulator);
    let large = vec![1.0; 1 << 20];
    let error = saxpy(&stream, &kernel, 3.0, &large, &large).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
}
