//! Loads and stores whose addresses are equal or neighbours, and some that nearly are, compared
//! with the host.

use super::device::{Device, Numbers, TARGET};
use crate::vm::vector::HALF;
use crate::vm::{FaultKind, TargetInfo};

/// Returns the element that a lane accesses, of 64.
type Pattern = fn(usize) -> usize;

/// The patterns of accesses, with their descriptions.
const PATTERNS: [(&str, Pattern); 16] = [
    ("one element", |_| 5),
    ("the first element", |_| 0),
    ("neighbours", |lane| lane),
    ("neighbours from 3 on", |lane| lane + 3),
    ("the last 32", |lane| lane + 31),
    ("one element for each half", |lane| 7 - lane / HALF),
    ("neighbours, the same for each half", |lane| lane % HALF + 1),
    ("neighbours, with a gap between the halves", |lane| {
        lane + lane / HALF * 9
    }),
    ("one element, then neighbours", |lane| lane.max(HALF)),
    ("neighbours, then one element", |lane| lane.min(HALF)),
    (
        "neighbours but one",
        |lane| if lane == 31 { 2 } else { lane },
    ),
    ("neighbours but one in the middle", |lane| {
        if lane == 13 { 40 } else { lane }
    }),
    ("one element but the last", |lane| usize::from(lane == 31)),
    ("one element but one in the middle", |lane| {
        usize::from(lane == 18)
    }),
    ("every second element", |lane| 2 * lane),
    ("reversed", |lane| 31 - lane),
];

/// A kernel in which each lane executes one access of `bits` bits at its own offset in `memory`, or
/// in a copy of it in shared memory.
fn kernel(is_load: bool, space: &str, bits: u32) -> String {
    let register = bits.max(16);
    let address = match space {
        "global" => "add.u64 %a, %memory, %o;",
        "shared" => "cvt.u32.u64 %b, %o; add.u32 %b, %b, %s;",
        _ => "mov.u64 %a, tile; cvta.shared.u64 %a, %a; add.u64 %a, %a, %o;",
    };
    let (at, name) = match space {
        "global" => ("%a", ".global"),
        "shared" => ("%b", ".shared"),
        _ => ("%a", ""),
    };
    let access = if is_load {
        format!("ld{name}.u{bits} %v, [{at} + 8]; st.global.u{bits} [%values], %v;")
    } else {
        format!("ld.global.u{bits} %v, [%values]; st{name}.u{bits} [{at} + 8], %v;")
    };
    let end = match space {
        "global" => "",
        _ => {
            "bar.sync 0; ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%row];
              st.global.v4.b32 [%own], {%r0, %r1, %r2, %r3};"
        }
    };
    format!(
        ".visible .entry op(.param .u64 memory, .param .u64 offsets, .param .u64 values) {{
            .reg .b64 %memory, %offsets, %values, %at, %own, %o, %a; .reg .b{register} %v;
            .reg .b32 %r<4>; .reg .b32 %t, %s, %b, %row;
            .shared .align 16 .b8 tile[640];
            ld.param.u64 %memory, [memory]; ld.param.u64 %offsets, [offsets];
            ld.param.u64 %values, [values];
            mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 8;
            add.u64 %offsets, %offsets, %at; add.u64 %values, %values, %at;
            ld.global.u64 %o, [%offsets];
            mov.u32 %s, tile; mad.lo.u32 %row, %t, 16, %s;
            mul.wide.u32 %own, %t, 16; add.u64 %own, %own, %memory;
            ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%own];
            st.shared.v4.b32 [%row], {{%r0, %r1, %r2, %r3}};
            bar.sync 0;
            {address} {access} {end}
            ret; }}"
    )
}

/// Calls `check` with a device, the size of a value and a description, for each kind of access.
fn for_each_kernel(is_load: bool, check: impl Fn(&Device, usize, &str)) {
    for checked in [false, true] {
        let target = TargetInfo { checked, ..TARGET };
        for space in ["global", "shared", "generic"] {
            for bits in [8, 16, 32, 64] {
                let device = Device::load(&kernel(is_load, space, bits), &target).unwrap();
                let size = bits as usize / 8;
                check(&device, size, &format!("{space}, {bits} bits, {checked}"));
            }
        }
    }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    (0..len).map(|_| numbers.next() as u8).collect()
}

/// The kernel adds 8 bytes to each offset, and copies 512 bytes to shared memory.
fn offset(pattern: Pattern, lane: usize, size: usize) -> usize {
    (pattern(lane) * size).min(512 - 8 - size)
}

fn offsets(device: &Device, pattern: Pattern, size: usize) -> u64 {
    let all = (0..32).map(|lane| offset(pattern, lane, size) as u64);
    device.upload64(&all.collect::<Vec<_>>())
}

