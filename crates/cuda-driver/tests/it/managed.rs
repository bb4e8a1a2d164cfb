//! Managed memory.

use cuda_driver::device::DeviceAttribute;
use cuda_driver::error::{Error, Status};
use cuda_driver::memory::{Advice, ManagedAttachment, ManagedBuffer, MemoryLocation};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, Fixture, everywhere, has_version, late_devices, skip, software};
use crate::task::{LIMIT, until};

const CONCURRENT: DeviceAttribute = DeviceAttribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;

/// Enough words that a kernel on a GPU runs longer than it takes to queue the next one.
const N: u32 = 1 << 18;

/// Returns the fixtures whose host may access managed memory while kernels run.
#[track_caller]
fn concurrent(fixtures: impl Iterator<Item = Fixture>) -> impl Iterator<Item = Fixture> {
    fixtures.filter(move |fixture| {
        let can = fixture.context.device().attribute(CONCURRENT).unwrap() != 0;
        if !can {
            skip("no concurrent managed access");
        }
        can
    })
}

#[track_caller]
fn schedules() -> impl Iterator<Item = Fixture> {
    concurrent(late_devices(16))
}

#[test]
fn the_host_sees_what_kernels_on_other_streams_have_written() {
    for fixture in schedules() {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let words: Vec<u32> = (0..N).map(|i| i.wrapping_mul(31)).collect();
        let mut source = ManagedBuffer::<u32>::zeroed(&owner, N as usize).unwrap();
        source.host_mut().unwrap().copy_from_slice(&words);
        let mut target = ManagedBuffer::<u32>::zeroed(&owner, N as usize).unwrap();
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe { other.launch(&kernel, config, (&source, &mut target, N)) }.unwrap();
        // The kernel is still reading; concurrent reads by the host are allowed.
        assert_eq!(source.host().unwrap(), words, "{}", fixture.name);
        assert_eq!(target.host().unwrap(), words, "{}", fixture.name);
        // Before a write the host waits for the kernel that reads.
        let mut second = DeviceBuffer::<u32>::zeroed(&other, N as usize).unwrap();
        // SAFETY: as above.
        unsafe { owner.launch(&kernel, config, (&target, &mut second, N)) }.unwrap();
        target.host_mut().unwrap().fill(7);
        assert_eq!(second.to_vec().unwrap(), words, "{}", fixture.name);
        // The device reads what the host wrote, through the buffer itself.
        assert_eq!(
            target.to_vec().unwrap(),
            vec![7; N as usize],
            "{}",
            fixture.name
        );
        target.slice_mut(1..3).unwrap().fill(9).unwrap();
        assert_eq!(
            target.host().unwrap()[..4],
            [7, 9, 9, 7],
            "{}",
            fixture.name
        );
        drop(source);
        target.close().unwrap();
        drop((second, kernel, owner, other, fixture.context));
        if let Some(simulator) = &fixture.simulator {
            // The module is unloaded by another thread.
            until("nothing is live", LIMIT, || simulator.live().is_empty());
        }
    }
}

#[test]
fn managed_memory_under_a_kernel_is_not_freed() {
    for fixture in schedules() {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let source = ManagedBuffer::from_host(&owner, &vec![3_u32; N as usize]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, N as usize).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
        unsafe {
            other.launch(
                &kernel,
                LaunchConfig::for_num_elems(N).unwrap(),
                (&source, &mut target, N),
            )
        }
        .unwrap();
        drop(source);
        let mut next = ManagedBuffer::<u32>::zeroed(&owner, N as usize).unwrap();
        next.host_mut().unwrap().fill(4);
        assert_eq!(
            target.to_vec().unwrap(),
            vec![3; N as usize],
            "{}",
            fixture.name
        );
    }
}

