//! Binding threads to the processors that are closest to a device.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::marker::PhantomData;

/// Keeps the current thread on the processors that are closest to a device, until it is dropped.
/// Returned by [`TopologyDevice::bind_thread`](super::TopologyDevice::bind_thread).
#[must_use = "dropping it ends the binding"]
pub struct BoundThread {
    /// The processors on which the thread ran before.
    before: system::Processors,
    /// It restores the binding of the thread that drops it.
    thread: PhantomData<*const ()>,
}

impl fmt::Debug for BoundThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundThread").finish_non_exhaustive()
    }
}

impl BoundThread {
    /// Binds the current thread to `cpus`, the processors that are closest to a device.
    pub(super) fn new(cpus: &[u32], device: u32) -> Result<Self> {
        if cpus.is_empty() {
            let message =
                format!("the system does not report which processors are close to device {device}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let before = system::current()?;
        system::bind(&system::of(cpus)?)?;
        Ok(Self {
            before,
            thread: PhantomData,
        })
    }
}

impl Drop for BoundThread {
    fn drop(&mut self) {
        // It fails if the process must not run on any of these processors any more. The thread then
        // stays where it is.
        let _ = system::bind(&self.before);
    }
}

#[cfg(all(target_os = "linux", feature = "affinity"))]
mod system {
    use std::io::{Error, ErrorKind, Result};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) type Processors = CpuSet;

    pub(super) fn current() -> Result<Processors> {
        Ok(sched_getaffinity(None)?)
    }

    pub(super) fn bind(processors: &Processors) -> Result<()> {
        Ok(sched_setaffinity(None, processors)?)
    }

    /// Returns a set of processors.
    pub(super) fn of(cpus: &[u32]) -> Result<Processors> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            let cpu = *cpu as usize;
            if cpu >= CpuSet::MAX_CPU {
                let most = CpuSet::MAX_CPU - 1;
                let message = format!("processor {cpu} is more than the largest one, {most}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            set.set(cpu);
        }
        Ok(set)
    }
}

#[cfg(not(all(target_os = "linux", feature = "affinity")))]
mod system {
    use std::io::{Error, ErrorKind, Result};

    /// No value of this type exists.
    pub(super) enum Processors {}

    pub(super) fn current() -> Result<Processors> {
        let message = if cfg!(target_os = "linux") {
            "the feature `affinity` of cuda-driver is not enabled"
        } else {
            "threads can be bound on Linux only"
        };
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    pub(super) fn bind(processors: &Processors) -> Result<()> {
        match *processors {}
    }

    pub(super) fn of(_: &[u32]) -> Result<Processors> {
        current()
    }
}
