//! Optional checks: each test has a kernel with the error, and a similar one without it.

use super::device::{Device, TARGET};
use crate::report::{Hazard, MemorySpace, Report, ReportKind};
use crate::vm::{Checks, TargetInfo};

const ALL: Checks = Checks {
    uninitialized: true,
    races: true,
    barriers: true,
    read_only: true,
    skip_invalid: false,
};

pub(super) fn checked(text: &str) -> Device {
    let target = TargetInfo {
        checked: true,
        ..TARGET
    };
    Device::load(text, &target).unwrap()
}

/// The findings when blocks of `threads` threads run.
pub(super) fn found_by(device: &Device, blocks: u32, threads: u32, params: &[u64]) -> Vec<Report> {
    device
        .run_with(blocks, threads, params, |launch| launch.checks = ALL)
        .unwrap();
    std::mem::take(&mut *device.reports.lock().unwrap())
}

/// A kernel with `%t` = `%tid.x`, `%at` = the address of the thread's word in the first parameter,
/// and `%s` = its address in shared memory.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{
        .reg .b32 %t, %s, %x<8>; .reg .b64 %at, %y<8>; .reg .pred %p<4>;
        .shared .align 16 .b8 shared[1024]; .local .align 16 .b8 local[64];
        ld.param.u64 %at, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %y0, %t, 4; add.u64 %at, %at, %y0;
        mov.u32 %s, shared; shl.b32 %x0, %t, 2; add.u32 %s, %s, %x0; mov.u32 %x0, 0;
        {body}
        ret; }}"
    )
}

fn found(body: &str, threads: u32) -> Vec<Report> {
    let device = checked(&kernel(body));
    let out = device.upload(&[0; 4096]);
    found_by(&device, 2, threads, &[out])
}

fn nothing(body: &str, threads: u32) {
    let found = found(body, threads);
    assert!(found.is_empty(), "{body}\n{}", found[0]);
}

fn race(body: &str, threads: u32, hazard: Hazard) -> Report {
    let mut found = found(body, threads);
    assert_eq!(found.len(), 1, "{body}\n{found:?}");
    let report = found.remove(0);
    assert_eq!(report.kind, ReportKind::Race(hazard), "{report}");
    assert!(report.other.is_some(), "{report}");
    report
}

#[test]
fn unwritten_device_memory_is_reported() {
    let device = checked(&kernel(
        "ld.global.u32 %x0, [%at]; add.u32 %x0, %x0, 1; st.global.u32 [%at], %x0;",
    ));
    let map = || device.arena.map();
    let out = device.arena.alloc(256, 256).unwrap();
    map().write(out, &[0; 130]).unwrap();
    let found = found_by(&device, 1, 64, &[out]);
    assert_eq!(found.len(), 1, "{found:?}");
    let report = &found[0];
    assert_eq!(report.kind, ReportKind::UninitializedRead);
    // The first 32 threads read initialized bytes; only two bytes of the next thread's word are
    // initialized.
    assert_eq!((report.at.thread, report.at.block), ([32, 0, 0], [0; 3]));
    let access = report.access.unwrap();
    assert_eq!(
        (access.space, access.address),
        (MemorySpace::Global, out + 128)
    );
    assert!(
        report
            .message
            .contains(&format!("the byte at {:#x} was never written", out + 130))
    );
    assert_eq!(report.times, 32);
    assert_eq!(report.status, None);
    // The kernel has written all of them by now.
    assert_eq!(found_by(&device, 1, 64, &[out]), []);
    // A copy of unwritten bytes leaves them unwritten; a copy of written bytes does not.
    let copy = device.arena.alloc(512, 256).unwrap();
    map().copy(copy, out, 256).unwrap();
    assert_eq!(found_by(&device, 1, 64, &[copy]), []);
    let fresh = device.arena.alloc(512, 256).unwrap();
    map().copy(copy + 8, fresh, 4).unwrap();
    let found = found_by(&device, 1, 64, &[copy]);
    assert_eq!((found.len(), found[0].times), (1, 1));
    assert_eq!(found[0].at.thread, [2, 0, 0]);
    // Memory that is allocated again counts as unwritten.
    device.arena.free(copy, "the test").unwrap();
    let again = device.arena.alloc(512, 256).unwrap();
    assert_eq!((again, found_by(&device, 1, 64, &[again]).len()), (copy, 1));
}

