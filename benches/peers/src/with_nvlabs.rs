//! Launches through NVIDIA's cuda-core, which takes pointers to the values. It adds no dependencies
//! across streams.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::sync::Arc;

use cuda_core::{Device, Function, Stream, launch_kernel};

use crate::bench::Bench;

pub(crate) fn rows(bench: &mut Bench, ptx: &str, streams: usize) {
    let device = Device::new(0).expect("the driver has a device");
    let make = |_| device.new_stream().expect("there are streams");
    let streams: Vec<Arc<Stream>> = (0..streams).map(make).collect();
    let stream = &streams[0];
    let module = device
        .load_module_from_ptx_src(ptx)
        .expect("the kernels compile");
    let raw = stream.cu_stream().cast();
    // SAFETY: no host memory is in use.
    let drain = || unsafe { stream.synchronize() }.expect("the kernels do nothing");
    let kernels = benches::COUNTS.map(|count| {
        let name = format!("k{count}");
        module
            .load_function(&name)
            .expect("a kernel has this number of parameters")
    });
    let [k0, k4, k12, k64] = &kernels;
    let form = "cuda-core (NVlabs)";
    bench.row(form, 0, raw, || launch::<0>(k0, stream), drain);
    bench.row(form, 4, raw, || launch::<4>(k4, stream), drain);
    bench.row(form, 12, raw, || launch::<12>(k12, stream), drain);
    bench.row(form, 64, raw, || launch::<64>(k64, stream), drain);
}

#[inline(always)]
fn launch<const N: usize>(kernel: &Function, stream: &Stream) {
    let mut values = [black_box(7_u64); N];
    let mut pointers: [*mut c_void; N] = values.each_mut().map(|value| ptr::from_mut(value).cast());
    // SAFETY: the module is alive.
    let function = unsafe { kernel.cu_function() };
    let (stream, pointers) = (stream.cu_stream(), &mut pointers[..]);
    // SAFETY: there are as many values as parameters, and the kernel does nothing.
    unsafe { launch_kernel(function, (1, 1, 1), (32, 1, 1), 0, stream, pointers) }
        .expect("the launch succeeds");
}
