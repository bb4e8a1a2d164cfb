//! Modules and libraries that are dropped while work that uses them is in flight.

use std::thread;

use cuda_driver::jit::JitOptions;
use cuda_driver::prelude::*;
use cuda_driver::{Error, Library};

use crate::set_up::{MIX, VARIABLES, load};
use crate::support::{Attack, Case};

fn variables(case: &Case) -> Module {
    load(&case.context, VARIABLES)
}

fn library(case: &Case) -> Library {
    let image = Ptx::new(VARIABLES).unwrap();
    Library::load(case.context.driver(), &image, &JitOptions::default()).unwrap()
}

fn scale(function: &Function, stream: &Stream, words: &mut DeviceBuffer<u32>) {
    // SAFETY: the kernel reads and writes four words ← the buffers of these programs have four.
    unsafe { stream.launch(function, LaunchConfig::new(1, 4), (words,)) }.unwrap();
}

/// Claim: a module waits for its context before it is unloaded. Modules and functions are dropped
/// in all orders while their kernels are queued, and others are loaded in their place.
#[test]
fn modules_are_dropped_while_their_kernels_run() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32; 4]).unwrap();
        for round in 0..6 {
            let module = variables(case);
            let function = module.function("scale").unwrap();
            let again = function.clone();
            case.hold_up(&stream);
            match round % 3 {
                0 => {
                    drop(module);
                    scale(&function, &stream, &mut words);
                    drop((function, again));
                }
                1 => {
                    scale(&again, &stream, &mut words);
                    drop((function, again, module));
                }
                _ => {
                    scale(&function, &stream, &mut words);
                    drop(function);
                    thread::spawn(move || drop((module, again))).join().unwrap();
                }
            }
            // Another module may be loaded at the address of the code.
            drop(load(&case.context, MIX));
        }
        assert_eq!(
            words.to_vec().unwrap(),
            [1, 64, 729, 4096],
            "{}",
            case.title
        );
    });
}

/// Claim: the memory of a variable belongs to its module, which waits for its uses. Globals are
/// dropped with their modules while copies read and write them on other streams, and the same image
/// is loaded again.
#[test]
fn modules_are_dropped_during_copies_of_their_variables() {
    Attack::new().run(|case| {
        let (stream, reader) = (case.stream(), case.stream());
        let mut results = Vec::new();
        for round in 1..5_u32 {
            let module = variables(case);
            let mut counter = module.global::<u32>("counter", &stream).unwrap();
            counter.copy_from_host(&[round]).unwrap();
            let mut result = DeviceBuffer::<u32>::zeroed(&reader, 1).unwrap();
            let pinned = PinnedBuffer::<u32>::zeroed(&case.context, 1, PinnedFlags::default());
            case.hold_up(&reader);
            case.copy(&reader, result.as_mut_slice(), counter.as_slice())
                .unwrap();
            let transfer = counter
                .copy_to_pinned_async(pinned.unwrap(), &reader)
                .unwrap();
            drop((counter, module));
            let next = variables(case);
            let mut counter = next.global::<u32>("counter", &stream).unwrap();
            counter.as_mut_slice().fill(99).unwrap();
            results.push((result, transfer, round));
        }
        for (result, transfer, round) in results {
            assert_eq!(result.to_vec().unwrap(), [round], "{}", case.title);
            assert_eq!(transfer.wait().unwrap()[0], round, "{}", case.title);
        }
    });
}

/// Claim: a graph keeps everything that its nodes use alive, including the modules of kernels and
/// of variables. All handles are dropped while it runs.
#[test]
fn modules_are_dropped_before_their_graphs() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32; 4]).unwrap();
        let mut one = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let exec = {
            let module = variables(case);
            let library = library(case);
            let function = module.function("scale").unwrap();
            let also = library
                .kernel("scale")
                .unwrap()
                .function(&case.context)
                .unwrap();
            let counter = module.global::<u32>("counter", &stream).unwrap();
            let mut graph = case.graph();
            let config = LaunchConfig::new(1, 4);
            // SAFETY: the kernel reads and writes four words ← the buffer has four.
            unsafe { graph.add_kernel(&[], &function, config, (&mut words,)) }.unwrap();
            // SAFETY: the kernel reads and writes four words ← the buffer has four.
            unsafe { graph.add_kernel(&[], &also, config, (&mut words,)) }.unwrap();
            // The graph either rejects the variable or keeps it alive.
            let _ = graph.add_copy(&[], &mut one, counter.as_slice());
            graph.instantiate().unwrap()
        };
        drop(load(&case.context, MIX));
        for _ in 0..2 {
            case.launch_late(&exec, &stream);
        }
        drop(exec);
        assert_eq!(words.to_vec().unwrap(), [1, 16, 81, 256], "{}", case.title);
        let value = one.to_vec().unwrap()[0];
        assert!(value == 5 || value == 0, "{}: {value}", case.title);
    });
}

