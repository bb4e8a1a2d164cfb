//! Two contexts, of one device and of two devices.

use std::thread;

use cuda_driver::context::ContextFlags;
use cuda_driver::memory::{CachingPool, MemoryPool};
use cuda_driver::prelude::*;

use crate::set_up::{VARIABLES, load, stream as new_stream};
use crate::support::{Attack, Case, Side};

/// Copies all of `from` to `to`, which is in another context.
fn copy_peer(to: &mut DeviceBuffer<u32>, from: &DeviceBuffer<u32>) {
    to.as_mut_slice().copy_from_peer(from.as_slice()).unwrap();
}

/// Claim: a copy to another context is a use of both buffers. Its source is freed to a caching
/// pool, which hands out the memory again, or to the driver, and is overwritten before the copy has
/// run.
#[test]
fn peer_copy_source_is_freed_and_handed_out() {
    Attack::new().with_two_contexts().run(|case| {
        let (owner, there) = (case.stream(), case.other().stream());
        let pool = CachingPool::with_limit(&case.context, 2 * case.n * 4);
        let ordered = MemoryPool::new(case.context.device()).unwrap();
        for round in 1..5 {
            let mut targets = [
                case.other().filled(&there, 0),
                case.other().filled(&there, 0),
            ];
            let sources = [
                DeviceBuffer::from_host_in(&pool, &owner, &vec![round; case.n]).unwrap(),
                DeviceBuffer::from_host_in(&ordered, &owner, &vec![round; case.n]).unwrap(),
            ];
            case.hold_up(&there);
            for (target, source) in targets.iter_mut().zip(&sources) {
                copy_peer(target, source);
            }
            drop(sources);
            let mut next = [
                DeviceBuffer::<u32>::zeroed_in(&pool, &owner, case.n).unwrap(),
                DeviceBuffer::<u32>::zeroed_in(&ordered, &owner, case.n).unwrap(),
            ];
            for buffer in &mut next {
                buffer.fill(90).unwrap();
            }
            for target in &targets {
                case.expect(target, round);
            }
            for buffer in &next {
                case.expect(buffer, 90);
            }
        }
    });
}

/// Claim: the target of a copy from another context is freed after the copy, and its memory is not
/// written afterwards.
#[test]
fn peer_copy_target_is_dropped() {
    Attack::new().with_two_contexts().run(|case| {
        let (owner, there) = (case.stream(), case.other().stream());
        let source = case.filled(&owner, 6);
        let pool = CachingPool::with_limit(&case.other().context, 2 * case.n * 4);
        for round in 0..4 {
            let mut target = DeviceBuffer::<u32>::zeroed_in(&pool, &there, case.n).unwrap();
            case.hold_up(&there);
            copy_peer(&mut target, &source);
            drop(target);
            let mut next = DeviceBuffer::<u32>::zeroed_in(&pool, &there, case.n).unwrap();
            next.fill(round).unwrap();
            case.expect(&next, round);
        }
    });
}

/// Claim: a kernel of another context is a use of the memory behind its views. The memory is freed
/// and handed out again, and a graph of the owning context writes it, before the kernel has run.
#[test]
fn memory_of_a_peer_view_is_dropped_and_replayed() {
    Attack::new().with_two_contexts().run(|case| {
        let (owner, there) = (case.stream(), case.other().stream());
        let mut leased = case.filled(&owner, 0);
        let mut graph = Graph::new(&case.context).unwrap();
        graph.add_fill(&[], &mut leased, 50_u32).unwrap();
        let executable = graph.instantiate().unwrap();
        for round in 1..5 {
            leased.fill(round).unwrap();
            let dropped = case.filled(&owner, round);
            let mut first = case.other().filled(&there, 0);
            let mut second = case.other().filled(&there, 0);
            case.hold_up(&there);
            {
                let context = &case.other().context;
                let views = [&leased, &dropped].map(|it| it.as_slice().for_peer(context).unwrap());
                let kernel = case.other().copy_kernel();
                for (target, view) in [&mut first, &mut second].into_iter().zip(views) {
                    let args = (view, target, case.n as u32);
                    // SAFETY: the kernel reads n words of the one and writes n words of the other.
                    unsafe { there.launch(kernel, case.config(), args) }.unwrap();
                }
            }
            drop(dropped);
            executable.launch(&owner).unwrap();
            let next = case.filled(&owner, 90);
            case.expect(&first, round);
            case.expect(&second, round);
            case.expect(&next, 90);
            case.expect(&leased, 50);
        }
    });
}

