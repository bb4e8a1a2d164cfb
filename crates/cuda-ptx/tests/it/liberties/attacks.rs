//! Kernels that wrote outside of their arguments on a GPU although the analysis had proven them.

use cuda_ptx::analysis::{Outcome, Reason};
use cuda_ptx::instrument::{Check, instrument};

use super::{Kernel, analysed, store, text, verdict};
use crate::support::{analysis, int, launch, output, reasons};

fn kernel(body: impl Into<String>) -> Kernel {
    Kernel {
        name: "k".to_owned(),
        directives: "",
        body: body.into(),
    }
}

#[test]
fn address_of_a_shared_variable_wraps_at_32_bits() {
    let at = |offset: i64| {
        let back = -offset;
        kernel(format!(
            ".shared .align 8 .b32 s[16]; mov.u64 %d3, s+{offset}; mov.u64 %d4, s; \
             sub.s64 %d5, %d3, %d4; add.s64 %d5, %d5, {back}; add.s64 %d6, %d1, %d5; \
             st.global.u32 [%d6], %r1;"
        ))
    };
    assert!(verdict(&at(64), 0).is_proven());
    let verdict = verdict(&at(-4096), 0);
    assert!(!verdict.is_proven(), "{verdict}");
}

#[test]
fn shared_address_in_a_cluster_has_its_rank() {
    let shifted = |by: u32| Kernel {
        directives: ".reqnctapercluster 4",
        ..kernel(format!(
            ".shared .align 8 .b32 s[16]; mov.u32 %r4, s; shr.u32 %r5, %r4, {by}; \
                 mul.lo.u32 %r5, %r5, 37; {}",
            store("%r5")
        ))
    };
    assert!(verdict(&shifted(30), 0).is_proven());
    assert!(!verdict(&shifted(25), 0).is_proven());
    let anywhere = Kernel {
        directives: ".reqnctapercluster 4",
        ..kernel(format!(
            ".shared .align 8 .b32 s[16]; mov.u32 %r4, s; setp.lt.u32 %p1, %r4, 16777217; \
             @%p1 ret; {}",
            store("%r1")
        ))
    };
    assert!(!verdict(&anywhere, 1000).is_proven());
}

#[test]
fn store_behind_an_endless_loop_is_not_unreached() {
    let endless = kernel(format!(
        "L: setp.ge.u32 %p1, %r1, 37; @%p1 bra L; {}",
        store("%r1")
    ));
    let reasons = reasons(&verdict(&endless, 1000));
    assert!(
        matches!(reasons[..], [Reason::OutOfRange { .. }]),
        "{reasons:?}"
    );
    assert!(verdict(&endless, 36).is_proven());
}

#[test]
fn exit_of_a_loop_on_data_gives_no_bound() {
    let spin = kernel(format!(
        "L: ld.global.u32 %r5, [%d1]; setp.ge.u32 %p1, %r5, 37; @%p1 bra L; {}",
        store("%r5")
    ));
    assert_eq!(reasons(&verdict(&spin, 0)).len(), 1);
}

#[test]
fn counted_loops_bound_their_exit() {
    // Behind the loop, the counter is 36.
    let counted = |step: u32, relation: &str, end: &str| {
        kernel(format!(
            "mov.u32 %r5, 0; L: add.u32 %r5, %r5, {step}; setp.{relation}.u32 %p1, %r5, {end}; \
             @%p1 bra L; {}",
            store("%r5")
        ))
    };
    for (step, relation, end) in [
        (1, "ne", "36"),
        (4, "ne", "36"),
        (3, "lt", "36"),
        (1, "lt", "%r1"),
    ] {
        let verdict = verdict(&counted(step, relation, end), 36);
        assert!(verdict.is_proven(), "{step} {relation} {end}: {verdict}");
    }
    // The other number is not known, but it reaches 0.
    let down = kernel(format!(
        "mov.u32 %r6, %tid.x; and.b32 %r6, %r6, 3; mov.u32 %r5, 32; L: add.u32 %r5, %r5, 1; \
         setp.ne.u32 %p1, %r6, 0; add.u32 %r6, %r6, -1; @%p1 bra L; {}",
        store("%r5")
    ));
    assert!(verdict(&down, 36).is_proven());
    // It never is 35.
    assert!(!verdict(&counted(4, "ne", "35"), 0).is_proven());
    // Every number is at most the greatest one.
    assert!(!verdict(&counted(1, "le", "%r1"), -1).is_proven());
}

