//! Safe launches with attributes.

use std::ops::Range;

use cuda_driver::Error;
use cuda_driver::error::SafeLaunchError;
use cuda_driver::event::EventFlags;
use cuda_driver::launch::{AccessProperty, ClusterScheduling, LaunchAttributes, MemSyncDomain};
use cuda_driver::prelude::*;
use cuda_driver::safe::Unproven;
use cuda_sys::CUdevice_attribute;

use super::{STORE, kernel, violation};
use crate::support::{Fixture, MIX, assert_all, everywhere, filled, has_version};

fn mix(fixture: &Fixture) -> SafeKernel {
    let module = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    module.kernel("mix").unwrap()
}

/// The attributes that a safe launch takes, except the window of an argument.
fn accepted(fixture: &Fixture) -> Vec<LaunchAttributes<'static>> {
    let new = LaunchAttributes::new;
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
    let has_clusters = fixture.context.device().attribute(attribute).unwrap() != 0;
    let cluster = if has_clusters { 2 } else { 1 };
    let mut all = vec![
        new(),
        new().cooperative(),
        new().priority(-1),
        new()
            .cluster(cluster)
            .cluster_scheduling(ClusterScheduling::Spread),
        new().mem_sync_domain(MemSyncDomain::Remote),
        new().mem_sync_domain_map(0, 1),
        new().cooperative().priority(0).cluster(1),
    ];
    if has_version((12, 5)) {
        all.push(new().shared_memory_carveout(50));
    }
    all
}

#[test]
fn attributes_do_not_change_what_a_launch_computes() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), mix(&fixture));
        let config = LaunchConfig::new(2, 64);
        for attributes in accepted(&fixture) {
            for checks_all in [false, true] {
                let mix = match checks_all {
                    true => mix.clone().with_unproven(Unproven::CheckAll),
                    false => mix.clone(),
                };
                let what = format!("{}: {attributes:?}", fixture.name);
                let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
                let args = (&mut x, &y, 100_u32);
                let launch = stream.launch_safe_with(&mix, config, &attributes, args);
                let launch = launch.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(launch.is_checked(), checks_all, "{what}");
                launch.wait().unwrap();
                assert_all(&x, 7, &what);
                let args = (&mut x, &y, 100_u32);
                drop(mix.launch_with(&stream, config, &attributes, args).unwrap());
                assert_all(&x, 19, &what);
                // A launch without attributes does not use the proof of one with a cluster.
                let args = (&mut x, &y, 100_u32);
                stream
                    .launch_safe(&mix, config, args)
                    .unwrap()
                    .wait()
                    .unwrap();
                assert_all(&x, 43, &what);
            }
        }
    }
}

#[test]
fn a_checked_launch_with_attributes_reports() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let attributes = LaunchAttributes::new().cooperative().cluster(1);
        let args = (&mut x, 100_u64, 1_u32);
        let launch = stream.launch_safe_with(&store, LaunchConfig::new(1, 1), &attributes, args);
        assert_eq!(violation(launch.unwrap().wait()).offset, 100);
        assert_all(&x, 9, &fixture.name);
        let strict = store.with_unproven(Unproven::Reject);
        let args = (&mut x, 100_u64, 1_u32);
        let refused = stream.launch_safe_with(&strict, LaunchConfig::new(1, 1), &attributes, args);
        assert!(matches!(refused, Err(Error::SafeLaunch(_))), "{refused:?}");
    }
}

#[test]
fn graphs_and_captures_take_attributes() {
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let mix = mix(&fixture);
        let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
        let config = LaunchConfig::new(2, 64);
        let attributes = LaunchAttributes::new().cooperative().priority(-1);
        let mut graph = Graph::new(context).unwrap();
        let args = (&mut x, &y, 100_u32);
        let node = graph.add_kernel_safe_with(&[], &mix, config, &attributes, args);
        let is_cooperative = |graph: &Graph, node| {
            let attributes = graph.kernel_attributes(node).unwrap();
            attributes.is_cooperative
        };
        assert!(is_cooperative(&graph, node.unwrap()));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 7, &fixture.name);
        let mut captured = None;
        let graph = Graph::capture(context, |scope| {
            let args = (&mut x, &y, 100_u32);
            captured = Some(scope.launch_safe_with(&mix, config, &attributes, args)?);
            let args = (&mut x, &y, 100_u32);
            mix.launch_with(scope, config, &attributes, args).map(drop)
        });
        let graph = graph.unwrap();
        assert!(is_cooperative(&graph, captured.unwrap()));
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 43, &fixture.name);
        let eager = Graph::capture_eager(&stream, |_| {
            let args = (&mut x, &y, 100_u32);
            stream
                .launch_safe_with(&mix, config, &attributes, args)
                .map(drop)
        });
        eager
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        assert_all(&x, 91, &fixture.name);
    }
}

