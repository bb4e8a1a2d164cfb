//! Buffers that are used on several streams, on a device that delays and reorders work as far as it
//! is allowed to.

use std::thread;

use cuda_driver::prelude::*;

use crate::support::{COPY, MIX, assert_all, filled, late, late_devices, launch_copy, software};

/// Enough words that a kernel on a GPU runs longer than it takes to queue the next one.
const N: u32 = 1 << 16;

#[test]
fn writer_follows_readers_on_two_streams() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let streams: Vec<Stream> = (0..4).map(|_| fixture.stream()).collect();
        let mut source = filled(&streams[0], N, 1);
        let other = filled(&streams[3], N, 2);
        let (mut first, mut second) = (filled(&streams[1], N, 0), filled(&streams[2], N, 0));
        launch_copy(&kernel, &streams[1], &source, &mut first).unwrap();
        launch_copy(&kernel, &streams[2], &source, &mut second).unwrap();
        launch_copy(&kernel, &streams[3], &other, &mut source).unwrap();
        assert!(
            second.to_vec().unwrap().iter().all(|&word| word == 1),
            "{}",
            fixture.name
        );
        assert!(
            first.to_vec().unwrap().iter().all(|&word| word == 1),
            "{}",
            fixture.name
        );
        assert!(
            source.to_vec().unwrap().iter().all(|&word| word == 2),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_fill_on_the_owning_stream_follows_a_reader() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let (owner, reader) = (fixture.stream(), fixture.stream());
        let mut source = filled(&owner, N, 1);
        let mut result = filled(&reader, N, 0);
        launch_copy(&kernel, &reader, &source, &mut result).unwrap();
        source.fill(2).unwrap();
        assert_all(&result, 1, &fixture.name);
        assert_all(&source, 2, &fixture.name);
    }
}

#[test]
fn dropped_buffer_is_reused_after_its_readers() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let (owner, reader) = (fixture.stream(), fixture.stream());
        let mut result = filled(&reader, N, 0);
        let source = filled(&owner, N, 1);
        launch_copy(&kernel, &reader, &source, &mut result).unwrap();
        drop(source);
        // This buffer probably gets the same memory, and is written at once.
        let next = filled(&owner, N, 9);
        assert!(
            result.to_vec().unwrap().iter().all(|&word| word == 1),
            "{}",
            fixture.name
        );
        assert!(
            next.to_vec().unwrap().iter().all(|&word| word == 9),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_stream_may_be_dropped_with_work_in_it() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let owner = fixture.stream();
        let (source, mut result) = (filled(&owner, N, 5), filled(&owner, N, 0));
        let passing = fixture.stream();
        launch_copy(&kernel, &passing, &source, &mut result).unwrap();
        drop(passing);
        assert!(
            result.to_vec().unwrap().iter().all(|&word| word == 5),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn reader_follows_halves_written_on_two_streams() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let (owner, a, b) = (fixture.stream(), fixture.stream(), fixture.stream());
        let (ones, twos) = (filled(&owner, N, 1), filled(&owner, N, 2));
        let mut whole = filled(&owner, N, 0);
        let (lower, upper) = whole.as_mut_slice().split_at_mut(N as usize / 2).unwrap();
        let config = LaunchConfig::for_num_elems(N / 2).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the kernel reads and writes N / 2 words.
                unsafe { a.launch(&kernel, config, (&ones, lower, N / 2)) }.unwrap();
            });
            // SAFETY: as above.
            unsafe { b.launch(&kernel, config, (&twos, upper, N / 2)) }.unwrap();
        });
        let words = whole.to_vec().unwrap();
        let (lower, upper) = words.split_at(N as usize / 2);
        assert!(lower.iter().all(|&word| word == 1), "{}", fixture.name);
        assert!(upper.iter().all(|&word| word == 2), "{}", fixture.name);
    }
}

#[test]
fn chain_over_many_streams_computes_as_on_one() {
    for fixture in late_devices(32) {
        let mix = fixture.kernel(MIX, "mix");
        let streams: Vec<Stream> = (0..5).map(|_| fixture.stream()).collect();
        let mut x = filled(&streams[0], N, 1);
        let mut y = filled(&streams[1], N, 3);
        let (mut x_host, mut y_host) = (1_u32, 3_u32);
        for step in 0..40_usize {
            // Switches streams in an uneven order.
            let stream = &streams[step * step % 5];
            let config = LaunchConfig::for_num_elems(N).unwrap();
            if step % 3 == 0 {
                // SAFETY: the kernel touches N words of each; each has N.
                unsafe { stream.launch(&mix, config, (&mut y, &x, N)) }.unwrap();
                y_host = y_host.wrapping_mul(2).wrapping_add(x_host);
            } else {
                // SAFETY: as above.
                unsafe { stream.launch(&mix, config, (&mut x, &y, N)) }.unwrap();
                x_host = x_host.wrapping_mul(2).wrapping_add(y_host);
            }
        }
        assert!(
            x.to_vec().unwrap().iter().all(|&word| word == x_host),
            "{}",
            fixture.name
        );
        assert!(
            y.to_vec().unwrap().iter().all(|&word| word == y_host),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_buffer_does_not_keep_all_streams_that_read_it() {
    let fixture = software(late(3));
    let kernel = fixture.kernel(COPY, "copy");
    let owner = fixture.stream();
    let source = DeviceBuffer::from_host(&owner, &[7_u32; 8]).unwrap();
    let mut most = 0;
    for _ in 0..500 {
        let reader = fixture.stream();
        let mut result = DeviceBuffer::<u32>::zeroed(&reader, 8).unwrap();
        // SAFETY: the kernel reads 8 words of the one and writes 8 of the other; each has 8.
        unsafe {
            reader.launch(
                &kernel,
                LaunchConfig::for_num_elems(8).unwrap(),
                (&source, &mut result, 8_u32),
            )
        }
        .unwrap();
        assert_eq!(result.to_vec().unwrap(), [7; 8]);
        most = most.max(fixture.simulator.as_ref().unwrap().live().streams);
    }
    assert!(most < 100, "{most} streams at a time");
}
