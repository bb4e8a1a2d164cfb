//! Device-updatable kernel nodes: which host operations are allowed and which are refused.

use cuda_driver::Error;
use cuda_driver::graph::{DeviceNode, Node, node_kind};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::CUresult;

use crate::support::{Fixture, MIX, everywhere_since, filled, software};

const N: u32 = 1 << 8;

/// A kernel that writes its argument.
const TELL: &str = "
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry tell(.param .u64 out, .param .u64 number) {
        .reg .b64 %out, %number;
        ld.param.u64 %out, [out];
        ld.param.u64 %number, [number];
        cvta.to.global.u64 %out, %out;
        st.global.u64 [%out], %number;
        ret;
    }";

/// A graph with one device-updatable node, which computes `x = 2 * x + y`.
struct Workload {
    stream: Stream,
    mix: Function,
    x: DeviceBuffer<u32>,
    y: DeviceBuffer<u32>,
    graph: Graph,
    node: Node<node_kind::Kernel>,
    handle: DeviceNode,
}

impl Workload {
    fn new(fixture: &Fixture) -> Self {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 10));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let node = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        // SAFETY: no kernel here changes a node.
        let handle = unsafe { graph.set_device_updatable(node) }.unwrap();
        Self {
            stream,
            mix,
            x,
            y,
            graph,
            node,
            handle,
        }
    }

    /// Returns a graph with the same nodes and edges, none of them device-updatable.
    fn plain(&mut self) -> Graph {
        let mut graph = Graph::new(self.stream.context()).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let args = (&mut self.x, &self.y, N);
        // SAFETY: the kernel touches N words of each; each has N.
        unsafe { graph.add_kernel(&[], &self.mix, config, args) }.unwrap();
        graph
    }

    #[track_caller]
    fn expect(&self, value: u32) {
        assert_eq!(self.x.to_vec().unwrap(), vec![value; N as usize]);
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    match result {
        Err(Error::Unsupported { what }) => assert!(what.contains(words), "{what}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn old_driver_refuses_attribute_and_keeps_node() {
    let fixture = software(Builder::new().version(12_030));
    let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
    let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 10));
    let mut graph = Graph::new(&fixture.context).unwrap();
    let config = LaunchConfig::for_num_elems(N).unwrap();
    // SAFETY: the kernel touches N words of each; each has N.
    let node = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
    // SAFETY: the call is refused.
    let refused = unsafe { graph.set_device_updatable(node) }.unwrap_err();
    let status = refused.status();
    assert_eq!(status, Some(CUresult::CUDA_ERROR_INVALID_VALUE));
    let exec = graph.instantiate().unwrap();
    exec.launch(&stream).unwrap();
    assert_eq!(x.to_vec().unwrap(), vec![12; N as usize]);
}

#[test]
fn kernels_get_distinct_node_handles() {
    for fixture in everywhere_since((12, 4)) {
        let mut workload = Workload::new(&fixture);
        // SAFETY: no kernel here changes a node.
        let again = unsafe { workload.graph.set_device_updatable(workload.node) }.unwrap();
        assert_eq!(again, workload.handle);
        let other = Workload::new(&fixture);
        assert_ne!(other.handle, workload.handle);
        let raw = workload.handle.as_raw().addr() as u64;
        assert_ne!(raw, 0);
        let mut out = DeviceBuffer::<u64>::zeroed(&workload.stream, 1).unwrap();
        let tell = fixture.kernel(TELL, "tell");
        let (config, args) = (LaunchConfig::new(1, 1), (&mut out, workload.handle));
        // SAFETY: the kernel writes one number and uses the handle only as a number.
        unsafe { workload.stream.launch(&tell, config, args) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [raw], "{}", fixture.name);
        // SAFETY: the call is refused.
        let refused = unsafe { workload.graph.set_device_updatable(other.node) };
        assert_eq!(refused, Err(Error::OtherGraph));
    }
}

