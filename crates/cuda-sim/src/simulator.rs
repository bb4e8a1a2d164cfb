//! The handle that a test holds on a software driver.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{CUresult, DriverLibrary, LoadError};

use crate::driver::instance::Instance;
use crate::driver::proc_address;
use crate::driver::slot::Slot;
use crate::journal::{Rule, TraceEntry, quietly};
use crate::report::Report;

/// A software driver of its own: devices, memory, faults and counts are shared with nobody.
///
/// It lives as long as this value, a clone of it, or a library made from it. A function of it that
/// is called later answers `CUDA_ERROR_DEINITIALIZED`.
///
/// ```
/// use cuda_sim::{Builder, CUresult, Rule};
///
/// let simulator = Builder::new().build()?;
/// let driver = simulator.library()?;
/// // SAFETY: the arguments are what cuda.h asks for.
/// assert!(unsafe { driver.cuInit(0) }.is_success());
///
/// simulator.add_rule(Rule::new(CUresult::CUDA_ERROR_NO_DEVICE).function("cuDeviceGetCount"));
/// let mut count = 0;
/// // SAFETY: `count` is a local.
/// let status = unsafe { driver.cuDeviceGetCount(&raw mut count) };
/// assert_eq!(status, CUresult::CUDA_ERROR_NO_DEVICE);
/// assert_eq!(simulator.calls()["cuDeviceGetCount"], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Simulator {
    slot: Arc<Slot>,
}

/// What was created and not destroyed: see [`Simulator::live`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Contexts, the primary ones among them.
    pub contexts: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, without those of libraries.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Graphs that the program owns: made, cloned or captured.
    pub graphs: usize,
    /// Executable graphs.
    pub graph_execs: usize,
    /// User objects whose destructor has not run.
    pub user_objects: usize,
    /// Links under way.
    pub links: usize,
    /// Memory pools that were created.
    pub pools: usize,
    /// Arrays, without the levels of mipmapped ones.
    pub arrays: usize,
    /// Mipmapped arrays.
    pub mipmapped_arrays: usize,
    /// Texture objects.
    pub textures: usize,
    /// Surface objects.
    pub surfaces: usize,
    /// Device and managed allocations.
    pub allocations: usize,
    /// The bytes that were asked for in them.
    pub bytes: u64,
    /// Physical memory whose handles are held (`cuMemCreate`).
    pub physical: usize,
    /// The bytes of it.
    pub physical_bytes: u64,
    /// Reserved ranges of addresses (`cuMemAddressReserve`).
    pub address_ranges: usize,
    /// Pinned and registered host memory.
    pub host_allocations: usize,
    /// The bytes that were asked for in it.
    pub host_bytes: u64,
}

impl Live {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing is live");
        }
        let counts = [
            (self.contexts, "contexts"),
            (self.streams, "streams"),
            (self.events, "events"),
            (self.modules, "modules"),
            (self.libraries, "libraries"),
            (self.graphs, "graphs"),
            (self.graph_execs, "executable graphs"),
            (self.user_objects, "user objects"),
            (self.links, "links"),
            (self.pools, "pools"),
            (self.arrays, "arrays"),
            (self.mipmapped_arrays, "mipmapped arrays"),
            (self.textures, "textures"),
            (self.surfaces, "surfaces"),
            (self.address_ranges, "ranges of addresses"),
        ];
        f.write_str("live:")?;
        for (count, name) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, " {count} {name}")?;
        }
        for (count, bytes, name) in [
            (self.allocations, self.bytes, "allocations"),
            (self.physical, self.physical_bytes, "physical allocations"),
            (self.host_allocations, self.host_bytes, "host allocations"),
        ] {
            if count > 0 {
                write!(f, " {count} {name} of {bytes} bytes")?;
            }
        }
        Ok(())
    }
}

impl Simulator {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self { slot }
    }

    fn instance(&self) -> &Instance {
        self.slot.instance()
    }

    /// The driver as cuda-sys sees it. It keeps the software driver alive.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if an injected fault hits the loading.
    pub fn library(&self) -> Result<DriverLibrary, LoadError> {
        let version = cuda_sys::Version::new(self.instance().config.version);
        let name = format!("software device (cuda-sim, as CUDA {version})");
        let root = proc_address::root(self.slot.index());
        // SAFETY: `root` must answer names and versions with functions of their C signatures,
        // callable while `keep` lives ← its table is checked against `DriverTable` when this crate
        // is compiled; the functions are static.
        quietly(|| unsafe { DriverLibrary::from_proc_address(root, name, Arc::clone(&self.slot)) })
    }

    /// How often each function was called, by exported name. Those never called are left out, as is
    /// what [`library`](Self::library) itself calls.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.instance().journal.counts()
    }

    /// Counts from zero again.
    pub fn reset_calls(&self) {
        self.instance().journal.reset_counts();
    }

    /// The calls since the last time, if [`Builder::trace`](crate::Builder::trace) is on.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceEntry> {
        self.instance().journal.take_trace()
    }

    /// Makes calls fail from now on.
    pub fn add_rule(&self, rule: Rule) {
        self.instance().journal.add(rule);
    }

    /// No call is made to fail any more.
    pub fn clear_rules(&self) {
        self.instance().journal.clear_rules();
    }

    /// Allocations on device number `ordinal` fail beyond so many bytes, what alignment costs
    /// included. Nothing happens if there is no such device.
    pub fn limit_memory(&self, ordinal: usize, bytes: u64) {
        if let Some(device) = self.instance().devices.get(ordinal) {
            device.memory_limit.store(bytes, Ordering::Relaxed);
        }
    }

    /// Loses device number `ordinal` as a fault would: from now on every call that concerns it
    /// answers `code`. Nothing happens if there is no such device.
    pub fn lose_device(&self, ordinal: usize, code: CUresult) {
        if let Some(device) = self.instance().devices.get(ordinal) {
            device.lose(code, String::from("the test said so"));
        }
    }

    /// What the fault was that lost device number `ordinal`: kernel, block, thread and line of the
    /// PTX.
    #[must_use]
    pub fn fault(&self, ordinal: usize) -> Option<String> {
        self.instance().devices.get(ordinal)?.fault()
    }

    /// Takes what kernels did wrong since the last time, device by device, in the order in which
    /// launches ended.
    ///
    /// What ends a kernel is here as well as in [`fault`](Self::fault); what else is looked for,
    /// [`Builder::check_uninitialised`](crate::Builder::check_uninitialised) and the like say.
    #[must_use]
    pub fn take_reports(&self) -> Vec<Report> {
        let devices = self.instance().devices.iter();
        devices.flat_map(|device| device.take_reports()).collect()
    }

    /// What was created and not destroyed.
    #[must_use]
    pub fn live(&self) -> Live {
        self.instance().live()
    }

    /// How many queued operations are not complete.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.instance().pending()
    }

    /// What kernels printed, if [`Builder::capture_output`](crate::Builder::capture_output) is on.
    #[must_use]
    pub fn take_output(&self) -> Vec<u8> {
        self.instance().take_output()
    }

    /// The functions that were called and are not implemented; each answered
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    #[must_use]
    pub fn unimplemented_calls(&self) -> Vec<&'static str> {
        self.instance().journal.unimplemented()
    }

    /// The exported names of all functions that are implemented.
    #[must_use]
    pub fn implemented() -> Vec<&'static str> {
        proc_address::implemented()
    }
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator")
            .field("version", &self.instance().config.version)
            .field("devices", &self.instance().devices.len())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
