//! The variables of a module, which are looked up by name.
//!
//! In C, a variable can be looked up any number of times. Here it has one owner at a time, and its
//! uses are ordered like those of a buffer.

use std::ffi::CString;
use std::fmt;
use std::mem;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use cuda_sys::CUresult;

use crate::error::{DriverError, Error, Result};
use crate::launch::tracked_arg;
use crate::memory::{
    Block, DeviceBuffer, DeviceRepr, DeviceSliceMut, Memory, Reclaim, Source, len_of_cast,
};
use crate::module::{Module, ModuleInner};
use crate::stream::Stream;
use crate::tracking::Access;

/// A `__device__` or `__constant__` variable of a [`Module`], as elements of `T`. It keeps the
/// module loaded.
///
/// It dereferences to a [`DeviceBuffer`], through which it is read, and can be an argument of
/// kernels.
///
/// ```
/// use cuda_driver::{DeviceBuffer, LaunchConfig, Module, Ptx};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let ptx = Ptx::new(std::fs::read("tests/it/kernels/variables.ptx")?)?;
/// // The module has `__constant__ unsigned factors[4] = {1, 2, 3, 4};` and a kernel that
/// // multiplies 4 words by them.
/// let module = Module::load(&context, &ptx)?;
/// let mut factors = module.global::<u32>("factors", &stream)?;
/// assert_eq!(factors.to_vec()?, [1, 2, 3, 4]);
/// factors.copy_from_host(&[10, 20, 30, 40])?;
///
/// let mut words = DeviceBuffer::from_host(&stream, &[1_u32, 1, 2, 2])?;
/// let scale = module.function("scale")?;
/// // SAFETY: the kernel reads `factors` on their stream, and reads and writes 4 words.
/// unsafe { stream.launch(&scale, LaunchConfig::new(1, 4), (&mut words,)) }?;
/// assert_eq!(words.to_vec()?, [10, 20, 60, 80]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Global<T> {
    buffer: DeviceBuffer<T>,
    name: String,
}

/// The variables of the module.
impl Module {
    /// `cuModuleGetGlobal(name)`—Returns the variable with this name, with `stream` as its owning
    /// stream. The name is that in the image, where C++ names are mangled, or a name expression
    /// with which the module was compiled, such as `&table<float>`.
    ///
    /// Only one [`Global`] of a variable can exist at a time. Kernels that take it as an argument
    /// are ordered with its other uses on all streams. Kernels that access it by name are not
    /// tracked: on `stream` they run in queue order; on other streams, the caller of the launch
    /// must order them.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchGlobal`], [`Error::GlobalInUse`] if another [`Global`] of the variable
    /// exists, [`Error::Uneven`] if its size is not a multiple of the size of `T`,
    /// [`Error::Misaligned`] if its address is not aligned for `T`, [`Error::OtherContext`] if
    /// `stream` belongs to another context than the module, or [`Error::NulByte`] if the name
    /// contains a NUL byte.
    #[doc(alias = "cuModuleGetGlobal")]
    #[doc(alias = "cudaGetSymbolAddress")]
    pub fn global<T: DeviceRepr>(&self, name: &str, stream: &Stream) -> Result<Global<T>> {
        Global::of(self.inner(), self.name_in_image(name), stream)
    }
}

impl<T: DeviceRepr> Global<T> {
    /// Looks up a variable of this code.
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
        let len = len_of_cast::<T>(address, bytes).map_err(|error| match error {
            Error::Uneven { bytes, size, .. } => Error::Uneven {
                variable: Some(name.into()),
                bytes,
                size,
            },
            error => error,
        })?;
        let tracker = module.globals().take(address, name, stream)?;
        let block = Block {
            address,
            bytes,
            tracker,
        };
        // SAFETY: the memory must belong to the given source and have no other owner, and all its
        // uses must be tracked ← the source keeps the module loaded, and the list in the module
        // gives the variable to one owner at a time, together with its tracker.
        let memory = unsafe {
            Memory::of_block(block, Source::Other(Arc::clone(module) as Arc<dyn Reclaim>))
        };
        Ok(Self {
            buffer: DeviceBuffer::of_memory(memory, len),
            name: name.to_owned(),
        })
    }
}

impl<T: DeviceRepr> Global<T> {
    /// The name by which the variable was looked up.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a mutable slice of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// Returns a mutable slice of the elements of `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Overwrites the variable. When the call
    /// returns, the copy no longer uses `source`.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both have the same length.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.buffer.copy_from_host(source)
    }
}

/// Read access only: with `DerefMut`, a buffer of other memory could take the place of the
/// variable.
impl<T: DeviceRepr> Deref for Global<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global({}, {:?})", self.name, self.buffer)
    }
}

tracked_arg! {
    <> &Global<T>, |_| Access::READ;
    <> &mut Global<T>, |_| Access::WRITE;
}

/// A variable goes back to its module, which permits one owner at a time.
impl Reclaim for ModuleInner {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        self.globals().put(block.address, block.tracker);
        Ok(())
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // The variable stays marked as owned for ever, and its module stays loaded.
        mem::forget(self);
    }
}
