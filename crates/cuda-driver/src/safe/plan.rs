//! The result of the analysis for one shape of a launch, and the cache of these results.

use std::ops::Range;
use std::sync::Arc;

use cuda_ptx::analysis::{
    AccessKind, Contract, LaunchValues, Outcome, Reason, Refusal, Root, Verdict,
};
use cuda_ptx::instrument::Check;
use smallvec::SmallVec;

use super::certificate::Certificate;
use super::kernel::Inner;
use super::memories::{Memories, UNLIMITED, append_relevant, arguments, kind};
use crate::launch::KernelArgs;
use crate::lock::{Mutex, rank};
use crate::types::{Dim3, LaunchConfig};

/// The values that a proof depends on, except the sizes of buffers.
pub(super) type Key = SmallVec<[u64; 32]>;

/// The number of words at the start of a key that hold the grid.
const GRID_WORDS: usize = 2;

/// The number of shapes of launches that a kernel remembers.
const MAX_PLANS: usize = 64;

/// The result for one shape.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) key: Key,
    /// For each argument that the kernel accesses: the index of its parameter, the bytes that it
    /// must have, and whether it is written.
    needs: Vec<(u32, u64, bool)>,
    /// Whether every access is proven if the needs are met.
    pub(super) is_proven: bool,
    pub(super) contract: Contract,
}

/// The plans of a kernel.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<Arc<Plan>>, { rank::SAFE_PLANS }>);

/// Returns the key of a launch.
pub(super) fn key<A: KernelArgs>(
    kernel: &Inner,
    config: &LaunchConfig,
    cluster: Option<Dim3>,
    args: &A,
    memories: &Memories,
) -> Key {
    let LaunchConfig {
        grid,
        block,
        shared_bytes,
    } = *config;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let mut key = Key::new();
    key.push(pair(grid.x, grid.y));
    key.push(grid.z.into());
    debug_assert_eq!(key.len(), GRID_WORDS);
    key.push(pair(block.x, block.y));
    key.push(pair(block.z, shared_bytes));
    let count = kernel.sizes.len() as u32;
    for first in (0..count).step_by(8) {
        let kinds = (first..count.min(first + 8)).map(|parameter| kind(memories, parameter));
        key.push(kinds.fold(0, |word, kind| word << 8 | kind));
    }
    debug_assert_eq!(key.len(), words_before_numbers(kernel));
    append_relevant(args, memories, &kernel.relevant, &mut key);
    if let Some(cluster) = cluster {
        // No key without a cluster has as many words.
        key.extend([pair(cluster.x, cluster.y), cluster.z.into()]);
    }
    key
}

/// Returns the grid in a key.
pub(super) fn grid_of(key: &Key) -> Option<[u32; 3]> {
    let [xy, z] = key.get(..GRID_WORDS)? else {
        return None;
    };
    let half = |word: u64| word as u32;
    Some([half(*xy), half(xy >> 32), half(*z)])
}

/// The number of words of a key before the values of the arguments.
pub(super) fn words_before_numbers(kernel: &Inner) -> usize {
    4 + kernel.sizes.len().div_ceil(8)
}

/// The values of a launch for the analysis.
pub(super) fn launch_values<A: KernelArgs>(
    config: &LaunchConfig,
    args: &A,
    memories: &Memories,
) -> LaunchValues {
    let LaunchConfig {
        grid,
        block,
        shared_bytes,
    } = *config;
    LaunchValues {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        cluster: None,
        dynamic_shared: shared_bytes,
        arguments: arguments(args, memories),
    }
}

impl Plans {
    /// Returns the plan with this key.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Plan>> {
        let plans = self.0.lock();
        plans.iter().find(|plan| plan.key == *key).cloned()
    }

    /// Returns whether a plan with this key proves that the original kernel stays in this memory.
    /// Allocates nothing.
    pub(super) fn prove(&self, key: &Key, memories: &Memories) -> bool {
        let plans = self.0.lock();
        let found = plans.iter().find(|plan| plan.key == *key);
        found.is_some_and(|plan| plan.is_met(memories))
    }

    /// Returns the newest proven plan whose key differs only after the first `words` words, or
    /// else the newest one that also has another grid.
    pub(super) fn similar(&self, key: &Key, words: usize) -> Option<Arc<Plan>> {
        let plans = self.0.lock();
        let newest = |range: Range<usize>| {
            let mut plans = plans.iter().rev();
            plans.find(|plan| {
                let (old, new) = (plan.key.get(range.clone()), key.get(range.clone()));
                plan.is_proven && plan.key.len() == key.len() && old.is_some() && old == new
            })
        };
        newest(0..words)
            .or_else(|| newest(GRID_WORDS..words))
            .cloned()
    }

    pub(super) fn add(&self, plan: Arc<Plan>) {
        let mut plans = self.0.lock();
        if plans.len() >= MAX_PLANS {
            plans.remove(0);
        }
        plans.push(plan);
    }
}

