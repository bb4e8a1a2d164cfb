//! Comparisons and selection.

use super::{Chapter, Row, row};

pub(super) const COMPARE: Chapter = Chapter {
    title: "Comparisons and selection",
    note: "",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    row("setp.(eq|ne).T=@bits >pred|pred_, T, T"),
    row("setp.@unsigned.T=(u16|u32|u64) >pred|pred_, T, T"),
    row("setp.@signed.T=(s16|s32|s64) >pred|pred_, T, T"),
    row("setp.@ordered?.ftz.f32 >pred|pred_, f32, f32"),
    row("setp.@ordered.f64 >pred|pred_, f64, f64"),
    row("setp.(eq|ne).@logic.T=@bits >pred|pred_, T, T, pred"),
    row("setp.@unsigned.@logic.T=(u16|u32|u64) >pred|pred_, T, T, pred"),
    row("setp.@signed.@logic.T=(s16|s32|s64) >pred|pred_, T, T, pred"),
    row("setp.@ordered.@logic?.ftz.f32 >pred|pred_, f32, f32, pred"),
    row("setp.@ordered.@logic.f64 >pred|pred_, f64, f64, pred"),
    row("setp.@ordered?.ftz.f16 >pred, f16!, f16!"),
    row("setp.@ordered?.ftz.f16x2 >pred&pred_, f16x2!, f16x2!"),
    row("setp.@ordered.bf16 >pred, bf16!, bf16!").since("7.8", "sm_90"),
    row("setp.@ordered.bf16x2 >pred&pred_, bf16x2!, bf16x2!").since("7.8", "sm_90"),
    row("setp.@ordered.@logic?.ftz.f16 >pred, f16!, f16!, pred"),
    row("setp.@ordered.@logic.bf16 >pred, bf16!, bf16!, pred!").since("7.8", "sm_90"),
    row("set.(eq|ne).D=(u32|s32|f32).T=@bits >D, T, T"),
    row("set.@unsigned.D=(u32|s32|f32).T=(u16|u32|u64) >D, T, T"),
    row("set.@signed.D=(u32|s32|f32).T=(s16|s32|s64) >D, T, T"),
    row("set.@ordered?.ftz.D=(u32|s32|f32).f32 >D, f32, f32"),
    row("set.@ordered.D=(u32|s32|f32).f64 >D, f64, f64"),
    row("set.@signed.@logic.D=(u32|s32|f32).T=(s16|s32|s64) >D, T, T, pred"),
    row("set.@unsigned.@logic.D=(u32|s32|f32).T=(u16|u32|u64) >D, T, T, pred"),
    row("set.@ordered.@logic?.ftz.D=(u32|s32|f32).f32 >D, f32, f32, pred"),
    row("set.@ordered.@logic.D=(u32|s32|f32).f64 >D, f64, f64, pred"),
    row("set.@ordered?.ftz.f16.f16 >f16, f16!, f16!"),
    row("set.@ordered?.ftz.f16x2.f16x2 >f16x2, f16x2!, f16x2!"),
    row("set.@ordered?.ftz.D=(u16|s16|u32|s32).f16 >D, f16!, f16!"),
    row("set.@ordered.bf16.bf16 >bf16, bf16!, bf16!").since("7.8", "sm_90"),
    row("set.@ordered.bf16x2.bf16x2 >bf16x2, bf16x2!, bf16x2!").since("7.8", "sm_90"),
    row("set.@ordered.D=(u16|s16|u32|s32).bf16 >D, bf16!, bf16!").since("7.8", "sm_90"),
    row("set.@ordered?.ftz.D=(u32|s32).f16x2 >D, f16x2!, f16x2!"),
    row("set.@ordered.D=(u32|s32).bf16x2 >D, bf16x2!, bf16x2!").since("7.8", "sm_90"),
    row("selp.T=(b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64) >T, T, T, pred"),
    row("slct.T=(b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64).s32 >T, T, T, s32"),
    row("slct?.ftz.T=(b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64).f32 >T, T, T, f32"),
];
