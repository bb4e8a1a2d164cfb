//! Typed kernels, argument lists, attributes of launches and functions, and occupancy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cuda_driver::device::DeviceAttribute;
use cuda_driver::error::{ArgumentError, Status};
use cuda_driver::launch::{AccessProperty, ClusterScheduling, MemSyncDomain};
use cuda_driver::prelude::*;
use cuda_driver::{Error, Version};
use cuda_sim::Builder;

use crate::support::{COPY, COPY_LIST, MIX, everywhere, older, skip, software};

/// Sets `out[block] = block + 1` through the last word of `bytes` bytes of dynamic shared memory.
const SHARED_TAIL: &str = include_str!("kernels/shared_tail.ptx");

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations on this thread while `f` runs.
fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

/// Runs `shared_tail` on `blocks` blocks and returns its output.
fn tails(
    stream: &Stream,
    kernel: &Kernel<(Writes<u32>, u32)>,
    blocks: u32,
    bytes: u32,
) -> Vec<u32> {
    let mut out = DeviceBuffer::<u32>::zeroed(stream, blocks as usize).unwrap();
    let config = LaunchConfig::new(blocks, 32).with_shared_bytes(bytes);
    // SAFETY: the kernel writes a word per block and uses `bytes` bytes of shared memory.
    unsafe { kernel.launch(stream, config, (&mut out, bytes)) }.unwrap();
    out.to_vec().unwrap()
}

