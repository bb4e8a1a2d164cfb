//! Operations that consist of several steps.

use super::{OpId, QueueId, State};
use crate::engine::{Plan, Step, Work};

impl State {
    pub(in crate::engine) fn submit_steps(
        &mut self,
        queue: QueueId,
        after: &[OpId],
        steps: Vec<Step>,
        last: Work,
    ) -> Vec<OpId> {
        let mut first = self.tail(queue);
        first.extend(after.iter().copied().filter(|&op| self.is_pending(op)));
        first.sort_unstable();
        first.dedup();
        let (mut ops, leaves) = self.insert_steps(steps, &first);
        let op = self.fresh();
        self.insert(op, if leaves.is_empty() { first } else { leaves }, last);
        self.set_last(queue, op, true);
        ops.push(op);
        ops
    }

    /// Inserts `steps`; those without dependencies among the steps depend on `first`. Returns the
    /// operations of all steps, and of the leaves, the steps that no other step depends on.
    fn insert_steps(&mut self, steps: Vec<Step>, first: &[OpId]) -> (Vec<OpId>, Vec<OpId>) {
        let ops: Vec<OpId> = steps.iter().map(|_| self.fresh()).collect();
        let mut is_leaf = vec![true; ops.len()];
        for (index, step) in steps.into_iter().enumerate() {
            let mut follows = Vec::with_capacity(step.after.len());
            for before in step.after {
                // A step may depend only on earlier ones, which are already inserted.
                if before < index {
                    is_leaf[before] = false;
                    follows.push(ops[before]);
                }
            }
            if follows.is_empty() {
                follows.extend_from_slice(first);
            }
            let outside = step.outside.into_iter();
            follows.extend(outside.filter(|&op| self.is_pending(op)));
            follows.sort_unstable();
            follows.dedup();
            self.insert(ops[index], follows, step.work);
        }
        let leaves = ops.iter().zip(is_leaf).filter(|&(_, leaf)| leaf);
        let leaves = leaves.map(|(&op, _)| op).collect();
        (ops, leaves)
    }

    /// Replaces `op`, which has run, by its `plan`: `op` completes when the plan does.
    pub(in crate::engine) fn expand(&mut self, op: OpId, plan: Plan) {
        self.running.remove(&op);
        if plan.steps.is_empty() && plan.then.is_none() {
            self.complete(op);
            return;
        }
        let (_, leaves) = self.insert_steps(plan.steps, &[]);
        for leaf in &leaves {
            if let Some(node) = self.nodes.get_mut(leaf) {
                node.before.push(op);
            }
        }
        let free = leaves.is_empty();
        if let Some(node) = self.nodes.get_mut(&op) {
            node.after = leaves;
            node.work = Some(plan.then.unwrap_or_else(|| Work::Device(Box::new(|| {}))));
        }
        if free {
            self.make_ready(op);
        }
    }
}
