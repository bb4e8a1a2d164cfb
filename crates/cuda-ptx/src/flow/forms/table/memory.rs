//! Accesses to memory.

use super::{Chapter, Row, row};

pub(super) const LOADS: Chapter = Chapter {
    title: "Loads",
    note: "Every address is a 64-bit register, a 32-bit register in shared, local, constant and \
           parameter space, or a variable of the same space. It is aligned to the size of the \
           access. Access to the shared memory of another block (`.shared::cluster`) is refused. \
           The order of a scope and a space is free for the assembler; these are the orders of the \
           manual and of known compilers.",
    rows: LOAD_ROWS,
};

const LOAD_ROWS: &[Row] = &[
    row("ld?.weak?.S=@space?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld?.S=@space.(ca|cg|cs|lu|cv)?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.(ca|cg|cs|lu|cv)?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld?.S=(global)?.@l1?.@prefetch?.V=@vector.T=@memory >V*T+, [r V*T]")
        .since("7.4", "sm_80"),
    row("ld?.S=(global)?.@l1.L2::cache_hint?.@prefetch?.V=@vector.T=@memory >V*T+, [r V*T], policy")
        .since("7.4", "sm_80"),
    row("ld.volatile?.S=@atomic?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.S=@atomic.volatile?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.volatile.S=(local)?.V=@vector.T=@memory >V*T+, [r V*T]").since("9.1", "sm_75"),
    row("ld.(relaxed|acquire).@scope?.S=(global|shared|shared::cta)?.V=@vector.T=@memory >V*T+, [r V*T]")
        .since("7.8", "sm_90"),
    row("ld.S=(global|shared|shared::cta).(relaxed|acquire).@scope?.V=@vector.T=@memory >V*T+, [r V*T]")
        .since("7.8", "sm_90"),
    row("ld.(relaxed|acquire).@scope?.S=(global)?.@l1?.L2::cache_hint?.@prefetch?.V=@vector.T=@memory >V*T+, [r V*T], policy")
        .since("7.8", "sm_90"),
    row("ld.mmio.relaxed.sys?.S=(global).T=@memory >T+, [r T]").since("8.2", "sm_75"),
    row("ld.S=(global)?.(ca|cg|cs).nc?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.S=(global).nc?.@l1?.@prefetch?.V=@vector.T=@memory >V*T+, [r V*T]")
        .since("7.4", "sm_80"),
    row("ld.S=(global).nc?.@l1.L2::cache_hint?.@prefetch?.V=@vector.T=@memory >V*T+, [r V*T], policy")
        .since("7.4", "sm_80"),
    row("ld.S=(const)?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.S=(param)?.V=@vector.T=@memory >V*T+, [r V*T]"),
    row("ld.S=(param::entry)?.V=@vector.T=@memory >V*T+, [r V*T]").since("8.3", "sm_75"),
    row("ld?.weak?.S=@space.b128 >b128, [r b128]").since("8.3", "sm_75"),
    row("ld.S=(global)?.nc?.@l1?.L2::cache_hint?.@prefetch.b128 >b128, [r b128], policy")
        .since("8.3", "sm_80"),
    row("ld.S=(global)?.nc.V=(v8).T=(b32|u32|s32|f32) >V*T, [r V*T]").since("8.8", "sm_100"),
    row("ld.S=(global)?.nc.V=(v4).T=(b64|u64|s64|f64) >V*T, [r V*T]").since("8.8", "sm_100"),
    row("ldu?.S=(global)?.V=@vector.T=@memory >V*T+, [r V*T]"),
];

pub(super) const STORES: Chapter = Chapter {
    title: "Stores",
    note: "As for loads. Stores to constants and parameters are refused.",
    rows: STORE_ROWS,
};

