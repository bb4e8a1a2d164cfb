//! Allocating, freeing, filling and viewing device memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_driver::Error;
use cuda_driver::device::DeviceAttribute;
use cuda_driver::memory::{Allocator, CachingPool, MemoryPool, Unpooled};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, everywhere, late, software};

/// Sets the flag when it is dropped.
struct Owner(Arc<AtomicBool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_address_is_released_and_taken_back() {
    for fixture in everywhere() {
        let (owning, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let source = DeviceBuffer::from_host(&owning, &[5_u32; 64]).unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&owning, 64).unwrap();
        // SAFETY: the kernel reads 64 words of the one and writes 64 of the other; each has 64.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 64),
                (&source, &mut buffer, 64_u32),
            )
        }
        .unwrap();
        let address = buffer.into_raw().unwrap();
        // SAFETY: this is the memory of that buffer, all of it is initialized, and `owning` waits
        // for `other`.
        let buffer = unsafe { DeviceBuffer::<u32>::from_raw(&owning, address, 64) }.unwrap();
        assert_eq!(buffer.as_raw(), address);
        assert_eq!(buffer.to_vec().unwrap(), [5; 64], "{}", fixture.name);
        drop((buffer, source));
        owning.synchronize().unwrap();
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().bytes, 0, "{}", simulator.live());
        }
    }
}

#[test]
fn foreign_memory_is_released_after_its_uses() {
    for fixture in everywhere() {
        let (owning, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let whole = Arc::new(DeviceBuffer::from_host(&owning, &[3_u32; 64]).unwrap());
        let is_gone = Arc::new(AtomicBool::new(false));
        let owner = (Arc::clone(&whole), Owner(Arc::clone(&is_gone)));
        // SAFETY: these are 32 words of a buffer that the owner keeps alive and that is not written
        // meanwhile.
        let half = unsafe { DeviceBuffer::<u32>::from_foreign(&owning, whole.as_raw(), 32, owner) };
        let half = half.unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, 32).unwrap();
        // SAFETY: the kernel reads 32 words of the one and writes 32 of the other; each has 32.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 32),
                (&half, &mut target, 32_u32),
            )
        }
        .unwrap();
        assert!(!is_gone.load(Ordering::SeqCst));
        drop(half);
        assert!(is_gone.load(Ordering::SeqCst), "{}", fixture.name);
        // The drop has waited for the kernel on the other stream. (On a GPU the stream may report
        // this a little later.)
        if fixture.simulator.is_some() {
            assert!(other.is_done().unwrap(), "{}", fixture.name);
        }
        assert_eq!(Arc::strong_count(&whole), 1);
        assert_eq!(target.to_vec().unwrap(), [3; 32], "{}", fixture.name);
    }
}

/// Returns `n` copies of `value`, computed on the host.
fn expected<T: Clone>(value: T, n: usize) -> Vec<T> {
    vec![value; n]
}