fn read(device: &Device, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    device.arena.map().read(address, &mut bytes).unwrap();
    bytes
}

#[test]
fn each_lane_loads_from_its_own_address() {
    for_each_kernel(true, |device, size, kernel| {
        let memory = random(1, 512);
        for (name, pattern) in PATTERNS {
            let (from, to) = (device.upload(&memory), device.upload(&[0; 256]));
            let offsets = offsets(device, pattern, size);
            device.run(1, 32, &[from, offsets, to]).unwrap();
            let found = read(device, to, 256);
            for lane in 0..32 {
                let start = offset(pattern, lane, size) + 8;
                assert_eq!(
                    found[lane * 8..][..size],
                    memory[start..][..size],
                    "{kernel}, {name}, lane {lane}"
                );
            }
        }
    });
}

#[test]
fn each_lane_stores_to_its_own_address() {
    for_each_kernel(false, |device, size, kernel| {
        let (memory, values) = (random(2, 512), random(3, 256));
        for (name, pattern) in PATTERNS {
            let (to, from) = (device.upload(&memory), device.upload(&values));
            let offsets = offsets(device, pattern, size);
            device.run(1, 32, &[to, offsets, from]).unwrap();
            let found = read(device, to, 512);
            let mut rest = memory.clone();
            for lane in 0..32 {
                let start = offset(pattern, lane, size) + 8;
                let stored = &found[start..][..size];
                // Of lanes with one address, any may store last.
                let is_stored = (0..32)
                    .filter(|&other| offset(pattern, other, size) + 8 == start)
                    .any(|other| values[other * 8..][..size] == *stored);
                assert!(is_stored, "{kernel}, {name}, lane {lane}");
                rest[start..][..size].copy_from_slice(stored);
            }
            assert_eq!(found, rest, "{kernel}, {name}: other bytes are unchanged");
        }
    });
}

/// Each lane copies its element of each buffer, by the same registers in each block.
const COPY: &str = ".visible .entry op(.param .u64 in, .param .u64 out) {
    .reg .b64 %in, %out, %at; .reg .b32 %t, %c, %n, %v;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %c, %n, %t;
    mul.wide.u32 %at, %t, 4; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
    ld.global.u32 %v, [%in]; st.global.u32 [%out], %v;
    ret; }";

/// Each lane adds the two elements at the address in `%a`, which is uniform at first, then
/// contiguous, then that of the other half of the warp.
const CHANGES: &str = ".visible .entry op(.param .u64 out) {
    .reg .b64 %out, %at; .reg .b32 %t, %s, %a, %b, %v, %sum, %i; .reg .pred %p;
    .shared .align 128 .b8 tile[512];
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
    mad.lo.u32 %a, %t, 4, %s; mul.lo.u32 %v, %t, 3; st.shared.u32 [%a], %v;
    add.u32 %v, %v, 96; st.shared.u32 [%a + 128], %v; bar.sync 0;
    mov.u32 %sum, 0; mov.u32 %i, 0; mov.u32 %b, %s;
$again:
    ld.shared.u32 %v, [%b]; mad.lo.u32 %sum, %sum, 5, %v;
    ld.shared.u32 %v, [%b + 4]; mad.lo.u32 %sum, %sum, 5, %v;
    setp.eq.u32 %p, %i, 0; @%p mov.u32 %b, %a; @!%p xor.b32 %b, %b, 64;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 3; @%p bra $again;
    mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at; st.global.u32 [%out], %sum;
    ret; }";

#[test]
fn a_changed_address_register_is_noticed() {
    let device = Device::new(CHANGES);
    let out = device.upload32(&[0; 32]);
    device.run(1, 32, &[out]).unwrap();
    let found = device.download32(out, 32);
    for lane in 0..32u32 {
        let elements = [0, 1, lane, lane + 1, lane ^ 16, (lane ^ 16) + 1];
        let sum = elements.iter().fold(0u32, |sum, element| {
            sum.wrapping_mul(5).wrapping_add(element * 3)
        });
        assert_eq!(found[lane as usize], sum, "lane {lane}");
    }
}

#[test]
fn neighbours_past_the_end_are_a_fault() {
    let device = Device::new(COPY);
    let long = device.upload32(&[7; 64]);
    // The last element of the second warp is outside.
    let short = device.upload32(&[0; 63]);
    for params in [[long, short], [short, long]] {
        for grid in [(1, 64), (2, 32)] {
            let fault = device.run(grid.0, grid.1, &params).unwrap_err();
            assert_eq!(fault.kind, FaultKind::IllegalAddress);
            assert_eq!(fault.at.ptx_line, 9, "{fault}");
            let thread = fault.at.block[0] * grid.1 + fault.at.thread[0];
            assert_eq!(thread, 63, "{fault}");
        }
    }
}

