//! Executable graphs: launches, updates, and their costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use cuda_driver::error::{Error, Status};
use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{COPY, Fixture, MIX, assert_all, everywhere, filled, late, software};

const N: u32 = 1 << 10;

/// Returns an executable with one kernel node that computes `x = 2 * x + y`.
fn mixing(fixture: &Fixture, x: &mut DeviceBuffer<u32>, y: &DeviceBuffer<u32>) -> GraphExec {
    let mix = fixture.kernel(MIX, "mix");
    let mut graph = Graph::new(&fixture.context).unwrap();
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe {
        graph.add_kernel(
            &[],
            &mix,
            LaunchConfig::for_num_elems(N).unwrap(),
            (x, y, N),
        )
    }
    .unwrap();
    graph.instantiate().unwrap()
}

#[test]
fn launch_is_one_call_unless_its_memory_was_used() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let calls = |f: &dyn Fn()| {
        simulator.reset_calls();
        f();
        let calls = simulator.calls();
        let named = calls
            .into_iter()
            .map(|(name, count)| (name.to_string(), count));
        named.collect::<Vec<_>>()
    };
    let (owner, other) = (fixture.stream(), fixture.stream());
    let (mut x, y) = (filled(&owner, N, 1), filled(&owner, N, 2));
    let exec = mixing(&fixture, &mut x, &y);
    exec.launch(&owner).unwrap();
    let one = [("cuGraphLaunch".to_owned(), 1)];
    assert_eq!(calls(&|| exec.launch(&owner).unwrap()), one);
    // The driver orders the launches of one executable.
    assert_eq!(calls(&|| exec.launch(&other).unwrap()), one);
    assert_eq!(calls(&|| exec.launch(&owner).unwrap()), one);
    // The read waits for the last launch, on the same stream.
    let _ = x.to_vec().unwrap();
    // The use on the owning stream left an event, which a launch on that stream need not wait for.
    assert_eq!(calls(&|| exec.launch(&owner).unwrap()), one);
    // The first launch on another stream waits for the untracked uses on the owning stream; later
    // launches wait for one use.
    let _ = x.to_vec().unwrap();
    exec.launch(&other).unwrap();
    let _ = x.to_vec().unwrap();
    let waited = [
        ("cuGraphLaunch".to_owned(), 1),
        ("cuStreamWaitEvent".to_owned(), 1),
    ];
    assert_eq!(calls(&|| exec.launch(&other).unwrap()), waited);
    assert_eq!(calls(&|| exec.launch(&owner).unwrap()), one);
}

#[test]
fn threads_launch_executables_that_share_memory() {
    for fixture in everywhere() {
        let owner = fixture.stream();
        let (mut x, mut y) = (filled(&owner, N, 0), filled(&owner, N, 1));
        let (add, swap) = (mixing(&fixture, &mut x, &y), {
            let mut graph = Graph::new(&fixture.context).unwrap();
            graph.add_fill(&[], &mut y, 1_u32).unwrap();
            graph.instantiate().unwrap()
        });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = fixture.stream();
                    for _ in 0..8 {
                        add.launch(&stream).unwrap();
                        swap.launch(&stream).unwrap();
                    }
                });
            }
            let reader = fixture.stream();
            let copy = fixture.kernel(COPY, "copy");
            let mut seen = filled(&reader, N, 0);
            for _ in 0..8 {
                // SAFETY: the kernel touches N words of each; each has N.
                unsafe {
                    reader.launch(
                        &copy,
                        LaunchConfig::for_num_elems(N).unwrap(),
                        (&x, &mut seen, N),
                    )
                }
                .unwrap();
                let words = seen.to_vec().unwrap();
                // A reader never observes a partial launch.
                assert!(
                    words.iter().all(|word| *word == words[0]),
                    "{}",
                    fixture.name
                );
                assert!((words[0].wrapping_add(1)).count_ones() <= 1, "{}", words[0]);
            }
        });
        // 32 times 2 * x + 1
        assert_all(&x, u32::MAX, &fixture.name);
    }
}