#[test]
fn atomics_read_the_present_value() {
    let device = checked(&kernel(
        "atom.global.add.u32 %x0, [%at], 1; atom.global.exch.b32 %x0, [%at+512], 1;",
    ));
    let out = device.arena.alloc(1024, 256).unwrap();
    let found = found_by(&device, 1, 32, &[out]);
    assert_eq!((found.len(), found[0].times), (1, 32), "{found:?}");
    assert_eq!(found_by(&device, 1, 32, &[out]), []);
}

#[test]
fn unwritten_shared_memory_is_reported() {
    // The last thread reads beyond the written bytes; each block has its own memory.
    let body = "st.shared.u32 [%s], %t; bar.sync 0; ld.shared.u32 %x0, [%s+4];";
    let found = found(body, 64);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, ReportKind::UninitializedRead);
    assert_eq!((found[0].at.thread, found[0].times), ([63, 0, 0], 2));
    let access = found[0].access.unwrap();
    assert_eq!((access.space, access.address), (MemorySpace::Shared, 256));
    nothing(
        "st.shared.u32 [%s], %t; st.shared.u8 [shared+256], 0; st.shared.u8 [shared+257], 0;
         st.shared.u16 [shared+258], 0; bar.sync 0; ld.shared.u32 %x0, [%s+4];",
        64,
    );
}

#[test]
fn unwritten_local_memory_is_reported() {
    let body = "st.local.u32 [local+4], %t; ld.local.v2.u32 {%x0, %x1}, [local];";
    let found = found(body, 40);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].access.unwrap().space, MemorySpace::Local);
    assert_eq!(found[0].times, 80);
    nothing(
        "st.local.v2.u32 [local], {%t, %t}; ld.local.v2.u32 {%x0, %x1}, [local];",
        40,
    );
}

#[test]
fn the_frame_of_a_function_is_fresh() {
    let function = |before: &str| {
        format!(
            ".func (.param .b32 r) f(.param .b32 n) {{ .reg .b32 %a, %b; .local .align 4 .b8 l[8];
             ld.param.b32 %a, [n]; {before} ld.local.u32 %b, [l]; add.u32 %a, %a, %b;
             st.param.b32 [r], %a; ret; }}
             .visible .entry k(.param .u64 out) {{ .reg .b32 %x; .param .b32 p; .param .b32 q;
             mov.u32 %x, %tid.x; st.param.b32 [p], %x; call (q), f, (p); ld.param.b32 %x, [q];
             st.param.b32 [p], %x; call (q), f, (p); ret; }}"
        )
    };
    let found = found_by(&checked(&function("")), 1, 32, &[0]);
    // The finding occurs in both calls.
    assert_eq!((found.len(), found[0].times), (1, 64), "{found:?}");
    assert_eq!(found[0].at.function, "f");
    let right = checked(&function("st.local.u32 [l], %a;"));
    assert_eq!(found_by(&right, 1, 32, &[0]), []);
}

#[test]
fn a_read_after_a_write_of_another_warp() {
    let wrong = "st.shared.u32 [%s], %t; xor.b32 %x1, %s, 128; ld.shared.u32 %x0, [%x1];";
    let body = format!("st.shared.u32 [%s], 7; bar.sync 0; {wrong}");
    let device = checked(&kernel(&body));
    let out = device.upload(&[0; 4096]);
    let found = found_by(&device, 1, 64, &[out]);
    assert!(!found.is_empty());
    for report in &found {
        assert!(matches!(report.kind, ReportKind::Race(_)), "{report}");
        let other = report.other.as_ref().unwrap();
        assert_eq!(report.at.thread[0] ^ 32, other.thread[0], "{report}");
        assert!(report.to_string().contains("other thread: "), "{report}");
    }
    nothing(
        "st.shared.u32 [%s], %t; bar.sync 0; xor.b32 %x1, %s, 128; ld.shared.u32 %x0, [%x1];",
        64,
    );
}

