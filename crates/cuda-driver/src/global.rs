//! Variables of a module: globals and constants, by name.
//!
//! Where C hands out an address as often as it is asked, a variable has one owner at a time here,
//! and its uses an order as those of any buffer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fmt;
use std::mem;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUresult};

use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::memory::{Block, DeviceBuffer, DeviceRepr, DeviceSliceMut, Memory, Source, len_of_cast};
use crate::module::{Module, ModuleInner};
use crate::order::Tracker;
use crate::stream::Stream;

/// A `__device__` or `__constant__` variable of a [`Module`], which it keeps loaded, as elements of
/// `T`.
///
/// It is read as the [`DeviceBuffer`] that it dereferences to, and may be an argument of kernels.
pub struct Global<T: DeviceRepr> {
    buffer: DeviceBuffer<T>,
    name: String,
}

/// The variables of a module that were ever looked up, by their addresses. `None`: there is a
/// [`Global`] of it, which has the tracker.
#[derive(Default)]
pub(crate) struct Globals(Mutex<BTreeMap<CUdeviceptr, Option<Arc<Tracker>>>, { rank::GLOBALS }>);

impl Module {
    /// `cuModuleGetGlobal(name)`—The variable of this name, as it stands in the image (C++ names
    /// mangled), at home on `stream`.
    ///
    /// There is one [`Global`] of a variable at a time. Kernels that get it as an argument are
    /// ordered with its other uses on all streams. Kernels that use it by its name are not seen: on
    /// `stream` they run in the order in which they were queued, elsewhere it is for the caller of
    /// the launch to wait.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchGlobal`], [`Error::GlobalInUse`] if there is a [`Global`] of it,
    /// [`Error::Uneven`] if it is not a whole number of `T`, [`Error::Misaligned`] if no `T` may
    /// start where it does, [`Error::OtherContext`] if `stream` is of another context than the
    /// module, or [`Error::NulByte`] if there is one in the name.
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn global<T: DeviceRepr>(&self, name: &str, stream: &Stream) -> Result<Global<T>> {
        Global::of(self.inner(), name, stream)
    }
}

impl<T: DeviceRepr> Global<T> {
    /// The variable of that code.
    pub(crate) fn of(module: &Arc<ModuleInner>, name: &str, stream: &Stream) -> Result<Self> {
        stream.expect_context(module.context(), "the module")?;
        let c_name = CString::new(name).map_err(|error| Error::NulByte {
            what: "the name of the variable",
            position: error.nul_position(),
        })?;
        let current = module.context().enter()?;
        let result = module.variable(&c_name);
        drop(current);
        let (address, bytes) = match result {
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_FOUND => {
                return Err(Error::NoSuchGlobal {
                    name: name.to_owned(),
                });
            }
            result => result?,
        };
        let len = len_of_cast::<T>(address, bytes)?;
        let tracker = module.globals().take(address, name, stream)?;
        let block = Block {
            address,
            bytes,
            tracker,
        };
        // SAFETY: the memory must be of that source, nobody else's, and all uses known ← the module
        // is loaded as long as the source is there, and its list lets one out at a time, with the
        // order of its uses.
        let memory = unsafe { Memory::of_block(block, Source::Global(Arc::clone(module))) };
        Ok(Self {
            buffer: DeviceBuffer::of_memory(memory, len),
            name: name.to_owned(),
        })
    }
}

impl Globals {
    /// Lets the variable at `address` out, at home on `stream`.
    fn take(&self, address: CUdeviceptr, name: &str, stream: &Stream) -> Result<Arc<Tracker>> {
        let kept = match self.0.lock().entry(address) {
            Entry::Vacant(entry) => {
                entry.insert(None);
                None
            }
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut().take();
                Some(kept.ok_or_else(|| Error::GlobalInUse {
                    name: name.to_owned(),
                })?)
            }
        };
        let Some(mut tracker) = kept else {
            return Ok(Arc::new(Tracker::new(stream)));
        };
        // The list is not locked: this can wait for the device. Meanwhile the variable counts as in
        // use.
        match Tracker::hand_over(&mut tracker, stream) {
            Ok(()) => Ok(tracker),
            Err(error) => {
                self.put(address, tracker);
                Err(error.into())
            }
        }
    }

    /// Takes a variable back, with the order of its uses.
    fn put(&self, address: CUdeviceptr, tracker: Arc<Tracker>) {
        let former = self.0.lock().insert(address, Some(tracker));
        drop(former);
    }

    /// Removes all variables. Returns the trackers of those that were ever used: none of them is
    /// out, as a [`Global`] keeps its module.
    pub(crate) fn take_all(&self) -> Vec<Arc<Tracker>> {
        let known = mem::take(&mut *self.0.lock());
        known.into_values().flatten().collect()
    }
}

impl<T: DeviceRepr> Global<T> {
    /// The name that it was looked up by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All elements, to write.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// The elements of `range`, to write; `None` if it is out of bounds.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Overwrites the variable; returns when
    /// `source` is free again.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both are of one length, or what the calls answer.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.buffer.copy_from_host(source)
    }
}

/// To read. (Not to write: a buffer of other memory must not take its place.)
impl<T: DeviceRepr> Deref for Global<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<T: DeviceRepr> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global({}, {:?})", self.name, self.buffer)
    }
}

impl ModuleInner {
    /// Takes a variable back.
    pub(crate) fn take_back(&self, block: Block) {
        self.globals().put(block.address, block.tracker);
    }
}