#[test]
fn host_access_needs_concurrent_managed_access() {
    let fixture = software(Builder::new().attribute(CONCURRENT, 0));
    let mut buffer = ManagedBuffer::from_host(&fixture.stream(), &[1_u32, 2, 3]).unwrap();
    for error in [buffer.host().unwrap_err(), buffer.host_mut().unwrap_err()] {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
}

#[test]
fn managed_memory_of_no_elements_is_fine() {
    for fixture in everywhere() {
        let mut empty = ManagedBuffer::<u64>::zeroed(&fixture.stream(), 0).unwrap();
        assert!(empty.host().unwrap().is_empty());
        assert!(empty.host_mut().unwrap().is_empty());
        empty.as_slice().advise(&Advice::ReadMostly).unwrap();
        assert_eq!(empty.as_slice().preferred_location().unwrap(), None);
        let error = ManagedBuffer::<u64>::zeroed(&fixture.stream(), usize::MAX).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    }
}

#[test]
fn advice_is_recorded_and_removed() {
    for fixture in concurrent(everywhere()) {
        let stream = fixture.stream();
        let here = MemoryLocation::Device(fixture.context.device().clone());
        // Two pages of 64 KiB; only the second one gets advice.
        let half = (64 << 10) / 4;
        let buffer = ManagedBuffer::<u32>::zeroed(&stream, 2 * half).unwrap();
        let (lower, upper) = buffer.as_slice().split_at(half).unwrap();
        assert_eq!(
            (
                upper.is_read_mostly().unwrap(),
                upper.preferred_location().unwrap()
            ),
            (false, None),
            "{}",
            fixture.name
        );
        assert_eq!(upper.accessed_by().unwrap(), []);
        let places = [
            Advice::ReadMostly,
            Advice::PreferredLocation(here.clone()),
            Advice::AccessedBy(MemoryLocation::Host),
        ];
        for advice in &places {
            upper.advise(advice).unwrap();
        }
        assert!(upper.is_read_mostly().unwrap());
        assert_eq!(upper.preferred_location().unwrap(), Some(here.clone()));
        assert_eq!(upper.accessed_by().unwrap(), [MemoryLocation::Host]);
        assert!(!lower.is_read_mostly().unwrap());
        assert!(!buffer.as_slice().is_read_mostly().unwrap());
        for advice in &places {
            upper.unadvise(advice).unwrap();
        }
        assert!(!upper.is_read_mostly().unwrap());
        assert_eq!(upper.preferred_location().unwrap(), None);
        assert_eq!(upper.accessed_by().unwrap(), []);
        buffer.as_slice().prefetch(&here, &stream).unwrap();
        assert_eq!(lower.last_prefetch_location().unwrap(), Some(here));
        upper.prefetch(&MemoryLocation::Host, &stream).unwrap();
        assert_eq!(
            upper.last_prefetch_location().unwrap(),
            Some(MemoryLocation::Host)
        );
        assert_eq!(buffer.as_slice().last_prefetch_location().unwrap(), None);
        stream.synchronize().unwrap();
        assert!(
            buffer.host().unwrap().iter().all(|&word| word == 0),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn memory_is_advised_and_prefetched_to_a_numa_node() {
    if !has_version((12, 2)) {
        return;
    }
    for fixture in schedules() {
        let stream = fixture.stream();
        let node = fixture.context.device().host_numa_node().unwrap();
        let node = MemoryLocation::HostNuma(node.unwrap_or(0));
        let buffer = ManagedBuffer::from_host(&stream, &vec![3_u32; N as usize]).unwrap();
        let view = buffer.as_slice();
        let advice = Advice::PreferredLocation(node.clone());
        view.advise(&advice).unwrap();
        view.prefetch(&node, &stream).unwrap();
        view.unadvise(&advice).unwrap();
        assert!(buffer.host().unwrap().iter().all(|&word| word == 3));
        let none = MemoryLocation::HostNuma(u32::MAX);
        let error = view.prefetch(&none, &stream).unwrap_err();
        assert!(
            matches!(error, Error::Driver(_)),
            "{}: {error}",
            fixture.name
        );
    }
}

#[test]
fn advice_on_unmanaged_memory_is_an_error() {
    for fixture in everywhere() {
        let buffer = DeviceBuffer::<u32>::zeroed(&fixture.stream(), 100).unwrap();
        let error = buffer.as_slice().advise(&Advice::ReadMostly).unwrap_err();
        assert_eq!(
            error.status(),
            Some(Status::CUDA_ERROR_INVALID_VALUE),
            "{}",
            fixture.name
        );
    }
    let (fixture, other) = (software(Builder::new()), software(Builder::new()));
    let buffer = ManagedBuffer::<u32>::zeroed(&fixture.stream(), 100).unwrap();
    let there = MemoryLocation::Device(other.context.device().clone());
    let view = buffer.as_slice();
    for error in [
        view.prefetch(&there, &fixture.stream()).unwrap_err(),
        view.prefetch(&MemoryLocation::Host, &other.stream())
            .unwrap_err(),
        view.advise(&Advice::PreferredLocation(there)).unwrap_err(),
    ] {
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
}

#[test]
fn attached_memory_is_used_where_it_is_attached() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = ManagedBuffer::from_host(&stream, &[1_u32, 2, 3]).unwrap();
        // SAFETY: the buffer is used only on its owning stream, to which it is attached.
        unsafe { buffer.attach(&stream, ManagedAttachment::Single) }.unwrap();
        buffer.as_mut_slice().fill(8).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [8; 3], "{}", fixture.name);
        // SAFETY: every stream may use the buffer.
        unsafe { buffer.attach(&stream, ManagedAttachment::Global) }.unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [8; 3], "{}", fixture.name);
    }
}
