//! Indices that a compiler writes in an unusual way: with masks, inserted fields, and counters that
//! go down or are truncated to fewer bits.

use cuda_ptx::analysis::{Argument, Buffer, Reason, Verdict};

use crate::support::{analysis, input, int, launch, output, reasons};

#[test]
fn clamped_rows_and_columns_are_proven() {
    // As in the filter of an image: the numbers come from a conversion and may be any, and the
    // kernel loads the pixel, the next one, and those below.
    let verdict = |clamp: [&str; 2], width: i32, height: i32, bytes: u64| {
        let [first, second] = clamp;
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u32 w, .param .u32 h, .param .f32 f) {{\n\
             .reg .b32 %r<12>; .reg .b64 %rd<9>; .reg .f32 %f<5>;\n\
             ld.param.u64 %rd1, [x];\nld.param.u32 %r1, [w];\nld.param.u32 %r2, [h];\n\
             ld.param.f32 %f1, [f];\ncvt.rzi.s32.f32 %r3, %f1;\nadd.s32 %r4, %r1, -2;\n\
             {first} %r3, %r3, $0;\n{second} %r3, %r3, $1;\n\
             add.f32 %f2, %f1, %f1;\ncvt.rzi.s32.f32 %r5, %f2;\nadd.s32 %r6, %r2, -2;\n\
             {first} %r5, %r5, $2;\n{second} %r5, %r5, $3;\n\
             mad.lo.s32 %r7, %r5, %r1, %r3;\nmul.wide.s32 %rd2, %r7, 4;\n\
             add.s64 %rd3, %rd1, %rd2;\nld.global.f32 %f3, [%rd3];\n\
             mul.wide.s32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd3, %rd4;\n\
             ld.global.f32 %f4, [%rd5+4];\nret; }}"
        );
        let ends = match first {
            "max.s32" => ["0", "%r4", "0", "%r6"],
            _ => ["%r4", "0", "%r6", "0"],
        };
        let places = ["$0", "$1", "$2", "$3"].iter().zip(ends);
        let text = places.fold(text, |text, (place, end)| text.replace(place, end));
        let arguments = [
            input(bytes),
            int(width),
            int(height),
            Argument::scalar(2.5_f32.to_le_bytes()),
        ];
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [1, 1, 1], arguments))
    };
    for clamp in [["max.s32", "min.s32"], ["min.s32", "max.s32"]] {
        let all = 4 * 100 * 80;
        let exact = verdict(clamp, 100, 80, all);
        assert!(exact.is_proven(), "{exact}");
        assert_eq!(reasons(&verdict(clamp, 100, 80, all - 1)).len(), 1);
    }
    // With one row, the last row but one is -1.
    let low = ["max.s32", "min.s32"];
    assert!(!verdict(low, 100, 1, 1 << 20).is_proven());
    assert!(verdict(["min.s32", "max.s32"], 100, 1, 4 * 200).is_proven());
    // As an unsigned number, -1 is the largest, so that the first clamp has no effect.
    assert!(!verdict(["min.u32", "max.s32"], 1, 1, 1 << 20).is_proven());
}

#[test]
fn a_number_in_a_struct_bounds_the_index() {
    // A struct that is passed by value, as NVRTC compiles it: its address is in a register.
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry k(.param .u64 x, .param .align 8 .b8 info[16]) {\n\
        .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<6>;\n\
        mov.b64 %rd1, info;\nld.param.u64 %rd2, [x];\n\
        mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n\
        mad.lo.s32 %r4, %r1, %r2, %r3;\nld.param.u32 %r5, [%rd1+8];\n\
        setp.ge.u32 %p, %r4, %r5;\n@%p ret;\nmul.wide.u32 %rd3, %r4, 4;\n\
        add.s64 %rd4, %rd2, %rd3;\nst.global.u32 [%rd4], %r4;\nret; }";
    let analysis = analysis(text, "k");
    let verdict = |count: u32, bytes: u64| {
        let mut info = [0xff; 16];
        info[8..12].copy_from_slice(&count.to_le_bytes());
        let arguments = [output(bytes), Argument::scalar(info)];
        analysis.evaluate(&launch([4, 1, 1], [256, 1, 1], arguments))
    };
    assert!(verdict(1000, 4000).is_proven());
    assert_eq!(reasons(&verdict(1001, 4000)).len(), 1);
    assert_eq!(reasons(&verdict(1000, 3999)).len(), 1);
    // The verdict holds for all launches with these bytes.
    assert_eq!(analysis.relevant(), [(0, 0, 8), (1, 8, 4)]);
}