#[test]
fn a_read_after_a_write_of_another_lane() {
    let body = |between| {
        format!("st.shared.u32 [%s], %t; {between} xor.b32 %x1, %s, 4; ld.shared.u32 %x0, [%x1];")
    };
    let report = race(&body(""), 32, Hazard::ReadAfterWrite);
    assert_eq!(report.times, 64);
    nothing(&body("bar.warp.sync -1;"), 32);
    // Lanes that do not take part are not ordered.
    let half = "and.b32 %x2, %t, 30; setp.ne.u32 %p0, %x2, 0; @%p0 bar.warp.sync 0xfffffffc;";
    assert_eq!(race(&body(half), 32, Hazard::ReadAfterWrite).times, 4);
}

#[test]
fn a_write_after_a_read() {
    let body = |between| {
        format!(
            "st.shared.u32 [%s], %t; bar.sync 0; xor.b32 %x1, %s, 4; ld.shared.u32 %x0, [%x1];
             {between} add.u32 %x0, %x0, 100; st.shared.u32 [%s], %x0;"
        )
    };
    race(&body(""), 32, Hazard::WriteAfterRead);
    nothing(&body("bar.sync 0;"), 32);
    nothing(&body("bar.warp.sync -1;"), 32);
}

#[test]
fn a_write_after_a_write() {
    race("st.shared.u32 [shared], %t;", 32, Hazard::WriteAfterWrite);
    race("st.shared.u32 [shared], %t;", 33, Hazard::WriteAfterWrite);
    // All threads write the same value, or only one thread writes.
    nothing("st.shared.u32 [shared], 5;", 64);
    nothing(
        "setp.eq.u32 %p0, %t, 40; @%p0 st.shared.u32 [shared], %t;",
        64,
    );
    // Accesses to different bytes of one word do not race.
    nothing(
        "add.u32 %x1, %t, %t; mov.u32 %x2, shared; add.u32 %x2, %x2, %t; st.shared.u8 [%x2], %t;",
        64,
    );
}

#[test]
fn atomics_make_no_race() {
    let zero = "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [shared], 0;";
    let add = "red.shared.add.u32 [shared], 1;";
    nothing(
        &format!("{zero} bar.sync 0; {add} bar.sync 0; ld.shared.u32 %x0, [shared];"),
        64,
    );
    nothing(
        "st.shared.u32 [%s], %t; bar.sync 0; st.volatile.shared.u32 [shared], %t;
         ld.volatile.shared.u32 %x0, [shared];",
        64,
    );
    // Without a barrier, other threads see incomplete sums.
    let found = found(
        &format!("{zero} bar.sync 0; {add} ld.shared.u32 %x0, [shared];"),
        64,
    );
    assert!(!found.is_empty());
    assert!(
        found
            .iter()
            .all(|report| matches!(report.kind, ReportKind::Race(_))),
        "{found:?}"
    );
}

#[test]
fn a_flag_behind_a_fence_orders() {
    let body = |fence| {
        format!(
            "setp.eq.u32 %p0, %t, 0; @%p0 bra $first; bra $second;
             $first: st.shared.u32 [shared+64], 77; fence.acq_rel.cta;
             st.volatile.shared.u32 [shared], 1; bra $end;
             $second: setp.ne.u32 %p1, %t, 32; @%p1 bra $end;
             $spin: atom.shared.or.b32 %x1, [shared+4], 0; ld.volatile.shared.u32 %x1, [shared];
             setp.ne.u32 %p1, %x1, 1; @%p1 bra $spin;
             {fence} ld.shared.u32 %x0, [shared+64]; $end:"
        )
    };
    let start = "setp.lt.u32 %p2, %t, 2; @%p2 st.shared.u32 [%s], 0; bar.sync 0;";
    nothing(&format!("{start} {}", body("fence.acq_rel.cta;")), 64);
    race(&format!("{start} {}", body("")), 64, Hazard::ReadAfterWrite);
}

#[test]
fn named_barriers_order_the_arriving_threads() {
    // Warps 0 and 1 share a barrier; warp 2 reads what warp 0 wrote without sharing a barrier with
    // it.
    let body = |last: u32| {
        format!(
            "setp.ge.u32 %p0, %t, 32; @!%p0 st.shared.u32 [%s], %t; setp.ge.u32 %p1, %t, 64;
             @%p1 bra $read; bar.sync 1, 64; $read: setp.ne.u32 %p2, %t, {last};
             @!%p2 ld.shared.u32 %x0, [shared+8];"
        )
    };
    nothing(&body(40), 96);
    race(&body(70), 96, Hazard::ReadAfterWrite);
}