#[test]
fn memory_is_filled_with_values_of_every_size() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for n in [1_usize, 2, 3, 64, 1001] {
            let bytes = DeviceBuffer::filled(&stream, n, 0xa5_u8).unwrap();
            assert_eq!(
                bytes.to_vec().unwrap(),
                expected(0xa5, n),
                "{}",
                fixture.name
            );
            let halves = DeviceBuffer::filled(&stream, n, 0x1234_u16).unwrap();
            assert_eq!(halves.to_vec().unwrap(), expected(0x1234, n));
            let words = DeviceBuffer::filled(&stream, n, -2.5_f32).unwrap();
            assert_eq!(words.to_vec().unwrap(), expected(-2.5, n));
            let doubles = DeviceBuffer::filled(&stream, n, std::f64::consts::PI).unwrap();
            assert_eq!(doubles.to_vec().unwrap(), expected(std::f64::consts::PI, n));
            let threes = DeviceBuffer::filled(&stream, n, [1_u8, 2, 3]).unwrap();
            assert_eq!(threes.to_vec().unwrap(), expected([1, 2, 3], n));
            let sixes = DeviceBuffer::filled(&stream, n, [1_u16, 2, 3]).unwrap();
            assert_eq!(sixes.to_vec().unwrap(), expected([1, 2, 3], n));
            let wide = DeviceBuffer::filled(&stream, n, [7_u64; 3]).unwrap();
            assert_eq!(wide.to_vec().unwrap(), expected([7; 3], n));
        }
        // Fills a part that starts at an address that is not word-aligned.
        let mut buffer = DeviceBuffer::filled(&stream, 64, 9_u8).unwrap();
        let part = buffer.slice_mut(3..19).unwrap();
        part.cast::<[u8; 4]>().unwrap().fill([1, 2, 3, 4]).unwrap();
        let mut want = [9_u8; 64];
        for (i, byte) in want[3..19].iter_mut().enumerate() {
            *byte = [1, 2, 3, 4][i % 4];
        }
        assert_eq!(buffer.to_vec().unwrap(), want, "{}", fixture.name);
        buffer.slice_mut(10..20).unwrap().set_zero().unwrap();
        want[10..20].fill(0);
        assert_eq!(buffer.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_fill_is_one_call_where_the_driver_has_one() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&fixture.stream(), 1000).unwrap();
    let mut wide = DeviceBuffer::<[u32; 3]>::zeroed(&fixture.stream(), 1000).unwrap();
    let calls = |f: &mut dyn FnMut()| {
        simulator.reset_calls();
        f();
        simulator.calls().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        calls(&mut || words.fill(0x1234_5678).unwrap()),
        [("cuMemsetD32Async", 1)]
    );
    assert_eq!(
        calls(&mut || words.fill(0x1234_1234).unwrap()),
        [("cuMemsetD16Async", 1)]
    );
    assert_eq!(
        calls(&mut || words.fill(0x1212_1212).unwrap()),
        [("cuMemsetD8Async", 1)]
    );
    assert_eq!(
        calls(&mut || wide.fill([1, 2, 3]).unwrap()),
        [("cuMemcpyDtoDAsync_v2", 10), ("cuMemsetD32Async", 3)]
    );
}

#[test]
fn chunks_are_pieces_of_a_buffer() {
    for fixture in everywhere() {
        let (owning, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let words: Vec<u32> = (0..10).collect();
        let mut buffer = DeviceBuffer::from_host(&owning, &words).unwrap();
        let read = buffer.chunks(4).unwrap();
        assert_eq!(read.len(), 3);
        let read: Vec<Vec<u32>> = read.map(|chunk| chunk.to_vec().unwrap()).collect();
        let want: Vec<Vec<u32>> = words.chunks(4).map(<[u32]>::to_vec).collect();
        assert_eq!(read, want, "{}", fixture.name);
        assert!(buffer.chunks(0).is_err());
        assert!(buffer.chunks_mut(0).is_err());
        // Writes adjacent chunks on different streams.
        let source = DeviceBuffer::from_host(&owning, &[70_u32, 71, 72]).unwrap();
        for (i, chunk) in buffer.chunks_mut(3).unwrap().enumerate() {
            let stream = if i % 2 == 0 { &owning } else { &other };
            let n = chunk.len() as u32;
            // SAFETY: the kernel reads up to 3 words of `source` and writes as many words as the
            // chunk has.
            unsafe { stream.launch(&copy, LaunchConfig::new(1, 3), (&source, chunk, n)) }.unwrap();
        }
        assert_eq!(
            buffer.to_vec().unwrap(),
            [70, 71, 72, 70, 71, 72, 70, 71, 72, 70],
            "{}",
            fixture.name
        );
    }
}

#[test]
fn cast_views_need_matching_size_and_alignment() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut bytes = DeviceBuffer::from_host(&stream, &[1_u8, 0, 0, 0, 2, 0, 0, 0, 3]).unwrap();
        let words = bytes.slice(..8).unwrap().cast::<u32>().unwrap();
        assert_eq!((words.len(), words.to_vec().unwrap()), (2, vec![1, 2]));
        let error = bytes.as_slice().cast::<u32>().unwrap_err();
        assert_eq!(
            error,
            Error::Uneven {
                variable: None,
                bytes: 9,
                size: 4
            }
        );
        let at = bytes.as_raw() + 1;
        let error = bytes.slice(1..5).unwrap().cast::<u32>().unwrap_err();
        assert_eq!(
            error,
            Error::Misaligned {
                address: at,
                align: 4
            }
        );
        assert_eq!(bytes.slice(1..1).unwrap().cast::<u32>().unwrap().len(), 0);
        assert!(bytes.as_slice().cast::<[u32; 0]>().is_err());
        let upper = bytes.slice_mut(4..8).unwrap();
        upper.cast::<i32>().unwrap().copy_from_host(&[-1]).unwrap();
        assert_eq!(bytes.to_vec().unwrap(), [1, 0, 0, 0, 255, 255, 255, 255, 3]);
    }
}

