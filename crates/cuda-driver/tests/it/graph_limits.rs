//! Kernel nodes whose number of blocks the driver refuses: the error has the numbers, at whichever
//! call the driver notices it.

use cuda_driver::error::{Error, Result, Status};
use cuda_driver::graph::{CaptureScope, Graph};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{Fixture, MIX, software};

const COOPERATIVE: &str = "the number of blocks of the cooperative launch";
const CLUSTER: &str = "the number of blocks per cluster";

/// A configuration of which cooperative launches are refused.
fn large() -> LaunchConfig {
    LaunchConfig::new(1 << 20, 1024)
}

/// A configuration of which every launch is possible.
fn small() -> LaunchConfig {
    LaunchConfig::new(16, 32)
}

fn device() -> Fixture {
    software(Builder::new().version(12_080))
}

/// Checks the numbers of an error that a node with `given` blocks causes.
#[track_caller]
fn expect<T>(result: Result<T>, call: &str, what: &str, given: u64) {
    let Err(Error::LaunchLimit(error)) = &result else {
        panic!("{:?}", result.err());
    };
    assert_eq!(error.driver_error().call().name, call);
    assert_eq!((error.what(), error.given()), (what, given));
    let most = if what == CLUSTER { 8 } else { 32 };
    assert!(error.most() > 0 && error.most() <= most, "{error}");
    assert!(error.to_string().contains("kernel mix: "), "{error}");
}

#[test]
fn nodes_with_too_many_blocks_state_the_limit() {
    let fixture = device();
    let kernel = fixture.kernel(MIX, "mix");
    let stream = fixture.stream();
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    let set = "cuGraphKernelNodeSetAttribute";
    for (config, attributes, what, given) in [
        (
            large(),
            LaunchAttributes::new().cooperative(),
            COOPERATIVE,
            1 << 20,
        ),
        (small(), LaunchAttributes::new().cluster(16), CLUSTER, 16),
    ] {
        let args = (&mut x, &y, 4_u32);
        // SAFETY: no launch of the graph is made.
        let added = unsafe { graph.add_kernel_with(&[], &kernel, config, &attributes, args) };
        expect(added, set, what, given);

        let args = (&mut x, &y, 4_u32);
        // SAFETY: as above.
        let node = unsafe { graph.add_kernel(&[], &kernel, config, args) }.unwrap();
        // SAFETY: as above.
        let changed = unsafe { graph.set_kernel_attributes(node, &attributes) };
        expect(changed, set, what, given);

        let captured = Graph::capture(&fixture.context, |scope: &mut CaptureScope<'_>| {
            let args = (&mut x, &y, 4_u32);
            // SAFETY: as above.
            unsafe { scope.launch_with(&kernel, config, &attributes, args) }.map(drop)
        });
        expect(captured, "cuLaunchKernelEx", what, given);

        let eager = Graph::capture_eager(&stream, |_| {
            let args = (&mut x, &y, 4_u32);
            // SAFETY: as above.
            unsafe { stream.launch_with(&kernel, config, &attributes, args) }
        });
        expect(eager, "cuLaunchKernelEx", what, given);
    }
}

#[test]
fn changes_of_nodes_to_too_many_blocks_state_the_limit() {
    let fixture = device();
    let kernel = fixture.kernel(MIX, "mix");
    let stream = fixture.stream();
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    let attributes = LaunchAttributes::new().cooperative();
    let args = (&mut x, &y, 4_u32);
    // SAFETY: no launch of the graph is made.
    let node = unsafe { graph.add_kernel_with(&[], &kernel, small(), &attributes, args) }.unwrap();
    let exec = graph.instantiate().unwrap();
    // SAFETY: as above.
    let changed = unsafe { exec.set_kernel(node, &kernel, large(), (&mut x, &y, 4_u32)) };
    let call = "cuGraphExecKernelNodeSetParams_v2";
    expect(changed, call, COOPERATIVE, 1 << 20);
    // SAFETY: as above.
    let changed = unsafe { graph.set_kernel(node, &kernel, large(), (&mut x, &y, 4_u32)) };
    expect(
        changed,
        "cuGraphKernelNodeSetParams_v2",
        COOPERATIVE,
        1 << 20,
    );
    // The node is unchanged.
    assert!(graph.instantiate().is_ok());
}

#[test]
fn a_graph_that_is_refused_for_its_blocks_names_the_kernel() {
    let fixture = device();
    let simulator = fixture.simulator.as_ref().unwrap();
    let kernel = fixture.kernel(MIX, "mix");
    let stream = fixture.stream();
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    let call = "cuGraphInstantiateWithParams";
    // SAFETY: no launch of the graph is made.
    unsafe { graph.add_kernel(&[], &kernel, small(), (&mut x, &y, 4_u32)) }.unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_INVALID_CLUSTER_SIZE).function(call));
    // No kernel has too many blocks, so the error states no limit.
    let error = graph.instantiate().unwrap_err();
    assert!(matches!(error, Error::Instantiate(_)), "{error}");

    kernel.allow_non_portable_cluster_size(true).unwrap();
    let attributes = LaunchAttributes::new().cluster(16);
    let args = (&mut x, &y, 4_u32);
    // SAFETY: as above.
    unsafe { graph.add_kernel_with(&[], &kernel, small(), &attributes, args) }.unwrap();
    kernel.allow_non_portable_cluster_size(false).unwrap();
    expect(graph.instantiate(), call, CLUSTER, 16);
}
