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
fn turns_of_an_endless_loop_give_no_bound() {
    // The loop has no effect unless `x[0]` is 0, and may be endless.
    let inside = |condition: &str, target: &str| {
        kernel(format!(
            "mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; {condition} @%p1 bra {target}; \
             mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; ld.global.u32 %r6, [%d3]; \
             setp.eq.u32 %p3, %r6, 0; @%p3 bra E; C: bra L; E:"
        ))
    };
    let by_counter = "setp.ge.u32 %p1, %r5, 37;";
    assert!(verdict(&inside(by_counter, "E"), 1000).is_proven());
    assert!(!verdict(&inside(by_counter, "C"), 1000).is_proven());
    // ptxas keeps a predicate, but makes branches of predicates and the other way round.
    let predicate = kernel(
        "L: setp.ge.u32 %p1, %r1, 37; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; \
         @!%p1 st.global.u32 [%d3], %r1; @!%p1 ret; bra L;",
    );
    assert!(!verdict(&predicate, 1000).is_proven());
    let by_data = "ld.global.u32 %r5, [%d1]; setp.ge.u32 %p1, %r5, 37;";
    assert!(!verdict(&inside(by_data, "C"), 1000).is_proven());
    // A condition behind a turn may follow from its condition.
    let twice = |second: &str| {
        kernel(format!(
            "L: setp.ge.u32 %p1, %r1, 37; @%p1 bra C; ld.volatile.global.u32 %r9, [%d1]; \
             {second} {} bra L; C: bra L;",
            store("%r1")
        ))
    };
    for second in ["@%p1 bra C;", "setp.ge.u32 %p4, %r1, 30; @%p4 bra C;"] {
        let twice = twice(second);
        assert!(!verdict(&twice, 1000).is_proven(), "{second}");
    }
}

/// ptxas removes the first of two comparisons of an absolute value, because the value is not below
/// 0, and -2^31 has none.
#[test]
fn absolute_values_may_be_negative() {
    let guarded = kernel(format!(
        "abs.s32 %r5, %r1; setp.lt.s32 %p1, %r5, 0; @%p1 ret; setp.ge.s32 %p2, %r5, 37; @%p2 ret; {}",
        store("%r5").replace("mul.wide.u32", "mul.wide.s32")
    ));
    assert!(!verdict(&guarded, i32::MIN).is_proven());
    let unsigned = kernel(format!(
        "abs.s32 %r5, %r1; setp.ge.u32 %p2, %r5, 37; @%p2 ret; {}",
        store("%r5")
    ));
    assert!(!verdict(&unsigned, i32::MIN).is_proven());
}

/// A loop that stores to `x[i - back]` after `i` has left it.
fn counted_loop(start: &str, step: i32, condition: &str, back: i32) -> Kernel {
    kernel(format!(
        "{start} L: st.volatile.global.u32 [%d1], %r5; add.s32 %r5, %r5, {step}; \
         setp.{condition}; @%p1 bra L; setp.gt.s32 %p2, %r5, {}; @%p2 ret; \
         mul.wide.s32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3+-{}], %r1;",
        back + 36,
        4 * back
    ))
}

#[test]
fn the_condition_of_a_counted_loop_bounds_if_nothing_wraps() {
    let data = "ld.global.u32 %r5, [%d1+4];";
    let zero = "mov.u32 %r5, 0;";
    let proven = |start: &str, step, condition: &str, n| {
        let kernel = counted_loop(start, step, condition, 1000);
        verdict(&kernel, n).is_proven()
    };
    assert!(proven(zero, 1, "lt.s32 %p1, %r5, 1000", 0));
    assert!(proven(zero, 3, "lt.s32 %p1, %r5, %r1", 1000));
    assert!(proven(zero, 4, "ne.s32 %p1, %r5, 1000", 0));
    // `limit - start` may wrap, and a counter of data may begin anywhere.
    assert!(!proven(data, 1, "lt.s32 %p1, %r5, 1000", 0));
    assert!(!proven(
        "mov.u32 %r5, -2147483600;",
        1,
        "lt.s32 %p1, %r5, 1000",
        0
    ));
    // The counter passes the greatest number, which ptxas ignores.
    let from = "mov.u32 %r5, 2147483640;";
    assert!(!proven(from, 1, "ne.s32 %p1, %r5, -2147483648", 0));
    // It never is 1001.
    assert!(!proven(zero, 4, "ne.s32 %p1, %r5, 1001", 0));
}

