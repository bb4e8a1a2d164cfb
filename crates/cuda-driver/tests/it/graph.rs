//! Graphs built node by node.

use cuda_driver::prelude::*;
use cuda_driver::{Error, Graph};

use crate::support::{Bench, COPY, MIX, everywhere, late, software};

const N: u32 = 1 << 10;

fn filled(stream: &Stream, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_host(stream, &vec![value; N as usize]).unwrap()
}

fn is_all(buffer: &DeviceBuffer<u32>, value: u32) -> bool {
    buffer.to_vec().unwrap().iter().all(|word| *word == value)
}

#[test]
fn nodes_that_share_memory_run_in_the_order_in_which_they_were_added() {
    for bench in everywhere("nodes_that_share_memory_run_in_the_order_in_which_they_were_added") {
        let (stream, mix) = (bench.stream(), bench.kernel(MIX, "mix"));
        let (mut x, mut y) = (filled(&stream, 0), filled(&stream, 0));
        let mut result = filled(&stream, 0);
        let mut graph = Graph::new(&bench.context).unwrap();
        graph.fill(&[], &mut x, 3_u32).unwrap();
        graph.fill(&[], &mut y, 5_u32).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { graph.kernel(&[], &mix, LaunchConfig::for_num_elems(N), (&mut x, &y, N)) }
            .unwrap();
        graph.copy(&[], &mut result, &x).unwrap();
        graph.fill(&[], &mut x, 1_u32).unwrap();
        // SAFETY: as above.
        unsafe { graph.kernel(&[], &mix, LaunchConfig::for_num_elems(N), (&mut y, &x, N)) }
            .unwrap();
        assert_eq!(graph.len(), 6);
        let exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            assert!(is_all(&result, 2 * 3 + 5), "{}", bench.name);
            assert!(is_all(&x, 1), "{}", bench.name);
            assert!(is_all(&y, 2 * 5 + 1), "{}", bench.name);
        }
    }
}

#[test]
fn buffers_and_modules_may_be_dropped_before_the_launches() {
    for bench in everywhere("buffers_and_modules_may_be_dropped_before_the_launches") {
        let stream = bench.stream();
        let result = filled(&stream, 0);
        let exec = {
            let (mix, copy) = (bench.kernel(MIX, "mix"), bench.kernel(COPY, "copy"));
            let (mut x, y) = (filled(&stream, 0), filled(&stream, 1));
            let mut graph = Graph::new(&bench.context).unwrap();
            let config = LaunchConfig::for_num_elems(N);
            // SAFETY: the kernel touches N words of each; each has N.
            let mixed = unsafe { graph.kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
            let mut result = result;
            // SAFETY: as above.
            unsafe { graph.kernel(&[mixed.edge()], &copy, config, (&x, &mut result, N)) }.unwrap();
            let exec = graph.instantiate().unwrap();
            (exec, result)
        };
        let (exec, result) = exec;
        // What is allocated now is not the memory of the buffers that went.
        let others: Vec<_> = (0..4).map(|_| filled(&stream, 9)).collect();
        let mut expected = 0_u32;
        for _ in 0..1000 {
            exec.launch(&stream).unwrap();
            expected = expected.wrapping_mul(2).wrapping_add(1);
        }
        assert!(is_all(&result, expected), "{}", bench.name);
        assert!(
            others.iter().all(|other| is_all(other, 9)),
            "{}",
            bench.name
        );
    }
}

#[test]
fn launches_wait_for_other_streams_and_other_streams_for_launches() {
    for seed in 0..24 {
        let bench = software(late(seed));
        launches_and_others(&bench);
    }
    for bench in everywhere("launches_wait_for_other_streams_and_other_streams_for_launches") {
        launches_and_others(&bench);
    }
}

fn launches_and_others(bench: &Bench) {
    let mix = bench.kernel(MIX, "mix");
    let streams: Vec<Stream> = (0..4).map(|_| bench.stream()).collect();
    let (mut x, mut y) = (filled(&streams[0], 1), filled(&streams[1], 3));
    let (mut x_host, mut y_host) = (1_u32, 3_u32);
    let config = LaunchConfig::for_num_elems(N);
    let exec_of = |out: &mut DeviceBuffer<u32>, input: &DeviceBuffer<u32>| {
        let mut graph = Graph::new(&bench.context).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { graph.kernel(&[], &mix, config, (out, input, N)) }.unwrap();
        graph.instantiate().unwrap()
    };
    let (to_x, to_y) = (exec_of(&mut x, &y), exec_of(&mut y, &x));
    for step in 0..48_usize {
        let stream = &streams[(step * step + step / 5) % 4];
        match step * 7 % 5 {
            0 | 3 => {
                to_x.launch(stream).unwrap();
                x_host = x_host.wrapping_mul(2).wrapping_add(y_host);
            }
            1 => {
                to_y.launch(stream).unwrap();
                y_host = y_host.wrapping_mul(2).wrapping_add(x_host);
            }
            2 => {
                // SAFETY: as above.
                unsafe { stream.launch(&mix, config, (&mut x, &y, N)) }.unwrap();
                x_host = x_host.wrapping_mul(2).wrapping_add(y_host);
            }
            _ => y
                .as_mut_slice()
                .copy_from(&x.as_slice())
                .map(|()| y_host = x_host)
                .unwrap(),
        }
    }
    assert!(is_all(&x, x_host), "{}", bench.name);
    assert!(is_all(&y, y_host), "{}", bench.name);
}

#[test]
fn bad_edges_are_errors_and_change_nothing() {
    for bench in everywhere("bad_edges_are_errors_and_change_nothing") {
        let stream = bench.stream();
        let mut x = filled(&stream, 0);
        let mut graph = Graph::new(&bench.context).unwrap();
        let mut other = Graph::new(&bench.context).unwrap();
        let foreign = other.empty(&[]).unwrap();
        let first = graph.empty(&[]).unwrap();
        let second = graph.empty(&[first.edge()]).unwrap();
        let third = graph.fill(&[second.edge()], &mut x, 7_u32).unwrap();
        let before = graph.len();
        assert_eq!(graph.empty(&[foreign.edge()]), Err(Error::OtherGraph));
        let refused = graph.add_edge(third.edge(), first);
        assert_eq!(refused, Err(Error::GraphCycle));
        assert_eq!(graph.add_edge(first.edge(), first), Err(Error::GraphCycle));
        assert_eq!(
            graph.add_edge(foreign.edge(), first),
            Err(Error::OtherGraph)
        );
        // One that is there already changes nothing.
        graph.add_edge(first.edge(), second).unwrap();
        graph.add_edge(first.edge(), third).unwrap();
        assert_eq!(graph.len(), before);
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert!(is_all(&x, 7), "{}", bench.name);
    }
}
