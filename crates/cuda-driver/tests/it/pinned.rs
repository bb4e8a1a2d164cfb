//! Page-locked host memory.

use std::thread;

use cuda_driver::error::{Error, Status};
use cuda_driver::memory::PinnedStorage;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{COPY, Fixture, everywhere, gpu, late, software};

fn live_host_bytes(fixture: &Fixture) -> u64 {
    fixture.simulator.as_ref().unwrap().live().host_bytes
}

#[test]
fn pinned_memory_is_a_slice() {
    for fixture in everywhere() {
        let mut zeros =
            PinnedBuffer::<u32>::zeroed(&fixture.context, 5, PinnedFlags::empty()).unwrap();
        assert_eq!(*zeros, [0; 5]);
        zeros[3] = 7;
        assert_eq!(*zeros, [0, 0, 0, 7, 0]);
        let source: Vec<u64> = (0..1000).map(|i| i * i).collect();
        let flags = PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        let copy = PinnedBuffer::from_host(&fixture.context, &source, flags).unwrap();
        assert_eq!(*copy, *source);
        assert!(copy.flags().unwrap().contains(PinnedFlags::DEVICE_MAP));
        // Dropping it requires no current context and may happen on another thread.
        let context = fixture.context.clone();
        thread::spawn(move || {
            assert_eq!(copy[999], 998_001);
            copy.close().unwrap();
            drop((zeros, context));
        })
        .join()
        .unwrap();
        if fixture.simulator.is_some() {
            assert_eq!(live_host_bytes(&fixture), 0);
        }
    }
}

#[test]
fn kernels_reach_host_memory_at_its_device_address() {
    for fixture in everywhere() {
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let source: Vec<u32> = (0..256).map(|i| i * 3 + 1).collect();
        let input =
            PinnedBuffer::from_host(&fixture.context, &source, PinnedFlags::DEVICE_MAP).unwrap();
        let output = RegisteredBuffer::from_vec(
            &fixture.context,
            vec![0_u32; 256],
            RegisterFlags::DEVICE_MAP,
        )
        .unwrap();
        let addresses = (
            input.device_address().unwrap(),
            output.device_address().unwrap(),
        );
        // SAFETY: the kernel reads 256 words of one buffer and writes 256 of the other; neither is
        // used otherwise before the wait for the stream.
        unsafe {
            stream.launch(
                &copy,
                LaunchConfig::for_num_elems(256).unwrap(),
                (addresses.0, addresses.1, 256_u32),
            )
        }
        .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(output.into_vec().unwrap(), source, "{}", fixture.name);
    }
}

#[test]
fn write_combined_memory_is_copied_in_both_directions() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let flags = PinnedFlags::WRITE_COMBINED | PinnedFlags::PORTABLE;
        let mut source = PinnedBuffer::<u32>::zeroed(&fixture.context, 1000, flags).unwrap();
        let known = source.flags().unwrap();
        assert!(
            known.contains(PinnedFlags::WRITE_COMBINED),
            "{}",
            fixture.name
        );
        for (word, value) in source.iter_mut().zip(0..) {
            *word = 7 * value;
        }
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000).unwrap();
        buffer.copy_from_pinned(&source).unwrap();
        let expected: Vec<u32> = (0..1000).map(|value| 7 * value).collect();
        assert_eq!(buffer.to_vec().unwrap(), expected, "{}", fixture.name);
        buffer.fill(9).unwrap();
        buffer.copy_to_pinned(&mut source).unwrap();
        assert_eq!(source[..], [9; 1000], "{}", fixture.name);
    }
}

#[test]
fn portable_memory_is_copied_on_every_device() {
    let software = [Builder::new(), late(1)].map(|it| software(it.devices(2)));
    for fixture in software.into_iter().chain(gpu()) {
        let source: Vec<u32> = (0..1000).map(|value| 3 * value).collect();
        let flags = PinnedFlags::PORTABLE | PinnedFlags::WRITE_COMBINED;
        let mut pinned = PinnedBuffer::from_host(&fixture.context, &source, flags).unwrap();
        let known = pinned.flags().unwrap();
        assert!(known.contains(PinnedFlags::PORTABLE), "{}", fixture.name);
        for device in fixture.context.driver().devices().unwrap() {
            let context = device.primary_context().unwrap();
            let stream = context.default_stream().unwrap();
            let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000).unwrap();
            buffer.copy_from_pinned(&pinned).unwrap();
            pinned.fill(0);
            buffer.copy_to_pinned(&mut pinned).unwrap();
            assert_eq!(pinned[..], source, "{} {device:?}", fixture.name);
        }
    }
}

