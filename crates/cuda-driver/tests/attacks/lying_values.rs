//! Values of the program with inconsistent trait implementations: elements, wakers, and closures
//! that return numbers.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::{CachingPool, ManagedBuffer};
use cuda_driver::prelude::*;

use crate::support::Attack;

/// An element whose `Clone`, `PartialEq`, `Ord` and `Hash` contradict its bits.
#[cfg(feature = "derive")]
#[repr(C)]
#[derive(Debug, DeviceRepr)]
struct Liar(u32);

#[cfg(feature = "derive")]
impl Copy for Liar {}

#[cfg(feature = "derive")]
#[expect(
    clippy::non_canonical_clone_impl,
    reason = "the attack is a `clone` that panics"
)]
impl Clone for Liar {
    fn clone(&self) -> Self {
        panic!("an element was cloned")
    }
}

#[cfg(feature = "derive")]
impl PartialEq for Liar {
    fn eq(&self, _: &Self) -> bool {
        panic!("somebody compared elements")
    }
}

#[cfg(feature = "derive")]
fn numbers(liars: &[Liar]) -> Vec<u32> {
    liars.iter().map(|liar| liar.0).collect()
}

/// Claim: elements are bits. Their `Clone` and `PartialEq` panic: no call uses them, and the bits
/// arrive unchanged.
#[cfg(feature = "derive")]
#[test]
fn elements_that_cannot_be_cloned_are_copied_as_bits() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let words: Vec<Liar> = (0..case.n as u32).map(Liar).collect();
        let expected = numbers(&words);
        let pool = CachingPool::new(&case.context);
        let pinned_pool = case.pinned_pool();
        let mut buffers = [
            DeviceBuffer::from_host(&stream, &words).unwrap(),
            DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap(),
            ManagedBuffer::from_host(&stream, &words)
                .unwrap()
                .try_clone()
                .unwrap(),
        ];
        for buffer in &buffers {
            assert_eq!(
                numbers(&buffer.to_vec().unwrap()),
                expected,
                "{}",
                case.title
            );
            assert_eq!(
                numbers(&buffer.try_clone().unwrap().to_vec().unwrap()),
                expected
            );
        }
        let pinned = PinnedBuffer::from_host(&case.context, &words, PinnedFlags::default());
        let pinned = [
            pinned.unwrap(),
            PinnedBuffer::from_host_in(&pinned_pool, &words).unwrap(),
        ];
        for mut pinned in pinned {
            buffers[0].set_zero().unwrap();
            buffers[0].copy_from_pinned(&pinned).unwrap();
            pinned.iter_mut().for_each(|word| *word = Liar(0));
            buffers[0].copy_to_pinned(&mut pinned).unwrap();
            assert_eq!(numbers(&pinned), expected, "{}", case.title);
        }
        buffers[1].fill(Liar(0x0102_0304)).unwrap();
        let mut graph = case.graph();
        let zeroes = PinnedBuffer::zeroed(&case.context, case.n, PinnedFlags::default()).unwrap();
        let host = GraphHostBuffer::<Liar>::new(zeroes).unwrap();
        graph.add_fill(&[], &mut buffers[0], Liar(7)).unwrap();
        graph.add_copy(&[], &host, &buffers[1]).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        case.expect_words(&numbers(&host.read().unwrap()), 0x0102_0304);
        case.expect_words(&numbers(&buffers[0].to_vec().unwrap()), 7);
        let vec = RegisteredBuffer::from_vec(&case.context, words, RegisterFlags::default());
        assert_eq!(numbers(&vec.unwrap().into_vec().unwrap()), expected);
    });
}

/// Claim: memory of a pool is zeroed with zero bits, whatever the elements' `Clone` does.
#[cfg(feature = "derive")]
#[test]
fn pinned_pool_zeroes_elements_that_cannot_be_cloned() {
    Attack::new().run(|case| {
        let pool = case.pinned_pool();
        drop(PinnedBuffer::from_host_in(&pool, &vec![7_u32; case.n]).unwrap());
        let zeroes = PinnedBuffer::<Liar>::zeroed_in(&pool, case.n).unwrap();
        case.expect_words(&numbers(&zeroes), 0);
    });
}

