//! A picture of a context and its device at one moment.

use std::fmt;

use crate::context::Context;
use crate::device::DeviceProperties;
use crate::error::{ErrorHistory, Result};
use crate::memory_ledger::MemoryReport;
use crate::types::LaunchesInFlight;

/// The state of a device and of a context on it: see [`Context::snapshot`].
///
/// With the feature `serde`, it can be serialized.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The ordinal of the device.
    pub ordinal: u32,
    /// The properties of the device.
    pub device: DeviceProperties,
    /// The CUDA version of the driver.
    pub driver: String,
    /// The free and the total memory of the device in bytes.
    pub memory: (usize, usize),
    /// The bytes that are used and reserved in the default memory pool of the device; `None` if it
    /// has no pools.
    pub pool: Option<(u64, u64)>,
    /// The raw handles of the contexts on the device that the program uses.
    pub contexts: Vec<u64>,
    /// The streams of the context that the program uses.
    pub streams: Vec<StreamSnapshot>,
    /// The modules that are loaded into the context.
    pub modules: Vec<ModuleSnapshot>,
    /// The names of the kernels that the program has looked up, and of graphs.
    pub kernels: Vec<String>,
    /// The memory that the program holds, if it [tracks](Context::track_memory) it.
    pub held: Option<MemoryReport>,
    /// The errors that were [recorded](crate::Driver::record_errors).
    pub errors: ErrorHistory,
}

/// A stream in a [`Snapshot`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamSnapshot {
    /// The raw handle.
    pub handle: u64,
    /// Whether all work that is queued is complete.
    pub is_done: bool,
    /// The launches that are not known to be complete.
    pub launches: LaunchesInFlight,
    /// The names of the last launches, complete or not, latest first: at most 64.
    pub recent: Vec<String>,
}

/// A module in a [`Snapshot`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModuleSnapshot {
    /// The raw handle.
    pub handle: u64,
    /// The names of the kernels, if the image is PTX. Machine code does not list them.
    pub kernels: Vec<String>,
}

/// Snapshots.
impl Context {
    /// Returns a picture of the context and its device. Waits for nothing.
    ///
    /// # Errors
    ///
    /// The errors of the queries: on a lost device, they fail with the fault.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let device = self.device();
        let pool = match self.limits().pools {
            true => {
                let statistics = device.default_memory_pool()?.statistics()?;
                Some((statistics.used, statistics.reserved))
            }
            false => None,
        };
        let streams = self.streams().of_program();
        let streams = streams.iter().map(|stream| StreamSnapshot {
            handle: stream.raw().addr() as u64,
            is_done: stream.is_done(self),
            launches: self.launches().names_of(stream.launches()),
            recent: self.launches().recent_names_of(stream.launches()),
        });
        let mut streams: Vec<_> = streams.collect();
        streams.sort_by_key(|stream| stream.handle);
        let contexts = Context::all_on(device).into_iter();
        let contexts = contexts.map(|it| it.as_raw().addr() as u64).collect();
        let modules = self.launches().modules().into_iter();
        let modules = modules.map(|module| ModuleSnapshot {
            handle: module.handle,
            kernels: module.kernels.to_vec(),
        });
        Ok(Snapshot {
            ordinal: device.ordinal(),
            device: device.properties()?,
            driver: self.driver().version().to_string(),
            memory: self.memory_info()?,
            pool,
            contexts,
            streams,
            modules: modules.collect(),
            kernels: self.launches().all_names(),
            held: self.memory_ledger().is_on().then(|| self.memory_report()),
            errors: self.driver().error_history(),
        })
    }
}

/// Lists the facts, one per line.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, total) = self.memory;
        writeln!(f, "device {}: {}", self.ordinal, self.device.name)?;
        writeln!(f, "driver: CUDA {}", self.driver)?;
        writeln!(f, "memory: {free} of {total} bytes are free")?;
        if let Some((used, reserved)) = self.pool {
            writeln!(f, "memory pool: {used} of {reserved} bytes are used")?;
        }
        write!(f, "contexts:")?;
        for context in &self.contexts {
            write!(f, " {context:#x}")?;
        }
        writeln!(f)?;
        for module in &self.modules {
            write!(f, "Module({:#x})", module.handle)?;
            match module.kernels.is_empty() {
                true => writeln!(f)?,
                false => writeln!(f, ": {}", module.kernels.join(", "))?,
            }
        }
        writeln!(f, "kernels and graphs: {}", self.kernels.join(", "))?;
        for stream in &self.streams {
            let state = if stream.is_done { "idle" } else { "busy" };
            write!(f, "Stream({:#x}): {state}", stream.handle)?;
            if !stream.launches.is_empty() {
                write!(f, "; launches, latest first: {}", stream.launches)?;
            } else if let Some(last) = stream.recent.first() {
                write!(f, "; the last launch was {last}")?;
            }
            writeln!(f)?;
        }
        if let Some(held) = &self.held {
            writeln!(f, "held by the program: {held}")?;
        }
        write!(f, "{}", self.errors)
    }
}
