//! Indices, tiles, shared and constant memory, and accesses of each width.

use cuda_driver::prelude::*;

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("memory.cu", include_str!("kernels/memory.cu"));

#[test]
fn vadd() {
    let mut random = numbers(1);
    let a: Vec<f32> = (0..1000).map(|_| random.f32() * 100.0).collect();
    let b: Vec<f32> = (0..1000).map(|_| random.f32() - 0.5).collect();
    let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "vadd");
        let (a, b, mut c) = (
            fixture.upload(&a),
            fixture.upload(&b),
            fixture.zeroed::<f32>(1000),
        );
        let config = LaunchConfig::for_num_elems(1000).unwrap();
        // SAFETY: the kernel reads and writes elements below n ← each buffer has 1000.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&a, &b, &mut c, 1000_u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&c, "vadd"), sum);
    }
}

#[test]
fn saxpy_rounds_once() {
    let mut random = numbers(2);
    let x: Vec<f32> = (0..777).map(|_| random.f32() - 0.5).collect();
    let y: Vec<f32> = (0..777).map(|_| random.f32() - 0.5).collect();
    let expected: Vec<f32> = x
        .iter()
        .zip(&y)
        .map(|(x, y)| 1.7_f32.mul_add(*x, *y))
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "saxpy");
        let (x, mut y) = (fixture.upload(&x), fixture.upload(&y));
        let config = LaunchConfig::for_num_elems(777).unwrap();
        // SAFETY: the kernel reads and writes elements below n ← both buffers have 777.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (1.7_f32, &x, &mut y, 777_u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&y, "saxpy"), expected);
    }
}

#[test]
fn grid_stride() {
    let x: Vec<i32> = (0..5000).map(|i: i32| i.wrapping_mul(1_000_003)).collect();
    let expected: Vec<i32> = x
        .iter()
        .map(|x| x.wrapping_mul(3).wrapping_add(1))
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "grid_stride");
        let mut x = fixture.upload(&x);
        // SAFETY: the kernel reads and writes elements below n ← both buffers have 5000.
        unsafe {
            fixture
                .stream
                .launch(&kernel, LaunchConfig::new(3, 96), (&mut x, 5000_u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&x, "grid_stride"), expected);
    }
}

#[test]
fn dynamic_shared_memory_of_two_arrays() {
    let keys: Vec<i32> = (0..400).collect();
    let values: Vec<f64> = (0..400).map(|i| f64::from(i) / 3.0).collect();
    let turned = |i: usize| i / 100 * 100 + 99 - i % 100;
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "reverse_pairs");
        let (k, v) = (fixture.upload(&keys), fixture.upload(&values));
        let (mut k_out, mut v_out) = (fixture.zeroed::<i32>(400), fixture.zeroed::<f64>(400));
        let config = LaunchConfig::new(4, 100).with_shared_bytes(100 * 12);
        // SAFETY: each thread has an element of each buffer ← 400; shared memory is 8 and 4 bytes
        // per thread ← 12.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&k, &v, &mut k_out, &mut v_out))
        }
        .unwrap();
        let (k_out, v_out) = (
            fixture.values(&k_out, "keys"),
            fixture.values(&v_out, "values"),
        );
        for i in 0..400 {
            assert_eq!((k_out[i], v_out[i]), (keys[turned(i)], values[turned(i)]));
        }
    }
}

#[test]
fn transpose() {
    let (width, height) = (70_usize, 41_usize);
    let input: Vec<i32> = (0..(width * height) as i32).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "transpose");
        let (a, mut b) = (fixture.upload(&input), fixture.zeroed::<i32>(input.len()));
        let config = LaunchConfig::new((5, 3), (16, 16));
        // SAFETY: the kernel stays below width * height ← both buffers have that many.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&a, &mut b, width as u32, height as u32))
        }
        .unwrap();
        let output = fixture.values(&b, "transpose");
        for (i, value) in output.iter().enumerate() {
            assert_eq!(*value, input[i % height * width + i / height]);
        }
    }
}

/// Uses factors that are small integers, so that every product and sum is exact in any order.
#[test]
fn matmul_in_tiles() {
    let n = 50_usize;
    let mut random = numbers(3);
    let a: Vec<f32> = (0..n * n).map(|_| f32::from(random.i8(-9..9))).collect();
    let b: Vec<f32> = (0..n * n).map(|_| f32::from(random.i8(-9..9))).collect();
    let cell = |i: usize| -> f32 { (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum() };
    let expected: Vec<f32> = (0..n * n).map(cell).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "matmul");
        let (a, b, mut c) = (
            fixture.upload(&a),
            fixture.upload(&b),
            fixture.zeroed::<f32>(n * n),
        );
        let config = LaunchConfig::new((4, 4), (16, 16));
        // SAFETY: the kernel stays below n * n ← the buffers have that many.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&a, &b, &mut c, n as u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&c, "matmul"), expected);
    }
}

#[test]
fn constants_weigh_neighbours() {
    let input: Vec<f32> = (0..300_i32).map(|i| (i * i % 97) as f32).collect();
    let at = |i: i32| input[i.clamp(0, 299) as usize];
    let cell = |i: i32| at(i - 2) - 4.0 * at(i - 1) + 6.0 * at(i) - 4.0 * at(i + 1) + at(i + 2);
    let expected: Vec<f32> = (0..300).map(cell).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; it clamps indices below n.
        let output: Vec<f32> = unsafe { fixture.map(&SOURCE, "stencil", &input) };
        assert_eq!(output, expected);
    }
}

