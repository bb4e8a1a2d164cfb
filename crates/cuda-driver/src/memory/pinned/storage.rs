//! Page-locked memory that is handed out in parts.
//!
//! In C a pool of page-locked memory is an address and a size, and the program sees to it that no
//! two users have the same bytes. Here each part is an owner, and parts cannot overlap.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut, Range, RangeBounds};
use std::slice;
use std::sync::Arc;

use super::locked::sealed::{Lock, Token};
use super::{PageLocked, PinnedBuffer};
use crate::context::Context;
use crate::error::{DriverError, Error, RangeError, Result};
use crate::lock::{Mutex, rank};
use crate::memory::{DeviceRepr, resolve};

/// Page-locked memory that hands out its parts as owners of their own. A clone hands out parts of
/// the same memory, which is freed after the last handle and the last part were dropped.
///
/// Page-locking is slow, so a pool locks a large block once, and this type lends its ranges to
/// other threads. Each [`PinnedPart`] is used like a [`PinnedBuffer`].
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::{PinnedFlags, PinnedStorage};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let block = PinnedBuffer::<u32>::zeroed(&context, 1000, PinnedFlags::DEFAULT)?;
/// let storage = PinnedStorage::from(block);
/// let mut part = storage.take(100..103)?;
/// // The elements belong to `part` until it is dropped.
/// assert!(storage.take(102..200).is_err());
/// std::thread::spawn(move || {
///     part.copy_from_slice(&[1, 2, 3]);
///     let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
///     let part = buffer.copy_from_pinned_async(part, &stream)?.wait()?;
///     assert_eq!(buffer.to_vec()?, *part);
///     Ok::<(), cuda_driver::Error>(())
/// })
/// .join()
/// .unwrap()?;
/// assert!(storage.take(..).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PinnedStorage<T>(Arc<Inner<T>>);

struct Inner<T> {
    /// Its elements are accessed only through parts, and by [`PinnedStorage::into_buffer`] when
    /// there is none.
    buffer: PinnedBuffer<T>,
    len: usize,
    /// The ranges of the parts that exist, and of those that a failed copy may still write: the
    /// ends by the starts. They are not empty and do not overlap.
    taken: Mutex<BTreeMap<usize, usize>, { rank::PINNED_PARTS }>,
}

impl<T: DeviceRepr> PinnedStorage<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns `true` if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the context in which the memory was allocated.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.buffer.context()
    }

    /// Takes the elements of `range`. They have the values that the last owner of each element has
    /// left there.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `range` is outside of the memory, or if a part that has not been
    /// dropped has one of its elements. A part of a failed copy that may still be running is never
    /// given back.
    pub fn take(&self, range: impl RangeBounds<usize>) -> Result<PinnedPart<T>> {
        let (start, len) = resolve(range, self.len())?;
        let end = start + len;
        if len > 0 {
            let mut taken = self.0.taken.lock();
            // The ranges do not overlap, so only the last one that starts before `end` can.
            let before = taken.range(..end).next_back();
            if let Some((&other, &other_end)) = before.filter(|(_, other_end)| **other_end > start)
            {
                return Err(Error::from(RangeError::Taken {
                    range: start..end,
                    taken: other..other_end,
                }));
            }
            taken.insert(start, end);
        }
        Ok(PinnedPart {
            storage: self.clone(),
            start,
            len,
            taken: start..end,
        })
    }

    /// Returns the memory as one buffer.
    ///
    /// # Errors
    ///
    /// Returns the storage if there is another handle or a part.
    pub fn into_buffer(self) -> Result<PinnedBuffer<T>, Self> {
        if !self.0.taken.lock().is_empty() {
            return Err(self);
        }
        // Each part owns a handle, so there is none if this is the only handle.
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Ok(inner.buffer),
            Err(shared) => Err(Self(shared)),
        }
    }
}

impl<T: DeviceRepr> From<PinnedBuffer<T>> for PinnedStorage<T> {
    fn from(buffer: PinnedBuffer<T>) -> Self {
        Self(Arc::new(Inner {
            len: buffer.len(),
            buffer,
            taken: Mutex::default(),
        }))
    }
}

impl<T> Clone for PinnedStorage<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for PinnedStorage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedStorage({:?})", self.0.buffer)
    }
}

/// A part of page-locked memory, taken from a [`PinnedStorage`]. It dereferences to a slice, and
/// dropping it gives the elements back.
pub struct PinnedPart<T> {
    storage: PinnedStorage<T>,
    start: usize,
    len: usize,
    /// The range to give back. Empty if there is nothing to give back.
    taken: Range<usize>,
}

impl<T: DeviceRepr> PinnedPart<T> {
    /// Returns the range of the part in its storage.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Returns the storage.
    #[must_use]
    pub fn storage(&self) -> &PinnedStorage<T> {
        &self.storage
    }
}

impl<T> PinnedPart<T> {
    /// Returns the address of the first element, or of the end of the memory if there is none.
    fn first_ptr(&self) -> *mut T {
        self.storage.0.buffer.first_ptr().wrapping_add(self.start)
    }
}

impl<T: DeviceRepr> Deref for PinnedPart<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialized elements must be at the address and must not be written while
        // the slice lives ← the range is within the buffer, whose elements are initialized, and no
        // other part has one of them; a transfer that writes the part owns it or borrows it
        // mutably.
        unsafe { slice::from_raw_parts(self.first_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> DerefMut for PinnedPart<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no other code may use the elements while the slice lives ← `self`
        // is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.first_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> Lock for PinnedPart<T> {
    fn start(&self) -> *mut std::ffi::c_void {
        self.first_ptr().cast()
    }

    fn poison(&self, error: DriverError, token: Token) {
        self.storage.0.buffer.poison(error, token);
    }

    fn abandon(&mut self, error: DriverError, token: Token) {
        self.storage.0.buffer.poison(error, token);
        // The device may still write the elements, so no other part may have them.
        self.taken = 0..0;
        self.len = 0;
    }
}

// SAFETY: the elements must be page-locked from `start` on and keep their address ← they are
// elements of the buffer in the storage, which the part keeps.
unsafe impl<T: DeviceRepr> PageLocked<T> for PinnedPart<T> {
    fn context(&self) -> &Context {
        self.storage.context()
    }
}

impl<T> Drop for PinnedPart<T> {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.storage.0.taken.lock().remove(&self.taken.start);
        }
    }
}

impl<T> fmt::Debug for PinnedPart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, len) = (self.first_ptr(), self.len);
        write!(f, "PinnedPart({start:p}, {len} x {})", size_of::<T>())
    }
}
