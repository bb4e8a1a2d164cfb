//! A kernel that loads addresses from memory. Such an access has no known root, so it is compared
//! with every argument.

use std::env;
use std::iter::repeat_with;

use cuda_driver::memory::DevicePtr;
use cuda_driver::prelude::*;

use super::cases::line;
use super::{geometric_mean, median, module};
use crate::nvrtc::{Folder, nvrtc};
use crate::support::{Fixture, everywhere, gpu, skip};

/// The buffers of a launch: the parts that are read, their addresses, and the result.
struct Buffers {
    parts: Vec<DeviceBuffer<f32>>,
    table: DeviceBuffer<DevicePtr<f32>>,
    out: DeviceBuffer<f32>,
    each: u32,
}

impl Buffers {
    fn new(stream: &Stream, parts: u32, each: u32) -> Self {
        let parts: Vec<_> = (0..parts)
            .map(|part| DeviceBuffer::filled(stream, each as usize, part as f32).unwrap())
            .collect();
        let addresses: Vec<_> = parts.iter().map(DeviceBuffer::device_ptr).collect();
        Self {
            table: DeviceBuffer::from_host(stream, &addresses).unwrap(),
            out: DeviceBuffer::zeroed(stream, parts.len() * each as usize).unwrap(),
            parts,
            each,
        }
    }

    fn count(&self) -> u32 {
        self.out.len() as u32
    }

    fn args(&mut self) -> ArgList<'_> {
        let count = self.count();
        let mut args = ArgList::new();
        args.push(&self.table).push(self.each).push(&mut self.out);
        args.push(count);
        for part in &self.parts {
            args.uses(part);
        }
        args
    }
}

/// The numbers of parts. A launch has two arguments more.
const PARTS: [u32; 3] = [1, 4, 16];

#[test]
fn loaded_addresses_are_compared_with_all_arguments() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    for fixture in everywhere() {
        let (stream, module) = (fixture.stream(), module(&fixture, &folder));
        let kernel = module.kernel("pointed").unwrap();
        for parts in PARTS {
            let mut buffers = Buffers::new(&stream, parts, 300);
            let config = line(buffers.count());
            let args = buffers.args();
            let launch = stream.launch_safe(&kernel, config, &args).unwrap();
            assert!(launch.is_checked());
            launch.wait().unwrap();
            drop(args);
            let out = buffers.out.to_vec().unwrap();
            let wrong = (0_u32..)
                .zip(&out)
                .find(|(i, x)| **x != (i / 300) as f32 + 1.0);
            assert_eq!(wrong, None, "{}: {parts} parts", fixture.name);
        }
    }
}

/// The median times of a plain and of a checked launch.
fn times(fixture: &Fixture, kernel: &SafeKernel, parts: u32) -> [f64; 2] {
    let stream = fixture.stream();
    let mut buffers = Buffers::new(&stream, parts, (1 << 26) / parts);
    let config = line(buffers.count());
    let args = buffers.args();
    let run = |is_safe| {
        let start = stream.record_event().unwrap();
        for _ in 0..8 {
            match is_safe {
                true => drop(stream.launch_safe(kernel, config, &args).unwrap()),
                // SAFETY: the kernel must stay in its arguments ← the checked launches report no
                // violation for the same arguments.
                false => unsafe { stream.launch(kernel.function(), config, &args) }.unwrap(),
            }
        }
        let end = stream.record_event().unwrap();
        stream.synchronize().unwrap();
        end.elapsed_since(&start).unwrap() / 8
    };
    run(true);
    let rounds: Vec<_> = repeat_with(|| [run(false), run(true)]).take(15).collect();
    [0, 1].map(|way| {
        let mut times: Vec<_> = rounds.iter().map(|round| round[way]).collect();
        median(&mut times)
    })
}

/// Prints what checks against all arguments cost on a GPU.
#[test]
fn the_cost_of_unknown_roots_on_a_gpu() {
    if nvrtc().is_none() {
        return;
    }
    let Some(fixture) = gpu() else { return };
    if env::var("CUDA_FULL").as_deref() != Ok("1") {
        return skip("CUDA_FULL=1 measures the cost of checks");
    }
    let folder = Folder::new();
    let kernel = module(&fixture, &folder).kernel("pointed").unwrap();
    let ratios = PARTS.map(|parts| {
        let [plain, checked] = times(&fixture, &kernel, parts);
        let (arguments, ratio) = (parts + 2, checked / plain);
        let micros = plain * 1e6;
        println!("an unknown root, {arguments} arguments: {micros:.1} µs, checked {ratio:.3}");
        ratio
    });
    println!("geometric mean {:.3}", geometric_mean(&ratios));
}
