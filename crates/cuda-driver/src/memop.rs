//! Stream memory operations: values in memory that streams wait for and write, without a kernel or
//! an event (`cuStreamWaitValue*`, `cuStreamWriteValue*`, `cuStreamBatchMemOp`).
//!
//! Unlike in C, the operations are ordered with other uses of the buffer.

use std::fmt;

use cuda_sys::{
    CUdeviceptr, CUstreamBatchMemOpParams, CUstreamBatchMemOpType, CUstreamWaitValue_flags,
    CUstreamWriteValue_flags,
};

use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, RangeError, Result};
use crate::memory::{DeviceRepr, DeviceSlice, Memory};
use crate::stream::Stream;
use crate::tracking::{Access, Scope};

/// The condition of a wait, which compares the value in memory with a given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitCondition(u32);

impl WaitCondition {
    /// The difference between the value in memory and the given value, as signed numbers, is not
    /// negative: a counter, which may wrap, has reached the given value.
    pub const GREATER_OR_EQUAL: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ.0);
    /// The values are equal.
    pub const EQUAL: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ.0);
    /// At least one bit is set in both values.
    pub const AND: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_AND.0);
    /// At least one bit is set in neither value.
    pub const NOR: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_NOR.0);

    /// Adds a flush: what other devices wrote before the value is visible after the wait. Whether
    /// the device supports that is reported by `CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES`.
    #[must_use]
    pub const fn with_flush(self) -> Self {
        Self(self.0 | CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_FLUSH.0)
    }
}

mod sealed {
    use super::{CUdeviceptr, CUstreamBatchMemOpParams, Driver, DriverError};
    use cuda_sys::CUstream;

    pub trait Word {
        /// # Safety
        ///
        /// The stream is alive, and the word at `address` stays valid until the stream has waited.
        unsafe fn wait(
            self,
            driver: &Driver,
            stream: CUstream,
            address: CUdeviceptr,
            flags: u32,
        ) -> Result<(), DriverError>;

        /// # Safety
        ///
        /// The stream is alive, and the word at `address` stays valid until the stream has written
        /// it.
        unsafe fn write(
            self,
            driver: &Driver,
            stream: CUstream,
            address: CUdeviceptr,
            flags: u32,
        ) -> Result<(), DriverError>;

        fn wait_op(self, address: CUdeviceptr, flags: u32) -> CUstreamBatchMemOpParams;
        fn write_op(self, address: CUdeviceptr, flags: u32) -> CUstreamBatchMemOpParams;
    }
}

/// A type that a stream can wait for and write: `u32` or `u64`.
#[diagnostic::on_unimplemented(
    message = "a stream cannot wait for or write a `{Self}`",
    label = "expected `u32`, `i32`, `u64` or `i64`"
)]
pub trait StreamWord: DeviceRepr + sealed::Word {}

macro_rules! stream_word {
    ($ty:ty, $wait:ident, $write:ident, $wait_type:ident, $write_type:ident) => {
        impl sealed::Word for $ty {
            unsafe fn wait(
                self,
                driver: &Driver,
                stream: cuda_sys::CUstream,
                address: CUdeviceptr,
                flags: u32,
            ) -> Result<(), DriverError> {
                // SAFETY: the stream and the word must be valid until it has waited ← the caller
                // guarantees it.
                unsafe { call!(driver, $wait(stream, address, self, flags)) }
            }

            unsafe fn write(
                self,
                driver: &Driver,
                stream: cuda_sys::CUstream,
                address: CUdeviceptr,
                flags: u32,
            ) -> Result<(), DriverError> {
                // SAFETY: the stream and the word must be valid until it has written ← the caller
                // guarantees it.
                unsafe { call!(driver, $write(stream, address, self, flags)) }
            }

            fn wait_op(self, address: CUdeviceptr, flags: u32) -> CUstreamBatchMemOpParams {
                op(
                    CUstreamBatchMemOpType::$wait_type,
                    address,
                    u64::from(self),
                    flags,
                )
            }

            fn write_op(self, address: CUdeviceptr, flags: u32) -> CUstreamBatchMemOpParams {
                op(
                    CUstreamBatchMemOpType::$write_type,
                    address,
                    u64::from(self),
                    flags,
                )
            }
        }

        impl StreamWord for $ty {}
    };
}

stream_word!(
    u32,
    cuStreamWaitValue32_v2,
    cuStreamWriteValue32_v2,
    CU_STREAM_MEM_OP_WAIT_VALUE_32,
    CU_STREAM_MEM_OP_WRITE_VALUE_32
);
stream_word!(
    u64,
    cuStreamWaitValue64_v2,
    cuStreamWriteValue64_v2,
    CU_STREAM_MEM_OP_WAIT_VALUE_64,
    CU_STREAM_MEM_OP_WRITE_VALUE_64
);

