//! The rows of a raw copy.

use std::ptr;

use cuda_sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};

/// A copy of rows between two addresses, for [`Stream::copy_rows_raw`]. The addresses are of device
/// memory or of host memory; the driver finds out which they are.
///
/// It has the fields of `cudaMemcpy2D`. A [`CUDA_MEMCPY2D`] also describes copies from and to CUDA
/// arrays.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::launch::RawRows;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let source = DeviceBuffer::from_host(&stream, &[1_u8, 2, 0, 0, 3, 4, 0, 0])?;
/// let mut target = DeviceBuffer::<u8>::zeroed(&stream, 4)?;
/// // Two rows of two bytes, which are four bytes apart in the source.
/// let rows = RawRows {
///     to: target.as_raw(),
///     to_pitch: 2,
///     from: source.as_raw(),
///     from_pitch: 4,
///     row_bytes: 2,
///     rows: 2,
/// };
/// // SAFETY: the rows are within the buffers, which are declared.
/// unsafe { stream.copy_rows_raw(rows, (&mut target, &source)) }?;
/// assert_eq!(target.to_vec()?, [1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Stream::copy_rows_raw`]: crate::Stream::copy_rows_raw
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawRows {
    /// The address of the first byte of the destination.
    pub to: CUdeviceptr,
    /// The distance in bytes between the starts of consecutive rows of the destination.
    pub to_pitch: usize,
    /// The address of the first byte of the source.
    pub from: CUdeviceptr,
    /// The distance in bytes between the starts of consecutive rows of the source.
    pub from_pitch: usize,
    /// The number of bytes to copy from each row.
    pub row_bytes: usize,
    /// The number of rows.
    pub rows: usize,
}

impl From<RawRows> for CUDA_MEMCPY2D {
    fn from(rows: RawRows) -> Self {
        let unified = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
        Self {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: unified,
            srcHost: ptr::null(),
            srcDevice: rows.from,
            srcArray: ptr::null_mut(),
            srcPitch: rows.from_pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: unified,
            dstHost: ptr::null_mut(),
            dstDevice: rows.to,
            dstArray: ptr::null_mut(),
            dstPitch: rows.to_pitch,
            WidthInBytes: rows.row_bytes,
            Height: rows.rows,
        }
    }
}
