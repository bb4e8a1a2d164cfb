//! Mistakes of kernels, as they are reported to the developer.

use std::ptr;

use cuda_sim::{Builder, CUresult as R, Hazard, MemorySpace, Report, ReportKind};
use cuda_sys::CUstream;

use crate::support::{FAULT_KERNELS, TestDevice, ok, test_device};

/// `add`: each thread adds 1 to its word. `race`: each thread reads the word that its neighbour
/// wrote to shared memory. `read`: each thread reads a variable of the module.
const KERNELS: &str = "
.version 8.0
.target sm_75
.address_size 64
.file 1 \"kernels.cu\"
.global .align 4 .b8 table[128];
.visible .entry add(.param .u64 data) {
    .reg .b64 %a, %o; .reg .b32 %t, %x;
    ld.param.u64 %a, [data]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
    .loc 1 7 1
    ld.global.u32 %x, [%a]; add.u32 %x, %x, 1; st.global.u32 [%a], %x; ret;
}
.visible .entry race(.param .u64 data) {
    .reg .b32 %t, %s, %x; .shared .align 4 .b8 shared[256];
    mov.u32 %t, %tid.x; shl.b32 %x, %t, 2; mov.u32 %s, shared; add.u32 %s, %s, %x;
    .loc 1 20 1
    st.shared.u32 [%s], %t;
    .loc 1 21 1
    xor.b32 %s, %s, 4; ld.shared.u32 %x, [%s]; ret;
}
.visible .entry read(.param .u64 data) {
    .reg .b64 %a, %o; .reg .b32 %t, %x;
    mov.u64 %a, table; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
    ld.global.u32 %x, [%a]; ret;
}
";

const NULL: CUstream = ptr::null_mut();

/// Launches 32 threads, and returns the status and the reports.
fn run(sim: &TestDevice, kernel: &str, data: u64) -> (R, Vec<Report>) {
    let function = sim.function(sim.load(KERNELS), kernel);
    ok(sim.launch(function, [1, 32], NULL, &mut [data]));
    (sim.sync(), sim.simulator.take_reports())
}

#[test]
fn faults_are_reports_too() {
    for (kernel, kind, status) in [
        ("trapped", ReportKind::Fault, R::CUDA_ERROR_LAUNCH_FAILED),
        (
            "null_store",
            ReportKind::OutOfBounds,
            R::CUDA_ERROR_ILLEGAL_ADDRESS,
        ),
        (
            "misaligned",
            ReportKind::Misaligned,
            R::CUDA_ERROR_MISALIGNED_ADDRESS,
        ),
    ] {
        let sim = test_device(Builder::new());
        let function = sim.function(sim.load(FAULT_KERNELS), kernel);
        let data = sim.upload(&[0_u32]);
        ok(sim.launch(function, [1, 1], NULL, &mut [data]));
        assert_eq!(sim.sync(), status);
        let reports = sim.simulator.take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        let report = &reports[0];
        assert_eq!((report.kind, report.status), (kind, Some(status)));
        assert_eq!((report.kernel.as_str(), report.device), (kernel, 0));
        assert_eq!(sim.simulator.fault(0), Some(report.to_string()));
        assert_ne!(report.at.ptx_line, 0);
        assert_eq!(sim.simulator.take_reports(), []);
    }
}

#[test]
fn a_race_is_reported_and_the_program_continues() {
    let sim = test_device(Builder::new().check_races(true));
    let (status, reports) = run(&sim, "race", 0);
    ok(status);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let report = &reports[0];
    assert_eq!(report.kind, ReportKind::Race(Hazard::ReadAfterWrite));
    assert_eq!((report.status, report.times), (None, 32));
    assert_eq!(report.access.unwrap().space, MemorySpace::Shared);
    let other = report.other.as_ref().unwrap();
    let line = |place: &cuda_sim::CodeLocation| place.source.as_ref().map(|source| source.line);
    assert_eq!((line(&report.at), line(other)), (Some(21), Some(20)));
    assert!(report.to_string().contains("kernels.cu:21"), "{report}");
    assert_eq!(sim.simulator.fault(0), None);
    // Checks that were not enabled report nothing.
    let fresh = sim.alloc(128);
    assert_eq!(run(&sim, "add", fresh), (R::CUDA_SUCCESS, Vec::new()));
}

#[test]
fn checks_are_off_by_default() {
    let sim = test_device(Builder::new());
    let fresh = sim.alloc(128);
    for kernel in ["race", "add"] {
        assert_eq!(run(&sim, kernel, fresh), (R::CUDA_SUCCESS, Vec::new()));
    }
}

