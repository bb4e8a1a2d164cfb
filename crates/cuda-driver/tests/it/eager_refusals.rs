//! Calls that an eager capture refuses.

use std::thread;

use cuda_driver::context::ContextFlags;
use cuda_driver::error::Error;
use cuda_driver::graph::EagerCapture;
use cuda_driver::memory::{
    CachingPool, ManagedBuffer, MemoryPool, PitchedBuffer, ThreadBuffer, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};

use crate::eager_capture::{N, mix};
use crate::support::{MIX, assert_all, everywhere, filled};

/// Fails unless `result` is the error that names `call`.
#[track_caller]
fn refused<T>(result: cuda_driver::Result<T>, call: &str) {
    match result.map(drop) {
        Err(Error::EagerCapture {
            call: named,
            is_elsewhere: false,
        }) => assert_eq!(named, call),
        other => panic!("{call}: {other:?}"),
    }
}

#[test]
fn calls_that_cannot_be_captured_are_refused_by_name() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let context = &fixture.context;
        let kernel = fixture.kernel(MIX, "mix");
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 5));
        let mut words = vec![0_u32; N as usize];
        let pinned = |value| {
            let words = [value; N as usize];
            PinnedBuffer::from_host(context, &words, PinnedFlags::DEFAULT).unwrap()
        };
        let mut locked = pinned(2);
        let event = Event::new(context, EventFlags::DEFAULT).unwrap();
        let exec = Graph::new(context).unwrap().instantiate().unwrap();
        let flag = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 1).unwrap();
        let (pool, cache) = (
            MemoryPool::new(context.device()).unwrap(),
            CachingPool::new(context),
        );
        let second = Context::new(context.device(), ContextFlags::empty()).unwrap();
        let there = second.default_stream().unwrap();
        let mut rows = PitchedBuffer::<u32>::zeroed(&stream, (4, 4)).unwrap();
        let elsewhere = PitchedBuffer::<u32>::zeroed(&there, (4, 4)).unwrap();
        let (shape, none) = (ArrayShape::two_d(4, 4), ArrayFlags::empty());
        let mut image = Array::<u32>::zeroed(&stream, &shape, none).unwrap();
        let image_elsewhere = Array::<u32>::zeroed(&there, &shape, none).unwrap();
        let capture = EagerCapture::begin(&stream).unwrap();
        assert_eq!(capture.stream(), &stream);
        assert_eq!(capture.context(), context);
        mix(&kernel, &stream, &mut x, &y).unwrap();
        refused(stream.synchronize(), "Stream::synchronize");
        refused(stream.is_done(), "Stream::is_done");
        refused(stream.fork(), "Stream::fork");
        refused(stream.join(&other), "Stream::join");
        refused(other.join(&stream), "Stream::join");
        refused(event.record(&stream), "Event::record");
        refused(stream.wait(&event), "Stream::wait");
        refused(stream.launch_host(|| ()), "Stream::launch_host");
        refused(stream.completion().wait(), "Stream::completion");
        refused(x.to_vec(), "DeviceSlice::to_vec");
        refused(x.copy_to_host(&mut words), "DeviceSlice::copy_to_host");
        refused(
            x.copy_to_host_on(&mut words, &stream),
            "a copy from or to host memory",
        );
        refused(x.copy_from_host(&words), "DeviceSliceMut::copy_from_host");
        refused(
            DeviceBuffer::from_host(&stream, &words),
            "DeviceBuffer::from_host",
        );
        refused(x.as_slice().copy_to_pinned(&mut locked), "copy_to_pinned");
        refused(
            x.as_mut_slice().copy_from_pinned(&locked),
            "copy_from_pinned",
        );
        let transfer = x.copy_from_pinned_async(pinned(3), &stream);
        let failed = transfer.unwrap_err();
        refused(
            Err::<(), _>(failed.error().clone()),
            "an asynchronous copy of page-locked memory",
        );
        // The memory of a copy that did not begin is returned.
        assert!(failed.into_memory().is_some());
        let copied = stream.copy_scope(|scope| scope.copy_to_host(x.as_slice(), &mut locked));
        refused(copied, "an asynchronous copy to page-locked memory");
        refused(
            x.copy_from_async(&y, &stream),
            "DeviceSliceMut::copy_from_async",
        );
        refused(x.fill_async(9, &stream), "DeviceSliceMut::fill_async");
        refused(
            x.as_mut_slice().copy_from_peer(&y),
            "DeviceSliceMut::copy_from_peer",
        );
        refused(
            rows.as_mut_slice().copy_from_peer(&elsewhere.as_slice()),
            "PitchedSliceMut::copy_from_peer",
        );
        refused(
            image
                .as_mut_slice()
                .copy_from_peer(&image_elsewhere.as_slice()),
            "ArraySliceMut::copy_from_peer",
        );
        let waited = stream.wait_value(&flag, 0, WaitCondition::EQUAL, 0_u32);
        refused(waited, "Stream::wait_value");
        refused(stream.write_value(&flag, 0, 1_u32), "Stream::write_value");
        let batch = ValueBatch::new().write(&flag, 0, 1_u32).unwrap();
        refused(batch.queue(&stream), "ValueBatch::queue");
        refused(exec.launch(&stream), "GraphExec::launch");
        refused(exec.upload(&stream), "GraphExec::upload");
        refused(EagerCapture::begin(&stream), "EagerCapture::begin");
        // SAFETY: the ranges are those of the buffers, which are declared.
        let copied = unsafe { stream.copy_raw(x.as_raw(), y.as_raw(), 4, (&mut x, &y)) };
        refused(copied, "Stream::copy_raw");
        refused(stream.copy_attributes(&other), "Stream::copy_attributes");
        type Words = DeviceBuffer<u32>;
        refused(
            Words::zeroed_in(&Unpooled, &stream, 1),
            "an allocation outside of any pool",
        );
        refused(
            Words::zeroed_in(&cache, &stream, 1),
            "an allocation from a caching pool",
        );
        refused(
            Words::zeroed_in(&pool, &stream, 1),
            "an allocation from a memory pool",
        );
        refused(
            PitchedBuffer::<u32>::zeroed(&stream, (4, 4)),
            "an allocation of pitched memory",
        );
        refused(
            ManagedBuffer::<u32>::zeroed(&stream, 4),
            "an allocation of managed memory",
        );
        // The capture is intact.
        mix(&kernel, &stream, &mut x, &y).unwrap();
        let graph = capture.end().unwrap();
        assert_eq!(graph.len(), 2, "{}", fixture.name);
        stream.synchronize().unwrap();
        assert_all(&x, 1, &fixture.name);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 2 * 7 + 5, &fixture.name);
        assert_eq!(flag.to_vec().unwrap(), [0]);
    }
}

