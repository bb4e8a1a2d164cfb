//! Fills: setting memory to a value.

use std::ffi::{c_uchar, c_uint, c_ushort};

use cuda_sys::{CUdeviceptr, CUstream_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::memset::Fill;
use crate::driver::status::Status;

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

impl Call {
    /// Queues the fill. A `blocking` fill returns immediately too, unless the memory is host
    /// memory or has `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
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
        let wait = blocking && (!spaces.is_device(fill.dst) || self.synchronizes(fill.dst));
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
