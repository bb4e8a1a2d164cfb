//! Resources that graphs keep alive, and when they are released.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::Error;
use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use cuda_sim::Live;

use crate::support::{COPY, Fixture, MIX, everywhere, filled, late, software};
use crate::task::until;

const N: u32 = 1 << 8;

/// Returns the number of live handles of graphs and of the objects that they own, and of
/// page-locked blocks.
fn live(fixture: &Fixture) -> Option<[usize; 5]> {
    let simulator = fixture.simulator.as_ref()?;
    let Live {
        modules,
        graphs,
        graph_execs,
        allocations,
        host_allocations,
        ..
    } = simulator.live();
    Some([modules, graphs, graph_execs, allocations, host_allocations])
}

/// Waits until as many objects are live as before: resources of running launches are checked ten
/// times a second.
fn expect_live(fixture: &Fixture, before: Option<[usize; 5]>) {
    let start = Instant::now();
    // The context keeps staging blocks.
    let differs = |before: [usize; 5]| {
        let now = live(fixture).unwrap();
        now[..4] != before[..4] || now[4] > before[4] + 2
    };
    while before.is_some_and(differs) {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}, not {before:?}",
            live(fixture)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns an executable with every kind of node that owns something; it writes its result to the
/// host buffer.
fn everything(
    fixture: &Fixture,
    stream: &Stream,
    closure: Arc<()>,
) -> (GraphExec, GraphHostBuffer<u32>) {
    let (mix, copy) = (fixture.kernel(MIX, "mix"), fixture.kernel(COPY, "copy"));
    let config = LaunchConfig::for_num_elems(N).unwrap();
    let (mut x, y, mut z) = (
        filled(stream, N, 0),
        filled(stream, N, 1),
        filled(stream, N, 0),
    );
    let pinned =
        PinnedBuffer::zeroed(&fixture.context, N as usize, PinnedFlags::default()).unwrap();
    let host = GraphHostBuffer::new(pinned).unwrap();
    let mut inner = Graph::new(&fixture.context).unwrap();
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { inner.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    graph.add_child(&[], &inner).unwrap();
    // SAFETY: as above.
    unsafe { graph.add_kernel(&[], &copy, config, (&x, &mut z, N)) }.unwrap();
    let copied = graph.add_copy(&[], &host, &z).unwrap();
    let keep = move || {
        let _kept = &closure;
    };
    graph.add_host(&[copied.edge()], keep).unwrap();
    let clone = graph.try_clone().unwrap();
    drop(graph);
    (clone.instantiate().unwrap(), host)
}

#[test]
fn thousand_launches_after_dropped_owners_leak_nothing() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        // Fills the caches of the context first.
        drop(everything(&fixture, &stream, Arc::default()));
        stream.synchronize().unwrap();
        let before = live(&fixture);
        let closure = Arc::new(());
        let (exec, host) = everything(&fixture, &stream, Arc::clone(&closure));
        assert_eq!(Arc::strong_count(&closure), 2);
        let mut expected = 0_u32;
        for _ in 0..1000 {
            exec.launch(&stream).unwrap();
            expected = expected.wrapping_mul(2).wrapping_add(1);
        }
        assert!(
            host.read().unwrap().iter().all(|word| *word == expected),
            "{}",
            fixture.name
        );
        drop((exec, host));
        let start = Instant::now();
        while Arc::strong_count(&closure) > 1 {
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "the closure is still alive"
            );
            thread::sleep(Duration::from_millis(5));
        }
        stream.synchronize().unwrap();
        expect_live(&fixture, before);
    }
}

#[test]
fn a_graph_that_is_dropped_while_it_runs_runs_to_its_end() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        // Allocates the staging blocks first.
        assert_eq!(filled(&stream, N, 1).to_vec().unwrap(), vec![1; N as usize]);
        stream.synchronize().unwrap();
        let before = live(&fixture);
        let mix = fixture.kernel(MIX, "mix");
        let (mut x, y) = (filled(&stream, N, 3), filled(&stream, N, 4));
        let (go, waiting) = mpsc::channel::<()>();
        let waiting = std::sync::Mutex::new(waiting);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let held_up = graph
            .add_host(&[], move || waiting.lock().unwrap().recv().unwrap())
            .unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let after = [held_up.edge()];
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { graph.add_kernel(&after, &mix, config, (&mut x, &y, N)) }.unwrap();
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        // None of these drops waits, and none frees memory that the launch will use.
        drop((graph, exec, y));
        let others: Vec<_> = (0..4)
            .map(|_| DeviceBuffer::filled(&fixture.stream(), N as usize, 9_u32).unwrap())
            .collect();
        go.send(()).unwrap();
        assert_eq!(
            x.to_vec().unwrap(),
            vec![10; N as usize],
            "{}",
            fixture.name
        );
        drop((others, x, mix));
        stream.synchronize().unwrap();
        expect_live(&fixture, before);
    }
}

