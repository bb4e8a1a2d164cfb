//! Kernels that use memory of another context.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_driver::Error;
use cuda_driver::context::ContextFlags;
use cuda_driver::memory::{ManagedBuffer, PeerSlice, Unpooled};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::peer::pairs;
use crate::support::{COPY, MIX, assert_all, filled, launch_copy, new_stream, software};

/// Enough words that a kernel on a GPU runs longer than it takes to queue the next one.
const N: u32 = 1 << 16;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

/// Queues `output = 2 * output + input` with an input of another context.
fn mix(kernel: &Function, stream: &Stream, output: &mut DeviceBuffer<u32>, input: PeerSlice<u32>) {
    // SAFETY: the kernel reads N words of the one and reads and writes N of the other; each has N.
    unsafe { stream.launch(kernel, config(), (output, input, N)) }.unwrap();
}

#[test]
fn kernels_read_and_write_memory_of_another_context() {
    for pair in pairs(4) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let [_, kernel] = pair.kernels(COPY, "copy");
        let (source, mut target) = (filled(&one, N, 5), filled(&one, N, 0));
        {
            let input = source.as_slice().for_peer(&pair.two).unwrap();
            let mut view = target.as_mut_slice();
            let output = view.for_peer(&pair.two).unwrap();
            assert_eq!((input.len(), output.len()), (N as usize, N as usize));
            assert!(!input.is_empty() && !output.is_empty());
            // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
            unsafe { two.launch(&kernel, config(), (input, output, N)) }.unwrap();
        }
        // The copy to the host is queued on the owning stream, in the other context.
        assert_all(&target, 5, &pair.name);
    }
}

#[test]
fn plain_memory_of_another_device_is_an_argument() {
    for pair in pairs(2).filter(|pair| pair.one.device() != pair.two.device()) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let [_, kernel] = pair.kernels(MIX, "mix");
        let mut source = DeviceBuffer::zeroed_in(&Unpooled, &one, N as usize).unwrap();
        source.fill(6_u32).unwrap();
        let mut sum = filled(&two, N, 10);
        let input = source.as_slice().for_peer(&pair.two).unwrap();
        mix(&kernel, &two, &mut sum, input);
        assert_all(&sum, 26, &pair.name);
    }
}

#[test]
fn later_writes_wait_for_a_kernel_of_another_context() {
    for pair in pairs(16) {
        let [here, there] = pair.kernels(COPY, "copy");
        let (owner, writer, two) = (
            new_stream(&pair.one),
            new_stream(&pair.one),
            new_stream(&pair.two),
        );
        let (mut source, mut target) = (filled(&owner, N, 1), filled(&two, N, 0));
        let (seven, nine) = (filled(&writer, N, 7), filled(&writer, N, 9));
        launch_copy(&here, &writer, &seven, &mut source).unwrap();
        let input = source.as_slice().for_peer(&pair.two).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe { two.launch(&there, config(), (input, &mut target, N)) }.unwrap();
        launch_copy(&here, &writer, &nine, &mut source).unwrap();
        assert_all(&target, 7, &pair.name);
        assert_all(&source, 9, &pair.name);
    }
}

#[test]
fn memory_is_freed_behind_a_kernel_of_another_context() {
    for pair in pairs(16) {
        let [_, kernel] = pair.kernels(COPY, "copy");
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let (source, mut target) = (filled(&one, N, 3), filled(&two, N, 0));
        let input = source.as_slice().for_peer(&pair.two).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe { two.launch(&kernel, config(), (input, &mut target, N)) }.unwrap();
        drop(source);
        // This buffer probably gets the same memory, and is written at once.
        let next = filled(&one, N, 8);
        assert_all(&target, 3, &pair.name);
        assert_all(&next, 8, &pair.name);
    }
}

/// Runs random kernels in two contexts with two streams each on memory of both, and compares the
/// results with the same arithmetic on the host.
#[test]
fn random_kernels_over_two_contexts_match_sequential_model() {
    for (program, pair) in pairs(60).enumerate() {
        let mut random = fastrand::Rng::with_seed(program as u64);
        let kernels = pair.kernels(MIX, "mix");
        let contexts = [&pair.one, &pair.two];
        let streams = contexts.map(|context| [new_stream(context), new_stream(context)]);
        let fresh = |random: &mut fastrand::Rng| {
            let (side, value) = (random.usize(..2), random.u32(..));
            (filled(&streams[side][random.usize(..2)], N, value), value)
        };
        let mut buffers: Vec<_> = (0..5).map(|_| fresh(&mut random)).collect();
        for _ in 0..40 {
            let (a, b) = (random.usize(..5), random.usize(..5));
            if a == b {
                buffers[a] = fresh(&mut random);
                continue;
            }
            let side = random.usize(..2);
            let stream = &streams[side][random.usize(..2)];
            let [(x, x_model), (y, y_model)] = buffers.get_disjoint_mut([a, b]).unwrap();
            let mut output = x.as_mut_slice();
            let output = output.for_peer(contexts[side]).unwrap();
            let input = y.as_slice().for_peer(contexts[side]).unwrap();
            // SAFETY: the kernel reads N words of the one and reads and writes N of the other;
            // each has N.
            unsafe { stream.launch(&kernels[side], config(), (output, input, N)) }.unwrap();
            *x_model = x_model.wrapping_mul(2).wrapping_add(*y_model);
        }
        for (buffer, model) in &buffers {
            let name = format!("program {program} on {}", pair.name);
            assert_all(buffer, *model, &name);
        }
    }
}

