//! Invalid input: each mistake is reported by its own error variant before the driver can do harm.

use cuda_driver::context::ContextFlags;
use cuda_driver::error::{Error, RangeError, Status};
use cuda_driver::memory::{CachingPool, ManagedBuffer, MemoryLocation, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::stream::ValueBatch;
use cuda_sim::{Builder, Rule};

use crate::support::{self, Fixture, MIX, everywhere, new_stream, software};

/// A module that contains variables.
const VARIABLES: &str = include_str!("kernels/variables.ptx");

fn is_overflow(result: Result<(), Error>, what: &str) {
    let error = result.unwrap_err();
    assert!(
        matches!(error, Error::SizeOverflow { .. }),
        "{what}: {error}"
    );
}

#[test]
fn overflowing_size_is_an_error_in_every_allocation() {
    for fixture in everywhere() {
        fn all<T: DeviceRepr>(fixture: &Fixture, len: usize) {
            let stream = fixture.stream();
            let pool = CachingPool::new(&fixture.context);
            let what = format!("{}: {len}", fixture.name);
            is_overflow(DeviceBuffer::<T>::zeroed(&stream, len).map(drop), &what);
            // SAFETY: the memory is not read, because the allocation fails.
            let uninit = unsafe { DeviceBuffer::<T>::uninit(&stream, len) };
            is_overflow(uninit.map(drop), &what);
            is_overflow(
                DeviceBuffer::filled(&stream, len, T::zeroed()).map(drop),
                &what,
            );
            is_overflow(
                DeviceBuffer::<T>::zeroed_in(&pool, &stream, len).map(drop),
                &what,
            );
            is_overflow(ManagedBuffer::<T>::zeroed(&stream, len).map(drop), &what);
            for extent in [(len, 1, 1), (1, len, 1), (1, 1, len), (len, len, len)] {
                is_overflow(PitchedBuffer::<T>::zeroed(&stream, extent).map(drop), &what);
            }
            let flags = PinnedFlags::empty();
            is_overflow(
                PinnedBuffer::<T>::zeroed(&fixture.context, len, flags).map(drop),
                &what,
            );
        }
        all::<u64>(&fixture, usize::MAX / 8 + 2);
        all::<u64>(&fixture, (1 << 61) + 1);
        all::<u64>(&fixture, 1 << 60);
        all::<u8>(&fixture, usize::MAX);
        all::<u8>(&fixture, isize::MAX as usize + 1);
        all::<[u8; 3]>(&fixture, usize::MAX / 3 + 1);
    }
}

#[test]
fn a_range_out_of_bounds_fails_on_every_view() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
        for (start, end) in [
            (0, 5),
            (5, 5),
            (3, 2),
            (usize::MAX, usize::MAX),
            (0, usize::MAX),
        ] {
            assert!(buffer.slice(start..end).is_err());
            assert!(buffer.slice_mut(start..end).is_err());
            assert!(buffer.as_slice().slice(start..end).is_err());
            assert!(buffer.as_mut_slice().into_slice(start..end).is_err());
        }
        assert!(buffer.slice(..=usize::MAX).is_err());
        assert!(buffer.slice(usize::MAX..).is_err());
        for middle in [5, usize::MAX] {
            assert!(buffer.as_slice().split_at(middle).is_err());
            assert!(buffer.as_mut_slice().split_at_mut(middle).is_err());
        }
        // A view of a view is limited to the outer view.
        let inner = buffer.slice(1..3).unwrap();
        assert!(inner.slice(..3).is_err());
        assert!(inner.split_at(3).is_err());
        assert_eq!(inner.to_vec().unwrap(), [2, 3]);
        assert!(buffer.chunks(0).is_err());
    }
}

#[test]
fn a_batch_with_too_many_operations_is_an_error() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let words = support::unpooled(&stream, &[0_u32]);
    let batch = || {
        (0..=ValueBatch::MAX_OPERATIONS).fold(ValueBatch::new(), |batch, _| {
            batch.write(&words, 0, 1_u32).unwrap()
        })
    };
    let mut graph = Graph::new(&fixture.context).unwrap();
    let errors = [
        batch().queue(&stream).unwrap_err(),
        graph.add_batch(&[], batch()).unwrap_err(),
    ];
    let too_many = RangeError::TooMany {
        what: "operations in the batch",
        given: ValueBatch::MAX_OPERATIONS + 1,
        most: ValueBatch::MAX_OPERATIONS,
    };
    assert_eq!(errors, [too_many.clone().into(), too_many.into()]);
    assert_eq!(words.to_vec().unwrap(), [0]);
}

