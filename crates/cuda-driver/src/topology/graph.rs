//! Choices on the graph of connections: the best peer, rings and trees.

use std::cmp::Reverse;

use super::{Connection, PciPath, Topology};

/// The number of devices up to which [`Topology::ring`] tries all orders.
const EXHAUSTIVE: usize = 8;

impl Connection {
    /// Returns a value that is larger for a faster connection: more NVLink links, then direct
    /// access, then a shorter path.
    fn quality(&self) -> (u32, bool, Reverse<PciPath>) {
        let has_access = self.peer.is_some_and(|peer| peer.has_access);
        (self.nvlinks, has_access, Reverse(self.path))
    }
}

/// Choices.
impl Topology {
    /// Returns the ordinal of the device with the fastest connection from the device `ordinal`: the
    /// one with the most NVLink links, then one with direct access, then the one with the shortest
    /// path through PCI Express, then the one with the lowest ordinal. `None` if
    /// the driver has one device only.
    #[must_use]
    pub fn best_peer(&self, ordinal: u32) -> Option<u32> {
        let from = self.index(ordinal)?;
        let others = (0..self.devices.len()).filter(|to| *to != from);
        let best = others.max_by_key(|to| (self.at(from, *to).quality(), Reverse(*to)))?;
        Some(self.devices[best].ordinal)
    }

    /// Returns the ordinals of the devices that are closest to the processor `cpu`. Empty if the
    /// system does not know.
    #[must_use]
    pub fn devices_near_cpu(&self, cpu: u32) -> Vec<u32> {
        let near = self.devices.iter().filter(|it| it.cpus.contains(&cpu));
        near.map(|it| it.ordinal).collect()
    }

    /// Returns the ordinals of all devices in an order for a ring: each sends to the next one, and
    /// the last one to the first. The slowest connection of the ring is as fast as possible. Among
    /// such rings, it is one with the most NVLink links, and then one with the most connections
    /// with direct access. With more than 8 devices, the order is found by always going to the best
    /// device that is left, which need not be the best ring.
    #[must_use]
    pub fn ring(&self) -> Vec<u32> {
        let count = self.devices.len();
        let mut order: Vec<usize> = (0..count).collect();
        if count > EXHAUSTIVE {
            for at in 1..count {
                let from = order[at - 1];
                let best = (at..count)
                    .max_by_key(|next| {
                        let next = order[*next];
                        (self.at(from, next).quality(), Reverse(next))
                    })
                    .unwrap_or(at);
                order[at..=best].rotate_right(1);
            }
        } else if count > 2 {
            // The first device stays: a ring has no start.
            let mut best = (self.ring_quality(&order), order.clone());
            permutations(&mut order, 1, &mut |order| {
                let quality = self.ring_quality(order);
                if quality > best.0 {
                    best = (quality, order.to_vec());
                }
            });
            order = best.1;
        }
        order.iter().map(|at| self.devices[*at].ordinal).collect()
    }

    /// Returns a tree of all devices with the device `root` at its root, as pairs of a device and
    /// its parent, parents first. Each device is reached over connections that are as fast as
    /// possible. `None` if the driver has no device `root`.
    #[must_use]
    pub fn tree(&self, root: u32) -> Option<Vec<(u32, u32)>> {
        let mut inside = vec![self.index(root)?];
        let mut edges = Vec::new();
        while inside.len() < self.devices.len() {
            let outside: Vec<usize> = (0..self.devices.len())
                .filter(|it| !inside.contains(it))
                .collect();
            let pairs = inside
                .iter()
                .flat_map(|parent| outside.iter().map(|child| (*parent, *child)));
            let (parent, child) = pairs.max_by_key(|(parent, child)| {
                let quality = self.at(*parent, *child).quality();
                // Of equal connections, those of the parent that was added first.
                (
                    quality,
                    Reverse(inside.iter().position(|it| it == parent)),
                    Reverse(*child),
                )
            })?;
            inside.push(child);
            edges.push((self.devices[child].ordinal, self.devices[parent].ordinal));
        }
        Some(edges)
    }

    fn index(&self, ordinal: u32) -> Option<usize> {
        self.devices.iter().position(|it| it.ordinal == ordinal)
    }

    pub(super) fn at(&self, from: usize, to: usize) -> &Connection {
        &self.connections[from * self.devices.len() + to]
    }

    /// Returns the quality of the slowest connection of a ring, and the numbers of links and of
    /// direct accesses in it.
    fn ring_quality(&self, order: &[usize]) -> ((u32, bool, Reverse<PciPath>), u32, usize) {
        let next = order.iter().cycle().skip(1);
        let steps = || order.iter().zip(next.clone()).map(|(a, b)| self.at(*a, *b));
        let slowest = steps().map(Connection::quality).min();
        (
            slowest.unwrap_or((0, false, Reverse(PciPath::Unknown))),
            steps().map(|step| step.nvlinks).sum(),
            steps().filter(|step| step.quality().1).count(),
        )
    }
}

/// Calls `f` with every order of the elements from `start` on.
fn permutations(order: &mut [usize], start: usize, f: &mut dyn FnMut(&[usize])) {
    if start + 1 >= order.len() {
        return f(order);
    }
    for at in start..order.len() {
        order.swap(start, at);
        permutations(order, start + 1, f);
        order.swap(start, at);
    }
}
