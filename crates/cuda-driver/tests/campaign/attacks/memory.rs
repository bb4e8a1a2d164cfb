//! Atomic operations and hints in other memory than expected, arrays, and windows of addresses.

use super::attack::{Attack, HEAD, kernel};

pub(super) fn memory() -> Vec<Attack> {
    let make = |name, body: String| Attack::new(name, kernel("", &body)).block(32);
    let plain = |name, body: &str| make(name, body.to_owned());
    let local = |name, body: &str| {
        make(
            name,
            format!(
                ".local .align 128 .b8 own[128]; mov.u64 %d3, own; cvta.local.u64 %d4, %d3; \
                 st.u32 [%d4], %r1; {body}"
            ),
        )
    };
    let shared = |name, body: &str| {
        make(
            name,
            format!(
                ".shared .align 128 .b8 tile[128]; mov.u64 %d3, tile; cvta.shared.u64 %d4, %d3; \
                 st.u32 [%d4], %r1; {body}"
            ),
        )
    };
    let end = "st.global.u32 [%d1], %r1;";
    let with_end = |text: &str| format!("{text} {end}");
    let discard = with_end("discard.L2 [%d4], 128;");
    let priority = with_end("applypriority.L2::evict_normal [%d4], 128;");
    let prefetch = with_end("prefetch.L2 [%d4]; prefetchu.L1 [%d4];");
    let mut all = vec![
        local(
            "atomic in local memory",
            &with_end("atom.add.u32 %r3, [%d4], 1;"),
        ),
        local(
            "reduction in local memory",
            &with_end("red.add.u32 [%d4], 1;"),
        ),
        local(
            "exchange in local memory",
            &with_end("atom.cas.b64 %d5, [%d4], 0, 1;"),
        ),
        local("discard of local memory", &discard),
        shared("discard of shared memory", &discard),
        local("priority of local memory", &priority),
        shared("priority of shared memory", &priority),
        local("prefetch of local memory", &prefetch),
        shared("prefetch of shared memory", &prefetch),
        plain(
            "atomic at a stored address of local memory",
            ".local .align 8 .b8 own[8]; mov.u64 %d3, own; cvta.local.u64 %d4, %d3; st.global.u64 \
             [%d1], %d4; membar.gl; ld.volatile.global.u64 %d5, [%d1]; atom.add.u32 %r3, [%d5], 1; \
             st.global.u32 [%d1+8], %r3;",
        ),
        plain(
            "element index in shared memory",
            ".shared .align 8 .b64 tile[8]; .shared .align 8 .b64 next[1024]; mov.u32 %r2, \
             tile[56]; st.shared.u64 [%r2], 77; ld.shared.u64 %d3, [%r2]; st.global.u64 [%d1], \
             %d3;",
        ),
        plain(
            "element index behind shared memory",
            ".shared .align 8 .b64 tile[4096]; mov.u32 %r2, tile[32760]; mov.u64 %d3, 77; \
             st.shared.u64 [%r2], %d3; ld.shared.u64 %d4, [%r2]; st.global.u64 [%d1], %d4;",
        ),
        plain(
            "an offset of 32 bits",
            "sub.s64 %d3, %d1, 4294967292; st.global.u32 [%d3+4294967292], %r1;",
        ),
        plain(
            "a shared address that wraps upwards",
            ".shared .b32 tile[16]; mov.u64 %d3, tile+4294967296; mov.u64 %d4, tile; sub.s64 %d5, \
             %d3, %d4; sub.s64 %d5, %d5, 4294967296; add.s64 %d5, %d1, %d5; st.global.u32 [%d5], \
             %r1;",
        ),
        plain(
            "a local address that wraps upwards",
            ".local .align 8 .b8 own[16]; mov.u64 %d4, own; st.local.u32 [%d4], %r1; mov.u64 %d3, \
             own+4294967296; sub.s64 %d5, %d3, %d4; sub.s64 %d5, %d5, 4294967296; add.s64 %d5, \
             %d1, %d5; st.global.u32 [%d5], %r1;",
        ),
        plain(
            "a local address that wraps downwards",
            ".local .align 8 .b8 own[16]; mov.u64 %d4, own; st.local.u32 [%d4], %r1; mov.u64 %d3, \
             own+-268435456; sub.s64 %d5, %d3, %d4; add.s64 %d5, %d5, 268435456; add.s64 %d5, %d1, \
             %d5; st.global.u32 [%d5], %r1;",
        ),
        plain(
            "a parameter address that wraps downwards",
            "mov.u64 %d4, n; mov.u64 %d3, n+-4096; sub.s64 %d5, %d3, %d4; add.s64 %d5, %d5, 4096; \
             add.s64 %d5, %d1, %d5; st.global.u32 [%d5], %r1;",
        ),
        constant_window(),
        plain(
            "dynamic shared memory, 100 bytes",
            "mov.u32 %r3, %dynamic_smem_size; mad.wide.u32 %d3, %r3, 4, %d1; sub.s64 %d3, %d3, \
             400; st.global.u32 [%d3], %r3;",
        )
        .shared_bytes(100),
        plain(
            "dynamic shared memory, 1 byte",
            "mov.u32 %r3, %dynamic_smem_size; mad.wide.u32 %d3, %r3, 4, %d1; sub.s64 %d3, %d3, 4; \
             st.global.u32 [%d3], %r3;",
        )
        .shared_bytes(1),
        plain(
            "a name of a vector of special registers",
            "{ .reg .v4 .b32 %tid; mov.u32 %r2, 1000; mov.v4.b32 %tid, {%r2, %r2, %r2, %r2}; \
             mov.u32 %r3, %tid.x; mad.wide.u32 %d3, %r3, 4, %d1; st.global.u32 [%d3], %r3; }",
        ),
        plain("a pause", &with_end("nanosleep.u32 %r1;")).n(u32::MAX),
    ];
    all.extend([
        aligned("a local array aligned to 1 KiB", 1024, 2048, 264),
        aligned("a local array aligned to 64 KiB", 65536, 128, 4),
        aligned("a local array aligned to 1 MiB", 1 << 20, 128, 1),
    ]);
    all
}