#[test]
fn all_that_writes_memory_counts() {
    let sim = test_device(Builder::new().check_uninitialized(true));
    let reported_reads = |data: u64| {
        let (status, reports) = run(&sim, "add", data);
        ok(status);
        reports.iter().map(|report| report.times).sum::<u64>()
    };
    let fresh = sim.alloc(128);
    assert_eq!(reported_reads(fresh), 32);
    assert_eq!(
        reported_reads(fresh),
        0,
        "the kernel has initialized the memory"
    );
    let uploaded = sim.upload(&[1_u32; 32]);
    assert_eq!(reported_reads(uploaded), 0);
    let set = sim.alloc(128);
    unsafe { ok(sim.cuMemsetD32_v2(set, 5, 30)) };
    assert_eq!(reported_reads(set), 2);
    let copied = sim.alloc(128);
    let source = sim.upload(&[1_u32; 32]);
    unsafe { ok(sim.cuMemcpyDtoD_v2(copied, source, 64)) };
    assert_eq!(reported_reads(copied), 16);
    // A copy of uninitialized memory.
    unsafe { ok(sim.cuMemcpyDtoD_v2(source, sim.alloc(128), 8)) };
    assert_eq!(reported_reads(source), 2);
    // A stream-ordered allocation is uninitialized once its turn comes, even if the memory was used
    // before.
    let mut pooled = 0;
    unsafe {
        ok(sim.cuMemFree_v2(copied));
        ok(sim.cuMemAllocAsync(&raw mut pooled, 128, NULL));
    }
    assert_eq!(reported_reads(pooled), 32);
    // Variables are initialized with zeros, and pinned memory belongs to the host.
    assert_eq!(run(&sim, "read", 0), (R::CUDA_SUCCESS, Vec::new()));
    assert_eq!(
        reported_reads(sim.pinned(128).expose_provenance() as u64),
        0
    );
}

#[test]
fn stale_addresses_are_distinguished_from_wild_ones() {
    let sim = test_device(Builder::new().check_freed(true));
    let data = sim.upload(&[0_u32; 32]);
    unsafe { ok(sim.cuMemFree_v2(data)) };
    // The address is not reused.
    let other = sim.upload(&[0_u32; 32]);
    assert_ne!(data, other);
    let (status, reports) = run(&sim, "add", data);
    assert_eq!(status, R::CUDA_ERROR_ILLEGAL_ADDRESS);
    let report = &reports[0];
    assert_eq!(report.kind, ReportKind::UseAfterFree, "{report}");
    assert!(report.message.contains("freed by cuMemFree_v2"), "{report}");
    let access = report.access.unwrap();
    assert_eq!((access.address, access.size), (data, 4));
}

#[test]
fn deferred_memory_is_reused_if_memory_is_short() {
    let sim = test_device(Builder::new().memory(8 << 20).check_freed(true));
    for _ in 0..20 {
        let data = sim.alloc(3 << 20);
        unsafe { ok(sim.cuMemFree_v2(data)) };
    }
}

#[test]
fn the_environment_can_ask() {
    let text = "check=races+uninitialized".parse::<Builder>().unwrap();
    let sim = test_device(text);
    let (_, reports) = run(&sim, "race", 0);
    assert_eq!(reports.len(), 1);
    let (_, reports) = run(&sim, "add", sim.alloc(128));
    assert_eq!(reports[0].kind, ReportKind::UninitializedRead);
    for wrong in ["check=", "check=everything", "check=races,all", "check"] {
        assert!(wrong.parse::<Builder>().is_err(), "{wrong}");
    }
    assert!("check=all,cc=8.0".parse::<Builder>().is_ok());
}

#[test]
fn barriers_that_threads_miss_are_reported_if_checked() {
    // Lane 0 returns through another `bar.sync` than the others.
    let text = "
        .version 8.0
        .target sm_75
        .address_size 64
        .visible .entry k(.param .u64 data) {
            .reg .pred %p; .reg .b32 %t;
            mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
            @%p bra alone;
            bar.sync 0;
            ret;
        alone:
            bar.sync 0;
            ret;
        }";
    for is_on in [true, false] {
        let sim = test_device(Builder::new().check_barriers(is_on));
        let function = sim.function(sim.load(text), "k");
        ok(sim.launch(function, [1, 32], NULL, &mut [0]));
        ok(sim.sync());
        let reports = sim.simulator.take_reports();
        assert_eq!(!reports.is_empty(), is_on, "{reports:?}");
    }
}