/// Creates an operation in the form of C. Type, address, value and flags lie at the same offsets
/// for waits and writes.
fn op(
    operation: CUstreamBatchMemOpType,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> CUstreamBatchMemOpParams {
    let mut params = CUstreamBatchMemOpParams { pad: [0; 6] };
    params.writeValue = cuda_sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation,
        address,
        __bindgen_anon_1:
            cuda_sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 {
                value64: value,
            },
        flags,
        alias: 0,
    };
    params
}

/// An element of a buffer that holds a value.
struct At<'a, T: DeviceRepr> {
    view: DeviceSlice<'a, T>,
    address: CUdeviceptr,
}

impl<'a, T: StreamWord> At<'a, T> {
    fn new(view: DeviceSlice<'a, T>, index: usize) -> Result<Self> {
        if view.memory.is_managed() {
            // The borrow is shared, so the host may have a slice of the memory at the same time.
            return Err(Error::Unsupported {
                what: "using managed memory for values that streams wait for or write; use a \
                       `DeviceBuffer`",
            });
        }
        let len = view.len();
        if index >= len {
            return Err(RangeError::Index { index, len }.into());
        }
        let address = view.slice(index..)?.as_raw();
        Ok(Self { view, address })
    }

    fn word(&self, access: Access) -> Word<'a> {
        Word {
            memory: self.view.memory,
            access,
            address: self.address,
            bytes: size_of::<T>(),
        }
    }
}

/// Waits for values in memory, and writes of values.
impl Stream {
    /// `cuStreamWaitValue32()`, `cuStreamWaitValue64()`—Makes work that is queued on the stream
    /// from now on wait until element `index` of `memory` meets `condition`, compared with `value`.
    ///
    /// The wait is ordered after all writes of the buffer that were queued before. It is not
    /// ordered with [`write_value`](Self::write_value), which ends the wait on whichever
    /// stream it is queued, before or after the wait. All other writes of the buffer that are
    /// queued later, and its free, begin only when the wait has ended.
    ///
    /// If the value is never written, the stream is blocked forever, and so is every wait for the
    /// stream or for the context.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `index` is outside of `memory`; [`Error::OtherContext`];
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device does not support it; [`Error::Unsupported`] for
    /// managed memory; `CUDA_ERROR_INVALID_VALUE` for memory of a pool, which most buffers have
    /// (memory of [`Unpooled`](crate::memory::Unpooled) is in no pool).
    #[doc(alias = "cuStreamWaitValue32")]
    #[doc(alias = "cuStreamWaitValue64")]
    pub fn wait_value<'a, T: StreamWord>(
        &self,
        memory: impl Into<DeviceSlice<'a, T>>,
        index: usize,
        condition: WaitCondition,
        value: T,
    ) -> Result<()> {
        let at = At::new(memory.into(), index)?;
        let tracker = &at.view.memory.tracker;
        let mut scope = Scope::acquire(self, "Stream::wait_value", |scope| {
            tracker.acquire(scope, Access::AWAIT)
        })?;
        self.driver().note_host_wait();
        self.state().queue_host_wait(self.context(), || {
            // SAFETY: the stream and the word must be valid until it has waited ← the stream is
            // borrowed and its work runs to the end, and the free of the memory waits for this use.
            unsafe { value.wait(self.driver(), self.as_raw(), at.address, condition.0) }
        })?;
        tracker.commit(&mut scope, Access::AWAIT);
        Ok(())
    }

    /// `cuStreamWriteValue32()`, `cuStreamWriteValue64()`—Sets element `index` of `memory` to
    /// `value` once all earlier work on the stream is complete. A reader that sees the value also
    /// sees the results of that work.
    ///
    /// The write is ordered with other uses of the buffer, except with waits for a value: see
    /// [`wait_value`](Self::wait_value). It therefore takes a shared borrow, like an atomic store.
    ///
    /// # Errors
    ///
    /// Fails as [`wait_value`](Self::wait_value) does.
    #[doc(alias = "cuStreamWriteValue32")]
    #[doc(alias = "cuStreamWriteValue64")]
    pub fn write_value<'a, T: StreamWord>(
        &self,
        memory: impl Into<DeviceSlice<'a, T>>,
        index: usize,
        value: T,
    ) -> Result<()> {
        let at = At::new(memory.into(), index)?;
        let tracker = &at.view.memory.tracker;
        let mut scope = Scope::acquire(self, "Stream::write_value", |scope| {
            tracker.acquire(scope, Access::SIGNAL)
        })?;
        // SAFETY: the stream and the word must be valid until it has written ← the stream is
        // borrowed and its work runs to the end, and the free of the memory waits for this use.
        unsafe { value.write(self.driver(), self.as_raw(), at.address, WRITE) }?;
        tracker.commit(&mut scope, Access::SIGNAL);
        Ok(())
    }
}

