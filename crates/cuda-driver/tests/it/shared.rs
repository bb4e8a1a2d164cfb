//! Views that own their buffer, writable aliases, and arguments in place.

use std::sync::Arc;

use cuda_driver::error::Error;
use cuda_driver::memory::{CachingPool, InPlace, ManagedBuffer, SharedSlice, Unpooled};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, MIX, everywhere, software};

const N: usize = 300;

fn words() -> Vec<u32> {
    (0..N as u32).collect()
}

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

#[test]
fn a_shared_slice_is_a_part_of_its_buffer() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let buffer = Arc::new(DeviceBuffer::from_host(&stream, &words()).unwrap());
        let start = buffer.as_raw();
        let all = SharedSlice::from(Arc::clone(&buffer));
        assert_eq!((all.len(), all.start(), all.is_empty()), (N, 0, false));
        let part = all.slice(10..20).unwrap().slice(2..).unwrap();
        assert_eq!((part.len(), part.start()), (8, 12));
        assert_eq!(part.as_slice().as_raw(), start + 48);
        assert!(Arc::ptr_eq(part.buffer(), &buffer));
        let range = part.slice(..9).unwrap_err();
        assert!(matches!(range, Error::OutOfRange(_)), "{range}");
        assert_eq!(
            range.to_string(),
            "the range ..9 is out of bounds: there are 8 elements"
        );
        assert!(part.slice(8..).unwrap().is_empty());
        drop((buffer, all));
        let clone = part.clone();
        drop(part);
        assert_eq!(clone.to_vec().unwrap(), words()[12..20]);
        assert!(format!("{clone:?}").contains("8 elements from 12 on"));
    }
}

#[test]
fn shared_slices_are_arguments_and_copy_sources() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let typed: Kernel<(Reads<u32>, Writes<u32>, u32)> = copy.typed().unwrap();
        let shared = SharedSlice::from(DeviceBuffer::from_host(&stream, &words()).unwrap());
        let part = shared.slice(100..).unwrap();
        let n = part.len();
        let target = || DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
        let (mut a, mut b, mut c, mut d, mut e) =
            (target(), target(), target(), target(), target());
        // SAFETY: the kernel copies n words; each side has n.
        unsafe { stream.launch(&copy, config(), (&part, &mut a, n as u32)) }.unwrap();
        // SAFETY: as above.
        unsafe { typed.launch(&other, config(), (&part, &mut b, n as u32)) }.unwrap();
        let mut args = ArgList::new();
        args.push(&part).push(&mut c).push(n as u32);
        // SAFETY: as above.
        unsafe { stream.launch(&copy, config(), &args) }.unwrap();
        drop(args);
        d.as_mut_slice()
            .copy_from_on(part.as_slice(), &other)
            .unwrap();
        stream.copy(&mut e, &part).unwrap();
        for (index, buffer) in [&a, &b, &c, &d, &e].into_iter().enumerate() {
            assert_eq!(buffer.to_vec().unwrap(), words()[100..], "{index}");
        }
        // A captured graph keeps the memory of both uses.
        let (mut x, mut y) = (target(), target());
        let graph = Graph::capture(&fixture.context, |scope| {
            scope.copy(&mut x, &part)?;
            // SAFETY: as above.
            unsafe { scope.launch(&copy, config(), (&part, &mut y, n as u32)) }?;
            Ok(())
        })
        .unwrap();
        drop((shared, part));
        graph.instantiate().unwrap().launch(&other).unwrap();
        for buffer in [&x, &y] {
            assert_eq!(buffer.to_vec().unwrap(), words()[100..], "{}", fixture.name);
        }
    }
}

