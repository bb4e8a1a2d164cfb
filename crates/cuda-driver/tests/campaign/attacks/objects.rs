//! Objects that the hardware checks: barriers in memory, cache policies, numbers of threads, and
//! fences with an address.

use super::attack::{Attack, kernel};

/// A kernel with a word of shared memory whose address is in `%r3`.
const WORD: &str = ".shared .align 8 .b8 bar[8]; mov.u32 %r3, bar;";

pub(super) fn objects() -> Vec<Attack> {
    let make = |name, body: String| Attack::new(name, kernel("", &body)).block(32);
    let plain = |name, body: &str| make(name, body.to_owned());
    let word = |name, body: &str| make(name, format!("{WORD} {body}"));
    let hinted = "ld.global.L2::cache_hint.u32 %r3, [%d1], %d2; st.global.u32 [%d1], %r3;";
    let from_range = "ld.global.L2::cache_hint.u32 %r3, [%d1], %d4; st.global.u32 [%d1], %r3;";
    let local = ".local .align 8 .b8 own[8]; mov.u64 %d3, own; cvta.local.u64 %d4, %d3;";
    let fence = "fence.proxy.tensormap::generic.acquire.gpu [%d2], 128; st.global.u32 [%d1], %r1;";
    let wait = "mbarrier.test_wait.shared.b64 %p1, [%r3], %d2; selp.u32 %r4, 1, 0, %p1; \
                st.global.u32 [%d1], %r4;";
    let init = "mbarrier.init.shared.b64 [%r3], 1;";
    let arrive = "mbarrier.arrive.shared.b64 %d4, [%r3]; st.global.u64 [%d1], %d4;";
    let mut all =
        vec![
        plain("b06 generic", "mbarrier.init.b64 [%d1], 1;"),
        word(
            "b06 zero",
            &format!("mov.u64 %d3, 0; st.shared.u64 [%r3], %d3; {arrive}"),
        ),
        plain("b06 policy", hinted).m(u64::MAX),
        plain("b06 fence", fence),
        plain("b06 barrier", "bar.sync 1, %r1; st.global.u32 [%d1], %r1;").n(33),
        plain(
            "mbarrier in a buffer, arrive",
            "mbarrier.arrive.b64 %d4, [%d1]; st.global.u64 [%d1+8], %d4;",
        ),
        make(
            "mbarrier in a local array",
            format!("{local} mbarrier.init.b64 [%d4], 1;"),
        ),
        plain(
            "mbarrier in a buffer, copies",
            "cp.async.mbarrier.arrive.noinc.b64 [%d1];",
        ),
        word(
            "mbarrier of ones",
            &format!("mov.u64 %d3, -1; st.shared.u64 [%r3], %d3; {arrive}"),
        ),
        word(
            "mbarrier, too many arrivals",
            &format!("{init} mbarrier.arrive.shared.b64 %d4, [%r3], 5; mbarrier.arrive.shared.b64 \
                      %d4, [%r3], %r1; st.global.u64 [%d1], %d4;"),
        )
        .n(1_000_000),
        word(
            "mbarrier, too many bytes",
            &format!("{init} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], %r1; \
                      mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], %r1; \
                      st.global.u64 [%d1], %d2;"),
        )
        .n(0x7fff_ffff),
        word(
            "mbarrier, waited for after its end",
            &format!("{init} mbarrier.inval.shared.b64 [%r3]; {wait}"),
        )
        .m(0),
        word(
            "mbarrier, any state",
            &format!("mov.u64 %d4, -1; st.shared.u64 [%r3], %d4; {wait}"),
        )
        .m(0x1_2345_6789),
        word(
            "mbarrier for no thread",
            "mbarrier.init.shared.b64 [%r3], %r1; st.global.u32 [%d1], %r1;",
        )
        .n(0),
        word(
            "mbarrier for too many threads",
            "mbarrier.init.shared.b64 [%r3], %r1; st.global.u32 [%d1], %r1;",
        )
        .n(u32::MAX),
        plain("fence of an odd address", fence).m(64),
        plain("fence of any address", fence).m(0x1234_5678_9a00),
        plain("policy of a store", "st.global.L2::cache_hint.u32 [%d1], %r1, %d2;").m(u64::MAX),
        make(
            "policy of any number, converted",
            format!("createpolicy.cvt.L2.b64 %d4, %d2; {from_range}"),
        )
        .m(u64::MAX),
        make(
            "policy of an empty range",
            format!(
                "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d4, [%d2], %r1, \
                 %r1; {from_range}"
            ),
        )
        .n(0),
        make(
            "policy of an inverted range",
            format!(
                "mov.u32 %r4, 7; createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d4, \
                 [%d2], %r1, %r4; {from_range}"
            ),
        )
        .n(u32::MAX)
        .m(1 << 63),
        plain("barrier, 20 threads", "bar.sync %r1; st.global.u32 [%d1], %r1;").n(20),
        plain("barrier, no thread", "bar.sync 1, %r1; st.global.u32 [%d1], %r1;").n(0),
        plain(
            "barrier with a sum, 33 threads",
            "setp.eq.u32 %p1, %r1, 5; bar.red.popc.u32 %r3, 1, %r1, %p1; st.global.u32 [%d1], %r3;",
        )
        .n(33),
        plain(
            "barrier without a wait, 33 threads",
            "bar.arrive 1, %r1; st.global.u32 [%d1], %r1;",
        )
        .n(33),
        plain("barrier 16", "bar.sync %r1, 32; st.global.u32 [%d1], %r1;").n(16),
    ];
    let policies = [
        ("policy, any number", 0x1234_5678_9abc_def0),
        ("policy, four bits", 0xf000_0000_0000_0000),
        ("policy, bits from 32", 0xff << 32),
        ("policy, bits from 40", 0xff << 40),
        ("policy, bits from 48", 0xff << 48),
        ("policy, bits from 52", 0xff << 52),
        ("policy, bits from 56", 0xff << 56),
        ("policy, bits from 60", 0xf << 60),
    ];
    all.extend(policies.map(|(name, policy)| plain(name, hinted).m(policy)));
    all
}