const WRITE: u32 = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT.0;

/// Waits and writes of values that are queued with one call.
#[derive(Default)]
pub struct ValueBatch<'a> {
    ops: Vec<CUstreamBatchMemOpParams>,
    uses: Vec<Word<'a>>,
}

/// A word that an operation accesses.
#[derive(Clone, Copy)]
struct Word<'a> {
    memory: &'a Memory,
    access: Access,
    address: CUdeviceptr,
    bytes: usize,
}

impl<'a> ValueBatch<'a> {
    /// The maximum number of operations of `cuStreamBatchMemOp`.
    pub const MAX_OPERATIONS: usize = 256;

    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a wait, as [`Stream::wait_value`] queues it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `index` is outside of `memory`; [`Error::Unsupported`] for managed
    /// memory.
    pub fn wait<T: StreamWord>(
        mut self,
        memory: impl Into<DeviceSlice<'a, T>>,
        index: usize,
        condition: WaitCondition,
        value: T,
    ) -> Result<Self> {
        let at = At::new(memory.into(), index)?;
        self.ops.push(value.wait_op(at.address, condition.0));
        self.uses.push(at.word(Access::AWAIT));
        Ok(self)
    }

    /// Appends a write, as [`Stream::write_value`] queues it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `index` is outside of `memory`; [`Error::Unsupported`] for managed
    /// memory.
    pub fn write<T: StreamWord>(
        mut self,
        memory: impl Into<DeviceSlice<'a, T>>,
        index: usize,
        value: T,
    ) -> Result<Self> {
        let at = At::new(memory.into(), index)?;
        self.ops.push(value.write_op(at.address, WRITE));
        self.uses.push(at.word(Access::SIGNAL));
        Ok(self)
    }

    /// `cuStreamBatchMemOp()`—Queues the operations on `stream`, in order. An empty batch makes no
    /// driver call.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than [`MAX_OPERATIONS`](Self::MAX_OPERATIONS) operations.
    /// Otherwise fails as [`Stream::wait_value`] does.
    #[doc(alias = "cuStreamBatchMemOp")]
    pub fn queue(mut self, stream: &Stream) -> Result<()> {
        if self.ops.is_empty() {
            return Ok(());
        }
        let count = self.count()?;
        let mut scope = Scope::acquire(stream, "ValueBatch::queue", |scope| {
            self.uses
                .iter()
                .try_for_each(|word| word.memory.tracker.acquire(scope, word.access))
        })?;
        stream.driver().note_host_wait();
        let ops = self.ops.as_mut_ptr();
        stream.state().queue_host_wait(stream.context(), || {
            // SAFETY: `ops` must point to `count` operations, and the stream and the words must be
            // valid until they are done ← the operations are in the vector, the stream is borrowed
            // and its work runs to the end, and the frees of the memory wait for these uses.
            unsafe {
                call!(
                    stream.driver(),
                    cuStreamBatchMemOp_v2(stream.as_raw(), count, ops, 0)
                )
            }
        })?;
        for Word { memory, access, .. } in &self.uses {
            memory.tracker.commit(&mut scope, *access);
        }
        Ok(())
    }
}

impl ValueBatch<'_> {
    /// Returns the number of operations, or an error if there are too many.
    pub(crate) fn count(&self) -> Result<u32> {
        let (given, most) = (self.ops.len(), Self::MAX_OPERATIONS);
        let count = u32::try_from(given).ok().filter(|_| given <= most);
        count.ok_or_else(|| {
            let what = "operations in the batch";
            RangeError::TooMany { what, given, most }.into()
        })
    }

    /// Returns the operations, after calling `each` with every word that they access.
    pub(crate) fn into_parts(
        self,
        mut each: impl FnMut(&Memory, Access, CUdeviceptr, usize) -> Result<()>,
    ) -> Result<Vec<CUstreamBatchMemOpParams>> {
        for word in &self.uses {
            each(word.memory, word.access, word.address, word.bytes)?;
        }
        Ok(self.ops)
    }
}

impl fmt::Debug for ValueBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueBatch({})", self.ops.len())
    }
}