/// Claim: a module is unloaded once no use of its variables is left. A variable is the source of a
/// copy to another context; the variable and the module are dropped, and another module is loaded.
#[test]
fn module_is_dropped_during_a_peer_copy_of_its_variable() {
    Attack::new().with_two_contexts().run(|case| {
        let (owner, there) = (case.stream(), case.other().stream());
        let load = || load(&case.context, VARIABLES);
        let mut results = Vec::new();
        for round in 1..5_u32 {
            let module = load();
            let mut counter = module.global::<u32>("counter", &owner).unwrap();
            counter.copy_from_host(&[round]).unwrap();
            let mut target = DeviceBuffer::<u32>::zeroed(&there, 1).unwrap();
            case.hold_up(&there);
            target
                .as_mut_slice()
                .copy_from_peer(counter.as_slice())
                .unwrap();
            drop(counter);
            drop(module);
            let next = load();
            let mut counter = next.global::<u32>("counter", &owner).unwrap();
            counter.copy_from_host(&[77]).unwrap();
            results.push((target, round));
        }
        for (target, round) in &results {
            assert_eq!(target.to_vec().unwrap(), [*round], "{}", case.title);
        }
    });
}

/// Claim: a module is unloaded once no use of its variables is left. A copy from another context
/// writes the variable.
#[test]
fn module_is_dropped_during_a_peer_copy_to_its_variable() {
    Attack::new().with_two_contexts().run(|case| {
        let (owner, there) = (case.stream(), case.other().stream());
        let load = || load(&case.context, VARIABLES);
        for _ in 0..4 {
            let source = DeviceBuffer::from_host(&there, &[66_u32]).unwrap();
            let module = load();
            let mut counter = module.global::<u32>("counter", &owner).unwrap();
            case.hold_up(&owner);
            case.hold_up(&there);
            counter
                .as_mut_slice()
                .copy_from_peer(source.as_slice())
                .unwrap();
            drop((counter, module, source));
            let counter = load().global::<u32>("counter", &owner).unwrap();
            assert_eq!(counter.to_vec().unwrap(), [5], "{}", case.title);
        }
    });
}

/// Claim: contexts are destroyed after their work, and outside of locks. The other context of a
/// peer copy is dropped with all its objects; the remaining buffer is used at once.
#[test]
fn buffers_are_used_after_the_other_context_is_dropped() {
    Attack::new().run(|case| {
        let owner = case.stream();
        for round in 1..4 {
            let mut buffer = case.filled(&owner, 0);
            {
                let own = Context::new(case.context.device(), ContextFlags::empty()).unwrap();
                let there = new_stream(&own);
                let words = vec![round; case.n];
                let source = DeviceBuffer::from_host(&there, &words).unwrap();
                let mut sink = DeviceBuffer::<u32>::zeroed(&there, case.n).unwrap();
                case.hold_up(&owner);
                copy_peer(&mut buffer, &source);
                copy_peer(&mut sink, &buffer);
            }
            case.expect(&buffer, round);
            buffer.set_zero().unwrap();
            case.expect(&buffer, 0);
        }
    });
}

