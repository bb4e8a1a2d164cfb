//! The findings of the checks of a launch.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::Checks;
use crate::lock::{lock, unpoisoned};
use crate::report::{Report, ReportKind};

/// The number of findings that are kept per launch.
const MAX_FINDINGS: usize = 256;

/// The findings of a launch: one for each pair of instructions, with the number of occurrences.
#[derive(Debug, Default)]
pub(in crate::vm) struct Findings {
    pub(in crate::vm) checks: Checks,
    all: Mutex<BTreeMap<(ReportKind, u32, u32), Report>>,
}

impl Findings {
    pub(in crate::vm) fn new(checks: Checks) -> Self {
        Self {
            checks,
            ..Self::default()
        }
    }

    /// Counts a finding of this kind at these instructions; `report` creates the report of the
    /// first one.
    pub(super) fn add(
        &self,
        kind: ReportKind,
        (pc, other): (u32, u32),
        report: impl FnOnce() -> Report,
    ) {
        let mut all = lock(&self.all);
        if let Some(known) = all.get_mut(&(kind, pc, other)) {
            known.times += 1;
        } else if all.len() < MAX_FINDINGS {
            all.insert((kind, pc, other), report());
        }
    }

    /// All findings.
    pub(in crate::vm) fn into_reports(self) -> impl Iterator<Item = Report> {
        unpoisoned(self.all.into_inner()).into_values()
    }
}
