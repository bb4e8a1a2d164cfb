//! Green contexts and device resources.

use std::collections::BTreeSet;

use cuda_driver::Version;
use cuda_driver::device::{SmGroup, SmResource, SmSplitFlags, WorkqueueScope};
use cuda_driver::error::{Error, Status};
use cuda_driver::launch::LaunchAttributes;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{
    COPY, Fixture, assert_all, count_calls, everywhere_since, filled, has_version, launch_copy,
    new_stream, software,
};

/// A kernel whose blocks write the number of their multiprocessor.
const SMID: &str = include_str!("kernels/smid.ptx");
/// Several blocks for each multiprocessor of any device.
const BLOCKS: u32 = 2048;
const N: u32 = 1 << 12;
/// The first version with all calls for green contexts, except work queues.
const GREEN: (u32, u32) = (12, 4);

/// Returns two green contexts without a common multiprocessor.
fn two_green(device: &Device) -> [Context; 2] {
    let split = device.sm_resource().unwrap();
    let split = split.split_by_count(2, 8, SmSplitFlags::empty()).unwrap();
    let [one, two] = &split.groups[..] else {
        panic!("{} groups", split.groups.len());
    };
    [one, two].map(|part| Context::green(part).unwrap())
}

fn smid_kernel(context: &Context) -> Function {
    let module = Module::load(context, &Ptx::new(SMID).unwrap()).unwrap();
    module.function("smid").unwrap()
}

fn config() -> LaunchConfig {
    LaunchConfig::new(BLOCKS, 32)
}

/// Returns the distinct values of a buffer.
fn distinct(words: &DeviceBuffer<u32>) -> BTreeSet<u32> {
    words.to_vec().unwrap().into_iter().collect()
}

/// Returns the multiprocessors on which a kernel of this context runs.
fn sms_of(context: &Context) -> BTreeSet<u32> {
    let stream = new_stream(context);
    let mut sms = filled(&stream, BLOCKS, u32::MAX);
    // SAFETY: each of the blocks writes its word.
    unsafe { stream.launch(&smid_kernel(context), config(), (&mut sms,)) }.unwrap();
    distinct(&sms)
}

#[track_caller]
fn expect_partition(sms: &BTreeSet<u32>, part: &SmResource, fixture: &Fixture) {
    let most = part.sm_count() as usize;
    assert!(sms.len() <= most, "{}: {sms:?} of {most}", fixture.name);
    // The software device spreads the blocks evenly.
    let is_exact = fixture.simulator.is_none() || sms.len() == most;
    assert!(is_exact && !sms.is_empty(), "{}: {sms:?}", fixture.name);
}

#[test]
fn kernels_of_two_partitions_use_different_sms() {
    for fixture in everywhere_since(GREEN) {
        let green = two_green(fixture.context.device());
        let parts = green
            .each_ref()
            .map(|context| context.sm_resource().unwrap());
        let sms = green.each_ref().map(sms_of);
        for (sms, part) in sms.iter().zip(&parts) {
            expect_partition(sms, part, &fixture);
        }
        assert!(sms[0].is_disjoint(&sms[1]), "{}: {sms:?}", fixture.name);
        let all = sms_of(&fixture.context);
        let count = fixture.context.device().multiprocessor_count().unwrap();
        let is_everywhere = fixture.simulator.is_none() || all.len() == count as usize;
        assert!(is_everywhere, "{}: {all:?}", fixture.name);
        println!("{}: {sms:?} of {}", fixture.name, all.len());
    }
}

#[test]
fn parts_and_remainder_are_all_multiprocessors() {
    for fixture in everywhere_since(GREEN) {
        let device = fixture.context.device();
        let all = device.sm_resource().unwrap();
        let count = device.multiprocessor_count().unwrap();
        assert_eq!(all.sm_count(), count, "{}", fixture.name);
        assert_eq!(all.device(), device);
        let own = fixture.context.sm_resource().unwrap();
        assert_eq!(own.sm_count(), count, "{}", fixture.name);
        let flags = SmSplitFlags::empty();
        let most = all.max_groups(1, flags).unwrap();
        let split = all.split_by_count(most, 1, flags).unwrap();
        assert_eq!(split.groups.len(), most as usize, "{}", fixture.name);
        let parts = split.groups.iter().chain(&split.remainder);
        let sum: u32 = parts.map(SmResource::sm_count).sum();
        assert_eq!(sum, count, "{}", fixture.name);
        if let (Some(least), Some(align)) = (all.min_partition(), all.alignment()) {
            let size = split.groups[0].sm_count();
            assert!(size >= least && size.is_multiple_of(align), "{split:?}");
        }
        let fine = SmSplitFlags::IGNORE_SM_COSCHEDULING;
        let fine = all.split_by_count(1, 1, fine).unwrap();
        assert!(fine.groups[0].sm_count() <= split.groups[0].sm_count());
        assert!(fine.remainder.is_some(), "{fine:?}");
    }
}

