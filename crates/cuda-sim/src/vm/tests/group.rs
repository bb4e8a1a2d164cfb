//! `wgmma` and `tensormap`: what is reported or refused. Their results are tested by the suite
//! `hopper` of cuda-conformance.

use super::check::{checked, found_by};
use super::device::{Device, TARGET};
use crate::report::{Hazard, Report, ReportKind};
use crate::vm::{FaultKind, LoadError};

/// A product of bytes from the first 2560 bytes of shared memory: A without a swizzle, and the same
/// bytes as B.
const PRODUCT: &str =
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2, %d3}, %y1, %y1, 1;";

/// A kernel of 128 or more threads that fills 4096 bytes of shared memory, and then runs `body`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{
        .reg .b32 %t, %s, %x<8>, %d<4>, %c<4>, %e<4>, %a<4>; .reg .b64 %at, %y<8>; .reg .pred %p<4>;
        .shared .align 1024 .b8 shared[8192];
        ld.param.u64 %at, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %y0, %t, 4; add.u64 %at, %at, %y0;
        mov.u32 %s, shared; shl.b32 %x0, %t, 5; add.u32 %s, %s, %x0; mov.u32 %x0, 0x01020304;
        st.shared.v4.b32 [%s], {{%x0, %x0, %x0, %x0}}; st.shared.v4.b32 [%s+16], {{%x0, %x0, %x0, %x0}};
        mov.u32 %x1, shared; shr.u32 %x1, %x1, 4; cvt.u64.u32 %y1, %x1;
        // The leading dimension: 128 bytes; the stride: 256 bytes.
        or.b64 %y1, %y1, 0x1000080000;
        setp.eq.u32 %p0, %t, 0;
        add.u32 %d0, %t, 1; add.u32 %d1, %t, 2; add.u32 %d2, %t, 3; add.u32 %d3, %t, 4;
        fence.proxy.async; bar.sync 0;
        {body}
        ret; }}"
    )
}

fn found(body: &str) -> Vec<Report> {
    let device = checked(&kernel(body));
    let out = device.upload(&[0; 4096]);
    found_by(&device, 1, 128, &[out])
}

/// The kinds and the PTX texts of the findings of a kernel.
#[track_caller]
fn kinds(body: &str) -> Vec<ReportKind> {
    found(body).into_iter().map(|report| report.kind).collect()
}

const USE: &str = "add.s32 %x2, %d0, %d3; st.global.u32 [%at], %x2;";

#[test]
fn a_product_with_fence_and_wait_has_no_findings() {
    let body = format!(
        "wgmma.fence.sync.aligned; {PRODUCT} {PRODUCT} wgmma.commit_group.sync.aligned;
         wgmma.wait_group.sync.aligned 0; {USE}"
    );
    assert_eq!(found(&body), []);
}

#[test]
fn a_sum_that_is_read_before_the_wait_is_reported() {
    for wait in ["", "wgmma.wait_group.sync.aligned 1;"] {
        let body = format!(
            "wgmma.fence.sync.aligned; {PRODUCT} wgmma.commit_group.sync.aligned; {wait} {USE}
             wgmma.wait_group.sync.aligned 0;"
        );
        let found = found(&body);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, ReportKind::AsyncRegister);
        assert!(
            found[0].message.contains("wgmma.wait_group"),
            "{}",
            found[0]
        );
        assert!(found[0].other.is_some(), "{}", found[0]);
        // Once for each of two registers and each warp.
        assert_eq!(found[0].times, 8);
    }
}

#[test]
fn a_wait_ends_the_older_groups_only() {
    let other = PRODUCT.replace("%d", "%c");
    let body = |used: &str| {
        format!(
            "mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;
             wgmma.fence.sync.aligned; {PRODUCT} wgmma.commit_group.sync.aligned;
             {other} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;
             st.global.u32 [%at], %{used}0; wgmma.wait_group.sync.aligned 0;"
        )
    };
    assert_eq!(kinds(&body("d")), []);
    assert_eq!(kinds(&body("c")), [ReportKind::AsyncRegister]);
}

#[test]
fn a_copy_of_a_sum_counts_as_the_sum() {
    // Compilers copy registers between two products; the use of a copy is reported.
    let body = |between: &str| {
        let second = PRODUCT.replace("%d", "%e");
        format!(
            "wgmma.fence.sync.aligned; {PRODUCT} mov.b32 %e0, %d0; mov.b32 %e1, %d1;
             mov.b32 %e2, %d2; mov.b32 %e3, %d3; {second} wgmma.commit_group.sync.aligned;
             mov.b32 %c0, %e0; {between} wgmma.wait_group.sync.aligned 0; st.global.u32 [%at], %c0;"
        )
    };
    assert_eq!(kinds(&body("")), []);
    let found = kinds(&body("st.global.u32 [%at], %c0;"));
    assert_eq!(found, [ReportKind::AsyncRegister]);
    // A copy that gets another value is a register like any other.
    assert_eq!(
        kinds(&body("mov.b32 %c0, %a0; st.global.u32 [%at], %c0;")),
        []
    );
}

