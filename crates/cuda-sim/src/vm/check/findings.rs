//! The findings of the checks of a launch.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::Checks;
use crate::lock::{lock, unpoisoned};
use crate::report::{Report, ReportKind};

/// The number of findings that are kept per launch, and that if there is one for each thread.
const MAX_FINDINGS: usize = 256;
const MAX_FINDINGS_OF_THREADS: usize = 1000;

/// The findings of a launch: one for each pair of instructions, or of an instruction and a thread,
/// with the number of occurrences.
#[derive(Debug, Default)]
pub(in crate::vm) struct Findings {
    pub(in crate::vm) checks: Checks,
    all: Mutex<Found>,
}

/// Each finding with the number of those before it.
type Found = BTreeMap<(ReportKind, u32, u32), (usize, Report)>;

impl Findings {
    pub(in crate::vm) fn new(checks: Checks) -> Self {
        Self {
            checks,
            ..Self::default()
        }
    }

    /// Counts a finding of this kind at these instructions, or at an instruction and of a thread;
    /// `report` creates the report of the first one.
    pub(super) fn add(
        &self,
        kind: ReportKind,
        (pc, other): (u32, u32),
        report: impl FnOnce() -> Report,
    ) {
        let mut all = lock(&self.all);
        let before = all.len();
        let most = match self.checks.skip_invalid {
            true => MAX_FINDINGS_OF_THREADS,
            false => MAX_FINDINGS,
        };
        if let Some((_, known)) = all.get_mut(&(kind, pc, other)) {
            known.times += 1;
        } else if before < most {
            all.insert((kind, pc, other), (before, report()));
        }
    }

    /// All findings, in the order of the code, or of the accesses if there is one for each thread.
    pub(in crate::vm) fn into_reports(self) -> impl Iterator<Item = Report> {
        let all = unpoisoned(self.all.into_inner());
        let mut all: Vec<_> = all.into_values().collect();
        if self.checks.skip_invalid {
            all.sort_by_key(|(before, _)| *before);
        }
        all.into_iter().map(|(_, report)| report)
    }
}
