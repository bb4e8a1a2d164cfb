//! The best device of a machine.

use std::cmp::Reverse;

use super::Topology;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::{Error, Result};

/// The best device.
impl Device {
    /// Returns the device that is likely to be fastest: of the devices on which contexts can be
    /// created, the one with the highest product of multiprocessor count and clock rate; among
    /// equals the one with the most memory. If there are still several, the [`Topology`] decides:
    /// the one with the most NVLink links to other devices, then the one with direct access to the
    /// most devices, then the one with the lowest ordinal.
    ///
    /// The current load of the devices is not considered: see
    /// [`DevicePool::most_free_memory`](crate::device::DevicePool::most_free_memory) for a choice
    /// by free memory.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`] if contexts cannot be created on any device.
    pub fn best(driver: &Driver) -> Result<Self> {
        let devices = driver.devices()?;
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let mut best: Vec<Self> = Vec::new();
        let mut highest = (0, 0);
        for device in devices {
            if device.is_prohibited()? {
                continue;
            }
            let speed = u64::from(device.multiprocessor_count()?) * u64::from(device.clock_rate()?);
            let rank = (speed, device.total_memory()?);
            if best.is_empty() || rank > highest {
                highest = rank;
                best.clear();
            }
            if rank == highest {
                best.push(device);
            }
        }
        let best = if best.len() > 1 {
            let topology = Topology::discover(driver)?;
            let connections = |device: &Self| topology.connections_of(device.ordinal());
            let rank = |device: &Self| (connections(device), Reverse(device.ordinal()));
            best.into_iter().max_by_key(rank)
        } else {
            best.pop()
        };
        best.ok_or_else(|| Error::NoSuchDevice {
            ordinal: 0,
            count,
            driver: driver.origin().to_owned(),
        })
    }
}

impl Topology {
    /// Returns the number of NVLink links from a device to others, and the number of devices that
    /// it can access.
    fn connections_of(&self, ordinal: u32) -> (u32, usize) {
        let others = self.devices().iter().filter(|it| it.ordinal != ordinal);
        let connections: Vec<_> = others
            .filter_map(|other| self.connection(ordinal, other.ordinal))
            .collect();
        let links = connections.iter().map(|it| it.nvlinks).sum();
        let peers = connections.iter().filter_map(|it| it.peer);
        (links, peers.filter(|peer| peer.has_access).count())
    }
}