#[test]
fn a_loop_may_be_repeated_if_its_limit_wraps() {
    // Without a wrap, `i < n` is false for all negative n, and the loop is executed once.
    let once = |n| {
        let kernel = kernel(format!(
            "mov.u32 %r5, 36; L: {} add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra L;",
            store("%r5")
        ));
        verdict(&kernel, n).is_proven()
    };
    assert!(once(10) && once(-10) && once(37));
    assert!(!once(38));
    // ptxas computes n - 37, which is positive.
    assert!(!once(i32::MIN + 5));
}

#[test]
fn an_unsigned_counter_may_pass_the_greatest_number() {
    let endless = |limit: &str| {
        let kernel = kernel(format!(
            "ld.global.u32 %r5, [%d1+4]; L: st.volatile.global.u32 [%d1], %r5; \
             add.u32 %r5, %r5, 1; setp.le.u32 %p1, %r5, {limit}; @%p1 bra L; \
             setp.gt.u32 %p2, %r5, 31; @%p2 ret; mul.wide.u32 %d2, %r5, 4; \
             add.s64 %d3, %d1, %d2; st.global.u32 [%d3+1048576], %r1;"
        ));
        verdict(&kernel, 0).is_proven()
    };
    assert!(!endless("0xffffffff"));
    assert!(!endless("0xfffffffe"));
}

/// ptxas does not take the low byte of the position and the length in `bfe.u64`.
#[test]
fn fields_beyond_the_type_are_unknown() {
    let field = |length: u32| {
        let kernel = kernel(format!(
            "ld.global.u64 %d5, [%d1]; mov.u32 %r5, {length}; bfe.u64 %d6, %d5, 0, %r5; \
             shl.b64 %d6, %d6, 2; add.s64 %d3, %d1, %d6; st.global.u32 [%d3], %r1;"
        ));
        verdict(&kernel, 0).is_proven()
    };
    assert!(field(5) && !field(6));
    assert!(!field(256) && !field(257));
}

#[test]
fn every_read_of_a_changing_register_differs() {
    for read in ["mov.u32 %r5, %smid;", "cvt.u32.u32 %r5, %smid;"] {
        let guarded = kernel(format!(
            "{read} setp.ge.u32 %p1, %r5, 37; @%p1 ret; {}",
            store("%r5")
        ));
        assert!(!verdict(&guarded, 0).is_proven(), "{read}");
    }
}

#[test]
fn values_keep_their_kind_in_local_and_shared_memory() {
    // A vote, or a register that is not set, is stored and loaded.
    let through = |value: &str, space: &str| {
        kernel(format!(
            ".{space} .align 8 .b32 m[4]; {value} st.{space}.u32 [m], %r6; \
             ld.{space}.u32 %r5, [m]; setp.ge.u32 %p1, %r5, 37; @%p1 ret; {}",
            store("%r5")
        ))
    };
    for space in ["local", "shared"] {
        let load = "ld.global.u32 %r6, [%d1];";
        assert!(verdict(&through(load, space), 0).is_proven(), "{space}");
        for value in [
            "",
            "setp.gt.u32 %p4, %r1, 3; vote.sync.ballot.b32 %r6, %p4, -1;",
        ] {
            let verdict = verdict(&through(value, space), 0);
            assert!(!verdict.is_proven(), "{space}: {value}");
        }
    }
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
    for way in [
        "slct.b32.s32 %r5, %r5, %r5, 1;",
        ".shared .align 8 .b32 s[4]; st.shared.u32 [s], %r5; ld.shared.u32 %r5, [s];",
    ] {
        let kernel = load("ld.global.nc.u32", &format!("{way} {guard}"));
        assert_eq!(analysed(&kernel).volatile_loads().len(), 1, "{way}");
    }
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
