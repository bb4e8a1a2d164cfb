//! Work between contexts, on two devices and on a single one.

use cuda_driver::context::ContextFlags;
use cuda_driver::device::{AtomicCapabilities, AtomicOperation, PeerAttribute, SmSplitFlags};
use cuda_driver::prelude::*;
use cuda_driver::{Error, Version};
use cuda_sim::{Builder, Simulator};

use crate::support::{
    COPY, MIX, assert_all, filled, gpu, has_version, late, launch_copy, new_stream, skip, software,
};

/// Enough words that a kernel on a GPU runs longer than it takes to queue the next one.
const N: u32 = 1 << 16;

/// Two contexts of one driver.
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) one: Context,
    pub(crate) two: Context,
    pub(crate) simulator: Option<Simulator>,
}

impl Pair {
    pub(crate) fn kernels(&self, ptx: &str, name: &str) -> [Function; 2] {
        [&self.one, &self.two].map(|context| {
            let module = Module::load(context, &Ptx::new(ptx).unwrap()).unwrap();
            module.function(name).unwrap()
        })
    }
}

/// Returns second contexts for `one`: one on the same device, a green one if the driver has green
/// contexts, and one on another device if there is one.
fn second(one: &Context) -> Vec<Context> {
    let driver = one.driver();
    let mut seconds = vec![Context::new(one.device(), ContextFlags::empty()).unwrap()];
    if driver.version() >= Version::new(12_040) {
        let sms = one.device().sm_resource().unwrap();
        let split = sms.split_by_count(1, 8, SmSplitFlags::empty()).unwrap();
        seconds.push(Context::green(&split.groups[0]).unwrap());
    }
    if driver.devices().unwrap().len() > 1 {
        seconds.push(driver.device(1).unwrap().primary_context().unwrap());
    }
    seconds
}

/// Returns pairs on late software devices and on the GPUs. They are created one at a time, because
/// the number of software drivers per process is limited.
#[track_caller]
pub(crate) fn pairs(seeds: u64) -> impl Iterator<Item = Pair> {
    let fixtures = (0..seeds).map(|seed| software(late(seed).devices(2)));
    fixtures.chain(gpu()).flat_map(|fixture| {
        second(&fixture.context).into_iter().map(move |two| Pair {
            name: format!("{}: {two:?}", fixture.name),
            one: fixture.context.clone(),
            two,
            simulator: fixture.simulator.clone(),
        })
    })
}

fn launch(
    kernel: &Function,
    stream: &Stream,
    output: &mut DeviceBuffer<u32>,
    input: &DeviceBuffer<u32>,
) {
    // SAFETY: the kernel reads N words of the one and reads and writes N of the other; each has N.
    unsafe {
        stream.launch(
            kernel,
            LaunchConfig::for_num_elems(N).unwrap(),
            (output, input, N),
        )
    }
    .unwrap();
}

#[test]
fn bytes_are_copied_to_another_context_and_back() {
    for pair in pairs(4) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let words: Vec<u32> = (0..1000)
            .map(|i: u32| i.wrapping_mul(0x9E37_79B9))
            .collect();
        let source = DeviceBuffer::from_host(&one, &words).unwrap();
        let mut there = DeviceBuffer::<u32>::zeroed(&two, 600).unwrap();
        there
            .as_mut_slice()
            .copy_from_peer(source.slice(400..).unwrap())
            .unwrap();
        let mut back = DeviceBuffer::<u32>::zeroed(&one, 600).unwrap();
        back.as_mut_slice()
            .copy_from_peer(there.as_slice())
            .unwrap();
        assert_eq!(there.to_vec().unwrap(), words[400..], "{}", pair.name);
        assert_eq!(back.to_vec().unwrap(), words[400..], "{}", pair.name);
        // Within one context this is an ordinary copy.
        back.slice_mut(..100)
            .unwrap()
            .copy_from_peer(source.slice(..100).unwrap())
            .unwrap();
        assert_eq!(back.slice(..100).unwrap().to_vec().unwrap(), words[..100]);
    }
}

#[test]
fn peer_copy_is_ordered_with_uses_of_its_source() {
    for pair in pairs(16) {
        let [kernel, _] = pair.kernels(COPY, "copy");
        let (owner, writer, two) = (
            new_stream(&pair.one),
            new_stream(&pair.one),
            new_stream(&pair.two),
        );
        let (mut source, mut target) = (filled(&owner, N, 1), filled(&two, N, 0));
        let (seven, nine) = (filled(&writer, N, 7), filled(&writer, N, 9));
        launch_copy(&kernel, &writer, &seven, &mut source).unwrap();
        target
            .as_mut_slice()
            .copy_from_peer(source.as_slice())
            .unwrap();
        // This does not wait: it is on another stream of the source's context.
        launch_copy(&kernel, &writer, &nine, &mut source).unwrap();
        assert_all(&target, 7, &pair.name);
        assert_all(&source, 9, &pair.name);
    }
}

