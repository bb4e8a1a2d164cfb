//! Moves and conversions.

use super::{Chapter, Row, row};

pub(super) const MOVE: Chapter = Chapter {
    title: "Moves and addresses",
    note: "A special register is one of the list below, unless the text declares a register with \
           its name.",
    rows: MOVE_ROWS,
};

const MOVE_ROWS: &[Row] = &[
    row("mov.T=(b16|b32|b64|u16|u32|u64|s16|s32|s64) >T, T%&"),
    row("mov.T=(f32|f64) >T, T"),
    row("mov.pred >pred, pred%"),
    row("mov.b128 >b128, b128!").since("8.3", "sm_75"),
    row("mov.b32 >b32, 2*b16"),
    row("mov.b64 >b64, 2*b32"),
    row("mov.b64 >b64, 4*b16"),
    row("mov.b128 >b128, 2*b64").since("8.3", "sm_75"),
    row("mov.b32 >2*b16, b32!"),
    row("mov.b64 >2*b32, b64!"),
    row("mov.b64 >4*b16, b64!"),
    row("mov.b128 >2*b64, b128!").since("8.3", "sm_75"),
    row("mov.v2.T=(b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64) >2*T, 2*T"),
    row("mov.v4.T=(b16|b32|u16|u32|s16|s32|f32) >4*T, 4*T%"),
    row("cvta.S=(const|global|shared|shared::cta|local).u64 >u64, u64&"),
    row("cvta.to.(const|global|shared|shared::cta|local).u64 >u64, u64!"),
    row("cvta?.to.(shared::cluster).u64 >u64, u64!").since("7.8", "sm_90"),
    row("cvta.S=(param|param::entry).u64 >u64, u64!&").since("8.3", "sm_75"),
    row("cvta.to.(param|param::entry).u64 >u64, u64!").since("8.3", "sm_75"),
    row("isspacep.(const|global|shared|shared::cta|local) >pred, u64!"),
    row("isspacep.shared::cluster >pred, u64!").since("7.8", "sm_90"),
    row("isspacep.(param|param::entry) >pred, u64!").since("8.3", "sm_75"),
    row("mapa.T=(u32|u64) >T, T!, u32").since("7.8", "sm_90").note(
        "The result is any number. An access that uses it must be proven or checked like any other.",
    ),
    row("mapa.S=(shared::cluster).T=(u32|u64) >T, T!&, u32").since("7.8", "sm_90").note(
        "The result is any number.",
    ),
    row("getctarank.T=(u32|u64) >u32, T!").since("7.8", "sm_90"),
    row("getctarank.S=(shared::cluster).T=(u32|u64) >u32, T!&").since("7.8", "sm_90"),
    row("createpolicy.fractional.(L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged)?.(L2::evict_first|L2::evict_unchanged).b64 >u64, ?fraction")
        .since("7.4", "sm_80")
        .note("`.range` and `.cvt` are refused: they encode numbers from registers, and a policy that no `createpolicy` made is a fault."),
];

pub(super) const CONVERT: Chapter = Chapter {
    title: "Conversions",
    note: "",
    rows: CONVERT_ROWS,
};

