//! Devices that share the work of a program.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Device;
use crate::context::Context;
use crate::driver::Driver;
use crate::error::Result;

/// Contexts on several devices, one each, to choose from for each piece of work.
///
/// Sharing it between threads is what it is for.
#[derive(Debug)]
pub struct DevicePool {
    /// At least one.
    contexts: Vec<Context>,
    next: AtomicUsize,
}

impl DevicePool {
    /// The primary contexts of all devices of `driver`.
    ///
    /// # Errors
    ///
    /// What `cuDevicePrimaryCtxRetain` answers for one of them.
    pub fn new(driver: &Driver) -> Result<Self> {
        // `cuInit` has failed where there is no device.
        let mut contexts = vec![driver.device(0)?.primary_context()?];
        for ordinal in 1..Device::count(driver)? {
            contexts.push(driver.device(ordinal)?.primary_context()?);
        }
        Ok(Self {
            contexts,
            next: AtomicUsize::new(0),
        })
    }

    /// These contexts; `None` if there is none.
    #[must_use]
    pub fn of(contexts: Vec<Context>) -> Option<Self> {
        (!contexts.is_empty()).then(|| Self {
            contexts,
            next: AtomicUsize::new(0),
        })
    }

    /// All contexts.
    #[must_use]
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// Each in its turn.
    #[must_use]
    pub fn next(&self) -> &Context {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.contexts[turn % self.contexts.len()]
    }

    /// The one whose device has the most free memory at this moment; of equals the first.
    ///
    /// # Errors
    ///
    /// What `cuMemGetInfo` answers for one of them.
    pub fn most_free_memory(&self) -> Result<&Context> {
        let mut best = (&self.contexts[0], self.contexts[0].memory_info()?.0);
        for context in &self.contexts[1..] {
            let (free, _) = context.memory_info()?;
            if free > best.1 {
                best = (context, free);
            }
        }
        Ok(best.0)
    }
}
