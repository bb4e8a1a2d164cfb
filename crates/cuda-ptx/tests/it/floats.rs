//! Indices that a comparison of a floating-point number bounds.

use cuda_ptx::analysis::{LaunchValues, Reason, Verdict};

use crate::support::{analysis, input, launch, reasons};

/// The index of the reduction of a large argument in NVIDIA's `sinf`. The exponent of a number of
/// at least 105,615 is from 143 to 255, so the index is from 0 to 3, and the access is to the bytes
/// from 12 to 28.
const FLOAT: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
    .local .align 4 .b8 a[28];
    .reg .pred %p<3>; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [x];
    ld.global.f32 %f1, [%d1];
    ld.global.f32 %f5, [%d1];
    abs.f32 %f2, %f1;
    setp.ltu.f32 %p1, %f2, 0f47CE4780;
    @%p1 bra end;
    mov.b32 %r1, %f1;
    shr.u32 %r2, %r1, 23;
    and.b32 %r3, %r2, 255;
    add.s32 %r4, %r3, -128;
    shr.u32 %r5, %r4, 5;
    mul.wide.u32 %d2, %r5, 4;
    mov.u64 %d3, a;
    sub.s64 %d4, %d3, %d2;
    ld.local.u32 %r6, [%d4+24];
end:
    ret;
}
";

/// The same for `sin`: the exponent of a number of at least 2³¹ is from 1054 to 2047, so the index
/// is from 0 to 15.
const DOUBLE: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
    .local .align 8 .b8 a[128];
    .reg .pred %p<3>; .reg .f64 %f<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [x];
    ld.global.f64 %f1, [%d1];
    abs.f64 %f2, %f1;
    setp.ltu.f64 %p1, %f2, 0d41E0000000000000;
    @%p1 bra end;
    mov.b64 {_, %r1}, %f1;
    shr.u32 %r2, %r1, 20;
    and.b32 %r3, %r2, 2047;
    add.s32 %r4, %r3, -1024;
    shr.u32 %r5, %r4, 6;
    mul.wide.u32 %d2, %r5, 8;
    mov.u64 %d3, a;
    add.s64 %d4, %d3, %d2;
    ld.local.u64 %d5, [%d4];
end:
    ret;
}
";

fn evaluate(text: &str) -> Verdict {
    let launch: LaunchValues = launch([1, 1, 1], [32, 1, 1], [input(64)]);
    analysis(text, "k").evaluate(&launch)
}

/// Replaces a part of a kernel.
#[track_caller]
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[track_caller]
fn is_out_of_range(text: &str) {
    let verdict = evaluate(text);
    let reasons = reasons(&verdict);
    let is_one = matches!(reasons.as_slice(), [Reason::OutOfRange { .. }]);
    assert!(is_one, "{verdict}");
}

#[test]
fn the_exponent_of_a_compared_float_is_an_index() {
    let verdict = evaluate(FLOAT);
    assert!(verdict.is_proven(), "{verdict}");
    let lower = changed(FLOAT, "%d4+24", "%d4+12");
    assert!(evaluate(&lower).is_proven());
    // One element less at either end, or one byte less.
    is_out_of_range(&changed(FLOAT, "%d4+24", "%d4+8"));
    is_out_of_range(&changed(FLOAT, "a[28]", "a[27]"));
    let verdict = evaluate(DOUBLE);
    assert!(verdict.is_proven(), "{verdict}");
    is_out_of_range(&changed(DOUBLE, "a[128]", "a[127]"));
    // The lowest index of 2³¹ is 0.
    is_out_of_range(&changed(DOUBLE, "[%d4];", "[%d4+-8];"));
}

#[test]
fn equivalent_comparisons_bound_the_same_index() {
    for (from, to) in [
        (
            "ltu.f32 %p1, %f2, 0f47CE4780",
            "gtu.f32 %p1, 0f47CE4780, %f2",
        ),
        ("ltu.f32", "ltu.ftz.f32"),
        ("abs.f32 %f2, %f1", "abs.ftz.f32 %f2, %f1"),
        ("abs.f32 %f2, %f1", "abs.f32 %f3, %f1; mov.f32 %f2, %f3"),
        ("abs.f32 %f2, %f1", "mov.f32 %f3, %f1; abs.f32 %f2, %f3"),
        ("abs.f32 %f2, %f1", "mov.f32 %f2, %f1"),
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.ge.f32 %p2, %f2, 0f47CE4780; not.pred %p1, %p2",
        ),
        ("and.b32 %r3, %r2, 255", "bfe.u32 %r3, %r1, 23, 8"),
        (
            "mov.b32 %r1, %f1",
            "mul.f32 %f3, %f1, %f1; mov.b32 %r1, %f1",
        ),
    ] {
        let text = changed(FLOAT, from, to);
        let verdict = evaluate(&text);
        assert!(verdict.is_proven(), "{to}: {verdict}");
    }
}

