//! Stream memory operations, as work.

use std::ffi::c_uint;
use std::sync::Arc;

use cuda_sys::{CUstreamBatchMemOpParams, CUstreamBatchMemOpType};

use crate::driver::arg::Out;
use crate::driver::objects::device::Device;
use crate::driver::objects::space::Spaces;
use crate::driver::objects::stream::unless_lost;
use crate::driver::status::{ILLEGAL_ADDRESS, INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::engine::Work;

/// The maximum number of operations in a batch.
const MOST_OPERATIONS: u32 = 256;

/// `CU_STREAM_WAIT_VALUE_FLUSH`
const FLUSH: u32 = 1 << 30;

/// A stream memory operation.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) enum MemOp {
    Wait {
        word: Word,
        value: u64,
        condition: u32,
    },
    Write {
        word: Word,
        value: u64,
    },
    /// A memory barrier, which has no effect because all accesses are in order here.
    Barrier,
}

/// A word in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Word {
    pub(in crate::driver) addr: u64,
    wide: bool,
}

/// Returns whether the value `found` satisfies the condition with the value `wanted`.
fn holds(found: u64, wanted: u64, condition: u32, wide: bool) -> bool {
    match condition {
        // The comparison is cyclic: the difference must not be negative.
        0 if wide => found.wrapping_sub(wanted) as i64 >= 0,
        0 => (found as u32).wrapping_sub(wanted as u32) as i32 >= 0,
        1 => found == wanted,
        2 => found & wanted != 0,
        _ if wide => !(found | wanted) != 0,
        _ => !(found as u32 | wanted as u32) != 0,
    }
}

impl Word {
    fn check(self, spaces: &Spaces) -> Status {
        let size = if self.wide { 8 } else { 4 };
        let known = spaces.check(self.addr, size)?;
        if known && self.addr.is_multiple_of(size) {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }
}

impl MemOp {
    pub(in crate::driver) fn wait(
        spaces: &Spaces,
        word: (u64, bool),
        value: u64,
        flags: u32,
    ) -> Status<Self> {
        if flags & FLUSH != 0 {
            return Err(NOT_SUPPORTED);
        }
        if flags > 3 {
            return Err(INVALID_VALUE);
        }
        let (addr, wide) = word;
        let word = Word { addr, wide };
        word.check(spaces)?;
        Ok(Self::Wait {
            word,
            value,
            condition: flags,
        })
    }

    pub(in crate::driver) fn write(
        spaces: &Spaces,
        word: (u64, bool),
        value: u64,
        flags: u32,
    ) -> Status<Self> {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let (addr, wide) = word;
        let word = Word { addr, wide };
        word.check(spaces)?;
        Ok(Self::Write { word, value })
    }

    /// Parses an operation of a batch.
    pub(in crate::driver) fn of_params(
        spaces: &Spaces,
        params: &CUstreamBatchMemOpParams,
    ) -> Status<Self> {
        type T = CUstreamBatchMemOpType;
        // SAFETY: the field of the union must be set ← every variant begins with it.
        let kind = unsafe { params.operation };
        let wide =
            kind == T::CU_STREAM_MEM_OP_WAIT_VALUE_64 || kind == T::CU_STREAM_MEM_OP_WRITE_VALUE_64;
        match kind {
            T::CU_STREAM_MEM_OP_WAIT_VALUE_32 | T::CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
                // SAFETY: the field of the union must be set ← the operation says that it is.
                let wait = unsafe { params.waitValue };
                let value = if wide {
                    // SAFETY: the field of the inner union must be set ← the width of the operation
                    // says that it is.
                    unsafe { wait.__bindgen_anon_1.value64 }
                } else {
                    // SAFETY: the field of the inner union must be set ← the width of the operation
                    // says that it is.
                    u64::from(unsafe { wait.__bindgen_anon_1.value })
                };
                Self::wait(spaces, (wait.address, wide), value, wait.flags)
            }
            T::CU_STREAM_MEM_OP_WRITE_VALUE_32 | T::CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
                // SAFETY: the field of the union must be set ← the operation says that it is.
                let write = unsafe { params.writeValue };
                let value = if wide {
                    // SAFETY: the field of the inner union must be set ← the width of the operation
                    // says that it is.
                    unsafe { write.__bindgen_anon_1.value64 }
                } else {
                    // SAFETY: the field of the inner union must be set ← the width of the operation
                    // says that it is.
                    u64::from(unsafe { write.__bindgen_anon_1.value })
                };
                Self::write(spaces, (write.address, wide), value, write.flags)
            }
            T::CU_STREAM_MEM_OP_BARRIER => Ok(Self::Barrier),
            T::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES | T::CU_STREAM_MEM_OP_ATOMIC_REDUCTION => {
                Err(NOT_SUPPORTED)
            }
            _ => Err(INVALID_VALUE),
        }
    }

    pub(in crate::driver) fn word(self) -> Option<Word> {
        match self {
            Self::Wait { word, .. } | Self::Write { word, .. } => Some(word),
            Self::Barrier => None,
        }
    }

    /// Converts the operation to queued work.
    pub(in crate::driver) fn work(self, spaces: &Spaces, device: &Arc<Device>) -> Work {
        let spaces = spaces.clone();
        match self {
            Self::Wait {
                word,
                value,
                condition,
            } => {
                let device = Arc::clone(device);
                Work::Poll(Box::new(move || {
                    // The wait ends if the device is lost or the memory was freed, because its
                    // value can no longer change.
                    device.alive().is_err()
                        || spaces
                            .load(word.addr, word.wide)
                            .is_none_or(|found| holds(found, value, condition, word.wide))
                }))
            }
            Self::Write { word, value } => Work::Device(Box::new(unless_lost(device, move || {
                if spaces.store(word.addr, value, word.wide) {
                    return Ok(());
                }
                Err((
                    ILLEGAL_ADDRESS,
                    format!("write value: address {:#x} is not allocated", word.addr),
                ))
            }))),
            Self::Barrier => Work::Device(Box::new(|| {})),
        }
    }
}

/// Returns the operations of a batch and their C parameters.
pub(in crate::driver) fn batch(
    spaces: &Spaces,
    count: c_uint,
    params: Out<CUstreamBatchMemOpParams>,
    flags: c_uint,
) -> Status<Vec<(MemOp, CUstreamBatchMemOpParams)>> {
    if count == 0 || count > MOST_OPERATIONS || flags != 0 {
        return Err(INVALID_VALUE);
    }
    let read = |index| {
        let params = params.get_at(index)?;
        Ok((MemOp::of_params(spaces, &params)?, params))
    };
    (0..count as usize).map(read).collect()
}