const STORE_ROWS: &[Row] = &[
    row("st?.weak?.S=@space?.V=@vector.T=@memory [w V*T], V*T+"),
    row("st?.S=@space.(wb|cg|cs|wt)?.V=@vector.T=@memory [w V*T], V*T+"),
    row("st.(wb|cg|cs|wt)?.V=@vector.T=@memory [w V*T], V*T+"),
    row("st?.S=(global)?.@l1?.V=@vector.T=@memory [w V*T], V*T+").since("7.4", "sm_80"),
    row("st?.S=(global)?.@l1.L2::cache_hint?.V=@vector.T=@memory [w V*T], V*T+, policy")
        .since("7.4", "sm_80"),
    row("st.volatile?.S=@atomic?.V=@vector.T=@memory [w V*T], V*T+"),
    row("st.S=@atomic.volatile?.V=@vector.T=@memory [w V*T], V*T+"),
    row("st.volatile.S=(local)?.V=@vector.T=@memory [w V*T], V*T+").since("9.1", "sm_75"),
    row("st.(relaxed|release).@scope?.S=(global|shared|shared::cta)?.V=@vector.T=@memory [w V*T], V*T+")
        .since("7.8", "sm_90"),
    row("st.S=(global|shared|shared::cta).(relaxed|release).@scope?.V=@vector.T=@memory [w V*T], V*T+")
        .since("7.8", "sm_90"),
    row("st.(relaxed|release).@scope?.S=(global)?.@l1?.L2::cache_hint?.V=@vector.T=@memory [w V*T], V*T+, policy")
        .since("7.8", "sm_90"),
    row("st.mmio.relaxed.sys?.S=(global).T=@memory [w T], T+").since("8.2", "sm_75"),
    row("st?.weak?.S=@space.b128 [w b128], b128!").since("8.3", "sm_75"),
    row("st.S=(global)?.@l1?.L2::cache_hint.b128 [w b128], b128!, policy").since("8.3", "sm_80"),
    row("st.S=(global).V=(v8).T=(b32|u32|s32|f32) [w V*T], V*T").since("8.8", "sm_100"),
    row("st.S=(global).V=(v4).T=(b64|u64|s64|f64) [w V*T], V*T").since("8.8", "sm_100"),
];

pub(super) const ATOMICS: Chapter = Chapter {
    title: "Atomic operations",
    note: "A generic address must be one in global or shared memory: the manual leaves it undefined \
           what happens in local memory. The same applies to loads and stores with `.relaxed`, \
           `.acquire` or `.release`.",
    rows: ATOMIC_ROWS,
};

const ATOMIC_ROWS: &[Row] = &[
    row("atom?.@order?.@scope?.S=@atomic.(and|or|xor|exch).T=(b32|b64) >T_, [x T], T"),
    row("atom?.@order?.@scope?.S=@atomic.cas.T=(b16|b32|b64) >T_, [x T], T, T"),
    row("atom?.@order?.@scope?.S=@atomic.add.T=(u32|s32|u64|f32|f64) >T_, [x T], T"),
    row("atom?.@order?.@scope?.S=@atomic.(min|max).T=(u32|s32|u64|s64) >T_, [x T], T"),
    row("atom?.@order?.@scope?.S=@atomic.(inc|dec).u32 >u32_, [x u32], u32"),
    row("atom?.@order?.@scope?.S=@atomic.add.noftz.T=(f16|f16x2) >T_, [x T], T!"),
    row("atom?.@order?.@scope?.S=@atomic.add.noftz.T=(bf16|bf16x2) >T_, [x T], T!")
        .since("7.8", "sm_90"),
    row("atom?.@order?.@scope?.S=@atomic.exch.b128 >b128_, [x b128], b128!").since("8.4", "sm_90"),
    row("atom?.@order?.@scope?.S=@atomic.cas.b128 >b128_, [x b128], b128!, b128!")
        .since("8.4", "sm_90"),
    row(
        "atom?.@order?.@scope?.S=(global).(and|or|xor|exch).L2::cache_hint.T=(b32|b64) >T_, [x T], T, policy",
    ),
    row(
        "atom?.@order?.@scope?.S=(global).add.L2::cache_hint.T=(u32|s32|u64|f32|f64) >T_, [x T], T, policy",
    ),
    row(
        "atom?.@order?.@scope?.S=(global).(min|max).L2::cache_hint.T=(u32|s32|u64|s64) >T_, [x T], T, policy",
    ),
    row("atom?.S=@atomic.(and|or|xor|exch)?.@order.@scope.T=(b32|b64) >T_, [x T], T"),
    row("atom?.S=@atomic.cas?.@order.@scope.T=(b16|b32|b64) >T_, [x T], T, T"),
    row("atom?.S=@atomic.add?.@order.@scope.T=(u32|s32|u64|f32|f64) >T_, [x T], T"),
    row("atom?.S=@atomic.(min|max)?.@order.@scope.T=(u32|s32|u64|s64) >T_, [x T], T"),
    row("atom?.S=@atomic.(inc|dec)?.@order.@scope.u32 >u32_, [x u32], u32"),
    row("atom.S=@atomic.@scope?.@order.(and|or|xor|exch).T=(b32|b64) >T_, [x T], T"),
    row("atom.S=@atomic.@scope?.@order.cas.T=(b16|b32|b64) >T_, [x T], T, T"),
    row("atom.S=@atomic.@scope?.@order.add.T=(u32|s32|u64|f32|f64) >T_, [x T], T"),
    row("atom.S=@atomic.@scope?.@order.(min|max).T=(u32|s32|u64|s64) >T_, [x T], T"),
    row("atom.S=@atomic.@scope?.@order.(inc|dec).u32 >u32_, [x u32], u32"),
    row("atom.S=@atomic.@scope?.@order.add.noftz.T=(f16|f16x2) >T_, [x T], T!"),
    row("atom?.@order?.@scope.S=(global).add.V=@vector.f32 >V*f32, [x V*f32], V*f32")
        .since("8.1", "sm_90"),
    row("red?.@relaxed?.@scope?.S=@atomic.(and|or|xor).T=(b32|b64) [x T], T"),
    row("red?.@relaxed?.@scope?.S=@atomic.add.T=(u32|s32|u64|f32|f64) [x T], T"),
    row("red?.@relaxed?.@scope?.S=@atomic.(min|max).T=(u32|s32|u64|s64) [x T], T"),
    row("red?.@relaxed?.@scope?.S=@atomic.(inc|dec).u32 [x u32], u32"),
    row("red?.@relaxed?.@scope?.S=@atomic.add.noftz.T=(f16|f16x2) [x T], T!"),
    row("red?.@relaxed?.@scope?.S=@atomic.add.noftz.T=(bf16|bf16x2) [x T], T!")
        .since("7.8", "sm_90"),
    row(
        "red?.@relaxed?.@scope?.S=(global).add.L2::cache_hint.T=(u32|s32|u64|f32|f64) [x T], T, policy",
    ),
    row("red?.@relaxed?.@scope.S=(global).add.V=@vector.f32 [x V*f32], V*f32")
        .since("8.1", "sm_90"),
    row("red.S=@atomic.@scope?.@relaxed.(and|or|xor).T=(b32|b64) [x T], T"),
    row("red.S=@atomic.@scope?.@relaxed.add.T=(u32|s32|u64|f32|f64) [x T], T"),
    row("red.S=@atomic.@scope?.@relaxed.(min|max).T=(u32|s32|u64|s64) [x T], T"),
    row("red.S=@atomic.@scope?.@relaxed.(inc|dec).u32 [x u32], u32"),
    row("red.S=@atomic.@scope?.@relaxed.add.noftz.T=(f16|f16x2) [x T], T!"),
    row("red?.S=@atomic.(and|or|xor)?.@relaxed.@scope.T=(b32|b64) [x T], T"),
    row("red?.S=@atomic.add?.@relaxed.@scope.T=(u32|s32|u64|f32|f64) [x T], T"),
    row("red?.S=@atomic.(min|max)?.@relaxed.@scope.T=(u32|s32|u64|s64) [x T], T"),
];

