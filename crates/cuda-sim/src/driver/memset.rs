//! Filling memory with a value.

use std::ffi::{c_uchar, c_uint, c_ushort};

use cuda_sys::{CUdeviceptr, CUstream, CUstream_st};

use super::arg::Out;
use super::export::{Call, exports};
use super::status::{ILLEGAL_ADDRESS, INVALID_VALUE, Status};

exports! {
    cuMemsetD8_v2 | cuMemsetD8_v2_ptds => memset_d8(dst: CUdeviceptr, value: c_uchar, n: usize);
    cuMemsetD16_v2 | cuMemsetD16_v2_ptds => memset_d16(
        dst: CUdeviceptr, value: c_ushort, n: usize);
    cuMemsetD32_v2 | cuMemsetD32_v2_ptds => memset_d32(dst: CUdeviceptr, value: c_uint, n: usize);
    cuMemsetD8Async | cuMemsetD8Async_ptsz => memset_d8_async(
        dst: CUdeviceptr, value: c_uchar, n: usize, stream: CUstream);
    cuMemsetD16Async | cuMemsetD16Async_ptsz => memset_d16_async(
        dst: CUdeviceptr, value: c_ushort, n: usize, stream: CUstream);
    cuMemsetD32Async | cuMemsetD32Async_ptsz => memset_d32_async(
        dst: CUdeviceptr, value: c_uint, n: usize, stream: CUstream);
    cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds => memset_d2d8(
        dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize);
    cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds => memset_d2d16(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize);
    cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds => memset_d2d32(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize);
    cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz => memset_d2d8_async(
        dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize,
        stream: CUstream);
    cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz => memset_d2d16_async(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize,
        stream: CUstream);
    cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz => memset_d2d32_async(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize,
        stream: CUstream);
}

/// What is filled: rows of elements.
struct Area {
    dst: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

impl Call {
    /// Queues the filling. `blocking` ones return at once too, unless the memory is the host's.
    fn fill<const N: usize>(
        &self,
        area: Area,
        pattern: [u8; N],
        stream: u64,
        blocking: bool,
    ) -> Status {
        let stream = self.stream(stream)?;
        let Area {
            dst,
            pitch,
            width,
            height,
        } = area;
        if width == 0 || height == 0 {
            return Ok(());
        }
        let row = width.checked_mul(N).ok_or(INVALID_VALUE)?;
        let aligned = dst.is_multiple_of(N as u64) && (height == 1 || pitch.is_multiple_of(N));
        if !aligned || (height > 1 && pitch < row) {
            return Err(INVALID_VALUE);
        }
        let span = pitch
            .checked_mul(height - 1)
            .and_then(|before| before.checked_add(row))
            .ok_or(INVALID_VALUE)?;
        let spaces = self.spaces();
        if !spaces.check(dst, span as u64)? {
            return Err(INVALID_VALUE);
        }
        let wait = blocking && !spaces.is_device(dst);
        let work = move || {
            spaces
                .fill(dst, &pattern, width as u64, height as u64, pitch as u64)
                .map_err(|error| (ILLEGAL_ADDRESS, format!("memset: {error}")))
        };
        if wait {
            return self.run(&stream, work);
        }
        self.enqueue(&stream, &[], work);
        Ok(())
    }
}

/// The functions for one width of element.
macro_rules! memset {
    ($ty:ty, $one:ident, $one_async:ident, $two:ident, $two_async:ident) => {
        impl Call {
            fn $one(&self, dst: CUdeviceptr, value: $ty, n: usize) -> Status {
                let area = Area {
                    dst,
                    pitch: 0,
                    width: n,
                    height: 1,
                };
                self.fill(area, value.to_le_bytes(), 0, true)
            }

            fn $one_async(
                &self,
                dst: CUdeviceptr,
                value: $ty,
                n: usize,
                stream: Out<CUstream_st>,
            ) -> Status {
                let area = Area {
                    dst,
                    pitch: 0,
                    width: n,
                    height: 1,
                };
                self.fill(area, value.to_le_bytes(), stream.handle(), false)
            }

            fn $two(
                &self,
                dst: CUdeviceptr,
                pitch: usize,
                value: $ty,
                width: usize,
                height: usize,
            ) -> Status {
                let area = Area {
                    dst,
                    pitch,
                    width,
                    height,
                };
                self.fill(area, value.to_le_bytes(), 0, true)
            }

            fn $two_async(
                &self,
                dst: CUdeviceptr,
                pitch: usize,
                value: $ty,
                width: usize,
                height: usize,
                stream: Out<CUstream_st>,
            ) -> Status {
                let area = Area {
                    dst,
                    pitch,
                    width,
                    height,
                };
                self.fill(area, value.to_le_bytes(), stream.handle(), false)
            }
        }
    };
}

memset!(
    c_uchar,
    memset_d8,
    memset_d8_async,
    memset_d2d8,
    memset_d2d8_async
);
memset!(
    c_ushort,
    memset_d16,
    memset_d16_async,
    memset_d2d16,
    memset_d2d16_async
);
memset!(
    c_uint,
    memset_d32,
    memset_d32_async,
    memset_d2d32,
    memset_d2d32_async
);
