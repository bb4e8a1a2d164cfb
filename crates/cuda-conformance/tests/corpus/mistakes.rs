//! Reports of software devices about wrong kernels, with the lines of the source, and the absence
//! of reports about right ones.

use cuda_driver::prelude::*;
use cuda_sim::{Hazard, Report, ReportKind, SourceLine};

use crate::support::{Fixture, Source, simulated};

const TEXT: &str = include_str!("kernels/mistakes.cu");
const SOURCE: Source = Source::new("mistakes.cu", TEXT).with_lines();

/// The number of the source line that ends with this comment.
fn line(mark: &str) -> u32 {
    let mark = format!("// {mark}");
    let at = TEXT.lines().position(|line| line.ends_with(&mark));
    u32::try_from(at.unwrap()).unwrap() + 1
}

/// Whether a reported source line is the one with this mark.
fn is_at(source: Option<&SourceLine>, mark: &str) -> bool {
    source.is_some_and(|source| source.file.ends_with("mistakes.cu") && source.line == line(mark))
}

/// Runs a kernel on 128 numbers, and returns its results and the reports. `is_written` says whether
/// `out` is initialized first.
fn run(fixture: &Fixture, name: &str, n: u32, is_written: bool) -> (Option<Vec<i32>>, Vec<Report>) {
    let kernel = fixture.kernel(&SOURCE, name);
    let input = fixture.upload(&(0..128).collect::<Vec<i32>>());
    let mut out = if is_written {
        fixture.zeroed::<i32>(128)
    } else {
        // SAFETY: the buffer is only passed to a kernel that is checked, and any bits are a valid
        // result.
        unsafe { DeviceBuffer::uninit(&fixture.stream, 128) }.unwrap()
    };
    let config = LaunchConfig::new(1, 128);
    // SAFETY: some of these kernels access memory out of bounds; the software device checks each
    // access.
    unsafe {
        fixture
            .stream
            .launch(&kernel, config, (&input, &mut out, n))
    }
    .unwrap();
    let out = out.to_vec().ok();
    let simulator = fixture.simulator.as_ref().unwrap();
    (out, simulator.take_reports())
}

/// The reports about a kernel on each device.
fn reports_of(name: &str) -> Vec<Vec<Report>> {
    let reports = simulated().map(|fixture| {
        let (out, reports) = run(&fixture, name, 100, true);
        assert!(out.is_some(), "{name}: a report must not fail the launch");
        reports
    });
    reports.collect()
}

/// Checks that a kernel causes no report, and that its results are those expected.
fn nothing(name: &str, expected: impl Fn(i32) -> i32) {
    for fixture in simulated() {
        let (out, reports) = run(&fixture, name, 100, true);
        assert_eq!(reports, [], "{name} on {}", fixture.name);
        assert_eq!(out.unwrap(), (0..128).map(&expected).collect::<Vec<_>>());
    }
}

#[test]
fn races() {
    for mut reports in reports_of("races") {
        // The order of the accesses is not defined, so that other hazards may be reported too.
        let hazard = ReportKind::Race(Hazard::ReadAfterWrite);
        reports.retain(|report| report.kind == hazard);
        assert_eq!(reports.len(), 1, "{reports:?}");
        let report = &reports[0];
        assert!(is_at(report.at.source.as_ref(), "races"), "{report}");
        let other = report.other.as_ref().unwrap();
        assert_eq!(report.at.thread[0] + other.thread[0], 127);
        let source = other.source.as_ref().unwrap();
        assert_eq!(source.line, line("races") - 1);
    }
    nothing("does_not_race", |i| 127 - i);
}

#[test]
fn races_in_a_warp() {
    for reports in reports_of("races_in_a_warp") {
        assert!(!reports.is_empty());
        for report in reports {
            assert!(matches!(report.kind, ReportKind::Race(_)), "{report}");
            assert!(
                is_at(report.at.source.as_ref(), "races_in_a_warp"),
                "{report}"
            );
            let other = report.other.unwrap();
            assert_eq!(report.at.thread[0] / 32, other.thread[0] / 32);
        }
    }
    for fixture in simulated() {
        let (out, reports) = run(&fixture, "does_not_race_in_a_warp", 100, true);
        assert_eq!(reports, [], "on {}", fixture.name);
        let sums: Vec<i32> = out.unwrap().into_iter().step_by(32).collect();
        let expected = (0..4).map(|warp| (32 * warp..32 * warp + 32).sum::<i32>());
        assert_eq!(sums, expected.collect::<Vec<_>>());
    }
}

#[test]
fn unwritten_shared_memory() {
    for reports in reports_of("reads_unwritten_memory") {
        assert_eq!(reports.len(), 1, "{reports:?}");
        let report = &reports[0];
        assert_eq!(report.kind, ReportKind::UninitializedRead);
        assert_eq!((report.at.thread, report.times), ([127, 0, 0], 1));
        let source = report.at.source.as_ref();
        assert!(is_at(source, "reads_unwritten_memory"), "{report}");
    }
    nothing("reads_what_was_written", |i| (i + 1) % 128);
}

#[test]
fn unwritten_device_memory() {
    for fixture in simulated() {
        let (_, reports) = run(&fixture, "adds", 100, false);
        assert_eq!((reports.len(), reports[0].times), (1, 128));
        assert_eq!(reports[0].kind, ReportKind::UninitializedRead);
        assert!(
            is_at(reports[0].at.source.as_ref(), "adds"),
            "{}",
            reports[0]
        );
    }
    nothing("adds", |i| i);
}

#[test]
fn a_barrier_that_some_threads_skip() {
    for reports in reports_of("skips_a_barrier") {
        assert_eq!(reports.len(), 1, "{reports:?}");
        let report = &reports[0];
        assert_eq!(report.kind, ReportKind::BarrierDivergence, "{report}");
        assert!(
            is_at(report.at.source.as_ref(), "skips_a_barrier"),
            "{report}"
        );
        let missing: Vec<[u32; 3]> = (40..128).map(|x| [x, 0, 0]).collect();
        assert_eq!(report.missing, missing);
    }
    nothing("returns_early", |i| if i < 100 { 99 - i } else { 0 });
}

#[test]
fn a_line_that_was_inlined() {
    for fixture in simulated() {
        let (out, reports) = run(&fixture, "strays", 128, true);
        assert_eq!((out, reports.len()), (None, 1));
        let report = &reports[0];
        assert_eq!(report.kind, ReportKind::OutOfBounds, "{report}");
        assert_eq!(report.at.thread, [127, 0, 0]);
        let source = report.at.source.as_ref().unwrap();
        assert!(is_at(Some(source), "strays"), "{report}");
        let outer = source.inlined_at.as_deref();
        assert!(is_at(outer, "called by strays"), "{report}");
        assert!(report.to_string().contains("inlined at"), "{report}");
    }
}
