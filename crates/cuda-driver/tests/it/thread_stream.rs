//! Buffers that stay on one thread, on the per-thread stream.

use std::thread;

use cuda_driver::launch::{Reads, Using, Writes};
use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;
use cuda_driver::{Error, Kernel};

use crate::support::{COPY, Fixture, assert_all, count_calls, everywhere, filled, late_devices};

const N: u32 = 1 << 10;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

/// Queues a copy of `N` words from `input` to `output`.
fn copy(
    stream: &Stream,
    kernel: &Function,
    input: &ThreadBuffer<u32>,
    output: &mut ThreadBuffer<u32>,
) {
    // SAFETY: the kernel reads N words of the one and writes N words of the other.
    unsafe { stream.launch(kernel, config(), (input, output, N)) }.unwrap();
}

fn events(fixture: &Fixture) -> u64 {
    let simulator = fixture.simulator.as_ref();
    simulator.map_or(0, |it| count_calls(it, "cuEventRecord"))
}

#[test]
fn uses_on_the_stream_of_the_thread_record_no_event() {
    for fixture in everywhere() {
        let kernel = fixture.kernel(COPY, "copy");
        let typed: Kernel<(Reads<u32>, Writes<u32>, u32)> = kernel.typed().unwrap();
        let stream = fixture.context.thread_stream();
        let mut one = ThreadBuffer::from_host(&stream, &vec![1_u32; N as usize]).unwrap();
        let mut two = ThreadBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
        let before = events(&fixture);
        for value in 0..50 {
            one.fill(value).unwrap();
            copy(&stream, &kernel, &one, &mut two);
            // SAFETY: as above.
            unsafe { typed.launch(&*stream, config(), (&two, &mut one, N)) }.unwrap();
            two.copy_from(&one).unwrap();
        }
        // SAFETY: as above.
        unsafe { stream.launch(&kernel, config(), Using::new((&one, &mut two, N), ())) }.unwrap();
        assert_eq!(events(&fixture), before, "{}", fixture.name);
        assert_eq!(two.to_vec().unwrap(), vec![49; N as usize]);
        assert_eq!((one.len(), one.is_empty()), (N as usize, false));

        // Buffers that other threads can use record each use.
        let (mut source, before) = (two.into_shared(), events(&fixture));
        for value in 0..10 {
            source.fill(value).unwrap();
        }
        if fixture.simulator.is_some() {
            assert!(events(&fixture) >= before + 10);
        }
    }
}

#[test]
fn another_thread_waits_for_the_uses_of_a_shared_buffer() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(COPY, "copy");
        let stream = fixture.context.thread_stream();
        let one = ThreadBuffer::filled(&stream, N as usize, 5_u32).unwrap();
        let mut two = ThreadBuffer::filled(&stream, N as usize, 0_u32).unwrap();
        copy(&stream, &kernel, &one, &mut two);
        let before = events(&fixture);
        let (one, two) = (one.into_shared(), two.into_shared());
        if fixture.simulator.is_some() {
            assert_eq!(events(&fixture), before + 2);
        }
        let other = || {
            let own = fixture.stream();
            let per_thread = fixture.context.per_thread_stream();
            let mut first = filled(&own, N, 0);
            // SAFETY: the kernel reads N words of the one and writes N words of the other.
            unsafe { own.launch(&kernel, config(), (&two, &mut first, N)) }.unwrap();
            let mut one = one;
            // SAFETY: as above.
            unsafe { per_thread.launch(&kernel, config(), (&first, &mut one, N)) }.unwrap();
            one
        };
        let one = thread::scope(|scope| scope.spawn(other).join().unwrap());
        assert_all(&one, 5, &fixture.name);
    }
}

#[test]
fn uses_on_other_streams_of_the_thread_are_ordered() {
    for fixture in late_devices(24) {
        let kernel = fixture.kernel(COPY, "copy");
        let stream = fixture.context.thread_stream();
        let (two, three) = (fixture.stream(), fixture.stream());
        let mut source = ThreadBuffer::filled(&stream, N as usize, 1_u32).unwrap();
        let mut middle = ThreadBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
        let mut last = ThreadBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
        copy(&two, &kernel, &source, &mut middle);
        source.fill(2).unwrap();
        copy(&three, &kernel, &middle, &mut last);
        middle.fill(3).unwrap();
        copy(&stream, &kernel, &source, &mut middle);
        assert_eq!(
            last.to_vec().unwrap(),
            vec![1; N as usize],
            "{}",
            fixture.name
        );
        let shared = middle.into_shared();
        let check = || assert_all(&shared, 2, &fixture.name);
        thread::scope(|scope| scope.spawn(check).join().unwrap());
    }
}

#[test]
fn memory_of_dropped_buffers_is_freed_after_their_uses() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let stream = fixture.context.thread_stream();
        let own = fixture.stream();
        let mut result = filled(&own, N, 0);
        for value in 0..4 {
            let source = ThreadBuffer::filled(&stream, N as usize, value).unwrap();
            // SAFETY: the kernel reads N words of the one and writes N words of the other.
            unsafe { own.launch(&kernel, config(), (&source, &mut result, N)) }.unwrap();
            drop(source);
            let next = ThreadBuffer::filled(&stream, N as usize, 77_u32).unwrap();
            assert_all(&result, value, &fixture.name);
            drop(next);
        }
        if let Some(simulator) = &fixture.simulator {
            stream.synchronize().unwrap();
            drop(result);
            own.synchronize().unwrap();
            fixture.context.synchronize().unwrap();
            assert_eq!(simulator.live().allocations, 0);
        }
    }
}

#[test]
fn graphs_on_other_threads_wait_for_a_buffer_of_this_thread() {
    for fixture in late_devices(16) {
        let kernel = fixture.kernel(COPY, "copy");
        let stream = fixture.context.thread_stream();
        let mut source = ThreadBuffer::filled(&stream, N as usize, 1_u32).unwrap();
        let mut result = filled(&fixture.stream(), N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        source.fill(6).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N words of the other.
        unsafe { graph.add_kernel(&[], &kernel, config(), (&source, &mut result, N)) }.unwrap();
        let exec = graph.instantiate().unwrap();
        source.fill(7).unwrap();
        let launch = || {
            let own = fixture.stream();
            exec.launch(&own).unwrap();
        };
        thread::scope(|scope| scope.spawn(launch).join().unwrap());
        source.fill(8).unwrap();
        assert_all(&result, 7, &fixture.name);
        assert_eq!(source.to_vec().unwrap(), vec![8; N as usize]);
    }
}

#[test]
fn copies_to_and_from_the_host() {
    for fixture in everywhere() {
        let stream = fixture.context.thread_stream();
        let mut buffer = ThreadBuffer::<u32>::zeroed(&stream, 3).unwrap();
        buffer.copy_from_host(&[1, 2, 3]).unwrap();
        let mut words = [0; 3];
        buffer.copy_to_host(&mut words).unwrap();
        assert_eq!(words, [1, 2, 3]);
        let error = buffer.copy_from_host(&[1]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
        // More than one block of pageable memory.
        let many: Vec<u32> = (0..3_000_000).collect();
        let large = ThreadBuffer::from_host(&stream, &many).unwrap();
        assert_eq!(large.to_vec().unwrap(), many);
    }
}
