//! Memory and semaphores of another API, which is a thread that reads and writes files here.

use std::env;
#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, RangeError, Status};
use cuda_driver::graph::EagerCapture;
use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;
use cuda_sim::Builder;

use crate::other_api::{File, file};
use crate::support::{COPY, Fixture, filled, late, launch_copy, software};

const N: usize = 1000;
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn import(
    fixture: &Fixture,
    file: &File,
    bytes: usize,
) -> cuda_driver::Result<ExternalMemory> {
    let handle = file.try_clone().unwrap().into();
    let flags = ExternalMemoryFlags::DEDICATED;
    // SAFETY: the handle must be one of memory that is written before it is read, and accesses must
    // not overlap ← the software device checks the file, which has zeros; the tests order accesses.
    unsafe { ExternalMemory::import(&fixture.context, handle, bytes, flags) }
}

/// A semaphore, and its file.
pub(crate) fn semaphore(fixture: &Fixture, is_timeline: bool) -> (ExternalSemaphore, File) {
    let file = file(4096);
    let handle = file.try_clone().unwrap().into();
    let imported = if is_timeline {
        // SAFETY: the file is a semaphore of the software device.
        unsafe { ExternalSemaphore::import_timeline(&fixture.context, handle) }
    } else {
        // SAFETY: the file is a semaphore of the software device.
        unsafe { ExternalSemaphore::import_binary(&fixture.context, handle) }
    };
    (imported.unwrap(), file)
}

/// Returns the value of a semaphore in the other API.
pub(crate) fn value(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

pub(crate) fn set_value(file: &File, value: u64) {
    file.write_all_at(&value.to_le_bytes(), 0).unwrap();
}

/// Waits in the other API until a semaphore has a value.
fn reaches(file: &File, wanted: u64) {
    let start = Instant::now();
    while value(file) != wanted {
        assert!(start.elapsed() < LIMIT, "{} and not {wanted}", value(file));
        thread::sleep(Duration::from_millis(1));
    }
}

fn words(file: &File, offset: u64) -> Vec<u32> {
    let mut bytes = vec![0; 4 * N];
    file.read_exact_at(&mut bytes, offset).unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks_exact(4).map(word).collect()
}

fn write_words(file: &File, offset: u64, value: u32) {
    let bytes: Vec<u8> = (0..N).flat_map(|_| value.to_le_bytes()).collect();
    file.write_all_at(&bytes, offset).unwrap();
}

/// Runs `program` on software devices, with seeds from 0 on, and expects that nothing is left.
///
/// `CUDA_FULL=1` runs 10,000 programs, and `CUDA_SEED=n` runs the program of that seed. Programs
/// wait for threads most of the time, so several of them run at once.
pub(crate) fn random_programs(program: impl Fn(&Fixture, u64) + Sync) {
    const FULL: u64 = 10_000;
    const REDUCED: u64 = 60;
    const THREADS: usize = 12;
    let one = |seed: u64| {
        let fixture = software(match seed % 3 {
            0 => Builder::new(),
            _ => late(seed),
        });
        program(&fixture, seed);
        let simulator = fixture.simulator.as_ref().unwrap();
        assert_eq!(simulator.take_reports().len(), 0, "seed {seed}");
        let start = Instant::now();
        loop {
            let live = simulator.live();
            if live.external_memory + live.external_semaphores + live.mipmapped_arrays == 0 {
                break;
            }
            assert!(start.elapsed() < LIMIT, "seed {seed}: {live}");
            thread::sleep(Duration::from_millis(1));
        }
    };
    if let Ok(seed) = env::var("CUDA_SEED") {
        return one(seed.parse().expect("CUDA_SEED must be a number"));
    }
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if is_full { FULL } else { REDUCED };
    let (next, start) = (AtomicU64::new(0), Instant::now());
    let run = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            // A failure ends the test, and its message names the seed.
            one(seed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(run);
        }
    });
    println!(
        "{count} of {FULL} random programs with memory of another API, in {:.1} s",
        start.elapsed().as_secs_f64()
    );
}

#[test]
fn external_memory_is_used_as_a_buffer() {
    for builder in [Builder::new(), late(2)] {
        let fixture = software(builder);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let file = file(16_384);
        write_words(&file, 4096, 7);
        let memory = import(&fixture, &file, 16_384).unwrap();
        assert_eq!(
            (memory.bytes(), memory.context()),
            (16_384, &fixture.context)
        );
        assert!(!memory.as_raw().is_null());
        let mut buffer = memory.map::<u32>(&stream, 4096, N).unwrap();
        memory.close().unwrap();
        let mut copy = filled(&other, N as u32, 0);
        launch_copy(&kernel, &other, &buffer, &mut copy).unwrap();
        buffer.fill(9).unwrap();
        assert_eq!(copy.to_vec().unwrap(), [7; N]);
        // The unmapping waits for the uses.
        launch_copy(&kernel, &other, &copy, &mut buffer).unwrap();
        buffer.close().unwrap();
        assert_eq!(words(&file, 4096), [7; N]);
        let live = fixture.simulator.as_ref().unwrap().live();
        assert_eq!(live.external_memory, 0, "{live}");
    }
}