#[test]
fn an_alias_writes_its_part_only() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mix = fixture.kernel(MIX, "mix");
        let shared = SharedSlice::from(DeviceBuffer::from_host(&stream, &words()).unwrap());
        let (low, high) = (shared.slice(..100).unwrap(), shared.slice(100..).unwrap());
        // SAFETY: no call receives overlapping views, and this is the only thread.
        let mut first = unsafe { low.alias_mut() }.unwrap();
        // SAFETY: as above.
        let mut second = unsafe { high.alias_mut() }.unwrap();
        first.fill(7).unwrap();
        second.fill_on(1, &other).unwrap();
        assert_eq!((first.len(), second.len()), (100, N - 100));
        // The aliases of the two parts are arguments of one launch.
        let part = second.reborrow().into_slice(..100).unwrap();
        // SAFETY: the kernel uses 100 words of each; each has 100.
        unsafe { stream.launch(&mix, config(), (first, part.as_slice(), 100_u32)) }.unwrap();
        let expected = [vec![15; 100], vec![1; N - 100]].concat();
        assert_eq!(shared.to_vec().unwrap(), expected, "{}", fixture.name);
        // A view of the same elements in the same launch.
        // SAFETY: the kernel permits it: it reads element i of both before it writes element i.
        let alias = unsafe { low.alias_mut() }.unwrap();
        let args = (alias, &low, 100_u32);
        // SAFETY: the kernel uses 100 words of each; each has 100.
        unsafe { other.launch(&mix, config(), args) }.unwrap();
        assert_eq!(low.to_vec().unwrap(), [45; 100]);
    }
}

#[test]
fn aliases_of_managed_memory_are_errors() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let managed = ManagedBuffer::from_host(&stream, &words()).unwrap();
    // SAFETY: this is the only thread, and the call fails.
    let error = unsafe { managed.alias_mut() }.unwrap_err();
    assert_eq!(
        error,
        Error::Unsupported {
            what: "a writable alias of managed memory; use a `DeviceBuffer`",
        }
    );
    // Memory outside of pools may have aliases.
    let mut plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 4).unwrap();
    plain.allow_aliases().unwrap();
    // SAFETY: this is the only thread.
    unsafe { plain.alias_mut() }.unwrap().fill(3).unwrap();
    assert_eq!(plain.to_vec().unwrap(), [3; 4]);
}

#[test]
fn memory_with_aliases_is_reused_without_the_lock() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let pool = CachingPool::new(&fixture.context);
    let mut first = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 64).unwrap();
    first.allow_aliases().unwrap();
    let address = first.as_raw();
    drop(first);
    let mut second = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 64).unwrap();
    assert_eq!(second.as_raw(), address);
    simulator.reset_calls();
    second.fill(1).unwrap();
    second.fill(2).unwrap();
    // A buffer that only its owning stream uses records no events.
    let events = simulator
        .calls()
        .iter()
        .filter(|(name, _)| name.contains("Event"))
        .count();
    assert_eq!(events, 0);
}

#[test]
fn an_argument_in_place_is_input_and_output() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mix = fixture.kernel(MIX, "mix");
        let typed: Kernel<(Writes<u32>, Reads<u32>, u32)> = mix.typed().unwrap();
        let mut x = DeviceBuffer::from_host(&stream, &words()).unwrap();
        let same: InPlace<'_, u32> = x.in_place();
        assert_eq!((same.len(), same.is_empty()), (N, false));
        // SAFETY: the kernel computes `x = 2 * x + y` for N words, and permits that both are one.
        unsafe { stream.launch(&mix, config(), (same, same, N as u32)) }.unwrap();
        // SAFETY: as above.
        unsafe { typed.launch(&other, config(), (same, same, N as u32)) }.unwrap();
        let times = |factor: u32| words().iter().map(|word| word * factor).collect::<Vec<_>>();
        assert_eq!(x.to_vec().unwrap(), times(9), "{}", fixture.name);
        // A part, and a graph.
        let address = x.as_raw();
        let graph = Graph::capture(&fixture.context, |scope| {
            let part = x.slice_mut(..100)?.in_place();
            assert_eq!(part.as_raw(), address);
            // SAFETY: as above, for 100 words.
            unsafe { typed.launch(scope, config(), (part, part, 100_u32)) }.map(drop)
        });
        graph
            .unwrap()
            .instantiate()
            .unwrap()
            .launch(&other)
            .unwrap();
        let expected = [&times(27)[..100], &times(9)[100..]].concat();
        assert_eq!(x.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}
