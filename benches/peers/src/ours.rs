//! Launches through cuda-driver.

use std::hint::black_box;

use cuda_driver::prelude::*;

use crate::bench::Bench;

const CONFIG: LaunchConfig = LaunchConfig {
    grid: Dim3 { x: 1, y: 1, z: 1 },
    block: Dim3 { x: 32, y: 1, z: 1 },
    shared_bytes: 0,
};
const LAUNCHED: &str = "the launch succeeds";

type R = Reads<u64>;
type W = Writes<u64>;

pub(crate) fn buffers(stream: &Stream) -> Vec<DeviceBuffer<u64>> {
    let one = |_| DeviceBuffer::zeroed(stream, 1).expect("there is memory");
    (0..8).map(one).collect()
}

pub(crate) fn rows(bench: &mut Bench, stream: &Stream, buffers: &mut [DeviceBuffer<u64>]) {
    let [a, b, c, d, e, f, g, h] = buffers else {
        unreachable!("there are 8 buffers")
    };
    let raw = stream.as_raw().cast();
    let drain = || stream.synchronize().expect("the kernels do nothing");
    let [s, t, u, v] = [1_u64, 2, 3, 4].map(black_box);
    let [k0, k4, k12, k64] = bench.functions.clone();

    let form = "cuda-driver, tuple";
    let none = || {
        // SAFETY: the kernels in this file do nothing.
        unsafe { stream.launch(&k0, CONFIG, ()) }.expect(LAUNCHED);
    };
    bench.row(form, 0, raw, none, drain);
    let of_4 = || {
        // SAFETY: the kernel does nothing.
        unsafe { stream.launch(&k4, CONFIG, (&*a, &mut *b, s, t)) }.expect(LAUNCHED);
    };
    bench.row(form, 4, raw, of_4, drain);
    let of_12 = || {
        let (g, h) = (&mut *g, &mut *h);
        let args = (&*a, &*b, &*c, &*d, &*e, &*f, g, h, s, t, u, v);
        // SAFETY: the kernel does nothing.
        unsafe { stream.launch(&k12, CONFIG, args) }.expect(LAUNCHED);
    };
    bench.row(form, 12, raw, of_12, drain);

    let form = "cuda-driver, typed";
    let kernel: Kernel<()> = k0.typed().expect("it has none");
    let none = || {
        // SAFETY: the kernel does nothing.
        unsafe { kernel.launch(stream, CONFIG, ()) }.expect(LAUNCHED);
    };
    bench.row(form, 0, raw, none, drain);
    let kernel: Kernel<(R, W, u64, u64)> = k4.typed().expect("the kernel has 4 parameters");
    let of_4 = || {
        // SAFETY: the kernel does nothing.
        unsafe { kernel.launch(stream, CONFIG, (&*a, &mut *b, s, t)) }.expect(LAUNCHED);
    };
    bench.row(form, 4, raw, of_4, drain);
    type Parameters = (R, R, R, R, R, R, W, W, u64, u64, u64, u64);
    let kernel: Kernel<Parameters> = k12.typed().expect("the kernel has 12 parameters");
    let of_12 = || {
        let (g, h) = (&mut *g, &mut *h);
        let args = (&*a, &*b, &*c, &*d, &*e, &*f, g, h, s, t, u, v);
        // SAFETY: the kernel does nothing.
        unsafe { kernel.launch(stream, CONFIG, args) }.expect(LAUNCHED);
    };
    bench.row(form, 12, raw, of_12, drain);

    let form = "cuda-driver, list";
    for (count, kernel) in [(12, &k12), (64, &k64)] {
        let list = || {
            let mut list = ArgList::new();
            list.push(&*a).push(&*b).push(&*c).push(&*d).push(&*e);
            list.push(&*f).push(&mut *g).push(&mut *h);
            while list.len() < count {
                list.push(s);
            }
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(kernel, CONFIG, &list) }.expect(LAUNCHED);
        };
        bench.row(form, count, raw, list, drain);
    }
}
