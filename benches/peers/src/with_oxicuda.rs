//! Launches through oxicuda, whose tuples have at most 24 arguments. It adds no dependencies across
//! streams.

use std::hint::black_box;
use std::sync::Arc;

use cuda_driver::Context as Ours;
use oxicuda_driver::{CUcontext, Context, Device, Module, Stream};
use oxicuda_launch::{Kernel, LaunchParams};
use oxicuda_memory::DeviceBuffer;

use crate::bench::Bench;

const LAUNCHED: &str = "the launch succeeds";

pub(crate) fn rows(bench: &mut Bench, ours: &Ours, ptx: &str, streams: usize) {
    let form = "oxicuda";
    oxicuda_driver::init().expect("the driver initializes");
    let device = Device::get(0).expect("the driver has a device");
    // SAFETY: the context is alive as long as `ours`.
    let context = unsafe { Context::from_raw_borrowed(CUcontext(ours.as_raw().cast()), device) };
    context.set_current().expect("the context is alive");
    let context = Arc::new(context);
    let make = |_| Stream::new(&context).expect("there are streams");
    let streams: Vec<Stream> = (0..streams).map(make).collect();
    let stream = &streams[0];
    let module = Arc::new(Module::from_ptx(ptx).expect("the kernels compile"));
    let kernel = |name| Kernel::from_module(Arc::clone(&module), name).expect("there is one");
    let buffers: Vec<DeviceBuffer<u64>> = (0..8)
        .map(|_| DeviceBuffer::alloc(1).expect("there is memory"))
        .collect();
    let [a, b, c, d, e, f, g, h] = &buffers[..] else {
        unreachable!("there are 8 buffers")
    };
    let raw = stream.raw().0.cast();
    let drain = || stream.synchronize().expect("the kernels do nothing");
    let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
    let params = LaunchParams::new(1_u32, 32_u32);

    let k0 = kernel("k0");
    let none = || k0.launch(&params, stream, &()).expect(LAUNCHED);
    bench.row(form, 0, raw, none, drain);
    let k4 = kernel("k4");
    let of_4 = || {
        let args = (a.as_device_ptr(), b.as_device_ptr(), s, t);
        k4.launch(&params, stream, &args).expect(LAUNCHED);
    };
    bench.row(form, 4, raw, of_4, drain);
    let k12 = kernel("k12");
    let of_12 = || {
        let args = (
            a.as_device_ptr(),
            b.as_device_ptr(),
            c.as_device_ptr(),
            d.as_device_ptr(),
            e.as_device_ptr(),
            f.as_device_ptr(),
            g.as_device_ptr(),
            h.as_device_ptr(),
            s,
            t,
            u,
            v,
        );
        k12.launch(&params, stream, &args).expect(LAUNCHED);
    };
    bench.row(form, 12, raw, of_12, drain);
}
