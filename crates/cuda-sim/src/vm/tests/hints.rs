//! Instructions with little or no effect (policies, hints, waits), and reductions of floats.

use std::time::{Duration, Instant};

use super::device::{Device, Numbers};

#[test]
fn hints_do_not_change_results() {
    let text = ".visible .entry op(.param .u64 in, .param .u64 out) {
        .reg .b32 %v, %w, %t; .reg .b64 %in, %out, %at, %p<4>;
        griddepcontrol.wait;
        ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
        mul.wide.u32 %at, %t, 8; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
        createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %p0, 0.5;
        createpolicy.fractional.L2::evict_first.b64 %p1;
        createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %p2, [%in], 8, 16;
        prefetch.global.L2::evict_last [%in]; prefetch.global.L1 [%in]; prefetchu.L1 [%in];
        ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v2.b32 {%v, %w}, [%in], %p0;
        setmaxnreg.dec.sync.aligned.u32 40; nanosleep.u32 20;
        st.global.L2::cache_hint.b32 [%out], %w, %p1;
        red.global.add.L2::cache_hint.u32 [%out+4], %v, %p1;
        atom.global.add.L2::cache_hint.u32 %w, [%out+4], %w, %p2;
        griddepcontrol.launch_dependents;
        ret; }";
    let device = Device::new(text);
    let mut numbers = Numbers(1);
    let input: Vec<u32> = (0..64).map(|_| numbers.next() as u32).collect();
    let (from, to) = (device.upload32(&input), device.upload32(&[5; 64]));
    device.run(1, 32, &[from, to]).unwrap();
    let pairs = input.chunks(2);
    let expected: Vec<u32> = pairs
        .flat_map(|pair| [pair[1], pair[0].wrapping_add(pair[1]).wrapping_add(5)])
        .collect();
    assert_eq!(device.download32(to, 64), expected);
}

#[test]
fn a_warp_sleeps_while_others_run() {
    // The lanes of the first warp sleep for 0 to 31 times 10 ns, and then 20 times for a
    // millisecond. The second warp counts in the meantime.
    let text = ".visible .entry op(.param .u64 out) {
        .reg .b32 %t, %n, %r; .reg .b64 %out; .reg .pred %p;
        ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.ge.u32 %p, %t, 32; @%p bra $count;
        mul.lo.u32 %n, %t, 10; nanosleep.u32 %n; mov.u32 %n, 0;
        $sleep: nanosleep.u32 1000000; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 20; @%p bra $sleep;
        st.volatile.global.u32 [%out], 1; ret;
        $count: add.u32 %n, %n, 1; ld.volatile.global.u32 %r, [%out]; setp.eq.u32 %p, %r, 0;
        @%p bra $count;
        st.global.u32 [%out+4], %n; ret; }";
    let device = Device::new(text);
    let out = device.upload32(&[0, 0]);
    let start = Instant::now();
    device.run(1, 64, &[out]).unwrap();
    assert!(
        start.elapsed() >= Duration::from_millis(20),
        "{:?}",
        start.elapsed()
    );
    let [flag, count] = device.download32(out, 2)[..] else {
        panic!("two words");
    };
    assert_eq!(flag, 1);
    assert!(count > 100, "{count}");
}

#[test]
fn a_sleep_is_at_most_a_millisecond() {
    let text = ".visible .entry op() { nanosleep.u32 4000000000; ret; }";
    let start = Instant::now();
    Device::new(text).run(1, 32, &[]).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn floats_reduce_to_their_extremes() {
    let mut numbers = Numbers(2);
    let special = [f32::NAN, -0.0, 0.0, f32::INFINITY, -1.5, 1e-40];
    for (round, options) in ["min", "max", "min.abs", "max.abs.NaN", "min.NaN", "max"]
        .into_iter()
        .cycle()
        .take(60)
        .enumerate()
    {
        let text = format!(
            ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .reg .f32 %v, %w; .reg .b32 %t; .reg .b64 %in, %out, %at;
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %at, %t, 4; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
            ld.global.f32 %v, [%in]; redux.sync.{options}.f32 %w, %v, 0xffffffff;
            st.global.f32 [%out], %w; ret; }}"
        );
        let device = Device::new(&text);
        let input: Vec<f32> = (0..32)
            .map(|_| {
                let bits = numbers.next();
                let is_special = bits.is_multiple_of(32) || round < 2;
                match is_special {
                    true => special[(bits >> 8) as usize % (if round < 2 { 1 } else { 6 })],
                    false => ((bits >> 32) as i32) as f32 / 1e9,
                }
            })
            .collect();
        let bits: Vec<u32> = input.iter().map(|value| value.to_bits()).collect();
        let (from, to) = (device.upload32(&bits), device.upload32(&[0; 32]));
        device.run(1, 32, &[from, to]).unwrap();
        let mut values: Vec<f32> = input
            .iter()
            .copied()
            .filter(|value| !value.is_nan())
            .collect();
        if options.contains("abs") {
            values.iter_mut().for_each(|value| *value = value.abs());
        }
        values.sort_by(f32::total_cmp);
        let has_nan = input.iter().any(|value| value.is_nan());
        let chosen = if options.starts_with("min") {
            values.first()
        } else {
            values.last()
        };
        let expected = match chosen {
            Some(value) if !(has_nan && options.contains("NaN")) => value.to_bits(),
            _ => 0x7fff_ffff,
        };
        assert_eq!(
            device.download32(to, 32),
            vec![expected; 32],
            "{options} of {input:?}"
        );
    }
}

#[test]
fn floats_round_to_ten_bits() {
    let mut numbers = Numbers(3);
    let mut input: Vec<u32> = (0..1024).map(|_| numbers.next() as u32).collect();
    // Values halfway between neighbours, next to that, at the ends of the range, and NaN.
    input[..8].copy_from_slice(&[
        0x3f80_1000,
        0x3f80_3000,
        0x3f80_0fff,
        0xbf80_1001,
        0x7f7f_ffff,
        0x7fc0_0000,
        0x0000_1000,
        0xff80_0000,
    ]);
    for mode in ["rna", "rn", "rz", "rn.relu"] {
        let text = format!(
            ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .reg .f32 %v; .reg .b32 %w, %t; .reg .b64 %in, %out, %at;
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %at, %t, 4; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
            ld.global.f32 %v, [%in]; cvt.{mode}.tf32.f32 %w, %v;
            st.global.b32 [%out], %w; ret; }}"
        );
        let device = Device::new(&text);
        let (from, to) = (device.upload32(&input), device.upload32(&[0; 1024]));
        device.run(1, 1024, &[from, to]).unwrap();
        for (&bits, got) in input.iter().zip(device.download32(to, 1024)) {
            let value = f32::from_bits(bits);
            let expected = if value.is_nan() {
                0x7fff_ffff
            } else if mode == "rn.relu" && bits >> 31 != 0 {
                0
            } else {
                // The neighbours that have 10 bits of mantissa, and their distances.
                let low = bits & !0x1fff;
                let high = if low == bits {
                    low
                } else {
                    low.wrapping_add(0x2000)
                };
                let (below, above) = (bits - low, high.wrapping_sub(bits));
                let even = if low >> 13 & 1 == 0 { low } else { high };
                match (mode, below.cmp(&above)) {
                    ("rz", _) | (_, std::cmp::Ordering::Less) => low,
                    (_, std::cmp::Ordering::Greater) | ("rna", _) => high,
                    _ => even,
                }
            };
            assert_eq!(got, expected, "{mode} of {bits:#x}");
        }
    }
}