#[test]
fn an_asynchronous_copy_is_a_write() {
    let text = |wait: &str| {
        format!(
            ".visible .entry k(.param .u64 out) {{
             .reg .b32 %t, %s, %x<4>; .reg .b64 %at, %y; .shared .align 16 .b8 shared[1024];
             ld.param.u64 %at, [out]; mov.u32 %t, %tid.x; shl.b32 %x0, %t, 2; mov.u32 %s, shared;
             add.u32 %s, %s, %x0; cvt.u64.u32 %y, %x0; add.u64 %at, %at, %y;
             cp.async.ca.shared.global [%s], [%at], 4; cp.async.wait_all; {wait}
             xor.b32 %s, %s, 128; ld.shared.u32 %x1, [%s]; ret; }}"
        )
    };
    let run = |wait| {
        let device = checked(&text(wait));
        let data = device.upload(&[1; 1024]);
        found_by(&device, 1, 64, &[data])
    };
    assert_eq!(run("bar.sync 0;"), []);
    assert!(!run("").is_empty());
    // The source of the copy must have been written.
    let device = checked(&text("bar.sync 0;"));
    let fresh = device.arena.alloc(256, 256).unwrap();
    assert_eq!(found_by(&device, 1, 64, &[fresh]).len(), 1);
}

#[test]
fn waiting_for_an_mbarrier_orders() {
    let text = |wait: &str| {
        format!(
            ".visible .entry k(.param .u64 out) {{
             .reg .b32 %t, %s, %x<4>; .reg .b64 %y; .reg .pred %p<3>; .shared .align 16 .b8 shared[1024];
             mov.u32 %t, %tid.x; shl.b32 %x0, %t, 2; mov.u32 %s, shared; add.u32 %s, %s, %x0;
             setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [shared+512], 64; bar.sync 0;
             st.shared.u32 [%s], %t; mbarrier.arrive.shared.b64 %y, [shared+512];
             {wait}
             xor.b32 %s, %s, 128; ld.shared.u32 %x1, [%s]; ret; }}"
        )
    };
    let run = |wait: &str| found_by(&checked(&text(wait)), 2, 64, &[0]);
    let wait = "$spin: mbarrier.try_wait.shared.b64 %p1, [shared+512], %y; @!%p1 bra $spin;";
    assert_eq!(run(wait), []);
    assert!(!run("").is_empty());
}

#[test]
fn threads_that_skip_a_barrier_are_reported() {
    let body = |condition| {
        format!(
            "setp.lt.u32 %p0, %t, {condition}; @!%p0 bra $on; bar.sync 0; $on: st.global.u32 [%at], %t;"
        )
    };
    for (condition, missing) in [(16, 48), (32, 32), (63, 1)] {
        let found = found(&body(condition), 64);
        assert_eq!(found.len(), 1, "{condition}: {found:?}");
        let report = &found[0];
        assert_eq!(report.kind, ReportKind::BarrierDivergence, "{report}");
        assert_eq!(report.missing.len(), missing, "{report}");
        assert_eq!(report.missing[0], [condition, 0, 0]);
        let other = report.other.as_ref().unwrap();
        assert_eq!(other.thread, [condition, 0, 0], "{report}");
        assert_eq!(
            report.at.ptx_line, other.ptx_line,
            "they are on one line here"
        );
        // Both blocks make the same error.
        assert_eq!(report.times, 2);
    }
    nothing(&body(64), 64);
    nothing(&body(0), 64);
}

#[test]
fn early_returns_do_not_break_barriers() {
    // Threads return immediately, after work of their own, or out of a loop of barriers.
    nothing(
        "setp.ge.u32 %p0, %t, 40; @%p0 ret; bar.sync 0; st.global.u32 [%at], %t; bar.sync 0;",
        64,
    );
    nothing(
        "setp.ge.u32 %p0, %t, 40; @!%p0 bra $work; st.global.u32 [%at], 0; ret;
         $work: bar.sync 0; st.global.u32 [%at], %t;",
        64,
    );
    nothing(
        "mov.u32 %x1, 0; $loop: setp.gt.u32 %p0, %x1, %t; @%p0 bra $end; bar.sync 0;
         add.u32 %x1, %x1, 1; bra $loop; $end:",
        64,
    );
    // If code follows the loop, threads that leave it early skip the barrier.
    let found = found(
        "mov.u32 %x1, 0; $loop: setp.gt.u32 %p0, %x1, %t; @%p0 bra $end; bar.sync 0;
         add.u32 %x1, %x1, 1; bra $loop; $end: st.global.u32 [%at], %t;",
        64,
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].missing.len(), 63);
}

