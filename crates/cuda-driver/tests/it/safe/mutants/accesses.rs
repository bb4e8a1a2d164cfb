//! Compares the report of a safe launch with the accesses of a plain launch, as the software device
//! checks them.

use std::collections::BTreeSet;

use cuda_driver::safe::Violation;
use cuda_sim::{CodeLocation, MemorySpace, Report, ReportKind};

use super::{Run, is_foreign};

/// The number of reports that a software device keeps. If there are more, the threads are not
/// counted.
const REPORTS: usize = 1000;

/// A thread, by its block and its place in the block.
type Thread = ([u32; 3], [u32; 3]);

fn thread(at: &CodeLocation) -> Thread {
    (at.block, at.thread)
}

/// The threads of a plain launch with an invalid access, and the lines of these accesses.
pub(super) fn invalid(run: &Run) -> BTreeSet<(Thread, u32)> {
    let reports = run.reports.iter().filter(|report| is_foreign(report));
    reports.map(|it| (thread(&it.at), it.at.ptx_line)).collect()
}

/// Whether the violation is an access to shared or local memory outside of its variable, or
/// possibly outside of it. The software device only knows where this memory ends.
pub(super) fn is_of_variable(violation: &Violation) -> bool {
    violation.argument.is_none()
}

/// Returns the first difference between a violation and the invalid accesses of the plain launch:
/// the first one of the same thread has the same line and the same address, and as many threads
/// have one.
pub(super) fn difference(violation: &Violation, plain: &Run) -> Option<String> {
    let own = (violation.block, violation.thread);
    let mut reports = plain.reports.iter().filter(|report| is_foreign(report));
    let Some(first) = reports.find(|report| thread(&report.at) == own) else {
        return Some(format!("{violation}: no report of this thread"));
    };
    if first.at.ptx_line != violation.ptx_line {
        return Some(format!("{violation}: another line: {first}"));
    }
    if !is_address(violation, plain, first) {
        return Some(format!("{violation}: another address: {first}"));
    }
    let threads: BTreeSet<Thread> = invalid(plain).into_iter().map(|(it, _)| it).collect();
    let found = threads.len();
    if plain.reports.len() >= REPORTS {
        return None;
    }
    (found != violation.threads as usize).then(|| format!("{violation}: {found} threads"))
}

/// Whether a report has the address of the violation: the same distance from the argument, or the
/// same offset in shared memory. The device reports the first invalid element of a vector. Local
/// memory has another layout in a checked copy.
fn is_address(violation: &Violation, plain: &Run, report: &Report) -> bool {
    let Some(access) = report.access else {
        return false;
    };
    let bytes = i128::from(violation.bytes);
    match (violation.argument, access.space) {
        (Some(argument), MemorySpace::Global) => {
            let start = plain.starts[argument - 1];
            // Addresses wrap.
            let offset = access.address.wrapping_sub(start);
            let distance = offset.wrapping_sub(violation.offset as u64);
            i128::from(distance) < bytes
        }
        (None, MemorySpace::Local) => true,
        // The highest byte of a generic address is the space.
        (None, _) => {
            let distance = access.address.wrapping_sub(violation.address) << 8 >> 8;
            i128::from(distance) < bytes
        }
        _ => false,
    }
}

/// Whether the plain launch has the results of a checked copy. It makes the writes to memory that
/// is only read, and the accesses to elements of a vector that lie inside.
pub(super) fn have_comparable_results(text: &str, plain: &Run) -> bool {
    let is_write = |it: &Report| it.kind == ReportKind::ReadOnlyWrite;
    plain.launched.is_ok() && !text.contains(".v4.") && !plain.reports.iter().any(is_write)
}
