//! Threads allocate, use and drop resources in many cycles; at the end nothing is leaked.
//!
//! `CUDA_FULL=1` runs the full number of cycles.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
#[cfg(target_os = "linux")]
use cuda_driver::memory::GrowableBuffer;
use cuda_driver::memory::{CachingPool, MemoryPool};
#[cfg(any(target_os = "linux", windows))]
use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
#[cfg(any(target_os = "linux", windows))]
use cuda_driver::stream::ExternalSemaphore;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape, MipmappedArray, Sampler, Texture};
use cuda_sim::{Builder, Rule, Simulator};

use crate::support::{COPY, gpu, software};

const TEXTURE: &str = include_str!("kernels/texture.ptx");

const THREADS: u64 = 8;
/// The maximum length of a buffer in elements: more than the smallest staging block holds.
const MOST: usize = 5000;

/// Returns `full` if `CUDA_FULL=1` is set, otherwise `daily`.
fn cycles(full: u64, daily: u64) -> u64 {
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    if is_full { full } else { daily }
}

/// State that the threads share.
struct Workload {
    contexts: [Context; 2],
    kernel: Function,
    mix: Function,
    pool: CachingPool,
    /// A pool for other processes, where the driver has one.
    exportable: Option<MemoryPool>,
    /// Whether files are memory and semaphores of another API.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "for files in memory")
    )]
    has_other_api: bool,
    /// Whether faults are injected.
    is_failing: bool,
    failed: AtomicU32,
    /// How often host nodes of graphs were called; the nodes share ownership of this counter.
    calls: Arc<AtomicU32>,
}

impl Workload {
    fn new(one: &Context, two: Context, is_failing: bool) -> Self {
        let module = Module::load(one, &Ptx::new(COPY).unwrap()).unwrap();
        let textures = Module::load(one, &Ptx::new(TEXTURE).unwrap()).unwrap();
        Self {
            kernel: module.function("copy").unwrap(),
            mix: textures.function("mix").unwrap(),
            pool: CachingPool::new(one),
            exportable: MemoryPool::exportable(one.device()).ok(),
            has_other_api: one.driver().origin().contains("software"),
            contexts: [one.clone(), two],
            is_failing,
            failed: AtomicU32::new(0),
            calls: Arc::default(),
        }
    }