#[test]
fn parts_outside_of_external_memory_are_refused() {
    let fixture = software(Builder::new().devices(2));
    let stream = fixture.stream();
    let file = file(8192);
    let refused = import(&fixture, &file, 8193).unwrap_err();
    let Error::Driver(refused) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.status(), Status::CUDA_ERROR_INVALID_VALUE);
    let memory = import(&fixture, &file, 8192).unwrap();
    for (offset, len, text) in [
        (8192, 1, "8192"),
        (0, 2049, "8192 bytes"),
        (usize::MAX - 3, 1, "8192 bytes"),
        (2, 1, "not a multiple of 4"),
        (0, 0, "0 bytes"),
    ] {
        let error = memory.map::<u32>(&stream, offset, len).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let foreign = Stream::new(&other, StreamFlags::NON_BLOCKING, 0).unwrap();
    let error = memory.map::<u32>(&foreign, 0, 1).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let (semaphore, _file) = semaphore(&fixture, true);
    let error = foreign.signal_external(&semaphore, 1).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let error = foreign.wait_external(&semaphore, 1).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let semaphore = Arc::new(semaphore);
    let mut graph = Graph::new(&other).unwrap();
    let error = graph.add_external_signal(&[], &semaphore, 1).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

/// A stream writes the memory, the other API reads and overwrites it, and the stream reads it.
#[test]
fn semaphores_order_a_stream_and_another_api() {
    for seed in 0..4 {
        let is_timeline = seed % 2 == 0;
        let fixture = software(if seed < 2 { Builder::new() } else { late(seed) });
        let stream = fixture.stream();
        let file = file(4 * N as u64);
        let memory = import(&fixture, &file, 4 * N).unwrap();
        let mut buffer = memory.map::<u32>(&stream, 0, N).unwrap();
        let (written, written_file) = semaphore(&fixture, is_timeline);
        let (answered, answered_file) = semaphore(&fixture, is_timeline);
        assert_eq!(written.context(), &fixture.context);
        buffer.fill(21).unwrap();
        stream.signal_external(&written, 5).unwrap();
        stream.wait_external(&answered, 6).unwrap();
        let [at, next] = if is_timeline { [5, 6] } else { [1, 1] };
        let other = thread::spawn(move || {
            reaches(&written_file, at);
            assert_eq!(words(&file, 0), [21; N]);
            write_words(&file, 0, 34);
            set_value(&answered_file, next);
        });
        assert_eq!(buffer.to_vec().unwrap(), [34; N]);
        other.join().unwrap();
        drop((written, answered));
        let live = fixture.simulator.as_ref().unwrap().live();
        assert_eq!(live.external_semaphores, 0, "{live}");
    }
}

#[test]
fn closing_a_semaphore_waits_for_its_uses() {
    for builder in [Builder::new(), late(5)] {
        let fixture = software(builder);
        let stream = fixture.stream();
        let (semaphore, file) = semaphore(&fixture, true);
        stream.wait_external(&semaphore, 1).unwrap();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            set_value(&file, 1);
            file
        });
        semaphore.close().unwrap();
        assert!(stream.is_done().unwrap(), "the wait is over");
        assert_eq!(value(&other.join().unwrap()), 1);
    }
}

/// A wait for another API delays neither earlier uses of the stream nor uses elsewhere.
#[test]
fn work_before_a_wait_can_be_waited_for() {
    for builder in [Builder::new(), late(6)] {
        let fixture = software(builder);
        let (stream, reader) = (fixture.stream(), fixture.stream());
        let (semaphore, file) = semaphore(&fixture, true);
        let words = filled(&stream, 100, 5);
        stream.wait_external(&semaphore, 1).unwrap();
        let mut result = filled(&reader, 100, 0);
        result.copy_from_on(&words, &reader).unwrap();
        assert!(reader.synchronize_timeout(LIMIT).unwrap());
        assert_eq!(result.to_vec().unwrap(), [5; 100]);
        set_value(&file, 1);
        stream.synchronize().unwrap();
    }
}

