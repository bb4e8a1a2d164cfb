//! Forms that end with a fault on a device, or that the analysis once read in another way than the
//! assembler.

use cuda_ptx::analysis::{Analysis, Argument, Verdict};

use crate::support::{launch, output};

fn evaluate(body: &str, block: u32) -> Verdict {
    let text = format!(
        ".version 8.3\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 n, .param .u64 m) {{\n\
         .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b16 %h<9>; .reg .pred %p<9>;\n\
         ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; ld.param.u64 %d2, [m];\n{body}\nret; }}\n"
    );
    let module = cuda_ptx::parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let analysis = Analysis::of(&module, &module.functions[0]);
    let arguments = [
        output(1 << 16),
        Argument::scalar(64u32.to_le_bytes()),
        Argument::scalar(1u64.to_le_bytes()),
    ];
    analysis.evaluate(&launch([1, 1, 1], [block, 1, 1], arguments))
}

/// Fails unless the kernel is refused for a reason that contains `part`.
fn refused(body: &str, part: &str) {
    let verdict = evaluate(body, 32);
    let Some(refusal) = verdict.refusal() else {
        panic!("{body}: {verdict}");
    };
    assert!(refusal.reason.contains(part), "{body}: {}", refusal.reason);
}

fn proven(body: &str, block: u32) {
    let verdict = evaluate(body, block);
    assert!(verdict.is_proven(), "{body}: {verdict}");
}

const SHARED: &str = ".shared .align 8 .b8 s[8]; mov.u32 %r3, s;";

#[test]
fn an_mbarrier_is_refused() {
    for body in [
        "mbarrier.init.b64 [%d1], 1;",
        "mov.u64 %d5, 0; mbarrier.arrive.b64 %d4, [%d1];",
        "mbarrier.pending_count.b64 %r3, %d1;",
    ] {
        refused(body, "an mbarrier");
    }
    for body in [
        "mbarrier.arrive.shared.b64 %d4, [%r3];",
        "mbarrier.init.shared.b64 [%r3], 1; mbarrier.arrive.shared.b64 %d4, [%r3], %r1;",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], %r1;",
        "mbarrier.test_wait.shared.b64 %p1, [%r3], %d2;",
        "mbarrier.inval.shared.b64 [%r3];",
    ] {
        refused(&format!("{SHARED} {body}"), "an mbarrier");
    }
    refused(
        "cp.async.mbarrier.arrive.noinc.b64 [%d1];",
        "cp.async.mbarrier",
    );
    refused(
        &format!("{SHARED} cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];"),
        "cp.async.mbarrier",
    );
}

#[test]
fn a_cache_policy_must_come_from_createpolicy() {
    let load = "ld.global.L2::cache_hint.u32 %r3, [%d1], %d3;";
    let make = "createpolicy.fractional.L2::evict_last.b64 %d3, 0.5;";
    proven(&format!("{make} {load}"), 32);
    proven(
        &format!("{make} mov.b64 %d4, %d3; mov.b64 %d3, %d4; {load}"),
        32,
    );
    let both = format!(
        "setp.eq.u32 %p1, %r1, 5; @%p1 bra A; {make} bra B; A: \
         createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d3; B: {load}"
    );
    proven(&both, 32);
    // The load may overwrite its own policy.
    proven(
        &format!("{make} ld.global.L2::cache_hint.u64 %d3, [%d1], %d3;"),
        32,
    );
    let reason = "the cache policy must be";
    refused("ld.global.L2::cache_hint.u32 %r3, [%d1], %d2;", reason);
    refused("st.global.L2::cache_hint.u32 [%d1], %r1, %d2;", reason);
    refused(&format!("mov.u64 %d3, 0; {load}"), reason);
    refused(&format!("{make} add.u64 %d3, %d3, 1; {load}"), reason);
    refused(
        &format!("mov.u64 %d3, 0; setp.eq.u32 %p1, %r1, 5; @%p1 {make} {load}"),
        reason,
    );
    refused(
        &format!("setp.eq.u32 %p1, %r1, 5; @%p1 bra A; {make} A: {load}"),
        reason,
    );
    refused(
        &format!("createpolicy.cvt.L2.b64 %d3, %d2; {load}"),
        "no form of `createpolicy`",
    );
    refused(
        &format!(
            "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d3, [%d2], %r1, %r1; \
             {load}"
        ),
        "no form of `createpolicy`",
    );
    refused(
        &format!("mov.f32 %r4, 1.0; createpolicy.fractional.L2::evict_last.b64 %d3, %r4; {load}"),
        "operand 2",
    );
}

