//! Attributes of kernel nodes.

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{MIX, everywhere, filled, late, software};

const N: u32 = 1 << 8;

/// A kernel that writes the number of blocks in its cluster.
const CLUSTER: &str = "
    .version 7.8
    .target sm_90
    .address_size 64
    .visible .entry cluster(.param .u64 out) {
        .reg .u64 %out;
        .reg .u32 %size;
        ld.param.u64 %out, [out];
        cvta.to.global.u64 %out, %out;
        mov.u32 %size, %cluster_nctaid.x;
        st.global.u32 [%out], %size;
        ret;
    }";

#[test]
fn a_kernel_node_has_the_attributes_that_it_was_given() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 2));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        // SAFETY: the kernel touches N words of each; each has N.
        let plain = unsafe { graph.add_kernel(&[], &mix, config, (&mut x, &y, N)) }.unwrap();
        let attributes = LaunchAttributes::new().cooperative().priority(-1);
        // SAFETY: as above.
        let given =
            unsafe { graph.add_kernel_with(&[], &mix, config, &attributes, (&mut x, &y, N)) }
                .unwrap();
        let before = graph.kernel_attributes(plain).unwrap();
        let is_one = |cluster| cluster == Dim3::from((1, 1, 1));
        assert!(!before.is_cooperative && before.cluster.is_none_or(is_one));
        let found = graph.kernel_attributes(given).unwrap();
        assert!(found.is_cooperative, "{found:?}");
        assert_eq!(found.priority, -1, "{}", fixture.name);
        // SAFETY: as above.
        unsafe { graph.set_kernel_attributes(plain, &LaunchAttributes::new().cooperative()) }
            .unwrap();
        let changed = graph.kernel_attributes(plain).unwrap();
        assert!(changed.is_cooperative && changed.priority == before.priority);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        // 2 * (2 * 1 + 2) + 2
        assert_eq!(
            x.to_vec().unwrap(),
            vec![10; N as usize],
            "{}",
            fixture.name
        );
        let mut other = Graph::new(&fixture.context).unwrap();
        assert_eq!(other.kernel_attributes(plain), Err(Error::OtherGraph));
        // SAFETY: the call is refused.
        let refused = unsafe { other.set_kernel_attributes(plain, &attributes) };
        assert_eq!(refused, Err(Error::OtherGraph));
        graph.remove(plain).unwrap();
        assert_eq!(graph.kernel_attributes(plain), Err(Error::NodeGone));
    }
}

#[test]
fn a_kernel_node_runs_in_clusters() {
    for fixture in everywhere() {
        if fixture.context.device().compute_capability().unwrap().major < 9 {
            continue;
        }
        let (stream, kernel) = (fixture.stream(), fixture.kernel(CLUSTER, "cluster"));
        let (mut one, mut two) = (filled(&stream, N, 0), filled(&stream, N, 0));
        let mut graph = Graph::new(&fixture.context).unwrap();
        let config = LaunchConfig::new(4, 1);
        let attributes = LaunchAttributes::new().cluster(2);
        // SAFETY: the kernel writes one word.
        let node = unsafe { graph.add_kernel_with(&[], &kernel, config, &attributes, (&mut two,)) }
            .unwrap();
        // SAFETY: as above.
        unsafe { graph.add_kernel(&[], &kernel, config, (&mut one,)) }.unwrap();
        let uneven = LaunchConfig::new(3, 1);
        // SAFETY: as above.
        let refused =
            unsafe { graph.add_kernel_with(&[], &kernel, uneven, &attributes, (&mut one,)) };
        assert!(matches!(refused, Err(Error::LaunchConfig(_))));
        let found = graph.kernel_attributes(node).unwrap();
        assert_eq!(found.cluster, Some(Dim3::from((2, 1, 1))));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let of = |buffer: &DeviceBuffer<u32>| buffer.to_vec().unwrap()[0];
        assert_eq!((of(&one), of(&two)), (1, 2), "{}", fixture.name);
    }
}