fn constant_window() -> Attack {
    let text = format!(
        "{HEAD}.visible .const .align 8 .b8 table[64];\n.visible .entry k(.param .u64 x, .param \
         .u32 n, .param .u64 m) {{ .reg .b64 %d<9>; .reg .b32 %r<3>; ld.param.u64 %d1, [x]; \
         mov.u64 %d4, table; mov.u64 %d3, table+-4096; sub.s64 %d5, %d3, %d4; add.s64 %d5, %d5, \
         4096; add.s64 %d5, %d1, %d5; mov.u32 %r1, 5; st.global.u32 [%d5], %r1; ret; }}\n"
    );
    Attack::new("a constant address that wraps downwards", text).variable("table")
}

/// Each thread fills a local array, and counts the words that are wrong afterwards.
fn aligned(name: &'static str, align: u32, bytes: u32, grid: u32) -> Attack {
    let body = format!(
        ".local .align {align} .b8 own[{bytes}]; mov.u64 %d3, own; mov.u32 %r2, %tid.x; mov.u32 \
         %r3, 0; FILL: cvt.u64.u32 %d4, %r3; add.u64 %d5, %d3, %d4; st.local.u32 [%d5], %r2; \
         add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, {bytes}; @%p1 bra FILL; bar.sync 0; mov.u32 \
         %r3, 0; READ: cvt.u64.u32 %d4, %r3; add.u64 %d5, %d3, %d4; ld.local.u32 %r4, [%d5]; \
         setp.ne.u32 %p2, %r4, %r2; @%p2 red.global.add.u32 [%d1], 1; add.u32 %r3, %r3, 4; \
         setp.lt.u32 %p1, %r3, {bytes}; @%p1 bra READ;"
    );
    Attack::new(name, kernel("", &body)).block(64).grid(grid)
}
