//! `mbarrier`: counts of threads and bytes, phases, and waits.

#![expect(
    clippy::result_large_err,
    reason = "tests take the fault apart at once"
)]

use super::device::Device;

/// Runs `body` in one block; `%b` is the address of a barrier in shared memory and `%out` the
/// address of the output words.
fn run(body: &str, block: u32, words: usize) -> Result<Vec<u32>, crate::vm::Fault> {
    let text = format!(
        ".visible .entry op(.param .u64 out) {{
            .shared .align 8 .b8 space[64];
            .reg .b32 %b, %t, %v, %w, %n; .reg .b64 %out, %at, %s<4>, %g; .reg .pred %p, %q;
            ld.param.u64 %out, [out]; mov.u32 %b, space; mov.u32 %t, %tid.x;
            mul.wide.u32 %at, %t, 4;
            {body}
            ret; }}"
    );
    let device = Device::new(&text);
    let out = device.upload32(&vec![0; words]);
    let outcome = device.run_with(1, block, &[out], |params| {
        params.instruction_limit = Some(1 << 22);
    });
    outcome.map(|_| device.download32(out, words))
}

const ONE: &str = "setp.eq.u32 %p, %t, 0;";

#[test]
fn the_last_arrival_completes_a_phase() {
    let body = "mbarrier.init.shared.b64 [%b], 3;
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out], %v;
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+4], %v;
        mbarrier.arrive.shared.b64 %s0, [%b];
        mbarrier.pending_count.b64 %v, %s0; st.global.u32 [%out+8], %v;
        mbarrier.arrive.shared.b64 %s1, [%b];
        mbarrier.pending_count.b64 %v, %s1; st.global.u32 [%out+12], %v;
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+16], %v;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [%b];
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+20], %v;
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+24], %v;
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+28], %v;
        mbarrier.arrive.shared.b64 %s2, [%b], 3;
        mbarrier.try_wait.acquire.cta.shared::cta.b64 %p, [%b], %s2; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+32], %v;
        mbarrier.inval.shared.b64 [%b];";
    assert_eq!(run(body, 1, 9).unwrap(), [0, 1, 3, 2, 0, 1, 1, 0, 1]);
}

#[test]
fn a_phase_waits_for_its_bytes() {
    let body = "mbarrier.init.b64 [space], 1;
        mbarrier.arrive.expect_tx.shared.b64 %s0, [%b], 48;
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out], %v;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+4], %v;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+8], %v;
        // Bytes may arrive before they are expected.
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+12], %v;
        mbarrier.arrive.shared.b64 %s1, [%b];
        mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+16], %v;";
    assert_eq!(run(body, 1, 5).unwrap(), [0, 0, 1, 0, 1]);
}

#[test]
fn arrive_drop_lowers_the_expected_count() {
    let body = "mbarrier.init.shared.b64 [%b], 2;
        mbarrier.arrive_drop.shared.b64 %s0, [%b];
        mbarrier.arrive.noComplete.shared.b64 %s2, [%b], 0;";
    assert_eq!(run(body, 1, 1).unwrap_err().kind.code(), 715);
    let body = "mbarrier.init.shared.b64 [%b], 2;
        mbarrier.arrive_drop.shared.b64 %s0, [%b];
        mbarrier.arrive.shared.b64 %s1, [%b];
        mbarrier.arrive.shared.b64 %s2, [%b];
        mbarrier.test_wait.shared.b64 %p, [%b], %s0; selp.u32 %v, 1, 0, %p; st.global.u32 [%out], %v;
        mbarrier.test_wait.shared.b64 %p, [%b], %s2; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+4], %v;
        mbarrier.pending_count.b64 %v, %s2; st.global.u32 [%out+8], %v;";
    assert_eq!(run(body, 1, 3).unwrap(), [1, 1, 1]);
}

#[test]
fn threads_wait_round_after_round() {
    // In each round, all but the first warp wait for the first one, which waits for them; the sums
    // show whether a warp came early.
    let body = "{ .reg .pred %first; .reg .b32 %round, %full, %empty, %sum, %parity;
        .shared .align 4 .b8 value[4];
        setp.eq.u32 %p, %t, 0; add.u32 %full, %b, 8; add.u32 %empty, %b, 16;
        @%p mbarrier.init.shared::cta.b64 [%full], 1;
        @%p mbarrier.init.shared::cta.b64 [%empty], 96;
        bar.sync 0;
        setp.lt.u32 %first, %t, 32; mov.u32 %round, 0; mov.u32 %sum, 0;
        $again:
        and.b32 %parity, %round, 1;
        @%first bra $give;
        $wait: mbarrier.try_wait.parity.shared::cta.b64 %q, [%full], %parity, 0x989680; @!%q bra $wait;
        ld.shared.u32 %v, [value]; mad.lo.u32 %sum, %sum, 3, %v;
        mbarrier.arrive.shared::cta.b64 _, [%empty];
        bra $next;
        $give:
        @!%p bra $next;
        mul.lo.u32 %v, %round, %round; st.shared.u32 [value], %v;
        mbarrier.arrive.shared::cta.b64 _, [%full];
        $idle: mbarrier.test_wait.parity.shared::cta.b64 %q, [%empty], %parity; @!%q bra $idle;
        $next:
        add.u32 %round, %round, 1; setp.lt.u32 %q, %round, 20; @%q bra $again;
        add.u64 %at, %at, %out; st.global.u32 [%at], %sum; }";
    let sum = (0..20u32).fold(0u32, |sum, round| {
        sum.wrapping_mul(3).wrapping_add(round * round)
    });
    let all = run(body, 128, 128).unwrap();
    assert_eq!(all[..32], [0; 32]);
    assert_eq!(all[32..], [sum; 96]);
}

#[test]
fn a_lane_waits_for_another_of_its_warp() {
    let body = format!(
        "{ONE} @%p mbarrier.init.shared.b64 [%b], 1; bar.warp.sync 0xffffffff;
        @%p bra $give;
        $wait: mbarrier.try_wait.parity.shared.b64 %q, [%b], 0; @!%q bra $wait;
        bra $done;
        $give: mbarrier.arrive.shared.b64 _, [%b];
        $done: add.u64 %at, %at, %out; mov.u32 %v, 7; st.global.u32 [%at], %v;"
    );
    assert_eq!(run(&body, 32, 32).unwrap(), [7; 32]);
}

#[test]
fn misused_barriers_are_faults() {
    for (body, words) in [
        ("mbarrier.arrive.shared.b64 _, [%b];", "initialized"),
        ("mbarrier.init.shared.b64 [%b], 0;", "count"),
        ("mbarrier.init.shared.b64 [%b], 1048576;", "count"),
        (
            "mbarrier.init.shared.b64 [%b], 1; mbarrier.inval.shared.b64 [%b];
             mbarrier.test_wait.parity.shared.b64 %p, [%b], 0;",
            "initialized",
        ),
        (
            "mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.shared.b64 _, [%b], 3;",
            "more threads",
        ),
        (
            "mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.noComplete.shared.b64 %s0, [%b], 2;",
            "noComplete",
        ),
        (
            "mbarrier.init.shared.b64 [%b], 2;
             mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 1048576;",
            "bytes",
        ),
    ] {
        let fault = run(body, 1, 1).unwrap_err();
        assert_eq!(fault.kind.code(), 715, "{body}");
        assert!(fault.message.contains(words), "{}", fault.message);
    }
    let fault = run("add.u32 %b, %b, 4; mbarrier.init.shared.b64 [%b], 1;", 1, 1).unwrap_err();
    assert_eq!(fault.kind.code(), 716);
}