/// Claim: using an object of another context fails before the driver is called, and nothing is
/// queued.
#[test]
fn objects_of_the_wrong_context_are_refused() {
    Attack::new().with_two_contexts().run(|case| {
        let other = case.other();
        let (owner, there) = (case.stream(), other.stream());
        let (mut a, mut b) = (case.filled(&owner, 1), other.filled(&there, 2));
        let event = case.event();
        assert!(event.record(&there).is_err(), "{}", case.title);
        assert!(case.copy(&there, a.as_mut_slice(), b.as_slice()).is_err());
        let clone = b.try_clone().unwrap();
        assert!(
            other
                .copy(&owner, b.as_mut_slice(), clone.as_slice())
                .is_err()
        );
        assert!(case.copy(&owner, a.as_mut_slice(), b.as_slice()).is_err());
        assert!(a.copy_from_pinned_async(case.pinned(9), &there).is_err());
        assert!(b.copy_from_pinned_async(case.pinned(9), &owner).is_err());
        assert!(there.write_value(&a, 0, 9_u32).is_err(), "{}", case.title);
        let mut graph = case.graph();
        assert!(
            graph.add_fill(&[], &mut b, 9_u32).is_err(),
            "{}",
            case.title
        );
        assert!(graph.add_copy(&[], &mut a, &b).is_err(), "{}", case.title);
        graph.add_fill(&[], &mut a, 3_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        assert!(exec.launch(&there).is_err(), "{}", case.title);
        let foreign = Graph::new(&other.context).unwrap();
        assert!(graph.add_child(&[], &foreign).is_err(), "{}", case.title);
        assert!(exec.update(&foreign).is_err(), "{}", case.title);
        let pool = CachingPool::new(&case.context);
        assert!(
            DeviceBuffer::<u32>::zeroed_in(&pool, &there, 8).is_err(),
            "{}",
            case.title
        );
        let captured = Graph::capture(&case.context, |scope| scope.fill(&mut b, 9_u32).map(drop));
        assert!(captured.is_err(), "{}", case.title);
        case.expect(&a, 1);
        case.expect(&b, 2);
    });
}

/// Claim: streams can wait for events and streams of other contexts, which are kept alive. They are
/// dropped before they are done.
#[test]
fn streams_wait_across_contexts() {
    Attack::new().with_two_contexts().run(|case| {
        let owner = case.stream();
        let (mut buffer, one) = (case.filled(&owner, 1), case.filled(&owner, 1));
        for _ in 0..4 {
            let (stream, there) = (case.stream(), case.other().stream());
            case.hold_up(&stream);
            case.mix(&stream, buffer.as_mut_slice(), one.as_slice())
                .unwrap();
            let event = case.event();
            event.record(&stream).unwrap();
            there.wait(&event).unwrap();
            let back = case.other().event();
            back.record(&there).unwrap();
            drop((stream, event, there));
            owner.wait(&back).unwrap();
        }
        case.expect(&buffer, 31);
    });
}

/// Copies from one side to the other and back, several times.
fn ping_pong(case: &Case, sides: [&Side; 2], first: u32) {
    let streams = sides.map(Side::stream);
    let mut a = sides[0].filled(&streams[0], first);
    let mut b = sides[1].filled(&streams[1], 0);
    for round in 0..4 {
        case.hold_up(&streams[round % 2]);
        copy_peer(&mut b, &a);
        let twice = b.try_clone().unwrap();
        sides[1]
            .mix(&streams[1], b.as_mut_slice(), twice.as_slice())
            .unwrap();
        drop(twice);
        copy_peer(&mut a, &b);
    }
    case.expect(&a, first * 81);
}

/// Claim: peer copies by threads in both directions are ordered, while peer access between the
/// devices is enabled.
#[test]
fn threads_copy_both_ways_while_access_is_enabled() {
    Attack::new().with_two_contexts().run(|case| {
        let other = case.other();
        thread::scope(|scope| {
            for thread in 0..case.threads {
                let sides = if thread % 2 == 0 {
                    [&**case, other]
                } else {
                    [other, &**case]
                };
                scope.spawn(move || ping_pong(case, sides, 1 + thread as u32));
            }
            scope.spawn(|| {
                for _ in 0..4 {
                    // Devices without a link do not support peer access.
                    let _ = case.context.enable_peer_access(&other.context);
                    let _ = other.context.enable_peer_access(&case.context);
                }
            });
        });
    });
}
