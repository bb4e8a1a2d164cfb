//! Source lines, and the descriptions of faults.

use super::device::Device;
use crate::report::{MemorySpace, ReportKind};
use crate::vm::FaultKind;

/// Functions that are inlined into each other, as NVRTC writes them with `-lineinfo`: `.file` comes
/// last.
const INLINED: &str = r#".visible .entry k(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %t;
    .loc 1 30 0
    ld.param.u64 %a, [p];
    .loc 1 31 3, function_name $L__info_string0, inlined_at 2 40 5
    .loc 1 12 9, function_name $L__info_string1, inlined_at 1 31 3
    st.global.u32 [%a], 1;
    .loc 2 40 5
    .loc 2 41 5
    st.global.u32 [%a+2], 1;
    ret;
}
.func f() { ret; }
.file 1 "inner.cuh"
.file 2 "outer.cu"
.section .debug_str { $L__info_string0: .b8 102, 0 $L__info_string1: .b8 103, 0 }
"#;

#[test]
fn a_line_reports_where_it_was_inlined() {
    let device = Device::new(INLINED);
    let fault = device.run(1, 1, &[0]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    let words = fault.to_string();
    // The test device adds the first three lines.
    assert_eq!(fault.at.ptx_line, 10, "{words}");
    let lines = "PTX line 10, inner.cuh:12 inlined at inner.cuh:31 inlined at outer.cu:40";
    assert!(words.contains(lines), "{words}");
    let out = device.upload32(&[0, 0]);
    let fault = device.run(1, 1, &[out]).unwrap_err();
    let source = fault.at.source.clone().unwrap();
    assert_eq!((source.file.as_str(), source.line), ("outer.cu", 41));
    assert_eq!(source.inlined_at, None);
    let report = fault.report();
    assert_eq!(report.kind, ReportKind::Misaligned);
    let access = report.access.unwrap();
    assert_eq!(access.space, MemorySpace::Global);
    assert_eq!((access.address, access.size), (out + 2, 4));
}

#[test]
fn a_function_without_lines_has_none_of_the_one_before() {
    let text = INLINED.replace(
        ".func f() { ret; }",
        ".visible .entry g(.param .u64 p) { trap; }",
    );
    let device = Device::new(&text);
    let program = device.image.program();
    let kernel = program.kernel("g").unwrap();
    let (params, map) = ([0; 8], device.arena.map());
    let params = crate::vm::LaunchParams::new([1; 3], [1; 3], &params, &map);
    let fault = crate::vm::launch(&device.image, kernel, &params).unwrap_err();
    assert_eq!(fault.at.source, None, "{fault}");
    assert_eq!(fault.report().kind, ReportKind::Fault);
}

/// Stores to the address, then to shared memory, to local memory and behind the parameters.
const STRAY: &str = "
.visible .entry k(.param .u64 p, .param .u64 which) {
    .reg .b64 %a, %w; .reg .pred %q; .reg .b32 %t;
    .shared .align 4 .b8 s[64]; .local .align 4 .b8 l[32];
    ld.param.u64 %a, [p]; ld.param.u64 %w, [which]; mov.u32 %t, %tid.x;
    setp.eq.u64 %q, %w, 0; @%q st.global.u32 [%a], %t;
    setp.eq.u64 %q, %w, 1; @%q st.shared.u32 [s+64], %t;
    setp.eq.u64 %q, %w, 2; @%q st.local.u32 [l+64], %t;
    setp.eq.u64 %q, %w, 3; @%q ld.shared.v4.u32 {%t, _, _, _}, [s+4];
    ret; }";

#[test]
fn reports_say_which_memory() {
    let device = Device::new(STRAY);
    let data = device.upload(&[0; 100]);
    let report = |address, which| device.run(1, 1, &[address, which]).unwrap_err().report();
    for (address, which, kind, space, at, size) in [
        (
            data + 100,
            0,
            ReportKind::OutOfBounds,
            MemorySpace::Global,
            data + 100,
            4,
        ),
        (
            data + 98,
            0,
            ReportKind::Misaligned,
            MemorySpace::Global,
            data + 98,
            4,
        ),
        (data, 1, ReportKind::OutOfBounds, MemorySpace::Shared, 64, 4),
        (data, 2, ReportKind::OutOfBounds, MemorySpace::Local, 64, 4),
        (data, 3, ReportKind::Misaligned, MemorySpace::Shared, 4, 4),
    ] {
        let report = report(address, which);
        assert_eq!(report.kind, kind, "{report}");
        let access = report.access.unwrap();
        assert_eq!((access.space, access.address), (space, at), "{report}");
        assert_eq!(access.size, size, "{report}");
    }
    device.run(1, 1, &[data + 96, 0]).unwrap();
}

#[test]
fn freed_memory_is_distinguished_from_wild_addresses() {
    let device = Device::new(STRAY);
    let report = |address| device.run(1, 1, &[address, 0]).unwrap_err().report();
    let stale = device.upload(&[0; 1000]);
    let other = device.upload(&[0; 1000]);
    device.arena.free(stale, "the test").unwrap();
    let freed = report(stale + 40);
    assert_eq!(freed.kind, ReportKind::UseAfterFree, "{freed}");
    let words = "40 bytes into an allocation of 1000 bytes";
    assert!(freed.message.contains(words), "{freed}");
    assert!(freed.message.contains("freed by the test"), "{freed}");
    let beyond = report(other + 1000);
    assert_eq!(beyond.kind, ReportKind::OutOfBounds, "{beyond}");
    // Another allocation reuses the place. The bytes behind its end are its own margin and no
    // longer count as freed memory.
    let next = device.upload(&[0; 500]);
    assert_eq!(next, stale);
    let beyond = report(next + 504);
    assert_eq!(beyond.kind, ReportKind::OutOfBounds, "{beyond}");
    assert_eq!(report(next + 996).kind, ReportKind::UseAfterFree);
}

#[test]
fn freed_memory_can_be_quarantined() {
    let arena = crate::memory::Arena::new(8 << 20).unwrap().keep_freed(true);
    let first = arena.alloc(1000, 256).unwrap();
    arena.free(first, "the test").unwrap();
    assert_eq!(arena.used(), 0);
    let second = arena.alloc(1000, 256).unwrap();
    assert_ne!(first, second);
    // The memory is reused if no other memory is left.
    let rest = arena.alloc((8 << 20) - 4096, 256).unwrap();
    assert!(arena.alloc(2048, 256).is_none());
    arena.free(rest, "the test").unwrap();
    assert_eq!(arena.alloc((8 << 20) - 4096, 256), Some(rest));
}