#[test]
fn a_typed_kernel_a_tuple_and_a_list_do_the_same() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = fixture.kernel(MIX, "mix");
        let typed: Kernel<(Writes<u32>, Reads<u32>, u32)> = mix.typed().unwrap();
        let (x, y): (Vec<u32>, Vec<u32>) = (0..777).map(|i| (i * 3, i ^ 0x55)).unzip();
        let want: Vec<u32> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| 2 * (2 * (2 * x + y) + y) + y)
            .collect();
        let mut x = DeviceBuffer::from_host(&stream, &x).unwrap();
        let y = DeviceBuffer::from_host(&stream, &y).unwrap();
        let config = LaunchConfig::for_num_elems(777).unwrap();
        // SAFETY: the kernel touches 777 words of each; each has 777.
        unsafe { stream.launch(&mix, config, (&mut x, &y, 777_u32)) }.unwrap();
        // SAFETY: as above.
        unsafe { typed.launch(&stream, config, (x.as_mut_slice(), y.as_slice(), 777_u32)) }
            .unwrap();
        let mut list = ArgList::new();
        list.push(&mut x).push(&y).push(777_u32);
        // SAFETY: as above.
        unsafe { stream.launch(&mix, config, &list) }.unwrap();
        assert_eq!(x.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_signature_is_compared_when_the_kernel_is_typed() {
    let fixture = software(Builder::new());
    let copy = fixture.kernel(COPY, "copy");
    let signature = |error| Error::Argument(Box::new(ArgumentError::Signature(Box::new(error))));
    assert_eq!(
        copy.typed::<(Reads<u32>, Writes<u32>)>().unwrap_err(),
        signature(ArgumentError::Count {
            kernel: "copy".to_owned(),
            expected: 3,
            parameters: COPY_LIST.to_owned(),
            given: 2,
        })
    );
    assert_eq!(
        copy.typed::<(Reads<u32>, u32, u32)>().unwrap_err(),
        signature(ArgumentError::Mismatch {
            kernel: "copy".to_owned(),
            index: 1,
            parameter: copy.parameters().unwrap()[1].clone(),
            given: 4,
            given_type: Some("u32"),
        })
    );
}

/// Uses through an argument list are ordered across streams like those of a tuple.
#[test]
fn a_list_is_ordered_across_streams() {
    for fixture in everywhere() {
        let (one, two) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let n = 10_000_u32;
        let input: Vec<u32> = (0..n).collect();
        let input = DeviceBuffer::from_host(&one, &input).unwrap();
        let mut middle = DeviceBuffer::<u32>::zeroed(&one, n as usize).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&two, n as usize).unwrap();
        let config = LaunchConfig::for_num_elems(n).unwrap();
        let mut first = ArgList::new();
        first.push(&input).push(&mut middle).push(n);
        // SAFETY: the kernel reads n words of the one and writes n of the other.
        unsafe { one.launch(&copy, config, &first) }.unwrap();
        let mut second = ArgList::new();
        second.push(&middle).push(&mut output).push(n);
        // SAFETY: as above.
        unsafe { two.launch(&copy, config, &second) }.unwrap();
        let want: Vec<u32> = (0..n).collect();
        assert_eq!(output.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn a_list_that_does_not_match_is_an_error() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let copy = fixture.kernel(COPY, "copy");
    let input = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let mut list = ArgList::new();
    list.push(&input).push(4_u32);
    assert_eq!(list.len(), 2);
    // SAFETY: the launch fails.
    let error = unsafe { stream.launch(&copy, LaunchConfig::new(1, 4), &list) }.unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error}");
}

#[test]
fn no_form_of_launch_allocates() {
    let fixture = software(Builder::new());
    let (owner, other) = (fixture.stream(), fixture.stream());
    let copy = fixture.kernel(COPY, "copy");
    let typed: Kernel<(Reads<u32>, Writes<u32>, u32)> = copy.typed().unwrap();
    let input = DeviceBuffer::<u32>::zeroed(&owner, 8).unwrap();
    let mut output = DeviceBuffer::<u32>::zeroed(&owner, 8).unwrap();
    let mut elsewhere = DeviceBuffer::<u32>::zeroed(&owner, 8).unwrap();
    let config = LaunchConfig::new(1, 8);
    // Every call fails before the software driver allocates, so only this crate is counted.
    let rule = cuda_sim::Rule::new(Status::CUDA_ERROR_INVALID_VALUE).function("cuLaunchKernel");
    fixture.simulator.as_ref().unwrap().add_rule(rule);
    let mut launch = |with_typed: bool| {
        let args = (&input, &mut output, 8_u32);
        let _ = if with_typed {
            // SAFETY: the kernel does not run.
            unsafe { typed.launch(&owner, config, args) }
        } else {
            // SAFETY: the kernel does not run.
            unsafe { owner.launch(&copy, config, args) }
        };
    };
    let driver_alone = allocations(|| launch(true));
    for with_typed in [false, true] {
        let counted = allocations(|| {
            for _ in 0..100 {
                launch(with_typed);
            }
        });
        assert_eq!(counted, 100 * driver_alone, "typed: {with_typed}");
    }
    // The list has room for its arguments and their pointers.
    let counted = allocations(|| {
        let mut list = ArgList::new();
        list.push(&input).push(&mut elsewhere).push(8_u32);
        // SAFETY: the kernel does not run.
        let _ = unsafe { owner.launch(&copy, config, &list) };
    });
    assert_eq!(counted, driver_alone);
    drop(other);
}

#[test]
fn no_launch_of_a_graph_allocates_however_many_buffers_it_uses() {
    for nodes in [1, 10] {
        let fixture = software(Builder::new());
        let (stream, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let zeroed = |_| DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut buffers: Vec<_> = (0..2 * nodes).map(zeroed).collect();
        let mut graph = Graph::new(&fixture.context).unwrap();
        for two in buffers.chunks_mut(2) {
            let [from, to] = two else { continue };
            let config = LaunchConfig::new(1, 8);
            // SAFETY: the kernel reads 8 words of the one and writes 8 of the other.
            unsafe { graph.add_kernel(&[], &copy, config, (&*from, to, 8_u32)) }.unwrap();
        }
        let exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        // From now on the software driver fails at once, so only this crate is counted.
        let rule = cuda_sim::Rule::new(Status::CUDA_ERROR_INVALID_VALUE).function("cuGraphLaunch");
        fixture.simulator.as_ref().unwrap().add_rule(rule);
        let driver = fixture.context.driver().library();
        let raw = || {
            // SAFETY: both are alive and used by this thread alone.
            let _ = unsafe { driver.cuGraphLaunch(exec.as_raw(), stream.as_raw()) };
        };
        raw();
        let driver_alone = allocations(raw);
        let counted = allocations(|| {
            for _ in 0..100 {
                assert!(exec.launch(&stream).is_err());
            }
        });
        assert_eq!(counted, 100 * driver_alone, "{nodes} nodes");
    }
}

/// Two threads raise the limit to different sizes at once; neither lowers the limit of the other.
#[test]
fn dynamic_shared_memory_above_48_kib_just_works() {
    for fixture in everywhere() {
        let most = fixture
            .context
            .device()
            .max_shared_memory_per_block_optin()
            .unwrap();
        assert!(most > 64 << 10, "{}: {most}", fixture.name);
        let function = fixture.kernel(SHARED_TAIL, "shared_tail");
        std::thread::scope(|scope| {
            for bytes in [most, 50 << 10, 64 << 10, 1024] {
                let (kernel, stream) = (function.typed().unwrap(), fixture.stream());
                scope.spawn(move || {
                    for round in 0..10 {
                        assert_eq!(tails(&stream, &kernel, 3, bytes - 4 * round), [1, 2, 3]);
                    }
                });
            }
        });
        // Another handle of the same function does not lower the limit.
        let again = fixture.kernel(SHARED_TAIL, "shared_tail").typed().unwrap();
        assert_eq!(tails(&fixture.stream(), &again, 1, 60 << 10), [1]);
        let stream = fixture.stream();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let config = LaunchConfig::new(1, 32).with_shared_bytes(most + 4);
        // SAFETY: the launch fails.
        let error = unsafe { stream.launch(&function, config, (&mut out, most)) }.unwrap_err();
        let Error::LaunchConfig(error) = error else {
            panic!("{error}")
        };
        let want = format!("bytes is {}; 0 to {most} is allowed: use less", most + 4);
        assert!(error.to_string().contains(&want), "{error}");
    }
}

#[test]
fn performance_attributes_do_not_change_the_result() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let copy = fixture.kernel(COPY, "copy");
        let n = 1000_u32;
        let want: Vec<u32> = (0..n).map(|i| i * i).collect();
        let input = DeviceBuffer::from_host(&stream, &want).unwrap();
        let window = || input.as_slice();
        let policy =
            |hit, miss| LaunchAttributes::new().access_policy_window(window(), 0.5, hit, miss);
        let has_carveout = older().is_none_or(|version| version >= Version::new(12_050));
        let carveout = has_carveout.then(|| LaunchAttributes::new().shared_memory_carveout(50));
        for attributes in [
            LaunchAttributes::new(),
            LaunchAttributes::new().cooperative(),
            LaunchAttributes::new().priority(-1),
            LaunchAttributes::new()
                .cluster(1)
                .cluster_scheduling(ClusterScheduling::Spread),
            LaunchAttributes::new().mem_sync_domain(MemSyncDomain::Remote),
            LaunchAttributes::new().mem_sync_domain_map(0, 1),
            policy(AccessProperty::Persisting, AccessProperty::Streaming),
            LaunchAttributes::new()
                .cooperative()
                .priority(-1)
                .priority(0),
        ]
        .into_iter()
        .chain(carveout)
        {
            let mut output = DeviceBuffer::<u32>::zeroed(&stream, n as usize).unwrap();
            let config = LaunchConfig::for_num_elems(n).unwrap();
            // SAFETY: the kernel reads n words of the one and writes n of the other.
            let result =
                unsafe { stream.launch_with(&copy, config, &attributes, (&input, &mut output, n)) };
            result.unwrap_or_else(|error| panic!("{}, {attributes:?}: {error}", fixture.name));
            assert_eq!(
                output.to_vec().unwrap(),
                want,
                "{}, {attributes:?}",
                fixture.name
            );
        }
    }
}