#[test]
fn neighbours_between_two_values_are_misaligned() {
    let device = Device::new(COPY);
    let buffer = device.upload32(&[7; 64]);
    for params in [[buffer + 2, buffer], [buffer, buffer + 2]] {
        let fault = device.run(1, 32, &params).unwrap_err();
        assert_eq!(fault.kind, FaultKind::MisalignedAddress, "{fault}");
    }
}

#[test]
fn a_launch_does_not_use_the_ranges_of_another() {
    let device = Device::new(COPY);
    let (from, to) = (device.upload32(&[7; 64]), device.upload32(&[0; 64]));
    device.run(2, 32, &[from, to]).unwrap();
    device.arena.free(to, "a test").unwrap();
    let fault = device.run(2, 32, &[from, to]).unwrap_err();
    assert!(fault.message.contains("freed"), "{fault}");
}

#[cfg(target_arch = "x86_64")]
mod ways {
    //! The vector instructions do the same as the code for all CPUs.

    use super::{PATTERNS, random};
    use crate::vm::lanes::wide_cpu;
    use crate::vm::neighbours::{OneByOne, Path, Vectors};
    use crate::vm::space::Cell;
    use crate::vm::vector::{HALF, each};

    #[test]
    fn both_ways_find_the_same_steps() {
        if !wide_cpu() {
            return;
        }
        for (name, pattern) in PATTERNS {
            for size in [1, 2, 4, 8] {
                for start in [0, 0x1000, u64::MAX - 20] {
                    let element = |lane| pattern(lane) as u64;
                    let wide = each(|lane| start.wrapping_add(element(lane) * size));
                    let narrow = each(|lane| wide[lane] as u32);
                    let steps = OneByOne::steps64(&wide);
                    let found = OneByOne::steps32(&narrow);
                    assert_eq!(Vectors::steps64(&wide), steps, "{name}, {size}");
                    assert_eq!(Vectors::steps32(&narrow), found, "{name}, {size}");
                    let steps = steps.map(|steps| steps.map(|step| step as u32));
                    assert_eq!(found, steps, "{name}, {size}");
                }
            }
        }
        let ramp = each(|lane| lane as u32 * 12);
        assert_eq!(OneByOne::steps32(&ramp), Some([12; 2]));
    }

    #[test]
    fn rows_that_differ_in_one_lane_are_not_equal() {
        if !wide_cpu() {
            return;
        }
        let row = each(|lane| lane as u32 * 7);
        assert!(Vectors::are_equal(&row, &row.clone()));
        for lane in 0..32 {
            for bit in 0..32 {
                let mut other = row;
                other[lane] ^= 1 << bit;
                assert!(!Vectors::are_equal(&row, &other), "lane {lane}, bit {bit}");
            }
        }
    }

    /// Loads half a warp of values in both ways, and stores them in both ways.
    fn copies_are_equal<T: Cell>()
    where
        T::Reg: PartialEq + std::fmt::Debug,
    {
        let mut memory = [0u64; HALF];
        for (word, bytes) in memory.iter_mut().zip(random(4, HALF * 8).as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let host = memory.as_mut_ptr().expose_provenance() as u64;
        let mut loaded = [[T::Reg::default(); HALF]; 2];
        let [one_by_one, vectors] = &mut loaded;
        // SAFETY: `host` must be the exposed address of 16 aligned values ← `memory` has 16
        // numbers of 8 bytes, which are exposed.
        unsafe { OneByOne::load::<T>(host, one_by_one) };
        // SAFETY: as above.
        unsafe { Vectors::load::<T>(host, vectors) };
        assert_eq!(one_by_one, vectors);
        let mut stored = [[0u64; HALF + 1]; 2];
        let hosts = stored
            .each_mut()
            .map(|to| to.as_mut_ptr().expose_provenance() as u64);
        // SAFETY: the address must be that of 16 aligned values ← it is exposed, and that of 17
        // numbers of 8 bytes.
        unsafe { OneByOne::store::<T>(vectors, hosts[0]) };
        // SAFETY: as above.
        unsafe { Vectors::store::<T>(vectors, hosts[1]) };
        assert_eq!(stored[0], stored[1]);
        assert_ne!(stored[0], [0; HALF + 1]);
        assert_eq!(stored[0][HALF], 0);
    }

    #[test]
    fn both_ways_copy_the_same_values() {
        if wide_cpu() {
            copies_are_equal::<u8>();
            copies_are_equal::<u16>();
            copies_are_equal::<u32>();
            copies_are_equal::<u64>();
        }
    }
}
