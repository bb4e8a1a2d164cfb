//! Instructions that the threads of a warp or the blocks of a cluster execute together.

use super::attack::{Attack, kernel};

/// All threads but the first go to the end.
const FIRST: &str = "mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;";

pub(super) fn warps() -> Vec<Attack> {
    let make = |name, body: String| Attack::new(name, kernel("", &body)).block(32);
    let alone = |name, body: &str| make(name, format!("{FIRST} {body} END:"));
    let plain = |name, body: &str| make(name, body.to_owned());
    let result = "st.global.u32 [%d1], %r3;";
    let cluster = |name, body: &str, size: u32| {
        let directive = format!(".reqnctapercluster {size}");
        let body = format!(".shared .align 8 .b8 tile[64]; mov.u32 %r3, tile; {body}");
        Attack::new(name, kernel(&directive, &body))
            .block(32)
            .grid(size)
    };
    let matrix = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3]; \
                  st.global.u32 [%d1], %r4;";
    let tile = ".shared .align 16 .b8 tile[512]; mov.u32 %r3, tile;";
    let sparse = "mov.u32 %r3, 0; mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {%r5, \
                  %r6}, {%r3, %r3, %r3, %r3}, {%r3, %r3, %r3, %r3}, {%r3, %r3}, %r1, 0; \
                  st.global.u32 [%d1], %r5;";
    vec![
        alone(
            "vote of a thread that is not in the mask",
            &format!("setp.eq.u32 %p2, %r2, 0; vote.sync.ballot.b32 %r3, %p2, 2; {result}"),
        ),
        alone(
            "shuffle of a thread that is not in the mask",
            &format!("shfl.sync.idx.b32 %r3, %r2, 0, 31, %r1; {result}"),
        )
        .n(2),
        alone(
            "sum of a thread that is not in the mask",
            &format!("redux.sync.add.s32 %r3, %r2, %r1; {result}"),
        )
        .n(2),
        plain(
            "shuffle without threads",
            &format!("shfl.sync.idx.b32 %r3, %r1, 0, 31, %r1; {result}"),
        )
        .n(0),
        plain(
            "warp barrier without threads",
            "bar.warp.sync %r1; st.global.u32 [%d1], %r1;",
        )
        .n(0),
        plain(
            "match without threads",
            &format!("mov.u32 %r2, 3; match.any.sync.b32 %r3, %r2, %r1; {result}"),
        )
        .n(0),
        plain(
            "election without threads",
            &format!("elect.sync %r3|%p1, %r1; {result}"),
        )
        .n(0),
        make("ldmatrix of the own array", format!("{tile} {matrix}")),
        alone("ldmatrix of one thread", &format!("{tile} {matrix}")),
        alone(
            "mma of one thread",
            "mov.u32 %r3, 0; mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r5, %r6}, {%r3, \
             %r3, %r3, %r3}, {%r3, %r3}, {%r3, %r3}; st.global.u32 [%d1], %r5;",
        ),
        plain("mma.sp with the selection 0", sparse).n(0),
        plain("mma.sp with the selection of ones", sparse).n(u32::MAX),
        plain(
            "cluster arrive",
            "barrier.cluster.arrive; st.global.u64 [%d1], %d2;",
        ),
        plain(
            "cluster wait",
            "barrier.cluster.wait; st.global.u64 [%d1], %d2;",
        ),
        plain(
            "cluster arrive, twice",
            "barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait; st.global.u64 \
             [%d1], %d2;",
        ),
        cluster(
            "cluster wait without an arrival",
            "barrier.cluster.wait; st.global.u32 [%d1], 5;",
            1,
        ),
        cluster(
            "the rank in a shared address",
            "shr.u32 %r4, %r3, 24; mul.wide.u32 %d3, %r4, 4000; add.s64 %d3, %d1, %d3; \
             st.global.u32 [%d3], %r3;",
            2,
        ),
        cluster(
            "a branch on a shared address",
            "setp.lt.u32 %p1, %r3, 16777216; @%p1 ret; st.global.u32 [%d1+4000], %r3;",
            2,
        ),
        plain(
            "mapa of a block that does not exist",
            ".shared .align 8 .b8 tile[8]; mov.u32 %r3, tile; mapa.shared::cluster.u32 %r4, %r3, \
             %r1; getctarank.shared::cluster.u32 %r5, %r4; st.global.u32 [%d1], %r5;",
        )
        .n(77),
        plain(
            "mapa, then ld.shared",
            ".shared .align 8 .b8 tile[8]; mov.u32 %r3, tile; mapa.shared::cluster.u32 %r4, %r3, \
             %r1; ld.shared.u32 %r5, [%r4]; st.global.u32 [%d1], %r5;",
        ),
        plain(
            "mapa, then a generic load",
            ".shared .align 8 .b8 tile[8]; mov.u64 %d3, tile; cvta.shared.u64 %d4, %d3; mapa.u64 \
             %d5, %d4, %r1; ld.u32 %r5, [%d5]; st.global.u32 [%d1], %r5;",
        ),
        plain("exit", "st.global.u32 [%d1], %r1; exit;"),
    ]
}
