//! Host implementations of the kernels, for the words of one thread.

fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub(super) fn common_divisor(v: &[u32]) -> Vec<u32> {
    // By halving, where the kernel divides.
    let (mut a, mut b) = (v[0], v[1]);
    if a == 0 || b == 0 {
        return vec![a | b];
    }
    let twos = (a | b).trailing_zeros();
    a >>= a.trailing_zeros();
    while b != 0 {
        b >>= b.trailing_zeros();
        (a, b) = (a.min(b), a.abs_diff(b));
    }
    vec![a << twos]
}

pub(super) fn murmur(v: &[u32]) -> Vec<u32> {
    let mut h = v[0];
    for k in 0..4 {
        let c = v[1].wrapping_add(k).wrapping_mul(0xcc9e_2d51);
        h ^= c.rotate_left(15).wrapping_mul(0x1b87_3593);
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    vec![h ^ h >> 16]
}

pub(super) fn xorshift(v: &[u32]) -> Vec<u32> {
    let mut x = wide(v[0], v[1]) | 1;
    for _ in 0..9 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    halves(x).to_vec()
}

pub(super) fn checksum(v: &[u32]) -> Vec<u32> {
    let table = |byte: u32| {
        (0..8).fold(byte, |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    };
    let bytes = v[0].to_le_bytes();
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        crc >> 8 ^ table((crc ^ u32::from(byte)) & 0xff)
    });
    vec![!crc]
}

pub(super) fn power_modulo(v: &[u32]) -> Vec<u32> {
    let (base, modulus) = (u128::from(v[0]), u128::from(v[2] | 1));
    let bits = (0..32).rev().map(|bit| v[1] >> bit & 1);
    let result = bits.fold(1 % modulus, |result, bit| {
        let square = result * result % modulus;
        if bit == 1 {
            square * base % modulus
        } else {
            square
        }
    });
    vec![result as u32]
}

pub(super) fn collatz(v: &[u32]) -> Vec<u32> {
    let start = u128::from(v[0] % 10_000 + 1);
    let steps = std::iter::successors(Some(start), |x| {
        (*x != 1).then(|| {
            if x.is_multiple_of(2) {
                x / 2
            } else {
                3 * x + 1
            }
        })
    });
    vec![steps.count() as u32 - 1]
}

pub(super) fn square_root(v: &[u32]) -> Vec<u32> {
    vec![wide(v[0], v[1]).isqrt() as u32]
}

pub(super) fn signed_division(v: &[u32]) -> Vec<u32> {
    let a = i128::from(wide(v[0], v[1]) as i64);
    let b = i128::from(wide(v[2], v[3] >> (v[2] & 31)) as i64 | 1);
    let [low, high] = halves((a / b) as u64);
    let [rest, above] = halves((a % b) as u64);
    vec![low, high, rest, above]
}

pub(super) fn morton(v: &[u32]) -> Vec<u32> {
    let spread = |value: u32| {
        let mut x = u64::from(value);
        for (shift, mask) in [
            (16, 0x0000_ffff_0000_ffff_u64),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555),
        ] {
            x = (x | x << shift) & mask;
        }
        x
    };
    halves(spread(v[0]) | spread(v[1]) << 1).to_vec()
}

pub(super) fn sorted(v: &[u32]) -> Vec<u32> {
    let mut values = v.to_vec();
    values.sort_unstable();
    values
}

pub(super) fn edit_distance(v: &[u32]) -> Vec<u32> {
    let text = |words: &[u32]| -> Vec<u8> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        bytes.map(|byte| byte & 3).collect()
    };
    let (a, b) = (text(&v[..2]), text(&v[2..]));
    let mut table = [[0_u32; 9]; 9];
    for i in 0..9 {
        for j in 0..9 {
            table[i][j] = match (i, j) {
                (0, other) | (other, 0) => other as u32,
                _ => {
                    let changed = table[i - 1][j - 1] + u32::from(a[i - 1] != b[j - 1]);
                    changed.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                }
            };
        }
    }
    vec![table[8][8]]
}

pub(super) fn wide_products(v: &[u32]) -> Vec<u32> {
    let (a, b) = (wide(v[0], v[1]), wide(v[2], v[3]));
    let product = u128::from(a) * u128::from(b);
    let mixed = ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64;
    let [low, above] = halves(product as u64);
    let [high, top] = halves((product >> 64) as u64);
    let [first, second] = halves(mixed);
    vec![low ^ above, high, top, first ^ second]
}

