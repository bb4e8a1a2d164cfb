//! A pool of devices that share the work of a program.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Context;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::Result;

/// A set of contexts, one for each of several devices, from which to choose one for each piece of
/// work.
///
/// It is meant to be shared between threads.
#[derive(Debug)]
pub struct DevicePool {
    /// Never empty.
    contexts: Vec<Context>,
    next: AtomicUsize,
}

impl DevicePool {
    /// Creates a pool of the primary contexts of all devices of `driver`.
    pub fn new(driver: &Driver) -> Result<Self> {
        // Device 0 exists: otherwise `cuInit` would have failed.
        let mut contexts = vec![driver.device(0)?.primary_context()?];
        for ordinal in 1..Device::count(driver)? {
            contexts.push(driver.device(ordinal)?.primary_context()?);
        }
        Ok(Self {
            contexts,
            next: AtomicUsize::new(0),
        })
    }

    /// Creates a pool of these contexts. Returns `None` if there are none.
    #[must_use]
    pub fn of(contexts: Vec<Context>) -> Option<Self> {
        (!contexts.is_empty()).then(|| Self {
            contexts,
            next: AtomicUsize::new(0),
        })
    }

    /// The contexts of the pool.
    #[must_use]
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// Returns the contexts in turn (round-robin).
    #[must_use]
    pub fn next(&self) -> &Context {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.contexts[turn % self.contexts.len()]
    }

    /// Returns the context whose device has the most free memory at this moment; among equals the
    /// first.
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
