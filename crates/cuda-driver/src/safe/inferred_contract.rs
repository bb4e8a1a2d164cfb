//! The requirements of a launch on its arguments, as text.

use std::fmt;

use cuda_ptx::analysis::{AccessReport, Outcome};

/// The preconditions of one launch of a kernel, and its accesses without a proof. Returned by
/// [`SafeKernel::contract`](super::SafeKernel::contract); `Display` prints them with their lines.
///
/// The analysis derives them. The author of a kernel promises those of a
/// [`LaunchContract`](super::LaunchContract).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferredContract(pub(super) cuda_ptx::analysis::Contract);

impl InferredContract {
    /// Returns whether every access is proven if the preconditions hold.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.unproven() == 0
    }

    /// Returns the number of instructions that access memory without a proof. A launch checks them.
    #[must_use]
    pub fn unproven(&self) -> usize {
        let is_open = |access: &&AccessReport| matches!(access.outcome, Outcome::Checked { .. });
        self.0.accesses.iter().filter(is_open).count()
    }

    /// Returns the number of bytes that the memory of an argument, counted from 1, must have for
    /// the proven accesses; 0 if there are none.
    #[must_use]
    pub fn needed_bytes(&self, argument: usize) -> u64 {
        let roots = self.0.preconditions.iter().filter(|condition| {
            matches!(condition.root, cuda_ptx::analysis::Root::Buffer { parameter, .. }
                if parameter as usize + 1 == argument)
        });
        roots.map(|condition| condition.bytes).max().unwrap_or(0)
    }
}

impl fmt::Display for InferredContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
