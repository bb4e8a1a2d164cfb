//! Copies and fills on a stream of the caller's choice.

use std::time::Duration;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, Status};
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, block, everywhere, gpu, late, new_stream, software};
use crate::task::block_on;

/// Two sizes of copies through the host: through one block, and in pieces on several threads.
const SIZES: [usize; 2] = [1000, 600_000];
const SECOND: Duration = Duration::from_secs(1);

fn words(len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| i.wrapping_mul(0x9E37_79B9))
        .collect()
}

#[test]
fn copies_and_fills_run_while_the_owning_stream_is_blocked() {
    for (fixture, len) in everywhere().flat_map(|fixture| {
        let name = fixture.name.clone();
        let context = fixture.context.clone();
        let simulator = fixture.simulator;
        SIZES.map(|len| {
            let (name, context, simulator) = (name.clone(), context.clone(), simulator.clone());
            let fixture = Fixture {
                name,
                context,
                simulator,
            };
            (fixture, len)
        })
    }) {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let words = words(len);
        let source = DeviceBuffer::from_host(&owner, &words).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&owner, len).unwrap();
        let open = block(&owner);
        let mut read = vec![0; len];

        target.fill_on(7, &other).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert!(read.iter().all(|&word| word == 7), "{}", fixture.name);

        target.set_zero_on(&other).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert!(read.iter().all(|&word| word == 0), "{}", fixture.name);

        let mut view = target.as_mut_slice();
        view.copy_from_on(source.as_slice(), &other).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert!(read == words, "{}", fixture.name);

        let twice: Vec<u32> = words.iter().map(|word| word.wrapping_mul(2)).collect();
        target.copy_from_host_on(&twice, &other).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert!(read == twice, "{}", fixture.name);

        open.send(()).expect("the calls ran on the other stream");
        assert!(target.to_vec().unwrap() == twice, "{}", fixture.name);
    }
}

#[test]
fn pitched_copies_run_while_the_owning_stream_is_blocked() {
    for fixture in everywhere() {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let words = words(7 * 5 * 3);
        let source = PitchedBuffer::from_host(&owner, (7, 5, 3), &words).unwrap();
        let mut target = PitchedBuffer::<u32>::zeroed(&owner, (7, 5, 3)).unwrap();
        let open = block(&owner);
        let mut read = vec![0; words.len()];
        let mut view = target.as_mut_slice();
        view.copy_from_on(&source.as_slice(), &other).unwrap();
        let view = target.as_slice();
        view.copy_to_host_on(&mut read, &other).unwrap();
        assert_eq!(read, words, "{}", fixture.name);
        let mut view = target.as_mut_slice();
        view.copy_from_host_on(&vec![9; words.len()], &other)
            .unwrap();
        let view = target.as_slice();
        view.copy_to_host_on(&mut read, &other).unwrap();
        assert_eq!(read, [9; 7 * 5 * 3], "{}", fixture.name);
        open.send(()).expect("the calls ran on the other stream");
    }
}

#[test]
fn copies_on_many_streams_keep_their_order() {
    for fixture in (0..16).map(|seed| software(late(seed))).chain(gpu()) {
        let streams: Vec<Stream> = (0..4).map(|_| fixture.stream()).collect();
        let mut x = DeviceBuffer::<u32>::zeroed(&streams[0], 64).unwrap();
        let mut y = DeviceBuffer::<u32>::zeroed(&streams[1], 64).unwrap();
        let (mut on_host, mut other) = ([0; 64], [0; 64]);
        for step in 0..30_u32 {
            let stream = &streams[(step * step % 4) as usize];
            let part = (step as usize * 7 % 50)..(step as usize * 7 % 50 + 10);
            let next = &streams[(step as usize + 1) % 4];
            x.slice_mut(part.clone())
                .unwrap()
                .fill_on(step, stream)
                .unwrap();
            on_host[part].fill(step);
            y.as_mut_slice().copy_from_on(x.as_slice(), next).unwrap();
            other.copy_from_slice(&on_host);
            if step % 3 == 0 {
                let words: Vec<u32> = other.iter().map(|word| word + 100).collect();
                x.copy_from_host_on(&words, &streams[2]).unwrap();
                on_host.copy_from_slice(&words);
            }
        }
        assert_eq!(x.to_vec().unwrap(), on_host, "{}", fixture.name);
        assert_eq!(y.to_vec().unwrap(), other, "{}", fixture.name);
    }
}