/// Two graphs write different values, and a kernel of another context reads them meanwhile.
#[test]
fn replays_and_kernels_of_another_context_exclude_each_other() {
    for pair in pairs(4) {
        let [_, kernel] = pair.kernels(COPY, "copy");
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let mut source = filled(&one, N, 1);
        let executables = [1, 2].map(|value| {
            let mut graph = Graph::new(&pair.one).unwrap();
            graph.add_fill(&[], &mut source, value).unwrap();
            graph.instantiate().unwrap()
        });
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let replays = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    for executable in &executables {
                        executable.launch(&one).unwrap();
                    }
                    one.synchronize().unwrap();
                }
            });
            for _ in 0..20 {
                let mut target = filled(&two, N, 0);
                let input = source.as_slice().for_peer(&pair.two).unwrap();
                // SAFETY: the kernel reads N words of the one and writes N of the other.
                unsafe { two.launch(&kernel, config(), (input, &mut target, N)) }.unwrap();
                let words = target.to_vec().unwrap();
                assert!(words.iter().all(|word| *word == words[0]), "{}", pair.name);
            }
            is_done.store(true, Ordering::Relaxed);
            replays.join().unwrap();
        });
    }
}

#[test]
fn misuse_of_a_peer_view_is_an_error() {
    for pair in pairs(1) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let [here, there] = pair.kernels(COPY, "copy");
        let (source, mut target) = (filled(&one, N, 1), filled(&two, N, 0));
        let expect_other_context = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        };
        // A buffer of another context without a view.
        // SAFETY: the launch fails.
        let plain = unsafe { two.launch(&there, config(), (&source, &mut target, N)) };
        expect_other_context(plain);
        // A third context.
        let third = Context::new(pair.one.device(), ContextFlags::empty()).unwrap();
        let view = source.as_slice().for_peer(&third).unwrap();
        // SAFETY: as above.
        let wrong = unsafe { two.launch(&there, config(), (view, &mut target, N)) };
        expect_other_context(wrong);
        let view = source.as_slice().for_peer(&pair.two).unwrap();
        let mut graph = Graph::new(&pair.two).unwrap();
        // SAFETY: as above.
        let node = unsafe { graph.add_kernel(&[], &there, config(), (view, &mut target, N)) };
        expect_other_context(node.map(drop));
        // SAFETY: the closure queues nothing.
        let used = unsafe { two.using::<_, ()>((view,), |_| panic!("the closure ran")) };
        let error = used.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        // In the context of the memory itself, a view is an ordinary argument.
        let mut own = filled(&one, N, 0);
        for context in [&pair.one, &pair.two] {
            let view = source.as_slice().for_peer(context).unwrap();
            // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
            unsafe { one.launch(&here, config(), (view, &mut own, N)) }.unwrap();
        }
        assert_all(&own, 1, &pair.name);
        assert_all(&target, 0, &pair.name);
    }
}

#[test]
fn views_of_managed_memory_are_refused() {
    let fixture = software(Builder::new().devices(2));
    let two = fixture.context.driver().device(1).unwrap();
    let two = two.primary_context().unwrap();
    let mut managed = ManagedBuffer::<u32>::zeroed(&fixture.stream(), 4).unwrap();
    let error = managed.as_mut_slice().for_peer(&two).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn views_for_another_driver_are_refused() {
    let fixtures = [(); 2].map(|()| software(Builder::new()));
    let source = filled(&fixtures[0].stream(), 4, 1);
    let error = source
        .as_slice()
        .for_peer(&fixtures[1].context)
        .unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

/// The software device faults where a GPU does: access must be enabled for each pool, or for the
/// context if the memory does not come from a pool.
#[test]
fn a_kernel_faults_without_access_to_the_other_device() {
    for is_pooled in [true, false] {
        for is_enabled in [true, false] {
            let fixture = software(Builder::new().devices(2));
            let two = fixture.context.driver().device(1).unwrap();
            let two = two.primary_context().unwrap();
            let (here, there) = (fixture.stream(), new_stream(&two));
            let source = if is_pooled {
                DeviceBuffer::<u32>::zeroed(&here, 8).unwrap()
            } else {
                DeviceBuffer::<u32>::zeroed_in(&Unpooled, &here, 8).unwrap()
            };
            here.synchronize().unwrap();
            let mut target = filled(&there, 8, 1);
            let kernel = Module::load(&two, &Ptx::new(COPY).unwrap()).unwrap();
            let kernel = kernel.function("copy").unwrap();
            if is_enabled {
                source.as_slice().for_peer(&two).unwrap();
            }
            let config = LaunchConfig::for_num_elems(8).unwrap();
            // SAFETY: nothing else uses the source, and the software device checks each access.
            unsafe { there.launch(&kernel, config, (source.as_raw(), &mut target, 8_u32)) }
                .unwrap();
            assert_eq!(
                there.synchronize().is_ok(),
                is_enabled,
                "pooled: {is_pooled}"
            );
        }
    }
}
