//! The matrices of `wmma.load` and `wmma.store`: which bytes the analysis proves.

pub(crate) mod forms;

use std::slice;

use cuda_ptx::analysis::{Argument, Buffer, Outcome, Reason, Verdict};

use crate::support::{analysis, int, launch, reasons};
use forms::{Form, align, bits, elements, forms, instruction, layouts, size};

/// The first byte after all elements, one by one.
fn end(form: Form, layout: &str, stride: u64) -> u64 {
    let [rows, columns] = size(form);
    let mut last = 0;
    for row in 0..rows {
        for column in 0..columns {
            let element = match layout {
                "row" => row * stride + column,
                _ => column * stride + row,
            };
            last = last.max((element + 1) * bits(form.1));
        }
    }
    last.div_ceil(8)
}

/// A kernel around `code`. `%p` is the address in `x` plus `at`, `%s` the number `stride`, and `%q`
/// a shared variable of `shared` bytes plus `at`.
fn kernel(code: &str, shared: u64) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 at, .param .u32 stride) {{\n\
         .reg .b32 %v<9>, %r<9>, %s, %at, %q; .reg .f64 %f<9>; .reg .b64 %d<9>, %p; .reg .pred %c;\n\
         .shared .align 64 .b8 tile[{shared}]; .local .align 64 .b8 own[4096];\n\
         ld.param.u64 %d0, [x]; ld.param.u32 %at, [at]; ld.param.u32 %s, [stride];\n\
         cvt.u64.u32 %d1, %at; add.s64 %p, %d0, %d1;\n\
         mov.u32 %q, tile; add.u32 %q, %q, %at;\n{code}\nret; }}"
    )
}

fn evaluate(code: &str, bytes: u64, shared: u64, at: u64, stride: u64) -> Verdict {
    let buffer = Buffer {
        bytes,
        align: 64,
        is_writable: true,
    };
    let arguments = [
        Argument::buffer(buffer),
        int(at as u32 as i32),
        int(stride as u32 as i32),
    ];
    let launch = launch([1, 1, 1], [32, 1, 1], arguments);
    analysis(&kernel(code, shared), "k").evaluate(&launch)
}

/// The verdict for a matrix of `bytes` bytes in `space`.
fn place(
    form: Form,
    layout: &str,
    space: &str,
    bytes: u64,
    at: u64,
    stride: Option<u64>,
) -> Verdict {
    let (address, shared) = match space {
        ".shared" => ("[%q]", bytes),
        _ => ("[%p]", 16),
    };
    let operand = if stride.is_some() { ", %s" } else { "" };
    let code = instruction(form, layout, space, address, operand);
    evaluate(&code, bytes, shared, at, stride.unwrap_or(0))
}

