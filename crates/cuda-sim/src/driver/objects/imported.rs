//! Memory of another process that is mapped into this one.

use std::sync::Arc;

use crate::driver::objects::device::Device;
use crate::memory::MappedPart;

/// An allocation of another process.
#[derive(Debug)]
pub(in crate::driver) struct Imported {
    /// The mapping. Running work keeps it too.
    part: Arc<MappedPart>,
    /// The devices that have access.
    devices: Vec<Arc<Device>>,
    /// The handle by which it was opened, without the parts that name the process, if programs
    /// close it with `cuIpcCloseMemHandle`: the number of the file, and the offset.
    pub(in crate::driver) key: Option<(u64, u64)>,
    /// How often it was opened.
    pub(in crate::driver) opened: usize,
}

impl Imported {
    /// Gives the devices access to the `size` bytes of `part`.
    pub(in crate::driver) fn new(
        part: MappedPart,
        size: u64,
        devices: Vec<Arc<Device>>,
        key: Option<(u64, u64)>,
    ) -> Self {
        let part = Arc::new(part);
        for device in &devices {
            device.arena.grant_part(&part, size);
        }
        Self {
            part,
            devices,
            key,
            opened: 1,
        }
    }

    pub(in crate::driver) fn addr(&self) -> u64 {
        self.part.addr()
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        for device in &self.devices {
            device.arena.revoke(self.part.addr());
        }
    }
}
