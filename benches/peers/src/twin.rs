//! The launches of [`ours`](crate::ours), in C.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use cuda_driver::prelude::*;

use crate::bench::{Bench, Launch};

unsafe extern "C" {
    fn twin_launch_0(launch: Launch, kernel: *mut c_void, stream: *mut c_void) -> c_int;
    fn twin_launch_4(
        launch: Launch,
        kernel: *mut c_void,
        stream: *mut c_void,
        buffers: *const u64,
        numbers: *const u64,
    ) -> c_int;
    fn twin_launch_12(
        launch: Launch,
        kernel: *mut c_void,
        stream: *mut c_void,
        buffers: *const u64,
        numbers: *const u64,
    ) -> c_int;
    fn twin_launch_64(
        launch: Launch,
        kernel: *mut c_void,
        stream: *mut c_void,
        buffers: *const u64,
        numbers: *const u64,
    ) -> c_int;
}

type Twin = unsafe extern "C" fn(Launch, *mut c_void, *mut c_void, *const u64, *const u64) -> c_int;

/// Measures launches on a stream of the context that this crate's own form uses too.
pub(crate) fn rows(bench: &mut Bench, stream: &Stream, buffers: &[DeviceBuffer<u64>]) {
    let addresses: Vec<u64> = buffers.iter().map(DeviceBuffer::as_raw).collect();
    let (launch, raw) = (bench.launch, stream.as_raw().cast());
    let drain = || stream.synchronize().expect("the kernels do nothing");
    let kernel = bench.kernel(0);
    let none = || {
        // SAFETY: the kernel takes nothing.
        let status = unsafe { twin_launch_0(launch, kernel, raw) };
        assert_eq!(status, 0);
    };
    bench.row("C", 0, raw, none, drain);
    let twins: [(usize, Twin); 3] = [
        (4, twin_launch_4),
        (12, twin_launch_12),
        (64, twin_launch_64),
    ];
    for (count, twin) in twins {
        let numbers = [1_u64, 2, 3, 4];
        let kernel = bench.kernel(count);
        let run = || {
            let (buffers, numbers) = (black_box(addresses.as_ptr()), black_box(numbers.as_ptr()));
            // SAFETY: the kernel takes as many values, and does nothing; there are 8 addresses and
            // 4 numbers.
            let status = unsafe { twin(launch, kernel, raw, buffers, numbers) };
            assert_eq!(status, 0);
        };
        bench.row("C", count, raw, run, drain);
    }
}
