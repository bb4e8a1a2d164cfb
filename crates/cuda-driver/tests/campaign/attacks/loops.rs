//! Kernels whose guards the assembler removed, or computed in another way than the text: conditions
//! in loops that may be endless, counted loops that wrap, and numbers at the end of a range.

use cuda_driver::jit::{JitOptions, OptimizationLevel};

use super::attack::{Attack, kernel};

/// Stores a number that is easy to recognise at `index`, in words of `x`.
fn store(index: &str) -> String {
    format!(
        "mul.wide.s32 %d10, {index}, 4; add.s64 %d10, %d1, %d10; mov.u32 %r19, 0xfeedbeef; \
         st.global.u32 [%d10], %r19;"
    )
}

/// The loop is repeated while the number is not below 32, unless `x[1]` is 0.
fn ends_by_luck(condition: &str, guarded: &str) -> String {
    format!(
        "mov.u32 %r2, 0; L: {condition} @%p1 bra C; {guarded} ld.global.u32 %r6, [%d1+4]; \
         setp.eq.u32 %p3, %r6, 0; @%p3 bra E; C: add.u32 %r2, %r2, 1; bra L; E:"
    )
}

pub(super) fn loops() -> Vec<Attack> {
    let cancelled = ends_by_luck(
        "and.b32 %r3, %r2, %r2; add.u32 %r4, %r1, %r2; sub.u32 %r5, %r4, %r3; \
         setp.ge.u32 %p1, %r5, 32;",
        &store("%r5"),
    );
    let again = ends_by_luck(
        "setp.ge.u32 %p1, %r1, 32;",
        &format!(
            "ld.volatile.global.u32 %r9, [%d1+12]; @%p1 bra E; {}",
            store("%r1")
        ),
    );
    let first_level = JitOptions::new().optimization_level(OptimizationLevel::O1);
    let wrapping = "cvt.u32.u64 %r2, %d2; L: st.global.u32 [%d1], %r2; add.s32 %r2, %r2, 1; \
                    setp.lt.s32 %p1, %r2, 1000; @%p1 bra L; setp.ge.s32 %p2, %r2, 1032; @%p2 ret; \
                    mul.wide.s32 %d4, %r2, 4; add.s64 %d4, %d1, %d4; st.global.u32 [%d4+-4000], 1;";
    let repeated = format!(
        "mov.u32 %r2, %tid.x; L: {} add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, %r1; @%p1 bra L;",
        store("%r2")
    );
    let not_equal = "mov.u32 %r2, 0x7fffff00; mov.u32 %r3, 0; L: shr.u32 %r4, %r3, 2; \
                     mad.wide.u32 %d4, %r4, 4, %d1; st.global.u32 [%d4], 1; add.u32 %r2, %r2, 4; \
                     add.u32 %r3, %r3, 4; setp.ne.u32 %p1, %r2, %r1; @%p1 bra L;";
    let absolute = format!(
        "abs.s32 %r2, %r1; setp.lt.s32 %p1, %r2, 0; @%p1 ret; setp.ge.s32 %p2, %r2, 32; @%p2 ret; {}",
        store("%r2")
    );
    let field = "cvt.u32.u64 %r2, %d2; mov.u64 %d4, 1000; bfe.u64 %d5, %d4, 0, %r2; \
                 shl.b64 %d5, %d5, 2; add.s64 %d5, %d1, %d5; st.global.u32 [%d5], %r1;";
    let many = |value: &str| {
        let mut body = format!(
            ".shared .align 8 .b32 s[64]; .reg .b32 %v<60>; ld.global.nc.u32 %r4, [%d1]; {value} \
             setp.ge.u32 %p1, %r5, 32; @%p1 ret; "
        );
        for number in 0..60 {
            body += &format!("ld.volatile.shared.u32 %v{number}, [s+{}]; ", 4 * number);
        }
        body += "mov.u32 %r3, 1000; st.volatile.global.u32 [%d1], %r3; membar.gl; ";
        for number in 0..60 {
            let at = 4 * ((number * 7) % 60);
            body += &format!("st.volatile.shared.u32 [s+{at}], %v{number}; ");
        }
        kernel(".maxnreg 24", &(body + &store("%r5")))
    };
    vec![
        Attack::new("a number cancels the counter", kernel("", &cancelled))
            .n(1000)
            .word(1, 0),
        Attack {
            options: first_level,
            ..Attack::new("a condition is tested again", kernel("", &again))
                .n(1000)
                .word(1, 0)
        },
        Attack::new("the distance to the limit wraps", kernel("", wrapping)).m(0x8000_03e7),
        Attack::new("a loop is repeated too often", kernel("", &repeated))
            .n(0x8000_0005)
            .block(32),
        Attack::new("an unequal counter wraps", kernel("", not_equal))
            .n(0x8000_0004)
            .words(65),
        Attack::new("an absolute value is negative", kernel("", &absolute)).n(0x8000_0000),
        Attack::new("a field has 256 bits", kernel("", field)).m(256),
        Attack::new(
            "a read-only load behind a selection",
            many("slct.b32.s32 %r5, %r4, %r4, 1;"),
        ),
        Attack::new(
            "a read-only load behind local memory",
            many(".local .align 8 .b32 l[4]; st.local.u32 [l], %r4; ld.local.u32 %r5, [l];"),
        ),
    ]
}
