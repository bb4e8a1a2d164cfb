//! `Builder::skip_invalid_accesses`: invalid accesses do nothing, and each thread reports its own.

use std::ptr;

use cuda_sim::{Builder, CUresult as R, MemorySpace, Report, ReportKind};

use crate::support::{ok, test_device};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Each thread accesses the word at `addresses[thread]` with four instructions, in lines 10 to 13,
/// and stores what the first and the last return.
const TOUCH: &str = "\
.visible .entry touch(.param .u64 addresses, .param .u64 out) {
.reg .b64 %a, %o, %p; .reg .b32 %t, %c, %x, %y;
ld.param.u64 %a, [addresses]; ld.param.u64 %o, [out];
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, 20, %t;
mul.wide.u32 %p, %t, 8; add.u64 %a, %a, %p; add.u64 %o, %o, %p;
ld.global.u64 %a, [%a];
ld.global.u32 %x, [%a];
st.global.u32 [%a], %t;
red.global.add.u32 [%a], 1000;
atom.global.add.u32 %y, [%a], 1;
st.global.v2.u32 [%o], {%x, %y};
ret;
}
";
const LINES: [u32; 4] = [10, 11, 12, 13];

/// The invalid address of a thread: its block, its number in the block, the address and the kind.
type Bad = (u32, u32, u64, ReportKind);

/// The kind, line, block, thread and address in a report of an access of 4 bytes.
fn facts(report: &Report) -> (ReportKind, u32, u32, u32, u64) {
    let access = report.access.unwrap();
    assert_eq!((access.space, access.size), (MemorySpace::Global, 4));
    assert_eq!((report.kernel.as_str(), report.times), ("touch", 1));
    assert_eq!(report.status, None);
    let at = &report.at;
    assert_eq!(
        (&at.block[1..], &at.thread[1..]),
        (&[0, 0][..], &[0, 0][..])
    );
    (
        report.kind,
        at.ptx_line,
        at.block[0],
        at.thread[0],
        access.address,
    )
}

#[test]
fn every_invalid_access_is_skipped_and_reported() {
    let builder = Builder::new().skip_invalid_accesses(true);
    let sim = test_device(builder.check_freed(true).host_threads(1));
    let data = sim.upload(&std::array::from_fn::<u32, 40, _>(|at| 7 * at as u32));
    let freed = sim.alloc(64);
    unsafe { ok(sim.cuMemFree_v2(freed)) };
    let bad: [Bad; 5] = [
        (0, 3, data + 4 * 5 + 2, ReportKind::Misaligned),
        (0, 11, data + 160, ReportKind::OutOfBounds),
        (1, 0, freed + 4, ReportKind::UseAfterFree),
        (1, 5, 0, ReportKind::OutOfBounds),
        (1, 19, data - 4, ReportKind::OutOfBounds),
    ];
    let mut addresses: [u64; 40] = std::array::from_fn(|at| data + 4 * at as u64);
    for (block, thread, address, _) in bad {
        addresses[(20 * block + thread) as usize] = address;
    }
    let is_bad = |at: u32| addresses[at as usize] != data + 4 * u64::from(at);
    let out = sim.upload(&[u32::MAX; 80]);
    let touch = sim.function(sim.load(&format!("{HEAD}{TOUCH}")), "touch");
    let mut params = [sim.upload(&addresses), out];
    ok(sim.launch(touch, [2, 20], ptr::null_mut(), &mut params));
    ok(sim.sync());

    // Each block is one warp, which executes one instruction after the other.
    let mut expected = Vec::new();
    for block in 0..2 {
        for line in LINES {
            let threads = bad.iter().filter(|it| it.0 == block);
            expected.extend(threads.map(|&(_, thread, at, kind)| (kind, line, block, thread, at)));
        }
    }
    let reports = sim.simulator.take_reports();
    assert_eq!(reports.iter().map(facts).collect::<Vec<_>>(), expected);
    assert_eq!(sim.simulator.fault(0), None);

    // A skipped load or atomic operation returns 0, and no byte changes.
    let results: Vec<u32> = (0..40)
        .flat_map(|at| {
            if is_bad(at) {
                [0, 0]
            } else {
                [7 * at, at + 1000]
            }
        })
        .collect();
    assert_eq!(sim.download::<u32>(out, 80), results);
    let words: Vec<u32> = (0..40)
        .map(|at| if is_bad(at) { 7 * at } else { at + 1001 })
        .collect();
    assert_eq!(sim.download::<u32>(data, 40), words);
}

