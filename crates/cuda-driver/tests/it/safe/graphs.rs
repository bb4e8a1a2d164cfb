//! Safe launches in graphs, and launch contracts.

use cuda_driver::Error;
use cuda_driver::prelude::*;
use cuda_driver::safe::{
    ContractKernel, LaunchContract, SafeLaunchError, SafeModule, TypedSafeKernel, Unproven,
};
use cuda_sim::Builder;

use super::{GATHER, HEAD, STORE, kernel, violation, violations};
use crate::support::{Fixture, MIX, assert_all, everywhere, filled, software};

fn mix(fixture: &Fixture) -> cuda_driver::safe::SafeKernel {
    let ptx = Ptx::new(MIX).unwrap();
    let module = SafeModule::load(&fixture.context, &ptx).unwrap();
    module.kernel("mix").unwrap()
}

#[test]
fn proven_launches_are_captured_and_replayed() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = mix(&fixture);
        let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
        let config = LaunchConfig::for_num_elems(100).unwrap();
        let (mut graph, ()) = Graph::try_capture(&fixture.context, |scope| {
            scope.launch_safe(&mix, config, (&mut x, &y, 100_u32))?;
            Ok::<(), Error>(())
        })
        .unwrap();
        let node = graph
            .add_kernel_safe(&[], &mix, config, (&mut x, &y, 100_u32))
            .unwrap();
        let late = [node.edge()];
        graph
            .add_kernel_safe(&late, &mix, config, (&mut x, &y, 100_u32))
            .unwrap();
        let exec = graph.instantiate().unwrap();
        for expected in [43, 379] {
            exec.launch(&stream).unwrap();
            assert_all(&x, expected, &fixture.name);
        }
    }
}

#[test]
fn a_safe_kernel_runs_or_is_captured() {
    type Words = DeviceBuffer<u32>;
    fn twice<Q: Queue>(
        queue: &Q,
        mix: &SafeKernel,
        (x, y): (&mut Words, &Words),
        n: u32,
    ) -> cuda_driver::Result<()> {
        let config = LaunchConfig::for_num_elems(n)?;
        mix.launch(queue, config, (&mut *x, y, n))?;
        mix.launch(&queue, config, (x, y, n)).map(drop)
    }
    for fixture in everywhere() {
        let (context, stream) = (&fixture.context, fixture.stream());
        let mix = mix(&fixture);
        let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
        twice(&stream, &mix, (&mut x, &y), 100).unwrap();
        assert_all(&x, 19, &fixture.name);
        let graph = Graph::capture(context, |scope| twice(scope, &mix, (&mut x, &y), 100));
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_all(&x, 91, &fixture.name);

        // Beyond the end: checked on a stream and in a capture, which can refuse it.
        twice(&stream, &mix, (&mut x, &y), 101).unwrap();
        let both = violations(stream.synchronize());
        assert_eq!([both[0].offset, both[1].offset], [400, 400]);
        let graph = Graph::capture(context, |scope| twice(scope, &mix, (&mut x, &y), 101));
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        let both = violations(stream.synchronize());
        assert_eq!([both[0].offset, both[1].offset], [400, 400]);
        stream.synchronize().unwrap();
        let strict = mix.with_unproven(Unproven::Reject);
        let graph = Graph::capture(context, |scope| twice(scope, &strict, (&mut x, &y), 101));
        assert!(matches!(graph, Err(Error::SafeLaunch(_))), "{graph:?}");
    }
}

#[test]
fn a_typed_safe_kernel_runs_or_is_captured() {
    type Mix = TypedSafeKernel<(Writes<u32>, Reads<u32>, u32)>;
    for fixture in everywhere() {
        let stream = fixture.stream();
        let typed: Mix = mix(&fixture).typed().unwrap();
        assert_eq!(typed.kernel().function().name(), "mix");
        let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
        let config = LaunchConfig::for_num_elems(100).unwrap();
        typed.launch(&stream, config, (&mut x, &y, 100)).unwrap();
        assert_all(&x, 7, &fixture.name);
        let graph = Graph::capture(&fixture.context, |scope| {
            let launch = typed.launch(scope, config, (&mut x, &y, 101))?;
            assert!(!launch.is_checked());
            assert!(matches!(launch.wait(), Err(Error::Unsupported { .. })));
            Ok(())
        });
        let exec = graph.unwrap().instantiate().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(violation(stream.synchronize()).offset, 400);
        assert_all(&x, 19, &fixture.name);
        let wrong = mix(&fixture).typed::<(Writes<u32>, Reads<u32>, u64)>();
        assert!(matches!(wrong, Err(Error::Argument(_))), "{wrong:?}");
    }
}

