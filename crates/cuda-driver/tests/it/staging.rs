//! Blocking copies from and to pageable host memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule, Simulator};

use crate::support::{Fixture, everywhere, late, software};

const KIB: usize = 1 << 10;
/// Sizes: a single block, several chunks on one thread, chunks on several threads, and odd sizes.
const SIZES: [usize; 9] = [
    1,
    4 * KIB,
    64 * KIB,
    64 * KIB + 1,
    300 * KIB,
    512 * KIB,
    1024 * KIB,
    2 * 1024 * KIB + 7,
    9 * 1024 * KIB + 12_345,
];

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// The kinds of copy that take different code paths.
#[derive(Clone, Copy, Debug)]
enum Way {
    Up(usize),
    Down(usize),
}

const WAYS: [Way; 6] = [
    Way::Up(100),
    Way::Up(200 * KIB),
    Way::Up(3 * 1024 * KIB),
    Way::Down(100),
    Way::Down(200 * KIB),
    Way::Down(3 * 1024 * KIB),
];

#[test]
fn copies_of_all_sizes_keep_their_bytes() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for len in SIZES {
            let source = noise(len as u64, len);
            let buffer = DeviceBuffer::from_host(&stream, &source).unwrap();
            assert!(
                buffer.to_vec().unwrap() == source,
                "{len} on {}",
                fixture.name
            );
            let mut destination = vec![0; len];
            buffer.copy_to_host(&mut destination).unwrap();
            assert!(destination == source, "{len} on {}", fixture.name);
        }
    }
}

#[test]
fn random_copies_on_many_threads_are_those_of_a_vec() {
    for fixture in everywhere() {
        let fixture = &fixture;
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || random_copies(fixture, seed));
            }
        });
    }
}

fn random_copies(fixture: &Fixture, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let stream = fixture.stream();
    let len = 1 << 21;
    let mut model = noise(seed, len);
    let mut buffer = DeviceBuffer::from_host(&stream, &model).unwrap();
    for round in 0..60 {
        let size = match random.u32(..4) {
            0 => random.usize(..200),
            1 => random.usize(..=2 * 64 * KIB),
            2 => random.usize(..1024 * KIB),
            _ => random.usize(..=len),
        };
        let start = random.usize(..=len - size);
        let range = start..start + size;
        if random.bool() {
            let source = noise(seed * 1000 + round, size);
            let mut part = buffer.slice_mut(range.clone()).unwrap();
            part.copy_from_host(&source).unwrap();
            model[range].copy_from_slice(&source);
        } else {
            let part = buffer.slice(range.clone()).unwrap();
            assert!(
                part.to_vec().unwrap() == model[range],
                "round {round} of {seed}"
            );
        }
    }
    assert!(buffer.to_vec().unwrap() == model);
}

#[test]
fn two_threads_copy_halves_of_one_buffer() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let source = noise(7, 3 << 20);
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, source.len()).unwrap();
        let (mut lower, mut upper) = buffer.as_mut_slice().split_at_mut(1_000_001).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lower.copy_from_host(&source[..1_000_001]).unwrap());
            scope.spawn(|| upper.copy_from_host(&source[1_000_001..]).unwrap());
        });
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert!(buffer.to_vec().unwrap() == source));
            }
        });
    }
}

#[test]
fn elements_of_no_bytes_are_copied_without_a_call() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    fixture.simulator.as_ref().unwrap().reset_calls();
    let buffer = DeviceBuffer::from_host(&stream, &[[0_u8; 0]; 5]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [[0_u8; 0]; 5]);
    let pinned = PinnedBuffer::from_host(&fixture.context, &[[0_u8; 0]; 3], PinnedFlags::empty());
    assert_eq!(*pinned.unwrap(), [[0_u8; 0]; 3]);
    let calls = fixture.simulator.as_ref().unwrap().calls();
    assert!(calls.is_empty(), "{calls:?}");
}

/// Returns a driver that also delays copies of pageable memory, as the specification permits.
fn slowest(seed: u64) -> Fixture {
    software(late(seed).late_pageable_copies(true))
}

