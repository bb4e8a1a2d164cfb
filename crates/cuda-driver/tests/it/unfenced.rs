//! Unfenced uses: uses on the per-thread stream whose events could not be recorded.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{COPY, filled, late, software};

const N: u32 = 1 << 8;

#[test]
fn others_wait_for_an_unfenced_use() {
    for seed in 0..16 {
        let fixture = software(late(seed));
        let (simulator, owner) = (fixture.simulator.as_ref().unwrap(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let own = fixture.context.per_thread_stream();
        // `own` owns the buffers that the launches on it use, except `y`, which they do not use. So
        // the only event that a launch on it records is the fence of its uses.
        let (source, other) = (filled(&own, N, 3), filled(&own, N, 5));
        let (mut x, mut y) = (filled(&own, N, 0), filled(&owner, N, 0));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let full = Status::CUDA_ERROR_OUT_OF_MEMORY;
        for value in [&source, &other] {
            simulator.add_rule(Rule::new(full).function("cuEventRecord"));
            // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
            unsafe { own.launch(&copy, config, (value, &mut x, N)) }.unwrap();
            simulator.clear_rules();
            thread::scope(|scope| {
                scope.spawn(|| {
                    // SAFETY: as above.
                    unsafe { owner.launch(&copy, config, (&x, &mut y, N)) }.unwrap();
                });
            });
            let expected = if std::ptr::eq(value, &source) { 3 } else { 5 };
            assert_eq!(y.to_vec().unwrap(), vec![expected; N as usize], "{seed}");
        }
    }
}

#[test]
fn wait_for_an_unfenced_use_blocks_no_other_thread() {
    let fixture = software(Builder::new());
    let (simulator, owner) = (fixture.simulator.as_ref().unwrap(), fixture.stream());
    let copy = fixture.kernel(COPY, "copy");
    let own = fixture.context.per_thread_stream();
    let source = filled(&own, N, 3);
    let (mut x, mut y, mut z) = (
        filled(&own, N, 0),
        filled(&owner, N, 0),
        filled(&owner, N, 0),
    );
    let config = LaunchConfig::for_num_elems(N).unwrap();
    let mut holder = Graph::new(&fixture.context).unwrap();
    holder.add_fill(&[], &mut x, 1_u32).unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    graph.add_fill(&[], &mut z, 9_u32).unwrap();
    let exec = graph.instantiate().unwrap();
    owner.synchronize().unwrap();
    let (go, waiting) = mpsc::channel::<()>();
    let (sender, in_time) = mpsc::channel();
    own.launch_host(move || {
        let _ = sender.send(waiting.recv_timeout(Duration::from_secs(5)).is_ok());
    })
    .unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function("cuEventRecord"));
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { own.launch(&copy, config, (&source, &mut x, N)) }.unwrap();
    simulator.clear_rules();
    thread::scope(|scope| {
        let (owner, copy, x, y) = (&owner, &copy, &x, &mut y);
        scope.spawn(move || {
            // SAFETY: as above. This waits for the host function, and meanwhile holds nothing that
            // others need.
            unsafe { owner.launch(copy, config, (x, y, N)) }.unwrap();
        });
        thread::sleep(Duration::from_millis(200));
        exec.launch(&fixture.stream()).unwrap();
        go.send(()).unwrap();
    });
    assert_eq!(in_time.recv(), Ok(true));
    assert_eq!(y.to_vec().unwrap(), vec![3; N as usize]);
    assert_eq!(z.to_vec().unwrap(), vec![9; N as usize]);
}

/// The launch uses memory of a graph, so it holds the replay lock when it finds the unfenced use.
#[test]
fn unfenced_use_in_another_context_does_not_fail_a_launch() {
    for seed in 0..4 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.as_ref().unwrap();
        let copy = fixture.kernel(COPY, "copy");
        let other = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let (own, peer) = (
            fixture.context.per_thread_stream(),
            other.per_thread_stream(),
        );
        let stream = fixture.stream();
        // Per-thread streams own the buffers, so the fences of the uses so far are recorded. Only
        // the copy below is unfenced.
        let (mut x, mut y, mut z) = (filled(&own, N, 3), filled(&own, N, 5), filled(&peer, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        graph.add_fill(&[], &mut x, 1_u32).unwrap();
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function("cuEventRecord"));
        z.as_mut_slice().copy_from_peer(y.as_slice()).unwrap();
        simulator.clear_rules();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe { stream.launch(&copy, config, (&x, &mut y, N)) }.unwrap();
        assert_eq!(z.to_vec().unwrap(), vec![5; N as usize], "{seed}");
        assert_eq!(y.to_vec().unwrap(), vec![3; N as usize], "{seed}");
    }
}
