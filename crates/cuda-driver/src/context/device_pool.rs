//! A pool of devices that share the work of a program.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Context;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::Result;
use crate::topology::Topology;

/// A set of contexts, one for each of several devices, from which to choose one for each piece of
/// work.
///
/// It is meant to be shared between threads.
///
/// ```
/// use cuda_driver::device::DevicePool;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
/// let pool = DevicePool::new(&driver)?;
/// assert_eq!(pool.contexts().len(), 2);
/// // The devices take turns.
/// let first = pool.next().clone();
/// assert_ne!(&first, pool.next());
/// assert_eq!(&first, pool.next());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DevicePool {
    /// Never empty.
    contexts: Vec<Context>,
    next: AtomicUsize,
}

impl DevicePool {
    /// Creates a pool of the primary contexts of all devices of `driver`, in the order of
    /// [`Topology::ring`]: device 0 is the first, and neighbours have the fastest connections.
    pub fn new(driver: &Driver) -> Result<Self> {
        // Device 0 exists: otherwise `cuInit` would have failed.
        let mut contexts = vec![driver.device(0)?.primary_context()?];
        let count = Device::count(driver)?;
        let order = match count {
            // There is only one order.
            ..=2 => (0..count).collect(),
            _ => Topology::discover(driver)?.ring(),
        };
        for ordinal in order.into_iter().skip(1) {
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

    /// Divides `items` into one part for each context, and calls `work` with each part, in a thread
    /// of its own. Returns the results in the order of the parts when all threads have ended.
    ///
    /// The parts differ by one element at most. If there are fewer elements than contexts, the last
    /// parts are empty.
    ///
    /// ```
    /// use cuda_driver::device::DevicePool;
    /// use cuda_driver::prelude::*;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
    /// let pool = DevicePool::new(&driver)?;
    /// let buffers = pool.divide(&[1.0_f32, 2.0, 3.0], |context, part| {
    ///     DeviceBuffer::from_host(&context.default_stream()?, part)
    /// })?;
    /// # assert_eq!(buffers.len(), 2);
    /// assert_eq!(buffers[0].to_vec()?, [1.0, 2.0]);
    /// assert_eq!(buffers[1].to_vec()?, [3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `work` for the first part that fails.
    ///
    /// # Panics
    ///
    /// If `work` panics, after all threads have ended.
    pub fn divide<T: Sync, R: Send, E: Send>(
        &self,
        items: &[T],
        work: impl Fn(&Context, &[T]) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let (count, work) = (self.contexts.len(), &work);
        // The first `rest` parts have one element more.
        let (whole, rest) = (items.len() / count, items.len() % count);
        let start = |part: usize| whole * part + rest.min(part);
        thread::scope(|scope| {
            let threads = self.contexts.iter().enumerate().map(|(part, context)| {
                let items = items.get(start(part)..start(part + 1)).unwrap_or_default();
                scope.spawn(move || work(context, items))
            });
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|thread| {
                let result = thread.join();
                result.unwrap_or_else(|panic| resume_unwind(panic))
            });
            joined.collect()
        })
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