#[test]
fn a_source_is_free_when_its_copy_returns() {
    for len in SIZES {
        let fixture = slowest(len as u64);
        let stream = fixture.stream();
        let source = noise(1, len);
        let mut changed = source.clone();
        let buffer = DeviceBuffer::from_host(&stream, &changed).unwrap();
        changed.fill(0xEE);
        drop(changed);
        assert!(buffer.to_vec().unwrap() == source, "{len}");
    }
}

#[test]
fn a_destination_is_not_touched_after_a_copy_that_failed() {
    for function in ["cuStreamSynchronize", "cuEventSynchronize"] {
        let fixture = slowest(3);
        let simulator = fixture.simulator.as_ref().unwrap();
        let stream = fixture.stream();
        for len in [100, 3 << 20] {
            let buffer = DeviceBuffer::from_host(&stream, &vec![0x55_u8; len]).unwrap();
            // Ensures that only waits of the copy can fail.
            stream.synchronize().unwrap();
            let mut destination = vec![0x11_u8; len];
            simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function(function));
            let result = buffer.copy_to_host(&mut destination);
            simulator.clear_rules();
            if result.is_ok() {
                // This code path does not use the failing function to wait.
                assert!(destination.iter().all(|&byte| byte == 0x55));
                continue;
            }
            let before = destination.clone();
            assert!(before.iter().all(|&byte| byte == 0x11), "{function}, {len}");
            fixture.context.synchronize().unwrap();
            assert!(destination == before, "{function}, {len}");
            assert!(buffer.to_vec().unwrap() == vec![0x55; len]);
        }
    }
}

fn run(way: Way, stream: &Stream) -> (cuda_driver::Result<Vec<u8>>, Vec<u8>) {
    let (Way::Up(len) | Way::Down(len)) = way;
    let source = noise(len as u64, len);
    let quiet = |result: cuda_driver::Result<DeviceBuffer<u8>>| result.unwrap();
    let result = match way {
        Way::Up(_) => {
            let mut buffer = quiet(DeviceBuffer::zeroed(stream, len));
            let result = buffer.copy_from_host(&source);
            result.and_then(|()| buffer.to_vec())
        }
        Way::Down(_) => DeviceBuffer::from_host(stream, &source).and_then(|buffer| buffer.to_vec()),
    };
    (result, source)
}

/// Runs a copy with a fault, then one without; returns if the first failed, and the bytes left.
fn with_fault(way: Way, function: &str, nth: u64) -> (bool, u64) {
    let fixture = software(late(nth));
    let simulator: Simulator = fixture.simulator.clone().unwrap();
    {
        let stream = fixture.stream();
        let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function(function);
        simulator.add_rule(rule.nth(nth));
        let (result, source) = run(way, &stream);
        let failed = result.is_err();
        match result {
            Ok(bytes) => assert!(bytes == source, "{way:?}, {function} {nth}"),
            Err(error) => assert_eq!(
                error.status(),
                Some(Status::CUDA_ERROR_UNKNOWN),
                "{way:?}, {function} {nth}"
            ),
        }
        simulator.clear_rules();
        let (result, source) = run(way, &stream);
        assert!(result.unwrap() == source, "{way:?} after {function} {nth}");
        drop(stream);
        drop(fixture);
        let live = simulator.live();
        assert_eq!(
            (live.streams, live.events, live.allocations),
            (0, 0, 0),
            "{way:?}, {function} {nth}"
        );
        (failed, live.host_bytes)
    }
}

#[test]
fn failing_call_is_an_error_and_loses_at_most_one_block() {
    // Lists which failures must be reported; for the others the copy has a fallback.
    for (function, must_be_reported) in [
        ("cuMemHostAlloc", true),
        ("cuEventCreate", true),
        ("cuMemcpyHtoDAsync", true),
        ("cuMemcpyDtoHAsync", true),
        ("cuStreamSynchronize", false),
        ("cuEventSynchronize", false),
        ("cuEventRecord", false),
        ("cuEventQuery", false),
    ] {
        for way in WAYS {
            for nth in [1, 2, 3, 7] {
                let (failed, left) = with_fault(way, function, nth);
                assert!(
                    left <= 1 << 20,
                    "{way:?}, {function} {nth}: {left} bytes are left"
                );
                if must_be_reported && nth == 1 {
                    assert!(failed, "{way:?}, {function}");
                }
            }
        }
    }
    // A few KiB are copied as two rows.
    for nth in [1, 2] {
        let (failed, left) = with_fault(Way::Up(12 * KIB), "cuMemcpy2DAsync", nth);
        assert_eq!(failed, nth == 1);
        assert!(left <= 64 << 10, "{left} bytes are left");
    }
}

