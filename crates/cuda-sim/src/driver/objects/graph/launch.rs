//! The steps of a launched graph, before they are given to the engine.

use std::fmt;
use std::sync::Arc;

use crate::engine::{OpId, Step, Work};

/// A function that creates the work of a node for one run.
pub(in crate::driver) type Maker = Arc<dyn Fn() -> Work + Send + Sync>;

/// A step from which any number of engine steps can be created.
#[derive(Clone)]
pub(in crate::driver) struct Proto {
    pub(in crate::driver) make: Maker,
    pub(in crate::driver) after: Vec<usize>,
    pub(in crate::driver) outside: Vec<OpId>,
}

impl fmt::Debug for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proto after {:?}", self.after)
    }
}

/// Creates the engine steps for one run.
pub(in crate::driver) fn steps(protos: &[Proto]) -> Vec<Step> {
    let step = |proto: &Proto| Step {
        work: (proto.make)(),
        after: proto.after.clone(),
        outside: proto.outside.clone(),
    };
    protos.iter().map(step).collect()
}
