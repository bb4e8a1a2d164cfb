//! Export of buffers as tensors.

use std::any::Any;
use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};
use std::thread;
use std::time::Duration;

use super::Element;
use super::import::{DlTensor, VERSION, pointer};
use super::layout::{compact_len, compact_strides, span};
use super::raw::{DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use crate::context::Context;
use crate::deferred::{must_not_wait, quietly};
use crate::error::{Error, ExchangeError, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, Memory, PinnedBuffer};
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::tracking::{Access, Scope};

/// The interval at which a thread asks whether a capture has ended, if a tensor was released during
/// that capture.
const CAPTURE_TICK: Duration = Duration::from_millis(5);

/// The stream on which the consumer of a tensor will use it.
#[derive(Clone, Debug)]
pub struct Consumer(Option<Stream>);

impl Consumer {
    /// The consumer uses the tensor on this stream.
    #[must_use]
    pub fn on(stream: &Stream) -> Self {
        Self(Some(stream.clone()))
    }

    /// The consumer orders its work itself, after the work that is queued on all streams now.
    #[must_use]
    pub fn unordered() -> Self {
        Self(None)
    }

    /// Interprets the argument `stream` of Python's `__dlpack__`: `None` and 1 are the legacy
    /// stream of `context`, 2 its per-thread stream, −1 is [`unordered`](Self::unordered), and any
    /// other number is the handle of a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] for 0 and for other negative numbers, and the errors of
    /// [`Stream::borrow_raw`].
    ///
    /// # Safety
    ///
    /// A handle is a stream of the driver of `context`. It is alive until the deleter of each
    /// tensor that is exported to this consumer was called, and a capture of it neither begins nor
    /// ends during the export or during the deleter.
    pub unsafe fn from_python(context: &Context, stream: Option<i64>) -> Result<Self> {
        let handle = match stream {
            None | Some(1) => return Ok(Self::on(&context.legacy_stream())),
            Some(2) => return Ok(Self::on(&context.per_thread_stream())),
            Some(-1) => return Ok(Self::unordered()),
            Some(given) => match usize::try_from(given) {
                Ok(handle) if handle > 2 => handle,
                _ => return Err(Error::from(ExchangeError::StreamArgument { given })),
            },
        };
        let raw = ptr::without_provenance_mut(handle);
        // SAFETY: the stream must be alive while a handle of it exists, and not captured during
        // calls ← the caller guarantees it until the tensors were released, and captures are
        // allowed before the first call.
        let stream = unsafe { Stream::borrow_raw(context, raw, ()) }?;
        stream.allow_capture()?;
        Ok(Self(Some(stream)))
    }
}

/// A tensor in the form that a consumer has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawTensor {
    /// For a capsule named `dltensor_versioned`.
    Versioned(NonNull<DLManagedTensorVersioned>),
    /// For a capsule named `dltensor`.
    Unversioned(NonNull<DLManagedTensor>),
}

/// A tensor that this crate exports, with its shape, its strides and its owner. The tensor is the
/// first field, so the addresses of both are the same.
#[repr(C)]
struct Exported<O> {
    tensor: DLManagedTensorVersioned,
    dims: Box<[i64]>,
    #[allow(dead_code, reason = "only dropped")]
    owner: O,
}

/// Releases an exported tensor.
unsafe extern "C" fn delete<O>(raw: *mut DLManagedTensorVersioned) {
    // SAFETY: the struct must be valid ← the deleter is called with a tensor that was not released.
    let exported: *mut Exported<O> = unsafe { (*raw).manager_ctx }.cast();
    // SAFETY: the pointer must come from a `Box` that nothing uses afterwards ← `export` has made
    // it, and the deleter is called once.
    let exported = unsafe { Box::from_raw(exported) };
    // A panic of the owner must not cross into C.
    quietly(move || drop(exported));
}

/// The memory of an export: its kind, its device and its elements.
struct Place {
    kind: i32,
    ordinal: u32,
    address: u64,
}

