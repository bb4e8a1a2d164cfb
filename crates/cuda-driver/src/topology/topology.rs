//! The type [`Topology`].

use std::path::Path;

use super::affinity::BoundThread;
#[cfg(feature = "nvml")]
use super::nvml;
use super::pci::{PciDevice, PciPath};
use crate::device::{Device, PeerAttributes};
use crate::driver::Driver;
use crate::error::Result;

/// The devices of a machine and their connections.
///
/// ```
/// use cuda_driver::device::Topology;
///
/// # let simulator = cuda_sim::Builder::new().devices(2).build()?;
/// # let driver = cuda_driver::Driver::new(simulator.library()?)?;
/// let topology = Topology::discover(&driver)?;
/// println!("{topology}");
/// assert_eq!(topology.best_peer(0), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(super) devices: Vec<TopologyDevice>,
    /// The connections, row by row: the element `i * n + j` leads from device `i` to device `j`.
    pub(super) connections: Vec<Connection>,
    nvml: Result<(), String>,
}

/// A device in a [`Topology`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyDevice {
    /// The ordinal of the device in the CUDA driver.
    pub ordinal: u32,
    /// The name of the device.
    pub name: String,
    /// The PCI address: `domain:bus:device.function`, in hexadecimal.
    pub pci_bus_id: String,
    /// The NUMA node of the processors and the memory closest to the device, if the system knows
    /// it.
    pub numa_node: Option<u32>,
    /// The processors closest to the device, in ascending order. Empty if the system does not know
    /// them.
    pub cpus: Vec<u32>,
    /// The NVLink links of the device. Empty without NVML.
    pub links: Vec<NvLink>,
}

/// A link of a device to another device or to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NvLink {
    /// The number of the link, counted from 0 in each device.
    pub index: u32,
    /// Whether the link works.
    pub is_active: bool,
    /// The major and the minor version of NVLink, if the link is active and NVML reports a version
    /// that this crate knows.
    pub version: Option<(u32, u32)>,
    /// The speed in each direction in bytes per second, if NVML reports it.
    pub bytes_per_second: Option<u64>,
    /// The other end, if the link is active.
    pub remote: Option<NvLinkRemote>,
}

/// The other end of an [`NvLink`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvLinkRemote {
    /// A device with this ordinal.
    Device(u32),
    /// An NVSwitch with this PCI address.
    Switch(String),
    /// Something else with this PCI address: a processor, or a device that the CUDA driver hides.
    Other(String),
}

/// The connection of two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// The path through PCI Express.
    pub path: PciPath,
    /// The number of NVLink links between the devices. Through switches, it is the number of links
    /// of the device that has fewer.
    pub nvlinks: u32,
    /// The attributes of access from the first device to the second, as the CUDA driver states
    /// them; `None` for the connection of a device with itself.
    pub peer: Option<PeerAttributes>,
}

/// Discovery.
impl Topology {
    /// Finds out how the devices of `driver` are connected.
    ///
    /// Without NVML (see [`nvml_error`](Self::nvml_error)) the numbers of NVLink links are 0. On
    /// systems other than Linux without NVML, all paths are [`PciPath::Unknown`].
    ///
    /// # Errors
    ///
    /// Only those of the CUDA driver. Missing information is not an error.
    #[doc(alias = "nvmlDeviceGetTopologyCommonAncestor")]
    #[doc(alias = "nvmlDeviceGetNvLinkState")]
    #[doc(alias = "nvmlDeviceGetNvLinkRemotePciInfo_v2")]
    pub fn discover(driver: &Driver) -> Result<Self> {
        Self::discover_with(driver, &TopologySources::default())
    }

    /// Works as [`discover`](Self::discover), with other sources: for containers that mount the
    /// system's files elsewhere, and for tests.
    ///
    /// # Errors
    ///
    /// Fails as [`discover`](Self::discover) does.
    pub fn discover_with(driver: &Driver, sources: &TopologySources<'_>) -> Result<Self> {
        let devices = driver.devices()?;
        let mut nodes = Vec::with_capacity(devices.len());
        let mut places = Vec::with_capacity(devices.len());
        for device in &devices {
            let pci_bus_id = device.pci_bus_id()?;
            let place = PciDevice::find(sources.sysfs, &pci_bus_id);
            nodes.push(TopologyDevice {
                ordinal: device.ordinal(),
                name: device.name()?,
                pci_bus_id,
                numa_node: place.numa_node,
                cpus: place.cpus.clone(),
                links: Vec::new(),
            });
            places.push(place);
        }
        let mut connections = Vec::with_capacity(nodes.len() * nodes.len());
        for (one, place) in devices.iter().zip(&places) {
            for (other, far) in devices.iter().zip(&places) {
                connections.push(Connection {
                    path: if one == other {
                        PciPath::Board
                    } else {
                        place.path_to(far)
                    },
                    nvlinks: 0,
                    peer: peer_attributes(one, other)?,
                });
            }
        }
        let mut this = Self {
            devices: nodes,
            connections,
            nvml: Ok(()),
        };
        this.nvml = this.add_nvml(sources);
        this.count_links();
        Ok(this)
    }