#[test]
fn lengths_that_differ_are_errors_and_nothing_is_copied() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let mut buffer = DeviceBuffer::from_host(&stream, &[7_u16; 3]).unwrap();
        let peer = DeviceBuffer::from_host(&own.default_stream().unwrap(), &[1_u16; 2]).unwrap();
        let other = DeviceBuffer::from_host(&stream, &[1_u16; 4]).unwrap();
        let flags = PinnedFlags::empty();
        let mut pinned = PinnedBuffer::from_host(&fixture.context, &[2_u16; 4], flags).unwrap();
        let mut host = [5_u16; 4];
        let results = [
            (buffer.copy_from_host(&host), 4, 3),
            (buffer.copy_from_host(&[]), 0, 3),
            (buffer.copy_to_host(&mut host), 3, 4),
            (buffer.copy_from_pinned(&pinned), 4, 3),
            (buffer.copy_to_pinned(&mut pinned), 3, 4),
            (buffer.as_mut_slice().copy_from(other.as_slice()), 4, 3),
            (buffer.as_mut_slice().copy_from_peer(peer.as_slice()), 2, 3),
        ];
        for (result, source_len, destination_len) in results {
            assert_eq!(
                result.unwrap_err(),
                Error::LengthMismatch {
                    source_len,
                    destination_len
                }
            );
        }
        assert_eq!((host, &*pinned), ([5; 4], &[2; 4][..]));
        assert_eq!(buffer.to_vec().unwrap(), [7; 3]);
    }
}

/// One context on one device, with an object of each kind.
struct Side {
    context: Context,
    stream: Stream,
    kernel: Function,
    event: Event,
    buffer: DeviceBuffer<u32>,
    pinned: PinnedBuffer<u32>,
}

impl Side {
    fn new(context: &Context) -> Self {
        let stream = new_stream(context);
        let module = Module::load(context, &Ptx::new(MIX).unwrap()).unwrap();
        Self {
            kernel: module.function("mix").unwrap(),
            event: Event::new(context, EventFlags::empty()).unwrap(),
            buffer: DeviceBuffer::from_host(&stream, &[1; 4]).unwrap(),
            pinned: PinnedBuffer::from_host(context, &[2; 4], PinnedFlags::empty()).unwrap(),
            context: context.clone(),
            stream,
        }
    }

    /// Launches the kernel of `self` with the buffer `x` of `self`; the stream and `y` may belong
    /// to another side.
    fn launch(&mut self, stream: &Stream, y: &DeviceBuffer<u32>) -> Result<(), Error> {
        let (kernel, x) = (&self.kernel, &mut self.buffer);
        let config = LaunchConfig::for_num_elems(4).unwrap();
        // SAFETY: the kernel reads 4 words of each and writes 4 of `x`; each has 4.
        unsafe { stream.launch(kernel, config, (x, y, 4_u32)) }
    }
}

/// Runs every operation that requires both sides to be in the same context.
fn within_one_context(one: &mut Side, two: &mut Side) -> Vec<(&'static str, Result<(), Error>)> {
    let pool = CachingPool::new(&two.context);
    let (x, y) = (&mut one.buffer, &two.buffer);
    let mut results = vec![
        ("copy", x.as_mut_slice().copy_from(y.as_slice())),
        ("record", two.event.record(&one.stream)),
        (
            "pool",
            DeviceBuffer::<u8>::zeroed_in(&pool, &one.stream, 4).map(drop),
        ),
    ];
    let module = Module::load(&one.context, &Ptx::new(VARIABLES).unwrap()).unwrap();
    let variable = module.global::<u32>("counter", &two.stream);
    results.push(("a variable", variable.map(drop)));
    let mut rows = PitchedBuffer::<u32>::zeroed(&one.stream, (4, 2)).unwrap();
    let others = PitchedBuffer::<u32>::zeroed(&two.stream, (4, 2)).unwrap();
    let copied = rows.as_mut_slice().copy_from(&others.as_slice());
    results.push(("rows", copied));
    let moved = (one.buffer.as_slice()).prefetch(&MemoryLocation::Host, &two.stream);
    results.push(("a prefetch", moved));
    results.push(("a buffer", one.launch(&one.stream.clone(), &two.buffer)));
    results.push(("a stream", one.launch(&two.stream, &two.buffer)));
    let y = DeviceBuffer::from_host(&one.stream, &[3; 4]).unwrap();
    results.push(("a stream alone", one.launch(&two.stream, &y)));
    let attributes = LaunchAttributes::new().completion_event(&two.event);
    let (config, x) = (LaunchConfig::for_num_elems(4).unwrap(), &mut one.buffer);
    // SAFETY: the kernel reads 4 words of each and writes 4 of `x`; each has 4.
    let launched =
        unsafe { (one.stream).launch_with(&one.kernel, config, &attributes, (x, &y, 4_u32)) };
    results.push(("an attribute's event", launched));
    results.push(("the kernel", two.launch(&one.stream, &y)));
    results
}

fn are_of_another(results: Vec<(&'static str, Result<(), Error>)>) {
    for (what, result) in results {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::OtherContext { .. }),
            "{what}: {error}"
        );
    }
}