#[test]
fn a_register_written_after_the_fence_is_reported() {
    let body = |before: &str, after: &str| {
        format!(
            "{before} wgmma.fence.sync.aligned; {after} {PRODUCT} wgmma.commit_group.sync.aligned;
             wgmma.wait_group.sync.aligned 0; {USE}"
        )
    };
    assert_eq!(kinds(&body("add.s32 %d2, %d2, 1;", "")), []);
    let reports = found(&body("", "add.s32 %d2, %d2, 1;"));
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].message.contains("wgmma.fence"), "{}", reports[0]);
}

#[test]
fn a_register_written_before_the_wait_is_reported() {
    let body = format!(
        "wgmma.fence.sync.aligned; {PRODUCT} wgmma.commit_group.sync.aligned;
         add.s32 %d2, %t, 1; wgmma.wait_group.sync.aligned 0;"
    );
    assert_eq!(kinds(&body), [ReportKind::AsyncRegister]);
}

#[test]
fn a_write_to_memory_in_use_is_a_race() {
    let body = |early: &str, late: &str| {
        format!(
            "wgmma.fence.sync.aligned; {PRODUCT} wgmma.commit_group.sync.aligned; bar.sync 0;
             {early} wgmma.wait_group.sync.aligned 0; bar.sync 0; {late}"
        )
    };
    // Thread 0 replaces a byte that the other warps read, and that its own warp reads.
    let write = "@%p0 st.shared.u8 [%s], 77;";
    assert_eq!(kinds(&body("", write)), []);
    let found = found(&body(write, ""));
    assert!(!found.is_empty());
    for report in found {
        let hazards = [
            ReportKind::Race(Hazard::ReadAfterWrite),
            ReportKind::Race(Hazard::WriteAfterRead),
        ];
        assert!(hazards.contains(&report.kind), "{report}");
    }
}

#[test]
fn a_product_reads_only_its_own_shared_memory() {
    let body = "or.b64 %y1, %y1, 0x3fff; wgmma.fence.sync.aligned;";
    let device = Device::new(&kernel(&format!("{body} {PRODUCT}")));
    let out = device.upload(&[0; 4096]);
    let fault = device.run(1, 128, &[out]).unwrap_err();
    assert!(fault.message.contains("of shared memory"), "{fault}");
}

#[test]
fn a_product_needs_four_full_warps() {
    let device = Device::new(&kernel(PRODUCT));
    let out = device.upload(&[0; 4096]);
    for threads in [32, 96, 127, 160] {
        let fault = device.run(1, threads, &[out]).unwrap_err();
        assert_eq!(
            fault.kind,
            FaultKind::IllegalInstruction,
            "{threads}: {fault}"
        );
    }
    device.run(1, 128, &[out]).unwrap();
}

#[test]
fn invalid_forms_of_products_are_refused() {
    for text in [
        // Too few registers, a wrong width, a wrong depth.
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2}, %y1, %y1, 1;",
        "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%d0}, %y1, %y1, 1;",
        "wgmma.mma_async.sync.aligned.m64n0k32.s32.s8.s8 {%d0}, %y1, %y1, 1;",
        "wgmma.mma_async.sync.aligned.m64n99999999999999999999k32.s32.s8.s8 {%d0}, %y1, %y1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.s32.s8.s8 {%d0, %d1, %d2, %d3}, %y1, %y1, 1;",
        // Operands that this type does not have, or that are out of range.
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2, %d3}, %y1, %y1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %y1, %y1, 1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %y1, %y1, 1, 1, 1, 0, 2;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %y1, %y1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %y1, %y1, 1, %x0, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3};",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%d0, %d1, %d2, %d3}, %y1, %y1, %x0, 2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k512.s32.b1.b1.and.popc {%d0, %d1, %d2, %d3}, %y1, %y1, %x0, 0, 1;",
        "wgmma.wait_group.sync.aligned 8;",
        "wgmma.wait_group.sync.aligned %x0;",
        "wgmma.fence.sync.aligned 1;",
        "tensormap.replace.tile.rank.global.b1024.b64 [%at], %y0;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%at], 5, %x0;",
        "tensormap.replace.tile.global_stride.global.b1024.b64 [%at], 4, %y0;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%at], %x0;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%at], %x0;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%at], 99;",
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%at], 4294967299;",
        "tensormap.replace.tile.fill_mode.global.b1024.b32 [%at], 1;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%at], [%s], 64;",
    ] {
        let result = Device::load(&kernel(text), &TARGET);
        assert!(matches!(result, Err(LoadError::InvalidPtx(_))), "{text}");
    }
}

#[test]
fn memory_without_a_map_cannot_be_changed() {
    let text = kernel("@%p0 tensormap.replace.tile.rank.global.b1024.b32 [%at], 1;");
    let device = Device::new(&text);
    let zeros = device.upload(&[0; 128]);
    device.run(1, 128, &[zeros]).unwrap();
    let other = device.upload(&[7; 128]);
    let fault = device.run(1, 128, &[other]).unwrap_err();
    assert!(
        fault.message.contains("neither a tensor map nor"),
        "{fault}"
    );
    let odd = device.upload(&[0; 256]) + 32;
    let fault = device.run(1, 128, &[odd]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::MisalignedAddress);
}
