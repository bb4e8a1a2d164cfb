//! Descriptions of machines whose devices differ, with the connections between them.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use crate::build_error::BuildError;
use crate::numbers::{bytes, pair};

/// The descriptions that [`Machine::named`] returns.
const NAMED: [(&str, &str); 7] = [
    (
        "two-h100-nvlink",
        include_str!("machines/two-h100-nvlink.txt"),
    ),
    ("two-t4-pcie", include_str!("machines/two-t4-pcie.txt")),
    (
        "four-a100-nvlink",
        include_str!("machines/four-a100-nvlink.txt"),
    ),
    (
        "four-mixed-pcie",
        include_str!("machines/four-mixed-pcie.txt"),
    ),
    (
        "eight-h200-nvswitch",
        include_str!("machines/eight-h200-nvswitch.txt"),
    ),
    (
        "one-gh200-coherent",
        include_str!("machines/one-gh200-coherent.txt"),
    ),
    (
        "one-gtx1650-exclusive",
        include_str!("machines/one-gtx1650-exclusive.txt"),
    ),
];

/// The largest number of multiprocessors of a device.
pub(crate) const MOST_SMS: u32 = 256;

/// The largest number of NVLink links of a device: `NVML_NVLINK_MAX_LINKS`.
const MOST_LINKS: usize = 18;

/// A machine with devices that may differ, for [`Builder::machine`](crate::Builder::machine).
///
/// It is parsed from a text with one device or connection on each line:
///
/// ```
/// use cuda_sim::{Builder, Machine};
///
/// let machine: Machine = "
///     ## Two joined devices, and one without access to their memory.
///     device name=\"Large\" cc=9.0 memory=1G multiprocessors=132 clock=1980
///     device name=\"Large\" cc=9.0 memory=1G multiprocessors=132 clock=1980
///     device name=\"Small\" cc=7.5 memory=256M multiprocessors=40 clock=1590 numa=1 cpus=8-15
///     nvlink 0 1 links=12
///     no-access 0 2
///     no-access 2 0
/// "
/// .parse()?;
/// assert_eq!(machine.devices().len(), 3);
/// assert!(!machine.has_access(0, 2) && machine.has_access(1, 2));
/// let driver = Builder::new().machine(machine).build()?.library()?;
/// # let _ = driver;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | line | meaning |
/// |---|---|
/// | `device` | a device; see below |
/// | `nvlink 0 1 links=4` | NVLink links between two devices |
/// | `nvlink-down 0 links=1` | NVLink links of a device that do not work |
/// | `nvswitch links=18 switches=4` | NVLink links from every device to switches |
/// | `no-access 0 1` | kernels of the first device cannot access memory of the second |
///
/// | key of a device | value | default |
/// |---|---|---|
/// | `name` | the name, in quotes if it has spaces | `Software device 0 (cuda-sim)` |
/// | `cc` | the compute capability, 7.5 to 12.9 | `9.0` |
/// | `memory` | the size of the memory in bytes; `K`, `M` and `G` are allowed | `2G` |
/// | `multiprocessors` | 1 to 256 | `16` |
/// | `clock` | the clock rate in MHz | `1500` |
/// | `numa` | the NUMA node | none |
/// | `cpus` | the processors close to the device, such as `0-7,16` | none |
/// | `managed` | how the host accesses managed memory: `exclusive`, `concurrent` or `coherent` | `concurrent` |
/// | `bridges` | the PCI bridges above the device, as in the folders of `/sys/devices` | none |
///
/// The driver reports the keys up to `clock`, the NUMA node, and peer access: devices with NVLink
/// between them support native atomic operations, and have the performance rank 0. Without NVLink
/// the rank is 1, if the machine has NVLink. The processors and bridges are for tests of code that
/// reads the files of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    devices: Vec<MachineDevice>,
    /// Pairs of devices whose kernels cannot access the memory of the second.
    no_access: Vec<(usize, usize)>,
}

/// A device of a [`Machine`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineDevice {
    /// The name; `None` for that of a software device.
    pub name: Option<String>,
    /// The compute capability.
    pub capability: (u32, u32),
    /// The size of the memory in bytes.
    pub memory: u64,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The clock rate in kHz.
    pub clock_khz: u32,
    /// The NUMA node of the closest processors.
    pub numa_node: Option<u32>,
    /// The closest processors, in the form of Linux: `0-7,16`.
    pub cpus: String,
    /// The PCI bridges above the device: `pci0000:00/0000:00:01.0`.
    pub bridges: String,
    /// How the host accesses managed memory.
    pub managed: ManagedAccess,
    /// The other end of each NVLink link.
    pub links: Vec<MachineLink>,
}

/// How the host accesses managed memory of a [`MachineDevice`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedAccess {
    /// Not while the device runs any work, except memory that is attached to the host.
    Exclusive,
    /// At any time; the driver moves the pages.
    #[default]
    Concurrent,
    /// At any time and in place. (Kernels of the software device access no pageable memory, so the
    /// attributes for that are 0.)
    Coherent,
}