#[test]
fn a_strict_graph_takes_only_proven_launches() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let (mix, gather) = (mix(&fixture), kernel(&fixture, GATHER, "gather"));
    let [mix, gather] = [mix, gather].map(|it| it.with_unproven(Unproven::Reject));
    let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
    let config = LaunchConfig::for_num_elems(100).unwrap();
    let mut graph = Graph::new(&fixture.context).unwrap();
    let is_refused = |result: cuda_driver::Result<_>| match result {
        Err(Error::SafeLaunch(error)) => matches!(*error, SafeLaunchError::NotProven { .. }),
        other => panic!("{:?}", other.map(|_: cuda_driver::graph::Node<_>| ())),
    };
    assert!(is_refused(graph.add_kernel_safe(
        &[],
        &mix,
        config,
        (&mut x, &y, 101_u32)
    )));
    assert!(is_refused(graph.add_kernel_safe(
        &[],
        &mix,
        config,
        (&x, &y, 100_u32)
    )));
    let index = DeviceBuffer::<u64>::zeroed(&stream, 100).unwrap();
    let args = (&mut x, &y, &index, 100_u32);
    assert!(is_refused(graph.add_kernel_safe(
        &[],
        &gather,
        config,
        args
    )));
}

#[test]
fn a_contract_is_checked_at_every_launch() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let text = format!("{HEAD}{STORE}").replacen(") {", ")\n.reqntid 32\n{", 1);
        let ptx = Ptx::new(text).unwrap();
        let store = Module::load(&fixture.context, &ptx).unwrap();
        let store = store.function("store").unwrap();
        let contract = LaunchContract::from_ptx(&ptx, "store")
            .unwrap()
            .shared_bytes(0..=64)
            .requires("at < x.len()", |launch| {
                launch.config().grid.x == 1 && launch.number(2) + 4 <= launch.bytes(1)
            });
        // SAFETY: all threads write the word at the byte `at` of `x`, which a condition compares
        // with its size; this test passes multiples of 4.
        let store: ContractKernel<(Writes<u32>, u64, u32)> =
            unsafe { store.with_contract(contract) }.unwrap();
        let mut x = filled(&stream, 4, 9);
        let config = LaunchConfig::new(1, 32);
        store
            .launch(&stream, config, (&mut x, 12_u64, 1_u32))
            .unwrap();
        assert_eq!(x.to_vec().unwrap(), [9, 9, 9, 1]);
        let mut broken = |config, at: u64| match store.launch(&stream, config, (&mut x, at, 2_u32))
        {
            Err(Error::SafeLaunch(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let text = broken(config, 16);
        let values = "at < x.len(); the launch has a grid of (1, 1, 1) blocks of (32, 1, 1) \
                      threads, argument 1 of 16 bytes, argument 2 = 16, argument 3 = 2";
        assert!(text.ends_with(values), "{text}");
        assert!(broken(LaunchConfig::new(1, 64), 0).contains("blocks of (32, 1, 1)"));
        let text = broken(config.with_shared_bytes(65), 0);
        assert!(text.contains("0 to 64 bytes of dynamic"), "{text}");
        assert_eq!(store.kernel().function().name(), "store");
        assert_eq!(x.to_vec().unwrap(), [9, 9, 9, 1], "{}", fixture.name);

        // A capture and a node of a graph have the same conditions.
        let fails_with = |result: cuda_driver::Result<()>, expected: &str| match result {
            Err(Error::SafeLaunch(error)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            other => panic!("{other:?}"),
        };
        let mut late = Graph::capture(&fixture.context, |scope| {
            let wrong = store.launch(scope, config, (&mut x, 16_u64, 2_u32));
            fails_with(wrong.map(drop), "at < x.len()");
            store
                .launch(scope, config, (&mut x, 0_u64, 2_u32))
                .map(drop)
        })
        .unwrap();
        let wide = LaunchConfig::new(1, 64);
        let wrong = late.add_kernel_with_contract(&[], &store, wide, (&mut x, 4_u64, 3_u32));
        fails_with(wrong.map(drop), "blocks of (32, 1, 1)");
        let wrong = late.add_kernel_with_contract(&[], &store, config, (&mut x, 13_u64, 3_u32));
        fails_with(wrong.map(drop), "at < x.len()");
        let node = late
            .add_kernel_with_contract(&[], &store, config, (&mut x, 4_u64, 3_u32))
            .unwrap();
        let edge = node.programmatic_edge();
        let wrong = late.add_kernel_with_contract(&[edge], &store, config, (&mut x, 4_u64, 3_u32));
        assert!(matches!(wrong, Err(Error::Unsupported { .. })), "{wrong:?}");
        let exec = late.instantiate().unwrap();
        for _ in 0..2 {
            x.copy_from_host(&[9; 4]).unwrap();
            exec.launch(&stream).unwrap();
            assert_eq!(x.to_vec().unwrap(), [2, 3, 9, 9], "{}", fixture.name);
        }
    }
}

#[test]
fn a_contract_reads_the_directives_of_the_text() {
    let text = format!("{HEAD}{STORE}").replacen(") {", ")\n.maxntid 8, 4, 2\n{", 1);
    let ptx = Ptx::new(text).unwrap();
    let contract = LaunchContract::from_ptx(&ptx, "store").unwrap();
    assert!(format!("{contract:?}").contains("most_threads: Some(64)"));
    let same = LaunchContract::new().block((8, 4));
    assert!(format!("{same:?}").contains("Dim3 { x: 8, y: 4, z: 1 }"));
    let same = LaunchContract::new().grid_multiple_of((8, 4));
    assert!(format!("{same:?}").contains("grid_multiple: Some(Dim3 { x: 8, y: 4, z: 1 })"));
    let error = LaunchContract::from_ptx(&ptx, "load").unwrap_err();
    assert!(matches!(error, Error::NoSuchFunction { .. }), "{error}");
    let error = LaunchContract::from_ptx(&Ptx::new("no text").unwrap(), "k").unwrap_err();
    assert!(matches!(error, Error::SafeLaunch(_)), "{error}");
}

/// Clusters: the grid is a multiple of their size, and a contract has no attribute with a size.
#[test]
fn a_contract_reads_the_clusters_of_the_text() {
    type Store = ContractKernel<(Writes<u32>, u64, u32)>;
    let fixture = software(Builder::new().compute_capability(9, 0));
    let stream = fixture.stream();
    let head = HEAD.replace("7.0", "8.0").replace("sm_75", "sm_90");
    let store = |directives: &str| {
        let text = format!("{head}{STORE}").replacen(") {", &format!(")\n{directives}\n{{"), 1);
        let ptx = Ptx::new(text).unwrap();
        let module = Module::load(&fixture.context, &ptx).unwrap();
        let contract = LaunchContract::from_ptx(&ptx, "store").unwrap();
        // SAFETY: all threads write the word at the byte `at` of `x`; this test passes offsets of
        // words in it.
        let store: Store = unsafe {
            let function = module.function("store").unwrap();
            function.with_contract(contract)
        }
        .unwrap();
        store
    };
    let mut x = filled(&stream, 4, 9);
    let mut launch = |store: &Store, grid: (u32, u32, u32)| {
        let result = store.launch(&stream, LaunchConfig::new(grid, 32), (&mut x, 4_u64, 1_u32));
        result.map_err(|error| match error {
            Error::SafeLaunch(error) => error.to_string(),
            other => panic!("{other:?}"),
        })
    };
    let pairs = store(".explicitcluster .reqnctapercluster 2, 3, 1");
    launch(&pairs, (4, 3, 5)).unwrap();
    for grid in [(3, 3, 1), (2, 4, 1)] {
        let expected = format!(
            "kernel store requires a grid that is a multiple of (2, 3, 1) blocks; the launch has \
             {grid:?}"
        );
        assert_eq!(launch(&pairs, grid).unwrap_err(), expected);
    }
    launch(&store(".maxclusterrank 4"), (3, 1, 1)).unwrap();
    let error = launch(&store(".explicitcluster"), (4, 1, 1)).unwrap_err();
    assert!(
        error.contains("attribute with the size of its clusters"),
        "{error}"
    );
    stream.synchronize().unwrap();
    assert_eq!(x.to_vec().unwrap(), [9, 1, 9, 9]);

    // The grid counts clusters. The software device does not load this kernel.
    let text = format!("{head}{STORE}").replacen(
        ") {",
        ")\n.reqntid 32 .reqnctapercluster 2 .blocksareclusters\n{",
        1,
    );
    let contract = LaunchContract::from_ptx(&Ptx::new(text).unwrap(), "store").unwrap();
    assert!(format!("{contract:?}").contains("grid_multiple: None"));
}