#[test]
fn leased_memory_is_freed_with_its_last_graph() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let count = || live(&fixture).map(|[.., allocations, _]| allocations);
        let before = count();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let mut x = filled(&stream, N, 0);
        graph.add_fill(&[], &mut x, 1_u32).unwrap();
        x.close().unwrap();
        let clone = graph.try_clone().unwrap();
        let (first, second) = (graph.instantiate().unwrap(), clone.instantiate().unwrap());
        let one_more = before.map(|before| before + 1);
        for owner in [
            Box::new(graph) as Box<dyn std::any::Any>,
            Box::new(first),
            Box::new(clone),
        ] {
            drop(owner);
            stream.synchronize().unwrap();
            assert_eq!(count(), one_more);
        }
        second.launch(&stream).unwrap();
        drop(second);
        stream.synchronize().unwrap();
        assert_eq!(count(), before, "{}", fixture.name);
    }
}

#[test]
fn pool_memory_returns_after_launches_of_its_graph() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let (stream, other) = (fixture.stream(), fixture.stream());
        let pool = CachingPool::new(&fixture.context);
        let mut seen = filled(&stream, N, 0);
        let exec = {
            let mut x = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, N as usize).unwrap();
            let mut graph = Graph::new(&fixture.context).unwrap();
            graph.add_fill(&[], &mut x, 5_u32).unwrap();
            graph.add_copy(&[], &mut seen, &x).unwrap();
            graph.instantiate().unwrap()
        };
        assert!(pool.statistics().bytes_in_use > 0);
        exec.launch(&other).unwrap();
        drop(exec);
        assert_eq!(pool.statistics().bytes_in_use, 0);
        // The pool returns the same block, and its next owner must take over its uses on other
        // streams.
        let mut next = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, N as usize).unwrap();
        next.fill(6).unwrap();
        assert_eq!(pool.statistics().hits, 1);
        assert_eq!(seen.to_vec().unwrap(), vec![5; N as usize], "{seed}");
        assert_eq!(next.to_vec().unwrap(), vec![6; N as usize], "{seed}");
    }
}

#[test]
fn replaced_owners_are_dropped_after_last_launch() {
    let mut late_ones = 0;
    for seed in 0..8 {
        let mut fixture = software(late(seed));
        let simulator = fixture.simulator.take().unwrap();
        {
            let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
            let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 2));
            let mut graph = Graph::new(&fixture.context).unwrap();
            let config = LaunchConfig::for_num_elems(N).unwrap();
            // SAFETY: the kernel touches N words of each; each has N.
            let node = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
            let exec = graph.instantiate().unwrap();
            exec.launch(&stream).unwrap();
            // The launch is in flight and keeps its original kernel.
            let again = fixture.kernel(MIX, "mix");
            // SAFETY: as above.
            unsafe { exec.set_kernel(node, &again, config, (&mut x, &y, N)) }.unwrap();
            assert_eq!(x.to_vec().unwrap(), vec![4; N as usize], "{seed}");
        }
        drop(fixture);
        let is_gone = || {
            let live = simulator.live();
            (live.modules, live.host_allocations) == (0, 0)
        };
        late_ones += u32::from(!is_gone());
        until(
            "all resources are released",
            Duration::from_secs(1),
            is_gone,
        );
    }
    // The resources are released at once, without the thread that processes deferred work, unless
    // that thread is handling them at that moment.
    assert!(late_ones <= 2, "{late_ones} of 8");
}

#[test]
fn an_executable_outlives_its_graph_and_keeps_node_handles() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 0);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let fill = graph.add_fill(&[], &mut x, 1_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        assert!(matches!(graph.close(), Err(Error::StillInUse { .. })));
        exec.set_fill(fill, &mut x, 2_u32).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![2; N as usize], "{}", fixture.name);
        exec.close().unwrap();
    }
}