#[test]
fn invalid_attributes_are_errors_that_name_the_numbers() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let copy = fixture.kernel(COPY, "copy");
        let input = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        let mut launch = |attributes: &LaunchAttributes<'_>, blocks: u32| {
            let (config, args) = (LaunchConfig::new(blocks, 8), (&input, &mut output, 8_u32));
            // SAFETY: if it runs, the kernel reads 8 words of the one and writes 8 of the other.
            unsafe { stream.launch_with(&copy, config, attributes, args) }
        };
        let text = |error: Error| match error {
            Error::LaunchConfig(error) => error.to_string(),
            other => panic!("{other}"),
        };
        let attribute = DeviceAttribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
        let has_clusters = fixture.context.device().attribute(attribute).unwrap() != 0;
        let most = if has_clusters { 16 } else { 1 };
        for (cluster, given) in [((64, 1, 1), 64), ((0, 1, 1), 0), ((3, 3, 2), 18)] {
            let error = launch(&LaunchAttributes::new().cluster(cluster), 64).unwrap_err();
            let want =
                format!("the number of blocks per cluster is {given}; 1 to {most} is allowed");
            assert!(text(error).contains(&want));
        }
        if has_clusters {
            let error = launch(&LaunchAttributes::new().cluster(2), 3).unwrap_err();
            assert!(text(error).contains("grid.x is 3 blocks, which is not a multiple"));
        }
        // Nothing was launched, and the stream is still usable.
        launch(&LaunchAttributes::new(), 1).unwrap();
        stream.synchronize().unwrap();

        let other = software(Builder::new());
        let event = Event::new(&other.context, EventFlags::DISABLE_TIMING).unwrap();
        let attributes = LaunchAttributes::new().completion_event(&event);
        let error = launch(&attributes, 1).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
}