pub(super) const COPIES: Chapter = Chapter {
    title: "Asynchronous copies",
    note: "A copy of fewer bytes than its size counts as a whole one. Bulk and tensor copies, and \
           those that signal an mbarrier, are refused.",
    rows: COPY_ROWS,
};

const COPY_ROWS: &[Row] = &[
    row("cp.async.ca.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(4), ?u32..4, policy").since("7.4", "sm_80"),
    row("cp.async.ca.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(8), ?u32..8, policy").since("7.4", "sm_80"),
    row("cp.async.ca.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(16), ?u32..16, policy").since("7.4", "sm_80"),
    row("cp.async.cg.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(16), ?u32..16, policy").since("7.4", "sm_80"),
    row("cp.async.ca.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(4|8|16), pred!, policy").since("7.5", "sm_80"),
    row("cp.async.cg.@own.global?.L2::cache_hint?.@prefetch [w size shared], [r size global], #(16), pred!, policy").since("7.5", "sm_80"),
    row("cp.async.commit_group").since("7.0", "sm_80"),
    row("cp.async.wait_group #0..2147483647").since("7.0", "sm_80"),
    row("cp.async.wait_all").since("7.0", "sm_80"),
];

pub(super) const CACHES: Chapter = Chapter {
    title: "Caches",
    note: "The generic forms of `discard` and `applypriority` are refused: the manual leaves them \
           undefined outside of global memory.",
    rows: CACHE_ROWS,
};

const CACHE_ROWS: &[Row] = &[
    row("prefetch?.S=(global|local).(L1|L2) [r 1]"),
    row("prefetch.S=(global).(L2::evict_last|L2::evict_normal) [r 1]").since("7.4", "sm_80"),
    row("prefetchu.L1 [r 1]"),
    row("applypriority.S=(global).L2::evict_normal [w 128], #(128)").since("7.4", "sm_80"),
    row("discard.S=(global).L2 [w 128], #(128)").since("7.4", "sm_80"),
];