#[test]
fn every_form_is_proven_to_the_byte() {
    let mut count = 0;
    for form in forms() {
        for &layout in layouts(form) {
            let (align, elements) = (align(form, layout), elements(form, layout));
            let unit = align * 8 / bits(form.1);
            let packed = elements.next_multiple_of(unit);
            for stride in [packed, packed + unit, packed + 5 * unit, 4096] {
                for (space, at) in [(".global", 0), ("", align), (".shared", 3 * align)] {
                    let what = format!("{form:?} {layout} {space} at {at}, stride {stride}");
                    let need = at + end(form, layout, stride);
                    let verdict = place(form, layout, space, need, at, Some(stride));
                    assert!(verdict.is_proven(), "{what}: {verdict}");
                    let accesses = &verdict.contract().expect("not refused").accesses;
                    let Outcome::Proven { low, high, .. } = accesses[0].outcome else {
                        panic!("{what}: {verdict}");
                    };
                    assert_eq!((low, high), (at, need), "{what}");
                    let verdict = place(form, layout, space, need - 1, at, Some(stride));
                    assert!(!verdict.is_proven(), "{what}: {verdict}");
                    count += 1;
                }
            }
            // Without the operand, the stride is the length of a line.
            let need = end(form, layout, elements);
            let is_proven = |bytes| place(form, layout, "", bytes, 0, None).is_proven();
            assert_eq!(is_proven(need), elements % unit == 0, "{form:?} {layout}");
            assert!(!is_proven(need - 1), "{form:?} {layout}");
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn lines_must_be_aligned() {
    for form in forms() {
        for &layout in layouts(form) {
            let align = align(form, layout);
            let unit = align * 8 / bits(form.1);
            let stride = elements(form, layout).next_multiple_of(unit);
            let verdict = place(form, layout, "", 1 << 20, align / 2, Some(stride));
            assert_eq!(
                reasons(&verdict),
                [Reason::Misaligned { align }],
                "{form:?}"
            );
            let verdict = place(form, layout, "", 1 << 20, 0, Some(stride + unit / 2));
            let (multiple, least) = (unit, elements(form, layout));
            assert_eq!(
                reasons(&verdict),
                [Reason::Stride { multiple, least }],
                "{form:?}"
            );
        }
    }
}

const HALVES: Form = ('a', "f16", [16, 16, 16], 8);

#[test]
fn strides_that_overlap_or_wrap_are_not_proven() {
    let unknown = Reason::Stride {
        multiple: 16,
        least: 16,
    };
    // 15 · 2 · 0x8888_8880 is 2^32 · 16 - 256, which would be in the buffer without its high bits.
    for stride in [0, 1, 15, 1 << 31, 0x8888_8880, 0xffff_fff0] {
        let verdict = place(HALVES, "row", "", 1 << 20, 4096, Some(stride));
        assert_eq!(reasons(&verdict), slice::from_ref(&unknown), "{stride}");
        let literal = instruction(HALVES, "row", "", "[%p]", &format!(", {}", stride as i32));
        let verdict = evaluate(&literal, 1 << 20, 16, 4096, 0);
        assert_eq!(reasons(&verdict), slice::from_ref(&unknown), "{stride}");
    }
    // 15 · 2 · 0x4444_4450 is 2^35 + 480: a larger stride than the buffer, in all 64 bits.
    let stride = 0x4444_4450;
    let verdict = place(HALVES, "row", "", 1 << 20, 0, Some(stride));
    let high = 15 * 2 * i128::from(stride) + 32;
    let (low, bytes) = (0, 1 << 20);
    assert_eq!(reasons(&verdict), [Reason::OutOfRange { low, high, bytes }]);
    // The largest one that is allowed.
    let stride = 0x7fff_fff0;
    let need = 15 * 2 * stride + 32;
    let is_proven = |bytes| place(HALVES, "row", "", bytes, 0, Some(stride)).is_proven();
    assert!(is_proven(need) && !is_proven(need - 1));
}

#[test]
fn unknown_strides_and_addresses_are_not_proven() {
    let verdict = |before: &str, address: &str, stride: &str| {
        let code = instruction(HALVES, "row", "", address, stride);
        evaluate(&format!("{before}\n{code}"), 1 << 20, 1 << 16, 0, 16)
    };
    let unknown = Reason::Stride {
        multiple: 16,
        least: 16,
    };
    for (before, stride) in [
        // Loaded, not set, and set on one path only.
        ("ld.global.u32 %r1, [%d0];", "%r1"),
        ("ld.global.u32 %r1, [%d0]; and.b32 %r1, %r1, 0xff0;", "%r1"),
        ("", "%r1"),
        (
            "ld.global.u32 %r2, [%d0]; setp.eq.u32 %c, %r2, 0; @%c mov.u32 %r1, 16;",
            "%r1",
        ),
    ] {
        let verdict = verdict(before, "[%p]", &format!(", {stride}"));
        assert_eq!(reasons(&verdict), slice::from_ref(&unknown), "{before}");
    }
    // A stride from memory is proven if its bits and a comparison bound it.
    let bounded = "ld.global.u32 %r1, [%d0]; and.b32 %r1, %r1, 0xf0; add.u32 %r1, %r1, 16;";
    assert!(verdict(bounded, "[%p]", ", %r1").is_proven());
    let verdict_of = |address, before| reasons(&verdict(before, address, ", %s"));
    assert_eq!(
        verdict_of("[%d3]", "ld.global.u64 %d3, [%d0];"),
        [Reason::UnknownAddress]
    );
    // An address in local memory; the manual has no matrices there.
    let local = "mov.u64 %d3, own; cvta.local.u64 %d3, %d3;";
    assert_eq!(verdict_of("[%d3]", local), [Reason::WrongSpace]);
    let shared = "mov.u64 %d3, tile; cvta.shared.u64 %d3, %d3;";
    assert_eq!(verdict_of("[%d3]", shared), []);
}

#[test]
fn each_thread_has_its_own_matrix() {
    // Thread t reads 16 lines of 32 bytes from 1024 · t, or with a stride of 16 · (t + 1).
    let tiles = "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 1024; add.s64 %d3, %p, %d3;";
    let strides = "mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 16, 16;";
    let is_proven = |before: &str, address: &str, stride: &str, bytes| {
        let code = instruction(HALVES, "col", ".global", address, stride);
        evaluate(&format!("{before} {code}"), bytes, 16, 0, 16).is_proven()
    };
    let need = 31 * 1024 + 15 * 32 + 32;
    assert!(is_proven(tiles, "[%d3]", ", %s", need));
    assert!(!is_proven(tiles, "[%d3]", ", %s", need - 1));
    let need = 15 * 32 * 32 + 32;
    assert!(is_proven(strides, "[%p]", ", %r2", need));
    assert!(!is_proven(strides, "[%p]", ", %r2", need - 1));
    // The offset of the instruction counts.
    let need = 64 + 15 * 32 + 32;
    assert!(is_proven("", "[%p+64]", ", %s", need));
    assert!(!is_proven("", "[%p+64]", ", %s", need - 1));
    assert!(!is_proven("", "[%p+-32]", ", %s", 1 << 20));
}

#[test]
fn stores_of_matrices_need_a_writable_buffer() {
    let code = |side| instruction((side, "f32", [16, 16, 16], 8), "row", "", "[%p]", ", %s");
    let verdict = |side, is_writable| {
        let buffer = Buffer {
            bytes: 1024,
            align: 64,
            is_writable,
        };
        let arguments = [Argument::buffer(buffer), int(0), int(16)];
        let launch = launch([1, 1, 1], [32, 1, 1], arguments);
        analysis(&kernel(&code(side), 16), "k").evaluate(&launch)
    };
    assert!(verdict('c', false).is_proven() && verdict('d', true).is_proven());
    assert_eq!(reasons(&verdict('d', false)), [Reason::ReadOnly]);
    let verdict = verdict('d', true);
    let condition = &verdict.contract().expect("not refused").preconditions[0];
    assert_eq!((condition.bytes, condition.align), (1024, 32));
    assert!(condition.is_written);
}

#[test]
fn a_buffer_with_a_small_alignment_is_not_proven() {
    let code = instruction(HALVES, "row", "", "[%p]", ", %s");
    let verdict = |align| {
        let buffer = Buffer {
            bytes: 4096,
            align,
            is_writable: true,
        };
        let arguments = [Argument::buffer(buffer), int(0), int(16)];
        let launch = launch([1, 1, 1], [32, 1, 1], arguments);
        analysis(&kernel(&code, 16), "k").evaluate(&launch)
    };
    assert!(verdict(32).is_proven());
    assert_eq!(reasons(&verdict(16)), [Reason::Misaligned { align: 32 }]);
}

#[test]
fn forms_that_the_manual_does_not_have_are_refused() {
    let eight = "{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}";
    for form in [
        "load.a.sync.aligned.row.m16n16k16.f32",
        "load.a.sync.aligned.row.m16n16k32.f16",
        "load.a.sync.aligned.row.m16n16k16.e4m3",
        "load.a.sync.aligned.row.m16n16k16.s4",
        "load.a.sync.aligned.row.m16n16k16.tf32",
        "load.a.sync.aligned.row.m16n16k8.f16",
        "load.a.sync.aligned.col.m8n8k32.s4",
        "load.b.sync.aligned.row.m8n8k32.u4",
        "load.b.sync.aligned.row.m8n8k128.b1",
        "load.c.sync.aligned.row.m16n16k16.bf16",
        "load.c.sync.aligned.row.m16n16k16.f64",
        "load.d.sync.aligned.row.m16n16k16.f32",
        "load.a.sync.row.m16n16k16.f16",
        "load.a.aligned.row.m16n16k16.f16",
        "load.a.sync.aligned.m16n16k16.f16",
        "load.a.sync.aligned.row.m16n16k16.volatile.f16",
        "load.a.sync.aligned.row.m16n16k16.const.f16",
        "load.a.sync.aligned.row.m16n16k16.f16.f16",
        "load.a.sync.aligned.row.m16n16k16x2.f16",
    ] {
        let code = format!("wmma.{form} {eight}, [%p], %s;");
        let verdict = evaluate(&code, 1 << 20, 16, 0, 128);
        assert!(verdict.refusal().is_some(), "{form}: {verdict}");
    }
    let more = format!("wmma.load.a.sync.aligned.row.m16n16k16.f16 {eight}, [%p], %s, %s;");
    let verdict = evaluate(&more, 1 << 20, 16, 0, 128);
    assert!(verdict.refusal().is_some(), "{verdict}");
}