#[test]
fn a_copy_waits_for_the_readers_of_its_target() {
    for pair in pairs(16) {
        let [_, kernel] = pair.kernels(COPY, "copy");
        let (one, owner, reader) = (
            new_stream(&pair.one),
            new_stream(&pair.two),
            new_stream(&pair.two),
        );
        let (source, mut target) = (filled(&one, N, 5), filled(&owner, N, 1));
        let mut read = filled(&reader, N, 0);
        launch_copy(&kernel, &reader, &target, &mut read).unwrap();
        target
            .as_mut_slice()
            .copy_from_peer(source.as_slice())
            .unwrap();
        assert_all(&read, 1, &pair.name);
        assert_all(&target, 5, &pair.name);
    }
}

#[test]
fn a_source_that_is_dropped_is_freed_behind_the_copy() {
    for pair in pairs(16) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let (source, mut target) = (filled(&one, N, 3), filled(&two, N, 0));
        target
            .as_mut_slice()
            .copy_from_peer(source.as_slice())
            .unwrap();
        drop(source);
        // This buffer probably gets the same memory, and is written at once.
        let next = filled(&one, N, 8);
        assert_all(&target, 3, &pair.name);
        assert_all(&next, 8, &pair.name);
    }
}

#[test]
fn the_copying_context_may_be_dropped_during_the_copy() {
    for mut pair in pairs(16) {
        let [kernel, _] = pair.kernels(COPY, "copy");
        let one = new_stream(&pair.one);
        let (mut source, four) = (filled(&one, N, 3), filled(&one, N, 4));
        {
            let mut target = filled(&new_stream(&pair.two), N, 0);
            target
                .as_mut_slice()
                .copy_from_peer(source.as_slice())
                .unwrap();
            pair.two = pair.one.clone();
        }
        let other = new_stream(&pair.one);
        launch_copy(&kernel, &other, &four, &mut source).unwrap();
        assert_all(&source, 4, &pair.name);
        let simulator = pair.simulator.take();
        drop((source, four, kernel, one, other, pair));
        // The other pair on this driver may still have to run, and its context already exists.
        if let Some(simulator) = simulator {
            let live = simulator.live();
            assert_eq!((live.allocations, live.streams), (0, 0), "{live}");
        }
    }
}

/// Runs random kernels and copies in two contexts with two streams each, and compares the results
/// with the same arithmetic on the host.
#[test]
fn random_programs_over_two_contexts_match_sequential_model() {
    for (program, pair) in pairs(60).enumerate() {
        let mut random = fastrand::Rng::with_seed(program as u64);
        let kernels = pair.kernels(MIX, "mix");
        let streams =
            [&pair.one, &pair.two].map(|context| [new_stream(context), new_stream(context)]);
        let fresh = |side: usize, random: &mut fastrand::Rng| {
            let value = random.u32(..);
            (filled(&streams[side][random.usize(..2)], N, value), value)
        };
        let mut buffers: Vec<Vec<(DeviceBuffer<u32>, u32)>> = (0..2)
            .map(|side| (0..3).map(|_| fresh(side, &mut random)).collect())
            .collect();
        for _ in 0..40 {
            let (side, a, b) = (random.usize(..2), random.usize(..3), random.usize(..3));
            match random.u32(..8) {
                0 => buffers[side][a] = fresh(side, &mut random),
                1..=3 if a != b => {
                    let on = &streams[side][random.usize(..2)];
                    let [(x, x_model), (y, y_model)] =
                        buffers[side].get_disjoint_mut([a, b]).unwrap();
                    launch(&kernels[side], on, x, y);
                    *x_model = x_model.wrapping_mul(2).wrapping_add(*y_model);
                }
                _ => {
                    let (ones, twos) = buffers.split_at_mut(1);
                    let (to, from) = if side == 0 {
                        (&mut ones[0][a], &twos[0][b])
                    } else {
                        (&mut twos[0][a], &ones[0][b])
                    };
                    to.0.as_mut_slice()
                        .copy_from_peer(from.0.as_slice())
                        .unwrap();
                    to.1 = from.1;
                }
            }
        }
        for (buffer, model) in buffers.iter().flatten() {
            assert_all(
                buffer,
                *model,
                &format!("program {program} on {}", pair.name),
            );
        }
    }
}

#[test]
fn peer_access_can_be_queried_and_switched() {
    for fixture in [software(Builder::new().devices(2))]
        .into_iter()
        .chain(gpu())
    {
        let driver = fixture.context.driver();
        let one = fixture.context.device();
        assert!(!one.can_access_peer(one).unwrap());
        assert!(
            one.peer_attribute(one, PeerAttribute::ACCESS_SUPPORTED)
                .is_err()
        );
        let Some(two) = driver.devices().unwrap().into_iter().nth(1) else {
            skip("on two GPUs: there is only one");
            continue;
        };
        let attributes = one.peer_attributes(&two).unwrap();
        assert_eq!(attributes.has_access, one.can_access_peer(&two).unwrap());
        assert!(attributes.performance_rank >= 0);
        if attributes.has_access {
            let peer = Context::new(&two, ContextFlags::empty()).unwrap();
            for _ in 0..2 {
                fixture.context.enable_peer_access(&peer).unwrap();
            }
            for _ in 0..2 {
                // SAFETY: no work uses the access.
                unsafe { fixture.context.disable_peer_access(&peer) }.unwrap();
            }
        }
    }
}

