//! Atomic operations, fences and volatile accesses.

use cuda_driver::prelude::*;

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("atomics.cu", include_str!("kernels/atomics.cu"));

#[test]
fn histogram_in_shared_memory_and_then_in_global() {
    let mut random = numbers(20);
    let input: Vec<u8> = (0..10_000).map(|_| random.u8(..) & random.u8(..)).collect();
    let mut expected = vec![0_u32; 64];
    for value in &input {
        expected[usize::from(value % 64)] += 1;
    }
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "histogram");
        let (values, mut bins) = (fixture.upload(&input), fixture.zeroed::<u32>(64));
        let config = LaunchConfig::new(6, 128);
        // SAFETY: the kernel reads below n and adds to 64 bins ← the buffers have that many.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut bins, 10_000_u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&bins, "histogram"), expected);
    }
}

/// Runs a kernel that updates `out` in place.
///
/// # Safety
///
/// The kernel must be `(const T *in, T *out, unsigned n)`, read elements below `n` and write only
/// elements of `out`.
unsafe fn in_place<T: DeviceRepr>(name: &str, input: &[T], start: &[T], check: impl Fn(&[T])) {
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, name);
        let (values, mut out) = (fixture.upload(input), fixture.upload(start));
        let n = u32::try_from(input.len()).unwrap();
        let config = LaunchConfig::for_num_elems(n).unwrap();
        // SAFETY: the kernel has this signature ← the caller's contract.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut out, n))
        }
        .unwrap();
        check(&fixture.values(&out, name));
    }
}

#[test]
fn product_by_compare_and_swap() {
    let mut random = numbers(21);
    let input: Vec<u32> = (0..600).map(|_| random.u32(..)).collect();
    let mut expected = [1_u32; 3];
    for (i, value) in input.iter().enumerate() {
        expected[i % 3] = expected[i % 3].wrapping_mul(value | 1);
    }
    // SAFETY: the kernel has the signature that `in_place` requires, and writes 3 elements.
    unsafe {
        in_place("cas_loop", &input, &[1; 3], |found| {
            assert_eq!(found, expected)
        })
    };
}

#[test]
fn each_operation_on_words() {
    let mut random = numbers(22);
    let input: Vec<i32> = (0..500).map(|_| random.i32(..)).collect();
    let unsigned = || input.iter().map(|v| v.cast_unsigned());
    let expected = [
        *input.iter().min().unwrap(),
        *input.iter().max().unwrap(),
        unsigned().min().unwrap().cast_signed(),
        unsigned().max().unwrap().cast_signed(),
        input.iter().fold(-1, |all, v| all & (v | 0xff)),
        input.iter().fold(0, |all, v| all | v & 0x5555),
        input.iter().fold(0, |all, v| all ^ v),
        input.iter().fold(7, |all: i32, v| all.wrapping_sub(*v)),
        // A counter that wraps after 10, and one that counts down from 6: 500 steps from 3 and from
        // 4.
        (3 + 500) % 11,
        (4 - 500_i32).rem_euclid(7),
    ];
    let start = [0, 0, -1, 0, -1, 0, 0, 7, 3, 4];
    // SAFETY: the kernel has the signature that `in_place` requires, and writes 10 elements.
    unsafe { in_place("words", &input, &start, |found| assert_eq!(found, expected)) };
}

#[test]
fn each_operation_on_double_words() {
    let mut random = numbers(23);
    let input: Vec<i64> = (0..500).map(|_| random.i64(..)).collect();
    let unsigned = || input.iter().map(|v| v.cast_unsigned());
    let expected = [
        input.iter().fold(5, |all: i64, v| all.wrapping_add(*v)),
        *input.iter().min().unwrap(),
        *input.iter().max().unwrap(),
        unsigned().min().unwrap().cast_signed(),
        unsigned().max().unwrap().cast_signed(),
        input.iter().fold(-1, |all, v| all & (v | 0xff_00ff)),
        input.iter().fold(0, |all, v| all | v & 0x55_0000_0055),
        input.iter().fold(0, |all, v| all ^ v),
        input.iter().map(|v| v & 0xffff).sum::<i64>() + (1 << 40),
    ];
    let start = [5, 0, 0, -1, 0, -1, 0, 0, 1 << 40];
    // SAFETY: the kernel has the signature that `in_place` requires, and writes 9 elements.
    unsafe { in_place("wide", &input, &start, |found| assert_eq!(found, expected)) };
}

#[test]
fn sums_of_floats_and_doubles() {
    let mut random = numbers(24);
    let input: Vec<i32> = (0..1000).map(|_| random.i32(-1000..1000)).collect();
    let sum: i32 = input.iter().sum();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "sums");
        let values = fixture.upload(&input);
        let (mut single, mut double) = (fixture.zeroed::<f32>(2), fixture.zeroed::<f64>(2));
        let args = (&values, &mut single, &mut double, 1000_u32);
        // SAFETY: the kernel reads below n ← 1000, and adds to two elements of each output ← 2.
        unsafe {
            fixture
                .stream
                .launch(&kernel, LaunchConfig::for_num_elems(1000).unwrap(), args)
        }
        .unwrap();
        assert_eq!(fixture.values(&single, "sums"), [sum as f32 * 0.25; 2]);
        assert_eq!(fixture.values(&double, "sums"), [f64::from(sum) * 0.125; 2]);
    }
}

#[test]
fn tickets_and_the_last_block() {
    let mut random = numbers(25);
    let input: Vec<i32> = (0..900).map(|_| random.i32(-1000..1000)).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "last_block");
        let values = fixture.upload(&input);
        let (mut tickets, mut partial) = (fixture.zeroed::<i32>(901), fixture.zeroed::<i32>(10));
        let (mut count, mut total) = (fixture.zeroed::<u32>(1), fixture.zeroed::<i32>(1));
        let args = (
            &values,
            &mut tickets,
            &mut partial,
            &mut count,
            &mut total,
            900_u32,
        );
        // SAFETY: n is 900: `tickets` has one more element, `partial` one for each of 10 blocks,
        // and the others one.
        unsafe {
            fixture
                .stream
                .launch(&kernel, LaunchConfig::new(10, 96), args)
        }
        .unwrap();
        assert_eq!(fixture.values(&total, "total"), [input.iter().sum::<i32>()]);
        assert_eq!(fixture.values(&count, "count"), [10]);
        let mut tickets = fixture.values(&tickets, "tickets");
        assert_eq!(tickets.pop(), Some(900));
        tickets.sort_unstable();
        assert!(tickets.iter().copied().eq(0..900));
    }
}

#[test]
fn lock_between_blocks() {
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "spin_lock");
        let (mut lock, mut counter) = (fixture.zeroed::<i32>(1), fixture.zeroed::<i32>(1));
        let args = (&mut lock, &mut counter, 50_u32);
        // SAFETY: the kernel writes one element of each buffer.
        unsafe {
            fixture
                .stream
                .launch(&kernel, LaunchConfig::new(4, 64), args)
        }
        .unwrap();
        assert_eq!(fixture.values(&counter, "spin_lock"), [4 * 2 * 50]);
        assert_eq!(fixture.values(&lock, "spin_lock"), [0]);
    }
}
