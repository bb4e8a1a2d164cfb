//! Textures and surfaces in small kernels, compared with slices.

use cuda_sim::{Builder, CUresult as R, ReportKind};
use cuda_sys::{CUaddress_mode, CUarray, CUtexObject};

use crate::support::{TestDevice, late, ok, test_device};
use crate::texture_support::*;

#[test]
fn memory_is_fetched_by_element() {
    for sim in [
        test_device(Builder::new().check_all(true)),
        test_device(late(3)),
    ] {
        let bytes: Vec<u8> = (0..40).map(|i| (i * 37) as u8).collect();
        let (memory, out) = (sim.upload(&bytes), sim.alloc(512));
        let texture = |flags, channels| {
            let resource = of_memory(memory, 40, U8, channels);
            sim.make_texture(&resource, &clamped(flags), None).unwrap()
        };
        // Two unconverted channels; the others are 0 and 1, and everything outside is 0.
        ok(sim.run("fetch", &mut [texture(INTEGER, 2), out]));
        for (i, found) in sim.download::<[u32; 4]>(out, 32).iter().enumerate() {
            let expected = match i.checked_sub(2).filter(|i| *i < 20) {
                Some(i) => [bytes[2 * i].into(), bytes[2 * i + 1].into(), 0, 1],
                None => [0; 4],
            };
            assert_eq!(*found, expected, "{i}");
        }
        // Four channels from 0 to 1.
        ok(sim.run("fetch", &mut [texture(0, 4), out]));
        for (i, found) in sim.download::<[f32; 4]>(out, 32).iter().enumerate() {
            let expected = match i.checked_sub(2).filter(|i| *i < 10) {
                Some(i) => std::array::from_fn(|k| f32::from(bytes[4 * i + k]) / 255.0),
                None => [0.0; 4],
            };
            assert_eq!(*found, expected, "{i}");
        }
        assert_eq!(sim.simulator.take_reports(), []);
    }
}