#[test]
fn bounds_in_an_endless_loop_need_a_counter() {
    // The loop has no effect unless `x[0]` is 0, and may be endless.
    let inside = |condition: &str| {
        kernel(format!(
            "mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; {condition} @%p1 bra C; \
             mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; ld.global.u32 %r6, [%d3]; \
             setp.eq.u32 %p3, %r6, 0; @%p3 bra E; C: bra L; E:"
        ))
    };
    assert!(verdict(&inside("setp.ge.u32 %p1, %r5, 37;"), 1000).is_proven());
    // ptxas keeps a predicate, but makes branches of predicates and the other way round.
    let predicate = kernel(
        "L: setp.ge.u32 %p1, %r1, 37; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; \
         @!%p1 st.global.u32 [%d3], %r1; @!%p1 ret; bra L;",
    );
    assert!(!verdict(&predicate, 1000).is_proven());
    let by_data = "ld.global.u32 %r5, [%d1]; setp.ge.u32 %p1, %r5, 37;";
    assert!(!verdict(&inside(by_data), 1000).is_proven());
}

#[test]
fn read_only_load_of_an_index_must_be_volatile() {
    let load = |load: &str, use_it: &str| kernel(format!("{load} %r5, [%d1]; {use_it} ret;"));
    let guard = format!("setp.ge.u32 %p1, %r5, 37; @%p1 ret; {}", store("%r5"));
    // The statements begin with five declarations of registers and two loads of parameters.
    assert_eq!(
        analysed(&load("ld.global.nc.u32", &guard)).volatile_loads(),
        [7]
    );
    assert_eq!(
        analysed(&load("ldu.global.u32", &guard)).volatile_loads(),
        [7]
    );
    assert!(
        analysed(&load("ld.global.u32", &guard))
            .volatile_loads()
            .is_empty()
    );
    // A number that is only stored may be loaded twice.
    let stored = "st.global.u32 [%d1+4], %r5;";
    assert!(
        analysed(&load("ld.global.nc.u32", stored))
            .volatile_loads()
            .is_empty()
    );
}

#[test]
fn guard_on_unset_local_memory_proves_nothing() {
    let guarded = |before: &str| {
        kernel(format!(
            ".local .align 8 .b8 l[16]; mov.u64 %d5, l; {before} ld.local.u32 %r5, [%d5+4]; \
             setp.ge.u32 %p1, %r5, 37; @%p1 ret; {}",
            store("%r5")
        ))
    };
    let reasons = |before: &str| reasons(&verdict(&guarded(before), 1));
    let proven = |before: &str| reasons(before).is_empty();
    assert!(!proven(""));
    assert!(!proven("st.local.u16 [%d5+4], 7;"));
    assert!(!proven(
        "setp.eq.u32 %p2, %r1, 0; @%p2 st.local.u32 [%d5+4], %r1;"
    ));
    assert!(!proven(
        "and.b32 %r7, %r1, 3; mul.wide.u32 %d6, %r7, 4; add.s64 %d7, %d5, %d6; \
                     st.local.u32 [%d7], %r1;"
    ));
    assert!(proven("st.local.u32 [%d5+4], %r1;"));
    assert!(proven("st.local.v2.u32 [%d5], {%r1, %r1};"));
    // A loop that writes every element.
    let fill = |count: u32| {
        format!(
            "mov.u32 %r8, 0; mov.u64 %d8, l; F: st.local.u32 [%d8], %r8; add.s64 %d8, %d8, 4; \
             add.s32 %r8, %r8, 1; setp.ne.s32 %p5, %r8, {count}; @%p5 bra F;"
        )
    };
    assert_eq!(reasons(&fill(2)), []);
    assert!(!proven(&fill(1)));
}

#[test]
fn checked_copy_writes_zeros_to_unset_local_memory() {
    let body = |size: u32| {
        kernel(format!(
            ".shared .align 8 .b8 s[1024]; .local .align 8 .b8 l[{size}]; mov.u64 %d2, l; \
             ld.local.u32 %r5, [%d2+4]; st.shared.u32 [%r5], %r1;"
        ))
    };
    for (size, expected) in [(16, "st.local.b64 [l+8]"), (4096, "add.s64")] {
        let text = text([&body(size)], "sm_80");
        let module = cuda_ptx::parse(&text).unwrap();
        let function = &module.functions[0];
        let analysis = analysis(&text, "k");
        let values = launch([1, 1, 1], [1, 1, 1], [output(4), int(0)]);
        let verdict = analysis.evaluate(&values);
        let contract = verdict.contract().unwrap();
        let is_checked = |outcome: &Outcome| matches!(outcome, Outcome::Checked { .. });
        let access = contract
            .accesses
            .iter()
            .position(|access| is_checked(&access.outcome));
        let check = Check {
            access: access.unwrap(),
            root: None,
            is_aligned: false,
        };
        let new = instrument(&text, &module, function, &analysis, &[check], &[]).unwrap();
        let first = new.text.find("ld.local").unwrap();
        let zeros = new
            .text
            .find(expected)
            .unwrap_or_else(|| panic!("{}", new.text));
        assert!(zeros < first, "{}", new.text);
        cuda_ptx::parse(&new.text).unwrap();
    }
}
