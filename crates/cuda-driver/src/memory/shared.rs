//! Shared device memory: views that own their buffer, writable aliases, and in-place arguments.
//!
//! In C any number of addresses of one allocation may be in use. Here a launch that writes a buffer
//! usually borrows it mutably. Tensor libraries need more: several tensors share one storage, and
//! an operation writes a tensor that it also reads.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, resolve};
use crate::error::{Error, Result};
use crate::tracking::Access;

/// A read-only view of elements that keeps its buffer alive, together with other views. It is to
/// [`DeviceSlice`] as `Arc<[T]>` is to `&[T]`.
///
/// `&view` is a kernel argument and the source of a copy, on streams and in graphs. The memory is
/// freed when the last view and the last graph that uses it are dropped.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Graph};
/// use cuda_driver::memory::SharedSlice;
///
/// /// A row of a matrix: a view, together with the storage that it is a part of.
/// struct Row {
///     elements: SharedSlice<f32>,
/// }
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let storage = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let matrix = SharedSlice::from(storage);
/// let rows: Vec<Row> = [matrix.slice(..3)?, matrix.slice(3..)?]
///     .into_iter()
///     .map(|elements| Row { elements })
///     .collect();
/// drop(matrix);
/// assert_eq!(rows[1].elements.to_vec()?, [4.0, 5.0, 6.0]);
///
/// let mut copy = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
/// let graph = Graph::capture(&context, |scope| scope.copy(&mut copy, &rows[1].elements).map(drop))?;
/// // The graph keeps the memory.
/// drop(rows);
/// graph.instantiate()?.launch(&stream)?;
/// assert_eq!(copy.to_vec()?, [4.0, 5.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedSlice<T> {
    buffer: Arc<DeviceBuffer<T>>,
    start: usize,
    len: usize,
}

impl<T: DeviceRepr> SharedSlice<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the buffer that the view is a part of.
    #[must_use]
    pub fn buffer(&self) -> &Arc<DeviceBuffer<T>> {
        &self.buffer
    }

    /// Returns the index of the first element in the buffer.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns a view of the elements in `range`, which shares the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the length.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (start, len) = resolve(range, self.len)?;
        Ok(Self {
            buffer: Arc::clone(&self.buffer),
            // This cannot overflow: the view is within the buffer.
            start: self.start + start,
            len,
        })
    }

    /// Returns a view that borrows this one.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // The elements are within the buffer, as `piece` requires.
        self.buffer.as_slice().piece(self.start, self.len)
    }

    /// Copies all elements to a new `Vec`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::to_vec`] does.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Returns a writable view of the elements. See [`DeviceBuffer::alias_mut`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceBuffer::alias_mut`] does.
    ///
    /// # Safety
    ///
    /// The requirements of [`DeviceBuffer::alias_mut`] apply.
    pub unsafe fn alias_mut(&self) -> Result<DeviceSliceMut<'_, T>> {
        // SAFETY: the contract of `alias_mut` must hold ← the caller upholds it.
        let whole = unsafe { self.buffer.alias_mut() }?;
        // The elements are within the buffer, as `piece` requires.
        Ok(whole.piece(self.start, self.len))
    }

    /// Returns the memory of the buffer.
    pub(crate) fn memory(&self) -> &Memory {
        &self.buffer.memory
    }
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        Self {
            buffer: Arc::clone(&self.buffer),
            ..*self
        }
    }
}

impl<T: DeviceRepr> From<DeviceBuffer<T>> for SharedSlice<T> {
    fn from(buffer: DeviceBuffer<T>) -> Self {
        Arc::new(buffer).into()
    }
}

impl<T: DeviceRepr> From<Arc<DeviceBuffer<T>>> for SharedSlice<T> {
    fn from(buffer: Arc<DeviceBuffer<T>>) -> Self {
        Self {
            start: 0,
            len: buffer.len(),
            buffer,
        }
    }
}

impl<'a, T: DeviceRepr> From<&'a SharedSlice<T>> for DeviceSlice<'a, T> {
    fn from(view: &'a SharedSlice<T>) -> Self {
        view.as_slice()
    }
}

impl<T> fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SharedSlice({:?}, {} elements from {} on)",
            self.buffer, self.len, self.start
        )
    }
}