/// Claim: a library waits for every context in which it was used, and keeps those contexts alive
/// until then.
#[test]
fn libraries_are_dropped_while_kernels_of_two_contexts_run() {
    Attack::new().with_two_contexts().run(|case| {
        let other = case.other();
        for _ in 0..3 {
            let library = library(case);
            let kernel = library.kernel("scale").unwrap();
            let mut used = Vec::new();
            for side in [&**case, other] {
                let stream = side.stream();
                let function = kernel.function(&side.context).unwrap();
                let mut words = DeviceBuffer::from_host(&stream, &[1_u32; 4]).unwrap();
                case.hold_up(&stream);
                scale(&function, &stream, &mut words);
                used.push((words, stream));
            }
            drop(library);
            drop(kernel);
            for (words, _) in &used {
                assert_eq!(words.to_vec().unwrap(), [1, 2, 3, 4], "{}", case.title);
            }
        }
    });
}

/// Claim: a variable has one owner at a time, and the dependencies of its uses are preserved. It is
/// taken out, used on another stream, given back and taken out again, while kernels use it by name
/// on its owning stream.
#[test]
fn variables_are_handed_over_in_order() {
    Attack::new().run(|case| {
        let streams = [case.stream(), case.stream(), case.stream()];
        let module = variables(case);
        let bump = module.function("bump").unwrap();
        let mut expected = 5;
        for round in 0..6_u32 {
            let owning = &streams[case.pick(3)];
            let mut counter = module.global::<u32>("counter", owning).unwrap();
            let second = module.global::<u32>("counter", &streams[0]);
            assert!(
                matches!(second, Err(Error::GlobalInUse { .. })),
                "{}",
                case.title
            );
            let add = DeviceBuffer::from_host(&streams[1], &[round]).unwrap();
            let side = &streams[case.pick(3)];
            case.hold_up(side);
            case.mix(side, counter.as_mut_slice(), add.as_slice())
                .unwrap();
            expected = 2 * expected + round;
            // The owning stream waits for the other use before the kernel that uses the variable by
            // name.
            counter.as_mut_slice().fill(expected).unwrap();
            // SAFETY: the kernel adds to the variable, whose owning stream this is.
            unsafe { owning.launch(&bump, LaunchConfig::new(1, 1), (3_u32,)) }.unwrap();
            expected += 3;
            assert_eq!(counter.to_vec().unwrap(), [expected], "{}", case.title);
        }
    });
}

/// Claim: objects that are dropped during a capture are unloaded afterwards, and do not invalidate
/// it.
#[test]
fn modules_are_dropped_while_a_graph_is_captured() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32; 4]).unwrap();
        for _ in 0..2 {
            let module = variables(case);
            let function = module.function("scale").unwrap();
            case.hold_up(&stream);
            scale(&function, &stream, &mut words);
            let graph = Graph::capture(&case.context, |scope| {
                // SAFETY: the kernel reads and writes four words ← the buffer has four.
                unsafe { scope.launch(&function, LaunchConfig::new(1, 4), (&mut words,)) }?;
                drop((function, module));
                drop(library(case));
                drop(case.pinned(1));
                scope.host(|| {}).map(drop)
            });
            graph
                .unwrap()
                .instantiate()
                .unwrap()
                .launch(&stream)
                .unwrap();
        }
        assert_eq!(words.to_vec().unwrap(), [1, 16, 81, 256], "{}", case.title);
    });
}
