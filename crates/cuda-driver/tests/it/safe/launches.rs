//! Launches that are proven, that are checked, and that are refused.

use cuda_driver::launch::Using;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeLaunchError, SafeModule, Unproven, ViolationKind};
use cuda_driver::{Error, Result};
use cuda_sim::Builder;

use super::{GATHER, HEAD, STORE, kernel, try_kernel, violation};
use crate::support::{MIX, assert_all, everywhere, filled, software};

/// The error of a launch or kernel that cannot be safe.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T>) -> SafeLaunchError {
    match result {
        Err(Error::SafeLaunch(error)) => *error,
        other => panic!("expected a refusal: {other:?}"),
    }
}

#[test]
fn a_proven_launch_runs_the_original_kernel() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = module.kernel("mix").unwrap();
        let (mut x, y) = (filled(&stream, 1000, 1), filled(&stream, 1000, 5));
        let config = LaunchConfig::for_num_elems(1000).unwrap();
        for _ in 0..3 {
            let launch = stream
                .launch_safe(&mix, config, (&mut x, &y, 1000_u32))
                .unwrap();
            assert!(!launch.is_checked(), "{}", fixture.name);
            launch.wait().unwrap();
        }
        assert_all(&x, 43, &fixture.name);
    }
}

#[test]
fn accesses_beyond_a_buffer_are_not_made() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = module.kernel("mix").unwrap();
        let (mut x, y) = (filled(&stream, 1000, 1), filled(&stream, 1000, 5));
        let config = LaunchConfig::for_num_elems(1010).unwrap();
        let launch = stream
            .launch_safe(&mix, config, (&mut x, &y, 1010_u32))
            .unwrap();
        assert!(launch.is_checked());
        let violation = violation(launch.wait());
        assert_eq!(violation.kernel, "mix");
        assert_eq!(violation.threads, 10);
        assert_eq!(violation.bytes, 4);
        assert!(matches!(violation.argument, Some(1 | 2)), "{violation}");
        assert_eq!(violation.argument_bytes, 4000);
        let index = violation.block[0] * config.block.x + violation.thread[0];
        assert_eq!(violation.offset, i128::from(index) * 4);
        assert!((1000..1010).contains(&index));
        assert_all(&x, 7, &fixture.name);
        // The context is alive.
        let launch = stream
            .launch_safe(&mix, config, (&mut x, &y, 1000_u32))
            .unwrap();
        launch.wait().unwrap();
        assert!(!launch.is_checked());
        assert_all(&x, 19, &fixture.name);
    }
}

#[test]
fn an_index_from_memory_is_checked() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let gather = kernel(&fixture, GATHER, "gather");
        let mut out = filled(&stream, 4, 9);
        let input = DeviceBuffer::from_host(&stream, &[10_u32, 11, 12]).unwrap();
        let config = LaunchConfig::new(1, 32);
        let good = DeviceBuffer::from_host(&stream, &[2_u64, 1, 0, 2]).unwrap();
        let args = (&mut out, &input, &good, 4_u32);
        let launch = stream.launch_safe(&gather, config, args).unwrap();
        launch.wait().unwrap();
        assert!(launch.is_checked());
        assert_eq!(out.to_vec().unwrap(), [12, 11, 10, 12]);
        let bad = [1_u64, 3, u64::MAX, 1 << 62];
        let bad = DeviceBuffer::from_host(&stream, &bad).unwrap();
        let args = (&mut out, &input, &bad, 4_u32);
        let launch = stream.launch_safe(&gather, config, args).unwrap();
        let violation = violation(launch.wait());
        // 1 << 62 words are 0 bytes modulo 2^64.
        assert_eq!(violation.threads, 2, "{violation}");
        assert_eq!(violation.argument, Some(2));
        assert_eq!(violation.kind, ViolationKind::Read);
        assert_eq!(violation.ptx_line, 22);
        assert_eq!(out.to_vec().unwrap(), [11, 0, 0, 10], "{}", fixture.name);
    }
}

#[test]
fn a_store_through_a_shared_borrow_is_dropped() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let config = LaunchConfig::new(1, 1);
        let launch = stream
            .launch_safe(&store, config, (&x, 4_u64, 1_u32))
            .unwrap();
        let violation = violation(launch.wait());
        let text = violation.to_string();
        assert!(text.contains("which was passed as `&`"), "{text}");
        assert_all(&x, 9, &fixture.name);
        let launch = stream
            .launch_safe(&store, config, (&mut x, 4_u64, 1_u32))
            .unwrap();
        assert!(!launch.is_checked());
        assert_eq!(x.to_vec().unwrap(), [9, 1, 9, 9]);
    }
}

