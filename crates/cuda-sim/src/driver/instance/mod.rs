//! A software driver: its devices, objects and queued work. The files have the operations that
//! several calls use, by noun.

mod context;
mod copy;
pub(in crate::driver) mod graph;
mod launch;
mod memory;
mod module;
mod record;
mod reset;
mod stream;

pub(crate) use launch::state_uses;
pub(in crate::driver) use launch::take_stated_uses;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::config::Config;
use crate::driver::handle::Table;
use crate::driver::objects::array::Array;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::event::Event;
use crate::driver::objects::external::{ExternalMemory, ExternalSemaphore};
use crate::driver::objects::function::Function;
use crate::driver::objects::graph::Store;
use crate::driver::objects::green::Descriptor;
use crate::driver::objects::library::Library;
use crate::driver::objects::link::Link;
use crate::driver::objects::mapping::VirtualMemory;
use crate::driver::objects::memory::Allocation;
use crate::driver::objects::mipmap::Mipmap;
use crate::driver::objects::module::Module;
use crate::driver::objects::pool::{Home, PlacePools, Pool};
use crate::driver::objects::shared_event::EventFile;
use crate::driver::objects::stream::Stream;
use crate::driver::objects::surface::SurfaceObject;
use crate::driver::objects::texture::TextureObject;
use crate::driver::status::{INVALID_DEVICE, Status};
use crate::engine::Engine;
use crate::journal::Journal;
use crate::live::Live;
use crate::lock::lock;
use crate::log::Log;

