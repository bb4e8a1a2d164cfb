//! Safe launches: kernels that are launched without `unsafe`, because their accesses are proven to
//! stay in their arguments, or are checked when they run.
//!
//! C has nothing like it. [`SafeModule`] keeps the PTX text of a module, [`SafeKernel`] is a kernel
//! of it with its analysis, and [`Stream::launch_safe`](crate::Stream::launch_safe) launches it. A
//! kernel without PTX text can have a [`LaunchContract`] instead. docs/safe-launch.md has the exact
//! claim, what is trusted, and what is refused.

mod certificate;
mod inferred_contract;
mod kernel;
mod launch;
mod launch_contract;
mod memories;
mod node;
mod plan;
mod ranges;
mod record;
mod refusal;
mod typed;
mod variables;
mod variant;
mod with_attributes;

pub use crate::error::{SafeLaunchError, SurfacePlace, Violation, ViolationKind, Violations};
pub use inferred_contract::InferredContract;
pub use kernel::{SafeKernel, SafeModule, Unproven};
pub use launch::SafeLaunch;
pub use launch_contract::{ContractKernel, LaunchContract, LaunchShape};
pub(crate) use node::{CheckedNode, ReplayRecords};
pub use typed::TypedSafeKernel;