#[test]
fn changed_parameters_apply_from_the_next_launch_on() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = fixture.kernel(MIX, "mix");
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 1));
        let (mut out, mut other) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let called = Arc::new(AtomicU32::new(0));
        let count = |by: u32| {
            let called = Arc::clone(&called);
            move || {
                called.fetch_add(by, Ordering::SeqCst);
            }
        };
        let mut graph = Graph::new(&fixture.context).unwrap();
        let fill = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let kernel = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        let copy = graph.add_copy(&[], &mut out, &x).unwrap();
        let host = graph.add_host(&[copy.edge()], count(1)).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        exec.set_fill(fill, &mut x, 10_u32).unwrap();
        exec.set_host(host, count(100)).unwrap();
        let launched = exec.launch(&stream);
        launched.unwrap();
        assert_all(&out, 21, &fixture.name);
        stream.synchronize().unwrap();
        assert_eq!(called.load(Ordering::SeqCst), 101);
        {
            let z = filled(&stream, N, 5);
            // SAFETY: as above.
            unsafe { exec.set_kernel(kernel, &mix, config, (&mut x, &z, N)) }.unwrap();
        }
        exec.set_copy(copy, &mut other, &x).unwrap();
        // The next buffer must not reuse the memory of `z`.
        let next = filled(&stream, N, 77);
        exec.launch(&stream).unwrap();
        assert_all(&other, 25, &fixture.name);
        assert_all(&out, 21, &fixture.name);
        exec.set_enabled(kernel, false).unwrap();
        assert!(!exec.is_enabled(kernel).unwrap() && exec.is_enabled(fill).unwrap());
        exec.launch(&stream).unwrap();
        assert_all(&other, 10, &fixture.name);
        assert_all(&next, 77, &fixture.name);
        // A failed update changes nothing.
        let late = graph.add_fill(&[], &mut y, 1_u32).unwrap();
        assert_eq!(exec.set_fill(late, &mut y, 2_u32), Err(Error::OtherGraph));
        let before = filled(&stream, N, 0);
        let short = x.slice(..1).unwrap();
        let mismatch = exec.set_copy(copy, &mut other, short).unwrap_err();
        assert!(matches!(mismatch, Error::LengthMismatch { .. }));
        exec.launch(&stream).unwrap();
        assert_all(&other, 10, &fixture.name);
        assert_all(&before, 0, &fixture.name);
    }
}

#[test]
fn an_update_must_not_let_two_nodes_race() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y, mut z) = (
            filled(&stream, N, 0),
            filled(&stream, N, 0),
            filled(&stream, N, 0),
        );
        let mut graph = Graph::new(&fixture.context).unwrap();
        let first = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let second = graph.add_fill(&[], &mut y, 2_u32).unwrap();
        let third = graph.add_fill(&[second.edge()], &mut z, 3_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        let other = Error::GraphOrder { other: 1 };
        assert_eq!(exec.set_fill(first, &mut y, 5_u32), Err(other));
        // These two nodes are ordered.
        exec.set_fill(third, &mut y, 5_u32).unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&x, 1, &fixture.name);
        assert_all(&y, 5, &fixture.name);
        assert_all(&z, 0, &fixture.name);
    }
}

#[test]
fn executable_updates_to_graph_of_same_shape() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = fixture.kernel(MIX, "mix");
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut out = filled(&stream, N, 0);
        let build = |out: &mut DeviceBuffer<u32>, value: u32, is_longer: bool| {
            let (mut x, y) = (filled(&stream, N, 9), filled(&stream, N, value));
            let mut graph = Graph::new(&fixture.context).unwrap();
            let fill = graph.add_fill(&[], &mut x, value).unwrap();
            // SAFETY: the kernel touches N words of each; each has N.
            unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
            graph.add_copy(&[], &mut *out, &x).unwrap();
            if is_longer {
                graph.add_empty(&[]).unwrap();
            }
            (graph, fill)
        };
        let (graph, fill) = build(&mut out, 1, false);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let (other, _) = build(&mut out, 2, false);
        exec.update(&other).unwrap();
        drop(other);
        let scratch = filled(&stream, N, 1000);
        exec.launch(&stream).unwrap();
        assert_all(&out, 6, &fixture.name);
        let (longer, _) = build(&mut out, 3, true);
        let refused = exec.update(&longer).unwrap_err();
        let Error::GraphUpdate(refused) = refused else {
            panic!("{refused}");
        };
        let topology =
            cuda_sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        assert_eq!(refused.reason(), topology, "{refused}");
        exec.launch(&stream).unwrap();
        assert_all(&out, 6, &fixture.name);
        // A single node can still be changed.
        let mut again = filled(&stream, N, 0);
        exec.set_fill(fill, &mut again, 8_u32).unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&again, 8, &fixture.name);
        assert_all(&scratch, 1000, &fixture.name);
    }
}

