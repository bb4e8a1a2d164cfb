//! Forms of PTX that other compilers and programs write: modifiers in any order, vector registers,
//! variables of functions, and instructions that NVRTC rarely uses.

use super::device::{Device, TARGET};
use crate::vm::{FaultKind, TargetInfo};

/// Runs `body` in one thread, which has the address of zeroed words in `%out`, and returns the
/// first words. `before` precedes the kernel.
fn words_with(before: &str, body: &str, count: usize) -> Vec<u32> {
    let device = Device::new(&format!(
        "{before}
        .visible .entry kernel(.param .u64 out) {{
            .reg .b64 %out; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .pred %p<4>;
            ld.param.u64 %out, [out];
            {body}
            ret; }}"
    ));
    let out = device.upload32(&vec![0; count]);
    device.run(1, 1, &[out]).unwrap();
    device.download32(out, count)
}

fn words(body: &str, count: usize) -> Vec<u32> {
    words_with("", body, count)
}

#[test]
fn modifiers_may_have_any_order() {
    let two = 2.0_f32.to_bits();
    for (usual, other) in [
        ("lg2.approx.ftz.f32 %r1, %r2", "lg2.approx.f32.ftz %r1, %r2"),
        ("ex2.approx.ftz.f32 %r1, %r2", "ex2.f32.approx.ftz %r1, %r2"),
        (
            "fma.rn.f32 %r1, %r2, %r2, %r2",
            "fma.f32.rn %r1, %r2, %r2, %r2",
        ),
        (
            "add.rz.ftz.f32 %r1, %r2, %r2",
            "add.f32.ftz.rz %r1, %r2, %r2",
        ),
        ("cvt.rzi.s32.f32 %r1, %r2", "cvt.s32.f32.rzi %r1, %r2"),
        (
            "mad.lo.u32 %r1, %r2, %r2, %r2",
            "mad.u32.lo %r1, %r2, %r2, %r2",
        ),
        (
            "shf.l.wrap.b32 %r1, %r2, %r2, 3",
            "shf.b32.wrap.l %r1, %r2, %r2, 3",
        ),
        (
            "set.lt.ftz.u32.f32 %r1, 0f3f800000, %r2",
            "set.ftz.u32.f32.lt %r1, 0f3f800000, %r2",
        ),
        (
            "ld.volatile.global.u32 %r1, [%out]",
            "ld.u32.global.volatile %r1, [%out]",
        ),
    ] {
        let run = |text: &str| {
            words(
                &format!("mov.b32 %r2, {two}; {text}; st.global.u32 [%out], %r1;"),
                1,
            )
        };
        assert_eq!(run(usual), run(other), "{other}");
    }
}

#[test]
fn code_for_every_blackwell_loads() {
    for (capability, targets) in [
        ((10, 3), &["sm_100", "sm_103", "sm_103a", "sm_100f"][..]),
        ((11, 0), &["sm_110", "sm_110a", "sm_110f"]),
        ((12, 1), &["sm_120", "sm_121", "sm_121a", "sm_120f"]),
    ] {
        let target = TargetInfo {
            compute_capability: capability,
            max_ptx: (9, 1),
            ..TARGET
        };
        for name in targets {
            let text = format!(
                ".version 9.0\n.target {name}\n.address_size 64\n.visible .entry k() {{ ret; }}"
            );
            let module = cuda_ptx::parse(&text).unwrap();
            let loaded = crate::vm::Program::load(&[module], &target);
            assert!(loaded.is_ok(), "{name} on {capability:?}: {loaded:?}");
        }
        let text = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }";
        let module = cuda_ptx::parse(text).unwrap();
        assert!(crate::vm::Program::load(&[module], &target).is_err());
    }
}

#[test]
fn vector_registers_have_elements() {
    let text = "
        .reg .v2 .b32 %v; .reg .v4 .f32 %q; .reg .v2 .b32 %n<3>;
        mov.b32 %v.x, 7; mov.b32 %v.y, 8;
        st.global.v2.b32 [%out], %v;
        ld.global.v2.b32 {%r1, %r2}, [%out];
        mov.v2.b32 %n2, %v;
        mov.b32 %n1.x, %v.y; mov.b32 %n1.y, %n2.x;
        st.global.v2.b32 [%out+8], %n1;
        mov.v2.b32 {%n1.x, %n1.y}, {%n1.y, %n1.x};
        st.global.v2.b32 [%out+16], %n1;
        ld.global.v4.f32 %q, [%out];
        add.u32 %r3, %q.w, %q.a;
        st.global.u32 [%out+24], %r3;
        st.global.u32 [%out+28], %r2;";
    assert_eq!(words(text, 8), [7, 8, 8, 7, 7, 8, 14, 8]);
}