#[test]
fn an_object_of_another_context_is_an_error_on_one_device() {
    for fixture in everywhere() {
        let own = Context::new(fixture.context.device(), ContextFlags::empty()).unwrap();
        let (mut one, mut two) = (Side::new(&fixture.context), Side::new(&own));
        are_of_another(within_one_context(&mut one, &mut two));
        are_of_another(within_one_context(&mut two, &mut one));
        // Operations that are defined between contexts succeed.
        one.event.record(&one.stream).unwrap();
        two.stream.wait(&one.event).unwrap();
        one.buffer.copy_from_pinned(&two.pinned).unwrap();
        assert_eq!(one.buffer.to_vec().unwrap(), [2; 4], "{}", fixture.name);
    }
}

#[test]
fn an_object_of_another_device_is_an_error() {
    let fixture = software(Builder::new().devices(2));
    let other = fixture.context.driver().device(1).unwrap();
    let other = other.primary_context().unwrap();
    let (mut one, mut two) = (Side::new(&fixture.context), Side::new(&other));
    are_of_another(within_one_context(&mut one, &mut two));
    are_of_another(within_one_context(&mut two, &mut one));
    assert_eq!(one.buffer.to_vec().unwrap(), [1; 4]);
    assert_eq!(two.buffer.to_vec().unwrap(), [1; 4]);
}

#[test]
fn object_of_another_driver_fails_without_a_call() {
    let fixtures = [(); 2].map(|()| software(Builder::new()));
    let [mut one, mut two] = fixtures
        .each_ref()
        .map(|fixture| Side::new(&fixture.context));
    let y = DeviceBuffer::from_host(&one.stream, &[3; 4]).unwrap();
    let simulators = fixtures
        .each_ref()
        .map(|fixture| fixture.simulator.as_ref());
    for simulator in simulators.into_iter().flatten() {
        simulator.reset_calls();
    }
    let results = vec![
        ("wait", one.stream.wait(&two.event)),
        ("record", two.event.record(&one.stream)),
        ("time", one.event.elapsed_since(&two.event).map(drop)),
        (
            "copy",
            one.buffer.as_mut_slice().copy_from(two.buffer.as_slice()),
        ),
        (
            "peer",
            one.buffer
                .as_mut_slice()
                .copy_from_peer(two.buffer.as_slice()),
        ),
        ("from pinned", one.buffer.copy_from_pinned(&two.pinned)),
        ("to pinned", one.buffer.copy_to_pinned(&mut two.pinned)),
        ("a buffer", one.launch(&one.stream.clone(), &two.buffer)),
        ("a stream", one.launch(&two.stream, &y)),
        ("the kernel", two.launch(&one.stream, &y)),
        ("access", one.context.enable_peer_access(&two.context)),
    ];
    are_of_another(results);
    for simulator in simulators.into_iter().flatten() {
        assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
    }
}

#[test]
fn out_of_memory_error_names_bytes_everywhere() {
    let fixture = software(Builder::new().memory(64 << 20).host_memory(8 << 20));
    let stream = fixture.stream();
    let pool = CachingPool::new(&fixture.context);
    let bytes_of = |result: Result<(), Error>| match result.unwrap_err() {
        Error::OutOfMemory { bytes, .. } => bytes,
        error => panic!("{error}"),
    };
    let len = 100 << 20;
    assert_eq!(
        bytes_of(DeviceBuffer::<u16>::zeroed(&stream, len).map(drop)),
        2 * len
    );
    assert!(bytes_of(DeviceBuffer::<u16>::zeroed_in(&pool, &stream, len).map(drop)) >= 2 * len);
    let flags = PinnedFlags::empty();
    assert_eq!(
        bytes_of(PinnedBuffer::<u32>::zeroed(&fixture.context, len, flags).map(drop)),
        4 * len
    );
    // Where the program requests no bytes, the error carries only the status.
    let simulator = fixture.simulator.as_ref().unwrap();
    for call in [
        "cuCtxCreate_v2",
        "cuStreamCreateWithPriority",
        "cuEventCreate",
    ] {
        simulator.add_rule(Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY).function(call));
    }
    for result in [
        Context::new(fixture.context.device(), ContextFlags::empty()).map(drop),
        Stream::new(&fixture.context, StreamFlags::empty(), 0).map(drop),
        Event::new(&fixture.context, EventFlags::empty()).map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
    }
    simulator.clear_rules();
    assert_eq!(
        DeviceBuffer::<u8>::zeroed(&stream, 3)
            .unwrap()
            .to_vec()
            .unwrap(),
        [0; 3]
    );
}

#[test]
fn addresses_and_sizes_that_do_not_fit_another_type_are_errors() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let bytes = DeviceBuffer::from_host(&stream, &[1_u8; 17]).unwrap();
        let error = bytes.as_slice().cast::<u32>().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Uneven {
                    variable: None,
                    bytes: 17,
                    size: 4
                }
            ),
            "{error}"
        );
        let odd = bytes.slice(1..9).unwrap();
        let error = odd.cast::<u32>().unwrap_err();
        assert!(
            matches!(error, Error::Misaligned { align: 4, .. }),
            "{error}"
        );
    }
}
