//! Integers of 32, 64 and 128 bits, packed integers, and inline PTX. All results are exact.

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source =
    Source::new("integers.cu", include_str!("kernels/integers.cu")).with_int128();

/// Random words of random length, then edge values. The second word of each pair is not 0, and no
/// quotient overflows.
fn pairs(seed: u64) -> Vec<[u32; 2]> {
    let mut random = numbers(seed);
    let mut pairs: Vec<[u32; 2]> = (0..500)
        .map(|_| {
            let (a, b) = (
                random.u32(..) >> random.u32(0..32),
                random.u32(..) >> random.u32(0..32),
            );
            [a, b.max(1)]
        })
        .collect();
    let edges = [0, 1, 31, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    for a in edges {
        for b in &edges[1..] {
            if (a, *b) != (0x8000_0000, 0xffff_ffff) {
                pairs.push([a, *b]);
            }
        }
    }
    pairs
}

fn check<const N: usize>(name: &str, input: &[[u32; 2]], reference: impl Fn(u32, u32) -> [u32; N])
where
    [u32; N]: cuda_driver::DeviceRepr,
{
    for fixture in everywhere() {
        // SAFETY: the kernels here have the signature that `map` requires.
        let output: Vec<[u32; N]> = unsafe { fixture.map(&SOURCE, name, input) };
        for ([a, b], found) in input.iter().zip(output) {
            assert_eq!(
                found,
                reference(*a, *b),
                "{a:#x}, {b:#x} on {}",
                fixture.name
            );
        }
    }
}

fn joined(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[test]
fn words() {
    let reference = |a: u32, b: u32| {
        let (s, t) = (a.cast_signed(), b.cast_signed());
        let (wide_s, wide_t) = (i64::from(s), i64::from(t));
        let shift = a >> 7;
        let selected = |k: u32| {
            let selector = (a ^ b) >> (4 * k) & 7;
            u32::from((joined(b, a) >> (8 * selector)) as u8) << (8 * k)
        };
        let low24 = |v: u32| (v << 8).cast_signed() >> 8;
        let clamped = (shift & 63).min(32);
        [
            a / b,
            a % b,
            (s / t).cast_unsigned(),
            (s % t).cast_unsigned(),
            ((u64::from(a) * u64::from(b)) >> 32) as u32,
            ((wide_s * wide_t) >> 32) as u32,
            a.leading_zeros(),
            a.count_ones(),
            a.reverse_bits(),
            if a == 0 { 0 } else { a.trailing_zeros() + 1 },
            (joined(b, a) << (shift & 31) >> 32) as u32,
            (joined(b, a) >> (shift & 31)) as u32,
            (u128::from(joined(b, a)) << clamped >> 32) as u32,
            (joined(b, a) >> clamped) as u32,
            (s >> (b & 31)).cast_unsigned(),
            a << (b & 31),
            s.min(t).cast_unsigned(),
            a.max(b),
            s.abs_diff(t).wrapping_add(77),
            a.abs_diff(b).wrapping_add(77),
            (0..4).map(selected).sum(),
            (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff),
            low24(a).wrapping_mul(low24(b)).cast_unsigned(),
            ((wide_s + wide_t) >> 1) as u32,
            ((u64::from(a) + u64::from(b) + 1) >> 1) as u32,
            a / 7 + b % 1000,
            (s / 16 + t % 10).cast_unsigned(),
            a.rotate_right(b & 31),
            a.wrapping_mul(b).wrapping_add(12345),
            s.wrapping_abs().cast_unsigned() ^ !b,
            ((u64::from(a) * u64::from(b)) >> 13) as u32,
            u32::from(s < t)
                + 2 * u32::from(a < b)
                + 4 * u32::from(s == t)
                + 8 * u32::from(a as i16 >= b as i16)
                + 16 * u32::from(a as u8 > b as u8),
        ]
    };
    check("int32", &pairs(30), reference);
}

#[test]
fn double_words() {
    let mut random = numbers(31);
    let input: Vec<[u64; 2]> = (0..500)
        .map(|_| {
            let (a, b) = (
                random.u64(..) >> random.u32(0..64),
                random.u64(..) >> random.u32(0..64),
            );
            [a, b.max(1)]
        })
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; `ulonglong2` is two double
        // words.
        let output: Vec<[u64; 20]> = unsafe { fixture.map(&SOURCE, "int64", &input) };
        for ([a, b], found) in input.iter().copied().zip(output) {
            let (s, t) = (a.cast_signed(), b.cast_signed());
            let expected = [
                a.wrapping_add(b),
                a.wrapping_sub(b),
                a.wrapping_mul(b),
                a / b,
                a % b,
                s.wrapping_div(t).cast_unsigned(),
                s.wrapping_rem(t).cast_unsigned(),
                ((u128::from(a) * u128::from(b)) >> 64) as u64,
                ((i128::from(s) * i128::from(t)) >> 64) as u64,
                a.leading_zeros().into(),
                a.count_ones().into(),
                a.reverse_bits(),
                if a == 0 {
                    0
                } else {
                    u64::from(a.trailing_zeros()) + 1
                },
                a << (b & 63),
                (s >> (b & 63)).cast_unsigned(),
                s.min(t).cast_unsigned(),
                a.max(b),
                a / 1_000_003 + b % 10,
                u64::from(s < t) + 2 * u64::from(a < b) + 4 * u64::from(s == t),
                (a & b) ^ (a | !b),
            ];
            assert_eq!(found, expected, "{a:#x}, {b:#x} on {}", fixture.name);
        }
    }
}

#[test]
fn quadruple_words() {
    let mut random = numbers(32);
    let input: Vec<[u64; 4]> = (0..300)
        .map(|_| std::array::from_fn(|_| random.u64(..) >> random.u32(0..64)))
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; `Operands` is four double
        // words.
        let output: Vec<[u64; 18]> = unsafe { fixture.map(&SOURCE, "int128", &input) };
        for (words, found) in input.iter().zip(output) {
            let [a, b] = [0, 2].map(|k| u128::from(words[k + 1]) << 64 | u128::from(words[k]));
            let by = (b & 127) as u32;
            let (s, t) = ((a as i128) >> 3, ((b | 1) as i128).wrapping_neg());
            let results = [
                a.wrapping_add(b),
                a.wrapping_sub(b),
                a.wrapping_mul(b),
                a >> by,
                a << by,
                a / (b | 1),
                a % (b | 1),
                s.wrapping_div(t) as u128,
                s.wrapping_rem(t) as u128,
            ];
            let expected: Vec<u64> = results
                .iter()
                .flat_map(|result| [*result as u64, (result >> 64) as u64])
                .collect();
            assert_eq!(found[..], expected, "{a:#x}, {b:#x} on {}", fixture.name);
        }
    }
}