/// The other end of an NVLink link of a [`MachineDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineLink {
    /// The device with this ordinal.
    Device(usize),
    /// The switch with this number.
    Switch(usize),
    /// None: the link does not work.
    Down,
}

impl Default for MachineDevice {
    fn default() -> Self {
        Self {
            name: None,
            capability: (9, 0),
            memory: 2 << 30,
            multiprocessors: 16,
            clock_khz: 1_500_000,
            numa_node: None,
            cpus: String::new(),
            bridges: String::new(),
            managed: ManagedAccess::default(),
            links: Vec::new(),
        }
    }
}

impl Machine {
    /// Returns the machine with this name, or `None` if [`names`](Self::names) does not have it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = NAMED.iter().find(|(known, _)| *known == name)?;
        text.parse().ok()
    }

    /// Returns the names of the machines that this crate describes. They have one to eight
    /// devices with NVLink or PCI Express. The memory of a device is much smaller than that of the
    /// GPU whose name it has.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Returns the devices in the order of their ordinals.
    #[must_use]
    pub fn devices(&self) -> &[MachineDevice] {
        &self.devices
    }

    /// Returns whether kernels of the device `from` can access memory of the device `to`.
    #[must_use]
    pub fn has_access(&self, from: usize, to: usize) -> bool {
        from != to && !self.no_access.contains(&(from, to))
    }

    /// Returns the number of NVLink links between two devices. Through switches, it is the number
    /// of links of the device that has fewer.
    #[must_use]
    pub fn nvlinks(&self, one: usize, other: usize) -> usize {
        let (Some(from), Some(to)) = (self.devices.get(one), self.devices.get(other)) else {
            return 0;
        };
        let direct = from.links.iter();
        let direct = direct.filter(|link| **link == MachineLink::Device(other));
        let switched = |device: &MachineDevice| {
            let links = device.links.iter();
            links
                .filter(|link| matches!(link, MachineLink::Switch(_)))
                .count()
        };
        direct.count() + switched(from).min(switched(to))
    }

    /// Returns the PCI address of a device.
    #[must_use]
    pub fn pci_bus_id(&self, ordinal: usize) -> String {
        pci_bus_id(ordinal)
    }

    /// Returns the performance rank of the connection of two devices.
    pub(crate) fn rank(&self, from: usize, to: usize) -> u32 {
        let has_links = self.devices.iter().any(|device| !device.links.is_empty());
        u32::from(has_links && self.nvlinks(from, to) == 0)
    }

    /// Checks what the parts of a line cannot check on their own.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let bad = |words: String| Err(BuildError::BadSetting(words));
        if self.devices.is_empty() {
            return bad("a machine has no `device`; add at least one".to_owned());
        }
        for (ordinal, device) in self.devices.iter().enumerate() {
            if device.links.len() > MOST_LINKS {
                let links = device.links.len();
                return bad(format!(
                    "device {ordinal} has {links} NVLink links; at most {MOST_LINKS} are supported"
                ));
            }
            if !(1..=MOST_SMS).contains(&device.multiprocessors) {
                return bad(format!(
                    "device {ordinal} has {} multiprocessors; supported are 1 to {MOST_SMS}",
                    device.multiprocessors
                ));
            }
        }
        Ok(())
    }

    /// Adds what a line describes, or returns `None` if it is invalid.
    fn line(&mut self, line: &str) -> Option<()> {
        let words = words(line)?;
        let (kind, words) = words.split_first()?;
        match kind.as_str() {
            "device" => {
                let mut device = MachineDevice::default();
                for word in words {
                    device.set(word)?;
                }
                self.devices.push(device);
            }
            "nvlink" => {
                let [one, other, links] = words else {
                    return None;
                };
                let (one, other) = self.two(one, other)?;
                for _ in 0..links.strip_prefix("links=")?.parse::<u8>().ok()? {
                    self.devices[one].links.push(MachineLink::Device(other));
                    self.devices[other].links.push(MachineLink::Device(one));
                }
            }
            "nvlink-down" => {
                let [device, links] = words else {
                    return None;
                };
                let device = self.devices.get_mut(device.parse::<usize>().ok()?)?;
                for _ in 0..links.strip_prefix("links=")?.parse::<u8>().ok()? {
                    device.links.push(MachineLink::Down);
                }
            }
            "nvswitch" => {
                let [links, switches] = words else {
                    return None;
                };
                let links = links.strip_prefix("links=")?.parse::<u8>().ok()?;
                let switches = switches.strip_prefix("switches=")?.parse::<u8>().ok()?;
                for device in &mut self.devices {
                    for link in 0..links {
                        let switch = link.checked_rem(switches)?;
                        device.links.push(MachineLink::Switch(switch.into()));
                    }
                }
            }
            "no-access" => {
                let [from, to] = words else {
                    return None;
                };
                let pair = self.two(from, to)?;
                self.no_access.push(pair);
            }
            _ => return None,
        }
        Some(())
    }

    /// Parses two different ordinals of devices that exist.
    fn two(&self, one: &str, other: &str) -> Option<(usize, usize)> {
        let (one, other) = (one.parse().ok()?, other.parse().ok()?);
        let exist = one < self.devices.len() && other < self.devices.len();
        (exist && one != other).then_some((one, other))
    }
}

