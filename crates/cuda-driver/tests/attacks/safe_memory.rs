//! Safe launches of kernels that try to leave dynamic shared memory and views for other contexts.

use cuda_driver::Error;
use cuda_driver::prelude::*;

use crate::safe::{has_violation, kernel};
use crate::support::Attack;

/// Claim: dynamic shared memory has the size of the launch, whatever is next to it. One kernel is
/// launched with several sizes, and its threads leave the memory on both sides.
#[test]
fn dynamic_shared_memory_is_left_in_both_directions() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let dynamic = kernel(case, "dynamic");
        let offsets: Vec<u64> = (0..16_u64)
            .map(|lane| match lane % 4 {
                0 => 4 * lane,
                1 => 0_u64.wrapping_sub(4 * lane),
                2 => 60 + lane,
                _ => 1 << lane,
            })
            .collect();
        let at = DeviceBuffer::from_host(&stream, &offsets).unwrap();
        for bytes in [64_u32, 32, 4, 1, 0, 64] {
            let mut out = DeviceBuffer::filled(&stream, 32, 99_u32).unwrap();
            let config = LaunchConfig::new(2, 16).with_shared_bytes(bytes);
            let launch = stream.launch_safe(&dynamic, config, (&mut out, &at));
            assert!(has_violation(launch.unwrap().wait()));
            let expected = (0_u32..).zip(&offsets).flat_map(|(lane, &offset)| {
                let end = offset.checked_add(4);
                let is_in = end.is_some_and(|end| end <= bytes.into());
                let stored = is_in && offset.is_multiple_of(4);
                [if stored { lane } else { 0 }, 5]
            });
            let expected: Vec<u32> = expected.collect();
            assert_eq!(out.to_vec().unwrap(), expected, "{bytes} bytes");
        }
    });
}

/// Claim: a view for kernels of another context permits what its part permits: no byte on either
/// side, and no store if it is read-only. The owner of the memory is dropped behind the launch, and
/// the memory is handed out again.
#[test]
fn stores_leave_a_peer_view() {
    Attack::new().with_two_contexts().run(|case| {
        let other = case.other();
        let (owner, there) = (case.stream(), other.stream());
        let store = kernel(other, "store");
        let guards = [case.filled(&owner, 7), other.filled(&there, 7)];
        let wrong = [
            128_u64,
            0_u64.wrapping_sub(4),
            1 << 40,
            126,
            0_u64.wrapping_sub(128),
        ];
        let at = [&[0, 124, 4], &wrong[..]].concat();
        let at = DeviceBuffer::from_host(&there, &at).unwrap();
        let config = LaunchConfig::new(1, 8);
        for (is_writable, is_dropped) in [(true, false), (false, false), (true, true)] {
            let mut x = DeviceBuffer::filled(&owner, 96, 7_u32).unwrap();
            case.hold_up(&there);
            let launch = {
                let (_, rest) = x.as_mut_slice().split_at_mut(32).unwrap();
                let (mut part, _) = rest.split_at_mut(32).unwrap();
                if is_writable {
                    let view = part.for_peer(&other.context).unwrap();
                    there.launch_safe(&store, config, (view, &at, 8_u32))
                } else {
                    let view = part.as_slice();
                    let view = view.for_peer(&other.context).unwrap();
                    there.launch_safe(&store, config, (view, &at, 8_u32))
                }
            };
            let launch = launch.unwrap();
            let mut expected = [7; 96];
            let (kept, threads) = match is_dropped {
                true => {
                    drop(x);
                    (DeviceBuffer::filled(&owner, 96, 7_u32).unwrap(), 5)
                }
                false if is_writable => {
                    (expected[32], expected[63], expected[33]) = (0, 1, 2);
                    (x, 5)
                }
                false => (x, 8),
            };
            let Err(Error::Violation(found)) = launch.wait() else {
                panic!("{}: no violation", case.title);
            };
            let [found] = &found[..] else {
                panic!("{found}");
            };
            assert_eq!((found.argument, found.argument_bytes), (Some(1), 128));
            assert_eq!(found.threads, threads, "{found}");
            let is_wrong = wrong
                .iter()
                .any(|&at| at.cast_signed() == found.offset as i64);
            assert!(is_wrong || !is_writable, "{found}");
            assert_eq!(kept.to_vec().unwrap(), expected, "{}", case.title);
            for guard in &guards {
                case.expect(guard, 7);
            }
        }
    });
}