#[test]
fn bytes_and_shorts() {
    let mut random = numbers(4);
    let records: Vec<[u8; 13]> = (0..200)
        .map(|_| std::array::from_fn(|_| random.u8(..)))
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "narrow");
        let input = fixture.upload(records.as_flattened());
        let mut bytes = fixture.zeroed::<i8>(200);
        let (mut shorts, mut words) = (fixture.zeroed::<i16>(200), fixture.zeroed::<u32>(200));
        let args = (&input, &mut bytes, &mut shorts, &mut words, 200_u32);
        // SAFETY: the kernel reads 13 bytes and writes one element of each buffer for indices below
        // n ← the buffers are for 200 records.
        unsafe {
            fixture
                .stream
                .launch(&kernel, LaunchConfig::for_num_elems(200).unwrap(), args)
        }
        .unwrap();
        let bytes = fixture.values(&bytes, "bytes");
        let (shorts, words) = (
            fixture.values(&shorts, "shorts"),
            fixture.values(&words, "words"),
        );
        for (i, record) in records.iter().enumerate() {
            assert_eq!(bytes[i], record[0].cast_signed().div_euclid(2));
            assert_eq!(shorts[i], i16::from_le_bytes([record[1], record[2]]) / 3);
            let word = record[3..]
                .iter()
                .enumerate()
                .fold(0_u32, |word, (k, byte)| {
                    let signed = i64::from(byte.cast_signed());
                    let value = if k % 2 == 1 { signed } else { i64::from(*byte) };
                    ((i64::from(word) * 31 + value) & 0xffff_ffff) as u32
                });
            assert_eq!(words[i], word);
        }
    }
}

#[test]
fn arrays_are_interleaved_into_structs() {
    let n = 333_usize;
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "weave");
        let x: Vec<f32> = (0..n).map(|i| i as f32 + 0.5).collect();
        let y: Vec<f64> = (0..n).map(|i| -(i as f64)).collect();
        let z: Vec<i16> = (0..n).map(|i| (i as i16) * -90).collect();
        let w: Vec<i8> = (0..n).map(|i| i as i8).collect();
        let (bx, by, bz, bw) = (
            fixture.upload(&x),
            fixture.upload(&y),
            fixture.upload(&z),
            fixture.upload(&w),
        );
        let mut out = fixture.zeroed::<[f32; 4]>(n);
        let args = (&bx, &by, &bz, &bw, &mut out, n as u32);
        // SAFETY: the kernel stays below n ← the buffers have that many; `Vec4` is 4 floats,
        // aligned as allocations are.
        unsafe {
            fixture.stream.launch(
                &kernel,
                LaunchConfig::for_num_elems(n as u32).unwrap(),
                args,
            )
        }
        .unwrap();
        for (i, vector) in fixture.values(&out, "weave").iter().enumerate() {
            let expected = [x[i], y[i] as f32, f32::from(z[i]), f32::from(w[i])];
            assert_eq!(*vector, expected);
        }
    }
}

#[test]
fn wide_and_strided_loads() {
    let mut random = numbers(5);
    let input: Vec<[i32; 4]> = (0..500)
        .map(|_| std::array::from_fn(|_| random.i32(-1000..1000)))
        .collect();
    let flat = input.as_flattened();
    let sum = |(i, v): (usize, &[i32; 4])| v[0] - v[1] + v[2] - v[3] + flat[i * 7 % flat.len()];
    let expected: Vec<i32> = input.iter().enumerate().map(sum).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; `int4` is 4 ints, and it stays
        // below n elements.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "strides", &input) };
        assert_eq!(output, expected);
    }
}

/// Compares with the sum in double precision: 200 terms below 39, each with a relative error of at
/// most 2^-22, give an error of 0.002.
#[test]
fn nbody() {
    let mut random = numbers(6);
    let bodies: Vec<[f32; 4]> = (0..200)
        .map(|_| std::array::from_fn(|_| random.f32()))
        .collect();
    let force = |me: &[f32; 4]| -> [f64; 3] {
        let mut force = [0.0; 3];
        for other in &bodies {
            let d: [f64; 3] = std::array::from_fn(|k| f64::from(other[k]) - f64::from(me[k]));
            let square = d.iter().map(|d| d * d).sum::<f64>() + 0.01;
            for k in 0..3 {
                force[k] += d[k] * f64::from(other[3]) / (square * square.sqrt());
            }
        }
        force
    };
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "nbody");
        let (input, mut output) = (fixture.upload(&bodies), fixture.zeroed::<[f32; 4]>(200));
        let config = LaunchConfig::new(4, 64).with_shared_bytes(64 * 16);
        // SAFETY: the kernel stays below n ← both buffers have 200; it uses a `float4` of shared
        // memory per thread ← 16 bytes.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&input, &mut output, 200_u32))
        }
        .unwrap();
        let output = fixture.values(&output, "nbody");
        for (body, found) in bodies.iter().zip(&output) {
            let expected = force(body);
            for k in 0..3 {
                let error = (f64::from(found[k]) - expected[k]).abs();
                assert!(error < 0.002, "{found:?}, not {expected:?}");
            }
            assert_eq!(found[3], body[3]);
        }
    }
}