#[test]
fn unused_bytes_of_a_load_may_be_out_of_bounds() {
    let run = |before: &str| {
        let device = Device::new(&format!(
            ".visible .entry kernel(.param .u64 out) {{
                .reg .b64 %out; .reg .b32 %r<8>;
                ld.param.u64 %out, [out];
                {before}
                ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%out];
                add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1;
                ret; }}"
        ));
        let out = device.upload32(&[30, 40, 50]);
        let ended = device.run(1, 1, &[out]);
        ended.map(|_| device.download32(out, 3)).map_err(|fault| {
            assert_eq!(fault.kind, FaultKind::IllegalAddress, "{before}: {fault}");
            fault.report().access.unwrap().address - out
        })
    };
    let used = |mask: &str| format!(".pragma \"used_bytes_mask {mask}\";");
    // A byte of the first and of the third element is enough to load these.
    for mask in ["3855", "0x0f0f", "0x0801"] {
        assert_eq!(run(&used(mask)), Ok(vec![80, 40, 50]), "{mask}");
    }
    // All bytes are used, or the pragma is before another instruction.
    let elsewhere = format!("{} mov.u32 %r1, 0;", used("3855"));
    for before in ["", &used("65535"), &used("0x1f0f"), &elsewhere] {
        assert_eq!(run(before), Err(12), "{before}");
    }
}

#[test]
fn min_and_max_take_three_floats() {
    let nan = f32::NAN.to_bits();
    let run = |name: &str, values: [f32; 3]| {
        let [a, b, c] = values.map(f32::to_bits);
        let text = format!(
            "mov.b32 %r1, {a}; mov.b32 %r2, {b}; mov.b32 %r3, {c};
             {name} %r4, %r1, %r2, %r3; st.global.u32 [%out], %r4;"
        );
        words(&text, 1)[0]
    };
    for (name, values, expected) in [
        ("min.f32", [3.0, -2.0, 1.0], (-2.0_f32).to_bits()),
        ("max.f32", [3.0, -2.0, 5.0], 5.0_f32.to_bits()),
        ("max.f32", [f32::NAN, -2.0, 5.0], 5.0_f32.to_bits()),
        ("max.NaN.f32", [3.0, -2.0, f32::NAN], 0x7fff_ffff),
        ("min.abs.f32", [3.0, -2.0, -5.0], 2.0_f32.to_bits()),
        ("max.abs.f32", [3.0, -2.0, -5.0], 5.0_f32.to_bits()),
        ("max.ftz.f32", [-1.0, f32::from_bits(1), -3.0], 0),
    ] {
        assert_eq!(run(name, values), expected, "{name} {values:?}");
    }
    assert_ne!(run("min.f32", [f32::NAN; 3]), 0, "{nan}");
}

#[test]
fn cvt_pack_saturates_and_shifts() {
    for (text, expected) in [
        ("cvt.pack.sat.s16.s32 %r3, %r1, %r2;", 0x7fff_8000),
        ("cvt.pack.sat.u16.s32 %r3, %r1, %r2;", 0xffff_0000),
        ("cvt.pack.sat.s8.s32.b32 %r3, %r1, %r2, 0;", 0x7f80),
        ("cvt.pack.sat.u8.s32.b32 %r3, %r1, 5, 0x1234;", 0x1234_ff05),
        ("cvt.pack.sat.s4.s32.b32 %r3, %r1, %r2, 0x12;", 0x1278),
        ("cvt.pack.sat.u4.s32.b32 %r3, 3, %r2, 0x12;", 0x1230),
        ("cvt.pack.sat.s2.s32.b32 %r3, %r1, %r2, 1;", 0b1_0110),
        ("cvt.pack.sat.u2.s32.b32 %r3, 2, %r1, 0;", 0b1011),
    ] {
        let body =
            format!("mov.s32 %r1, 100000; mov.s32 %r2, -100000; {text} st.global.u32 [%out], %r3;");
        assert_eq!(words(&body, 1), [expected], "{text}");
    }
}