/// Buffers with several owners.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Returns a writable view of all elements through a shared borrow, for memory that several
    /// owners share.
    ///
    /// Uses of the view are ordered with all other uses of the buffer, as writes. From the first
    /// call on, each use of the buffer on any thread holds a lock of the context until the use is
    /// queued. So uses on several threads are ordered even though no borrow excludes them: each
    /// waits for those that were queued before it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use cuda_driver::prelude::*;
    ///
    /// /// Computes `x = 2 * x + y` for tensors that may share their storage with others.
    /// fn mix(
    ///     stream: &Stream,
    ///     mix: &Function,
    ///     x: &Arc<DeviceBuffer<u32>>,
    ///     y: &Arc<DeviceBuffer<u32>>,
    /// ) -> cuda_driver::Result<()> {
    ///     assert!(x.len() == y.len());
    ///     let n = x.len() as u32;
    ///     let config = LaunchConfig::for_num_elems(n)?;
    ///     // SAFETY: the kernel writes element i of `x` after it has read element i of both, so `x`
    ///     // and `y` may be the same memory. The aliases were allowed when the buffers were made.
    ///     unsafe { stream.launch(mix, config, (x.alias_mut()?, &**y, n)) }
    /// }
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let kernel = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
    /// # let kernel = Module::load(&context, &kernel)?.function("mix")?;
    /// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
    /// x.allow_aliases()?;
    /// let x = Arc::new(x);
    /// mix(&stream, &kernel, &x, &x)?;
    /// assert_eq!(x.to_vec()?, [3; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for managed memory, of which the host may have slices.
    ///
    /// # Safety
    ///
    /// - One call does not receive this view and another view of overlapping elements, unless the
    ///   call is a launch of a kernel that permits it. For example, no parameter through which the
    ///   kernel accesses these elements is `__restrict__`. A [`Texture`](crate::texture::Texture)
    ///   of the buffer counts as a view.
    /// - No other code relies on the elements staying unchanged while it borrows the buffer.
    /// - During the first call for a buffer, no other thread queues a use of it.
    ///   [`allow_aliases`](Self::allow_aliases) removes this requirement.
    pub unsafe fn alias_mut(&self) -> Result<DeviceSliceMut<'_, T>> {
        self.memory.allow_aliases()?;
        let whole = DeviceSliceMut::new(&self.memory, self.as_raw(), self.len());
        // Other aliases and views may be used at the same time, as if this were a part.
        Ok(DeviceSliceMut {
            access: Access::WRITE.of_part(),
            ..whole
        })
    }

    /// Prepares the buffer for [`alias_mut`](Self::alias_mut): from now on each use of the buffer
    /// holds a lock of the context until the use is queued.
    ///
    /// Call this before the buffer is shared with other threads.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for managed memory.
    pub fn allow_aliases(&mut self) -> Result<()> {
        self.memory.allow_aliases()
    }

    /// Returns an argument that a kernel reads and writes through several parameters. See
    /// [`InPlace`].
    #[must_use]
    pub fn in_place(&mut self) -> InPlace<'_, T> {
        self.as_mut_slice().in_place()
    }
}

impl Memory {
    /// Makes each later use of the memory hold the replay lock until it is queued.
    pub(crate) fn allow_aliases(&self) -> Result<()> {
        if self.is_managed() {
            return Err(Error::Unsupported {
                what: "a writable alias of managed memory; use a `DeviceBuffer`",
            });
        }
        self.tracker.allow_aliases();
        Ok(())
    }
}

/// An argument that a kernel reads and writes through several parameters, for operations in place.
///
/// It is `Copy`, and accepted for [`Reads`](crate::launch::Reads) and
/// [`Writes`](crate::launch::Writes) alike. It is to `&mut` buffers as `&Cell<T>` is to `&mut T`:
/// the copies must stay on one thread, which queues their uses one after the other.
///
/// ```
/// use cuda_driver::prelude::*;
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let module = Module::load(&context, &mix)?;
/// let mix: Kernel<(Writes<u32>, Reads<u32>, u32)> = module.function("mix")?.typed()?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// // `(&mut x, &x, 100)` would not compile.
/// let same = x.in_place();
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words, and reads element i of
/// // both before it writes that of `x`, so `x` and `y` may be the same.
/// unsafe { mix.launch(&stream, LaunchConfig::for_num_elems(100)?, (same, same, 100_u32)) }?;
/// assert_eq!(x.to_vec()?, [15; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A launch that receives it more than once requires, in addition to
/// [`Stream::launch`](crate::Stream::launch), that the kernel permits its parameters to overlap.
#[derive(Clone, Copy)]
pub struct InPlace<'a, T> {
    pub(crate) memory: &'a Memory,
    address: CUdeviceptr,
    len: usize,
    pub(crate) access: Access,
    /// Neither `Send` nor `Sync`: the uses of all copies are queued by one thread, so no two of
    /// them are queued at the same time.
    one_thread: PhantomData<(&'a mut [T], *mut ())>,
}

/// Arguments in place.
impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Returns an argument that a kernel reads and writes through several parameters. See
    /// [`InPlace`].
    #[must_use]
    pub fn in_place(self) -> InPlace<'a, T> {
        InPlace {
            memory: self.memory,
            address: self.as_raw(),
            len: self.len(),
            access: self.access,
            one_thread: PhantomData,
        }
    }
}

impl<T: DeviceRepr> InPlace<'_, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the slice has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device address of the first element.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// Returns the number of bytes that a kernel may access through this argument.
    pub(crate) fn span_bytes(&self) -> usize {
        // This cannot overflow: the elements lie in one allocation.
        self.len * size_of::<T>()
    }
}

impl<T> fmt::Debug for InPlace<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "InPlace({:#x}, {} x {})",
            self.address,
            self.len,
            size_of::<T>()
        )
    }
}
