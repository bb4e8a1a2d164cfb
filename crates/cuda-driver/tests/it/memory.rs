//! Buffers and views.

use cuda_driver::Error;
use cuda_driver::prelude::*;

use crate::support::everywhere;

#[test]
fn downloaded_bytes_equal_the_uploaded_ones() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for len in [1_usize, 7, 4096, 1_000_003] {
            let source: Vec<u16> = (0..len).map(|i| (i as u16).wrapping_mul(31)).collect();
            let buffer = DeviceBuffer::from_host(&stream, &source).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.to_vec().unwrap(), source, "{}", fixture.name);
            buffer.close().unwrap();
        }
        let zeros = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 100).unwrap();
        assert_eq!(zeros.to_vec().unwrap(), vec![[0.0; 3]; 100]);
    }
}

#[test]
fn empty_buffers_make_no_driver_calls() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        let mut empty = DeviceBuffer::<u64>::from_host(&stream, &[]).unwrap();
        empty.copy_from_host(&[]).unwrap();
        assert!(empty.is_empty());
        assert_eq!(empty.to_vec().unwrap(), Vec::<u64>::new());
        assert_eq!(DeviceBuffer::<u64>::zeroed(&stream, 0).unwrap().as_raw(), 0);
        assert_eq!(empty.slice(..).unwrap().len(), 0);
        empty.close().unwrap();
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(
                simulator.calls().values().sum::<u64>(),
                0,
                "{:?}",
                simulator.calls()
            );
        }
    }
}

#[test]
fn lengths_that_overflow_are_errors() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for len in [usize::MAX, usize::MAX / 8 + 1, (1 << 61) + 1, 1 << 60] {
            let error = DeviceBuffer::<u64>::zeroed(&stream, len).unwrap_err();
            assert!(
                matches!(error, Error::SizeOverflow { size: 8, .. }),
                "{len}: {error}"
            );
        }
    }
}

#[test]
fn copies_need_equal_lengths() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u8, 2, 3]).unwrap();
        let is_mismatch = |result: cuda_driver::Result<()>| {
            assert!(
                matches!(result, Err(Error::LengthMismatch { .. })),
                "{result:?}"
            );
        };
        is_mismatch(buffer.copy_from_host(&[0; 4]));
        is_mismatch(buffer.copy_from_host(&[0; 2]));
        is_mismatch(buffer.copy_to_host(&mut [0; 4]));
        let other = DeviceBuffer::<u8>::zeroed(&stream, 2).unwrap();
        is_mismatch(buffer.as_mut_slice().copy_from(other.as_slice()));
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    }
}

#[test]
fn ranges_out_of_bounds_are_errors() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4, 5]).unwrap();
        assert!(buffer.slice(3..6).is_err());
        assert!(buffer.slice(6..).is_err());
        assert!(buffer.slice(..=usize::MAX).is_err());
        #[allow(
            clippy::reversed_empty_ranges,
            reason = "the test passes a reversed range"
        )]
        let reversed = buffer.slice(4..3);
        let reversed = reversed.unwrap_err().to_string();
        assert_eq!(
            reversed,
            "the range 4..3 is out of bounds: there are 5 elements"
        );
        assert!(buffer.as_slice().split_at(6).is_err());
        assert!(buffer.as_mut_slice().split_at_mut(6).is_err());
        assert_eq!(buffer.slice(5..).unwrap().len(), 0);
        assert_eq!(
            buffer
                .slice(1..=3)
                .unwrap()
                .slice(1..)
                .unwrap()
                .to_vec()
                .unwrap(),
            [3, 4]
        );
        let (lower, upper) = buffer.as_slice().split_at(2).unwrap();
        assert_eq!(
            (lower.to_vec().unwrap(), upper.to_vec().unwrap()),
            (vec![1, 2], vec![3, 4, 5])
        );
    }
}

#[test]
fn halves_can_be_copied_between() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut buffer = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
        let (mut lower, upper) = buffer.as_mut_slice().split_at_mut(2).unwrap();
        lower.copy_from(upper.as_slice()).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [3, 4, 3, 4], "{}", fixture.name);
    }
}

#[test]
fn nothing_is_left_when_all_is_dropped_in_any_order() {
    for fixture in everywhere() {
        let Some(simulator) = fixture.simulator else {
            continue;
        };
        let stream = Stream::new(&fixture.context, StreamFlags::empty(), 0).unwrap();
        let buffer = DeviceBuffer::from_host(&stream, &[1_u8; 100]).unwrap();
        let event = Event::new(&fixture.context, EventFlags::empty()).unwrap();
        drop(fixture.context);
        drop(stream);
        drop(event);
        assert_eq!(buffer.to_vec().unwrap(), [1; 100]);
        drop(buffer);
        let live = simulator.live();
        assert!(live.is_empty(), "{live:?}");
    }
}

#[test]
fn copies_take_buffers_and_views() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let other = stream.fork().unwrap();
        let host: Vec<u32> = (0..8).collect();
        let x = DeviceBuffer::from_host(&stream, &host).unwrap();
        let mut y = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        y.copy_from(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), host, "{}", fixture.name);

        // Views of views, by reference and by value.
        let mut whole = y.as_mut_slice();
        let mut half = whole.slice_mut(4..).unwrap();
        half.slice_mut(..2)
            .unwrap()
            .copy_from(x.slice(..2).unwrap())
            .unwrap();
        half.slice_mut(2..)
            .unwrap()
            .copy_from_on(x.slice(..2).unwrap(), &other)
            .unwrap();
        assert_eq!(half.slice(1..3).unwrap().to_vec().unwrap(), [1, 0]);
        assert!(half.slice(5..).is_err() && half.slice_mut(..5).is_err());
        let want = [0, 1, 2, 3, 0, 1, 0, 1];
        assert_eq!(whole.as_slice().to_vec().unwrap(), want);

        let mut z = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
        z.copy_from_on(&whole, &other).unwrap();
        assert_eq!(z.to_vec().unwrap(), want, "{}", fixture.name);
        z.copy_from_async(&x, &other).unwrap().wait().unwrap();
        assert_eq!(z.to_vec().unwrap(), host);
        // A writable view of a part of `y`, passed by reference to the trait `Queue`.
        let mut part = y.slice_mut(..1).unwrap();
        Queue::copy(&stream, &mut part, x.slice(7..).unwrap()).unwrap();
        part.copy_from_peer(x.slice(6..7).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap()[..2], [6, 1]);
        y.copy_from_peer(&z).unwrap();
        assert_eq!(y.to_vec().unwrap(), host);
        assert!(y.copy_from(x.slice(1..).unwrap()).is_err());
    }
}
