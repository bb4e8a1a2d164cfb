//! The handle through which a test controls a software driver.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{CUresult, DriverLibrary, LoadError};

use crate::driver::calls::proc_address;
use crate::driver::instance::{Instance, state_uses};
use crate::driver::slot::Slot;
use crate::journal::{Rule, TraceEntry, quietly};
use crate::live::Live;
use crate::report::Report;

/// A software driver. Its devices, memory, faults and call counts are not shared with others.
///
/// It lives as long as this value, a clone of it, or a library made from it. Afterwards its
/// functions return `CUDA_ERROR_DEINITIALIZED`.
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

impl Simulator {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self { slot }
    }

    fn instance(&self) -> &Instance {
        self.slot.instance()
    }

    /// Returns the function table of the driver in the form of cuda-sys. It keeps the software
    /// driver alive.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the function table cannot be loaded. A [`Rule`] cannot cause this: rules do
    /// not apply to the calls that load the table.
    pub fn library(&self) -> Result<DriverLibrary, LoadError> {
        let version = cuda_sys::Version::new(self.instance().config.version);
        let name = format!("software device (cuda-sim, as CUDA {version})");
        let root = proc_address::root(self.slot.index());
        // SAFETY: for each name and version, `root` must return a function of that C signature,
        // callable while `keep` lives ← its table is checked against `DriverTable` when this crate
        // is compiled; the functions are static.
        let library = quietly(|| unsafe {
            DriverLibrary::from_proc_address(root, name, Arc::clone(&self.slot))
        })?
        .with_machine_code(false);
        Ok(match self.instance().config.checks.read_only {
            true => library.with_launch_uses(state_uses),
            false => library,
        })
    }

    /// Returns how often each function was called, by exported name. Functions that were never
    /// called are left out. The calls that [`library`](Self::library) itself makes are not counted.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.instance().journal.counts()
    }

    /// Resets the call counts to zero.
    pub fn reset_calls(&self) {
        self.instance().journal.reset_counts();
    }

    /// Returns the calls since the previous `take_trace`, if
    /// [`Builder::trace`](crate::Builder::trace) is on.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceEntry> {
        self.instance().journal.take_trace()
    }

    /// Adds a rule that makes calls fail from now on.
    pub fn add_rule(&self, rule: Rule) {
        self.instance().journal.add(rule);
    }

    /// Removes all rules.
    pub fn clear_rules(&self) {
        self.instance().journal.clear_rules();
    }

    /// Limits the memory of device `ordinal` to this many bytes, including alignment padding.
    /// Allocations beyond the limit fail. Does nothing if the device does not exist.
    pub fn limit_memory(&self, ordinal: usize, bytes: u64) {
        if let Some(device) = self.instance().devices.get(ordinal) {
            device.memory_limit.store(bytes, Ordering::Relaxed);
        }
    }

    /// Loses device `ordinal` as a fault would: from now on every call that involves it returns
    /// `code`. Does nothing if the device does not exist.
    pub fn lose_device(&self, ordinal: usize, code: CUresult) {
        if let Some(device) = self.instance().devices.get(ordinal) {
            device.lose(code, String::from("`Simulator::lose_device` was called"));
        }
    }

    /// Returns a description of the fault that lost device `ordinal`: kernel, block, thread and
    /// line of the PTX.
    #[must_use]
    pub fn fault(&self, ordinal: usize) -> Option<String> {
        self.instance().devices.get(ordinal)?.fault()
    }

    /// Returns and removes the reports since the previous `take_reports`, device by device, in the
    /// order in which the launches ended.
    ///
    /// Errors that end a kernel appear here as well as in [`fault`](Self::fault). Other errors are
    /// reported only if a check is on, such as
    /// [`Builder::check_uninitialized`](crate::Builder::check_uninitialized).
    #[must_use]
    pub fn take_reports(&self) -> Vec<Report> {
        let devices = self.instance().devices.iter();
        devices.flat_map(|device| device.take_reports()).collect()
    }

    /// Returns the number of objects of each kind that were created and not destroyed.
    #[must_use]
    pub fn live(&self) -> Live {
        self.instance().live()
    }

    /// Returns the number of queued operations that are not complete.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.instance().pending()
    }

    /// Returns and removes the output of kernels, if
    /// [`Builder::capture_output`](crate::Builder::capture_output) is on.
    #[must_use]
    pub fn take_output(&self) -> Vec<u8> {
        self.instance().take_output()
    }

    /// Returns the exported names of unimplemented functions that were called; each call returned
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    #[must_use]
    pub fn unimplemented_calls(&self) -> Vec<&'static str> {
        self.instance().journal.unimplemented()
    }

    /// Returns the exported names of all implemented functions.
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
