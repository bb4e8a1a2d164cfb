//! Prefetches and discards of managed memory in batches, and managed memory on devices of each
//! kind.

use cuda_driver::error::{Error, Status};
use cuda_driver::memory::{ManagedBatch, ManagedBuffer, MemoryLocation};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Machine, Rule};

use crate::support::{
    COPY, Fixture, count_calls, everywhere_since, has_version, late, late_devices, launch_copy,
    software,
};

/// The number of words of a page of 64 KiB.
const PAGE: usize = (64 << 10) / 4;

fn is_concurrent(fixture: &Fixture) -> bool {
    let device = fixture.context.device();
    device.has_concurrent_managed_access().unwrap()
}

fn here(fixture: &Fixture) -> MemoryLocation {
    MemoryLocation::Device(fixture.context.device().clone())
}

#[test]
fn a_batch_prefetches_each_range_to_its_location() {
    let old = [12_020, 12_080].map(|version| software(Builder::new().version(version)));
    for fixture in old.into_iter().chain(everywhere_since((12, 2))) {
        if !is_concurrent(&fixture) {
            continue;
        }
        let stream = fixture.stream();
        let buffer = ManagedBuffer::from_host(&stream, &vec![3_u32; 4 * PAGE]).unwrap();
        let pages: Vec<_> = buffer.as_slice().chunks(PAGE).unwrap().collect();
        let node = MemoryLocation::HostNuma(0);
        let places = [here(&fixture), MemoryLocation::Host, here(&fixture), node];
        let mut batch = ManagedBatch::new();
        for (page, place) in pages.iter().zip(&places) {
            batch.prefetch(page, place);
        }
        assert_eq!(
            format!("{batch:?}"),
            "ManagedBatch(4 prefetches, 0 discards)"
        );
        batch.queue(&stream).unwrap();
        stream.synchronize().unwrap();
        for (page, place) in pages.iter().zip(&places).take(3) {
            let last = page.last_prefetch_location().unwrap();
            assert_eq!(last.as_ref(), Some(place), "{}", fixture.name);
        }
        assert_eq!(
            buffer.to_vec().unwrap(),
            vec![3; 4 * PAGE],
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_batch_of_prefetches_is_one_call() {
    let versions = [
        (12_080, "cuMemPrefetchAsync", 3),
        (13_000, "cuMemPrefetchBatchAsync", 1),
    ];
    for (version, call, count) in versions {
        let fixture = software(Builder::new().version(version));
        let stream = fixture.stream();
        let buffer = ManagedBuffer::<u32>::zeroed(&stream, 3 * PAGE).unwrap();
        let mut batch = ManagedBatch::new();
        for page in buffer.as_slice().chunks(PAGE).unwrap() {
            batch.prefetch(page, &here(&fixture));
        }
        batch.queue(&stream).unwrap();
        assert_eq!(
            count_calls(fixture.simulator.as_ref().unwrap(), call),
            count
        );
    }
}

#[test]
fn a_discard_follows_earlier_uses_and_precedes_later_ones() {
    if !has_version((13, 0)) {
        return;
    }
    for fixture in late_devices(16).filter(is_concurrent) {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let mut source = ManagedBuffer::from_host(&stream, &vec![5_u32; PAGE]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, PAGE).unwrap();
        launch_copy(&kernel, &other, &source, &mut target).unwrap();
        let mut batch = ManagedBatch::new();
        batch.discard_and_prefetch(source.as_mut_slice(), &here(&fixture));
        batch.queue(&stream).unwrap();
        source.as_mut_slice().fill(6).unwrap();
        assert_eq!(source.host().unwrap(), vec![6; PAGE], "{}", fixture.name);
        assert_eq!(target.to_vec().unwrap(), vec![5; PAGE], "{}", fixture.name);
    }
}

#[test]
fn a_discard_gives_up_the_contents() {
    if !has_version((13, 0)) {
        return;
    }
    let fixture = software(late(1));
    let stream = fixture.stream();
    let mut buffer = ManagedBuffer::from_host(&stream, &vec![5_u32; 2 * PAGE]).unwrap();
    let (lower, upper) = buffer.as_mut_slice().split_at_mut(PAGE).unwrap();
    let mut batch = ManagedBatch::new();
    batch.prefetch(&lower, &MemoryLocation::Host);
    batch.discard(upper);
    batch.queue(&stream).unwrap();
    let (kept, given_up) = buffer.host().unwrap().split_at(PAGE);
    assert!(kept.iter().all(|&word| word == 5));
    assert!(given_up.iter().all(|&word| word != 5));
}

#[test]
fn wrong_batches_of_managed_memory_are_refused() {
    if !has_version((13, 0)) {
        return;
    }
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mut buffer = ManagedBuffer::<u32>::zeroed(&stream, PAGE).unwrap();
    let mut batch = ManagedBatch::new();
    batch.discard(buffer.as_mut_slice());
    let error = batch.queue(&fixture.context.legacy_stream()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch of prefetches on the legacy stream is not supported; use `Context::default_stream`"
    );
    let unmanaged = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
    let mut batch = ManagedBatch::new();
    batch.prefetch(&unmanaged, &MemoryLocation::Host);
    let error = batch.queue(&stream).unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));

    let old = software(Builder::new().version(12_080));
    let stream = old.stream();
    let mut buffer = ManagedBuffer::<u32>::zeroed(&stream, PAGE).unwrap();
    let mut batch = ManagedBatch::new();
    batch.discard(buffer.as_mut_slice());
    let error = batch.queue(&stream).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::Driver(_)) && text.contains("13.0"),
        "{text}"
    );
}