/// Creates a tensor that owns `owner`.
fn export<T: Element, O: Send + Sync + 'static>(
    place: &Place,
    shape: &[usize],
    strides: &[usize],
    flags: u64,
    owner: O,
) -> Result<DlTensor> {
    let signed = |numbers: &[usize]| -> Result<Vec<i64>> {
        let numbers = numbers.iter().map(|it| i64::try_from(*it));
        numbers.collect::<Result<_, _>>().map_err(|_| {
            let what = "a length or a stride does not fit in 63 bits";
            Error::from(ExchangeError::Layout { what })
        })
    };
    let mut dims = signed(shape)?;
    dims.extend(signed(strides)?);
    let count = i32::try_from(shape.len()).unwrap_or(i32::MAX);
    let exported = Box::leak(Box::new(Exported {
        tensor: DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete::<O>),
            flags,
            dl_tensor: DLTensor {
                data: pointer(place.address),
                device: DLDevice {
                    device_type: place.kind,
                    device_id: i32::try_from(place.ordinal).unwrap_or(i32::MAX),
                },
                ndim: count,
                dtype: T::DTYPE,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
        },
        dims: dims.into_boxed_slice(),
        owner,
    }));
    let dims = exported.dims.as_mut_ptr();
    exported.tensor.dl_tensor.shape = dims;
    exported.tensor.dl_tensor.strides = dims.wrapping_add(shape.len());
    let exported: NonNull<Exported<O>> = NonNull::from(exported);
    // SAFETY: the struct must be valid, and used by no other code ← it was leaked just now.
    unsafe { (*exported.as_ptr()).tensor.manager_ctx = exported.as_ptr().cast() };
    // SAFETY: the tensor must be valid, and nothing else may release it ← it was made just now and
    // is the first field; its deleter may be called on any thread, because the owner is `Send`.
    unsafe { DlTensor::from_raw(exported.cast()) }
}

/// A buffer that a consumer uses on its stream. Dropping it never waits.
struct ConsumedBuffer<T: Element> {
    /// Taken only by the drop.
    buffer: ManuallyDrop<DeviceBuffer<T>>,
    consumer: Consumer,
}

impl<T: Element> Drop for ConsumedBuffer<T> {
    fn drop(&mut self) {
        // SAFETY: the field must not be used again ← this is the drop.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        let consumer = mem::replace(&mut self.consumer, Consumer(None));
        if must_not_wait() {
            let driver = buffer.stream().driver().clone();
            driver.defer(move || give_back(buffer, consumer));
        } else {
            give_back(buffer, consumer);
        }
    }
}

/// Drops a buffer behind the work that its consumer has queued so far.
fn give_back<T: Element>(buffer: DeviceBuffer<T>, consumer: Consumer) {
    // The per-thread stream of this thread need not be that of the consumer.
    let stream = consumer.0.filter(|it| it.state().kind() != Kind::PerThread);
    let Some(stream) = stream else {
        return release_when_idle(buffer.stream().context().clone(), buffer, leak);
    };
    if stream.state().is_captured() {
        return give_back_after_capture(buffer, stream);
    }
    // Work of the consumer on its stream is a use of the memory.
    let used = buffer.memory.use_on(
        &stream,
        "the release of an exported tensor",
        Access::WRITE,
        || Ok::<(), Error>(()),
    );
    if used.is_err() {
        release_when_idle(buffer.stream().context().clone(), buffer, leak);
    }
}

/// Leaks the memory of a buffer, but not its stream.
fn leak<T: Element>(buffer: DeviceBuffer<T>) {
    drop(buffer.memory.into_block());
}

/// Drops a buffer when the stream of its consumer is no longer being captured. If no thread can be
/// started, the memory is leaked.
fn give_back_after_capture<T: Element>(buffer: DeviceBuffer<T>, stream: Stream) {
    let buffer = ManuallyDrop::new(buffer);
    let wait = move || {
        while stream.state().is_captured() {
            thread::sleep(CAPTURE_TICK);
        }
        give_back(ManuallyDrop::into_inner(buffer), Consumer(Some(stream)));
    };
    let name = String::from("cuda-driver capture");
    let _ = thread::Builder::new().name(name).spawn(wait);
}