const CONVERT_ROWS: &[Row] = &[
    row("cvt.D=@int8.T=(u32|s32) >D+, T+%"),
    row("cvt.D=@int8.T=(u8|u16|u64|s8|s16|s64) >D+, T+").note(
        "Not from a special register of 64 bits: `cvt.u8.u64` and `cvt.u16.u64` of `%clock64` end \
         with `CUDA_ERROR_ILLEGAL_INSTRUCTION` (H200, driver 580.159).",
    ),
    row("cvt.sat.D=(u8).T=(u16|u32|u64|s8|s16|s32|s64) >D+, T+"),
    row("cvt.sat.D=(u16).T=(u32|u64|s8|s16|s32|s64) >D+, T+"),
    row("cvt.sat.D=(u32).T=(u64|s8|s16|s32|s64) >D+, T+"),
    row("cvt.sat.D=(u64).T=(s8|s16|s32|s64) >D+, T+"),
    row("cvt.sat.D=(s8).T=(u8|u16|u32|u64|s16|s32|s64) >D+, T+"),
    row("cvt.sat.D=(s16).T=(u16|u32|u64|s32|s64) >D+, T+"),
    row("cvt.sat.D=(s32).T=(u32|u64|s64) >D+, T+"),
    row("cvt.sat.D=(s64).T=(u64) >D+, T+"),
    row("cvt.@toint?.ftz?.sat.D=@int8.f32 >D+, f32+"),
    row("cvt.@toint?.sat.D=@int8.f64 >D+, f64+"),
    row("cvt.@toint?.sat.D=@int8.f16 >D+, f16+!"),
    row("cvt.@toint.D=@int8.bf16 >D, bf16!").since("7.8", "sm_90"),
    row("cvt.@round?.sat.D=(f16|f64).T=@int8 >D+, T+"),
    row("cvt.@round?.ftz?.sat.f32.T=@int8 >f32+, T+"),
    row("cvt.@round.bf16.T=@int >bf16, T!").since("7.8", "sm_90"),
    row("cvt?.sat.f64.f16 >f64+, f16+!"),
    row("cvt?.ftz?.sat.f64.f32 >f64+, f32+"),
    row("cvt?.ftz?.sat.f32.f32 >f32+, f32+"),
    row("cvt?.sat.f64.f64 >f64+, f64+"),
    row("cvt?.ftz?.sat.f32.f16 >f32+, f16+!"),
    row("cvt.@round?.ftz?.sat.f32.f64 >f32+, f64+"),
    row("cvt.@round?.ftz?.sat.f16.f32 >f16+, f32+"),
    row("cvt.@round?.sat.f16.f64 >f16+, f64+"),
    row("cvt.@toint?.ftz?.sat.f32.f32 >f32+, f32+"),
    row("cvt.@toint?.sat.f64.f64 >f64+, f64+"),
    row("cvt.@toint?.sat.f16.f16 >f16+, f16+!"),
    row("cvt.@toint.bf16.bf16 >bf16, bf16!").since("7.8", "sm_90"),
    row("cvt?.@round?.ftz.f32.bf16 >f32, bf16!").since("7.8", "sm_90"),
    row("cvt.f32.bf16 >f32, bf16!").since("7.1", "sm_80"),
    row("cvt.f64.bf16 >f64, bf16!").since("7.8", "sm_90"),
    row("cvt.@round.bf16.T=(f16|f64) >bf16, T!").since("7.8", "sm_90"),
    row("cvt.@round.f16.bf16 >f16, bf16!").since("7.8", "sm_90"),
    row("cvt.@round.bf16.f32 >bf16, f32!").since("7.8", "sm_90"),
    row("cvt.(rn|rz).relu.f16.f32 >f16, f32!").since("7.0", "sm_80"),
    row("cvt.(rn|rz)?.relu.bf16.f32 >bf16, f32!").since("7.0", "sm_80"),
];

pub(super) const NARROW: Chapter = Chapter {
    title: "Conversions to packed and narrow formats",
    note: "",
    rows: NARROW_ROWS,
};

const NARROW_ROWS: &[Row] = &[
    row("cvt.(rn|rz)?.relu.D=(f16x2|bf16x2).f32 >D, f32, f32").since("7.0", "sm_80"),
    row("cvt.rna.tf32.f32 >tf32, f32!").since("7.0", "sm_80"),
    row("cvt.(rn|rz)?.relu.tf32.f32 >tf32, f32!").since("7.8", "sm_90"),
    row("cvt.rn.satfinite?.relu.D=(e4m3x2|e5m2x2).f32 >D, f32, f32").since("8.1", "sm_89"),
    row("cvt.rn.satfinite?.relu.D=(e4m3x2|e5m2x2).f16x2 >D, f16x2!").since("8.1", "sm_89"),
    row("cvt.rn?.relu.f16x2.T=(e4m3x2|e5m2x2) >f16x2, T!").since("8.1", "sm_89"),
    row("cvt.rn.satfinite?.relu.D=(e2m1x2|e2m3x2|e3m2x2).f32 >D, f32, f32").since("8.6", "sm_100a"),
    row("cvt.rn?.relu.f16x2.T=(e2m1x2|e2m3x2|e3m2x2) >f16x2, T!").since("8.6", "sm_100a"),
    row("cvt.rn.satfinite?.relu.D=(e2m1x2|e2m3x2|e3m2x2).f16x2 >D, f16x2!").since("9.1", "sm_100a"),
    row("cvt.rn.satfinite?.relu.D=(e4m3x2|e5m2x2|e2m1x2|e2m3x2|e3m2x2).bf16x2 >D, bf16x2!")
        .since("9.1", "sm_100a"),
    row("cvt.rn?.relu.bf16x2.T=(e4m3x2|e5m2x2|e2m1x2|e2m3x2|e3m2x2) >bf16x2, T!")
        .since("9.2", "sm_100a"),
    row("cvt.(rz|rp)?.satfinite.ue8m0x2.f32 >ue8m0x2, f32, f32").since("8.6", "sm_100a"),
    row("cvt.(rz|rp)?.satfinite.ue8m0x2.bf16x2 >ue8m0x2, bf16x2!").since("8.6", "sm_100a"),
    row("cvt.rn.bf16x2.ue8m0x2 >bf16x2, ue8m0x2!").since("8.6", "sm_100a"),
    row("cvt.pack.sat.(u16|s16).s32 >u32, s32, s32"),
    row("cvt.pack.sat.(u8|s8|u4|s4|u2|s2).s32.b32 >u32, s32, s32, b32"),
];
