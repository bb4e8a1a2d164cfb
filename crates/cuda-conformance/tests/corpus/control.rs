//! Branches, loops, calls, local memory, printing.

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("control.cu", include_str!("kernels/control.cu"));

fn interpret(mut program: u32, mut value: i32) -> i32 {
    while program != 0 {
        value = match program & 7 {
            0 => value.wrapping_add(3),
            1 => value.wrapping_mul(5),
            2 => value.wrapping_neg() ^ 0x55,
            3 => value ^ 0x55,
            4 if value & 1 == 1 => return value,
            4 => value / 2,
            5 => match value & 3 {
                0 | 1 => value,
                // 1 * value is added once; in between, the bound follows the value.
                _ => {
                    let mut k = 0;
                    while k < value & 3 {
                        if k != 2 {
                            value = value.wrapping_add(k.wrapping_mul(value));
                        }
                        k += 1;
                    }
                    value
                }
            },
            6 if value > 100 => value % 100,
            6 => value.wrapping_add(100),
            _ => value.count_ones() as i32 * 1000,
        };
        program >>= 3;
    }
    value
}

#[test]
fn switch_in_a_loop_with_a_way_for_each_lane() {
    let mut random = numbers(70);
    let input: Vec<[u32; 2]> = (0..500)
        .map(|_| [random.u32(..) >> random.u32(0..30), random.u32(0..5000)])
        .collect();
    let run = |[program, value]: &[u32; 2]| interpret(*program, value.cast_signed());
    let expected: Vec<i32> = input.iter().map(run).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "interpreter", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

#[test]
fn recursion() {
    let input: Vec<u32> = (0..200).collect();
    let fibonacci = |n: u32| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    let value = |n: &u32| -> u64 {
        if n % 2 == 1 {
            fibonacci(n % 13)
        } else {
            // The Ackermann function of 2.
            u64::from(2 * (n % 5) + 3)
        }
    };
    let expected: Vec<u64> = input.iter().map(value).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<u64> = unsafe { fixture.map(&SOURCE, "recursion", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

#[test]
fn function_pointers() {
    let input: Vec<i32> = (-100..200).collect();
    let apply = |which: i32, a: f64, b: f64| match which & 3 {
        0 => a + b,
        1 => a - b,
        2 => a * b,
        _ => a.max(b),
    };
    let value = |v: &i32| apply(*v, (*v).into(), apply(v >> 2, 7.0, (*v).into()));
    let expected: Vec<f64> = input.iter().map(value).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<f64> = unsafe { fixture.map(&SOURCE, "pointers", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

#[test]
fn local_arrays() {
    let input: Vec<u32> = (0..300_u32).map(|i| i.wrapping_mul(77_777_777)).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[u32; 16]> = unsafe { fixture.map(&SOURCE, "local_arrays", &input) };
        for (seed, found) in input.iter().zip(output) {
            let mut seed = *seed;
            let mut expected: [u32; 16] = std::array::from_fn(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed >> 8
            });
            expected.sort_unstable();
            assert_eq!(found, expected, "{}", fixture.name);
        }
    }
}

#[test]
fn loops_of_different_lengths() {
    let input: Vec<u32> = (1..1200).collect();
    let steps = |start: &u32| -> u32 {
        let next = |v: &u64| Some(if v % 2 == 1 { 3 * v + 1 } else { v / 2 });
        let path = std::iter::successors(Some(u64::from(*start)), next);
        let count = path.take_while(|v| *v != 1).take(200).count() as u32;
        if count == 200 { 0 } else { count }
    };
    let expected: Vec<u32> = input.iter().map(steps).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; elements that it does not write
        // stay 0.
        let output: Vec<u32> = unsafe { fixture.map(&SOURCE, "collatz", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

/// Checks the text on the software device; a GPU writes it to the standard output of the process.
#[test]
fn printf() {
    let input = [-7, 0, 1, 255, 1000];
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "prints", &input) };
        // On a device, printf returns the number of arguments.
        assert_eq!(output, [7; 5], "{}", fixture.name);
        let Some(simulator) = &fixture.simulator else {
            continue;
        };
        let text = String::from_utf8(simulator.take_output()).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<String> = input
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let name = if i % 2 == 1 { "odd" } else { "even" };
                let quarter = f64::from(*v) * 0.25;
                let (long, letter) = (i64::from(*v) << 40, (b'a' + i as u8) as char);
                format!("{v}: {quarter:5.2}|{i:<4}|{name}|{long}|{letter}|{v:x}|%")
            })
            .collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{}", fixture.name);
    }
}