#[test]
fn registered_vec_is_returned_unchanged() {
    for fixture in everywhere() {
        let mut vec = Vec::with_capacity(5000);
        vec.extend(0..4000_u16);
        let address = vec.as_ptr();
        let mut registered =
            RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::PORTABLE).unwrap();
        assert_eq!((registered.len(), registered.as_ptr()), (4000, address));
        registered[1] = 77;
        let vec = registered.into_vec().unwrap();
        assert_eq!((vec.as_ptr(), vec.capacity()), (address, 5000));
        assert_eq!((vec[0], vec[1], vec[3999]), (0, 77, 3999));
        drop(RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::empty()).unwrap());
        if let Some(simulator) = &fixture.simulator {
            let calls = simulator.calls();
            assert_eq!(calls["cuMemHostRegister_v2"], 2);
            assert_eq!(calls["cuMemHostUnregister"], 2);
        }
    }
}

#[test]
fn vec_is_returned_if_registering_fails() {
    for fixture in everywhere() {
        let vec = vec![1_u8, 2, 3];
        let error = RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::IO_MEMORY)
            .err()
            .unwrap();
        assert!(
            matches!(error.error(), Error::UnsafeFlags { bits: 4, .. }),
            "{error}"
        );
        let vec = error.into_vec();
        assert_eq!(vec, [1, 2, 3]);
        let address = vec.as_ptr();
        let first =
            RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::empty()).unwrap();
        // SAFETY: the three bytes must not be registered yet. They are, so the call fails without
        // effect.
        let again = unsafe {
            RegisteredBuffer::from_raw_parts(
                &fixture.context,
                address.cast_mut(),
                3,
                RegisterFlags::empty(),
            )
        };
        assert_eq!(
            again.err().unwrap().status(),
            Some(Status::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        );
        assert_eq!(first.into_vec().unwrap(), [1, 2, 3]);
    }
}

#[test]
fn memory_that_cannot_be_unregistered_is_leaked() {
    let fixture = software(Builder::new());
    let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuMemHostUnregister");
    fixture.simulator.as_ref().unwrap().add_rule(rule);
    let of = |byte: u8| {
        let vec = vec![byte; 100];
        let address = vec.as_ptr();
        let registered =
            RegisteredBuffer::from_vec(&fixture.context, vec, RegisterFlags::empty()).unwrap();
        (registered, address)
    };
    let ((dropped, first), (closed, second)) = (of(1), of(2));
    drop(dropped);
    assert_eq!(
        closed.close().unwrap_err().status(),
        Some(Status::CUDA_ERROR_UNKNOWN)
    );
    // An allocator reuses freed memory for the next request of the same size.
    let fresh: Vec<Vec<u8>> = (0..64).map(|_| vec![0; 100]).collect();
    assert!(
        fresh
            .iter()
            .all(|vec| ![first, second].contains(&vec.as_ptr()))
    );
}

#[test]
fn empty_pinned_memory_makes_no_driver_calls() {
    for fixture in everywhere() {
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        let context = &fixture.context;
        let empty = PinnedBuffer::<u64>::zeroed(context, 0, PinnedFlags::empty()).unwrap();
        assert_eq!((&*empty, empty.device_address().unwrap()), (&[][..], 0));
        assert!(empty.flags().unwrap().is_empty());
        empty.close().unwrap();
        let none =
            RegisteredBuffer::<u64>::from_vec(context, Vec::new(), RegisterFlags::empty()).unwrap();
        assert_eq!(none.device_address().unwrap(), 0);
        assert!(none.into_vec().unwrap().is_empty());
        if let Some(simulator) = &fixture.simulator {
            assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
        }
    }
}

#[test]
fn failed_pinned_allocation_reports_its_size() {
    let fixture = software(Builder::new().host_memory(1 << 20));
    let error =
        PinnedBuffer::<u16>::zeroed(&fixture.context, 1 << 20, PinnedFlags::empty()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::OutOfMemory {
                bytes: 0x20_0000,
                ..
            }
        ),
        "{error}"
    );
    let error = PinnedBuffer::<u16>::zeroed(&fixture.context, usize::MAX, PinnedFlags::empty());
    assert!(matches!(error, Err(Error::SizeOverflow { size: 2, .. })));
    assert_eq!(live_host_bytes(&fixture), 0);
}