/// A software driver.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: u64,
    slot: AtomicUsize,
    initialized: AtomicBool,
    pub(crate) config: Config,
    pub(crate) journal: Journal,
    pub(in crate::driver) log: Log,
    pub(crate) devices: Arc<[Arc<Device>]>,
    pub(in crate::driver) engine: Engine,
    pub(in crate::driver) contexts: Table<Context>,
    /// The green contexts by the handles of type `CUgreenCtx`.
    pub(in crate::driver) greens: Table<Context>,
    pub(in crate::driver) descriptors: Table<Descriptor>,
    pub(in crate::driver) streams: Table<Stream>,
    pub(in crate::driver) events: Table<Event>,
    pub(in crate::driver) shared_events: Arc<EventFile>,
    pub(in crate::driver) external_memory: Table<ExternalMemory>,
    pub(in crate::driver) external_semaphores: Table<ExternalSemaphore>,
    pub(in crate::driver) modules: Table<Module>,
    pub(in crate::driver) functions: Table<Function>,
    pub(in crate::driver) libraries: Table<Library>,
    pub(in crate::driver) links: Table<Link>,
    pub(in crate::driver) pools: Table<Pool>,
    /// The default pool and the current pool of each location other than a device.
    pub(in crate::driver) place_pools: Mutex<BTreeMap<(usize, Home), PlacePools>>,
    pub(in crate::driver) arrays: Arc<Table<Array>>,
    pub(in crate::driver) mipmaps: Table<Mipmap>,
    pub(in crate::driver) textures: Arc<Table<TextureObject>>,
    pub(in crate::driver) surfaces: Arc<Table<SurfaceObject>>,
    pub(in crate::driver) graphs: Store,
    pub(in crate::driver) allocations: Mutex<BTreeMap<u64, Allocation>>,
    pub(in crate::driver) virtual_memory: Arc<VirtualMemory>,
    /// The handles of objects that a reset of their primary context has destroyed.
    reset_handles: Mutex<HashSet<u64>>,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Instance {
    /// Creates an instance with the devices of `config`.
    ///
    /// # Errors
    ///
    /// The system's error if it cannot reserve address space for the device memory.
    pub(crate) fn new(config: Config) -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pools = Table::default();
        let devices = (0..config.count())
            .map(|ordinal| Device::new(ordinal, &config, &pools).map(Arc::new))
            .collect::<std::io::Result<Arc<[_]>>>()?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&ALIVE).insert(id);
        Ok(Self {
            id,
            slot: AtomicUsize::new(0),
            initialized: AtomicBool::new(false),
            journal: Journal::new(config.trace, config.rules.clone()),
            log: Log::default(),
            engine: Engine::new(config.schedule),
            devices,
            config,
            contexts: Table::default(),
            greens: Table::default(),
            descriptors: Table::default(),
            streams: Table::default(),
            events: Table::default(),
            shared_events: Arc::default(),
            external_memory: Table::default(),
            external_semaphores: Table::default(),
            modules: Table::default(),
            functions: Table::default(),
            libraries: Table::default(),
            links: Table::default(),
            pools,
            place_pools: Mutex::default(),
            arrays: Arc::default(),
            mipmaps: Table::default(),
            textures: Arc::default(),
            surfaces: Arc::default(),
            graphs: Store::default(),
            allocations: Mutex::default(),
            virtual_memory: Arc::default(),
            reset_handles: Mutex::default(),
            output: Arc::default(),
        })
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    pub(in crate::driver) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    pub(in crate::driver) fn initialize(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    pub(in crate::driver) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Returns the device with this ordinal.
    pub(in crate::driver) fn device(&self, ordinal: i32) -> Status<&Arc<Device>> {
        usize::try_from(ordinal)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or(INVALID_DEVICE)
    }

    pub(in crate::driver) fn allocations(&self) -> MutexGuard<'_, BTreeMap<u64, Allocation>> {
        lock(&self.allocations)
    }

    /// Returns the function that receives the output of kernels: it captures the text or writes it
    /// to standard output.
    pub(in crate::driver) fn printer(&self) -> impl Fn(&[u8]) + Send + Sync + 'static {
        let captured = self.config.capture_output.then(|| Arc::clone(&self.output));
        move |text: &[u8]| match &captured {
            Some(output) => {
                lock(output).extend_from_slice(text);
            }
            None => {
                use std::io::Write;
                // It cannot be reported that standard output is closed.
                let _ = std::io::stdout().lock().write_all(text);
            }
        }
    }

    /// Returns the number of queued operations that are not complete.
    pub(crate) fn pending(&self) -> usize {
        self.engine.pending()
    }

    pub(crate) fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.output))
    }

    /// Counts the objects that were created and not destroyed.
    pub(crate) fn live(&self) -> Live {
        let mut live = Live {
            contexts: self.contexts.len(),
            streams: self.streams.len(),
            events: self.events.len(),
            external_memory: self.external_memory.len(),
            external_semaphores: self.external_semaphores.len(),
            modules: self
                .modules
                .all()
                .iter()
                .filter(|module| module.library.is_none())
                .count(),
            libraries: self.libraries.len(),
            links: self.links.len(),
            arrays: self
                .arrays
                .all()
                .iter()
                .filter(|array| array.mipmap == 0)
                .count(),
            mipmapped_arrays: self.mipmaps.len(),
            textures: self.textures.len(),
            surfaces: self.surfaces.len(),
            pools: self
                .pools
                .all()
                .iter()
                .filter(|pool| !pool.is_default)
                .count(),
            ..Live::default()
        };
        self.graphs.count(&mut live);
        (live.physical, live.physical_bytes, live.address_ranges) = self.virtual_memory.count();
        for allocation in self.allocations().values() {
            let (count, bytes) = if allocation.kind.is_host() {
                (&mut live.host_allocations, &mut live.host_bytes)
            } else {
                (&mut live.allocations, &mut live.bytes)
            };
            *count += 1;
            *bytes += allocation.size;
        }
        live
    }
}

/// The ids of the instances that exist.
static ALIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Returns whether an instance with this id is alive.
fn is_alive(id: u64) -> bool {
    lock(&ALIVE).contains(&id)
}

impl Drop for Instance {
    fn drop(&mut self) {
        lock(&ALIVE).remove(&self.id);
        for device in self.devices.iter() {
            device.cancel.store(true, Ordering::Relaxed);
            // The primary context holds a reference to its device, a cycle that would leak the
            // device and its memory.
            let primary = device.primary().context.take();
            drop(primary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::Arc;

    use crate::Builder;
    use crate::driver::slot;

    #[test]
    fn retained_primary_context_does_not_keep_its_driver() {
        let simulator = Builder::new().memory(2 << 20).build().unwrap();
        let driver = simulator.library().unwrap();
        let mut context = ptr::null_mut();
        // SAFETY: no pointers.
        assert!(unsafe { driver.cuInit(0) }.is_success());
        // SAFETY: the pointer is to a local.
        let status = unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, 0) };
        assert!(status.is_success());
        let devices: Vec<_> = (0..slot::SLOTS)
            .filter_map(slot::instance)
            .filter(|instance| instance.contexts.get(context.addr() as u64).is_some())
            .map(|instance| Arc::downgrade(&instance.devices[0]))
            .collect();
        assert_eq!(devices.len(), 1);
        assert!(devices[0].upgrade().is_some());
        drop((driver, simulator));
        assert!(devices[0].upgrade().is_none());
    }
}