/// Claim: the size of a launch is checked after its conversion to numbers. A conversion to `Dim3`
/// returns sizes that are not valid.
#[test]
fn launch_sizes_that_do_not_exist_are_refused() {
    struct Huge(u32);

    impl From<Huge> for Dim3 {
        fn from(huge: Huge) -> Self {
            (huge.0, huge.0, huge.0).into()
        }
    }

    Attack::new().run(|case| {
        let stream = case.stream();
        let (a, mut b) = (case.filled(&stream, 1), case.filled(&stream, 2));
        for size in [0, 1 << 16, u32::MAX] {
            let config = LaunchConfig::new(Huge(size), Huge(size));
            let kernel = case.copy_kernel();
            // SAFETY: the kernel copies as many words as both buffers have, whatever its size is.
            let refused = unsafe { stream.launch(kernel, config, (&a, &mut b, case.n as u32)) };
            assert!(refused.is_err(), "{}", case.title);
            let mut graph = case.graph();
            // SAFETY: the kernel copies as many words as both buffers have, whatever its size is.
            let refused =
                unsafe { graph.add_kernel(&[], kernel, config, (&a, &mut b, case.n as u32)) };
            assert!(refused.is_err() && graph.is_empty(), "{}", case.title);
        }
        case.expect(&b, 2);
    });
}

/// Claim: a callback that computes a number of bytes may return any value. It returns more than
/// there are, and another number each time.
#[test]
fn occupancy_callbacks_lie() {
    Attack::new().run(|case| {
        let kernel = case.copy_kernel();
        let asked = Cell::new(0_usize);
        let values = [0, usize::MAX, 1 << 40, 48 << 10, 1, usize::MAX / 2 + 1];
        let lie = |_| {
            asked.set(asked.get() + 1);
            values[asked.get() % values.len()]
        };
        for most in [0, 1, 1024, u32::MAX] {
            if let Ok(size) = kernel.max_potential_block_size(lie, most) {
                assert!(size.block <= 1024, "{}: {size:?}", case.title);
            }
        }
        let none = kernel.max_potential_block_size(|_| usize::MAX, 0);
        assert!(none.is_err() || none.is_ok_and(|size| size.block <= 1024));
        let stream = case.stream();
        let buffer = case.filled(&stream, 1);
        case.expect(&buffer, 1);
    });
}

/// Claim: lengths come from the elements themselves. Views are cut into chunks; the iterators'
/// lengths are queried, and the iterators are advanced from both ends and moved to other threads:
/// the chunks are disjoint, and cover the memory once.
#[test]
fn chunks_cover_memory_once() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        for size in [1_usize, 7, 64, 511, usize::MAX] {
            let size = size.max(case.n / 128);
            let chunks = buffer.chunks_mut(size).unwrap();
            let count = chunks.len();
            let streams: Vec<_> = (0..case.threads).map(|_| case.stream()).collect();
            let chunks: Vec<_> = chunks.collect();
            assert_eq!((chunks.len(), chunks.len()), (count, case.n.div_ceil(size)));
            thread::scope(|scope| {
                let mut shares: Vec<Vec<_>> = streams.iter().map(|_| Vec::new()).collect();
                for (at, chunk) in chunks.into_iter().enumerate() {
                    shares[at % case.threads].push(chunk);
                }
                for (share, stream) in shares.into_iter().zip(&streams) {
                    scope.spawn(move || {
                        for mut chunk in share {
                            let words = vec![1; chunk.len()];
                            let one = DeviceBuffer::from_host(stream, &words).unwrap();
                            case.mix(stream, chunk.reborrow(), one.as_slice()).unwrap();
                        }
                    });
                }
            });
            case.expect(&buffer, 1);
            buffer.set_zero().unwrap();
        }
        assert!(buffer.chunks(0).is_err(), "{}", case.title);
    });
}

/// Claim: the handles of a host buffer of a graph share its memory. Handles are cloned and dropped
/// on several threads while launches use it.
#[test]
fn host_buffer_handles_are_cloned_and_dropped_under_launches() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut target = case.filled(&stream, 0);
        let host = GraphHostBuffer::new(case.pinned(3)).unwrap();
        let mut graph = case.graph();
        graph.add_copy(&[], &mut target, &host).unwrap();
        let exec = Arc::new(graph.instantiate().unwrap());
        drop(graph);
        thread::scope(|scope| {
            for _ in 0..case.threads {
                let (host, exec, stream) = (host.clone(), Arc::clone(&exec), &stream);
                scope.spawn(move || {
                    for _ in 0..4 {
                        let clone = host.clone();
                        let _ = exec.launch(stream);
                        // Fails while another thread has a guard.
                        if let Ok(mut words) = clone.write() {
                            words.fill(4);
                        }
                    }
                });
            }
        });
        drop(host);
        exec.launch(&stream).unwrap();
        drop(exec);
        case.expect(&target, 4);
    });
}