#[test]
fn two_buffers_never_map_a_common_byte() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let file = file(4096);
    let memory = import(&fixture, &file, 4096).unwrap();
    let mut middle = memory.map::<u32>(&stream, 1024, 256).unwrap();
    for (offset, len) in [(0, 257), (1024, 256), (1028, 1), (2044, 1), (0, 1024)] {
        let error = memory.clone().map::<u32>(&stream, offset, len).unwrap_err();
        let (range, mapped) = (offset..offset + 4 * len, 1024..2048);
        let wanted = RangeError::Mapped { range, mapped };
        assert!(
            matches!(&error, Error::OutOfRange(it) if **it == wanted),
            "{error}"
        );
    }
    let mut before = memory.map::<u32>(&stream, 0, 256).unwrap();
    let after = memory.map::<u8>(&stream, 2048, 2048).unwrap();
    middle.fill(3).unwrap();
    before.fill(4).unwrap();
    middle.close().unwrap();
    let mut again = memory.map::<u32>(&stream, 1024, 256).unwrap();
    assert_eq!(again.to_vec().unwrap(), [3; 256]);
    again.fill(5).unwrap();
    drop((before, again, after));
    assert_eq!(&words(&file, 0)[..512], [[4; 256], [5; 256]].concat());
    let _first = memory.map::<u32>(&stream, 0, 1).unwrap();
    let error = memory.map::<u8>(&stream, 3, 2).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("3..5 overlap the bytes 0..4"), "{text}");
}

#[test]
fn import_of_nothing_and_flags_are_refused() {
    let fixture = software(Builder::new());
    let file = file(4096);
    let error = import(&fixture, &file, 0).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let handle = file.try_clone().unwrap().into();
    let flags = ExternalMemoryFlags::from_bits_retain(6);
    // SAFETY: the call fails.
    let error = unsafe { ExternalMemory::import(&fixture.context, handle, 4096, flags) };
    let Err(Error::Driver(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn eager_captures_refuse_semaphores_by_name() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let (semaphore, _file) = semaphore(&fixture, true);
    let memory = import(&fixture, &file(4096), 4096).unwrap();
    let capture = EagerCapture::begin(&stream).unwrap();
    for (result, name) in [
        (
            stream.signal_external(&semaphore, 1),
            "Stream::signal_external",
        ),
        (stream.wait_external(&semaphore, 1), "Stream::wait_external"),
        (
            memory.map::<u32>(&stream, 0, 1).map(drop),
            "ExternalMemory::map",
        ),
    ] {
        let Err(Error::EagerCapture { call, .. }) = result else {
            panic!("{name}: {result:?}");
        };
        assert_eq!(call, name);
    }
    drop(capture);
}

#[test]
fn captured_branches_signal_and_wait_in_order() {
    for builder in [Builder::new(), late(8)] {
        let fixture = software(builder);
        let stream = fixture.stream();
        let (question, question_file) = semaphore(&fixture, true);
        let (answer, answer_file) = semaphore(&fixture, false);
        let (question, answer) = (Arc::new(question), Arc::new(answer));
        let file = file(4 * N as u64);
        let memory = import(&fixture, &file, 4 * N).unwrap();
        let mut buffer = memory.map::<u32>(&stream, 0, N).unwrap();
        let mut copy = filled(&stream, N as u32, 0);
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.fill(&mut buffer, 6_u32)?;
            scope.external_signal(&question, 3)?;
            scope.external_wait(&answer, 0)?;
            scope.copy(&mut copy, &buffer)?;
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        reaches(&question_file, 3);
        assert_eq!(words(&file, 0), [6; N]);
        write_words(&file, 0, 8);
        set_value(&answer_file, 1);
        assert_eq!(copy.to_vec().unwrap(), [8; N]);
        assert_eq!(value(&answer_file), 0, "the wait has reset it");
    }
}

#[test]
fn graphs_signal_and_wait() {
    for builder in [Builder::new(), late(7)] {
        let fixture = software(builder);
        let stream = fixture.stream();
        let (question, question_file) = semaphore(&fixture, true);
        let (answer, answer_file) = semaphore(&fixture, true);
        let (question, answer) = (Arc::new(question), Arc::new(answer));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let asks = graph.add_external_signal(&[], &question, 8).unwrap();
        let waits = graph.add_external_wait(&[asks.edge()], &answer, 8).unwrap();
        graph.set_external_signal(asks, &question, 1).unwrap();
        graph.set_external_wait(waits, &answer, 1).unwrap();
        let exec = graph.instantiate().unwrap();
        // The graph keeps the semaphores.
        drop(graph);
        for round in 1..4 {
            exec.set_external_signal(asks, &question, round).unwrap();
            exec.set_external_wait(waits, &answer, round).unwrap();
            exec.launch(&stream).unwrap();
            reaches(&question_file, round);
            assert!(!stream.is_done().unwrap());
            set_value(&answer_file, round);
            stream.synchronize().unwrap();
        }
        drop((question, answer));
        let simulator = fixture.simulator.as_ref().unwrap();
        assert_eq!(simulator.live().external_semaphores, 2);
        drop(exec);
        let start = Instant::now();
        while simulator.live().external_semaphores > 0 {
            assert!(start.elapsed() < LIMIT, "{}", simulator.live());
            thread::sleep(Duration::from_millis(1));
        }
    }
}