pub(super) fn stack_machine(v: &[u32]) -> Vec<u32> {
    let mut stack = [v[1], 3, 5, 7, 11, 13, 17, 19];
    let (mut top, mut program) = (1_u32, v[0]);
    let at = |top: u32| (top & 7) as usize;
    while program != 0 {
        let (a, b) = (stack[at(top)], stack[at(top.wrapping_add(1))]);
        match program & 7 {
            0 => {
                top = top.wrapping_add(1);
                stack[at(top)] = a.wrapping_add(b);
            }
            1 => {
                top = top.wrapping_sub(1);
                stack[at(top)] = a.wrapping_sub(b);
            }
            2 => stack[at(top)] = a.wrapping_mul(b),
            3 => stack[at(top)] = a ^ b >> 3,
            4 => {
                top = top.wrapping_add(1);
                stack[at(top)] = a;
            }
            5 => top = top.wrapping_sub(a & 3),
            6 => stack[at(top)] = a.max(b),
            _ => {
                let cell = &mut stack[at(top.wrapping_add(3))];
                *cell = cell.wrapping_add(a);
            }
        }
        program >>= 3;
    }
    vec![stack[at(top)]]
}

pub(super) fn recursive_tree(v: &[u32]) -> Vec<u32> {
    // Level by level of the tree.
    let mut seeds = vec![v[0]];
    for _ in 0..v[0] % 5 {
        let left = seeds
            .iter()
            .map(|seed| seed.wrapping_mul(3).wrapping_add(1));
        let right = seeds.iter().map(|seed| seed.wrapping_add(77));
        seeds = left.chain(right).collect();
    }
    let leaves = seeds.iter().map(|seed| seed.wrapping_mul(2_654_435_761));
    vec![leaves.fold(0, |all, leaf| all ^ leaf)]
}

pub(super) fn steps_by_pointer(v: &[u32]) -> Vec<u32> {
    let step = |x: u32, k: u32| match (v[0] >> (2 * k)) % 3 {
        0 => x << 1,
        1 => x.wrapping_add(7),
        _ => x ^ x >> 5,
    };
    vec![(0..6).fold(v[1], step)]
}

pub(super) fn decimal_digits(v: &[u32]) -> Vec<u32> {
    let text = v[0].to_string();
    let mut bytes = [0_u8; 12];
    bytes[11 - text.len()..11].copy_from_slice(text.as_bytes());
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

pub(super) fn weighted_nibbles(v: &[u32]) -> Vec<u32> {
    let weights = b"3141592653589793";
    let sum = (0..8).map(|k| u32::from(weights[(v[0] >> (4 * k) & 15) as usize] - b'0') << k);
    vec![sum.sum()]
}

fn floats(v: &[u32]) -> Vec<f32> {
    v.iter().copied().map(f32::from_bits).collect()
}

pub(super) fn saxpy(v: &[u32]) -> Vec<u32> {
    let v = floats(v);
    vec![(v[0] * v[1] + v[2]).to_bits()]
}

pub(super) fn polynomial(v: &[u32]) -> Vec<u32> {
    let v = floats(v);
    let sum = (1..=12_u8).fold(0.0, |sum: f32, k| sum * v[0] + v[1] / f32::from(k));
    vec![sum.to_bits()]
}

pub(super) fn fused(v: &[u32]) -> Vec<u32> {
    let v = floats(v);
    let x = (0..8).fold(v[0], |x: f32, _| x.mul_add(v[1], v[2]));
    vec![x.to_bits()]
}

pub(super) fn compensated_sum(v: &[u32]) -> Vec<u32> {
    let (sum, rest) = floats(v)
        .into_iter()
        .fold((0.0, 0.0), |(sum, rest): (f32, f32), x| {
            let y = x - rest;
            let t = sum + y;
            (t, (t - sum) - y)
        });
    vec![sum.to_bits(), rest.to_bits()]
}

pub(super) fn mandelbrot(v: &[u32]) -> Vec<u32> {
    let v = floats(v);
    let (mut x, mut y, mut turns) = (0.0_f32, 0.0_f32, 0_u8);
    while turns < 80 && x * x + y * y < 4.0 {
        (x, y) = (x * x - y * y + v[0], 2.0 * x * y + v[1]);
        turns += 1;
    }
    vec![f32::from(turns).to_bits()]
}