#[test]
fn sizes_of_buffers_are_compared_at_every_launch() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let mut x = filled(&stream, 8, 9);
    let config = LaunchConfig::new(1, 1);
    for (len, is_checked) in [(8, false), (3, true), (2, true), (4, false), (3, true)] {
        let part = x.slice_mut(..len).unwrap();
        let launch = stream
            .launch_safe(&store, config, (part, 12_u64, 1_u32))
            .unwrap();
        assert_eq!(launch.is_checked(), is_checked, "{len}");
        assert_eq!(launch.wait().is_err(), is_checked, "{len}");
    }
    // Other numbers give other proofs.
    for (at, is_fine) in [
        (0_u64, true),
        (28, true),
        (29, false),
        (32, false),
        (u64::MAX, false),
    ] {
        let launch = stream
            .launch_safe(&store, config, (&mut x, at, 1_u32))
            .unwrap();
        assert_eq!(launch.wait().is_ok(), is_fine, "{at}");
    }
}

#[test]
fn unproven_launches_can_be_rejected() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store").with_unproven(Unproven::Reject);
    let mut x = filled(&stream, 4, 9);
    let config = LaunchConfig::new(1, 1);
    stream
        .launch_safe(&store, config, (&mut x, 12_u64, 1_u32))
        .unwrap();
    let error = refusal(stream.launch_safe(&store, config, (&mut x, 16_u64, 1_u32)));
    assert!(error.to_string().contains("it needs 20 bytes"), "{error}");
    let error = refusal(stream.launch_safe(&store, config, (&x, 12_u64, 1_u32)));
    assert!(error.to_string().contains("PTX line 10"), "{error}");
    assert_eq!(x.to_vec().unwrap(), [9, 9, 9, 1]);
}

#[test]
fn kernels_that_cannot_be_safe_are_refused_with_a_line() {
    let fixture = software(cuda_sim::Builder::new());
    let call = ".func f() {\n call f, (); ret; }\n.visible .entry k() {\n call f, (); ret; }";
    let error = refusal(try_kernel(&fixture, call, "k"));
    let SafeLaunchError::Refused { line, reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*line, 5);
    assert!(reason.contains("recursive call of f"), "{reason}");
    assert!(matches!(
        try_kernel(&fixture, call, "none"),
        Err(Error::NoSuchFunction { .. })
    ));
}

#[test]
fn arguments_of_wrong_sizes_are_an_error() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let mut x = filled(&stream, 4, 9);
    let config = LaunchConfig::new(1, 1);
    let result = stream.launch_safe(&store, config, (&mut x, 4_u64));
    assert!(matches!(result, Err(Error::Argument(_))));
    let result = stream.launch_safe(&store, config, (&mut x, 4_u32, 4_u32));
    assert!(matches!(result, Err(Error::Argument(_))));
    let result = stream.launch_safe(&store, LaunchConfig::new(0, 1), (&mut x, 4_u64, 4_u32));
    assert!(matches!(result, Err(Error::LaunchConfig(_))));
}

/// `counter += 1` for a variable of the module.
const COUNTER: &str = ".visible .global .align 4 .u32 counter;
.visible .entry count() { .reg .b64 %d; mov.u64 %d, counter; red.global.add.u32 [%d], 1; ret; }
.visible .entry show(.param .u64 out) {
    .reg .b64 %d; .reg .b32 %r;
    ld.global.u32 %r, [counter];
    ld.param.u64 %d, [out];
    st.global.u32 [%d], %r;
    ret;
}
";

