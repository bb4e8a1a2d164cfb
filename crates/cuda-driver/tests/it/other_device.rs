//! Copies of stream-ordered memory while a context of another device is current. A driver refuses
//! the calls of C in that case.

use cuda_driver::Error;
use cuda_driver::memory::{Extent, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{Fixture, gpu, late, new_stream, skip, software};

/// More than one page-locked block holds, so that a pageable copy has several pieces.
const LARGE: usize = 3 << 20;
const SMALL: usize = 100;

/// A copy on a stream: returns the words that it produced, all of which should be 7.
type Copy = fn(&Stream) -> Result<Vec<u32>, Error>;

fn filled(stream: &Stream, len: usize, word: u32) -> Result<DeviceBuffer<u32>, Error> {
    let mut buffer = DeviceBuffer::zeroed(stream, len)?;
    buffer.as_mut_slice().fill(word)?;
    Ok(buffer)
}

fn pinned(stream: &Stream, word: u32) -> Result<PinnedBuffer<u32>, Error> {
    PinnedBuffer::from_host(stream.context(), &[word; SMALL], PinnedFlags::empty())
}

/// Each kind of copy, of memory that is filled with a memset where the copy is a download.
const COPIES: [(&str, Copy); 14] = [
    ("a small download", |s| filled(s, SMALL, 7)?.to_vec()),
    ("a large download", |s| filled(s, LARGE, 7)?.to_vec()),
    ("a small upload", |s| {
        DeviceBuffer::from_host(s, &[7; SMALL])?.to_vec()
    }),
    ("an upload of one word", |s| {
        DeviceBuffer::from_host(s, &[7])?.to_vec()
    }),
    ("a large upload", |s| {
        DeviceBuffer::from_host(s, &vec![7; LARGE])?.to_vec()
    }),
    ("a download to page-locked memory", |s| {
        let mut to = pinned(s, 0)?;
        filled(s, SMALL, 7)?.as_slice().copy_to_pinned(&mut to)?;
        Ok(to.to_vec())
    }),
    ("an upload from page-locked memory", |s| {
        let mut buffer = filled(s, SMALL, 0)?;
        buffer.as_mut_slice().copy_from_pinned(&pinned(s, 7)?)?;
        buffer.to_vec()
    }),
    ("a transfer to the host", |s| {
        let to = filled(s, SMALL, 7)?.copy_to_pinned_async(pinned(s, 0)?, s)?;
        Ok(to.wait()?.to_vec())
    }),
    ("a transfer to the device", |s| {
        let mut buffer = filled(s, SMALL, 0)?;
        buffer.copy_from_pinned_async(pinned(s, 7)?, s)?.wait()?;
        buffer.to_vec()
    }),
    ("the copies of a scope", |s| {
        let (from, mut to) = (pinned(s, 7)?, pinned(s, 0)?);
        let mut buffer = filled(s, SMALL, 0)?;
        s.copy_scope(|scope| {
            scope.copy_from_host(buffer.as_mut_slice(), &from)?;
            scope.copy_to_host(buffer.as_slice(), &mut to)
        })?;
        Ok(to.to_vec())
    }),
    ("a copy on the device", |s| {
        let mut to = filled(s, SMALL, 0)?;
        let from = filled(s, SMALL, 7)?;
        to.as_mut_slice().copy_from(from.as_slice())?;
        to.to_vec()
    }),
    ("a fill with a pattern of 12 bytes", |s| {
        let mut triples = DeviceBuffer::<[u32; 3]>::zeroed(s, SMALL)?;
        triples.as_mut_slice().fill([7, 8, 9])?;
        let words = triples.to_vec()?.into_iter();
        Ok(words.map(|[a, b, c]| a + b + c - 17).collect())
    }),
    ("the copy of a graph", |s| {
        let (from, mut to) = (filled(s, SMALL, 7)?, filled(s, SMALL, 0)?);
        let mut graph = Graph::new(s.context())?;
        graph.add_copy(&[], &mut to, &from)?;
        graph.instantiate()?.launch(s)?;
        to.to_vec()
    }),
    ("the copies of rows", |s| {
        let extent = Extent {
            width: 5,
            height: 3,
            depth: 2,
        };
        let mut rows = PitchedBuffer::<u32>::zeroed(s, extent)?;
        rows.as_mut_slice().copy_from_host(&[7; 30])?;
        rows.as_slice().to_vec()
    }),
];

/// Two software devices, and the GPUs if there are several.
#[track_caller]
fn fixtures() -> impl Iterator<Item = Fixture> {
    let builders = [Builder::new(), late(1)];
    let software = builders.map(|builder| software(builder.devices(2)));
    software.into_iter().chain(gpu().filter(|fixture| {
        let has_two = fixture.context.driver().devices().unwrap().len() > 1;
        if !has_two {
            skip("it needs two GPUs");
        }
        has_two
    }))
}

/// The primary context of the last device.
fn other(fixture: &Fixture) -> Context {
    let devices = fixture.context.driver().devices().unwrap();
    devices.last().unwrap().primary_context().unwrap()
}

#[test]
fn copies_work_while_another_device_is_current() {
    for fixture in fixtures() {
        let other = other(&fixture);
        let streams = [
            ("own", fixture.stream()),
            ("legacy", fixture.context.legacy_stream()),
            ("per-thread", fixture.context.per_thread_stream()),
        ];
        let _current = other.make_current().unwrap();
        let mut failed = Vec::new();
        for (kind, stream) in &streams {
            for (name, copy) in COPIES {
                match copy(stream) {
                    Ok(words) => {
                        let is_right = !words.is_empty() && words.iter().all(|&word| word == 7);
                        assert!(is_right, "{}, {kind}: {name}", fixture.name);
                    }
                    Err(error) => failed.push(format!("{}, {kind}, {name}: {error}", fixture.name)),
                }
                let now = Context::current(fixture.context.driver()).unwrap();
                assert_eq!(now.as_ref(), Some(&other), "{}: {name}", fixture.name);
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

#[test]
fn peer_copies_work_while_either_device_is_current() {
    for fixture in fixtures() {
        let other = other(&fixture);
        let there = new_stream(&other);
        let (here, source) = (fixture.stream(), filled(&there, SMALL, 7).unwrap());
        for context in [&fixture.context, &other] {
            let _current = context.make_current().unwrap();
            let mut middle = filled(&here, SMALL, 0).unwrap();
            let mut target = filled(&there, SMALL, 0).unwrap();
            let mut view = middle.as_mut_slice();
            view.copy_from_peer(source.as_slice()).unwrap();
            let mut view = target.as_mut_slice();
            view.copy_from_peer(middle.as_slice()).unwrap();
            assert_eq!(target.to_vec().unwrap(), [7; SMALL], "{}", fixture.name);
        }
    }
}

/// The current context is queried for a copy only if the driver has several devices, and replaced
/// only if another one is current.
#[test]
fn copies_bind_no_context_without_need() {
    for (devices, is_current, calls) in [(1, false, [0, 0]), (2, false, [1, 0]), (2, true, [1, 1])]
    {
        let fixture = software(Builder::new().devices(devices));
        let stream = fixture.stream();
        let (mut to, from) = (
            filled(&stream, SMALL, 0).unwrap(),
            filled(&stream, SMALL, 7).unwrap(),
        );
        let other = other(&fixture);
        let current = is_current.then(|| other.make_current().unwrap());
        let simulator = fixture.simulator.as_ref().unwrap();
        simulator.reset_calls();
        to.as_mut_slice().copy_from(from.as_slice()).unwrap();
        let made = simulator.calls();
        let count = |name| made.get(name).copied().unwrap_or_default();
        let counts = [count("cuCtxGetCurrent"), count("cuCtxPushCurrent_v2")];
        assert_eq!(counts, calls, "{devices} devices, {is_current}: {made:?}");
        drop(current);
    }
}