/// Drops `owner` on a worker thread, after all work in the context. If the wait fails, calls `leak`
/// instead.
fn release_when_idle<O: Send + 'static>(context: Context, owner: O, leak: fn(O)) {
    let driver = context.driver().clone();
    driver.defer_wait(move || {
        let same = context.clone();
        context.when_quiet(move || match same.synchronize_quiet() {
            Ok(()) | Err(Error::ContextGone { .. }) => drop(owner),
            Err(_) => leak(owner),
        });
    });
}

/// Makes the stream of the consumer wait for all uses of the memory.
fn order(memory: &Memory, access: Access, consumer: &Consumer) -> Result<()> {
    memory.expect_usable()?;
    let Some(stream) = &consumer.0 else {
        return Ok(());
    };
    Scope::acquire(stream, "the export of a tensor", |scope| {
        scope.ready()?;
        scope.lock_replays_if_needed(&memory.tracker);
        memory.tracker.acquire(scope, access)
    })
    .map(drop)
}

/// Exchange of tensors with other libraries.
impl<T: Element> DeviceBuffer<T> {
    /// Exports the buffer as a compact, row-major tensor of this shape, without a copy.
    ///
    /// The stream of the consumer is made to wait for all uses of the buffer. The tensor owns the
    /// buffer. When the consumer releases the tensor, the work that it has queued on its stream
    /// counts as a use, behind which the memory is freed. If it uses the memory on its per-thread
    /// stream, or named no stream, a worker thread first waits for all work in the context.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    /// use cuda_driver::dlpack::Consumer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let buffer = DeviceBuffer::<f32>::zeroed(&stream, 6)?;
    /// let tensor = buffer.into_dlpack(&[2, 3], &Consumer::on(&stream))?;
    /// assert_eq!(tensor.shape()?, [2, 3]);
    /// // In a program the consumer would be another library, which gets `tensor.into_raw()`.
    /// // SAFETY: the memory is that of the buffer, and no other code uses it.
    /// let again = unsafe { tensor.into_buffer::<f32>(&stream) }?;
    /// assert_eq!(again.as_slice().to_vec()?, [0.0; 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] unless the shape has as many elements as the buffer,
    /// [`Error::OtherContext`] if the stream of the consumer belongs to another context, and
    /// [`Error::StillInUse`] if a graph uses the memory, which could then use it without the
    /// knowledge of the consumer. The buffer is dropped then.
    pub fn into_dlpack(self, shape: &[usize], consumer: &Consumer) -> Result<DlTensor> {
        compact_len(shape, self.len())?;
        if self.memory.tracker.needs_replay_lock() && self.memory.tracker.has_leases() {
            return Err(Error::StillInUse {
                what: "the memory",
                by: "graphs",
            });
        }
        order(&self.memory, Access::WRITE, consumer)?;
        let place = Place {
            kind: DLDevice::CUDA,
            ordinal: self.stream().context().device().ordinal(),
            address: self.as_raw(),
        };
        let owner = ConsumedBuffer {
            buffer: ManuallyDrop::new(self),
            consumer: consumer.clone(),
        };
        export::<T, _>(&place, shape, &compact_strides(shape), 0, owner)
    }
}

/// Exchange of tensors with other libraries.
impl<T: Element> PinnedBuffer<T> {
    /// Exports the buffer as a compact, row-major tensor of page-locked host memory. NumPy accepts
    /// such tensors. When the consumer releases it, a worker thread waits for all work in the
    /// context, and then frees the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] unless the shape has as many elements as the buffer. The buffer is
    /// dropped then.
    pub fn into_dlpack(mut self, shape: &[usize]) -> Result<DlTensor> {
        compact_len(shape, self.len())?;
        let context = self.context().clone();
        let place = Place {
            kind: DLDevice::CUDA_HOST,
            ordinal: context.device().ordinal(),
            address: self.as_mut_ptr().expose_provenance() as u64,
        };
        let owner = ReleasedWhenIdle(Some((context, self)));
        export::<T, _>(&place, shape, &compact_strides(shape), 0, owner)
    }
}