#[test]
fn a_fence_with_an_address_is_refused() {
    for form in [
        "acquire.gpu [%d2], 128",
        "acquire.sys [%d1], 128",
        "release.gpu",
    ] {
        refused(
            &format!("fence.proxy.tensormap::generic.{form};"),
            "no form of `fence`",
        );
    }
    proven(
        "fence.proxy.async; fence.acq_rel.gpu; fence.sc.cluster; membar.gl;",
        32,
    );
}

#[test]
fn barriers_need_constants_that_fit_the_block() {
    proven(
        "bar.sync 0; bar.sync 1, 32; barrier.cta.sync.aligned 15, 64;",
        64,
    );
    proven(
        "mov.u32 %r2, 64; mov.u32 %r3, 2; barrier.sync %r3, %r2;",
        64,
    );
    proven(
        "setp.eq.u32 %p1, %r1, 5; bar.red.popc.u32 %r3, 0, %p1; bar.red.and.pred %p2, 1, 32, !%p1;",
        32,
    );
    for body in [
        "bar.sync 1, %r1;",
        "bar.arrive 1, %r1;",
        "setp.eq.u32 %p1, %r1, 5; bar.red.popc.u32 %r3, 1, %r1, %p1;",
        "mov.u32 %r2, 32; setp.eq.u32 %p1, %r1, 5; @%p1 mov.u32 %r2, 33; bar.sync 1, %r2;",
    ] {
        refused(body, "the number of threads must be a constant");
    }
    for body in [
        "bar.sync 1, 33;",
        "bar.sync 1, 0;",
        "mov.u32 %r2, 20; bar.arrive 1, %r2;",
    ] {
        refused(body, "must be a multiple of 32");
    }
    refused("bar.sync 16;", "must be below 16");
    refused(
        "bar.sync %r1;",
        "the number of the barrier must be a constant",
    );
    // The block of the launch has 32 threads.
    refused("bar.sync 1, 64;", "a block has 32 threads");
}

#[test]
fn generic_hints_and_discards_are_refused() {
    refused("discard.L2 [%d1], 128;", "no form of `discard`");
    refused("discard.global.L2 [%d1], 64;", "operand 2");
    refused(
        "applypriority.L2::evict_normal [%d1], 128;",
        "no form of `applypriority`",
    );
    proven(
        "discard.global.L2 [%d1+128], 128; prefetch.global.L2 [%d1];",
        32,
    );
    // They access 128 bytes that are aligned.
    assert!(!evaluate("discard.global.L2 [%d1+4], 128;", 32).is_proven());
}

#[test]
fn a_change_of_the_number_of_registers_is_refused() {
    refused(
        "setmaxnreg.inc.sync.aligned.u32 64;",
        "the number of registers",
    );
}

#[test]
fn a_declared_register_hides_a_special_register() {
    let store = "mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %d1, %d3; st.global.u32 [%d4], 7;";
    proven(&format!("mov.u32 %r3, %laneid; {store}"), 32);
    let body = format!(".reg .b32 %laneid; mov.u32 %laneid, 100000; mov.u32 %r3, %laneid; {store}");
    assert!(!evaluate(&body, 32).is_proven());
    let body = format!(
        ".reg .v4 .b32 %tid; mov.u32 %r2, 100000; mov.v4.b32 %tid, {{%r2, %r2, %r2, %r2}}; \
         mov.u32 %r3, %tid.x; {store}"
    );
    assert!(!evaluate(&body, 32).is_proven());
}

#[test]
fn names_that_nothing_declares_are_refused() {
    for (body, part) in [
        ("mov.u32 %r3, %r99;", "%r99 is not declared"),
        ("mov.u32 %r99, 1;", "%r99 is not declared"),
        ("mov.u32 %r3, %lane;", "%lane is not declared"),
        (
            "mov.u32 %r3, %tid.q;",
            "not a special register with the member q",
        ),
        ("@%p99 mov.u32 %r3, 1;", "%p99 is not a register"),
        ("@%r1 mov.u32 %r3, 1;", "%r1 is not a predicate"),
        ("ld.global.u32 %r3, [%d99];", "%d99 is not declared"),
        ("ld.global.u32 %r3, [s];", "s is not declared"),
        ("st.global.u32 [%d1], %r99;", "%r99 is not declared"),
        (
            "add.u64 %d3, %d1, %r1;",
            "%r1 is declared with another type",
        ),
        ("add.u32 %r3, %r1;", "not a permitted number"),
        ("add.u32 %r3, %r1, %r1, %r1;", "not a permitted number"),
        ("add.u32 %r3, %tid.x, 1;", "%tid is not declared"),
        ("add.bogus.u32 %r3, %r1, 1;", "no form of `add`"),
        ("ld.global.bogus.u32 %r3, [%d1];", "no form of `ld`"),
        ("ld.global.u32 %r3, [64];", "a number as an address"),
        ("bogus.u32 %r3, %r1;", "unknown instruction"),
    ] {
        refused(body, part);
    }
}
