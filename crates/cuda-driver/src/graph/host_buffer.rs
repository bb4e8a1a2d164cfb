//! Host memory for copy nodes of graphs.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::{Arc, OnceLock};

use super::copy::{CopySource, CopyTarget, HostSide};
use super::owners::OnFailure;
use crate::deferred::is_inside_host_function;
use crate::error::{DriverError, Error, Result};
use crate::memory::pinned::sealed::{Lock, TOKEN};
use crate::memory::{DeviceRepr, PinnedBuffer};
use crate::reports::{self, Waited};
use crate::tracking::{Access, Tracker};
use crate::types::SendPtr;

/// Page-locked memory that copy nodes of graphs read and write, and that the host accesses between
/// launches.
///
/// A clone is another handle to the same memory. The host accesses the memory through guards.
/// Creating a guard waits for the launches whose access conflicts with it; while a guard exists,
/// launches with a conflicting access fail with [`Error::HostGuardExists`]. Several read guards can
/// exist at once.
pub struct GraphHostBuffer<T: DeviceRepr> {
    memory: Arc<HostMemory<T>>,
}

/// A guard through which the host reads the elements of a [`GraphHostBuffer`].
pub struct HostRead<'a, T: DeviceRepr> {
    memory: &'a HostMemory<T>,
}

/// A guard through which the host reads and writes the elements of a [`GraphHostBuffer`].
pub struct HostWrite<'a, T: DeviceRepr> {
    memory: &'a HostMemory<T>,
    elements: PhantomData<&'a mut [T]>,
}

struct HostMemory<T: DeviceRepr> {
    /// The elements of `owner`, which itself is not used before it is dropped.
    start: SendPtr<c_void>,
    len: usize,
    tracker: Arc<Tracker>,
    /// The error of a failed launch that uses the memory and may still be running.
    poisoned_by: OnceLock<DriverError>,
    owner: PinnedBuffer<T>,
}

impl<T: DeviceRepr> GraphHostBuffer<T> {
    /// Turns `owner` into a buffer for graphs.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the default stream of the buffer's context cannot be created.
    pub fn new(owner: PinnedBuffer<T>) -> Result<Self> {
        let stream = owner.context().default_stream()?;
        let memory = HostMemory {
            start: SendPtr(owner.start()),
            len: owner.len(),
            tracker: Tracker::of_host(&stream),
            poisoned_by: OnceLock::new(),
            owner,
        };
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Returns whether the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `cuEventSynchronize()`—Waits for the launches that write the memory, and returns a guard for
    /// reading.
    ///
    /// # Errors
    ///
    /// - [`Error::HostGuardExists`] while a write guard exists.
    /// - [`Error::Unsupported`] inside a host function.
    /// - [`Error::Driver`] with the error of a launch that was waited for, or of an earlier launch
    ///   that failed and may still use the memory.
    pub fn read(&self) -> Result<HostRead<'_, T>> {
        self.map(Access::READ)?;
        Ok(HostRead {
            memory: &self.memory,
        })
    }

    /// `cuEventSynchronize()`—Waits for all launches that use the memory, and returns a guard for
    /// writing.
    ///
    /// # Errors
    ///
    /// [`Error::HostGuardExists`] while another guard exists, and the other errors of
    /// [`read`](Self::read).
    pub fn write(&self) -> Result<HostWrite<'_, T>> {
        self.map(Access::WRITE)?;
        Ok(HostWrite {
            memory: &self.memory,
            elements: PhantomData,
        })
    }

    fn map(&self, access: Access) -> Result<()> {
        if is_inside_host_function() {
            return Err(Error::Unsupported {
                what: "waiting for the launches of a graph inside a host function; access the \
                       buffer outside of host functions",
            });
        }
        if let Some(error) = self.memory.poisoned_by.get() {
            return Err((*error).into());
        }
        let tracker = &self.memory.tracker;
        tracker.map_host(access)?;
        if reports::any() {
            // The memory is not an argument of a kernel, so only replays can have used it.
            let reported = Waited::for_replays(tracker.replays()).report();
            return reported.inspect_err(|_| tracker.unmap_host(access));
        }
        Ok(())
    }

    fn side(&self) -> HostSide<'_> {
        HostSide {
            start: self.memory.start.0,
            context: self.memory.owner.context(),
            tracker: &self.memory.tracker,
            memory: Box::new(Arc::clone(&self.memory)),
        }
    }
}

impl<T: DeviceRepr> OnFailure for Arc<HostMemory<T>> {
    fn poison(&self, error: DriverError) {
        // If an error was stored before, it stays.
        let _ = self.poisoned_by.set(error);
        self.owner.poison(error, TOKEN);
    }
}

impl<'a, T: DeviceRepr> From<&'a GraphHostBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a GraphHostBuffer<T>) -> Self {
        Self::of_host(buffer.side(), buffer.len())
    }
}

impl<'a, T: DeviceRepr> From<&'a GraphHostBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a GraphHostBuffer<T>) -> Self {
        Self::of_host(buffer.side(), buffer.len())
    }
}

impl<T: DeviceRepr> Deref for HostRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let memory = self.memory;
        // SAFETY: `len` elements must be initialized, and not written while the slice lives ← they
        // are the elements of a pinned buffer; while this guard exists, no write guard exists and
        // no launch writes them.
        unsafe { slice::from_raw_parts(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> Deref for HostWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let memory = self.memory;
        // SAFETY: `len` elements must be initialized, and not written while the slice lives ← they
        // are the elements of a pinned buffer; while this guard exists, no other guard exists and
        // no launch uses them.
        unsafe { slice::from_raw_parts(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> DerefMut for HostWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let memory = self.memory;
        // SAFETY: no other access to the elements must be possible while the slice lives ← as in
        // `deref`, and this guard is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> HostMemory<T> {
    /// Ends the access of a guard. Inside a host function this is deferred, because a launch that
    /// waits for that function may hold the replay lock.
    fn unmap(&self, access: Access) {
        let tracker = Arc::clone(&self.tracker);
        self.owner.context().driver().run_or_defer(move || {
            tracker.unmap_host(access);
        });
    }
}

impl<T: DeviceRepr> Drop for HostRead<'_, T> {
    fn drop(&mut self) {
        self.memory.unmap(Access::READ);
    }
}

impl<T: DeviceRepr> Drop for HostWrite<'_, T> {
    fn drop(&mut self) {
        self.memory.unmap(Access::WRITE);
    }
}

impl<T: DeviceRepr> Clone for GraphHostBuffer<T> {
    fn clone(&self) -> Self {
        Self {
            memory: Arc::clone(&self.memory),
        }
    }
}

impl<T: DeviceRepr> fmt::Debug for GraphHostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.memory.start;
        write!(
            f,
            "GraphHostBuffer({start:?}, {} x {})",
            self.len(),
            size_of::<T>()
        )
    }
}

impl<T: DeviceRepr + fmt::Debug> fmt::Debug for HostRead<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: DeviceRepr + fmt::Debug> fmt::Debug for HostWrite<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
