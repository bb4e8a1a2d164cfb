//! Fills: setting memory to a value.

use std::ffi::{c_uchar, c_uint, c_ushort};

use cuda_sys::{CUdeviceptr, CUstream_st};

use super::arg::Out;
use super::export::{Call, exports};
use super::graph::Payload;
use super::space::Spaces;
use super::status::{INVALID_VALUE, Status};
use super::stream::Lost;

exports! {
    cuMemsetD8_v2 | cuMemsetD8_v2_ptds => memset_d8;
    cuMemsetD16_v2 | cuMemsetD16_v2_ptds => memset_d16;
    cuMemsetD32_v2 | cuMemsetD32_v2_ptds => memset_d32;
    cuMemsetD8Async | cuMemsetD8Async_ptsz => memset_d8_async;
    cuMemsetD16Async | cuMemsetD16Async_ptsz => memset_d16_async;
    cuMemsetD32Async | cuMemsetD32Async_ptsz => memset_d32_async;
    cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds => memset_d2d8;
    cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds => memset_d2d16;
    cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds => memset_d2d32;
    cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz => memset_d2d8_async;
    cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz => memset_d2d16_async;
    cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz => memset_d2d32_async;
}

/// A fill: the rows of elements that are set, and the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) dst: u64,
    /// The distance between rows in bytes.
    pub(super) pitch: usize,
    pub(super) value: u32,
    /// The size of an element in bytes: 1, 2 or 4.
    pub(super) element: usize,
    /// The number of elements in a row.
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Fill {
    pub(super) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    /// Fails with `INVALID_VALUE` for a fill that the driver rejects. The fill must not be empty.
    pub(super) fn check(&self, spaces: &Spaces) -> Status {
        let Self {
            dst, pitch, height, ..
        } = *self;
        let element = self.element;
        let row = self.width.checked_mul(element).ok_or(INVALID_VALUE)?;
        let aligned =
            dst.is_multiple_of(element as u64) && (height == 1 || pitch.is_multiple_of(element));
        if !aligned || (height > 1 && pitch < row) {
            return Err(INVALID_VALUE);
        }
        let span = pitch
            .checked_mul(height - 1)
            .and_then(|before| before.checked_add(row))
            .ok_or(INVALID_VALUE)?;
        if spaces.check(dst, span as u64)? {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }

    pub(super) fn run(&self, spaces: &Spaces) -> Result<(), Lost> {
        let pattern = self.value.to_le_bytes();
        let (width, height) = (self.width as u64, self.height as u64);
        spaces
            .fill(
                self.dst,
                &pattern[..self.element],
                width,
                height,
                self.pitch as u64,
            )
            .map_err(|error| spaces.fault("memset", &error))
    }
}

impl Call {
    /// Queues the fill. A `blocking` fill returns immediately too, unless the memory is host
    /// memory.
    fn fill(&self, fill: Fill, stream: u64, blocking: bool) -> Status {
        let stream = self.stream(stream)?;
        if fill.is_empty() {
            return Ok(());
        }
        let spaces = self.spaces();
        fill.check(&spaces)?;
        if blocking {
            self.no_capture_on(&stream)?;
        } else if self.captured(&stream, || Ok(Payload::fill(fill, &stream.context)))? {
            return Ok(());
        }
        let wait = blocking && !spaces.is_device(fill.dst);
        let work = move || fill.run(&spaces);
        if wait {
            return self.run(&stream, work);
        }
        self.enqueue(&stream, &[], work);
        Ok(())
    }
}

/// Defines the functions for one element width.
macro_rules! memset {
    ($ty:ty, $one:ident, $one_async:ident, $two:ident, $two_async:ident) => {
        impl Call {
            fn $one(&self, dst: CUdeviceptr, value: $ty, n: usize) -> Status {
                let fill = Fill {
                    value: u32::from(value),
                    element: size_of::<$ty>(),
                    dst,
                    pitch: 0,
                    width: n,
                    height: 1,
                };
                self.fill(fill, 0, true)
            }

            fn $one_async(
                &self,
                dst: CUdeviceptr,
                value: $ty,
                n: usize,
                stream: Out<CUstream_st>,
            ) -> Status {
                let fill = Fill {
                    value: u32::from(value),
                    element: size_of::<$ty>(),
                    dst,
                    pitch: 0,
                    width: n,
                    height: 1,
                };
                self.fill(fill, stream.handle(), false)
            }

            fn $two(
                &self,
                dst: CUdeviceptr,
                pitch: usize,
                value: $ty,
                width: usize,
                height: usize,
            ) -> Status {
                let fill = Fill {
                    value: u32::from(value),
                    element: size_of::<$ty>(),
                    dst,
                    pitch,
                    width,
                    height,
                };
                self.fill(fill, 0, true)
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
                let fill = Fill {
                    value: u32::from(value),
                    element: size_of::<$ty>(),
                    dst,
                    pitch,
                    width,
                    height,
                };
                self.fill(fill, stream.handle(), false)
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
