//! Hazard tracking within a graph: the earlier nodes that a node must depend on, given the bytes
//! that nodes read and write.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::tracking::{Access, conflict};

/// An access of a node to a range of bytes.
#[derive(Clone, Debug)]
pub(crate) struct NodeAccess {
    pub(crate) bytes: Range<u64>,
    pub(crate) access: Access,
}

impl NodeAccess {
    /// Returns whether the ranges overlap and the accesses conflict.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let start = self.bytes.start.max(other.bytes.start);
        start < self.bytes.end.min(other.bytes.end) && conflict(self.access, other.access)
    }
}

/// The last accesses to each byte: the nodes that wrote it last, and those that have read it since.
///
/// Nodes are represented by numbers. A node that depends on the nodes returned by
/// [`against`](Self::against) is ordered after all nodes with conflicting accesses, because the
/// returned nodes depend on the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflicts {
    /// Disjoint segments by their first byte.
    segments: BTreeMap<u64, Segment>,
}

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    uses: SmallVec<[(u32, Access); 2]>,
}

impl Conflicts {
    /// Returns the nodes that a node with these accesses must depend on, sorted and without
    /// duplicates.
    pub(crate) fn against(&self, accesses: &[NodeAccess]) -> Vec<u32> {
        let mut found = Vec::new();
        for range in accesses.iter().filter(|range| !range.bytes.is_empty()) {
            for (_, segment) in self.overlapping(&range.bytes) {
                let matter = segment
                    .uses
                    .iter()
                    .filter(|(_, access)| conflict(*access, range.access));
                found.extend(matter.map(|(node, _)| *node));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Adds the accesses of `node`. They replace the earlier accesses that they conflict with,
    /// except for accesses of nodes that `node` does not wait for: `does_not_wait` returns true for
    /// them.
    pub(crate) fn note(
        &mut self,
        node: u32,
        accesses: &[NodeAccess],
        does_not_wait: impl Fn(u32) -> bool,
    ) {
        for range in accesses.iter().filter(|range| !range.bytes.is_empty()) {
            self.split(range.bytes.start);
            self.split(range.bytes.end);
            let mut at = range.bytes.start;
            let known: Vec<(u64, u64)> = self
                .segments
                .range(range.bytes.clone())
                .map(|(start, segment)| (*start, segment.end))
                .collect();
            for (start, end) in known.into_iter().chain([(range.bytes.end, at)]) {
                if at < start {
                    let uses = SmallVec::from_slice(&[(node, range.access)]);
                    self.segments.insert(at, Segment { end: start, uses });
                }
                at = end;
                if let Some(segment) = self.segments.get_mut(&start)
                    && start < range.bytes.end
                {
                    segment.add(node, range.access, &does_not_wait);
                }
            }
        }
    }

    fn overlapping(&self, bytes: &Range<u64>) -> impl Iterator<Item = (&u64, &Segment)> {
        let first = self.segments.range(..=bytes.start).next_back();
        let start = first.map_or(bytes.start, |(start, _)| *start);
        let bytes = bytes.clone();
        self.segments
            .range(start..bytes.end.max(start))
            .filter(move |(start, segment)| **start < bytes.end && bytes.start < segment.end)
    }

    /// Splits the segment across `at`, if any, so that a segment begins there.
    fn split(&mut self, at: u64) {
        let Some((_, across)) = self.segments.range_mut(..at).next_back() else {
            return;
        };
        if across.end > at {
            let upper = across.clone();
            across.end = at;
            self.segments.insert(at, upper);
        }
    }
}

impl Segment {
    fn add(&mut self, node: u32, access: Access, does_not_wait: &impl Fn(u32) -> bool) {
        // A write replaces all accesses that it has waited for. A read replaces none, and neither
        // does a signal, because other nodes need not wait for it.
        let replaces = access.is_write() && !access.is_signal();
        self.uses.retain(|(other, earlier)| {
            !replaces || does_not_wait(*other) || !conflict(*earlier, access)
        });
        if !self.uses.contains(&(node, access)) {
            self.uses.push((node, access));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Conflicts, NodeAccess};
    use crate::tracking::{Access, conflict};

    fn node_access(start: u64, end: u64, access: Access) -> NodeAccess {
        NodeAccess {
            bytes: start..end,
            access,
        }
    }

    /// Compares random accesses with the definition: each node directly depends, or indirectly
    /// through others, on all nodes with conflicting accesses.
    #[test]
    fn every_conflicting_pair_is_ordered() {
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..60 {
            let mut conflicts = Conflicts::default();
            let mut nodes: Vec<Vec<NodeAccess>> = Vec::new();
            let mut behind: Vec<Vec<bool>> = Vec::new();
            for node in 0..40_u32 {
                let accesses: Vec<NodeAccess> = (0..1 + random(3))
                    .map(|_| {
                        let start = random(30);
                        let access = match random(5) {
                            0 => Access::SIGNAL,
                            1 => Access::WRITE,
                            2 => Access::WRITE.of_part(),
                            3 => Access::AWAIT,
                            _ => Access::READ,
                        };
                        node_access(start, start + random(12), access)
                    })
                    .collect();
                let mut mine = vec![false; node as usize];
                for other in conflicts.against(&accesses) {
                    let other = other as usize;
                    mine[other] = true;
                    for (index, is_behind) in behind[other].iter().enumerate() {
                        mine[index] |= is_behind;
                    }
                }
                for (other, theirs) in nodes.iter().enumerate() {
                    let conflict = theirs.iter().any(|a| {
                        // The definition, implemented a second time.
                        accesses.iter().any(|b| {
                            (0..50).any(|byte| a.bytes.contains(&byte) && b.bytes.contains(&byte))
                                && conflict(a.access, b.access)
                        })
                    });
                    assert!(!conflict || mine[other], "{other} and {node}");
                }
                conflicts.note(node, &accesses, |_| false);
                nodes.push(accesses);
                behind.push(mine);
            }
        }
    }

    #[test]
    fn dependencies_are_the_last_uses_only() {
        let mut conflicts = Conflicts::default();
        conflicts.note(0, &[node_access(0, 100, Access::WRITE)], |_| false);
        conflicts.note(1, &[node_access(0, 50, Access::WRITE)], |_| false);
        conflicts.note(2, &[node_access(0, 10, Access::READ)], |_| false);
        assert_eq!(conflicts.against(&[node_access(0, 10, Access::READ)]), [1]);
        assert_eq!(
            conflicts.against(&[node_access(0, 10, Access::WRITE)]),
            [1, 2]
        );
        assert_eq!(conflicts.against(&[node_access(50, 51, Access::READ)]), [0]);
        assert_eq!(
            conflicts.against(&[node_access(49, 51, Access::READ)]),
            [0, 1]
        );
        assert!(
            conflicts
                .against(&[node_access(100, 200, Access::WRITE)])
                .is_empty()
        );
        assert!(
            conflicts
                .against(&[node_access(5, 5, Access::WRITE)])
                .is_empty()
        );
        // A node that has not waited for node 1 is listed next to it.
        conflicts.note(3, &[node_access(0, 50, Access::WRITE)], |node| node == 1);
        assert_eq!(
            conflicts.against(&[node_access(20, 21, Access::READ)]),
            [1, 3]
        );
    }
}