#[test]
fn an_operand_may_be_a_symbol_plus_an_offset() {
    let before = ".global .align 8 .u32 table[4] = {10, 11, 12, 13};
        .const .u32 fixed[2] = {20, 21};";
    let body = "
        .shared .align 8 .b32 tile[8]; .local .align 8 .b32 own[8];
        mov.u64 %d1, table+8; ld.global.u32 %r1, [%d1]; st.global.u32 [%out], %r1;
        cvta.global.u64 %d2, table + 4; ld.u32 %r1, [%d2]; st.global.u32 [%out+4], %r1;
        mov.u64 %d3, fixed+4; ld.const.u32 %r1, [%d3]; st.global.u32 [%out+8], %r1;
        mov.u32 %r2, tile+12; st.shared.u32 [%r2], 5;
        ld.shared.u32 %r1, [tile+12]; st.global.u32 [%out+12], %r1;
        add.u64 %d4, own+8, 4; st.local.u32 [%d4], 6;
        ld.local.u32 %r1, [own + 12]; st.global.u32 [%out+16], %r1;";
    assert_eq!(words_with(before, body, 5), [12, 11, 21, 5, 6]);
}

#[test]
fn a_function_may_declare_module_variables() {
    let before = "
        .global .u32 count = 100;
        .func (.param .b32 r) next() {
            .global .u32 count = 7;
            .const .u32 step[2] = {1, 2};
            .global .u64 place = count;
            .reg .b32 %a, %b; .reg .b64 %p;
            ld.global.u64 %p, [place];
            ld.global.u32 %a, [%p];
            ld.const.u32 %b, [step+4];
            add.u32 %b, %a, %b;
            st.global.u32 [count], %b;
            st.param.b32 [r], %a;
            ret;
        }";
    let call = |at: u32| {
        format!(
            "{{ .param .b32 r; call.uni (r), next; ld.param.b32 %r1, [r]; }}
             st.global.u32 [%out+{at}], %r1;"
        )
    };
    let body = format!(
        "{} {} ld.global.u32 %r1, [count]; st.global.u32 [%out+8], %r1;
         {{ .global .u32 count = 50; ld.global.u32 %r1, [count]; st.global.u32 [%out+12], %r1; }}",
        call(0),
        call(4)
    );
    // The variables of the function live on between calls, and hide that of the module.
    assert_eq!(words_with(before, &body, 4), [7, 9, 100, 50]);
}

#[test]
fn reserved_shared_memory_follows_that_of_the_kernel() {
    let text = ".extern .shared .align 16 .b8 more[];
        .visible .entry kernel(.param .u64 out) {
            .reg .b64 %out; .reg .b32 %r<8>; .shared .b8 own[16];
            ld.param.u64 %out, [out];
            mov.u32 %r1, more; mov.u32 %r2, own; st.shared.u32 [%r2], %r1;
            mov.u32 %r1, %reserved_smem_offset_begin;
            mov.u32 %r2, %reserved_smem_offset_end;
            mov.u32 %r3, %reserved_smem_offset_cap;
            mov.u32 %r4, %reserved_smem_offset_0;
            mov.u32 %r5, %reserved_smem_offset_1;
            st.shared.u32 [%r5], 9; ld.shared.u32 %r6, [%r5];
            mov.u32 %r7, %total_smem_size;
            st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};
            st.global.v4.u32 [%out+16], {%r5, %r6, %r7, %r7};
            ret; }";
    let device = Device::new(text);
    let out = device.upload32(&[0; 8]);
    device.run(1, 1, &[out]).unwrap();
    // The offsets that an RTX 3060 reports for 16 bytes.
    let offsets = [128, 416, 1152, 128, 128, 9];
    assert_eq!(device.download32(out, 8)[..6], offsets);
    assert_eq!(device.download32(out, 8)[6], 16);
}

#[test]
fn shared_memory_ends_at_its_last_byte_without_a_reserved_part() {
    let device = Device::new(
        ".visible .entry kernel() { .shared .b8 own[16]; st.shared.u32 [own+128], 1; ret; }",
    );
    let fault = device.run(1, 1, &[]).unwrap_err();
    assert_eq!(fault.kind, crate::vm::FaultKind::IllegalAddress);
}