#[test]
fn everything_works_in_a_green_context() {
    for fixture in everywhere_since(GREEN) {
        let [context, _] = two_green(fixture.context.device());
        assert!(context.is_green() && !context.is_primary() && !context.is_borrowed());
        assert!(!fixture.context.is_green() && fixture.context.as_raw_green().is_none());
        assert_ne!(context.as_raw(), fixture.context.as_raw());
        let (one, two) = (new_stream(&context), context.default_stream().unwrap());
        let module = Module::load(&context, &Ptx::new(COPY).unwrap()).unwrap();
        let copy = module.function("copy").unwrap();
        let words: Vec<u32> = (0..N).collect();
        let input = DeviceBuffer::from_host(&one, &words).unwrap();
        let mut output = filled(&two, N, 0);
        let begin = Event::new(&context, EventFlags::empty()).unwrap();
        begin.record(&one).unwrap();
        launch_copy(&copy, &one, &input, &mut output).unwrap();
        launch_copy(&copy, &two, &input, &mut output).unwrap();
        launch_copy(&copy, &context.legacy_stream(), &input, &mut output).unwrap();
        let end = Event::new(&context, EventFlags::empty()).unwrap();
        end.record(&two).unwrap();
        end.synchronize().unwrap();
        end.elapsed_since(&begin).ok();
        assert_eq!(output.to_vec().unwrap(), words, "{}", fixture.name);
        let (free, total) = context.memory_info().unwrap();
        assert!(free <= total);
        assert_eq!(
            one.green_context_as_raw().unwrap(),
            context.as_raw_green(),
            "{}",
            fixture.name
        );
        let own = fixture.stream();
        assert_eq!(own.green_context_as_raw().unwrap(), None);
        let driver = context.driver().clone();
        let current = context.make_current().unwrap();
        assert_eq!(Context::current(&driver).unwrap(), Some(context.clone()));
        drop(current);
        context.synchronize().unwrap();
    }
}

#[test]
fn graphs_stay_in_the_partition_they_were_made_in() {
    for fixture in everywhere_since(GREEN) {
        let [context, _] = two_green(fixture.context.device());
        let expected = sms_of(&context);
        let (stream, kernel) = (new_stream(&context), smid_kernel(&context));
        let mut captured = filled(&stream, BLOCKS, u32::MAX);
        let graph = Graph::capture(&context, |scope| {
            // SAFETY: each of the blocks writes its word.
            unsafe { scope.launch(&kernel, config(), (&mut captured,)) }?;
            Ok(())
        });
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&stream)
            .unwrap();
        let mut added = filled(&stream, BLOCKS, u32::MAX);
        let mut graph = Graph::new(&context).unwrap();
        // SAFETY: each of the blocks writes its word.
        unsafe { graph.add_kernel(&[], &kernel, config(), (&mut added,)) }.unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let name = &fixture.name;
        assert!(distinct(&captured).is_subset(&expected), "{name}: captured");
        assert!(distinct(&added).is_subset(&expected), "{name}: added");
    }
}

#[test]
fn views_reach_memory_of_the_primary_context() {
    for fixture in everywhere_since(GREEN) {
        let [green, other] = two_green(fixture.context.device());
        for (owner, user) in [
            (&fixture.context, &green),
            (&green, &fixture.context),
            (&green, &other),
        ] {
            let (here, there) = (new_stream(owner), new_stream(user));
            let module = Module::load(user, &Ptx::new(COPY).unwrap()).unwrap();
            let copy = module.function("copy").unwrap();
            let (input, mut output) = (filled(&here, N, 7), filled(&there, N, 0));
            let config = LaunchConfig::for_num_elems(N).unwrap();
            // SAFETY: the kernel reads N words of the one and writes N of the other.
            let refused = unsafe { there.launch(&copy, config, (&input, &mut output, N)) };
            assert!(matches!(refused, Err(Error::OtherContext { .. })));
            let view = input.as_slice().for_peer(user).unwrap();
            // SAFETY: as above.
            unsafe { there.launch(&copy, config, (view, &mut output, N)) }.unwrap();
            // The memory is freed behind the kernel of the other context.
            drop(input);
            assert_all(&output, 7, &fixture.name);
        }
    }
}

