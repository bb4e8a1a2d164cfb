//! The steps of a launched graph, before they are given to the engine.

use std::fmt;
use std::sync::Arc;

use crate::engine::{OpId, Step, Work};

/// A function that creates the work of a node for one run.
pub(in crate::driver) type WorkFactory = Arc<dyn Fn() -> Work + Send + Sync>;

/// A step from which any number of engine steps can be created.
#[derive(Clone)]
pub(in crate::driver) struct StepTemplate {
    pub(in crate::driver) make: WorkFactory,
    pub(in crate::driver) after: Vec<usize>,
    pub(in crate::driver) outside: Vec<OpId>,
}

impl fmt::Debug for StepTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepTemplate after {:?}", self.after)
    }
}

/// Creates the engine steps for one run.
pub(in crate::driver) fn steps(protos: &[StepTemplate]) -> Vec<Step> {
    let step = |proto: &StepTemplate| Step {
        work: (proto.make)(),
        after: proto.after.clone(),
        outside: proto.outside.clone(),
    };
    protos.iter().map(step).collect()
}