#[test]
fn peers_of_another_driver_are_refused_without_a_call() {
    let fixtures = [(); 2].map(|()| software(Builder::new().devices(2)));
    let [one, two] = &fixtures;
    let (here, there) = (one.stream(), two.stream());
    let source = DeviceBuffer::from_host(&there, &[1_u8, 2]).unwrap();
    let mut target = DeviceBuffer::from_host(&here, &[7_u8, 7]).unwrap();
    for fixture in &fixtures {
        fixture.simulator.as_ref().unwrap().reset_calls();
    }
    let results = [
        target.as_mut_slice().copy_from_peer(source.as_slice()),
        one.context.enable_peer_access(&two.context),
        // SAFETY: the call is refused.
        unsafe { one.context.disable_peer_access(&two.context) },
        one.context
            .device()
            .can_access_peer(two.context.device())
            .map(drop),
        one.context
            .device()
            .peer_attributes(two.context.device())
            .map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
    for fixture in &fixtures {
        let calls = fixture.simulator.as_ref().unwrap().calls();
        assert!(calls.is_empty(), "{calls:?}");
    }
    assert_eq!(target.to_vec().unwrap(), [7, 7]);
}

#[test]
fn peer_copies_need_equal_lengths() {
    let fixture = software(Builder::new().devices(2));
    let two = second(&fixture.context).pop().unwrap();
    let source = DeviceBuffer::from_host(&fixture.stream(), &[1_u8, 2, 3]).unwrap();
    let mut target = DeviceBuffer::from_host(&new_stream(&two), &[7_u8, 7]).unwrap();
    let error = target
        .as_mut_slice()
        .copy_from_peer(source.as_slice())
        .unwrap_err();
    assert_eq!(
        error,
        Error::LengthMismatch {
            source_len: 3,
            destination_len: 2
        }
    );
    // An empty copy succeeds without a driver call.
    let empty = DeviceBuffer::<u8>::zeroed(&fixture.stream(), 0).unwrap();
    target
        .slice_mut(2..)
        .unwrap()
        .copy_from_peer(empty.as_slice())
        .unwrap();
    assert_eq!(target.to_vec().unwrap(), [7, 7]);
}

#[test]
fn atomic_capabilities_of_links_can_be_queried() {
    if !has_version((13, 0)) {
        return;
    }
    for fixture in [software(Builder::new().devices(2))]
        .into_iter()
        .chain(gpu())
    {
        let driver = fixture.context.driver();
        if driver.version() < Version::new(13_000) {
            skip("it needs a driver of CUDA 13.0");
            continue;
        }
        let one = fixture.context.device();
        let operations = [
            AtomicOperation::CU_ATOMIC_OPERATION_INTEGER_ADD,
            AtomicOperation::CU_ATOMIC_OPERATION_CAS,
        ];
        let host = one.host_atomic_capabilities(&operations).unwrap();
        println!("{}: host {host:?}", fixture.name);
        assert_eq!(host.len(), operations.len());
        assert_eq!(one.host_atomic_capabilities(&[]).unwrap(), []);
        let Some(two) = driver.devices().unwrap().into_iter().nth(1) else {
            skip("on two GPUs: there is only one");
            continue;
        };
        let forms = one.peer_atomic_capabilities(&two, &operations).unwrap();
        println!("{}: peer {forms:?}", fixture.name);
        // Driver 580 reports no capability for two H200 that are joined by NVLink, although it
        // reports native atomics for them.
        if fixture.simulator.is_some() {
            assert!(one.peer_attributes(&two).unwrap().has_native_atomics);
            let words = AtomicCapabilities::UNSIGNED | AtomicCapabilities::SCALAR_32;
            assert!(forms.iter().all(|it| it.contains(words)), "{forms:?}");
        }
        assert_eq!(one.peer_atomic_capabilities(&two, &[]).unwrap(), []);
        let error = one.peer_atomic_capabilities(one, &operations).unwrap_err();
        assert!(error.status().is_some(), "{error}");
    }
}

#[test]
fn older_drivers_lack_the_atomic_capabilities() {
    let fixture = software(Builder::new().devices(2).version(12_090));
    let two = fixture.context.driver().device(1).unwrap();
    let operations = [AtomicOperation::CU_ATOMIC_OPERATION_AND];
    let device = fixture.context.device();
    let errors = [
        device.peer_atomic_capabilities(&two, &operations),
        device.host_atomic_capabilities(&operations),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(error.to_string().contains("13.0"), "{error}");
    }
}