#[test]
fn a_cooperative_grid_must_fit_into_the_partition() {
    for fixture in everywhere_since(GREEN) {
        let [context, _] = two_green(fixture.context.device());
        let (stream, kernel) = (new_stream(&context), smid_kernel(&context));
        let each = kernel.max_active_blocks(32, 0).unwrap();
        let most = each * context.sm_resource().unwrap().sm_count();
        let launch = |blocks| {
            let mut sms = filled(&stream, blocks, u32::MAX);
            let attributes = LaunchAttributes::new().cooperative();
            let config = LaunchConfig::new(blocks, 32);
            // SAFETY: each of the blocks writes its word.
            unsafe { stream.launch_with(&kernel, config, &attributes, (&mut sms,)) }
        };
        launch(most).unwrap();
        let error = launch(most + 1).unwrap_err();
        let expected = Status::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        assert_eq!(error.status(), Some(expected), "{}", fixture.name);
    }
}

#[test]
fn a_green_context_lives_as_long_as_its_objects() {
    if !has_version(GREEN) {
        return;
    }
    let fixture = software(Builder::new());
    let (simulator, context) = (fixture.simulator.unwrap(), fixture.context);
    let [green, other] = two_green(context.device());
    other.clone().close().unwrap_err();
    other.close().unwrap();
    assert_eq!(count_calls(&simulator, "cuGreenCtxDestroy"), 1);
    let stream = new_stream(&green);
    let buffer = filled(&stream, N, 3);
    // The primary context must live as long as the green one.
    drop((context, green, stream));
    assert_eq!(count_calls(&simulator, "cuGreenCtxDestroy"), 1);
    assert_eq!(count_calls(&simulator, "cuDevicePrimaryCtxRelease"), 0);
    assert_all(&buffer, 3, "after the handles");
    drop(buffer);
    assert_eq!(count_calls(&simulator, "cuGreenCtxDestroy"), 2);
    assert!(simulator.live().is_empty(), "{}", simulator.live());
}

#[test]
fn a_capture_in_the_device_refuses_a_wait_for_a_context() {
    for fixture in everywhere_since(GREEN) {
        let [green, _] = two_green(fixture.context.device());
        for (captured, waited) in [
            (&green, &fixture.context),
            (&green, &green),
            (&fixture.context, &green),
        ] {
            let stream = new_stream(captured);
            let mut word = filled(&stream, 1, 1);
            let graph = Graph::capture(captured, |scope| {
                let error = waited.synchronize().unwrap_err();
                assert!(matches!(error, Error::Capturing { .. }), "{error}");
                scope.fill(&mut word, 2)?;
                Ok(())
            });
            graph
                .unwrap()
                .instantiate()
                .unwrap()
                .launch(&stream)
                .unwrap();
            assert_all(&word, 2, &fixture.name);
        }
    }
}

#[test]
fn impossible_partitions_are_errors() {
    for fixture in everywhere_since(GREEN) {
        let all = fixture.context.device().sm_resource().unwrap();
        let flags = SmSplitFlags::empty();
        let error = all.split_by_count(0, 8, flags).unwrap_err();
        assert!(error.to_string().contains("into 0 groups"), "{error}");
        let count = all.sm_count();
        for (groups, least) in [(count + 1, 1), (1, count + 1)] {
            let error = all.split_by_count(groups, least, flags).unwrap_err();
            assert!(error.to_string().contains(&count.to_string()), "{error}");
        }
        let split = all.split_by_count(2, 8, flags).unwrap();
        let error = split.groups[0].split_by_count(1, 8, flags).unwrap_err();
        println!("{}: a part of a part: {error}", fixture.name);
        // The resource of a green context can be split again.
        let green = Context::green_with(&[&split.groups[0], &split.groups[1]], None).unwrap();
        let again = green.sm_resource().unwrap();
        assert_eq!(again.sm_count(), 2 * split.groups[0].sm_count());
        let again = again.split_by_count(2, 8, flags).unwrap();
        assert_eq!(again.groups.len(), 2, "{}", fixture.name);
        let parts = [&split.groups[0], &again.groups[0]];
        let error = Context::green_with(&parts, None).unwrap_err();
        let expected = Status::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        assert_eq!(error.status(), Some(expected), "{}", fixture.name);
        let error = Context::green_with(&[], None).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let error = green.per_thread_stream().synchronize().unwrap_err();
        println!("{}: per-thread stream: {error}", fixture.name);
    }
}

