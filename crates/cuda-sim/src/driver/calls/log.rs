//! The error log of the driver (`cuLogs*`): one line for each call that failed.

use std::ffi::c_char;

use cuda_sys::CUlogIterator;

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuLogsCurrent => logs_current;
    cuLogsDumpToMemory => logs_dump_to_memory;
}

impl Call {
    fn logs_current(&self, iterator: Out<CUlogIterator>, flags: u32) -> Status {
        no_flags(flags)?;
        iterator.set(self.log.end())
    }

    /// `cuLogsDumpToMemory()`—Writes the last lines that fit, each with a line break, and a NUL.
    fn logs_dump_to_memory(
        &self,
        iterator: Out<CUlogIterator>,
        buffer: Out<c_char>,
        size: Out<usize>,
        flags: u32,
    ) -> Status {
        no_flags(flags)?;
        let room = size.get()?;
        buffer.required()?;
        let since = if iterator.is_null() {
            0
        } else {
            iterator.get()?
        };
        let (lines, end) = self.log.since(since);
        let mut left = room.checked_sub(1).ok_or(INVALID_VALUE)?;
        let fits = |line: &&String| {
            let fits = line.len() < left;
            left = left.saturating_sub(line.len() + 1);
            fits
        };
        let mut last: Vec<&String> = lines.iter().rev().take_while(fits).collect();
        last.reverse();
        let mut written = 0;
        for line in last {
            for byte in line.bytes().chain([b'\n']) {
                buffer.set_at(written, byte.cast_signed() as c_char);
                written += 1;
            }
        }
        buffer.set_at(written, 0);
        size.set(written + 1)?;
        iterator.set_if(end);
        Ok(())
    }
}

fn no_flags(flags: u32) -> Status {
    match flags {
        0 => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}