#[test]
fn one_warp_by_two_instructions() {
    let body = |name: &str, bound: u32| {
        format!(
            "setp.lt.u32 %p0, %t, {bound}; @%p0 bra $low; mov.u32 %x1, 1; {name} 0; bra $on;
             $low: mov.u32 %x1, 2; {name} 0; $on: st.global.u32 [%at], %x1;"
        )
    };
    let found = found(&body("bar.sync", 16), 64);
    assert_eq!(found.len(), 1, "{found:?}");
    let report = &found[0];
    assert_eq!(report.kind, ReportKind::BarrierDivergence, "{report}");
    assert!(
        report.message.contains("different instructions"),
        "{report}"
    );
    // Different warps may use different instructions, and so may lanes if the instruction allows
    // it.
    nothing(&body("bar.sync", 32), 64);
    nothing(&body("barrier.sync", 16), 64);
}

#[test]
fn threads_that_wait_for_ever() {
    let stuck = |body: &str| {
        let device = Device::new(&kernel(body));
        let out = device.upload(&[0; 4096]);
        device.run(1, 64, &[out]).unwrap_err()
    };
    // Half of a warp is at a different barrier than the rest of the block.
    let fault = stuck(
        "setp.lt.u32 %p0, %t, 16; @%p0 bra $other; bar.sync 0; ret;
         $other: bar.sync 1; ret;",
    );
    assert_eq!(fault.kind.code(), 702, "a GPU hangs");
    let report = fault.report();
    assert_eq!(report.kind, ReportKind::BarrierDivergence, "{report}");
    let away: Vec<[u32; 3]> = (0..16).map(|x| [x, 0, 0]).collect();
    assert!(
        report.missing == away || report.missing == (16..64).map(|x| [x, 0, 0]).collect::<Vec<_>>(),
        "{report}"
    );
    let (waits, other) = (report.at.ptx_line, report.other.unwrap().ptx_line);
    assert_eq!([waits.min(other), waits.max(other)], [9, 10]);
    // There are fewer threads than the barrier expects: the others have returned.
    let fault = stuck("setp.lt.u32 %p0, %t, 32; @%p0 bar.sync 3, 64;");
    let report = fault.report();
    assert_eq!(report.kind, ReportKind::BarrierDivergence, "{report}");
    assert!(
        report
            .message
            .contains("32 of 64 threads have arrived at barrier 3"),
        "{report}"
    );
    assert_eq!(report.missing, [[0; 3]; 0]);
    // One lane does not take part.
    let fault = stuck("setp.eq.u32 %p0, %t, 0; @%p0 bar.sync 3, 64; bar.warp.sync -1;");
    assert_eq!(fault.report().kind, ReportKind::BarrierDivergence);
}

#[test]
fn unchecked_code_reports_nothing() {
    let text = kernel("ld.shared.u32 %x0, [%s]; st.shared.u32 [shared], %t;");
    let device = Device::new(&text);
    let out = device.upload(&[0; 4096]);
    device.run(1, 64, &[out]).unwrap();
    assert!(device.reports.lock().unwrap().is_empty());
}

#[test]
fn unwritten_register_does_not_depend_on_previous_block() {
    let text = kernel(
        "mov.u32 %x1, %ctaid.x; setp.ne.u32 %p0, %x1, 0; @%p0 bra $tell; mov.u32 %x5, 7;
         $tell: mul.wide.u32 %y1, %x1, 4; add.u64 %at, %at, %y1; st.global.u32 [%at], %x5;",
    );
    let device = checked(&text);
    let out = device.upload(&[0xcd; 4 * 256]);
    assert_eq!(found_by(&device, 256, 1, &[out]), []);
    let mut expected = [0_u32; 256];
    expected[0] = 7;
    assert_eq!(device.download32(out, 256), expected);
}