#[test]
fn resources_of_two_devices_do_not_mix() {
    if !has_version(GREEN) {
        return;
    }
    let fixture = software(Builder::new().devices(2));
    let devices = fixture.context.driver().devices().unwrap();
    let [one, two] = [0, 1].map(|index: usize| devices[index].sm_resource().unwrap());
    let error = Context::green_with(&[&one, &two], None).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn work_queues_need_a_driver_of_cuda_13_1() {
    for fixture in everywhere_since(GREEN) {
        let device = fixture.context.device();
        let queues = device.workqueue_config();
        if device.driver().version() < Version::new(13_010) {
            let error = queues.unwrap_err();
            let is_clear = error.to_string().contains("older than CUDA 13.1");
            assert!(is_clear, "{error}");
            continue;
        }
        let queues = queues.unwrap();
        assert_eq!(queues.scope(), WorkqueueScope::DEVICE);
        assert_eq!(queues.device(), device);
        let own = queues
            .with_concurrency_limit(2)
            .with_scope(WorkqueueScope::GREEN_CONTEXT_BALANCED);
        assert_eq!(own.concurrency_limit(), 2);
        assert_eq!(own.scope(), WorkqueueScope::GREEN_CONTEXT_BALANCED);
        assert_eq!(own.as_raw().type_.0, 1000);
        let sms = device.sm_resource().unwrap();
        let split = sms.split_by_count(1, 8, SmSplitFlags::empty()).unwrap();
        let context = Context::green_with(&[&split.groups[0]], Some(&own)).unwrap();
        expect_partition(&sms_of(&context), &split.groups[0], &fixture);
        let stream = new_stream(&context);
        let of_stream = stream.sm_resource().unwrap();
        assert_eq!(of_stream.sm_count(), split.groups[0].sm_count());
    }
}

#[test]
fn older_drivers_name_the_version_that_they_lack() {
    let fixture = software(Builder::new().version(12_030));
    let error = fixture.context.device().sm_resource().unwrap_err();
    assert!(error.to_string().contains("CUDA 12.4"), "{error}");
    let fixture = software(Builder::new().version(13_000));
    let sms = fixture.context.device().sm_resource().unwrap();
    let error = sms.split(&[SmGroup::default()]).unwrap_err();
    assert!(error.to_string().contains("CUDA 13.1"), "{error}");
    let error = fixture.stream().sm_resource().unwrap_err();
    assert!(error.to_string().contains("CUDA 13.1"), "{error}");
}

#[test]
fn a_split_by_size_makes_what_was_requested() {
    for fixture in everywhere_since((13, 1)) {
        let device = fixture.context.device();
        if device.driver().version() < Version::new(13_010) {
            continue;
        }
        let sms = device.sm_resource().unwrap();
        let group = |sm_count, coscheduled| SmGroup {
            sm_count,
            coscheduled,
            may_backfill: false,
        };
        let split = sms.split(&[group(8, 8), group(2, 2)]).unwrap();
        let counts: Vec<u32> = split.groups.iter().map(SmResource::sm_count).collect();
        assert_eq!(counts, [8, 2], "{}", fixture.name);
        let rest = split.remainder.as_ref().unwrap();
        assert_eq!(rest.sm_count(), sms.sm_count() - 10);
        let parts = [&split.groups[0], &split.groups[1]];
        let seen = parts.map(|part| sms_of(&Context::green(part).unwrap()));
        assert!(seen[0].is_disjoint(&seen[1]), "{}: {seen:?}", fixture.name);
        let error = sms.split(&[group(3, 0)]).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
    }
}