#[test]
fn without_the_option_the_first_invalid_access_ends_the_kernel() {
    let sim = test_device(Builder::new());
    let data = sim.upload(&[7_u32; 40]);
    let touch = sim.function(sim.load(&format!("{HEAD}{TOUCH}")), "touch");
    let mut params = [sim.upload(&[data + 160; 40]), sim.upload(&[0_u32; 80])];
    ok(sim.launch(touch, [1, 20], ptr::null_mut(), &mut params));
    assert_eq!(sim.sync(), R::CUDA_ERROR_ILLEGAL_ADDRESS);
    let reports = sim.simulator.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(
        (reports[0].at.ptx_line, reports[0].at.thread),
        (LINES[0], [0; 3])
    );
}

#[test]
fn repeated_invalid_accesses_of_a_thread_are_one_report() {
    let text = format!(
        "{HEAD}.visible .entry again(.param .u64 at) {{
        .reg .b64 %a; .reg .b32 %n; .reg .pred %p;
        ld.param.u64 %a, [at]; mov.u32 %n, 0;
        L: st.global.u32 [%a], %n;
        add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 9; @%p bra L; ret; }}"
    );
    // A launch keeps the reports of 1,000 threads.
    for (threads, reported) in [(3, 3), (1024, 1000)] {
        let sim = test_device(Builder::new().skip_invalid_accesses(true));
        let again = sim.function(sim.load(&text), "again");
        ok(sim.launch(again, [1, threads], ptr::null_mut(), &mut [16]));
        ok(sim.sync());
        let reports = sim.simulator.take_reports();
        assert_eq!(reports.len(), reported);
        for (thread, report) in (0..).zip(&reports) {
            assert_eq!((report.at.thread, report.times), ([thread, 0, 0], 9));
        }
    }
}

#[test]
fn elements_of_a_vector_are_skipped_separately() {
    let text = format!(
        "{HEAD}.visible .entry pair(.param .u64 at, .param .u64 out) {{
        .reg .b64 %a, %o; .reg .b32 %x, %y;
        ld.param.u64 %a, [at]; ld.param.u64 %o, [out]; mov.u32 %x, 1; mov.u32 %y, 2;
        ld.global.v2.u32 {{%x, %y}}, [%a];
        st.global.v2.u32 [%o], {{%x, %y}}; ret; }}"
    );
    let sim = test_device(Builder::new().skip_invalid_accesses(true));
    let pair = sim.function(sim.load(&text), "pair");
    // The first element is the last word of the allocation.
    let (data, out) = (sim.upload(&[5_u32, 6, 7]), sim.upload(&[9_u32, 9]));
    ok(sim.launch(pair, [1, 1], ptr::null_mut(), &mut [data + 8, out]));
    assert_eq!(sim.download::<u32>(out, 2), [7, 0]);
    let reports = sim.simulator.take_reports();
    let found: Vec<_> = reports
        .iter()
        .map(|it| it.access.unwrap().address)
        .collect();
    assert_eq!(found, [data + 12]);
}

#[test]
fn skipped_shared_accesses_leave_valid_ones_unaffected() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 out) {{
        .shared .align 4 .b8 words[64];
        .reg .b64 %o, %p; .reg .b32 %t, %s, %x;
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
        mul.wide.u32 %p, %t, 4; add.u64 %o, %o, %p;
        mov.u32 %s, words; mad.lo.u32 %s, %t, 4, %s;
        st.shared.u32 [%s], %t;
        ld.shared.u32 %x, [%s];
        st.global.u32 [%o], %x; ret; }}"
    );
    let sim = test_device(Builder::new().skip_invalid_accesses(true));
    let kernel = sim.function(sim.load(&text), "k");
    let out = sim.upload(&[u32::MAX; 18]);
    ok(sim.launch(kernel, [1, 18], ptr::null_mut(), &mut [out]));
    let expected: Vec<u32> = (0..16).chain([0, 0]).collect();
    assert_eq!(sim.download::<u32>(out, 18), expected);
    let reports = sim.simulator.take_reports();
    let found: Vec<_> = reports
        .iter()
        .map(|it| {
            let access = it.access.unwrap();
            (
                it.at.ptx_line,
                it.at.thread[0],
                access.space,
                access.address,
            )
        })
        .collect();
    let shared = MemorySpace::Shared;
    let expected = [
        (10, 16, shared, 64),
        (10, 17, shared, 68),
        (11, 16, shared, 64),
        (11, 17, shared, 68),
    ];
    assert_eq!(found, expected);
}

#[test]
fn invalid_asynchronous_copies_still_end_the_kernel() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 at) {{
        .shared .align 16 .b8 words[16]; .reg .b64 %a; .reg .b32 %s;
        ld.param.u64 %a, [at]; mov.u32 %s, words;
        cp.async.ca.shared.global [%s], [%a], 4; cp.async.wait_all; ret; }}"
    );
    let sim = test_device(Builder::new().skip_invalid_accesses(true));
    let kernel = sim.function(sim.load(&text), "k");
    ok(sim.launch(kernel, [1, 1], ptr::null_mut(), &mut [16]));
    assert_eq!(sim.sync(), R::CUDA_ERROR_ILLEGAL_ADDRESS);
}
