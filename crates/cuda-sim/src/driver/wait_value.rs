//! Streams that wait for a value in memory, or write one.

use std::ffi::c_uint;

use cuda_sys::{CUdeviceptr, CUstream, CUstream_st, cuuint32_t, cuuint64_t};

use super::arg::Out;
use super::export::{Call, exports};
use super::status::{ILLEGAL_ADDRESS, INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::engine::Work;

exports! {
    cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz => stream_wait_value_32(
        stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint);
    cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz => stream_wait_value_64(
        stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint);
    cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz => stream_write_value_32(
        stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint);
    cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz => stream_write_value_64(
        stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint);
}

/// `CU_STREAM_WAIT_VALUE_FLUSH`
const FLUSH: u32 = 1 << 30;

/// A word in memory.
#[derive(Clone, Copy)]
struct Word {
    addr: u64,
    wide: bool,
}

/// Whether the value found is what is waited for.
fn holds(found: u64, wanted: u64, condition: u32, wide: bool) -> bool {
    match condition {
        // Cyclic: the difference is not negative.
        0 if wide => found.wrapping_sub(wanted) as i64 >= 0,
        0 => (found as u32).wrapping_sub(wanted as u32) as i32 >= 0,
        1 => found == wanted,
        2 => found & wanted != 0,
        _ if wide => !(found | wanted) != 0,
        _ => !(found as u32 | wanted as u32) != 0,
    }
}

impl Call {
    fn check_word(&self, word: Word) -> Status {
        let size = if word.wide { 8 } else { 4 };
        let known = self.spaces().check(word.addr, size)?;
        if known && word.addr.is_multiple_of(size) {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }

    fn wait_value(&self, stream: u64, word: Word, value: u64, flags: u32) -> Status {
        let stream = self.stream(stream)?;
        if flags & FLUSH != 0 {
            return Err(NOT_SUPPORTED);
        }
        if flags > 3 {
            return Err(INVALID_VALUE);
        }
        self.check_word(word)?;
        let spaces = self.spaces();
        let device = std::sync::Arc::clone(&stream.context.device);
        let condition = move || {
            // A lost device waits for nothing; memory that is gone will not change.
            device.alive().is_err()
                || spaces
                    .load(word.addr, word.wide)
                    .is_none_or(|found| holds(found, value, flags, word.wide))
        };
        self.engine
            .submit(stream.queue, &[], Work::Poll(Box::new(condition)));
        Ok(())
    }

    fn write_value(&self, stream: u64, word: Word, value: u64, flags: u32) -> Status {
        let stream = self.stream(stream)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        self.check_word(word)?;
        let spaces = self.spaces();
        self.enqueue(&stream, &[], move || {
            if spaces.store(word.addr, value, word.wide) {
                return Ok(());
            }
            Err((
                ILLEGAL_ADDRESS,
                format!("write value: {:#x} is not allocated", word.addr),
            ))
        });
        Ok(())
    }

    fn stream_wait_value_32(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> Status {
        self.wait_value(
            stream.handle(),
            Word { addr, wide: false },
            u64::from(value),
            flags,
        )
    }

    fn stream_wait_value_64(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> Status {
        self.wait_value(stream.handle(), Word { addr, wide: true }, value, flags)
    }

    fn stream_write_value_32(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> Status {
        self.write_value(
            stream.handle(),
            Word { addr, wide: false },
            u64::from(value),
            flags,
        )
    }

    fn stream_write_value_64(
        &self,
        stream: Out<CUstream_st>,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> Status {
        self.write_value(stream.handle(), Word { addr, wide: true }, value, flags)
    }
}