#[test]
fn a_comparison_of_another_number_bounds_nothing() {
    for (from, to) in [
        // A second load may return another number.
        ("abs.f32 %f2, %f1", "abs.f32 %f2, %f5"),
        ("mov.b32 %r1, %f1", "mov.b32 %r1, %f5"),
        // The absolute value of something else, or a number that is changed in between.
        (
            "abs.f32 %f2, %f1",
            "mul.f32 %f3, %f1, 0f40000000; abs.f32 %f2, %f3",
        ),
        (
            "mov.b32 %r1, %f1",
            "mul.f32 %f1, %f1, 0f00800000; mov.b32 %r1, %f1",
        ),
        // Only some numbers are replaced by their absolute value.
        (
            "abs.f32 %f2, %f1",
            "mov.f32 %f2, %f5; setp.eq.f32 %p2, %f5, %f5; @%p2 abs.f32 %f2, %f1",
        ),
        // True also for numbers that are small or negative, or for NaN.
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.gtu.f32 %p1, %f2, 0f47CE4780",
        ),
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.ltu.f32 %p1, %f2, 0f00000000",
        ),
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.ltu.f32 %p1, %f2, 0fC7CE4780",
        ),
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.ltu.f32 %p1, %f2, %f5",
        ),
        (
            "setp.ltu.f32 %p1, %f2, 0f47CE4780",
            "setp.ltu.f64 %p1, %d4, 0d47CE478000000000",
        ),
        // A smaller constant: the index is larger.
        ("0f47CE4780", "0f3F800000"),
        ("@%p1 bra", "@!%p1 bra"),
    ] {
        is_out_of_range(&changed(FLOAT, from, to));
    }
}

/// The assembler may compute the sum of a product in one step for one use, and in two for another.
#[test]
fn a_sum_that_may_be_combined_with_a_product_bounds_nothing() {
    let sum = |product: &str, sum: &str| {
        let new = format!("{product}.f32 %f6, %f5, %f5; {sum}.f32 %f1, %f6, %f5; abs.f32 %f2, %f1");
        changed(FLOAT, "abs.f32 %f2, %f1", &new)
    };
    is_out_of_range(&sum("mul", "add"));
    is_out_of_range(&sum("mul", "sub"));
    is_out_of_range(&changed(
        &sum("mul", "add"),
        "abs.f32 %f2, %f1",
        "mov.f32 %f2, %f1",
    ));
    for text in [
        sum("mul.rn", "add"),
        sum("mul", "add.rn"),
        sum("add", "add"),
    ] {
        let verdict = evaluate(&text);
        assert!(verdict.is_proven(), "{verdict}");
    }
}

/// The smaller of a loaded number of the type `bf16` and 10 is negative or NaN for some numbers,
/// and no result of the other instructions is that of an integer instruction.
#[test]
fn bf16_instructions_are_not_integer_instructions() {
    let kernel = |instruction: &str| {
        format!(
            ".version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x) {{
    .reg .pred %p<3>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [x];
    ld.global.u16 %h1, [%d1];
    mov.b16 %h2, 10;
    mov.b16 %h3, 0x8000;
    mov.b16 %h4, 0;
    mov.b32 %r1, {{%h3, %h3}};
    mov.b32 %r2, {{%h4, %h4}};
    {instruction}
    cvt.u64.u16 %d2, %h5;
    add.s64 %d3, %d1, %d2;
    @%p1 ld.global.u8 %h6, [%d3];
    ret;
}}
"
        )
    };
    let bound = "setp.eq.u16 %p1, %h4, %h4; min.u16 %h5, %h1, %h2;";
    assert!(evaluate(&kernel(bound)).is_proven());
    // As integers, all of these have a result below 64 or a false predicate.
    for instruction in [
        "setp.eq.u16 %p1, %h4, %h4; min.bf16 %h5, %h1, %h2;",
        "setp.eq.u16 %p1, %h4, %h4; max.bf16 %h5, %h4, %h2;",
        "setp.eq.u16 %p1, %h4, %h4; add.bf16 %h5, %h4, %h2;",
        "setp.eq.u16 %p1, %h4, %h4; neg.bf16 %h5, %h4;",
        "mov.b16 %h5, 500; setp.eq.bf16 %p1, %h3, %h4;",
        "mov.b16 %h5, 500; setp.eq.bf16x2 %p1|%p2, %r1, %r2;",
    ] {
        is_out_of_range(&kernel(instruction));
    }
}
