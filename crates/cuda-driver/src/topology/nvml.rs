//! The connections of devices, as the management library NVML reports them.

use std::ffi::OsStr;
use std::path::Path;

use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_NVLINK_GET_SPEED, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON,
};
use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
};

use super::{NvLink, NvLinkRemote, PciPath, Topology};

/// The name under which the driver installs the library. The name without a version, which
/// `nvml-wrapper` looks for by itself, is only there with the development files.
const NAME: &str = if cfg!(windows) {
    "nvml.dll"
} else {
    "libnvidia-ml.so.1"
};

/// The largest number of links of a device: `NVML_NVLINK_MAX_LINKS`.
const MOST_LINKS: u32 = 18;

/// Adds the paths and the links that NVML knows.
///
/// # Errors
///
/// Says why NVML cannot be used.
pub(super) fn add(topology: &mut Topology, library: Option<&Path>) -> Result<(), String> {
    let path = library.map_or(OsStr::new(NAME), Path::as_os_str);
    let nvml = Nvml::builder().lib_path(path).init();
    let nvml = nvml.map_err(|error| format!("{}: {error}", path.display()))?;
    let mut handles = Vec::with_capacity(topology.devices.len());
    for node in &topology.devices {
        let handle = nvml.device_by_pci_bus_id(node.pci_bus_id.as_str());
        let handle = handle.map_err(|error| {
            let id = &node.pci_bus_id;
            format!("NVML does not have the device {id}: {error}")
        })?;
        handles.push(handle);
    }
    let addresses: Vec<_> = topology
        .devices
        .iter()
        .map(|it| it.pci_bus_id.clone())
        .collect();
    let count = handles.len();
    for (from, handle) in handles.iter().enumerate() {
        topology.devices[from].links = links_of(handle, &addresses);
        for to in (0..count).filter(|to| *to != from) {
            if let Some(path) = path_between(&nvml, handle, &addresses[to]) {
                topology.connections[from * count + to].path = path;
            }
        }
    }
    Ok(())
}

/// Returns the path to the device at a PCI address, or `None` if NVML does not know it.
#[cfg(target_os = "linux")]
fn path_between(nvml: &Nvml, from: &Device<'_>, to: &str) -> Option<PciPath> {
    let to = nvml.device_by_pci_bus_id(to).ok()?;
    Some(match from.topology_common_ancestor(to).ok()? {
        TopologyLevel::Internal => PciPath::Board,
        TopologyLevel::Single => PciPath::Switch,
        TopologyLevel::Multiple => PciPath::Switches,
        TopologyLevel::HostBridge => PciPath::HostBridge,
        TopologyLevel::Node => PciPath::NumaNode,
        TopologyLevel::System => PciPath::System,
    })
}

/// NVML has this call on Linux only.
#[cfg(not(target_os = "linux"))]
fn path_between(_: &Nvml, _: &Device<'_>, _: &str) -> Option<PciPath> {
    let _ = TopologyLevel::System;
    None
}

/// Returns the links of a device. `addresses` are the PCI addresses of all devices, by ordinal.
fn links_of(device: &Device<'_>, addresses: &[String]) -> Vec<NvLink> {
    let mut links = Vec::new();
    for index in 0..MOST_LINKS {
        let link = device.link_wrapper_for(index);
        let is_active = match link.is_active() {
            Ok(is_active) => is_active,
            // The device has fewer links, or none.
            Err(NvmlError::InvalidArg | NvmlError::NotSupported) => break,
            Err(_) => continue,
        };
        let mut found = NvLink {
            index,
            is_active,
            version: None,
            bytes_per_second: None,
            remote: None,
        };
        if is_active {
            found.version = link.version().ok().and_then(version_of);
            found.bytes_per_second = speed_of(device, index);
            found.remote = link.remote_pci_info().ok().map(|pci| {
                let own = |address: &String| is_same_address(address, &pci.bus_id);
                match addresses.iter().position(own) {
                    Some(ordinal) => NvLinkRemote::Device(ordinal as u32),
                    None if is_switch(device, index) => NvLinkRemote::Switch(pci.bus_id),
                    None => NvLinkRemote::Other(pci.bus_id),
                }
            });
        }
        links.push(found);
    }
    links
}

/// Returns the version of NVLink for a value of `nvmlNvlinkVersion_t`.
fn version_of(value: u32) -> Option<(u32, u32)> {
    const VERSIONS: [(u32, u32); 7] = [(1, 0), (2, 0), (2, 2), (3, 0), (3, 1), (4, 0), (5, 0)];
    VERSIONS.get(value.checked_sub(1)? as usize).copied()
}

/// Returns the speed of an active link in bytes per second.
///
/// Drivers for Hopper report the speed of one link, and older ones that of all active links.
/// `Device::field_values_for` of `nvml-wrapper` 0.13 cannot name a link, so this makes the call
/// itself.
fn speed_of(device: &Device<'_>, link: u32) -> Option<u64> {
    let call = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().ok()?;
    // SAFETY: the handle must not outlive NVML ← it is used in this function only, which borrows
    // the device.
    let handle = unsafe { device.handle() };
    [
        (NVML_FI_DEV_NVLINK_GET_SPEED, link),
        (NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0),
    ]
    .into_iter()
    .find_map(|(field, scope)| {
        let mut value = nvmlFieldValue_t {
            fieldId: field,
            scopeId: scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        };
        // SAFETY: the device must be valid and the pointer writable for one value ← the device is
        // borrowed, and the pointer is to a local variable.
        let status = unsafe { call(handle, 1, &raw mut value) };
        if (status, value.nvmlReturn) != (0, 0) {
            return None;
        }
        let megabytes = if value.valueType == nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT {
            // SAFETY: the field must be initialized ← all bytes of the union are.
            u64::from(unsafe { value.value.uiVal })
        } else {
            // SAFETY: as above.
            unsafe { value.value.ullVal }
        };
        (megabytes > 0).then_some(megabytes * 1_000_000)
    })
}

/// Returns whether the other end of a link is an NVSwitch.
///
/// `NvLink::remote_device_type` of `nvml-wrapper` 0.13 always returns `Unknown`, so this makes the
/// call itself.
fn is_switch(device: &Device<'_>, link: u32) -> bool {
    const SWITCH: u32 = 2;
    let mut kind = u32::MAX;
    let Ok(call) = &device.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType else {
        return false;
    };
    // SAFETY: the handle must not outlive NVML ← it is used in this function only, which borrows
    // the device.
    let handle = unsafe { device.handle() };
    // SAFETY: the device must be valid and the pointer writable for the enumeration, which has the
    // type `u32` ← the device is borrowed, and the pointer is to a local variable.
    let status = unsafe { call(handle, link, &raw mut kind) };
    status == 0 && kind == SWITCH
}

/// Returns whether two PCI addresses are equal. NVML writes 8 digits for the domain and CUDA 4.
fn is_same_address(one: &str, other: &str) -> bool {
    let parse = |address: &str| {
        let (domain, rest) = address.split_once(':')?;
        let domain = u32::from_str_radix(domain, 16).ok()?;
        Some((domain, rest.to_ascii_lowercase()))
    };
    parse(one).is_some() && parse(one) == parse(other)
}