#[test]
fn attributes_that_order_less_are_refused_by_name() {
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let mix = mix(&fixture);
        let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
        let event = Event::new(context, EventFlags::DISABLE_TIMING).unwrap();
        let config = LaunchConfig::new(2, 64);
        let new = LaunchAttributes::new;
        for (name, attributes) in [
            (
                "programmatic_serialization",
                new().programmatic_serialization(),
            ),
            (
                "programmatic_event",
                new().programmatic_event(&event, false),
            ),
            (
                "completion_event",
                new().priority(0).completion_event(&event),
            ),
            ("preferred_cluster", new().cluster(1).preferred_cluster(2)),
        ] {
            let mut refusals = Vec::new();
            let args = (&mut x, &y, 100_u32);
            let stream_refuses = stream.launch_safe_with(&mix, config, &attributes, args);
            refusals.push(stream_refuses.map(drop));
            let args = (&mut x, &y, 100_u32);
            let mut graph = Graph::new(context).unwrap();
            let node = graph.add_kernel_safe_with(&[], &mix, config, &attributes, args);
            refusals.push(node.map(drop));
            let captured = Graph::capture(context, |scope| {
                let args = (&mut x, &y, 100_u32);
                mix.launch_with(scope, config, &attributes, args).map(drop)
            });
            refusals.push(captured.map(drop));
            for refused in refusals {
                let Err(Error::SafeLaunch(error)) = refused else {
                    panic!("{name}: {refused:?}");
                };
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("the attribute `{name}`")),
                    "{text}"
                );
                let SafeLaunchError::Attribute { attribute, .. } = *error else {
                    panic!("{text}");
                };
                assert_eq!(attribute, name);
            }
        }
        assert_all(&x, 1, &fixture.name);
    }
}

/// A window of a part of `buffer`.
fn window(buffer: &DeviceBuffer<u32>, range: Range<usize>) -> LaunchAttributes<'_> {
    let (hit, miss) = (AccessProperty::Persisting, AccessProperty::Streaming);
    let part = buffer.slice(range).unwrap();
    LaunchAttributes::new().access_policy_window(part, 0.5, hit, miss)
}

#[test]
fn the_window_of_an_access_policy_is_part_of_an_argument() {
    for fixture in everywhere() {
        let (stream, mix) = (fixture.stream(), mix(&fixture));
        let config = LaunchConfig::new(2, 64);
        let (x, y) = (filled(&stream, 100, 1), filled(&stream, 200, 5));
        // `y` is read, so it can be borrowed twice. The launch has its first 100 words.
        let part = y.slice(..100).unwrap();
        let mut out = filled(&stream, 100, 1);
        for (attributes, is_accepted) in [
            (window(&y, 0..100), true),
            (window(&y, 50..60), true),
            (window(&y, 0..101), false),
            (window(&y, 150..200), false),
            (window(&x, 0..1), false),
        ] {
            let args = (&mut out, part, 100_u32);
            match stream.launch_safe_with(&mix, config, &attributes, args) {
                Ok(launch) => {
                    assert!(is_accepted, "{}", fixture.name);
                    launch.wait().unwrap();
                }
                Err(Error::SafeLaunch(error)) => {
                    assert!(!is_accepted, "{error}");
                    let text = error.to_string();
                    assert!(text.contains("`access_policy_window`"), "{text}");
                    assert!(text.contains("is not an argument"), "{text}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_all(&out, 19, &fixture.name);
    }
}
