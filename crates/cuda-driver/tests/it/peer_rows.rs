//! Copies of boxes between contexts.

use cuda_driver::Error;
use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::borrowed::{Foreign, alive};
use crate::peer::pairs;
use crate::support::{count_calls, late, new_stream, software};

const EXTENT: (usize, usize, usize) = (37, 11, 5);

/// Returns the words of a buffer of EXTENT: each is different.
fn words(seed: u32) -> Vec<u32> {
    let len = (EXTENT.0 * EXTENT.1 * EXTENT.2) as u32;
    (0..len).map(|i| i.wrapping_mul(7919) ^ seed).collect()
}

fn buffer(stream: &Stream, words: &[u32]) -> PitchedBuffer<u32> {
    let mut buffer = PitchedBuffer::zeroed(stream, EXTENT).unwrap();
    buffer.as_mut_slice().copy_from_host(words).unwrap();
    buffer
}

#[test]
fn boxes_are_copied_to_another_context_and_back() {
    for pair in pairs(4) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let (from, to) = (words(1), words(2));
        let source = buffer(&one, &from);
        let mut there = buffer(&two, &to);
        // A box of the source goes to another place.
        let view = source.as_slice();
        let part = view.region(3..20, 2..9, 1..4).unwrap();
        let target = there.as_mut_slice();
        let mut target = target.into_region(20..37, 4..11, 2..5).unwrap();
        target.copy_from_peer(&part).unwrap();
        let mut back = buffer(&one, &words(3));
        let mut view = back.as_mut_slice();
        view.copy_from_peer(&there.as_slice()).unwrap();

        let at = |x: usize, y: usize, z: usize| (z * EXTENT.1 + y) * EXTENT.0 + x;
        let mut want = to;
        for (z, y, x) in
            (0..3).flat_map(|z| (0..7).flat_map(move |y| (0..17).map(move |x| (z, y, x))))
        {
            want[at(x + 20, y + 4, z + 2)] = from[at(x + 3, y + 2, z + 1)];
        }
        assert_eq!(there.as_slice().to_vec().unwrap(), want, "{}", pair.name);
        assert_eq!(back.as_slice().to_vec().unwrap(), want, "{}", pair.name);
    }
}

#[test]
fn a_copy_of_boxes_waits_for_uses_of_both_sides() {
    for pair in pairs(16) {
        let (one, two) = (new_stream(&pair.one), new_stream(&pair.two));
        let other = new_stream(&pair.two);
        let mut source = buffer(&one, &words(1));
        let mut target = buffer(&two, &words(2));
        source.as_mut_slice().copy_from_host(&words(4)).unwrap();
        let mut view = target.as_mut_slice();
        view.copy_from_peer_on(&source.as_slice(), &other).unwrap();
        // Both are queued after the copy, on the owning streams.
        source.as_mut_slice().fill(0).unwrap();
        let mut third = buffer(&two, &words(5));
        third.as_mut_slice().copy_from(&target.as_slice()).unwrap();
        drop(target);
        drop(source);
        assert_eq!(
            third.as_slice().to_vec().unwrap(),
            words(4),
            "{}",
            pair.name
        );
    }
}

#[test]
fn copies_of_boxes_within_a_context_need_no_peer() {
    let fixture = software(late(1));
    let stream = fixture.stream();
    let source = buffer(&stream, &words(1));
    let mut target = buffer(&stream, &words(2));
    let mut view = target.as_mut_slice();
    view.copy_from_peer(&source.as_slice()).unwrap();
    assert_eq!(target.as_slice().to_vec().unwrap(), words(1));
    let simulator = fixture.simulator.as_ref().unwrap();
    assert_eq!(count_calls(simulator, "cuMemcpy3DPeerAsync"), 0);
}

#[test]
fn wrong_peer_copies_of_boxes_are_refused() {
    let fixture = software(Builder::new().devices(2));
    let other = software(Builder::new());
    let two = fixture.context.driver().device(1).unwrap();
    let two = two.primary_context().unwrap();
    let (here, there) = (fixture.stream(), new_stream(&two));
    let source = buffer(&here, &words(1));
    let mut target = buffer(&there, &words(2));
    let mut view = target.as_mut_slice();
    let part = source.as_slice().region(..3, .., ..).unwrap();
    let error = view.copy_from_peer(&part).unwrap_err();
    assert!(matches!(error, Error::ExtentMismatch { .. }), "{error}");
    let error = view
        .copy_from_peer_on(&source.as_slice(), &here)
        .unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let foreign = buffer(&other.stream(), &words(1));
    let error = view.copy_from_peer(&foreign.as_slice()).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    assert_eq!(target.as_slice().to_vec().unwrap(), words(2));
}

/// The owner of a borrowed context may destroy it at any time.
#[test]
fn boxes_of_a_borrowed_context_are_copied_through_the_host() {
    let fixture = software(late(3).devices(2));
    let foreign = Foreign::new(&fixture);
    let context = foreign.borrow(alive()).unwrap();
    let source = buffer(&new_stream(&context), &words(1));
    let mut target = buffer(&fixture.stream(), &words(2));
    let mut view = target.as_mut_slice();
    view.copy_from_peer(&source.as_slice()).unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    assert_eq!(count_calls(simulator, "cuMemcpy3DPeerAsync"), 0);
    drop((source, context, foreign));
    assert_eq!(target.as_slice().to_vec().unwrap(), words(1));
}