#[test]
fn copy_without_staging_memory_reports_the_size() {
    let fixture = software(Builder::new().host_memory(1000));
    let stream = fixture.stream();
    for (len, block) in [(10, 64 * KIB), (1 << 20, 1024 * KIB)] {
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, len).unwrap();
        let error = buffer.copy_from_host(&vec![1; len]).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { bytes, .. } if bytes == block),
            "{error}"
        );
        let error = buffer.copy_to_host(&mut vec![1; len]).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { bytes, .. } if bytes == block),
            "{error}"
        );
    }
}

#[test]
fn one_block_is_enough_for_a_copy() {
    for seed in 0..8 {
        let fixture = software(late(seed).host_memory(1100 << 10));
        let stream = fixture.stream();
        let source = noise(seed, 5 << 20);
        let buffer = DeviceBuffer::from_host(&stream, &source).unwrap();
        assert!(buffer.to_vec().unwrap() == source);
    }
}

/// If blocks are scarce, copies and the threads of one copy compete for them: each copy is complete
/// or fails.
#[test]
fn copies_competing_for_blocks_complete_or_fail() {
    let fixture = software(Builder::new().host_memory(3400 << 10));
    let copies: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let stream = fixture.stream();
                scope.spawn(move || {
                    let source = noise(seed, 3 << 20);
                    let mut copies = 0;
                    for _ in 0..20 {
                        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 3 << 20).unwrap();
                        let copied = buffer
                            .copy_from_host(&source)
                            .and_then(|()| buffer.to_vec());
                        match copied {
                            Ok(bytes) => assert!(bytes == source),
                            Err(Error::OutOfMemory { .. }) => continue,
                            Err(error) => panic!("{error}"),
                        }
                        copies += 1;
                    }
                    copies
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert!(copies > 0);
}

#[test]
fn copies_under_way_end_before_their_blocks() {
    for seed in 0..4 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.clone().unwrap();
        let stream = fixture.stream();
        let small = DeviceBuffer::from_host(&stream, &[1_u8; 100]).unwrap();
        let large = DeviceBuffer::from_host(&stream, &vec![2_u8; 1 << 20]).unwrap();
        drop((fixture, stream, small, large));
        let live = simulator.live();
        assert!(live.is_empty(), "{live:?}");
    }
}

#[test]
fn on_a_lost_device_copies_are_errors() {
    let fixture = software(late(5));
    let stream = fixture.stream();
    let source = vec![1_u8; 1 << 20];
    let mut buffer = DeviceBuffer::from_host(&stream, &source).unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.lose_device(0, Status::CUDA_ERROR_ILLEGAL_ADDRESS);
    for len in [10, 1 << 20] {
        let mut destination = vec![7; len];
        let result = buffer.slice(..len).unwrap().copy_to_host(&mut destination);
        assert_eq!(
            result.unwrap_err().status(),
            Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS)
        );
        assert!(destination.iter().all(|&byte| byte == 7));
        let result = buffer
            .slice_mut(..len)
            .unwrap()
            .copy_from_host(&source[..len]);
        assert_eq!(
            result.unwrap_err().status(),
            Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS)
        );
    }
}

