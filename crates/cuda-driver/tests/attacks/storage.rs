//! Untyped storage with several handles on several threads.

use std::thread;

use cuda_driver::Error;
use cuda_driver::memory::Storage;

use crate::support::Attack;

/// Claim: a writable view of a storage exists only while no other handle does, and what is written
/// through it comes after the uses of handles that other threads have dropped.
#[test]
fn writes_come_after_the_uses_of_dropped_handles() {
    Attack::new().run(|case| {
        let home = case.stream();
        let mut storage = Storage::from(case.filled(&home, 1));
        for round in 1..5_u32 {
            let copies: Vec<_> = thread::scope(|scope| {
                let handles: Vec<_> = (0..case.threads).map(|_| storage.clone()).collect();
                let reads = handles.into_iter().enumerate().map(|(at, handle)| {
                    scope.spawn(move || {
                        let stream = case.stream();
                        let mut copy = case.filled(&stream, 0);
                        case.hold_up(&stream);
                        if at % 2 == 0 {
                            let view = handle.view::<u32>(..).unwrap();
                            case.copy(&stream, copy.as_mut_slice(), view).unwrap();
                        } else {
                            // The view keeps the memory alive without the handle.
                            let view = handle.share(..).unwrap();
                            drop(handle);
                            let words = view.as_slice().cast::<u32>().unwrap();
                            case.copy(&stream, copy.as_mut_slice(), words).unwrap();
                        }
                        copy
                    })
                });
                let threads: Vec<_> = reads.collect();
                loop {
                    match storage.view_mut::<u32>(..) {
                        Ok(mut view) => break view.fill(round + 1).unwrap(),
                        Err(Error::StillInUse { .. }) => thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            for copy in copies {
                case.expect(&copy, round);
            }
        }
        case.expect(&storage.into_buffer::<u32>().unwrap(), 5);
    });
}

/// Claim: the last handle frees the memory after the uses of all, on whichever thread it is
/// dropped. A new buffer that gets the same memory is not changed by them.
#[test]
fn the_memory_is_freed_after_the_uses_of_all_handles() {
    Attack::new().run(|case| {
        for _ in 0..4 {
            let storage = Storage::from(case.filled(&case.stream(), 3));
            let copies: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..=case.threads)
                    .map(|_| {
                        let handle = storage.clone();
                        scope.spawn(move || {
                            let stream = case.stream();
                            let mut copy = case.filled(&stream, 0);
                            case.hold_up(&stream);
                            let view = handle.view::<u32>(..).unwrap();
                            case.copy(&stream, copy.as_mut_slice(), view).unwrap();
                            drop(handle);
                            // It may get the memory of the storage.
                            (copy, case.filled(&stream, 9))
                        })
                    })
                    .collect();
                drop(storage);
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            for (copy, other) in copies {
                case.expect(&copy, 3);
                case.expect(&other, 9);
            }
        }
    });
}