    /// Runs `count` cycles over all threads and prints the elapsed time.
    fn run(&self, count: u64, full: u64) {
        let start = Instant::now();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for cycle in 0..count / THREADS {
                        // Some cycles create their own streams.
                        match self.cycle(cycle, &mut random) {
                            Ok(()) => {}
                            Err(_) if self.is_failing => {
                                self.failed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("thread {thread}, cycle {cycle}: {error}"),
                        }
                    }
                });
            }
        });
        let failed = self.failed.load(Ordering::Relaxed);
        println!(
            "{count} of {full} cycles on {THREADS} threads, {failed} of them failed on purpose, in {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }

    fn cycle(&self, cycle: u64, random: &mut fastrand::Rng) -> Result<(), Error> {
        let [one, two] = &self.contexts;
        let owner = one.default_stream()?;
        let words = vec![random.u32(..); random.usize(..MOST)];
        let n = u32::try_from(words.len()).unwrap();
        if cycle % 2000 == 1999 {
            let own = Context::new(one.device(), ContextFlags::empty())?;
            let buffer = DeviceBuffer::from_host(&own.default_stream()?, &words)?;
            drop(own);
            assert_eq!(buffer.to_vec()?, words);
        }
        if cycle % 500 == 499 {
            drop(Module::load(one, &Ptx::new(COPY).unwrap())?.function("copy")?);
        }
        match random.u32(..14) {
            0 => {
                let mut zeroes = DeviceBuffer::<u32>::zeroed(&owner, words.len())?;
                zeroes.fill(7)?;
                zeroes.close()?;
            }
            1 => {
                let buffer = DeviceBuffer::from_host(&owner, &words)?;
                assert_eq!(buffer.to_vec()?, words);
            }
            // The source and its stream are dropped before the copy that was made from it.
            2 => {
                let stream = Stream::new(one, StreamFlags::NON_BLOCKING, 0)?;
                let source = DeviceBuffer::from_host(&stream, &words)?;
                let mut copy = DeviceBuffer::<u32>::zeroed(&owner, words.len())?;
                copy.as_mut_slice().copy_from(source.as_slice())?;
                drop((stream, source));
                assert_eq!(copy.to_vec()?, words);
            }
            3 => {
                let stream = Stream::new(one, StreamFlags::NON_BLOCKING, 0)?;
                let source = DeviceBuffer::from_host(&owner, &words[..words.len().min(64)])?;
                let mut copy = DeviceBuffer::<u32>::zeroed(&owner, source.len())?;
                let config = LaunchConfig::for_num_elems(n.min(64)).unwrap();
                // SAFETY: the kernel reads at most `n` words of one buffer and writes as many of
                // the other; each has `n`.
                unsafe { stream.launch(&self.kernel, config, (&source, &mut copy, n.min(64)))? };
                drop(source);
            }
            4 => {
                let pinned = PinnedBuffer::from_host(one, &words, PinnedFlags::empty())?;
                let mut buffer = DeviceBuffer::<u32>::zeroed_in(&self.pool, &owner, words.len())?;
                buffer.copy_from_pinned(&pinned)?;
                drop(pinned);
                assert_eq!(buffer.to_vec()?, words);
            }
            5 => {
                let (event, stream) = (
                    Event::new(one, EventFlags::DISABLE_TIMING)?,
                    Stream::new(two, StreamFlags::NON_BLOCKING, 0)?,
                );
                event.record(&owner)?;
                stream.wait(&event)?;
            }
            6 => {
                let source = DeviceBuffer::from_host_in(&self.pool, &owner, &words)?;
                let mut there = DeviceBuffer::<u32>::zeroed(&two.default_stream()?, words.len())?;
                there.as_mut_slice().copy_from_peer(source.as_slice())?;
                drop(source);
                assert_eq!(there.to_vec()?, words);
            }
            // The source and the graph are dropped before the launch, and the executable and its
            // stream while it runs.
            8 => {
                let stream = Stream::new(one, StreamFlags::NON_BLOCKING, 0)?;
                let source = DeviceBuffer::from_host(&owner, &words)?;
                let mut copy = DeviceBuffer::<u32>::zeroed(&owner, words.len())?;
                let mut graph = Graph::new(one)?;
                let (config, args) = (
                    LaunchConfig::for_num_elems(n).unwrap(),
                    (&source, &mut copy, n),
                );
                // SAFETY: the kernel reads at most `n` words of one buffer and writes as many of
                // the other; each has `n`.
                let node = unsafe { graph.add_kernel(&[], &self.kernel, config, args) }?;
                let owned = Arc::clone(&self.calls);
                let call = move || {
                    owned.fetch_add(1, Ordering::Relaxed);
                };
                graph.add_host(&[node.edge()], call)?;
                let exec = graph.instantiate()?;
                drop((source, graph));
                exec.launch(&stream)?;
                drop((exec, stream));
                assert_eq!(copy.to_vec()?, words);
            }
            // Memory that another stream reads while its buffer grows, and is dropped.
            #[cfg(target_os = "linux")]
            9 => {
                let stream = Stream::new(one, StreamFlags::NON_BLOCKING, 0)?;
                let mut source = GrowableBuffer::<u32>::new(&owner, 600_000)?;
                source.grow_to(n as usize)?;
                source.as_mut_slice().copy_from_host(&words)?;
                let mut copy = DeviceBuffer::<u32>::zeroed(&stream, words.len())?;
                copy.as_mut_slice().copy_from(source.as_slice())?;
                if cycle.is_multiple_of(2) {
                    source.grow_to(600_000)?;
                    source.shrink_to(1)?;
                }
                drop((source, stream));
                assert_eq!(copy.to_vec()?, words);
            }
            // The array and its texture are dropped while a kernel reads them, alone or in a graph.
            10 => {
                let shape = ArrayShape::two_d(64, 16);
                let flags = ArrayFlags::SURFACE;
                let from = Array::from_host(&owner, &shape, &vec![n; 1024])?;
                let mut to = Array::<u32>::zeroed(&owner, &shape, flags)?;
                let texture = Texture::new(&from, &Sampler::new())?;
                drop(from);
                let config = LaunchConfig::for_num_elems(1024).unwrap();
                let args = (&texture, to.surface_mut()?, 64_u32, 1024_u32, 1_u32);
                if cycle.is_multiple_of(2) {
                    // SAFETY: the kernel reads and writes 1024 words of planes with as many.
                    unsafe { owner.launch(&self.mix, config, args) }?;
                } else {
                    let mut graph = Graph::new(one)?;
                    // SAFETY: as above.
                    unsafe { graph.add_kernel(&[], &self.mix, config, args) }?;
                    graph.instantiate()?.launch(&owner)?;
                }
                drop(texture);
                assert_eq!(to.to_vec()?, vec![2 * n + 1; 1024]);
            }
            11 => {
                let shape = ArrayShape::three_d(9, 7, 5);
                let flags = ArrayFlags::SURFACE;
                let mut levels = MipmappedArray::<u32>::zeroed(&owner, &shape, 3, flags)?;
                let sampler = Sampler::new().normalized_coordinates();
                let texture = Texture::new(&levels, &sampler)?;
                levels.level_mut(2)?.copy_from_host(&[n; 2])?;
                assert_eq!(levels.level(2)?.to_vec()?, [n; 2]);
                drop(levels);
                drop(texture);
            }
            // Memory for other processes, and an event.
            12 => {
                let Some(pool) = &self.exportable else {
                    return Ok(());
                };
                let buffer = DeviceBuffer::from_host_in(pool, &owner, &words)?;
                if buffer.is_empty() {
                    return Ok(());
                }
                let descriptor = pool.export()?;
                let buffer = buffer.export()?;
                let handle = Event::interprocess(one).and_then(|event| event.ipc_handle());
                // SAFETY: no other process has received the handle.
                let buffer = unsafe { buffer.reclaim() };
                drop((handle?, descriptor));
                assert_eq!(buffer.to_vec()?, words);
            }
            // Memory and a semaphore of another API.
            #[cfg(any(target_os = "linux", windows))]
            13 if self.has_other_api => {
                let stream = Stream::new(one, StreamFlags::NON_BLOCKING, 0)?;
                let bytes = 4 * words.len().max(1);
                let handle = crate::other_api::file(bytes as u64).into();
                let flags = ExternalMemoryFlags::empty();
                // SAFETY: the file must have as many bytes, all of them written, and accesses must
                // not overlap ← it has zeros, and no other code has it.
                let memory = unsafe { ExternalMemory::import(one, handle, bytes, flags) }?;
                let mut buffer = memory.map::<u32>(&stream, 0, bytes / 4)?;
                buffer.fill(n)?;
                // The buffer gives way to an array of the same bytes.
                let shape = ArrayShape::one_d(bytes / 4);
                buffer.close()?;
                let flags = ArrayFlags::SURFACE;
                // SAFETY: the bytes must hold an image of this shape ← the software device takes
                // contiguous rows, and any bytes are a `u32`.
                let array = unsafe { memory.map_array::<u32>(&stream, .., &shape, flags) }?;
                drop(memory);
                let handle = crate::other_api::file(4096).into();
                // SAFETY: the file must be a semaphore ← it has a page of zeros.
                let semaphore = unsafe { ExternalSemaphore::import_timeline(one, handle) }?;
                if cycle.is_multiple_of(2) {
                    stream.signal_external(&semaphore, 1)?;
                    owner.wait_external(&semaphore, 1)?;
                } else {
                    let semaphore = Arc::new(semaphore);
                    let mut graph = Graph::new(one)?;
                    let signal = graph.add_external_signal(&[], &semaphore, 1)?;
                    graph.add_external_wait(&[signal.edge()], &semaphore, 1)?;
                    graph.instantiate()?.launch(&stream)?;
                }
                drop(stream);
                assert_eq!(array.to_vec()?, vec![n; bytes / 4]);
            }
            _ => {
                let _current = two.make_current()?;
                let mut halves = DeviceBuffer::from_host(&owner, &words)?;
                let (mut low, high) = halves.as_mut_slice().split_at_mut(words.len() / 2).unwrap();
                low.set_zero()?;
                assert_eq!(high.as_slice().to_vec()?, words[words.len() / 2..]);
            }
        }
        Ok(())
    }
}