#[test]
fn a_panic_of_a_closure_leaves_the_stream_usable() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let host = graph.add_host(&[], || panic!("on purpose")).unwrap();
        graph.add_fill(&[host.edge()], &mut x, 3_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
            assert_all(&x, 3, &fixture.name);
            let message = String::from("on purpose");
            let expected = Error::HostFunctionPanicked { message };
            assert_eq!(exec.check_host(), Err(expected));
            assert_eq!(exec.check_host(), Ok(()));
        }
    }
}

#[test]
fn host_guards_exclude_conflicting_launches() {
    for seed in 0..8 {
        host_memory(&software(late(seed)));
    }
    for fixture in everywhere() {
        host_memory(&fixture);
    }
}

fn host_memory(fixture: &Fixture) {
    let (stream, other) = (fixture.stream(), fixture.stream());
    let host = || {
        let flags = PinnedFlags::default();
        let pinned = PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, flags).unwrap();
        GraphHostBuffer::new(pinned).unwrap()
    };
    let (input, output) = (host(), host());
    let mut x = filled(&stream, N, 0);
    let mut graph = Graph::new(&fixture.context).unwrap();
    graph.add_copy(&[], &mut x, &input).unwrap();
    graph.add_copy(&[], &output, &x).unwrap();
    let refused = graph.add_copy::<u32>(&[], &input, &input.clone());
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    let exec = graph.instantiate().unwrap();
    for round in 1..5_u32 {
        input.write().unwrap().fill(round);
        exec.launch(if round % 2 == 0 { &stream } else { &other })
            .unwrap();
        assert!(
            output.read().unwrap().iter().all(|word| *word == round),
            "{}",
            fixture.name
        );
    }
    let borrowed = |result: Result<(), Error>| matches!(result, Err(Error::HostGuardExists { .. }));
    {
        let reading = input.read().unwrap();
        // The graph only reads the memory too.
        exec.launch(&stream).unwrap();
        assert!(input.read().is_ok() && borrowed(input.write().map(drop)));
        drop(reading);
        let _writing = input.write().unwrap();
        assert!(borrowed(exec.launch(&stream)) && borrowed(input.read().map(drop)));
        // An executable that is instantiated meanwhile is refused as well.
        let second = graph.instantiate().unwrap();
        assert!(borrowed(second.launch(&stream)));
    }
    {
        let _reading = output.read().unwrap();
        assert!(borrowed(exec.launch(&stream)));
    }
    exec.launch(&stream).unwrap();
    drop((exec, graph));
    assert!(
        output.read().unwrap().iter().all(|word| *word == 4),
        "{}",
        fixture.name
    );
}

#[test]
fn a_launch_that_fails_does_not_hide_the_one_that_runs() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.as_ref().unwrap();
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mut x = filled(&stream, N, 0);
        let pinned = PinnedBuffer::zeroed(&fixture.context, N as usize, PinnedFlags::default());
        let host = GraphHostBuffer::<u32>::new(pinned.unwrap()).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_fill(&[], &mut x, 7_u32).unwrap();
        graph.add_copy(&[], &host, &x).unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let full = Status::CUDA_ERROR_OUT_OF_MEMORY;
        simulator.add_rule(Rule::new(full).function("cuGraphLaunch"));
        assert_eq!(exec.launch(&other).unwrap_err().status(), Some(full));
        simulator.clear_rules();
        // Access by the host and the free both wait for the first launch, which is on a different
        // stream than the failed second one.
        assert!(host.read().unwrap().iter().all(|word| *word == 7), "{seed}");
        drop((exec, graph));
        assert_eq!(x.to_vec().unwrap(), vec![7; N as usize], "{seed}");
    }
}