/// Software devices of the three kinds: whether the host may access managed memory at any time, and
/// whether it does so in place.
fn kinds() -> impl Iterator<Item = (Fixture, [bool; 2])> {
    let machines = [
        ("one-gtx1650-exclusive", [false, false]),
        ("two-t4-pcie", [true, false]),
        ("one-gh200-coherent", [true, true]),
    ];
    machines.into_iter().map(|(name, kind)| {
        let machine = Machine::named(name).unwrap();
        (software(late(4).machine(machine)), kind)
    })
}

#[test]
fn managed_memory_works_on_devices_of_each_kind() {
    for (fixture, [concurrent, coherent]) in kinds() {
        let device = fixture.context.device();
        assert_eq!(is_concurrent(&fixture), concurrent);
        let direct = device.has_direct_managed_access_from_host().unwrap();
        assert_eq!(direct, coherent);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let mut source = ManagedBuffer::<u32>::zeroed(&stream, PAGE).unwrap();
        let mut target = ManagedBuffer::<u32>::zeroed(&other, PAGE).unwrap();
        for round in 1..4 {
            source.with_host(|words| words.fill(round)).unwrap();
            let config = LaunchConfig::for_num_elems(PAGE as u32).unwrap();
            // SAFETY: the kernel reads PAGE words of the one and writes PAGE of the other.
            unsafe { other.launch(&kernel, config, (&source, &mut target, PAGE as u32)) }.unwrap();
            let sum = target.with_host(|words| words.iter().sum::<u32>()).unwrap();
            assert_eq!(sum, round * PAGE as u32, "{}", fixture.name);
        }
        let attachments = count_calls(
            fixture.simulator.as_ref().unwrap(),
            "cuStreamAttachMemAsync",
        );
        assert_eq!(attachments, if concurrent { 0 } else { 2 * 6 });
        let host = source.host().map(|words| words[0]);
        let place = MemoryLocation::Host;
        let prefetched = source.as_slice().prefetch(&place, &stream);
        if concurrent {
            assert_eq!(host.unwrap(), 3);
            prefetched.unwrap();
        } else {
            let error = host.unwrap_err().to_string();
            assert!(error.contains("with_host"), "{error}");
            let status = prefetched.unwrap_err().status();
            assert_eq!(status, Some(Status::CUDA_ERROR_INVALID_DEVICE));
        }
    }
}

#[test]
fn a_panic_of_the_host_leaves_managed_memory_usable() {
    for (fixture, _) in kinds() {
        let stream = fixture.stream();
        let mut buffer = ManagedBuffer::<u32>::zeroed(&stream, PAGE).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            buffer.with_host(|words| {
                words[0] = 7;
                panic!("of the test");
            })
        }));
        assert!(result.is_err());
        buffer.slice_mut(1..2).unwrap().fill(8).unwrap();
        assert_eq!(buffer.to_vec().unwrap()[..3], [7, 8, 0], "{}", fixture.name);
    }
}

#[test]
fn memory_that_stays_attached_to_the_host_is_freed() {
    let machine = Machine::named("one-gtx1650-exclusive").unwrap();
    let fixture = software(Builder::new().machine(machine));
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let mut buffer = ManagedBuffer::<u32>::zeroed(&stream, PAGE).unwrap();
    let status = Status::CUDA_ERROR_UNKNOWN;
    let attach = Rule::new(status).function("cuStreamAttachMemAsync").nth(2);
    simulator.add_rule(attach);
    let error = buffer.with_host(|words| words[0]).unwrap_err();
    assert_eq!(error.status(), Some(status));
    assert!(buffer.is_empty());
    assert_eq!(simulator.live().allocations, 0);
    assert_eq!(buffer.with_host(|words| words.len()).unwrap(), 0);
}