impl MachineDevice {
    /// Sets a value that has the form `key=value`.
    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=')?;
        match key {
            "name" => self.name = Some(value.to_owned()),
            "cc" => self.capability = pair(value)?,
            "memory" => self.memory = bytes(value)?,
            "multiprocessors" => self.multiprocessors = value.parse().ok()?,
            "clock" => {
                let khz = value.parse::<u32>().ok()?.checked_mul(1000)?;
                self.clock_khz = u32::try_from(i32::try_from(khz).ok()?).ok()?;
            }
            "numa" => self.numa_node = Some(value.parse().ok()?),
            "cpus" => value.clone_into(&mut self.cpus),
            "bridges" => value.clone_into(&mut self.bridges),
            "managed" => {
                self.managed = match value {
                    "exclusive" => ManagedAccess::Exclusive,
                    "concurrent" => ManagedAccess::Concurrent,
                    "coherent" => ManagedAccess::Coherent,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl FromStr for Machine {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let mut this = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if this.line(line).is_none() {
                return Err(BuildError::BadSetting(format!(
                    "line {} of the description of a machine is invalid: `{line}`; valid lines are \
                     like `device cc=9.0 memory=1G multiprocessors=132 clock=1980 numa=0`, `nvlink \
                     0 1 links=4`, `nvlink-down 0 links=1`, `nvswitch links=18 switches=4`, \
                     `no-access 0 1`; the `device` line of each device must precede the lines that \
                     name the device",
                    number + 1
                )));
            }
        }
        this.check()?;
        Ok(this)
    }
}

/// Writes the text from which the machine can be parsed.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            let (major, minor) = device.capability;
            let mut line = String::from("device");
            if let Some(name) = &device.name {
                write!(line, " name=\"{name}\"")?;
            }
            write!(
                line,
                " cc={major}.{minor} memory={} multiprocessors={} clock={}",
                device.memory,
                device.multiprocessors,
                device.clock_khz / 1000
            )?;
            if let Some(node) = device.numa_node {
                write!(line, " numa={node}")?;
            }
            for (key, value) in [("cpus", &device.cpus), ("bridges", &device.bridges)] {
                if !value.is_empty() {
                    write!(line, " {key}={value}")?;
                }
            }
            match device.managed {
                ManagedAccess::Exclusive => line.push_str(" managed=exclusive"),
                ManagedAccess::Concurrent => {}
                ManagedAccess::Coherent => line.push_str(" managed=coherent"),
            }
            writeln!(f, "{line}")?;
        }
        let switch = |link: &&MachineLink| matches!(link, MachineLink::Switch(_));
        let first = self.devices.first();
        let switched = first.map_or(0, |device| device.links.iter().filter(switch).count());
        if let (Some(device), true) = (first, switched > 0) {
            let numbers = device.links.iter().filter_map(|link| match link {
                MachineLink::Switch(number) => Some(number + 1),
                MachineLink::Device(_) | MachineLink::Down => None,
            });
            let switches = numbers.max().unwrap_or(1);
            writeln!(f, "nvswitch links={switched} switches={switches}")?;
        }
        for one in 0..self.devices.len() {
            for other in one + 1..self.devices.len() {
                let links = self.devices[one].links.iter();
                let links = links.filter(|link| **link == MachineLink::Device(other));
                match links.count() {
                    0 => {}
                    links => writeln!(f, "nvlink {one} {other} links={links}")?,
                }
            }
        }
        for (ordinal, device) in self.devices.iter().enumerate() {
            let links = device.links.iter();
            match links.filter(|link| **link == MachineLink::Down).count() {
                0 => {}
                links => writeln!(f, "nvlink-down {ordinal} links={links}")?,
            }
        }
        for (from, to) in &self.no_access {
            writeln!(f, "no-access {from} {to}")?;
        }
        Ok(())
    }
}

/// Returns the PCI address of the device with this ordinal.
pub(crate) fn pci_bus_id(ordinal: usize) -> String {
    format!("0000:{:02X}:00.0", ordinal + 1)
}

/// Splits a line at spaces outside of quotes, and removes the quotes. `None` if a quote is not
/// closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => words.push(String::new()),
            letter => words.last_mut()?.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    (!is_quoted).then_some(words)
}
