//! The state that all handles of one context share.

use std::sync::Arc;

use super::owner::{Identity, Owner};
use super::{ReplayLock, UnfencedUses};
use crate::device::Device;
use crate::driver::{Captures, Driver};
use crate::error::Result;
use crate::fence::EventPool;
use crate::launch_log::ContextLaunches;
use crate::memory_ledger::MemoryLedger;
use crate::staging_pool::Staging;
use crate::stream_state::ContextStreams;

pub(crate) struct ContextInner {
    /// Declared before `owner`, like the events and the staging blocks: all of them must be dropped
    /// before their context.
    pub(super) streams: ContextStreams,
    pub(super) events: Arc<EventPool>,
    pub(super) staging: Staging,
    pub(super) replay_lock: ReplayLock,
    pub(super) unfenced: UnfencedUses,
    pub(super) captures: Arc<Captures>,
    pub(super) owner: Owner,
    /// If the context is borrowed, calls through this driver fail once the context is declared
    /// dead.
    pub(super) driver: Driver,
    pub(super) device: Device,
    pub(super) limits: Limits,
    /// The memory that the program holds, if it asks for that.
    pub(super) memory_ledger: MemoryLedger,
    /// The launches to report if the device is lost.
    pub(super) launches: Arc<ContextLaunches>,
}

/// The limits that launches are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// Whether the device supports `cuMemAllocAsync`.
    pub(crate) pools: bool,
    /// Whether the driver has several devices.
    pub(crate) has_other_devices: bool,
}

impl ContextInner {
    /// Calls `owner` last, so that no error can occur after it: dropping an owner waits for the
    /// device, and the caller may hold the lock of the list of contexts.
    pub(super) fn new(
        device: &Device,
        owner: impl FnOnce(&Driver) -> Result<Owner>,
    ) -> Result<(Identity, Arc<Self>)> {
        let limits = Limits::of(device)?;
        let driver = device.driver().for_context(device.ordinal());
        let owner = owner(&driver)?;
        let identity = owner.identity();
        if let Some((device, primary)) = owner.primary_context() {
            driver.set_primary(device, primary);
        }
        let launches = Arc::new(ContextLaunches::new(device.ordinal()));
        device.driver().launches().add(&launches);
        let inner = Arc::new(Self {
            streams: ContextStreams::default(),
            events: Arc::default(),
            staging: Staging::default(),
            replay_lock: ReplayLock::default(),
            unfenced: UnfencedUses::default(),
            captures: owner.captures(&driver),
            driver: owner.driver(&driver),
            owner,
            device: device.clone(),
            limits,
            memory_ledger: MemoryLedger::default(),
            launches,
        });
        Ok((identity, inner))
    }

    /// Whether the context was declared dead, or was found to be reset.
    pub(crate) fn is_gone(&self) -> bool {
        self.driver.is_gone()
    }

    /// Whether the context was declared dead, or was reset. Asks the driver if it is a primary or a
    /// green context.
    pub(super) fn is_found_gone(&self) -> bool {
        self.driver.look_for_reset() || self.is_gone()
    }

    /// Records that the program has reset the primary context of the device.
    pub(super) fn note_reset(&self) {
        self.driver.note_reset();
    }
}

impl Limits {
    fn of(device: &Device) -> Result<Self> {
        use cuda_sys::CUdevice_attribute as Attribute;
        Ok(Self {
            grid: [
                device.max_grid_dim_x()?,
                device.max_grid_dim_y()?,
                device.max_grid_dim_z()?,
            ],
            block: [
                device.max_block_dim_x()?,
                device.max_block_dim_y()?,
                device.max_block_dim_z()?,
            ],
            shared: device.max_shared_memory_per_block_optin()?,
            pools: device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
            has_other_devices: Device::count(device.driver())? > 1,
        })
    }
}