#[test]
fn one_of_two_aligned_addresses_is_aligned() {
    // A loaded value chooses between `x` and `x` plus a distance, and again between that and 64.
    let verdict = |distance: u32, bytes: u64| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u64 c) {{\n\
             .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<6>;\n\
             ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [c];\nld.global.u32 %r1, [%rd2];\n\
             setp.eq.s32 %p, %r1, 0;\nadd.s64 %rd3, %rd1, {distance};\n\
             selp.b64 %rd4, %rd1, %rd3, %p;\n\
             ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd4];\n\
             setp.eq.s32 %p, %r1, 1;\nadd.s64 %rd3, %rd1, 64;\n\
             selp.b64 %rd4, %rd3, %rd4, %p;\n\
             ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd4+16];\nret; }}"
        );
        let arguments = [input(bytes), input(4)];
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [1, 1, 1], arguments))
    };
    assert!(verdict(32, 96).is_proven());
    assert!(verdict(16, 96).is_proven());
    assert_eq!(reasons(&verdict(32, 95)).len(), 1);
    let misaligned = Reason::Misaligned { align: 16 };
    assert_eq!(reasons(&verdict(8, 96)), [misaligned.clone(), misaligned]);
}

#[test]
fn an_index_that_counts_down_in_32_bits_is_proven() {
    // `for (unsigned i = 0; i < n; i++) x[(unsigned)(n - 1 - i)]` with a number of 64 bits, as
    // NVRTC compiles it: the sum has a carry into bit 32, which the mask removes.
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u64 n) {\n\
         .reg .b32 %r<3>; .reg .b64 %rd<10>; .reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [n];\n\
         setp.eq.s64 %p1, %rd2, 0;\n@%p1 bra $end;\nmov.u32 %r1, 0;\n\
         $loop: not.b32 %r2, %r1;\ncvt.u64.u32 %rd3, %r2;\nadd.s64 %rd4, %rd3, %rd2;\n\
         shl.b64 %rd5, %rd4, 3;\nand.b64 %rd6, %rd5, 34359738360;\n\
         add.s64 %rd7, %rd1, %rd6;\nld.global.u64 %rd8, [%rd7];\n\
         add.s32 %r1, %r1, 1;\ncvt.u64.u32 %rd9, %r1;\nsetp.lt.u64 %p2, %rd9, %rd2;\n\
         @%p2 bra $loop;\n$end: ret; }";
    let verdict = |n: u64, bytes| {
        let arguments = [input(bytes), Argument::scalar(n.to_le_bytes())];
        analysis(text, "k").evaluate(&launch([1, 1, 1], [1, 1, 1], arguments))
    };
    for n in [1, 2, 5, 1000, 1 << 31] {
        let exact = verdict(n, 8 * n);
        assert!(exact.is_proven(), "{n}: {exact}");
        assert!(!verdict(n, 8 * n - 1).is_proven(), "{n}");
    }
    // The counter of 32 bits wraps, and the mask of the index removes bit 32.
    assert!(!verdict((1 << 32) + 2, 8 << 10).is_proven());
}

#[test]
fn inserted_fields_are_sums() {
    // `bfi` puts the low bits of the first number over bits of the second one. Thread `t` of 32.
    let verdict = |field: &str, other: &str, at: u32, length: u32, bytes: u64| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n\
             .reg .b32 %r<9>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [x];\n\
             mov.u32 %r1, %tid.x;\n{field}\n{other}\n\
             bfi.b32 %r4, %r2, %r3, {at}, {length};\nmul.wide.s32 %rd2, %r4, 4;\n\
             add.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r1;\nret; }}"
        );
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [32, 1, 1], [output(bytes)]))
    };
    let exact = |field: &str, other: &str, at, length, last: u64| {
        let bytes = 4 * last + 4;
        let proven = verdict(field, other, at, length, bytes);
        assert!(proven.is_proven(), "{proven}");
        assert!(!verdict(field, other, at, length, bytes - 1).is_proven());
    };
    let (quotient, rest) = ("shr.u32 %r2, %r1, 2;", "and.b32 %r3, %r1, 3;");
    // Rows of 8 words: 7 · 8 + 3.
    exact(quotient, rest, 3, 29, 59);
    // All bits beyond the register are dropped.
    exact(quotient, rest, 3, 255, 59);
    // Two bits of the quotient: 3 · 8 + 3.
    exact(quotient, rest, 3, 2, 27);
    // No bit is inserted.
    exact(quotient, rest, 3, 0, 3);
    exact(quotient, rest, 32, 8, 3);
    // The field replaces the bits of the other number: 15 · 8, and the lowest three bits of t.
    exact("and.b32 %r2, %r1, 15;", "mov.u32 %r3, %r1;", 3, 29, 127);
}