/// A word of four 8-bit lanes.
fn bytes(a: u32, b: u32, lane: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|k| lane(a[k], b[k])))
}

#[test]
fn packed_bytes() {
    let reference = |a: u32, b: u32| {
        let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
        let signed = |byte: u8| i32::from(byte.cast_signed());
        let half = |word: u32, k: u32| u32::from((word >> (16 * k)) as u16);
        let dot: i32 = x.iter().zip(y).map(|(x, y)| signed(*x) * signed(y)).sum();
        let low = |word: u32, k: u32| i32::from(half(word, k) as i16);
        [
            (1000 + dot).cast_unsigned(),
            1000 + (0..4)
                .map(|k| u32::from(x[k]) * u32::from(y[k]))
                .sum::<u32>(),
            (low(a, 0) * signed(y[0]) + low(a, 1) * signed(y[1]) - 5).cast_unsigned(),
            half(a, 0) * u32::from(y[2]) + half(a, 1) * u32::from(y[3]) + 5,
            bytes(a, b, u8::wrapping_add),
            bytes(a, b, u8::wrapping_sub),
            bytes(a, b, |a, b| {
                a.cast_signed().max(b.cast_signed()).cast_unsigned()
            }),
            bytes(a, b, u8::min),
            bytes(a, b, u8::abs_diff),
            bytes(a, b, |a, b| if a > b { 255 } else { 0 }),
            bytes(a, b, u8::saturating_add),
            bytes(a, b, |a, b| (u16::from(a) + u16::from(b)).div_ceil(2) as u8),
            x.iter()
                .zip(y)
                .map(|(x, y)| signed(*x).abs_diff(signed(y)))
                .sum(),
            bytes(a, 0, |a, _| a.wrapping_neg()),
            bytes(a, b & 0x00ff_00ff | a & 0xff00_ff00, |a, b| {
                u8::from(a == b)
            }),
            bytes(a, b, u8::saturating_sub),
        ]
    };
    check("packed", &pairs(33), reference);
}

#[test]
fn instructions_written_out() {
    let reference = |a: u32, b: u32| {
        let c = a ^ b << 3;
        let (position, length) = (b & 31, c & 15);
        let field = u64::from(a) >> position & ((1 << length) - 1);
        // Bits beyond the word are copies of its sign.
        let wide = i64::from(a.cast_signed()) >> position;
        let signed = wide << (64 - length).min(63) >> (64 - length).min(63);
        let inserted = ((1_u64 << length) - 1) << position;
        let sum = joined(b, a).wrapping_add(joined(c, b));
        let difference = joined(b, a).wrapping_sub(joined(c, b));
        let less = a.cast_signed() < b.cast_signed();
        let bits = [a, b, c];
        let looked_up = |table: u32| {
            (0..32).fold(0, |word, bit| {
                let [a, b, c] = bits.map(|word| word >> bit & 1);
                word | (table >> (4 * a + 2 * b + c) & 1) << bit
            })
        };
        let mad = (u64::from(a) * u64::from(b)).wrapping_add(joined(a, c));
        [
            ((u64::from(a) * u64::from(b)) >> 32) as u32,
            looked_up(0x96),
            looked_up(0xe8),
            looked_up(0x1b),
            field as u32,
            if length == 0 { 0 } else { signed as u32 },
            ((u64::from(b) & !inserted) | (u64::from(a) << position & inserted)) as u32,
            sum as u32,
            (sum >> 32) as u32,
            difference as u32,
            (difference >> 32) as u32,
            mad as u32,
            (mad >> 32) as u32,
            if less { 5 } else { 109 },
            match a >> (b & 31) {
                0 => u32::MAX,
                word => 31 - word.leading_zeros(),
            },
            a.rotate_left(16),
        ]
    };
    check("inline_ptx", &pairs(34), reference);
}