#[test]
fn a_clone_does_not_share_memory() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3]).unwrap();
        let clone = buffer.try_clone().unwrap();
        buffer.fill(9).unwrap();
        assert_eq!(clone.to_vec().unwrap(), [1, 2, 3], "{}", fixture.name);
        assert_eq!(buffer.to_vec().unwrap(), [9, 9, 9], "{}", fixture.name);
        assert!(
            DeviceBuffer::<u32>::zeroed(&stream, 0)
                .unwrap()
                .try_clone()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn memory_of_a_device_without_pools_is_freed_after_its_uses() {
    for seed in 0..16 {
        let pools = DeviceAttribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let fixture = software(late(seed).attribute(pools, 0));
        let simulator = fixture.simulator.as_ref().unwrap();
        let (owning, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        simulator.reset_calls();
        let source = DeviceBuffer::filled(&owning, 64, 5_u32).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, 64).unwrap();
        // SAFETY: the kernel reads 64 words of the one and writes 64 of the other; each has 64.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 64),
                (&source, &mut target, 64_u32),
            )
        }
        .unwrap();
        drop(source);
        let next = DeviceBuffer::filled(&owning, 64, 6_u32).unwrap();
        assert_eq!(target.to_vec().unwrap(), [5; 64]);
        drop((next, target));
        let calls = simulator.calls();
        assert_eq!((calls["cuMemAlloc_v2"], calls["cuMemFree_v2"]), (3, 3));
        assert!(!calls.contains_key("cuMemAllocAsync"));
        assert_eq!(simulator.live().bytes, 0);
    }
}

/// Calls every constructor with `allocator` and compares the contents.
fn construct_in(allocator: &impl Allocator, stream: &Stream) {
    let zeroed = DeviceBuffer::<u32>::zeroed_in(allocator, stream, 100).unwrap();
    assert_eq!(zeroed.to_vec().unwrap(), [0; 100]);
    let filled = DeviceBuffer::filled_in(allocator, stream, 100, 7_u32).unwrap();
    assert_eq!(filled.to_vec().unwrap(), [7; 100]);
    let words: Vec<u32> = (0..100).collect();
    let copied = DeviceBuffer::from_host_in(allocator, stream, &words).unwrap();
    assert_eq!(copied.to_vec().unwrap(), words);
    // SAFETY: every element must be written before it is read ← the next statement writes them all.
    let mut uninit = unsafe { DeviceBuffer::<u32>::uninit_in(allocator, stream, 100) }.unwrap();
    uninit.copy_from_host(&words).unwrap();
    assert_eq!(uninit.to_vec().unwrap(), words);
    let empty = DeviceBuffer::<u32>::zeroed_in(allocator, stream, 0).unwrap();
    assert_eq!(empty.as_raw(), 0);
    assert!(filled.stream() == stream && empty.stream() == stream);
}

#[test]
fn every_allocator_has_every_constructor() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        construct_in(&stream, &stream);
        construct_in(&other, &stream);
        construct_in(&Unpooled, &stream);
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        construct_in(&pool, &stream);
        let pool = CachingPool::new(&fixture.context);
        construct_in(&pool, &stream);
        assert_eq!(pool.statistics().bytes_in_use, 0);
    }
}

#[test]
fn stream_of_another_context_cannot_allocate() {
    let fixture = software(Builder::new().devices(2));
    let devices = fixture.context.driver().devices().unwrap();
    let other = devices[1].primary_context().unwrap();
    let (stream, other) = (fixture.stream(), other.default_stream().unwrap());
    for len in [0, 8] {
        let error = DeviceBuffer::<u32>::zeroed_in(&other, &stream, len).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
}