#[test]
fn uninitialized_memory_becomes_a_buffer_by_a_full_copy() {
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let source: Vec<u32> = (0..100).collect();
        let device = DeviceBuffer::from_host(&stream, &source).unwrap();
        // The blocks through which `from_host` copies.
        let bytes = |fixture: &Fixture| fixture.simulator.as_ref().map(|it| it.live().host_bytes);
        let before = bytes(&fixture);
        let new = |len| PinnedBuffer::<u32>::uninit(context, len, PinnedFlags::DEFAULT).unwrap();

        let memory = new(100);
        assert_eq!((memory.len(), memory.is_empty()), (100, false));
        assert_eq!(memory.context(), context);
        assert_ne!(memory.device_address().unwrap(), 0);
        assert_eq!(*memory.init_from(&source).unwrap(), *source);
        let copied = new(100).init_from_device(&device.as_slice()).unwrap();
        assert_eq!(*copied, *source);
        let mut memory = new(3);
        for (place, value) in memory.as_uninit_mut().iter_mut().zip([7, 8, 9]) {
            place.write(value);
        }
        assert!(memory.as_mut_ptr().is_aligned());
        // SAFETY: all three elements were written.
        assert_eq!(*unsafe { memory.assume_init() }, [7, 8, 9]);

        let error = new(99).init_from(&source).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
        let error = new(101).init_from_device(&device.as_slice()).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
        assert!(new(0).init_from(&[]).unwrap().is_empty());
        new(5).close().unwrap();
        drop(copied);
        assert_eq!(bytes(&fixture), before);
    }
}

#[test]
fn uninitialized_memory_of_a_failed_copy_is_never_freed() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let device = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
    let memory = PinnedBuffer::<u32>::uninit(&fixture.context, 16, PinnedFlags::DEFAULT).unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuMemcpyDtoHAsync"));
    assert!(memory.init_from_device(&device.as_slice()).is_err());
    // The copy may still be running.
    assert_eq!(live_host_bytes(&fixture), 64);
}

#[test]
fn parts_of_page_locked_memory_are_disjoint_owners() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let buffer = PinnedBuffer::from_host(&fixture.context, &[7_u32; 100], PinnedFlags::DEFAULT);
        let storage = PinnedStorage::from(buffer.unwrap());
        let mut parts: Vec<_> = [0..10, 10..30, 50..100]
            .map(|range| storage.take(range).unwrap())
            .into();
        for range in [0..1, 9..10, 9..51, 29..30, 29..50, 49..51, 99..100, 0..100] {
            let error = storage.take(range.clone()).unwrap_err();
            assert!(
                matches!(error, Error::OutOfRange { .. }),
                "{range:?}: {error}"
            );
        }
        assert!(storage.take(99..101).is_err());
        assert_eq!(
            (
                storage.take(30..50).unwrap().len(),
                storage.take(30..30).unwrap().len()
            ),
            (20, 0)
        );
        assert!(storage.take(10..10).unwrap().is_empty());
        // Each part is used by a thread and a transfer of its own.
        let threads: Vec<_> = parts
            .drain(..)
            .enumerate()
            .map(|(number, mut part)| {
                let stream = stream.clone();
                std::thread::spawn(move || {
                    part.fill(number as u32);
                    let mut device = DeviceBuffer::zeroed(&stream, part.len()).unwrap();
                    let transfer = device.copy_from_pinned_async(part, &stream).unwrap();
                    let mut part = transfer.wait().unwrap();
                    part.fill(99);
                    device.copy_to_pinned(&mut part).unwrap();
                    part
                })
            })
            .collect();
        parts.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        let storage = storage.into_buffer().unwrap_err();
        assert_eq!(parts[1].range(), 10..30);
        drop(parts);
        let words = storage.into_buffer().unwrap();
        let expected: Vec<u32> = (0..100)
            .map(|at| match at {
                0..10 => 0,
                10..30 => 1,
                30..50 => 7,
                _ => 2,
            })
            .collect();
        assert_eq!(*words, *expected, "{}", fixture.name);
    }
}

#[test]
fn parts_of_failed_copies_are_not_handed_out_again() {
    let fixture = software(Builder::new());
    let (stream, simulator) = (fixture.stream(), fixture.simulator.as_ref().unwrap());
    let buffer = PinnedBuffer::<u32>::zeroed(&fixture.context, 100, PinnedFlags::DEFAULT).unwrap();
    let storage = PinnedStorage::from(buffer);
    let device = DeviceBuffer::<u32>::zeroed(&stream, 10).unwrap();
    let mut part = storage.take(..10).unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamSynchronize"));
    assert!(device.copy_to_pinned(&mut part).is_err());
    simulator.clear_rules();
    // The copy may still be running.
    assert!(part.is_empty());
    drop(part);
    assert!(storage.take(9..11).is_err());
    assert!(storage.take(10..).is_ok());
    assert!(storage.into_buffer().is_err());
    assert_eq!(simulator.calls().get("cuMemFreeHost"), None);
}