/// The weights have 8 bits: at eighths of an element the filter is exact for small integers.
#[test]
fn a_plane_between_its_elements() {
    let sim = test_device(Builder::new());
    let [width, height] = [5_usize, 4];
    let values: Vec<f32> = (0..width * height).map(|i| (i * i % 23) as f32).collect();
    // Rows of 5 floats with a pitch of 32 bytes.
    let mut rows = vec![f32::NAN; 8 * height];
    for (i, value) in values.iter().enumerate() {
        rows[i / width * 8 + i % width] = *value;
    }
    let resource = of_rows(sim.upload(&rows), [width, height], 32);
    let texture = sim.make_texture(&resource, &filtered(0), None).unwrap();
    let points: Vec<[f32; 2]> = (0..32)
        .map(|i| [i as f32 * 0.375 - 3.0, i as f32 * 0.625 - 8.0])
        .collect();
    let (at, out) = (sim.upload(&points), sim.alloc(256));
    ok(sim.run("plane", &mut [texture, at, out]));
    let element = |x: f64, y: f64| {
        let inside = |at: f64, size: usize| at.clamp(0.0, size as f64 - 1.0) as usize;
        f64::from(values[inside(y, height) * width + inside(x, width)])
    };
    for (i, found) in sim.download::<[u32; 2]>(out, 32).iter().enumerate() {
        let [x, y] = points[i].map(|at| f64::from(at) - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (right, below) = (x - left, y - top);
        let expected = (1.0 - right) * (1.0 - below) * element(left, top)
            + right * (1.0 - below) * element(left + 1.0, top)
            + (1.0 - right) * below * element(left, top + 1.0)
            + right * below * element(left + 1.0, top + 1.0);
        let value = f64::from(f32::from_bits(found[0]));
        assert_eq!((value, found[1]), (expected, 1), "{:?}", points[i]);
    }
}

/// Any coordinate reads an element or the border; infinite coordinates are at the edges.
#[test]
fn extreme_coordinates_follow_the_address_mode() {
    let sim = test_device(Builder::new());
    let values: Vec<f32> = (1..=12_u8).map(f32::from).collect();
    let array = sim.array_of(&desc([4, 3, 0], F32, 1, 0));
    let rows = [0, 1, 2].map(|row| &values[4 * row..][..4]);
    for (y, row) in rows.into_iter().enumerate() {
        sim.put_row(array, y, row);
    }
    let odd = [
        f32::NEG_INFINITY,
        f32::INFINITY,
        f32::NAN,
        -f32::MAX,
        f32::MAX,
        -1e-45,
        9.3e18,
        -4.6e18,
    ];
    let points: Vec<[f32; 2]> = (0..32)
        .map(|i| [odd[i % 8], odd[(i + i / 8) % 8]])
        .collect();
    let (at, out) = (sim.upload(&points), sim.alloc(256));
    for mode in 0..4 {
        for flags in [0, NORMALIZED] {
            for texture in [
                reading(CUaddress_mode(mode), flags),
                filtered_as(CUaddress_mode(mode), flags),
            ] {
                let texture = sim.make_texture(&of_array(array), &texture, None);
                ok(sim.run("plane", &mut [texture.unwrap(), at, out]));
                let found = sim.download::<[u32; 2]>(out, 32);
                for ([bits, _], point) in found.into_iter().zip(&points) {
                    let value = f32::from_bits(bits);
                    assert!((0.0..=12.0).contains(&value), "{value} at {point:?}");
                    let edge = |at: f32, last: usize| if at > 0.0 { last } else { 0 };
                    if mode == 1 && point.iter().all(|at| at.abs() > 1e10) {
                        let expected = rows[edge(point[1], 2)][edge(point[0], 3)];
                        assert_eq!(value, expected, "{point:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn queries_return_the_extents() {
    let sim = test_device(Builder::new());
    let mipmap = sim.mipmap_of(&desc([20, 10, 6], F32, 1, 0), 3);
    let texture = sim
        .make_texture(&of_mipmap(mipmap), &clamped(NORMALIZED), None)
        .unwrap();
    let space = sim.array_of(&desc([7, 8, 9], U32, 2, SURFACE));
    let surface = sim.make_surface(&of_array(space)).unwrap();
    let out = sim.alloc(28);
    ok(sim.run("extents", &mut [texture, surface, out]));
    assert_eq!(sim.download::<u32>(out, 7), [10, 10, 6, 3, 7, 8, 9]);
    // A row has no height.
    let (_, row) = sim.row();
    let status = sim.run("extents", &mut [texture, row, out]);
    assert_eq!(status, R::CUDA_ERROR_ILLEGAL_INSTRUCTION);
    let fault = sim.simulator.fault(0).unwrap();
    assert!(
        fault.contains("level 0 of the shape Line has no Height"),
        "{fault}"
    );
}

#[test]
fn a_row_is_written_and_read() {
    for sim in [
        test_device(Builder::new().check_all(true)),
        test_device(late(3)),
    ] {
        let (array, surface) = sim.row();
        ok(sim.run("write", &mut [surface]));
        let expected: Vec<u32> = (102..118).collect();
        assert_eq!(sim.take::<u32>(array, 16), expected);
        let out = sim.alloc(256);
        ok(sim.run("read", &mut [surface, out]));
        for (i, found) in sim.download::<[u32; 2]>(out, 32).iter().enumerate() {
            let at = i as i32 - 2;
            let zeroed = if (0..16).contains(&at) {
                102 + at as u32
            } else {
                0
            };
            assert_eq!(*found, [zeroed, 102 + at.clamp(0, 15) as u32]);
        }
        ok(sim.run("reduce", &mut [surface]));
        let all = sim.take::<u32>(array, 16);
        assert_eq!((all[0], all[1], all[2], all[3]), (102, 103 + 32, 104, 105));
        assert_eq!(sim.simulator.take_reports(), []);
        let status = sim.run("trap", &mut [surface, out]);
        assert_eq!(status, R::CUDA_ERROR_LAUNCH_FAILED);
    }
}

#[test]
fn use_of_destroyed_textures_is_a_fault() {
    let point: [fn(&TestDevice, CUarray, CUtexObject) -> R; 2] = [
        |sim, array, _| unsafe { sim.cuArrayDestroy(array) },
        |sim, _, texture| unsafe { sim.cuTexObjectDestroy(texture) },
    ];
    for (number, destroy) in point.into_iter().enumerate() {
        let sim = test_device(Builder::new().check_freed(true));
        let array = sim.array_of(&desc([8, 8, 0], F32, 1, 0));
        let texture = sim.make_texture(&of_array(array), &clamped(0), None);
        let texture = texture.unwrap();
        let (at, out) = (sim.upload(&[[1.5_f32; 2]; 32]), sim.alloc(256));
        ok(destroy(&sim, array, texture));
        let status = sim.run("plane", &mut [texture, at, out]);
        assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS, "{number}");
        let kinds: Vec<_> = sim.simulator.take_reports();
        let expected = [ReportKind::UseAfterFree, ReportKind::Fault][number];
        assert_eq!(kinds[0].kind, expected, "{}", kinds[0]);
    }
}

/// Memory that has been allocated again belongs to the new allocation, as far as that extends.
#[test]
fn a_texture_reads_the_current_memory() {
    let sim = test_device(Builder::new());
    let out = sim.alloc(512);
    let old = sim.upload(&[1_u8; 2048]);
    let texture = sim.make_texture(&of_memory(old, 2048, U8, 1), &clamped(INTEGER), None);
    let texture = texture.unwrap();
    unsafe { ok(sim.cuMemFree_v2(old)) };
    let new = sim.upload(&[2_u8; 16]);
    assert_eq!(new, old);
    let status = sim.run("fetch", &mut [texture, out]);
    assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
    let reports = sim.simulator.take_reports();
    let access = reports[0].access.unwrap();
    assert_eq!(
        (access.address, access.size),
        (new + 16, 1),
        "{}",
        reports[0]
    );
}

#[test]
fn unwritten_texels_are_reported() {
    let sim = test_device(Builder::new().check_uninitialized(true));
    let array = sim.array_of(&desc([16, 0, 0], U32, 1, SURFACE));
    let surface = sim.make_surface(&of_array(array)).unwrap();
    let out = sim.alloc(256);
    sim.put(array, &[7_u32; 12]);
    ok(sim.run("read", &mut [surface, out]));
    let reports = sim.simulator.take_reports();
    assert!(!reports.is_empty());
    for report in &reports {
        assert_eq!(report.kind, ReportKind::UninitializedRead);
    }
    // Thread 14 is the first to read the 13th word.
    assert_eq!(reports[0].at.thread, [14, 0, 0]);
    // Memory that a kernel wrote is initialized.
    ok(sim.run("write", &mut [surface]));
    ok(sim.run("read", &mut [surface, out]));
    assert_eq!(sim.simulator.take_reports(), []);
}

#[test]
fn unsupported_texture_instructions_fail_by_name() {
    let sim = test_device(Builder::new());
    let array = sim.array_of(&desc([8, 8, 0], F32, 1, 0));
    let texture = sim.make_texture(&of_array(array), &clamped(0), None);
    let out = sim.alloc(4);
    let moved = sim.function(sim.load(TEXTURE), "moved");
    let mut params = [texture.unwrap(), out];
    let status = sim.launch(moved, [1, 32], std::ptr::null_mut(), &mut params);
    assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
    let fault = sim.simulator.take_reports().remove(0).to_string();
    let line = TEXTURE
        .lines()
        .position(|line| line.contains("{%one, %one}"));
    let line = format!("line {}", line.unwrap() + 1);
    assert!(fault.contains("tex.2d.v4.f32.f32"), "{fault}");
    assert!(fault.contains(&line), "{fault}");
}

#[test]
fn missing_instruction_forms_fail_by_name() {
    let vector = "{%r0, %r1, %r2, %r3}";
    for (name, operands) in [
        ("tex.2d.v4.f16.f32", "V, [%t, {%x, %x}]"),
        ("tex.2d.v2.f16x2.f32", "{%r0, %r1}, [%t, {%x, %x}]"),
        ("tex.2dms.v4.f32.s32", "V, [%t, {%x, %x, %x, %x}]"),
        ("tex.cube.v4.f32.s32", "V, [%t, V]"),
        ("tex.level.2d.v4.f32.s32", "V, [%t, {%x, %x}], %x"),
        ("tex.2d.v4.f32.f32", "V, [%t, %t, {%x, %x}]"),
        ("tld4.r.a2d.v4.f32.f32", "V, [%t, V]"),
        ("tld4.r.2d.v4.f32.f32", "V, [%t, {%x, %x}], {%x, %x}"),
        ("txq.normalized_coords.b32", "%r0, [%t]"),
        ("suq.memory_layout.b32", "%r0, [%t]"),
        ("suld.b.cube.b32.trap", "%r0, [%t, V]"),
        ("sust.b.1d.v4.b64.trap", "[%t, {%x}], {%t, %t, %t, %t}"),
        ("sust.p.1d.v4.b32.trap", "[%t, {%x}], V"),
        ("sured.b.add.1d.f32.trap", "[%t, {%x}], %x"),
        ("sured.b.add.1d.f16.trap", "[%t, {%x}], %h"),
        ("sured.b.xor.1d.b32.trap", "[%t, {%x}], %x"),
    ] {
        let operands = operands.replace('V', vector);
        let ptx = format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 t) {{\n\
             .reg .b64 %t; .reg .b32 %x, %r<4>; .reg .b16 %h; ld.param.u64 %t, [t];\n\
             {name} {operands};\nret; }}"
        );
        let sim = test_device(Builder::new());
        let function = sim.function(sim.load(&ptx), "k");
        let status = sim.launch(function, [1, 1], std::ptr::null_mut(), &mut [0]);
        assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED, "{name}");
        let fault = sim.simulator.take_reports().remove(0).to_string();
        assert!(
            fault.contains(&format!("not implement `{name}`")),
            "{fault}"
        );
        assert!(fault.contains("line 6"), "{fault}");
    }
}