#[test]
fn a_byte_address_rounded_to_its_word_is_proven() {
    // An atomic operation on a byte uses the word around it.
    let verdict = |mask: i32, offset: u32, bytes, align| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n\
             .reg .b32 %r<3>; .reg .b64 %rd<6>;\nld.param.u64 %rd1, [x];\n\
             mov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd2, %r1;\nadd.s64 %rd3, %rd1, %rd2;\n\
             add.s64 %rd4, %rd3, {offset};\nand.b64 %rd5, %rd4, {mask};\n\
             atom.add.u32 %r2, [%rd5], 1;\nret; }}"
        );
        let buffer = Buffer {
            bytes,
            align,
            is_writable: true,
        };
        let arguments = [Argument::buffer(buffer)];
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [30, 1, 1], arguments))
    };
    // The last byte is number 29, in the word at 28.
    for align in [4, 8, 256] {
        assert!(verdict(-4, 0, 32, align).is_proven());
        assert!(!verdict(-4, 0, 31, align).is_proven());
    }
    assert!(verdict(-4, 3, 36, 4).is_proven());
    assert!(!verdict(-4, 3, 35, 4).is_proven());
    // The mask may go below the start of a buffer that is less aligned.
    assert!(!verdict(-4, 0, 4096, 2).is_proven());
    assert!(!verdict(-8, 0, 4096, 4).is_proven());
    // The other bits of a buffer's address are not known.
    assert!(!verdict(0xff0, 0, 4096, 256).is_proven());
}

#[test]
fn a_loop_that_counts_down_to_zero_is_proven() {
    // The rest of an unrolled loop. `count` is 1 to 3, and the loop ends when it is 0.
    let verdict = |count: &str, bytes| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u32 n) {{\n.reg .b32 %r<4>;\n\
             .reg .b64 %rd<3>; .reg .pred %p<3>;\nld.param.u64 %rd1, [x];\n\
             ld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\n{count}\n\
             setp.eq.s32 %p1, %r3, 0;\n@%p1 bra $end;\n\
             $loop: st.global.u32 [%rd1], %r2;\nadd.s64 %rd1, %rd1, 4;\n\
             add.s32 %r3, %r3, -1;\nsetp.ne.s32 %p2, %r3, 0;\n@%p2 bra $loop;\n\
             $end: ret; }}"
        );
        let arguments = [output(bytes), int(7)];
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [256, 1, 1], arguments))
    };
    let counts = [
        ("mov.u32 %r3, 1;", 4),
        ("mov.u32 %r3, 2;", 8),
        ("and.b32 %r3, %r1, 3;", 12),
        ("and.b32 %r3, %r2, 3;", 12),
    ];
    for (count, bytes) in counts {
        let proven = verdict(count, bytes);
        assert!(proven.is_proven(), "{count}: {proven}");
        assert!(!verdict(count, bytes - 1).is_proven(), "{count}");
    }
    // From a negative number, the loop ends only after the counter wraps.
    assert!(!verdict("mov.u32 %r3, -1;", 1 << 20).is_proven());
    // Some threads begin with -1.
    let odd = "and.b32 %r3, %r2, 3;\nsub.s32 %r3, %r3, 1;";
    assert!(!verdict(odd, 1 << 20).is_proven());
}

