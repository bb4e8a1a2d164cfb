//! Host memory that copies of graphs use.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::{Arc, OnceLock};

use super::copy::{CopySource, CopyTarget, HostPlace};
use super::owners::Told;
use crate::error::{DriverError, Error, Result};
use crate::memory::pinned::sealed::{Lock, TOKEN};
use crate::memory::{DeviceRepr, PinnedBuffer};
use crate::order::{Access, Tracker};
use crate::pending;
use crate::stream::SendPtr;

/// Page-locked memory that copy nodes of graphs read and write, and the host between launches.
///
/// Cloning it gives another handle of the same memory. The host gets at it through guards, which
/// wait for the launches that matter; as long as there is one that is in the way, a launch that
/// uses the memory is [`Error::Borrowed`]. Several may read at once.
pub struct GraphHostBuffer<T: DeviceRepr> {
    memory: Arc<HostMemory<T>>,
}

/// Elements of a [`GraphHostBuffer`], to read.
pub struct HostRead<'a, T: DeviceRepr> {
    memory: &'a HostMemory<T>,
}

/// Elements of a [`GraphHostBuffer`], to write.
pub struct HostWrite<'a, T: DeviceRepr> {
    memory: &'a HostMemory<T>,
    elements: PhantomData<&'a mut [T]>,
}

struct HostMemory<T: DeviceRepr> {
    /// The elements of `owner`, which is not touched before its end.
    start: SendPtr<c_void>,
    len: usize,
    tracker: Arc<Tracker>,
    /// A launch that uses it failed, and may be under way.
    suspect: OnceLock<DriverError>,
    owner: PinnedBuffer<T>,
}

impl<T: DeviceRepr> GraphHostBuffer<T> {
    /// Takes the memory of `owner`.
    ///
    /// # Errors
    ///
    /// What making the default stream of its context answers.
    pub fn new(owner: PinnedBuffer<T>) -> Result<Self> {
        let home = owner.context().default_stream()?;
        let memory = HostMemory {
            start: SendPtr(owner.start()),
            len: owner.len(),
            tracker: Tracker::of_host(&home),
            suspect: OnceLock::new(),
            owner,
        };
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `cuEventSynchronize()`—The elements, to read: waits for the launches that write them.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`] if somebody has them to write, [`Error::Unsupported`] inside a host
    /// function, or a fault of a launch that was waited for.
    pub fn read(&self) -> Result<HostRead<'_, T>> {
        self.lend(Access::READ)?;
        Ok(HostRead {
            memory: &self.memory,
        })
    }

    /// `cuEventSynchronize()`—The elements, to write: waits for all launches that use them.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`] if somebody has them, else as [`read`](Self::read).
    pub fn write(&self) -> Result<HostWrite<'_, T>> {
        self.lend(Access::WRITE)?;
        Ok(HostWrite {
            memory: &self.memory,
            elements: PhantomData,
        })
    }

    fn lend(&self, access: Access) -> Result<()> {
        if pending::is_inside_host_function() {
            return Err(Error::Unsupported {
                what: "waiting for a graph inside a host function",
            });
        }
        if let Some(error) = self.memory.suspect.get() {
            return Err((*error).into());
        }
        self.memory.tracker.lend(access)
    }

    fn place(&self) -> HostPlace<'_> {
        HostPlace {
            start: self.memory.start.0,
            context: self.memory.owner.context(),
            tracker: &self.memory.tracker,
            keep: Box::new(Arc::clone(&self.memory)),
        }
    }
}

impl<T: DeviceRepr> Told for Arc<HostMemory<T>> {
    fn suspect(&self, error: DriverError) {
        // The first one stays.
        let _ = self.suspect.set(error);
        self.owner.suspect(error, TOKEN);
    }
}

impl<'a, T: DeviceRepr> From<&'a GraphHostBuffer<T>> for CopySource<'a, T> {
    fn from(buffer: &'a GraphHostBuffer<T>) -> Self {
        Self::of_host(buffer.place(), buffer.len())
    }
}

impl<'a, T: DeviceRepr> From<&'a GraphHostBuffer<T>> for CopyTarget<'a, T> {
    fn from(buffer: &'a GraphHostBuffer<T>) -> Self {
        Self::of_host(buffer.place(), buffer.len())
    }
}

impl<T: DeviceRepr> Deref for HostRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let memory = self.memory;
        // SAFETY: `len` elements must be initialised there, not written while the slice lives ←
        // they are those of a pinned buffer; as long as the guard is there, no guard to write and
        // no launch that writes can be.
        unsafe { slice::from_raw_parts(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> Deref for HostWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let memory = self.memory;
        // SAFETY: as above; as long as the guard is there, no other guard and no launch that uses
        // them can be.
        unsafe { slice::from_raw_parts(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> DerefMut for HostWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let memory = self.memory;
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(memory.start.0.cast(), memory.len) }
    }
}

impl<T: DeviceRepr> HostMemory<T> {
    /// The host has it no more. Inside a host function soon: a launch that waits for that function
    /// may be inside the gate.
    fn take_back(&self, access: Access) {
        let tracker = Arc::clone(&self.tracker);
        pending::outside(self.owner.context().driver(), move || {
            tracker.take_back(access);
        });
    }
}

impl<T: DeviceRepr> Drop for HostRead<'_, T> {
    fn drop(&mut self) {
        self.memory.take_back(Access::READ);
    }
}

impl<T: DeviceRepr> Drop for HostWrite<'_, T> {
    fn drop(&mut self) {
        self.memory.take_back(Access::WRITE);
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