#[test]
fn variables_of_the_module_have_to_be_passed() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let ptx = Ptx::new(format!("{HEAD}{COUNTER}")).unwrap();
    let module = SafeModule::load(&fixture.context, &ptx).unwrap();
    let (count, show) = (
        module.kernel("count").unwrap(),
        module.kernel("show").unwrap(),
    );
    let mut counter = module.module().global::<u32>("counter", &stream).unwrap();
    let config = LaunchConfig::new(2, 4);
    let error = refusal(stream.launch_safe(&count, config, ()));
    assert!(error.to_string().contains("(&mut global,)"), "{error}");
    let error = refusal(stream.launch_safe(&count, config, Using::new((), (&counter,))));
    assert!(error.to_string().contains("(&mut global,)"), "{error}");
    let args = Using::new((), (&mut counter,));
    stream.launch_safe(&count, config, args).unwrap();
    assert_eq!(counter.to_vec().unwrap(), [8]);
    let mut out = filled(&stream, 1, 0);
    let other = filled(&stream, 1, 0);
    let args = Using::new((&mut out,), (&other,));
    refusal(stream.launch_safe(&show, LaunchConfig::new(1, 1), args));
    let args = Using::new((&mut out,), (&counter,));
    stream
        .launch_safe(&show, LaunchConfig::new(1, 1), args)
        .unwrap();
    assert_eq!(out.to_vec().unwrap(), [8]);
    // A checked copy would have its own variable.
    let mut none = out.slice_mut(..0).unwrap();
    let args = Using::new((&mut none,), (&counter,));
    let error = refusal(stream.launch_safe(&show, LaunchConfig::new(1, 1), args));
    let SafeLaunchError::Refused { line, reason, .. } = &error else {
        panic!("{error:?}");
    };
    let expected = format!("{HEAD}{COUNTER}");
    let expected = expected.lines().position(|it| it.contains("st.global.u32"));
    assert_eq!(Some(*line as usize), expected.map(|it| it + 1), "{error}");
    assert!(reason.contains("its own variable counter"), "{error}");
}

/// The kernel loads word `tid & mask` of a constant array with four words.
#[test]
fn an_index_beyond_a_constant_array_is_refused() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let load = |mask: u32| {
            let text = format!(
                "{HEAD}.const .align 4 .b32 t[4] = {{10, 20, 30, 40}};
                .visible .entry k(.param .u64 out) {{
                .reg .b32 %r<4>; .reg .b64 %d<5>;
                ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, {mask};
                mul.wide.u32 %d2, %r2, 4; mov.u64 %d3, t; add.s64 %d3, %d3, %d2;
                ld.const.u32 %r3, [%d3];
                mul.wide.u32 %d2, %r1, 4; add.s64 %d4, %d1, %d2; st.global.u32 [%d4], %r3; ret; }}"
            );
            SafeModule::load(&fixture.context, &Ptx::new(text).unwrap()).unwrap()
        };
        let mut out = filled(&stream, 8, 1);
        let config = LaunchConfig::new(1, 8);
        let small = load(3);
        let (k, t) = (small.kernel("k").unwrap(), small.module());
        let t = t.global::<u32>("t", &stream).unwrap();
        let args = Using::new((&mut out,), (&t,));
        let launch = stream.launch_safe(&k, config, args).unwrap();
        assert!(!launch.is_checked(), "{}", fixture.name);
        let words = [10, 20, 30, 40, 10, 20, 30, 40];
        assert_eq!(out.to_vec().unwrap(), words, "{}", fixture.name);

        let large = load(7);
        let (k, t) = (large.kernel("k").unwrap(), large.module());
        let t = t.global::<u32>("t", &stream).unwrap();
        let error = refusal(stream.launch_safe(&k, config, Using::new((&mut out,), (&t,))));
        let text = error.to_string();
        assert!(
            text.contains("PTX line 9: this access cannot be checked"),
            "{text}"
        );
        assert!(
            text.contains("it may access the bytes 0..32, but the memory has 16"),
            "{text}"
        );
        assert_eq!(out.to_vec().unwrap(), words, "{}", fixture.name);
    }
}

#[test]
fn a_contract_lists_what_a_launch_needs() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let gather = kernel(&fixture, GATHER, "gather");
    let (mut out, input) = (filled(&stream, 4, 0), filled(&stream, 4, 0));
    let index = DeviceBuffer::<u64>::zeroed(&stream, 4).unwrap();
    let config = LaunchConfig::new(4, 256);
    let contract = gather
        .contract(config, (&mut out, &input, &index, 1000_u32))
        .unwrap();
    assert!(!contract.is_proven());
    assert_eq!(contract.unproven(), 1);
    let needed = [1, 2, 3, 4].map(|argument| contract.needed_bytes(argument));
    assert_eq!(needed, [4000, 0, 8000, 0]);
    let text = contract.to_string();
    assert!(
        text.contains("8·n ≤ bytes(index), reads, PTX line 19"),
        "{text}"
    );
    assert!(
        text.contains("not proven: ld.global.nc.u32, PTX line 22"),
        "{text}"
    );
}