#[test]
fn invalid_node_attribute_is_an_error_and_adds_no_node() {
    let event_of = |fixture: &crate::support::Fixture| {
        cuda_driver::Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap()
    };
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 2));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let event = event_of(&fixture);
        for attributes in [
            LaunchAttributes::new().programmatic_serialization(),
            LaunchAttributes::new().completion_event(&event),
            LaunchAttributes::new().programmatic_event(&event, true),
        ] {
            // SAFETY: the kernel touches N words of each; each has N.
            let refused =
                unsafe { graph.add_kernel_with(&[], &mix, config, &attributes, (&mut x, &y, N)) };
            assert!(matches!(refused, Err(Error::Unsupported { .. })));
        }
        assert!(graph.is_empty() && graph.nodes().unwrap().is_empty());
    }
    // A node that the driver refuses is removed again. If it cannot be removed, the graph does not
    // run.
    for stays in [false, true] {
        let fixture = software(if stays { late(1) } else { Builder::new() });
        let simulator = fixture.simulator.as_ref().unwrap();
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 2));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let mut graph = Graph::new(&fixture.context).unwrap();
        let fill = graph.add_fill(&[], &mut x, 5_u32).unwrap();
        let exec = graph.instantiate().unwrap();
        let unknown = Status::CUDA_ERROR_NOT_SUPPORTED;
        simulator.add_rule(Rule::new(unknown).function("cuGraphKernelNodeSetAttribute"));
        if stays {
            simulator.add_rule(Rule::new(unknown).function("cuGraphDestroyNode"));
        }
        let attributes = LaunchAttributes::new().priority(-1);
        // SAFETY: as above.
        let refused =
            unsafe { graph.add_kernel_with(&[], &mix, config, &attributes, (&mut x, &y, N)) };
        simulator.clear_rules();
        assert_eq!(refused.unwrap_err().status(), Some(unknown));
        if stays {
            assert!(graph.is_empty() && graph.instantiate().is_err());
            assert!(graph.add_fill(&[], &mut x, 6_u32).is_err());
            assert_eq!(simulator.live().graphs, 0);
            assert!(exec.set_fill(fill, &mut x, 6_u32).is_err());
            exec.launch(&stream).unwrap();
        } else {
            assert_eq!(graph.nodes().unwrap().len(), 1);
            graph.instantiate().unwrap().launch(&stream).unwrap();
        }
        assert_eq!(x.to_vec().unwrap(), vec![5; N as usize]);
    }
}

#[test]
fn a_captured_node_is_made_by_one_call() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), fixture.kernel(MIX, "mix"));
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 3));
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let attributes = LaunchAttributes::new().cooperative();
        let captured = Graph::capture(&fixture.context, |scope| {
            // SAFETY: the kernel touches N words of each; each has N.
            let first = unsafe { scope.launch(&mix, config, (&mut x, &y, N)) }?;
            let second = scope.add_node(|graph, after| {
                // SAFETY: as above.
                let with = unsafe {
                    graph.add_kernel_with(after, &mix, config, &attributes, (&mut x, &y, N))
                };
                assert!(matches!(with, Err(Error::Capturing { .. })), "{with:?}");
                let early = [first.programmatic_edge()];
                // SAFETY: as above.
                let early = unsafe { graph.add_kernel(&early, &mix, config, (&mut x, &y, N)) };
                assert!(matches!(early, Err(Error::Capturing { .. })), "{early:?}");
                // SAFETY: as above.
                unsafe { graph.add_kernel(after, &mix, config, (&mut x, &y, N)) }
            })?;
            assert_eq!(scope.after()?, [second.edge()]);
            Ok(())
        });
        let graph = captured.unwrap();
        assert_eq!(graph.len(), 2);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        // 2 * (2 * 1 + 3) + 3
        assert_eq!(
            x.to_vec().unwrap(),
            vec![13; N as usize],
            "{}",
            fixture.name
        );
    }
}