/// Waits until nothing is left: another thread releases the resources of an executable that was
/// dropped while it ran, and retries if no event could be created.
fn nothing_is_left(simulator: &Simulator) {
    let start = Instant::now();
    while !simulator.live().is_empty() {
        let live = simulator.live();
        assert!(start.elapsed() < Duration::from_secs(10), "{live}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_million_cycles_on_eight_threads_leave_nothing() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.unwrap();
    let two = fixture.context.driver().device(1).unwrap();
    let workload = Workload::new(&fixture.context, two.primary_context().unwrap(), false);
    workload.run(cycles(1_000_000, 4_000), 1_000_000);
    let calls = Arc::clone(&workload.calls);
    drop((workload, fixture.context, two));
    nothing_is_left(&simulator);
    assert!(calls.load(Ordering::Relaxed) > 100);
    assert_eq!(Arc::strong_count(&calls), 1, "closures were leaked");
}

/// Runs the cycles while allocations and other calls fail at times.
#[test]
fn cycles_that_fail_half_way_leave_nothing() {
    let fixture = software(Builder::new().devices(2));
    let simulator = fixture.simulator.unwrap();
    let two = fixture.context.driver().device(1).unwrap();
    let workload = Workload::new(&fixture.context, two.primary_context().unwrap(), true);
    let making = [
        "cuMemAllocAsync",
        "cuMemHostAlloc",
        "cuStreamCreateWithPriority",
        "cuEventCreate",
        "cuCtxCreate_v2",
        "cuModuleLoadDataEx",
        "cuModuleGetFunction",
        "cuLaunchKernel",
        "cuMemcpyPeerAsync",
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithParams",
        "cuGraphLaunch",
        "cuEventRecord",
        "cuMemAddressReserve",
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuArray3DCreate_v2",
        "cuMipmappedArrayCreate",
        "cuMipmappedArrayGetLevel",
        "cuImportExternalMemory",
        "cuExternalMemoryGetMappedBuffer",
        "cuImportExternalSemaphore",
        "cuSignalExternalSemaphoresAsync",
        "cuGraphAddExternalSemaphoresWaitNode",
        "cuTexObjectCreate",
        "cuSurfObjectCreate",
        "cuMemcpy3DAsync_v2",
    ];
    for (seed, call) in (1..).zip(making) {
        let fails = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(call);
        simulator.add_rule(fails.random(0.05, seed));
    }
    workload.run(cycles(200_000, 4_000), 200_000);
    assert!(workload.failed.load(Ordering::Relaxed) > 100);
    simulator.clear_rules();
    drop((workload, fixture.context, two));
    nothing_is_left(&simulator);
}

/// `bundle/run.sh` runs tests with names like this one alone: allocations of other tests would
/// count as a leak.
#[test]
#[ignore = "needs the GPU to itself"]
fn a_gpu_gets_all_memory_back_by_itself() {
    let Some(fixture) = gpu() else {
        return;
    };
    let two = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let workload = Workload::new(&fixture.context, two, false);
    let free = |workload: &Workload| {
        workload.pool.trim_to(0);
        for context in &workload.contexts {
            context.synchronize().unwrap();
        }
        workload.contexts[0].memory_info().unwrap().0
    };
    // Lets the driver make the allocations that it keeps.
    workload.run(20_000, 20_000);
    let before = free(&workload);
    workload.run(100_000, 100_000);
    let after = free(&workload);
    println!("free before: {before} bytes, after: {after} bytes");
    // A difference of a few of the driver's pages of 2 MiB is not a leak: a leak in every hundredth
    // cycle would add up to 4 GiB.
    assert!(
        after + (8 << 20) >= before,
        "{} bytes were leaked",
        before - after
    );
}