#[test]
fn attributes_of_a_function_match_its_source() {
    for fixture in everywhere() {
        let function = fixture.kernel(SHARED_TAIL, "shared_tail");
        assert_eq!(function.static_shared_bytes().unwrap(), 0);
        assert_eq!(function.local_bytes().unwrap(), 0);
        assert_eq!(function.required_cluster().unwrap(), None);
        assert!(function.registers().unwrap() > 0, "{}", fixture.name);
        function.set_shared_memory_carveout(Some(100)).unwrap();
        assert!(function.set_shared_memory_carveout(Some(101)).is_err());
        function.set_shared_memory_carveout(None).unwrap();
    }
}

#[test]
fn occupancy_agrees_with_itself() {
    for fixture in everywhere() {
        let function = fixture.kernel(SHARED_TAIL, "shared_tail");
        let device = fixture.context.device();
        let best = function.max_potential_block_size(|_| 0, 0).unwrap();
        assert!((1..=1024).contains(&best.block), "{best:?}");
        let active = function.max_active_blocks(best.block, 0).unwrap();
        let multiprocessors = device.multiprocessor_count().unwrap();
        assert_eq!(best.min_grid, active * multiprocessors, "{}", fixture.name);
        assert_eq!(
            function.max_potential_block_size(|_| 0, 128).unwrap().block,
            128
        );

        // A block that uses all shared memory leaves none for a second block.
        let most = device.max_shared_memory_per_block_optin().unwrap() as usize;
        let stream = fixture.stream();
        tails(
            &stream,
            &function.typed().unwrap(),
            1,
            u32::try_from(most).unwrap(),
        );
        assert_eq!(
            function.max_active_blocks(64, most).unwrap(),
            1,
            "{}",
            fixture.name
        );
        let asked = Cell::new(0_u32);
        let hungry = function
            .max_potential_block_size(
                |threads| {
                    asked.set(asked.get() + 1);
                    threads as usize * 512
                },
                0,
            )
            .unwrap();
        assert!(
            asked.get() > 0 && hungry.block as usize * 512 <= most,
            "{hungry:?}"
        );
        let available = function.available_shared_bytes(2, 64).unwrap();
        assert!(
            available > 0 && available < most,
            "{}: {available}",
            fixture.name
        );

        let n = 100_000_u32;
        let config = function.config_for_num_elems(n).unwrap();
        assert_eq!(config.block.count(), u64::from(best.block));
        assert!(config.grid.count() * config.block.count() >= u64::from(n));
    }
}

