//! The number of driver calls per operation. Raise a number here only on purpose.

use cuda_driver::prelude::*;
use cuda_sim::{Builder, Simulator};

use crate::support::{COPY, Fixture, software};

struct Counted {
    fixture: Fixture,
    owner: Stream,
    copy: Function,
}

impl Counted {
    fn new() -> Self {
        let fixture = software(Builder::new());
        let (owner, copy) = (fixture.stream(), fixture.kernel(COPY, "copy"));
        Self {
            fixture,
            owner,
            copy,
        }
    }

    fn simulator(&self) -> &Simulator {
        self.fixture.simulator.as_ref().unwrap()
    }

    /// Returns the driver calls that `f` makes, counted by name.
    fn calls<R>(&self, f: impl FnOnce() -> R) -> (R, Vec<(String, u64)>) {
        self.simulator().reset_calls();
        let result = f();
        let calls = self.simulator().calls();
        (
            result,
            calls
                .into_iter()
                .map(|(name, count)| (name.to_string(), count))
                .collect(),
        )
    }

    fn buffer(&self) -> DeviceBuffer<u32> {
        DeviceBuffer::zeroed(&self.owner, 8).unwrap()
    }

    fn launch(&self, stream: &Stream, input: &DeviceBuffer<u32>, output: &mut DeviceBuffer<u32>) {
        // SAFETY: the kernel reads 8 words of the one and writes 8 of the other; each has 8.
        unsafe {
            stream.launch(
                &self.copy,
                LaunchConfig::for_num_elems(8).unwrap(),
                (input, output, 8_u32),
            )
        }
        .unwrap();
    }
}

fn total(calls: &[(String, u64)]) -> u64 {
    calls.iter().map(|(_, count)| count).sum()
}

#[test]
fn a_launch_is_one_call_however_many_streams_there_are() {
    let counted = Counted::new();
    let (input, mut output) = (counted.buffer(), counted.buffer());
    let (_, calls) = counted.calls(|| counted.launch(&counted.owner, &input, &mut output));
    assert_eq!(calls, [("cuLaunchKernel".to_owned(), 1)]);
    let _streams: Vec<Stream> = (0..4).map(|_| counted.fixture.stream()).collect();
    let (_, calls) = counted.calls(|| counted.launch(&counted.owner, &input, &mut output));
    assert_eq!(calls, [("cuLaunchKernel".to_owned(), 1)]);
}

#[test]
fn a_zeroed_buffer_is_two_calls_and_its_drop_one() {
    let counted = Counted::new();
    let (buffer, calls) = counted.calls(|| counted.buffer());
    assert_eq!(total(&calls), 2, "{calls:?}");
    let (_, calls) = counted.calls(|| drop(buffer));
    // The capture mode is changed for the free and restored afterwards.
    let expected = [
        ("cuMemFreeAsync", 1),
        ("cuThreadExchangeStreamCaptureMode", 2),
    ];
    assert_eq!(
        calls,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
}

#[test]
fn first_use_on_another_stream_adds_two_calls_per_source() {
    let counted = Counted::new();
    let other = counted.fixture.stream();
    let (input, mut output) = (counted.buffer(), counted.buffer());
    // Fills the event pool first, so that creating events is not counted.
    {
        let (warm_input, mut warm_output) = (counted.buffer(), counted.buffer());
        counted.launch(&other, &warm_input, &mut warm_output);
    }
    let (_, calls) = counted.calls(|| {
        // SAFETY: the kernel gets the address of one buffer as both arguments, and reads and writes
        // its 8 words.
        unsafe {
            other.launch(
                &counted.copy,
                LaunchConfig::for_num_elems(8).unwrap(),
                (output.as_raw(), &mut output, 8_u32),
            )
        }
        .unwrap();
    });
    assert_eq!(total(&calls), 3, "{calls:?}");
    // The same stream is ordered already; only recording the event of the use is left.
    let (_, calls) = counted.calls(|| {
        // SAFETY: as above.
        unsafe {
            other.launch(
                &counted.copy,
                LaunchConfig::for_num_elems(8).unwrap(),
                (output.as_raw(), &mut output, 8_u32),
            )
        }
        .unwrap();
    });
    assert_eq!(total(&calls), 2, "{calls:?}");
    // The event was recorded already, so the free only has to wait for it.
    let (_, calls) = counted.calls(|| drop(output));
    assert_eq!(total(&calls), 4, "{calls:?}");
    drop(input);
}

#[test]
fn a_drop_after_one_use_elsewhere_is_two_calls_more() {
    let counted = Counted::new();
    let other = counted.fixture.stream();
    let (input, mut output) = (counted.buffer(), counted.buffer());
    counted.launch(&other, &input, &mut output);
    let (_, calls) = counted.calls(|| drop(output));
    assert_eq!(total(&calls), 5, "{calls:?}");
}

#[test]
fn small_copy_waits_once_if_to_the_host() {
    let counted = Counted::new();
    let mut buffer = counted.buffer();
    // The first copy allocates the staging block.
    buffer.copy_from_host(&[1; 8]).unwrap();
    counted.owner.synchronize().unwrap();
    let (_, calls) = counted.calls(|| buffer.copy_from_host(&[2; 8]).unwrap());
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cuEventQuery",
            "cuEventRecord",
            "cuMemcpyHtoDAsync_v2",
            "cuThreadExchangeStreamCaptureMode"
        ]
    );
    // The capture mode is changed for the query and restored afterwards.
    assert_eq!(total(&calls), 5, "{calls:?}");
    let mut destination = [0; 8];
    counted.owner.synchronize().unwrap();
    buffer.copy_to_host(&mut destination).unwrap();
    let (_, calls) = counted.calls(|| buffer.copy_to_host(&mut destination).unwrap());
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cuMemcpyDtoHAsync_v2",
            "cuStreamSynchronize",
            "cuThreadExchangeStreamCaptureMode"
        ]
    );
    assert_eq!((total(&calls), destination), (4, [2; 8]), "{calls:?}");
}
