//! Warps, barriers, and control flow.

use super::{Chapter, Row, row};

pub(super) const WARPS: Chapter = Chapter {
    title: "Warps",
    note: "A result is any number. The manual leaves the result undefined if a thread is not in its \
           own mask or if a thread of the mask does not take part. An H200 then gives a number, \
           also for the mask 0; it is assumed that no other effect is possible than a wrong number \
           or a thread that does not end.",
    rows: WARP_ROWS,
};

const WARP_ROWS: &[Row] = &[
    row("shfl.sync.(up|down|bfly|idx).b32 >b32|pred, b32, b32, b32, u32"),
    row("vote.sync.(all|any|uni).pred >pred, pred, u32"),
    row("vote.sync.ballot.b32 >u32, pred, u32"),
    row("vote.ballot.sync.b32 >u32, pred, u32"),
    row("match.any.sync.T=(b32|b64) >u32, T, u32"),
    row("match.all.sync.T=(b32|b64) >u32|pred, T, u32"),
    row("activemask.b32 >u32"),
    row("redux.sync.(add|min|max).T=(u32|s32) >T, T, u32").since("7.0", "sm_80"),
    row("redux.sync.(and|or|xor).b32 >u32, u32, u32").since("7.0", "sm_80"),
    row("redux.sync.(min|max)?.abs?.NaN.f32 >f32, f32, u32").since("8.6", "sm_100a"),
    row("elect.sync >u32&pred_, u32").since("8.0", "sm_90"),
];

pub(super) const BARRIERS: Chapter = Chapter {
    title: "Barriers and fences",
    note: "A number of threads that is not a multiple of 32 is a fault. The numbers of barriers and \
           of threads must be constants: numbers, or registers that are copies of numbers. A launch \
           whose block has fewer threads is refused. Fences that take an address \
           (`fence.proxy.tensormap`) are refused.",
    rows: BARRIER_ROWS,
};

const BARRIER_ROWS: &[Row] = &[
    row("bar?.cta.sync barrier, ?threads"),
    row("bar?.cta.arrive barrier, threads"),
    row("bar?.cta.red.popc.u32 >u32, barrier, ?threads, pred"),
    row("bar?.cta.red.(and|or).pred >pred, barrier, ?threads, pred"),
    row("barrier?.cta.sync?.aligned barrier, ?threads"),
    row("barrier?.cta.arrive?.aligned barrier, threads"),
    row("barrier?.cta.red.popc?.aligned.u32 >u32, barrier, ?threads, pred"),
    row("barrier?.cta.red.(and|or)?.aligned.pred >pred, barrier, ?threads, pred"),
    row("barrier?.cta.red?.aligned.popc.u32 >u32, barrier, ?threads, pred"),
    row("bar.warp.sync u32"),
    row("barrier.cluster.arrive?.(release|relaxed)?.aligned").since("8.0", "sm_90"),
    row("barrier.cluster.wait?.acquire?.aligned").since("8.0", "sm_90"),
    row("membar.(cta|gl|sys)"),
    row("membar.proxy.alias").since("7.5", "sm_75"),
    row("fence?.(sc|acq_rel).@scope").since("7.8", "sm_90"),
    row("fence.(sc|acq_rel).(cta|gpu|sys)"),
    row("fence.(acquire|release).@scope").since("8.6", "sm_90"),
    row("fence.proxy.alias").since("7.5", "sm_75"),
    row("fence.proxy.async?.(global|shared::cta|shared::cluster)").since("8.0", "sm_90"),
    row("fence.mbarrier_init.release.cluster").since("8.0", "sm_90"),
];

pub(super) const CONTROL: Chapter = Chapter {
    title: "Control flow and the rest",
    note: "",
    rows: CONTROL_ROWS,
};

const CONTROL_ROWS: &[Row] = &[
    row("bra?.uni label"),
    row("brx.idx?.uni u32!, table"),
    row("ret?.uni"),
    row("exit"),
    row("trap").note("Ends the thread as a violation: the kernel is launched as a copy."),
    row("brkpt").note("As `trap`."),
    row("nanosleep.u32 u32"),
    row("pmevent #0..15"),
    row("pmevent.mask #0..65535"),
    row("griddepcontrol.(launch_dependents|wait)")
        .since("7.8", "sm_90")
        .note(
            "Without effect: an edge or a stream order that does not wait for the end is refused.",
        ),
];