#[test]
fn a_counter_of_64_bits_truncated_to_32_is_proven() {
    // As in loops over the rank of a thread in a cooperative grid.
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 n, .param .u64 step) {\n\
         .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [x];\nld.param.u32 %r1, [n];\nld.param.u64 %rd2, [step];\n\
         mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmul.wide.u32 %rd3, %r2, %r3;\n\
         mov.u32 %r4, %tid.x;\ncvt.u64.u32 %rd4, %r4;\nadd.s64 %rd5, %rd3, %rd4;\n\
         cvt.u32.u64 %r5, %rd5;\nsetp.ge.u32 %p1, %r5, %r1;\n@%p1 bra $end;\n\
         $loop: and.b64 %rd6, %rd5, 4294967295;\nshl.b64 %rd7, %rd5, 2;\n\
         and.b64 %rd8, %rd7, 17179869180;\nadd.s64 %rd9, %rd1, %rd8;\n\
         st.global.u32 [%rd9], %r1;\nadd.s64 %rd5, %rd6, %rd2;\n\
         cvt.u32.u64 %r6, %rd5;\nsetp.lt.u32 %p2, %r6, %r1;\n@%p2 bra $loop;\n$end: ret; }";
    let verdict = |n: u32, step: u64, bytes| {
        let arguments = [
            output(bytes),
            Argument::scalar(n.to_le_bytes()),
            Argument::scalar(step.to_le_bytes()),
        ];
        analysis(text, "k").evaluate(&launch([32, 1, 1], [128, 1, 1], arguments))
    };
    for n in [5000, 100_000, u32::MAX - 4096] {
        let exact = verdict(n, 4096, 4 * u64::from(n));
        assert!(exact.is_proven(), "{n}: {exact}");
        assert!(!verdict(n, 4096, 4 * u64::from(n) - 1).is_proven(), "{n}");
    }
    // A sum that passes 2³² is truncated, so the index has 32 bits in any case.
    assert!(verdict(u32::MAX, (1 << 32) + 4096, 4 << 32).is_proven());
}

#[test]
fn an_equal_masked_number_is_bounded() {
    // `if ((t & -16) == 80) x[t - 80] = t`, which a compiler makes of `t >= 80 && t < 96`.
    let verdict = |relation: &str, bytes| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n\
             .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .pred %p<2>;\nld.param.u64 %rd1, [x];\n\
             mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, -16;\n\
             setp.{relation}.s32 %p1, %r2, 80;\n@%p1 bra $end;\nadd.s32 %r3, %r1, -80;\n\
             mul.wide.u32 %rd2, %r3, 4;\nadd.s64 %rd3, %rd1, %rd2;\n\
             st.global.u32 [%rd3], %r1;\n$end: ret; }}"
        );
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [128, 1, 1], [output(bytes)]))
    };
    assert!(verdict("ne", 64).is_proven());
    assert!(!verdict("ne", 63).is_proven());
    assert!(!verdict("eq", 1 << 20).is_proven());
}

#[test]
fn a_predicated_minimum_or_maximum_may_not_be_computed() {
    // The predicate comes from memory. If it is false, the index is the number before: 1000, or 10
    // with 100 subtracted.
    let verdict = |guard: &str, operation: &str, branch: &str, bytes: u64| {
        let (first, old, step, end, offset) = match operation {
            "min" => (100, 1000, "shr.u32 %r1, %r1, 1;", 0, 0),
            _ => (100, 10, "add.u32 %r1, %r1, 1;", 200, -100),
        };
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u64 flags) {{\n\
             .reg .pred %p<3>; .reg .f32 %f<2>; .reg .b32 %r<3>; .reg .b64 %d<5>;\n\
             ld.param.u64 %d1, [x];\nld.param.u64 %d2, [flags];\n\
             ld.global.f32 %f1, [%d2];\nsetp.neu.f32 %p1, %f1, 0f00000000;\n\
             mov.u32 %r1, {first};\nLOOP:\nmov.u32 %r2, {old};\n\
             {guard} {operation}.u32 %r2, %r1, %r2;\n{branch}\n\
             cvt.u64.u32 %d3, %r2;\nadd.s64 %d4, %d1, %d3;\nst.global.u8 [%d4+{offset}], %r1;\n\
             {step}\nsetp.ne.s32 %p2, %r1, {end};\n@%p2 bra LOOP;\nret;\n}}"
        );
        let arguments = [output(bytes), input(4)];
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [1, 1, 1], arguments))
    };
    // A number that a branch depends on is also computed while loops are analysed.
    for branch in ["", "setp.gt.u32 %p2, %r2, 5000;\n@%p2 ret;"] {
        // Of the smaller numbers, the first is 100; of the larger ones, the last is 199.
        for (operation, bytes) in [("min", 101), ("max", 100)] {
            let always = verdict("", operation, branch, bytes);
            assert!(always.is_proven(), "{operation}: {always}");
            let guarded = verdict("@%p1", operation, branch, bytes);
            assert_eq!(reasons(&guarded).len(), 1, "{operation}: {guarded}");
        }
        assert!(verdict("@%p1", "min", branch, 1001).is_proven());
    }
}

