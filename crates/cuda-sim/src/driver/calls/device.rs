//! Finding devices, and queries of their properties.

use std::ffi::{c_char, c_int, c_uint};

use cuda_sys::{
    CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUdevprop, CUexecAffinityType, CUuuid,
};

use crate::driver::arg::{In, Out};
use crate::driver::attributes;
use crate::driver::export::{Call, exports};
use crate::driver::objects::device::put_text;
use crate::driver::status::{INVALID_DEVICE, INVALID_VALUE, Status};

exports! {
    cuInit => init;
    cuDriverGetVersion => driver_get_version;
    cuDeviceGet => device_get;
    cuDeviceGetCount => device_get_count;
    cuDeviceGetName => device_get_name;
    cuDeviceGetUuid | cuDeviceGetUuid_v2 => device_get_uuid;
    cuDeviceGetLuid => device_get_luid;
    cuDeviceTotalMem_v2 => device_total_mem;
    cuDeviceGetAttribute => device_get_attribute;
    cuDeviceGetProperties => device_get_properties;
    cuDeviceComputeCapability => device_compute_capability;
    cuDeviceGetPCIBusId => device_get_pci_bus_id;
    cuDeviceGetByPCIBusId => device_get_by_pci_bus_id;
    cuDeviceCanAccessPeer => device_can_access_peer;
    cuDeviceGetP2PAttribute => device_get_p2p_attribute;
    cuDeviceGetExecAffinitySupport => device_get_exec_affinity_support;
}

/// Returns whether `text` has the form `domain:bus:device.function` or `bus:device.function`, where
/// the function is optional.
fn is_bus_id(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split([':', '.']).collect();
    (2..=4).contains(&parts.len()) && parts.into_iter().all(is_number)
}

impl Call {
    fn init(&self, flags: c_uint) -> Status {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if self.devices.is_empty() {
            return Err(crate::driver::status::NO_DEVICE);
        }
        self.initialize();
        Ok(())
    }

    fn driver_get_version(&self, version: Out<c_int>) -> Status {
        version.set(self.config.version as c_int)
    }

    fn device_get(&self, device: Out<CUdevice>, ordinal: c_int) -> Status {
        device.required()?;
        self.device(ordinal)?;
        device.set(ordinal)
    }

    fn device_get_count(&self, count: Out<c_int>) -> Status {
        count.set(self.devices.len() as c_int)
    }

    fn device_get_name(&self, name: Out<c_char>, len: c_int, dev: CUdevice) -> Status {
        let device = self.device(dev)?;
        // A negative length leaves no room for any character. The real driver accepts it.
        if len < 0 {
            return name.required().map(drop);
        }
        put_text(name, len, &device.name())
    }

    fn device_get_uuid(&self, uuid: Out<CUuuid>, dev: CUdevice) -> Status {
        let bytes = self.device(dev)?.uuid();
        uuid.set(CUuuid {
            bytes: bytes.map(|byte| byte as c_char),
        })
    }

    fn device_get_luid(&self, luid: Out<c_char>, mask: Out<c_uint>, dev: CUdevice) -> Status {
        let device = self.device(dev)?;
        luid.required()?;
        for (index, &byte) in device.uuid()[8..].iter().enumerate() {
            luid.set_at(index, byte as c_char);
        }
        mask.set(1)
    }

    fn device_total_mem(&self, bytes: Out<usize>, dev: CUdevice) -> Status {
        bytes.set(self.device(dev)?.arena.capacity() as usize)
    }

    fn device_get_attribute(
        &self,
        pi: Out<c_int>,
        attrib: CUdevice_attribute,
        dev: CUdevice,
    ) -> Status {
        pi.required()?;
        let device = self.device(dev)?;
        let managed = attributes::managed(attrib, device.described.managed);
        let usual = attributes::value(attrib, &device.limits, device.capability);
        let set = self.config.attributes.iter().rev();
        let mut set = set.filter_map(|(set, value)| (*set == attrib).then_some(*value));
        let value = match attrib {
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => device.ordinal as i32 + 1,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
                if let Some(node) = device.described.numa_node =>
            {
                set.next().unwrap_or(node as i32)
            }
            _ => set.next().or(managed).or(usual).ok_or(INVALID_VALUE)?,
        };
        pi.set(value)
    }

    fn device_get_properties(&self, prop: Out<CUdevprop>, dev: CUdevice) -> Status {
        let limits = &self.device(dev)?.limits;
        prop.set(CUdevprop {
            maxThreadsPerBlock: 1024,
            maxThreadsDim: [1024, 1024, 64],
            maxGridSize: [i32::MAX, 65535, 65535],
            sharedMemPerBlock: limits.shared_per_block,
            totalConstantMemory: 65536,
            SIMDWidth: 32,
            memPitch: i32::MAX,
            regsPerBlock: 65536,
            clockRate: limits.clock_khz,
            textureAlign: 512,
        })
    }

    fn device_compute_capability(
        &self,
        major: Out<c_int>,
        minor: Out<c_int>,
        dev: CUdevice,
    ) -> Status {
        let capability = self.device(dev)?.capability;
        major.required()?;
        minor.set(capability.1 as c_int)?;
        major.set(capability.0 as c_int)
    }

    fn device_get_pci_bus_id(&self, id: Out<c_char>, len: c_int, dev: CUdevice) -> Status {
        let text = self.device(dev)?.pci_bus_id();
        id.required()?;
        if usize::try_from(len).map_or(true, |len| len <= text.len()) {
            return Err(INVALID_VALUE);
        }
        put_text(id, len, &text)
    }

    fn device_get_by_pci_bus_id(&self, dev: Out<CUdevice>, id: In<c_char>) -> Status {
        let wanted = id.text()?;
        dev.required()?;
        if !is_bus_id(wanted) {
            return Err(INVALID_VALUE);
        }
        let index = self
            .devices
            .iter()
            .position(|device| {
                let full = device.pci_bus_id();
                // The domain and the function may be left out.
                wanted.eq_ignore_ascii_case(&full) || wanted.eq_ignore_ascii_case(&full[5..])
            })
            .ok_or(INVALID_DEVICE)?;
        dev.set(index as CUdevice)
    }

    fn device_can_access_peer(&self, can: Out<c_int>, dev: CUdevice, peer: CUdevice) -> Status {
        let (from, to) = (self.device(dev)?, self.device(peer)?);
        can.set(c_int::from(
            self.config.has_access(from.ordinal, to.ordinal),
        ))
    }

    fn device_get_p2p_attribute(
        &self,
        value: Out<c_int>,
        attrib: CUdevice_P2PAttribute,
        src: CUdevice,
        dst: CUdevice,
    ) -> Status {
        type A = CUdevice_P2PAttribute;
        value.required()?;
        let (from, to) = (self.device(src)?.ordinal, self.device(dst)?.ordinal);
        if from == to {
            return Err(INVALID_DEVICE);
        }
        let machine = self.config.machine.as_ref();
        let has_access = self.config.has_access(from, to);
        let is_linked = machine.is_none_or(|machine| machine.nvlinks(from, to) > 0);
        value.set(match attrib {
            A::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK => {
                machine.map_or(0, |machine| machine.rank(from, to)) as c_int
            }
            A::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED => c_int::from(has_access),
            A::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => {
                c_int::from(has_access && is_linked)
            }
            A::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED => 0,
            _ => return Err(INVALID_VALUE),
        })
    }

    fn device_get_exec_affinity_support(
        &self,
        pi: Out<c_int>,
        _kind: CUexecAffinityType,
        dev: CUdevice,
    ) -> Status {
        self.device(dev)?;
        pi.set(0)
    }
}
