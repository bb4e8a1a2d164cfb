//! PCI devices, as Linux describes them in sysfs.

use std::fs;
use std::path::{Component, Path};

/// The path from one device to another through PCI Express, from the shortest to the longest. The
/// names in parentheses are those of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PciPath {
    /// The device itself, or another device on the same board (`X`).
    Board,
    /// Through one PCI Express switch (`PIX`).
    Switch,
    /// Through several PCI Express switches, without a host bridge (`PXB`).
    Switches,
    /// Through a host bridge, which is usually a processor (`PHB`).
    HostBridge,
    /// Through host bridges of one NUMA node (`NODE`).
    NumaNode,
    /// Through the connection between NUMA nodes (`SYS`).
    System,
    /// Unknown: the system does not report it.
    Unknown,
}

/// The place of a PCI device in the system.
#[derive(Debug, Default)]
pub(super) struct PciDevice {
    /// The bus and the bridges on the path to the device, and the device itself: names such as
    /// `pci0000:00` and `0000:01:00.0`. Empty if the system does not know the device.
    path: Vec<String>,
    pub(super) numa_node: Option<u32>,
    pub(super) cpus: Vec<u32>,
}

impl PciDevice {
    /// Reads the place of the device with this PCI address from the files under `sysfs`. What is
    /// not there stays empty.
    pub(super) fn find(sysfs: &Path, pci_bus_id: &str) -> Self {
        let folder = sysfs
            .join("bus/pci/devices")
            .join(pci_bus_id.to_ascii_lowercase());
        let Ok(folder) = folder.canonicalize() else {
            return Self::default();
        };
        let read = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        // Linux writes -1 if the firmware does not report the node.
        let numa_node = read("numa_node").trim().parse().ok();
        Self {
            path: pci_path(&folder),
            numa_node,
            cpus: parse_cpus(read("local_cpulist").trim()),
        }
    }

    /// Returns the path to another device.
    pub(super) fn path_to(&self, other: &Self) -> PciPath {
        if self.path.is_empty() || other.path.is_empty() {
            return PciPath::Unknown;
        }
        let pairs = self.path.iter().zip(&other.path);
        let common = pairs.take_while(|(one, other)| one == other).count();
        let (down, up) = (self.path.len() - common, other.path.len() - common);
        match common {
            // No common host bridge.
            0 => match (self.numa_node, other.numa_node) {
                (Some(one), Some(other)) if one == other => PciPath::NumaNode,
                (Some(_), Some(_)) => PciPath::System,
                _ => PciPath::Unknown,
            },
            // Functions of one device, which differ in the last part only.
            _ if is_one_board(&self.path, &other.path) => PciPath::Board,
            1 => PciPath::HostBridge,
            // The common bridge is the upstream port of a switch. Below it are a downstream port
            // and the device.
            _ if down <= 2 && up <= 2 => PciPath::Switch,
            _ => PciPath::Switches,
        }
    }
}

/// Returns whether two paths lead to functions of one PCI device.
fn is_one_board(one: &[String], other: &[String]) -> bool {
    let device = |path: &[String]| {
        let name = path.last()?;
        Some(name.split_once('.')?.0.to_owned())
    };
    device(one).is_some() && device(one) == device(other)
}

/// Returns the parts of a folder's path from the host bridge on.
fn pci_path(folder: &Path) -> Vec<String> {
    let parts = folder.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str().map(str::to_owned),
        _ => None,
    });
    let is_below = |name: &String| !is_host_bridge(name);
    parts.skip_while(is_below).collect()
}

/// Returns whether `name` has the form `pci0000:00`.
fn is_host_bridge(name: &str) -> bool {
    let Some((domain, bus)) = name.strip_prefix("pci").and_then(|it| it.split_once(':')) else {
        return false;
    };
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_hex(domain) && is_hex(bus)
}

/// Parses a list of processors such as `0-3,8,10-11`. Ignores parts of another form.
fn parse_cpus(list: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            // No machine has this many processors.
            cpus.extend((first..=last).take(1 << 16));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use super::{PciDevice, parse_cpus, pci_path};
    use crate::topology::PciPath;

    fn at(path: &str, numa_node: Option<u32>) -> PciDevice {
        PciDevice {
            path: pci_path(path.as_ref()),
            numa_node,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn paths_have_the_names_of_nvidia_smi() {
        let bridge = "/sys/devices/pci0000:00/0000:00:01.0";
        let a = at(
            &format!("{bridge}/0000:01:00.0/0000:02:00.0/0000:03:00.0"),
            Some(0),
        );
        let b = at(
            &format!("{bridge}/0000:01:00.0/0000:02:01.0/0000:04:00.0"),
            Some(0),
        );
        let far = "0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0";
        let c = at(&format!("{bridge}/{far}"), Some(0));
        let d = at("/sys/devices/pci0000:00/0000:00:02.0/0000:08:00.0", Some(0));
        let e = at("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", Some(0));
        let f = at("/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0", Some(1));
        let unknown = PciDevice::default();
        for (other, expected) in [
            (&b, PciPath::Switch),
            (&c, PciPath::Switches),
            (&d, PciPath::HostBridge),
            (&e, PciPath::NumaNode),
            (&f, PciPath::System),
            (&unknown, PciPath::Unknown),
        ] {
            assert_eq!(a.path_to(other), expected);
            assert_eq!(other.path_to(&a), expected);
        }
        let audio = at(
            &format!("{bridge}/0000:01:00.0/0000:02:00.0/0000:03:00.1"),
            None,
        );
        assert_eq!(a.path_to(&audio), PciPath::Board);
    }

    #[test]
    fn lists_of_processors_are_parsed() {
        assert_eq!(parse_cpus("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpus("5,1-2,2"), [1, 2, 5]);
        assert!(parse_cpus("").is_empty());
        assert_eq!(parse_cpus("x,3-1,4"), [4]);
    }
}
