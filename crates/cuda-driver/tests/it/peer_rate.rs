//! The rate at which kernels read memory of another device, compared with raw calls of the driver.

use std::ffi::c_void;
use std::ptr;

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;

use crate::peer::pairs;
use crate::support::{filled, new_stream, skip};

const SUM: &str = include_str!("kernels/sum.ptx");

const BLOCK: u32 = 512;

/// A way to launch the kernel, which gets the words and the array of sums.
struct Reader<'a> {
    name: &'a str,
    launch: Box<dyn FnMut() + 'a>,
    /// The rate in the fastest round, in bytes per millisecond.
    best: f32,
}

/// Memory of another device, as a program in C uses it: allocated by `cuMemAlloc`, and accessible
/// after `cuCtxEnablePeerAccess`.
struct RawMemory<'a> {
    context: &'a Context,
    address: u64,
}

impl<'a> RawMemory<'a> {
    fn new(owner: &'a Context, reader: &Context, words: &DeviceBuffer<u32>) -> Self {
        let driver = owner.driver().library();
        let bytes = words.len() * 4;
        let mut address = 0;
        {
            let _current = owner.make_current().unwrap();
            // SAFETY: the pointer is to a local, and a context is current.
            let status = unsafe { driver.cuMemAlloc_v2(&raw mut address, bytes) };
            assert!(status.is_success(), "{status}");
            // SAFETY: both have `bytes` bytes.
            let status = unsafe { driver.cuMemcpyDtoD_v2(address, words.as_raw(), bytes) };
            assert!(status.is_success(), "{status}");
        }
        let _current = reader.make_current().unwrap();
        // SAFETY: the context is alive; the flags are 0.
        let status = unsafe { driver.cuCtxEnablePeerAccess(owner.as_raw(), 0) };
        // 704: it was enabled before.
        assert!(status.is_success() || status.0 == 704, "{status}");
        Self {
            context: owner,
            address,
        }
    }
}

impl Drop for RawMemory<'_> {
    fn drop(&mut self) {
        let _current = self.context.make_current().unwrap();
        // SAFETY: the memory was allocated by `new`, and nothing uses it any more.
        let status = unsafe { self.context.driver().library().cuMemFree_v2(self.address) };
        assert!(status.is_success(), "{status}");
    }
}

/// Launches the kernel as a program in C does.
fn launch_raw(kernel: &Function, stream: &Stream, blocks: u32, mut values: (u64, u64, u32)) {
    let mut params: [*mut c_void; 3] = [
        (&raw mut values.0).cast(),
        (&raw mut values.1).cast(),
        (&raw mut values.2).cast(),
    ];
    let (raw, driver) = (kernel.as_raw(), stream.context().driver().library());
    let params = params.as_mut_ptr();
    // SAFETY: the parameters are those of the kernel, which stays in the two arrays.
    let status = unsafe {
        driver.cuLaunchKernel(
            raw,
            blocks,
            1,
            1,
            BLOCK,
            1,
            1,
            0,
            stream.as_raw(),
            params,
            ptr::null_mut(),
        )
    };
    assert!(status.is_success(), "{status}");
}

/// Prints the rates; on GPUs, a view must reach 90 % of the rate of raw calls.
#[test]
fn kernels_read_peers_as_fast_as_with_raw_calls() {
    let mut is_measured = false;
    for pair in pairs(1).filter(|pair| pair.one.device() != pair.two.device()) {
        let is_gpu = pair.simulator.is_none();
        if !pair
            .two
            .device()
            .can_access_peer(pair.one.device())
            .unwrap()
        {
            continue;
        }
        is_measured |= is_gpu;
        let [one, two] = pair.kernels(SUM, "sum");
        for (owner, reader, kernel) in [(&pair.one, &pair.two, &two), (&pair.two, &pair.one, &one)]
        {
            compare(owner, reader, kernel, is_gpu, &pair.name);
        }
    }
    if !is_measured {
        skip("on two GPUs with peer access: this machine does not have them");
    }
}

fn compare(owner: &Context, reader: &Context, kernel: &Function, is_gpu: bool, name: &str) {
    let (words, blocks, launches, rounds) = if is_gpu {
        (1_u32 << 26, 1024, 20, 5)
    } else {
        (1 << 12, 2, 1, 1)
    };
    let (here, stream) = (new_stream(owner), new_stream(reader));
    let pooled = filled(&here, words, 3);
    let mut unpooled = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &here, words as usize).unwrap();
    unpooled.copy_from(&pooled).unwrap();
    here.synchronize().unwrap();
    let raw = RawMemory::new(owner, reader, &pooled);

    let mut sums = [0, 1, 2].map(|_| filled(&stream, blocks * BLOCK, 0));
    stream.synchronize().unwrap();
    let (config, rows) = (LaunchConfig::new(blocks, BLOCK), words / 4);
    {
        let pooled = pooled.as_slice().for_peer(reader).unwrap();
        let unpooled = unpooled.as_slice().for_peer(reader).unwrap();
        let [raw_sums, pooled_sums, unpooled_sums] = &mut sums;
        let values = (raw.address, raw_sums.as_raw(), rows);
        let stream = &stream;
        let launch = |view, sums: &mut DeviceBuffer<u32>| {
            // SAFETY: the kernel reads `rows` rows and writes a word for each thread.
            unsafe { stream.launch(kernel, config, (view, sums, rows)) }.unwrap();
        };
        let mut readers = [
            Reader {
                name: "raw calls",
                launch: Box::new(|| {
                    let _current = reader.make_current().unwrap();
                    launch_raw(kernel, stream, blocks, values);
                }),
                best: 0.0,
            },
            Reader {
                name: "a view of memory of a pool",
                launch: Box::new(move || launch(pooled, pooled_sums)),
                best: 0.0,
            },
            Reader {
                name: "a view of other memory",
                launch: Box::new(move || launch(unpooled, unpooled_sums)),
                best: 0.0,
            },
        ];
        for _ in 0..rounds {
            for reader in &mut readers {
                (reader.launch)();
                let start = record(stream);
                (0..launches).for_each(|_| (reader.launch)());
                let end = record(stream);
                stream.synchronize().unwrap();
                let time = end.milliseconds_since(&start).unwrap();
                let bytes = f64::from(words) * 4.0 * f64::from(launches);
                reader.best = reader.best.max((bytes / f64::from(time)) as f32);
            }
        }
        if is_gpu {
            let raw = readers[0].best;
            for reader in &readers {
                let share = reader.best / raw;
                println!(
                    "{name}: {} reads {:.1} GB/s, {:.1} % of raw calls",
                    reader.name,
                    reader.best / 1e6,
                    100.0 * share
                );
                assert!(share >= 0.9, "{name}: {} is too slow", reader.name);
            }
        }
    }
    for sums in &sums {
        let sum = sums
            .to_vec()
            .unwrap()
            .into_iter()
            .fold(0, u32::wrapping_add);
        assert_eq!(sum, words.wrapping_mul(3), "{name}");
    }
}

fn record(stream: &Stream) -> Event {
    let event = Event::new(stream.context(), EventFlags::empty()).unwrap();
    event.record(stream).unwrap();
    event
}