#[test]
fn a_jump_needs_an_index_in_its_table() {
    // The table has three targets. An index behind its end jumps anywhere.
    let verdict = |index: &str, n: i32| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u32 n) {{\n\
             .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<2>;\n\
             ld.param.u64 %d1, [x];\nld.param.u32 %r1, [n];\n{index}\n\
             T: .branchtargets A, B, C;\nbrx.idx %r1, T;\n\
             A: st.global.u32 [%d1], %r1;\nB: st.global.u32 [%d1+4], %r1;\nC: ret;\n}}"
        );
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [8, 1, 1], [output(8), int(n)]))
    };
    let is_refused = |verdict: &Verdict| match verdict {
        Verdict::Refused(refusal) => refusal.reason.contains("table"),
        _ => false,
    };
    for n in 0..3 {
        assert!(verdict("", n).is_proven(), "{n}");
    }
    for n in [3, -1] {
        let verdict = verdict("", n);
        assert!(is_refused(&verdict), "{n}: {verdict}");
    }
    let loaded = "ld.global.u32 %r1, [%d1];";
    for guard in [
        "setp.gt.u32 %p1, %r1, 2;\n@%p1 bra C;",
        "min.u32 %r1, %r1, 2;",
        "and.b32 %r1, %r1, 1;",
    ] {
        let verdict = verdict(&format!("{loaded}\n{guard}"), 0);
        assert!(verdict.is_proven(), "{guard}: {verdict}");
    }
    for guard in [
        "",
        "setp.gt.u32 %p1, %r1, 3;\n@%p1 bra C;",
        "setp.gt.s32 %p1, %r1, 2;\n@%p1 bra C;",
        "and.b32 %r1, %r1, 3;",
        "and.b32 %r1, %r2, 1;",
    ] {
        let verdict = verdict(&format!("{loaded}\n{guard}"), 0);
        assert!(is_refused(&verdict), "{guard}: {verdict}");
    }
}

#[test]
fn results_of_unset_registers_prove_nothing() {
    // A compiler may compute the index once for the comparison and again for the access, and a
    // register that is not set may differ.
    let verdict = |index: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 x, .param .u32 n) {{\n\
             .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<5>;\n\
             ld.param.u64 %d1, [x];\nld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\n{index}\n\
             setp.ge.u32 %p1, %r3, 8;\n@%p1 ret;\n\
             mul.wide.u32 %d2, %r3, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r2;\n\
             ret;\n}}"
        );
        analysis(&text, "k").evaluate(&launch([1, 1, 1], [64, 1, 1], [output(32), int(5)]))
    };
    for (set, unset) in [
        ("add.s32 %r3, %r2, %r1;", "add.s32 %r3, %r2, %r8;"),
        ("mul24.lo.u32 %r3, %r2, %r1;", "mul24.lo.u32 %r3, %r2, %r8;"),
        (
            "lop3.b32 %r3, %r2, %r2, %r1, 150;",
            "lop3.b32 %r3, %r2, %r2, %r8, 150;",
        ),
        ("popc.b32 %r3, %r1;", "popc.b32 %r3, %r8;"),
        (
            "mov.b64 %d4, {%r1, %r2};\ncvt.u32.u64 %r3, %d4;",
            "mov.b64 %d4, {%r8, %r2};\ncvt.u32.u64 %r3, %d4;",
        ),
        (
            "setp.lt.f32 %p2, %r1, %r2;\nselp.b32 %r3, 1, 2, %p2;",
            "setp.lt.f32 %p2, %r8, %r2;\nselp.b32 %r3, %r1, %r2, %p2;",
        ),
        (
            "setp.eq.xor.s32 %p2, %r1, 0, %p2;\nmov.u32 %r3, %r2;",
            "setp.eq.xor.s32 %p2, %r1, 0, %p3;\nselp.b32 %r3, %r1, %r2, %p2;",
        ),
    ] {
        assert!(verdict(set).is_proven(), "{set}: {}", verdict(set));
        let verdict = verdict(unset);
        assert!(!verdict.is_proven(), "{unset}: {verdict}");
    }
}