#[test]
fn updatable_executable_launches_after_upload() {
    for fixture in everywhere_since((12, 4)) {
        let mut workload = Workload::new(&fixture);
        let exec = workload.graph.instantiate().unwrap();
        assert_eq!(exec.launch(&workload.stream), Err(Error::NotUploaded));
        workload.expect(1);
        exec.upload(&workload.stream).unwrap();
        exec.launch(&workload.stream).unwrap();
        exec.launch(&workload.stream).unwrap();
        // 2 * (2 * 1 + 10) + 10
        workload.expect(34);
        // Changes by the host have to be uploaded as well.
        let fresh = filled(&workload.stream, N, 100);
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let args = (&mut workload.x, &fresh, N);
        // SAFETY: the kernel touches N words of each; each has N. No other node uses them, and no
        // kernel changes this node.
        unsafe { exec.set_kernel(workload.node, &workload.mix, config, args) }.unwrap();
        drop(fresh);
        assert_eq!(exec.launch(&workload.stream), Err(Error::NotUploaded));
        exec.upload(&workload.stream).unwrap();
        exec.launch(&workload.stream).unwrap();
        // 2 * 34 + 100
        workload.expect(168);
        exec.close().unwrap();
    }
}

#[test]
fn a_graph_that_kernels_change_has_one_executable_at_a_time() {
    for fixture in everywhere_since((12, 4)) {
        let workload = Workload::new(&fixture);
        let first = workload.graph.instantiate().unwrap();
        let second = workload.graph.instantiate();
        assert!(
            matches!(second, Err(Error::Instantiate(_))),
            "{}: {second:?}",
            fixture.name
        );
        first.upload(&workload.stream).unwrap();
        first.launch(&workload.stream).unwrap();
        first.close().unwrap();
        workload.stream.synchronize().unwrap();
        let second = workload.graph.instantiate().unwrap();
        second.upload(&workload.stream).unwrap();
        second.launch(&workload.stream).unwrap();
        // 2 * (2 * 1 + 10) + 10
        workload.expect(34);
    }
}

#[test]
fn updatable_nodes_cannot_be_removed_or_copied() {
    for fixture in everywhere_since((12, 4)) {
        let mut workload = Workload::new(&fixture);
        let node = workload.node;
        refused(
            workload.graph.remove(node),
            "removing a device-updatable node",
        );
        refused(workload.graph.try_clone().map(drop), "cloning a graph");
        let mut outer = Graph::new(&fixture.context).unwrap();
        refused(outer.add_child(&[], &workload.graph), "a child graph");
        assert!(outer.is_empty());
        let exec = workload.graph.instantiate().unwrap();
        refused(exec.set_enabled(node, false), "enabling or disabling");
        assert_eq!(exec.is_enabled(node), Ok(true));
        exec.upload(&workload.stream).unwrap();
        exec.launch(&workload.stream).unwrap();
        workload.expect(12);
    }
}

#[test]
fn update_rejects_device_updatable_graphs() {
    for fixture in everywhere_since((12, 4)) {
        let mut workload = Workload::new(&fixture);
        let plain = workload.plain();
        let changed = workload.graph.instantiate().unwrap();
        refused(changed.update(&plain), "updating an executable");
        let exec = plain.instantiate().unwrap();
        refused(exec.update(&workload.graph), "updating from a graph");
        // Both executables are unchanged.
        exec.launch(&workload.stream).unwrap();
        workload.expect(12);
        changed.upload(&workload.stream).unwrap();
        changed.launch(&workload.stream).unwrap();
        workload.expect(34);
        // A child graph of the executable cannot have a device-updatable node either.
        let mut outer = Graph::new(&fixture.context).unwrap();
        let child = outer.add_child(&[], &plain).unwrap();
        let outer = outer.instantiate().unwrap();
        refused(outer.set_child(child, &workload.graph), "cloning a graph");
        outer.launch(&workload.stream).unwrap();
        workload.expect(78);
    }
}

#[test]
fn kernels_change_nodes_in_bodies_too() {
    for fixture in everywhere_since((12, 4)) {
        let Workload {
            stream,
            mix,
            mut x,
            y,
            ..
        } = Workload::new(&fixture);
        let mut graph = Graph::new(&fixture.context).unwrap();
        let handle = graph.conditional_handle(Some(1)).unwrap();
        let (outside, mut body) = graph.add_if(&[], handle).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let node = unsafe { body.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        // SAFETY: no kernel here changes a node.
        unsafe { body.set_device_updatable(node) }.unwrap();
        refused(graph.remove(outside), "removing a device-updatable node");
        refused(body.remove(node), "removing a device-updatable node");
        let exec = graph.instantiate().unwrap();
        refused(exec.set_enabled(node, true), "enabling or disabling");
        assert_eq!(exec.launch(&stream), Err(Error::NotUploaded));
        exec.upload(&stream).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(
            x.to_vec().unwrap(),
            vec![12; N as usize],
            "{}",
            fixture.name
        );
    }
}