impl Plan {
    /// Evaluates the analysis for a launch.
    pub(super) fn new<A: KernelArgs>(
        kernel: &Inner,
        config: &LaunchConfig,
        cluster: Option<Dim3>,
        args: &A,
        memories: &Memories,
        key: Key,
    ) -> Result<Self, Refusal> {
        let mut values = launch_values(config, args, memories);
        values.cluster = cluster.map(|Dim3 { x, y, z }| [x, y, z]);
        let verdict = kernel.analysis.evaluate(&values);
        let mut contract = match verdict {
            Verdict::Proven(contract) | Verdict::Checked(contract) => contract,
            Verdict::Refused(refusal) => return Err(refusal),
        };
        // `UNLIMITED` is not a size of the program, so no message may name it.
        for access in &mut contract.accesses {
            if let Outcome::Checked { reason, .. } = &mut access.outcome
                && matches!(
                    reason,
                    Reason::OutOfRange {
                        bytes: UNLIMITED,
                        ..
                    }
                )
            {
                *reason = Reason::NoBound;
            }
        }
        let mut needs: Vec<(u32, u64, bool)> = Vec::new();
        let mut is_proven = true;
        for access in &contract.accesses {
            match &access.outcome {
                Outcome::Unreached => {}
                Outcome::Proven { root, high, .. } => {
                    let Root::Buffer { parameter, .. } = root else {
                        continue;
                    };
                    let is_write = access.kind != AccessKind::Read;
                    match needs.iter_mut().find(|need| need.0 == *parameter) {
                        Some(need) => {
                            need.1 = need.1.max(*high);
                            need.2 |= is_write;
                        }
                        None => needs.push((*parameter, *high, is_write)),
                    }
                }
                // `Checked`, and outcomes that later versions add.
                _ => is_proven = false,
            }
        }
        Ok(Self {
            key,
            needs,
            is_proven,
            contract,
        })
    }

    /// The proof for launches with this key, if there is one.
    pub(super) fn certificate<A: KernelArgs>(
        &self,
        kernel: &Inner,
        config: &LaunchConfig,
        args: &A,
        memories: &Memories,
    ) -> Option<Certificate> {
        let needs = self.is_proven.then_some(&self.needs)?;
        Certificate::new(kernel, config, args, memories, needs)
    }

    /// Whether the original kernel stays in this memory.
    pub(super) fn is_met(&self, memories: &Memories) -> bool {
        let is_met = |&(parameter, bytes, is_written): &(u32, u64, bool)| {
            let mut found = memories.iter();
            let found = found.find(|memory| memory.parameter == Some(parameter));
            found.is_some_and(|memory| bytes <= memory.bytes && (memory.is_writable || !is_written))
        };
        self.is_proven && self.needs.iter().all(is_met)
    }

    /// The accesses that need a check with this memory. With `is_all`, also those to arguments that
    /// need none, and those that no thread reaches with these values.
    pub(super) fn checks(&self, memories: &Memories, is_all: bool) -> Vec<Check> {
        let mut checks = Vec::new();
        for (access, report) in self.contract.accesses.iter().enumerate() {
            // The access was proven to be aligned; a smaller buffer does not change that.
            let is_aligned = matches!(report.outcome, Outcome::Proven { .. });
            let root = match &report.outcome {
                // The object in a handle that no thread uses need not fit.
                Outcome::Unreached if !is_all || report.is_object => continue,
                Outcome::Unreached => None,
                Outcome::Proven { root, high, .. } => {
                    let Root::Buffer { parameter, .. } = root else {
                        continue;
                    };
                    let mut found = memories.iter();
                    let found = found.find(|memory| memory.parameter == Some(*parameter));
                    let is_write = report.kind != AccessKind::Read;
                    let is_met = found.is_some_and(|memory| {
                        *high <= memory.bytes && (memory.is_writable || !is_write)
                    });
                    if is_met && !is_all {
                        continue;
                    }
                    Some(root.clone())
                }
                Outcome::Checked { root, .. } => root.clone(),
                _ => None,
            };
            checks.push(Check {
                access,
                root,
                is_aligned,
            });
        }
        checks
    }

    /// Whether an access writes to a variable of the module. An access whose root is not known does
    /// not: it is checked, and a check permits no variable of the module.
    pub(super) fn writes(&self, variable: &str) -> bool {
        self.contract.accesses.iter().any(|access| {
            let root = access.outcome.root();
            let is_here = matches!(root, Some(Root::Variable(name)) if name == variable);
            is_here && access.kind != AccessKind::Read
        })
    }
}
