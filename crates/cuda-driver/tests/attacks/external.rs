//! Memory and semaphores of another API, which is a file. The contract of the imports is kept: the
//! other API uses nothing by itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;
use cuda_driver::texture::{ArrayFlags, ArrayShape};

use crate::support::{Attack, Case};

const WHY: &str = "files are memory of another API only there";

fn file(bytes: usize) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}

fn memory(case: &Case, bytes: usize) -> (ExternalMemory, File) {
    let file = file(bytes);
    let handle = file.try_clone().unwrap().into();
    let flags = ExternalMemoryFlags::empty();
    // SAFETY: the file has as many bytes, which are zeros, and is read only after all uses.
    let memory = unsafe { ExternalMemory::import(&case.context, handle, bytes, flags) };
    (memory.unwrap(), file)
}

fn semaphore(case: &Case) -> ExternalSemaphore {
    // SAFETY: the file is a semaphore of the software device.
    unsafe { ExternalSemaphore::import_timeline(&case.context, file(4096).into()) }.unwrap()
}

/// Claim: the memory is unmapped behind all uses of its buffers on any stream, even if the imported
/// memory is dropped first, and a part that is mapped again has the results of these uses.
#[test]
fn external_memory_is_unmapped_behind_its_uses() {
    Attack::new().on_software(WHY).run(|case| {
        let (owner, other) = (case.stream(), case.stream());
        let bytes = 4 * case.n;
        let (memory, file) = memory(case, bytes);
        let mut results: Vec<_> = (0..6).map(|_| case.filled(&other, 0)).collect();
        for (value, result) in (1..).zip(&mut results) {
            let mut buffer = memory.map::<u32>(&owner, 0, case.n).unwrap();
            case.hold_up(&owner);
            buffer.fill(value).unwrap();
            case.copy(&other, result.as_mut_slice(), buffer.as_slice())
                .unwrap();
            drop(buffer);
        }
        let last = memory.map::<u32>(&owner, 0, case.n).unwrap();
        drop((memory, owner));
        case.expect(&last, 6);
        for (value, result) in (1..).zip(&results) {
            case.expect(result, value);
        }
        drop(last);
        let mut word = [0; 4];
        file.read_exact_at(&mut word, bytes as u64 - 4).unwrap();
        assert_eq!(u32::from_le_bytes(word), 6);
    });
}

/// Claim: an array in external memory is unmapped behind all its uses on any stream, even if the
/// imported memory is dropped first, and a buffer of the same bytes has the results.
#[test]
fn arrays_are_unmapped_behind_their_uses() {
    Attack::new().on_software(WHY).run(|case| {
        let (owner, other) = (case.stream(), case.stream());
        let (memory, _file) = memory(case, 4 * case.n);
        let mut results: Vec<_> = (0..6).map(|_| case.filled(&other, 0)).collect();
        for (value, result) in (1..).zip(&mut results) {
            let (shape, flags) = (ArrayShape::one_d(case.n), ArrayFlags::empty());
            // SAFETY: the bytes are `n` words, which the software device takes as a row.
            let array = unsafe { memory.map_array::<u32>(&owner, .., &shape, flags) };
            let mut array = array.unwrap();
            let source = case.filled(&other, value);
            case.hold_up(&owner);
            array.copy_from(&source).unwrap();
            drop(source);
            array.as_slice().copy_to_on(&mut *result, &other).unwrap();
            drop(array);
        }
        let last = memory.map::<u32>(&owner, 0, case.n).unwrap();
        drop((memory, owner));
        case.expect(&last, 6);
        for (value, result) in (1..).zip(&results) {
            case.expect(result, value);
        }
    });
}

/// Claim: no two buffers have a common byte of external memory, whatever threads map.
#[test]
fn racing_threads_never_map_a_common_byte() {
    Attack::new().on_software(WHY).run(|case| {
        let (memory, _file) = memory(case, 4 * case.n);
        let map = |number| {
            let (stream, memory, len) = (case.stream(), memory.clone(), case.n - number);
            thread::spawn(move || memory.map::<u32>(&stream, 4 * number, len).ok())
        };
        let threads: Vec<_> = (0..6).map(map).collect();
        let buffers = threads.into_iter().map(|thread| thread.join().unwrap());
        // All buffers exist until the last thread has ended.
        let buffers: Vec<_> = buffers.collect();
        assert_eq!(buffers.iter().flatten().count(), 1);
    });
}

/// Claim: a semaphore is destroyed behind the signals and waits that are queued, on streams and in
/// graphs, wherever its last owner is dropped.
#[test]
fn semaphores_are_destroyed_behind_their_uses() {
    Attack::new().on_software(WHY).run(|case| {
        let (signals, waits) = (case.stream(), case.stream());
        let mut result = case.filled(&waits, 0);
        let source = case.filled(&waits, 5);
        let direct = semaphore(case);
        waits.wait_external(&direct, 1).unwrap();
        case.copy(&waits, result.as_mut_slice(), source.as_slice())
            .unwrap();
        case.hold_up(&signals);
        signals.signal_external(&direct, 1).unwrap();
        drop(direct);
        case.expect(&result, 5);

        let owned = Arc::new(semaphore(case));
        let mut graph = Graph::new(&case.context).unwrap();
        let signal = graph.add_external_signal(&[], &owned, 1).unwrap();
        graph
            .add_external_wait(&[signal.edge()], &owned, 1)
            .unwrap();
        let exec = graph.instantiate().unwrap();
        drop((owned, graph));
        case.hold_up(&signals);
        exec.launch(&signals).unwrap();
        drop((exec, signals, waits));
    });
}