#[test]
fn calls_of_other_threads_are_refused() {
    for fixture in everywhere() {
        let (stream, own) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(MIX, "mix");
        let (mut x, y) = (filled(&stream, N, 1), filled(&stream, N, 5));
        let mut z = filled(&stream, N, 2);
        let graph = Graph::capture_eager(&stream, |_| {
            mix(&kernel, &stream, &mut x, &y)?;
            thread::scope(|threads| {
                threads.spawn(|| {
                    let is_refused = |result: cuda_driver::Result<()>, name| match result {
                        Err(Error::EagerCapture {
                            call,
                            is_elsewhere: true,
                        }) => assert_eq!(call, name),
                        other => panic!("{name}: {other:?}"),
                    };
                    is_refused(mix(&kernel, &stream, &mut z, &y), "a launch");
                    is_refused(z.fill(7), "DeviceSliceMut::fill");
                    is_refused(z.copy_from(&y), "DeviceSliceMut::copy_from");
                    is_refused(stream.synchronize(), "Stream::synchronize");
                    is_refused(z.to_vec().map(drop), "DeviceSlice::to_vec");
                    is_refused(
                        EagerCapture::begin(&stream).map(drop),
                        "EagerCapture::begin",
                    );
                    let new = DeviceBuffer::<u32>::zeroed(&stream, 1);
                    is_refused(new.map(drop), "an allocation");
                    // SAFETY: the closure queues nothing.
                    let used = unsafe { stream.using((&y,), |_| ()) };
                    is_refused(used, "Stream::using");
                    // SAFETY: no work is queued.
                    let guard = unsafe { stream.begin_use((&y,)) };
                    is_refused(guard.map(drop), "Stream::begin_use");
                    is_refused(stream.fence().map(drop), "Stream::fence");
                    assert!(stream.is_captured().unwrap());
                    // Another stream uses the buffers meanwhile, and a drop frees the memory.
                    mix(&kernel, &own, &mut z, &y).unwrap();
                    own.synchronize().unwrap();
                    drop(z);
                });
            });
            x.fill(4)
        })
        .unwrap();
        assert_eq!(graph.len(), 2);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_all(&x, 4, &fixture.name);
    }
}

#[test]
fn thread_buffers_of_a_capture_do_not_escape() {
    for fixture in everywhere() {
        let stream = fixture.context.thread_stream();
        let mut x = ThreadBuffer::filled(&stream, N as usize, 1_u32).unwrap();
        let mut kept = None;
        let failed = Graph::capture_eager(&stream, |capture| {
            let mut temporary = ThreadBuffer::filled(&stream, N as usize, 5_u32)?;
            let used = capture.outside(|| temporary.fill(6));
            assert_eq!(used, Err(Error::MemoryOfCapture));
            kept = Some(temporary);
            Ok(())
        });
        assert!(matches!(failed, Err(Error::OutlivesCapture { .. })));
        let mut kept = kept.unwrap();
        assert_eq!(kept.fill(6), Err(Error::MemoryOfCapture));
        assert_eq!(x.copy_from(&kept), Err(Error::MemoryOfCapture));
        assert_eq!(x.to_vec().unwrap(), [1; N as usize]);
    }
}