#[test]
fn cluster_occupancy_is_positive_on_cluster_devices() {
    for fixture in everywhere() {
        let (stream, function) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        let config = LaunchConfig::new(64, 1024);
        let most = function.max_cluster_size(&stream, config);
        let active = |blocks: u32| {
            let attributes = LaunchAttributes::new().cluster(blocks);
            function.max_active_clusters(&stream, config, &attributes)
        };
        let device = fixture.context.device();
        if device.compute_capability().unwrap().major < 9 {
            assert!(most.is_err() && active(2).is_err(), "{}", fixture.name);
            continue;
        }
        // By default a cluster has at most 8 blocks, according to CUDA's programming guide.
        assert_eq!(most.unwrap(), 8, "{}", fixture.name);
        let [two, four, eight] = [2, 4, 8].map(|blocks| active(blocks).unwrap());
        assert!(two > four && four > eight && eight > 0, "{}", fixture.name);
        // A multiprocessor runs at most two such blocks.
        assert!(two <= device.multiprocessor_count().unwrap());
        let refused = active(16).unwrap_err().status();
        assert_eq!(refused, Some(Status::CUDA_ERROR_INVALID_CLUSTER_SIZE));
    }
}

#[test]
#[should_panic(expected = "from the closure")]
fn panic_in_an_occupancy_callback_reaches_the_caller() {
    let fixture = software(Builder::new());
    let function = fixture.kernel(COPY, "copy");
    let _ = function.max_potential_block_size(|_| panic!("from the closure"), 0);
}

/// The second kernel may start before the first one ends, and sees its writes after its wait.
#[test]
fn a_dependent_launch_sees_what_the_launch_before_it_wrote() {
    const PAIR: &str = include_str!("kernels/dependent.ptx");
    const N: u32 = 256 * 64;
    for fixture in everywhere() {
        if fixture.context.device().compute_capability().unwrap().major < 9 {
            skip(&format!("on {}: before 9.0", fixture.name));
            continue;
        }
        let stream = fixture.stream();
        let (first, second) = (
            fixture.kernel(PAIR, "first"),
            fixture.kernel(PAIR, "second"),
        );
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
        let mut y = DeviceBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
        let config = LaunchConfig::new(N / 256, 256);
        let dependent = LaunchAttributes::new().programmatic_serialization();
        let (mut of_x, mut of_y) = (vec![0_u32; N as usize], vec![0_u32; N as usize]);
        for round in 0..50 {
            // SAFETY: the kernel reads and writes one word per thread.
            unsafe { stream.launch(&first, config, (&mut x, round)) }.unwrap();
            let args = (&x, &mut y);
            // SAFETY: after its wait the kernel reads one word of `x` per thread, and it writes one
            // word of `y` per thread. The only earlier use of `y` is by the second kernel of the
            // previous round, for whose end the first kernel has waited.
            unsafe { stream.launch_with(&second, config, &dependent, args) }.unwrap();
            for (i, (x, y)) in of_x.iter_mut().zip(&mut of_y).enumerate() {
                *x = x.wrapping_mul(3).wrapping_add(i as u32 ^ round);
                *y = x.wrapping_mul(2).wrapping_add(7);
            }
        }
        assert!(x.to_vec().unwrap() == of_x, "{}", fixture.name);
        assert!(y.to_vec().unwrap() == of_y, "{}", fixture.name);
    }
}