/// A buffer that is dropped after all work in the context.
struct ReleasedWhenIdle<T: Element>(Option<(Context, PinnedBuffer<T>)>);

impl<T: Element> Drop for ReleasedWhenIdle<T> {
    fn drop(&mut self) {
        if let Some((context, buffer)) = self.0.take() {
            release_when_idle(context, buffer, PinnedBuffer::leak);
        }
    }
}

/// Exports of memory that stays with the program, and the form of a tensor.
impl DlTensor {
    /// Exports a view as a tensor with these strides, in elements. `owner` keeps the memory alive,
    /// and is dropped when the consumer releases the tensor.
    ///
    /// The stream of the consumer is made to wait for the uses that conflict.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the tensor reaches beyond the view, and the errors of
    /// [`DeviceBuffer::into_dlpack`].
    ///
    /// # Safety
    ///
    /// - While `owner` exists, the memory of the view stays allocated.
    /// - Until the consumer has released the tensor and its work is complete, the program does not
    ///   write the memory, and if `is_read_only` is false, does not use it.
    /// - Elements of the tensor that the consumer writes do not overlap.
    pub unsafe fn export<T: Element>(
        view: &DeviceSlice<'_, T>,
        shape: &[usize],
        strides: &[usize],
        is_read_only: bool,
        consumer: &Consumer,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        if span(shape, strides)? > view.len() {
            let what = "the tensor reaches beyond the view";
            return Err(Error::from(ExchangeError::Layout { what }));
        }
        let (access, flags) = if is_read_only {
            (Access::READ, DLManagedTensorVersioned::READ_ONLY)
        } else {
            (Access::WRITE, 0)
        };
        order(view.memory, access, consumer)?;
        let kind = if view.memory.is_managed() {
            DLDevice::CUDA_MANAGED
        } else {
            DLDevice::CUDA
        };
        let place = Place {
            kind,
            ordinal: view.context().device().ordinal(),
            address: view.as_raw(),
        };
        export::<T, _>(&place, shape, strides, flags, owner)
    }

    /// Releases ownership and returns the struct that a consumer has asked for by the argument
    /// `max_version` of Python's `__dlpack__`: without one, or below version 1, a struct without a
    /// version.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the tensor is read-only and the struct has no version: only a struct
    /// with a version can express it. The tensor is released then.
    pub fn into_raw_for(self, max_version: Option<(u32, u32)>) -> Result<RawTensor> {
        if max_version.is_some_and(|(major, _)| major >= VERSION.major) {
            return Ok(RawTensor::Versioned(self.into_raw()));
        }
        if self.is_read_only() {
            let what = "an export before DLPack 1.0";
            return Err(Error::from(ExchangeError::ReadOnly { what }));
        }
        let dl_tensor = *self.tensor();
        let owned = Box::new(DLManagedTensor {
            dl_tensor,
            manager_ctx: self.into_raw().as_ptr().cast(),
            deleter: Some(delete_inner),
        });
        Ok(RawTensor::Unversioned(NonNull::from(Box::leak(owned))))
    }
}

/// Releases a struct without a version, and the tensor in it.
unsafe extern "C" fn delete_inner(raw: *mut DLManagedTensor) {
    // SAFETY: the struct must come from a `Box` that nothing uses afterwards ← `into_raw_for` has
    // made it, and the deleter is called once.
    let owned = unsafe { Box::from_raw(raw) };
    if let Some(inner) = NonNull::new(owned.manager_ctx.cast()) {
        // SAFETY: the tensor must be valid, and nothing else may release it ← `into_raw_for` has
        // given up its ownership.
        drop(unsafe { DlTensor::from_raw(inner) });
    }
}