#[test]
fn small_floats_are_converted_both_ways() {
    let two = |a: f32, b: f32| {
        let [a, b] = [a, b].map(f32::to_bits);
        format!("mov.b32 %r1, {a}; mov.b32 %r2, {b};")
    };
    for (a, b, ty, expected) in [
        // The largest number is 6 in e2m1, 7.5 in e2m3 and 28 in e3m2.
        (100.0, -100.0, "e2m1x2", 0x7f),
        (0.25, 0.75, "e2m1x2", 0x02),
        (f32::NAN, -0.0, "e2m1x2", 0x78),
        (2.5, 3.5, "e2m1x2", 0x46),
        (100.0, -100.0, "e2m3x2", 0x1f3f),
        (0.125, 1.0, "e2m3x2", 0x0108),
        (100.0, f32::NAN, "e3m2x2", 0x1f1f),
        (0.0625, -28.0, "e3m2x2", 0x013f),
    ] {
        let body = format!(
            "{} .reg .b8 %b; cvt.rn.satfinite.{ty}.f32 %h1, %r1, %r2;
             cvt.u32.u16 %r3, %h1; st.global.u32 [%out], %r3;",
            two(a, b)
        );
        assert_eq!(words(&body, 1), [expected], "{a} {b} {ty}");
    }
    for (a, b, name, expected) in [
        (1.0, 1.5, "rz", 0x7f7f),
        (1.0, 1.5, "rp", 0x7f80),
        (f32::INFINITY, f32::NAN, "rz", 0xffff),
        (f32::INFINITY, f32::NAN, "rp.satfinite", 0xfeff),
        (0.0, 2.0_f32.powi(-127), "rp", 0x0000),
        (2.0_f32.powi(-127) * 1.5, -4.0, "rp", 0x0181),
    ] {
        let body = format!(
            "{} cvt.{name}.ue8m0x2.f32 %h1, %r1, %r2;
             cvt.u32.u16 %r3, %h1; st.global.u32 [%out], %r3;
             cvt.rn.bf16x2.ue8m0x2 %r4, %h1; st.global.u32 [%out+4], %r4;",
            two(a, b)
        );
        let widened = |scale: u32| match scale {
            0 => 0x40,
            0xff => 0x7fff,
            exponent => exponent << 7,
        };
        let back = widened(expected >> 8) << 16 | widened(expected & 0xff);
        assert_eq!(words(&body, 2), [expected, back], "{a} {b} {name}");
    }
}

#[test]
fn every_small_float_has_the_value_of_its_bits() {
    for (ty, exponents, fractions, step) in [
        ("e2m1x2", 2, 1, 4),
        ("e2m3x2", 2, 3, 8),
        ("e3m2x2", 3, 2, 8),
    ] {
        let codes = 1_u32 << (1 + exponents + fractions);
        let value = |code: u32| {
            let fraction = f64::from(code & ((1 << fractions) - 1)) / f64::from(1 << fractions);
            let exponent = (code >> fractions & ((1 << exponents) - 1)) as i32;
            let bias = (1 << (exponents - 1)) - 1;
            let magnitude = match exponent {
                0 => fraction * f64::from(1 - bias).exp2(),
                _ => (1.0 + fraction) * f64::from(exponent - bias).exp2(),
            };
            let is_negative = code >> (exponents + fractions) != 0;
            half::f16::from_f64(if is_negative { -magnitude } else { magnitude })
        };
        for code in 0..codes {
            let other = codes - 1 - code;
            let body = format!(
                "mov.u16 %h1, {}; cvt.rn.f16x2.{ty} %r1, %h1; st.global.u32 [%out], %r1;
                 cvt.rn.satfinite.{ty}.f16x2 %h2, %r1;
                 cvt.u32.u16 %r2, %h2; st.global.u32 [%out+4], %r2;",
                other << step | code
            );
            let pair = u32::from(value(other).to_bits()) << 16 | u32::from(value(code).to_bits());
            assert_eq!(
                words(&body, 2),
                [pair, other << step | code],
                "{ty} {code:#x}"
            );
        }
    }
}
