//! Planted defects: the campaign must find each, name the launch, and continue behind it.

use crate::options::Options;
use crate::parent::{Report, run_unit};
use crate::planted::{DEFECTS, Defect};
use crate::worker::{Unit, is_write, planted_number};

/// The number of kernels of the module in which a defect is planted.
const KERNELS: u64 = 24;

/// Returns whether all defects were found.
pub(crate) fn run(options: &Options) -> bool {
    let mut worker = None;
    let mut is_right = true;
    for module in [0, 1] {
        let unit = Unit {
            module,
            kernels: KERNELS,
            ..Unit::default()
        };
        let without = run_unit(options, &mut worker, &unit);
        for (name, defect) in DEFECTS {
            let mut unit = unit.clone();
            unit.defect = Some(name.to_owned());
            let report = run_unit(options, &mut worker, &unit);
            let problem = wrong(options, &unit, defect, &report, &without);
            println!(
                "self-test: module {module}, {name}: {}",
                problem.as_deref().unwrap_or("found")
            );
            is_right &= problem.is_none();
        }
    }
    is_right
}

/// Returns what is wrong with the report of a unit with a defect.
fn wrong(
    options: &Options,
    unit: &Unit,
    defect: Defect,
    report: &Report,
    without: &Report,
) -> Option<String> {
    let plan = unit.plan();
    let kernel = plan.launches[planted_number(&plan)].kernel;
    let seed = plan.kernels[kernel].seed;
    let launched = ["proven", "checked", "checked, with a violation", "hits"];
    let total = |report: &Report| -> u64 { launched.iter().map(|it| report.counts.get(it)).sum() };
    // Other kernels of the unit are launched as without the defect.
    if total(report) + 2 < total(without) {
        return Some(format!(
            "{:?} instead of {:?}",
            report.counts, without.counts
        ));
    }
    if defect == Defect::Endless {
        let (after, before) = (report.counts.get("endless"), without.counts.get("endless"));
        return (after != before + 1).then(|| format!("{after} endless kernels"));
    }
    let kind = match defect {
        // The software device stops a write that leaves its buffer; this one does not leave it.
        _ if is_write(defect) => "hit",
        Defect::Fault => "fault",
        _ => "crash",
    };
    let mut found = report
        .findings
        .iter()
        .filter(|finding| finding.kind == kind);
    let is_named = found.any(|finding| {
        let names = format!(".visible .entry k{seed}(");
        let others = finding.text.matches(".visible .entry k").count();
        finding.text.contains(&names) && others == 1
    });
    let device = if options.is_software {
        "the software device"
    } else {
        "the GPU"
    };
    (!is_named).then(|| {
        format!(
            "{device}: no {kind} names kernel {seed}: {:?}",
            report.findings
        )
    })
}