/// A stream that waits for the host must not delay copies on other streams.
#[test]
fn copies_wait_for_no_other_stream() {
    for fixture in everywhere() {
        let (blocked, other) = (fixture.stream(), fixture.stream());
        let mut gate =
            PinnedBuffer::<u32>::zeroed(&fixture.context, 1, PinnedFlags::DEVICE_MAP).unwrap();
        let source = noise(9, 3 << 20);
        let mut held: Vec<_> = (0..32)
            .map(|_| DeviceBuffer::<u8>::zeroed(&blocked, 1000).unwrap())
            .collect();
        blocked.synchronize().unwrap();
        // SAFETY: the word stays allocated until the stream is done, which is awaited below.
        let status = unsafe {
            fixture.context.driver().library().cuStreamWaitValue32_v2(
                blocked.as_raw(),
                gate.device_address().unwrap(),
                1,
                0,
            )
        };
        assert!(status.is_success(), "{status}");
        for buffer in &mut held {
            buffer.copy_from_host(&source[..1000]).unwrap();
        }
        let (sender, done) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                for len in [1000, 3 << 20] {
                    let buffer = DeviceBuffer::from_host(&other, &source[..len]).unwrap();
                    assert!(buffer.to_vec().unwrap() == source[..len]);
                }
                sender.send(()).unwrap();
            });
            let in_time = done.recv_timeout(Duration::from_secs(20));
            // SAFETY: the word is allocated, and only the device uses it (it reads) meanwhile.
            let word = unsafe { AtomicU32::from_ptr(gate.as_mut_ptr()) };
            word.store(1, Ordering::Release);
            in_time.expect("copies on another stream must not wait");
        });
        for buffer in held {
            assert_eq!(buffer.to_vec().unwrap(), source[..1000]);
        }
    }
}

#[test]
fn page_locked_memory_is_copied_directly() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let source: Vec<u32> = (0..200_000).map(|i| i ^ 0x5A5A).collect();
        let pinned =
            PinnedBuffer::from_host(&fixture.context, &source, PinnedFlags::empty()).unwrap();
        let mut back =
            RegisteredBuffer::from_vec(&fixture.context, vec![0; 200_000], RegisterFlags::empty())
                .unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, source.len()).unwrap();
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        buffer.copy_from_pinned(&pinned).unwrap();
        buffer.copy_to_pinned(&mut back).unwrap();
        if let Some(simulator) = &fixture.simulator {
            let calls: Vec<_> = simulator.calls().into_iter().collect();
            assert_eq!(
                calls,
                [
                    ("cuMemcpyDtoHAsync_v2", 1),
                    ("cuMemcpyHtoDAsync_v2", 1),
                    ("cuStreamSynchronize", 2),
                    ("cuThreadExchangeStreamCaptureMode", 4)
                ]
            );
        }
        assert_eq!(back.into_vec().unwrap(), source, "{}", fixture.name);
        let mut short =
            PinnedBuffer::<u32>::zeroed(&fixture.context, 7, PinnedFlags::empty()).unwrap();
        for result in [
            buffer.copy_from_pinned(&short),
            buffer.copy_to_pinned(&mut short),
        ] {
            assert!(matches!(result, Err(Error::LengthMismatch { .. })));
        }
    }
}

#[test]
fn page_locked_memory_of_a_copy_that_failed_is_never_freed() {
    let fixture = software(late(1));
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 100).unwrap();
    let new = || PinnedBuffer::<u8>::zeroed(&fixture.context, 100, PinnedFlags::empty()).unwrap();
    let (source, mut destination) = (new(), new());
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamSynchronize"));
    let failed = Some(Status::CUDA_ERROR_UNKNOWN);
    assert_eq!(
        buffer.copy_from_pinned(&source).unwrap_err().status(),
        failed
    );
    assert_eq!(
        buffer
            .copy_to_pinned(&mut destination)
            .unwrap_err()
            .status(),
        failed
    );
    // The device may still write this memory, so it must not be accessible.
    assert!(destination.is_empty());
    assert_eq!(
        (source.len(), source.close().unwrap_err().status()),
        (100, failed)
    );
    drop(destination);
    let vec = RegisteredBuffer::from_vec(&fixture.context, vec![0_u8; 100], RegisterFlags::empty());
    let vec = vec.unwrap();
    assert_eq!(buffer.copy_from_pinned(&vec).unwrap_err().status(), failed);
    assert_eq!(vec.into_vec().unwrap_err().status(), failed);
    // Registered memory is counted as well.
    assert_eq!(simulator.live().host_bytes, 300);
    assert!(!simulator.calls().contains_key("cuMemFreeHost"));
    assert!(!simulator.calls().contains_key("cuMemHostUnregister"));
}