#[test]
fn a_peer_copy_runs_while_the_owning_stream_is_blocked() {
    for fixture in everywhere() {
        let there = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let away = new_stream(&there);
        let (owner, other) = (fixture.stream(), fixture.stream());
        let words = words(1000);
        let source = DeviceBuffer::from_host(&away, &words).unwrap();
        let near = DeviceBuffer::from_host(&other, &words[1..]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&owner, 1000).unwrap();
        let open = block(&owner);
        let mut read = vec![0; 1000];
        let mut view = target.as_mut_slice();
        view.copy_from_peer_on(source.as_slice(), &other).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert_eq!(read, words, "{}", fixture.name);
        // Within one context this is an ordinary copy.
        let mut view = target.slice_mut(1..).unwrap();
        let transfer = view.copy_from_peer_async(near.as_slice(), &other);
        transfer.unwrap().wait().unwrap();
        let mut view = target.slice_mut(..1).unwrap();
        let from = source.slice(9..10).unwrap();
        let transfer = view.copy_from_peer_async(from, &other).unwrap();
        block_on(transfer, 10 * SECOND).unwrap();
        target.copy_to_host_on(&mut read, &other).unwrap();
        assert_eq!(read[0], words[9]);
        assert_eq!(read[1..], words[1..]);
        open.send(()).expect("the calls ran on the other stream");

        // A stream of the source's context is refused.
        let mut view = target.as_mut_slice();
        let refused = view.copy_from_peer_on(source.as_slice(), &away);
        assert!(matches!(refused, Err(Error::OtherContext { .. })));
    }
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let elsewhere = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
    let stream = new_stream(&elsewhere);
    let owner = fixture.stream();
    let source = DeviceBuffer::from_host(&owner, &[1_u32; 10]).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&owner, 10).unwrap();
    let mut rows = PitchedBuffer::<u32>::zeroed(&owner, (5, 2)).unwrap();
    let other_rows = PitchedBuffer::<u32>::zeroed(&owner, (5, 2)).unwrap();
    owner.synchronize().unwrap();
    simulator.reset_calls();
    let mut read = [0; 10];
    let mut view = target.as_mut_slice();
    let results = [
        view.fill_on(1, &stream),
        view.set_zero_on(&stream),
        view.copy_from_on(source.as_slice(), &stream),
        view.copy_from_host_on(&[1; 10], &stream),
        view.as_slice().copy_to_host_on(&mut read, &stream),
        view.fill_async(1, &stream).map(drop),
        rows.as_mut_slice()
            .copy_from_on(&other_rows.as_slice(), &stream),
        rows.as_mut_slice().copy_from_host_on(&[1; 10], &stream),
        rows.as_slice().copy_to_host_on(&mut read, &stream),
    ];
    for (index, result) in results.into_iter().enumerate() {
        let is_refused = matches!(result, Err(Error::OtherContext { .. }));
        assert!(is_refused, "call {index}: {result:?}");
    }
    // No call reached the driver, so no block of page-locked memory was taken either.
    assert_eq!(simulator.calls().values().sum::<u64>(), 0);
}

#[test]
fn a_token_is_done_when_its_copy_is() {
    for fixture in everywhere() {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let source = DeviceBuffer::from_host(&owner, &[5_u32; 100]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&owner, 100).unwrap();
        let mut filled = DeviceBuffer::<u32>::zeroed(&owner, 100).unwrap();
        owner.synchronize().unwrap();
        let open = block(&other);
        let mut view = target.as_mut_slice();
        let copy = view.copy_from_async(source.as_slice(), &other).unwrap();
        let fill = filled.fill_async(3, &other).unwrap();
        let dropped = filled.fill_async(4, &other).unwrap();
        assert_eq!(copy.context(), &fixture.context);
        assert!(!copy.is_done().unwrap() && !fill.is_done().unwrap());
        drop(dropped);
        // The buffers may be dropped before their copies.
        drop(source);
        open.send(()).unwrap();
        copy.wait().unwrap();
        block_on(fill, 10 * SECOND).unwrap();
        assert_eq!(target.to_vec().unwrap(), [5; 100], "{}", fixture.name);
        assert_eq!(filled.to_vec().unwrap(), [4; 100], "{}", fixture.name);
    }
}

#[test]
fn empty_token_is_done_without_a_call() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let stream = fixture.stream();
    let source = DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
    let mut target = DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
    simulator.reset_calls();
    let mut view = target.as_mut_slice();
    let copy = view.copy_from_async(source.as_slice(), &stream).unwrap();
    assert!(copy.is_done().unwrap());
    copy.wait().unwrap();
    target.fill_async(1, &stream).unwrap().wait().unwrap();
    assert_eq!(simulator.calls().values().sum::<u64>(), 0);
}

#[test]
fn a_token_reports_a_lost_device() {
    let fixture = software(late(1));
    let simulator = fixture.simulator.clone().unwrap();
    let stream = fixture.stream();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100).unwrap();
    let _open = block(&stream);
    let fill = buffer.fill_async(1, &stream).unwrap();
    simulator.lose_device(0, Status::CUDA_ERROR_LAUNCH_FAILED);
    let error = fill.wait().unwrap_err();
    let lost = Some(Status::CUDA_ERROR_LAUNCH_FAILED);
    assert_eq!(error.error().status(), lost);
    assert!(!error.to_string().contains("stays allocated"), "{error}");
    assert_eq!(Error::from(error).status(), lost);
}