    #[cfg(feature = "nvml")]
    fn add_nvml(&mut self, sources: &TopologySources<'_>) -> Result<(), String> {
        nvml::add(self, sources.nvml)
    }

    #[cfg(not(feature = "nvml"))]
    #[allow(clippy::unused_self, reason = "it has the signature of the other one")]
    fn add_nvml(&mut self, _: &TopologySources<'_>) -> Result<(), String> {
        Err("the feature `nvml` of cuda-driver is not enabled".to_owned())
    }

    /// Sets the number of NVLink links of each connection.
    fn count_links(&mut self) {
        let count = self.devices.len();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                let direct = self.devices[from].links_to(self.devices[to].ordinal);
                let by_switch = u32::min(
                    self.devices[from].links_to_switches(),
                    self.devices[to].links_to_switches(),
                );
                self.connections[from * count + to].nvlinks = direct + by_switch;
            }
        }
    }
}

/// The places where [`Topology::discover_with`] looks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TopologySources<'a> {
    /// The folder in which Linux has its files about devices: `/sys`.
    pub sysfs: &'a Path,
    /// The NVML library; `None` for the one that the system finds. Ignored without the feature
    /// `nvml`.
    pub nvml: Option<&'a Path>,
}

impl Default for TopologySources<'_> {
    fn default() -> Self {
        Self {
            sysfs: Path::new("/sys"),
            nvml: None,
        }
    }
}

impl<'a> TopologySources<'a> {
    /// Sets the folder of the system's files.
    #[must_use]
    pub fn with_sysfs(self, sysfs: &'a Path) -> Self {
        Self { sysfs, ..self }
    }

    /// Sets the NVML library.
    #[must_use]
    pub fn with_nvml(self, nvml: &'a Path) -> Self {
        Self {
            nvml: Some(nvml),
            ..self
        }
    }
}

/// Devices and connections.
impl Topology {
    /// Returns the devices, in the order of their ordinals.
    #[must_use]
    pub fn devices(&self) -> &[TopologyDevice] {
        &self.devices
    }

    /// Returns the connection from one device to another, by ordinal, or `None` if a device
    /// does not exist.
    #[must_use]
    pub fn connection(&self, from: u32, to: u32) -> Option<&Connection> {
        let index = |ordinal| self.devices.iter().position(|it| it.ordinal == ordinal);
        let (from, to) = (index(from)?, index(to)?);
        self.connections.get(from * self.devices.len() + to)
    }

    /// Returns why NVML gave no information: the library was not found, or it failed.
    #[must_use]
    pub fn nvml_error(&self) -> Option<&str> {
        self.nvml.as_ref().err().map(String::as_str)
    }
}

impl TopologyDevice {
    /// Keeps the current thread on the processors that are closest to the device,
    /// [`cpus`](Self::cpus), until the returned guard is dropped. Threads that this thread starts
    /// meanwhile inherit the binding, and keep it.
    ///
    /// Linux takes memory from the NUMA node of the processor on which a thread runs when it first
    /// writes to a page, or when the driver allocates page-locked memory. So a
    /// [`PinnedBuffer`](crate::PinnedBuffer) that a bound thread creates is on the node of the
    /// device, unless this node has no free memory.
    ///
    /// ```
    /// use cuda_driver::device::Topology;
    /// use cuda_driver::{PinnedBuffer, memory::PinnedFlags};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// let context = driver.device(0)?.primary_context()?;
    /// let topology = Topology::discover(&driver)?;
    /// // A machine need not report the processors of a device.
    /// let _bound = topology.devices()[0].bind_thread().ok();
    /// let block = PinnedBuffer::<f32>::zeroed(&context, 4096, PinnedFlags::empty())?;
    /// # drop(block);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](std::io::ErrorKind::Unsupported) if the system does not report
    /// which processors are close to the device, on other systems than Linux, and without the
    /// feature `affinity`. The error of the system if the process must not run on any of these
    /// processors, as in some containers.
    #[doc(alias = "sched_setaffinity")]
    #[doc(alias = "nvmlDeviceSetCpuAffinity")]
    pub fn bind_thread(&self) -> std::io::Result<BoundThread> {
        BoundThread::new(&self.cpus, self.ordinal)
    }

    /// Returns the number of active links to the device with this ordinal.
    fn links_to(&self, ordinal: u32) -> u32 {
        self.count_links(|remote| *remote == NvLinkRemote::Device(ordinal))
    }

    /// Returns the number of active links to switches.
    fn links_to_switches(&self) -> u32 {
        self.count_links(|remote| matches!(remote, NvLinkRemote::Switch(_)))
    }

    fn count_links(&self, is_counted: impl Fn(&NvLinkRemote) -> bool) -> u32 {
        let active = self.links.iter().filter(|link| link.is_active);
        let counted = active.filter(|link| link.remote.as_ref().is_some_and(&is_counted));
        counted.fold(0, |count, _| count + 1)
    }
}

/// Returns what the driver states about access from `one` to `other`, or `None` if they are the
/// same device.
fn peer_attributes(one: &Device, other: &Device) -> Result<Option<PeerAttributes>> {
    if one == other {
        return Ok(None);
    }
    one.peer_attributes(other).map(Some)
}
