//! Work on the legacy stream behind a stream that waits for the program: work that was ready before
//! must still run.

use std::any::Any;

use cuda_driver::Error;
use cuda_driver::memory::{ManagedAttachment, ManagedBuffer, MemoryLocation};
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;

use crate::support::{Fixture, everywhere, new_stream, unpooled};
use crate::task::in_time;

/// The objects that an operation on the legacy stream uses.
struct Operands {
    context: Context,
    legacy: Stream,
    /// A stream that waits for no other stream, and that no test waits for.
    own: Stream,
    /// A buffer whose owning stream is the legacy stream.
    buffer: DeviceBuffer<u32>,
    words: DeviceBuffer<u32>,
    event: Event,
}

type Operation = (
    &'static str,
    fn(&mut Operands) -> Result<Box<dyn Any>, Error>,
);

/// Operations that queue work on the legacy stream. Their results are kept until the stream is
/// released.
const OPERATIONS: &[Operation] = &[
    ("record", |it| {
        it.event.record(&it.legacy)?;
        Ok(Box::new(()))
    }),
    ("completion", |it| Ok(Box::new(it.legacy.completion()))),
    ("join", |it| {
        it.own.join(&it.legacy)?;
        Ok(Box::new(()))
    }),
    ("fork", |it| Ok(Box::new(it.legacy.fork()?))),
    ("wait", |it| {
        it.legacy.wait(&it.event)?;
        Ok(Box::new(()))
    }),
    ("host function", |it| {
        Ok(Box::new(it.legacy.launch_host(|| ())?))
    }),
    ("allocation", |it| {
        Ok(Box::new(DeviceBuffer::<u32>::zeroed(&it.legacy, 4)?))
    }),
    ("allocation from a pool", |it| {
        let pool = it.context.device().default_memory_pool()?;
        Ok(Box::new(DeviceBuffer::<u32>::zeroed_in(
            &pool, &it.legacy, 4,
        )?))
    }),
    ("free", |it| {
        let empty = DeviceBuffer::zeroed(&it.own, 0)?;
        drop(std::mem::replace(&mut it.buffer, empty));
        Ok(Box::new(()))
    }),
    ("fill", |it| {
        it.buffer.fill(7)?;
        Ok(Box::new(()))
    }),
    ("upload", |it| {
        it.buffer.copy_from_host(&[7; 4])?;
        Ok(Box::new(()))
    }),
    ("use of its buffer elsewhere", |it| {
        it.buffer.fill(7)?;
        let mut other = DeviceBuffer::<u32>::zeroed(&it.own, 4)?;
        other.as_mut_slice().copy_from(it.buffer.as_slice())?;
        Ok(Box::new(other))
    }),
    ("value", |it| {
        it.legacy.write_value(&it.words, 0, 1_u32)?;
        Ok(Box::new(()))
    }),
    ("managed memory", |it| {
        let mut managed = ManagedBuffer::<u32>::zeroed(&it.legacy, 4)?;
        managed
            .as_slice()
            .prefetch(&MemoryLocation::Host, &it.legacy)?;
        // SAFETY: every stream may use the memory, as before.
        unsafe { managed.attach(&it.legacy, ManagedAttachment::Global) }?;
        Ok(Box::new(managed))
    }),
    ("graph", |it| {
        let mut graph = Graph::new(&it.context)?;
        graph.add_empty(&[])?;
        let exec = graph.instantiate()?;
        exec.upload(&it.legacy)?;
        exec.launch(&it.legacy)?;
        Ok(Box::new(exec))
    }),
];

/// Checks an operation. `legacy_first` is whether the legacy stream is known before the streams
/// that it waits for.
fn check(fixture: &Fixture, operation: Operation, legacy_first: bool) {
    let context = fixture.context.clone();
    let (name, queue) = operation;
    let what = format!("{}, {name}, legacy first: {legacy_first}", fixture.name);
    in_time(&what.clone(), move || {
        let blocking = || Stream::new(&context, StreamFlags::empty(), 0).unwrap();
        let stream = || new_stream(&context);
        if legacy_first {
            drop(context.legacy_stream());
        }
        let (one, two, own) = (blocking(), blocking(), stream());
        let mut result = DeviceBuffer::<u32>::zeroed(&own, 4).unwrap();
        let flag = unpooled(&own, &[0_u32]);
        let legacy = context.legacy_stream();
        let mut operands = Operands {
            own: stream(),
            buffer: DeviceBuffer::zeroed(&legacy, 4).unwrap(),
            words: unpooled(&own, &[0_u32]),
            event: Event::new(&context, EventFlags::DISABLE_TIMING).unwrap(),
            context: context.clone(),
            legacy,
        };
        context.synchronize().unwrap();
        one.wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        let source = DeviceBuffer::from_host(&two, &[1_u32; 4]).unwrap();
        // The operation waits for `one`, and `two` waits for the operation.
        let kept = queue(&mut operands).unwrap_or_else(|error| panic!("{what}: {error}"));
        result.as_mut_slice().copy_from(source.as_slice()).unwrap();
        assert_eq!(result.to_vec().unwrap(), [1; 4], "{what}");
        stream().write_value(&flag, 0, 1_u32).unwrap();
        one.synchronize().unwrap();
        drop((kept, operands));
    });
}

/// Checks the operations whose names match `is_it`.
#[track_caller]
fn check_all(is_it: impl Fn(&str) -> bool) {
    let operations: Vec<_> = OPERATIONS.iter().filter(|it| is_it(it.0)).collect();
    assert!(!operations.is_empty());
    for fixture in everywhere() {
        for operation in &operations {
            for legacy_first in [true, false] {
                check(&fixture, **operation, legacy_first);
            }
        }
    }
}

const OWN_TESTS: [&str; 4] = ["record", "completion", "join", "fork"];

#[test]
fn record_on_the_legacy_stream_blocks_no_earlier_copy() {
    check_all(|name| name == "record");
}

#[test]
fn completion_on_the_legacy_stream_blocks_no_copy() {
    check_all(|it| it == "completion");
}

#[test]
fn join_of_the_legacy_stream_blocks_no_earlier_copy() {
    check_all(|name| name == "join");
}

#[test]
fn fork_of_the_legacy_stream_blocks_no_earlier_copy() {
    check_all(|name| name == "fork");
}

#[test]
fn other_work_on_the_legacy_stream_blocks_no_copy() {
    check_all(|name| !OWN_TESTS.contains(&name));
}

#[test]
fn an_idle_legacy_stream_makes_no_stream_wait() {
    for fixture in everywhere() {
        let context = fixture.context.clone();
        in_time(&fixture.name, move || {
            let blocking = || Stream::new(&context, StreamFlags::empty(), 0).unwrap();
            let own = new_stream(&context);
            let legacy = context.legacy_stream();
            let (one, two) = (blocking(), blocking());
            let flag = unpooled(&own, &[0_u32, 0]);
            drop(DeviceBuffer::<u32>::zeroed(&legacy, 4).unwrap());
            context.synchronize().unwrap();
            one.wait_value(&flag, 0, WaitCondition::EQUAL, 1_u32)
                .unwrap();
            // Nothing was queued on the legacy stream since, so this wait must not queue a fence
            // there either.
            two.wait_value(&flag, 1, WaitCondition::EQUAL, 0_u32)
                .unwrap();
            two.write_value(&flag, 0, 1_u32).unwrap();
            one.synchronize().unwrap();
        });
    }
}
