//! What the checks of a launch have found.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Checks;
use crate::lock::lock;
use crate::report::{Report, ReportKind};

/// How many of a launch are kept.
const KEPT: usize = 256;

/// The findings of a launch: one for each pair of instructions, with how often.
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

    /// One more of this kind at these instructions; `report` says what the first is.
    pub(super) fn add(
        &self,
        kind: ReportKind,
        (pc, other): (u32, u32),
        report: impl FnOnce() -> Report,
    ) {
        let mut all = lock(&self.all);
        if let Some(known) = all.get_mut(&(kind, pc, other)) {
            known.times += 1;
        } else if all.len() < KEPT {
            all.insert((kind, pc, other), report());
        }
    }

    /// All of them.
    pub(in crate::vm) fn into_reports(self) -> impl Iterator<Item = Report> {
        let all = self
            .all
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        all.into_values()
    }
}