#[test]
fn new_numbers_are_proven_for_exactly_their_data() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = mix.kernel("mix").unwrap();
        let (mut x, y) = (filled(&stream, 1000, 1), filled(&stream, 1000, 0));
        let config = LaunchConfig::for_num_elems(1000).unwrap();
        let mut expected = vec![1_u32; 1000];
        // The third launch and later ones use one proof for a range of numbers.
        for n in [500_u32, 700, 1, 999, 1000, 12, 640] {
            let part = x.slice_mut(..n as usize).unwrap();
            let launch = stream.launch_safe(&mix, config, (part, &y, n)).unwrap();
            assert!(!launch.is_checked(), "{n}");
            for word in &mut expected[..n as usize] {
                *word *= 2;
            }
            let part = y.slice(..n as usize - 1).unwrap();
            let launch = stream.launch_safe(&mix, config, (&mut x, part, n)).unwrap();
            assert!(launch.is_checked(), "{n}");
            assert_eq!(violation(launch.wait()).argument, Some(2), "{n}");
            for word in &mut expected[..n as usize] {
                *word *= 2;
            }
        }
        assert_eq!(x.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn new_grids_are_proven_for_exactly_their_data() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = SafeModule::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = module.kernel("mix").unwrap();
        let (mut x, y) = (filled(&stream, 5000, 1), filled(&stream, 5000, 0));
        let mut expected = vec![1_u32; 5000];
        // The third launch and later ones use one proof for ranges of the number and of the grid.
        for n in [700_u32, 1500, 1, 5000, 2561, 256, 257] {
            let config = LaunchConfig::for_num_elems(n).unwrap();
            let part = x.slice_mut(..n as usize).unwrap();
            let launch = stream.launch_safe(&mix, config, (part, &y, n)).unwrap();
            assert!(!launch.is_checked(), "{n}");
            let part = y.slice(..n as usize - 1).unwrap();
            let launch = stream.launch_safe(&mix, config, (&mut x, part, n)).unwrap();
            assert!(launch.is_checked(), "{n}");
            assert_eq!(violation(launch.wait()).argument, Some(2), "{n}");
            for word in &mut expected[..n as usize] {
                *word *= 4;
            }
        }
        assert_eq!(x.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

/// Each block writes its number in its cluster to the element with its number in the grid.
const RANKS: &str = ".version 8.0\n.target sm_90\n.address_size 64
.visible .entry ranks(.param .u64 out) .reqnctapercluster 2, 1, 1 {
    .reg .b32 %r<3>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %cluster_ctarank;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r2;
    ret;
}
";

#[test]
fn a_kernel_with_the_size_of_its_clusters_is_safe() {
    let with_clusters = everywhere().filter(|fixture| {
        let capability = fixture.context.device().compute_capability();
        capability.unwrap().major >= 9
    });
    for fixture in with_clusters.chain([software(Builder::new().compute_capability(9, 0))]) {
        let stream = fixture.stream();
        let module = SafeModule::load(&fixture.context, &Ptx::new(RANKS).unwrap()).unwrap();
        let ranks = module.kernel("ranks").unwrap();
        let config = LaunchConfig::new(6, 1);
        let mut out = filled(&stream, 6, 9);
        let launch = stream.launch_safe(&ranks, config, (&mut out,)).unwrap();
        assert!(!launch.is_checked(), "{}", fixture.name);
        launch.wait().unwrap();
        assert_eq!(
            out.to_vec().unwrap(),
            [0, 1, 0, 1, 0, 1],
            "{}",
            fixture.name
        );

        // The buffer ends in the middle of a cluster.
        let mut out = filled(&stream, 5, 9);
        let launch = stream.launch_safe(&ranks, config, (&mut out,)).unwrap();
        let violation = violation(launch.wait());
        assert_eq!(violation.block, [5, 0, 0], "{}: {violation}", fixture.name);
        assert_eq!(out.to_vec().unwrap(), [0, 1, 0, 1, 0], "{}", fixture.name);

        // The driver refuses a grid that is not a multiple of the cluster.
        let result = stream.launch_safe(&ranks, LaunchConfig::new(5, 1), (&mut out,));
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::LaunchConfig(_)),
            "{}: {error:?}",
            fixture.name
        );
    }
}
