//! Values in memory that streams wait for and set, with no kernel and no event between them.

use std::fmt;

use cuda_sys::{
    CUdeviceptr, CUstreamBatchMemOpParams, CUstreamBatchMemOpType, CUstreamWaitValue_flags,
    CUstreamWriteValue_flags,
};

use super::Stream;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSlice, Memory};
use crate::order::{Access, Scope};

/// What a stream waits for a value to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitCondition(u32);

impl WaitCondition {
    /// As signed numbers, the difference to the one given is not negative: a counter, also one that
    /// wraps, has come so far.
    pub const GREATER_OR_EQUAL: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ.0);
    /// The same.
    pub const EQUAL: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ.0);
    /// A bit of the one given is set.
    pub const AND: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_AND.0);
    /// A bit is set neither in it nor in the one given.
    pub const NOR: Self = Self(CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_NOR.0);

    /// The same, and what other devices wrote before the value is visible behind the wait
    /// (`CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES` says whether the device can).
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
        /// The stream is alive, and a word at `address` until it has waited.
        unsafe fn wait(
            self,
            driver: &Driver,
            stream: CUstream,
            address: CUdeviceptr,
            flags: u32,
        ) -> Result<(), DriverError>;

        /// # Safety
        ///
        /// The stream is alive, and a word at `address` until it has written.
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

/// What a stream can wait for and set: `u32` and `u64`.
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
                // SAFETY: stream and word must be there until it has waited ← the caller says so.
                unsafe { call!(driver, $wait(stream, address, self, flags)) }
            }

            unsafe fn write(
                self,
                driver: &Driver,
                stream: cuda_sys::CUstream,
                address: CUdeviceptr,
                flags: u32,
            ) -> Result<(), DriverError> {
                // SAFETY: stream and word must be there until it has written ← the caller says so.
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

/// The operation as C has it: type, address, value and flags lie at the same place for waits and
/// writes.
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

/// A value at an element of a buffer.
struct At<'a, T: DeviceRepr> {
    view: DeviceSlice<'a, T>,
    address: CUdeviceptr,
}

impl<'a, T: StreamWord> At<'a, T> {
    fn new(view: DeviceSlice<'a, T>, index: usize) -> Result<Self> {
        if view.memory.is_managed() {
            // The host may have a slice of it: the borrow is shared.
            return Err(Error::Unsupported {
                what: "managed memory for values that streams wait for",
            });
        }
        let len = view.len();
        let element = view.slice(index..).filter(|rest| !rest.is_empty());
        let address = element.ok_or(Error::OutOfRange { len })?.as_raw();
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

impl Stream {
    /// `cuStreamWaitValue32()`, `cuStreamWaitValue64()`—What is queued on the stream from now on
    /// waits until element `index` of `memory` is so, compared with `value`.
    ///
    /// The wait is ordered behind the writes of the buffer that were queued before, but not with
    /// [`write_value`](Self::write_value): whether that comes before or after, on which stream
    /// ever, it ends the wait. Whatever else writes or frees the buffer waits for the wait.
    ///
    /// If nothing ever sets the value, the stream never goes on; waiting for it, or for the
    /// context, then never ends.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::OtherContext`], `CUDA_ERROR_NOT_SUPPORTED` where the device
    /// cannot, `CUDA_ERROR_INVALID_VALUE` for memory of a pool, which most buffers have, and for
    /// managed memory ([`DeviceBuffer::zeroed_plain`](crate::DeviceBuffer::zeroed_plain) has
    /// neither), or what else the calls answer.
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
        let mut scope = Scope::new(self);
        at.view.memory.tracker.before(&scope, Access::AWAIT)?;
        self.driver().note_blocking();
        self.state().block(self.context(), || {
            // SAFETY: stream and word must be there until it has waited ← the stream is borrowed
            // and runs to its end, and the free of the memory waits for this use.
            unsafe { value.wait(self.driver(), self.as_raw(), at.address, condition.0) }
        })?;
        at.view.memory.tracker.after(&mut scope, Access::AWAIT);
        Ok(())
    }

    /// `cuStreamWriteValue32()`, `cuStreamWriteValue64()`—Sets element `index` of `memory` to
    /// `value` when all that was queued on the stream before is done, and visible to those that see
    /// the value.
    ///
    /// It is ordered with the other uses of the buffer, but not with those that wait for a value:
    /// see [`wait_value`](Self::wait_value). So it takes a shared borrow, as an atomic store does.
    ///
    /// # Errors
    ///
    /// As [`wait_value`](Self::wait_value).
    #[doc(alias = "cuStreamWriteValue32")]
    #[doc(alias = "cuStreamWriteValue64")]
    pub fn write_value<'a, T: StreamWord>(
        &self,
        memory: impl Into<DeviceSlice<'a, T>>,
        index: usize,
        value: T,
    ) -> Result<()> {
        let at = At::new(memory.into(), index)?;
        let mut scope = Scope::new(self);
        at.view.memory.tracker.before(&scope, Access::SIGNAL)?;
        // SAFETY: stream and word must be there until it has written ← the stream is borrowed and
        // runs to its end, and the free of the memory waits for this use.
        unsafe { value.write(self.driver(), self.as_raw(), at.address, WRITE) }?;
        at.view.memory.tracker.after(&mut scope, Access::SIGNAL);
        Ok(())
    }
}

const WRITE: u32 = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT.0;

/// Waits and writes of values that are queued by one call.
#[derive(Default)]
pub struct ValueBatch<'a> {
    ops: Vec<CUstreamBatchMemOpParams>,
    uses: Vec<Word<'a>>,
}

/// A word that an operation uses.
#[derive(Clone, Copy)]
struct Word<'a> {
    memory: &'a Memory,
    access: Access,
    address: CUdeviceptr,
    bytes: usize,
}

impl<'a> ValueBatch<'a> {
    /// The most operations that `cuStreamBatchMemOp` takes.
    pub const MOST: usize = 256;

    /// No operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what [`Stream::wait_value`] does.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`].
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

    /// Adds what [`Stream::write_value`] does.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`].
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

    /// `cuStreamBatchMemOp()`—Queues them on `stream`, in their order. None: calls nothing.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than [`MOST`](Self::MOST), or as [`Stream::wait_value`].
    #[doc(alias = "cuStreamBatchMemOp")]
    pub fn queue(mut self, stream: &Stream) -> Result<()> {
        if self.ops.is_empty() {
            return Ok(());
        }
        let len = Self::MOST;
        let count = u32::try_from(self.ops.len())
            .ok()
            .filter(|count| (*count as usize) <= len)
            .ok_or(Error::OutOfRange { len })?;
        let mut scope = Scope::new(stream);
        for Word { memory, access, .. } in &self.uses {
            memory.tracker.before(&scope, *access)?;
        }
        stream.driver().note_blocking();
        let ops = self.ops.as_mut_ptr();
        stream.state().block(stream.context(), || {
            // SAFETY: there must be `count` operations, stream and words until they are done ← they
            // are in the vector, the stream is borrowed and runs to its end, and the frees of the
            // memory wait for these uses.
            unsafe {
                call!(
                    stream.driver(),
                    cuStreamBatchMemOp_v2(stream.as_raw(), count, ops, 0)
                )
            }
        })?;
        for Word { memory, access, .. } in &self.uses {
            memory.tracker.after(&mut scope, *access);
        }
        Ok(())
    }
}

impl ValueBatch<'_> {
    /// The operations; `each` gets the words that they use.
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

impl<'a, T: DeviceRepr> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}
