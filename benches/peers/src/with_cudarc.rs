//! Launches through cudarc.

use std::hint::black_box;
use std::sync::Arc;

use benches::COUNTS;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use crate::bench::Bench;

const CONFIG: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (32, 1, 1),
    shared_mem_bytes: 0,
};
const LAUNCHED: &str = "the launch succeeds";

/// Measures launches through cudarc. One stream means the context's default one, because cudarc
/// records events only if there is another one.
pub(crate) fn rows(bench: &mut Bench, ptx: &str, streams: usize, is_tracking: bool) {
    let form = if is_tracking {
        "cudarc"
    } else {
        "cudarc, tracking off"
    };
    let context = CudaContext::new(0).expect("the driver has a device");
    if !is_tracking {
        // SAFETY: nothing here is used on two streams.
        unsafe { context.disable_event_tracking() };
    }
    let streams: Vec<Arc<CudaStream>> = if streams == 1 {
        vec![context.default_stream()]
    } else {
        let make = |_| context.new_stream().expect("there are streams");
        (0..streams).map(make).collect()
    };
    let stream = &streams[0];
    let module = context
        .load_module(Ptx::from_src(ptx))
        .expect("the kernels compile");
    let kernels: [CudaFunction; 4] = COUNTS.map(|count| {
        let name = format!("k{count}");
        module
            .load_function(&name)
            .expect("a kernel has this number of parameters")
    });
    let mut buffers: Vec<CudaSlice<u64>> = (0..8)
        .map(|_| stream.alloc_zeros::<u64>(1).expect("there is memory"))
        .collect();
    let [a, b, c, d, e, f, g, h] = &mut buffers[..] else {
        unreachable!("there are 8 buffers")
    };
    let raw = stream.cu_stream().cast();
    let drain = || stream.synchronize().expect("the kernels do nothing");
    let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);

    let none = || {
        // SAFETY: the kernels in this file do nothing.
        unsafe { stream.launch_builder(&kernels[0]).launch(CONFIG) }.expect(LAUNCHED);
    };
    bench.row(form, 0, raw, none, drain);
    let of_4 = || {
        let mut builder = stream.launch_builder(&kernels[1]);
        builder.arg(&*a).arg(&mut *b).arg(&s).arg(&t);
        // SAFETY: the kernel does nothing.
        unsafe { builder.launch(CONFIG) }.expect(LAUNCHED);
    };
    bench.row(form, 4, raw, of_4, drain);
    let of_12 = || {
        let mut builder = stream.launch_builder(&kernels[2]);
        builder
            .arg(&*a)
            .arg(&*b)
            .arg(&*c)
            .arg(&*d)
            .arg(&*e)
            .arg(&*f);
        builder
            .arg(&mut *g)
            .arg(&mut *h)
            .arg(&s)
            .arg(&t)
            .arg(&u)
            .arg(&v);
        // SAFETY: the kernel does nothing.
        unsafe { builder.launch(CONFIG) }.expect(LAUNCHED);
    };
    bench.row(form, 12, raw, of_12, drain);
    let of_64 = || {
        let mut builder = stream.launch_builder(&kernels[3]);
        builder
            .arg(&*a)
            .arg(&*b)
            .arg(&*c)
            .arg(&*d)
            .arg(&*e)
            .arg(&*f);
        builder.arg(&mut *g).arg(&mut *h);
        for _ in 8..64 {
            builder.arg(&s);
        }
        // SAFETY: the kernel does nothing.
        unsafe { builder.launch(CONFIG) }.expect(LAUNCHED);
    };
    bench.row(form, 64, raw, of_64, drain);
}
