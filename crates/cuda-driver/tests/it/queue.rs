//! Functions that queue work on a stream and in a capture.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::Result;
use cuda_driver::graph::CaptureScope;
use cuda_driver::prelude::*;

use crate::support::{MIX, everywhere, filled};

const N: u32 = 1 << 10;

type Mix = Kernel<(Writes<u32>, Reads<u32>, u32)>;

/// Makes every call of a queue. `x` gets 5, and then `2 * x + y` four times; `y` gets the result.
fn all_calls<Q: Queue>(
    queue: &Q,
    mix: &Mix,
    (x, y): (&mut DeviceBuffer<u32>, &mut DeviceBuffer<u32>),
    calls: &Arc<AtomicU32>,
) -> Result<()> {
    let config = LaunchConfig::for_num_elems(N).unwrap();
    let attributes = LaunchAttributes::new().priority(0);
    queue.fill(&mut *x, 5_u32)?;
    // SAFETY: the kernel touches N words of each; each has N.
    unsafe { queue.launch(mix.function(), config, (&mut *x, &*y, N)) }?;
    // SAFETY: as above.
    unsafe { queue.launch_with(mix.function(), config, &attributes, (&mut *x, &*y, N)) }?;
    // SAFETY: as above.
    unsafe { mix.launch(queue, config, (&mut *x, &*y, N)) }?;
    // SAFETY: as above.
    unsafe { mix.launch_with(&queue, config, &attributes, (&mut *x, &*y, N)) }?;
    let calls = Arc::clone(calls);
    queue.host(move || {
        calls.fetch_add(1, Ordering::Relaxed);
    })?;
    queue.copy(y, &*x)?;
    Ok(())
}

/// Returns the words that `all_calls` computes.
fn expected(y: u32) -> u32 {
    (0..4).fold(5, |x, _| 2 * x + y)
}

#[test]
fn one_function_runs_at_once_and_is_captured() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix: Mix = fixture.kernel(MIX, "mix").typed().unwrap();
        let (mut x, mut y) = (filled(&stream, N, 0), filled(&stream, N, 3));
        let calls = Arc::new(AtomicU32::new(0));
        all_calls(&stream, &mix, (&mut x, &mut y), &calls).unwrap();
        let all = |value| vec![value; N as usize];
        assert_eq!(y.to_vec().unwrap(), all(expected(3)), "{}", fixture.name);
        stream.synchronize().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 1);

        let mut words = filled(&stream, N, 4);
        let graph = Graph::capture(&fixture.context, |scope| {
            all_calls(scope, &mix, (&mut x, &mut words), &calls)
        });
        let graph = graph.unwrap();
        // A fill, four launches, a host function and a copy.
        assert_eq!(graph.len(), 7);
        let exec = graph.instantiate().unwrap();
        let once = expected(4);
        for expected in [once, expected(once)] {
            exec.launch(&stream).unwrap();
            assert_eq!(words.to_vec().unwrap(), all(expected), "{}", fixture.name);
        }
        stream.synchronize().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn queues_return_their_context_and_the_node() {
    for fixture in everywhere() {
        fn context<Q: Queue>(queue: &Q) -> Context {
            queue.context().clone()
        }
        let stream = fixture.stream();
        let mut x = filled(&stream, N, 1);
        assert_eq!(context(&stream), fixture.context);
        assert_eq!(context(&&stream), fixture.context);
        let (graph, node) = Graph::capture_with(&fixture.context, |scope| {
            assert_eq!(context(&*scope), fixture.context);
            Queue::fill(&*scope, &mut x, 6_u32)
        })
        .unwrap();
        let exec = graph.instantiate().unwrap();
        // The node is the one that was captured: it can be changed.
        exec.set_fill(node, &mut x, 8_u32).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![8; N as usize]);
    }
}

#[test]
fn calls_inside_add_node_stay_on_the_branch() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let (mut x, mut y) = (filled(&stream, N, 1), filled(&stream, N, 1));
        let order = Arc::new(AtomicU32::new(0));
        let push = |digit: u32| {
            let order = Arc::clone(&order);
            move || {
                order.store(
                    order.load(Ordering::Relaxed) * 10 + digit,
                    Ordering::Relaxed,
                )
            }
        };
        let capture = |scope: &mut CaptureScope<'_>| {
            let scope: &CaptureScope<'_> = scope;
            scope.add_node(|graph, after| {
                scope.fill(&mut y, 2_u32)?;
                scope.host(push(1))?;
                graph.add_fill(after, &mut x, 3_u32)
            })?;
            // Runs after the host function inside.
            scope.host(push(2)).map(drop)
        };
        let graph = Graph::capture(&fixture.context, capture).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![3; N as usize]);
        assert_eq!(y.to_vec().unwrap(), vec![2; N as usize]);
        stream.synchronize().unwrap();
        assert_eq!(order.load(Ordering::Relaxed), 12, "{}", fixture.name);
    }
}
