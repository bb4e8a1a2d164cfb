//! Tensor maps (`CUtensorMap`): descriptors of tensors for the tensor memory accelerator (TMA), the
//! unit that copies whole tiles.
//!
//! A map in C is a struct that contains an address. It owns nothing, and nothing relates it to the
//! memory. Here a map can only be an argument of a launch together with the memory that it was made
//! for, so the launch is ordered with other uses of that memory.

mod check;
mod layout;

pub use layout::{
    Im2col, Im2colWide, TensorDataType, TensorFill, TensorInterleave, TensorL2Promotion,
    TensorLayout, TensorSwizzle, WidePixels,
};

use std::ffi::c_void;
use std::fmt;

use cuda_sys::{CUdeviceptr, CUtensorMap};

use crate::context::Context;
use crate::driver::call;
use crate::error::{Error, Result, TensorMapError};
use crate::launch::{Accepts, KernelArg, KernelParam, Tracked};
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut};

/// A tensor map, with which a kernel copies tiles of a tensor between device memory and shared
/// memory with one instruction. In the kernel it is a parameter `const __grid_constant__
/// CUtensorMap`. Requires compute capability 9.0 or later.
///
/// A map is made for memory, and a launch takes it together with that memory: see
/// [`reads`](Self::reads) and [`writes`](Self::writes). The map itself borrows nothing: it is 128
/// bytes with an address that the host never dereferences.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::tensor_map::{TensorDataType, TensorLayout, TensorMap};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().compute_capability(9, 0).build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // A matrix with 1000 rows of 512 floats, and tiles with 8 rows of 32 floats.
/// let input = DeviceBuffer::<f32>::zeroed(&stream, 512 * 1000)?;
/// let layout = TensorLayout::new(TensorDataType::F32, &[512, 1000]);
/// let tiles = TensorMap::tiled(&input.as_slice(), &layout, &[32, 8])?;
///
/// // An argument of a kernel that reads tiles of `input`. Other memory is refused.
/// assert!(tiles.reads(input.as_slice()).is_ok());
/// let other = DeviceBuffer::<f32>::zeroed(&stream, 512 * 1000)?;
/// assert!(tiles.reads(other.as_slice()).is_err());
/// // A tile has at most 256 elements in each dimension.
/// assert!(TensorMap::tiled(&input.as_slice(), &layout, &[32, 300]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct TensorMap {
    raw: Aligned,
    address: CUdeviceptr,
    bytes: u64,
    /// The required alignment of the address.
    align: u64,
}

/// A map with the alignment that the driver requires, whichever CUDA header the bindings come from:
/// CUDA 12 declares 64, later headers 128.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Aligned(CUtensorMap);

const _: () = assert!(size_of::<CUtensorMap>() == 128 && size_of::<Aligned>() == 128);
const _: () = assert!(align_of::<CUtensorMap>() >= 64 && align_of::<Aligned>() == 128);

/// A [`TensorMap`] with its memory, as a kernel argument.
#[derive(Debug)]
pub struct TensorMapArg<'a> {
    raw: [u64; 16],
    /// The whole memory, with the access that was borrowed.
    memory: DeviceSlice<'a, u8>,
}

/// A [`TensorMap`] without its memory, as a kernel argument: see [`TensorMap::untracked`].
#[derive(Clone, Copy, Debug)]
pub struct RawTensorMap([u64; 16]);

impl TensorMap {
    /// `cuTensorMapEncodeTiled(layout, tile)`—Creates a map of a tensor in `memory`, for tiles with
    /// `tile` elements along each dimension.
    ///
    /// # Errors
    ///
    /// [`Error::TensorMap`], which names the limit; [`Error::Unsupported`] below compute capability
    /// 9.0.
    #[doc(alias = "cuTensorMapEncodeTiled")]
    pub fn tiled<T: DeviceRepr>(
        memory: &DeviceSlice<'_, T>,
        layout: &TensorLayout,
        tile: &[u32],
    ) -> Result<Self> {
        let (context, address) = (memory.context(), memory.as_raw());
        Self::tiled_raw(context, address, memory.bytes(), layout, tile)
    }

    /// `cuTensorMapEncodeTiled(layout, tile)`—Creates the map of [`tiled`](Self::tiled) for the
    /// `bytes` bytes at `address`. The driver does not access them. With `None` the tensor is not
    /// compared with the size of the memory, and the map can only be passed as
    /// [`untracked`](Self::untracked).
    ///
    /// # Errors
    ///
    /// Fails as [`tiled`](Self::tiled) does.
    #[doc(alias = "cuTensorMapEncodeTiled")]
    pub fn tiled_raw(
        context: &Context,
        address: CUdeviceptr,
        bytes: impl Into<Option<usize>>,
        layout: &TensorLayout,
        tile: &[u32],
    ) -> Result<Self> {
        let mut this = Self::of(context, (address, bytes.into()), layout, 9)?;
        layout.check_tiled(this.address, this.bytes, tile)?;
        let _current = context.enter()?;
        // SAFETY: `dims`, `tile` and `steps` must have one entry per dimension, `strides` one less,
        // and the map must be writable and aligned ← `check_tiled` has checked the lengths, and the
        // map is a local of 128 bytes with an alignment of 128. The driver stores the address and
        // does not access it.
        unsafe {
            call!(
                context.driver(),
                cuTensorMapEncodeTiled(
                    &raw mut this.raw.0,
                    layout.data_type.raw(),
                    rank(layout),
                    pointer(this.address),
                    layout.dims.as_ptr(),
                    layout.strides.as_ptr(),
                    tile.as_ptr(),
                    layout.steps.as_ptr(),
                    layout.interleave.raw(),
                    layout.swizzle.raw(),
                    layout.l2_promotion.raw(),
                    layout.fill.raw(),
                )
            )
        }?;
        Ok(this)
    }

    /// `cuTensorMapEncodeIm2col(layout, im2col)`—Creates a map of images in `memory`, for the
    /// columns of a convolution.
    ///
    /// Copies to the images write the channels of a pixel in pieces of 16 bytes. If the last
    /// channel is not at the end of a piece, they also write the bytes after it, with whatever the
    /// kernel has there. `memory` therefore has to have room for whole pieces.
    ///
    /// # Errors
    ///
    /// Fails as [`tiled`](Self::tiled) does.
    #[doc(alias = "cuTensorMapEncodeIm2col")]
    pub fn im2col<T: DeviceRepr>(
        memory: &DeviceSlice<'_, T>,
        layout: &TensorLayout,
        im2col: &Im2col<'_>,
    ) -> Result<Self> {
        let (context, address) = (memory.context(), memory.as_raw());
        Self::im2col_raw(context, address, memory.bytes(), layout, im2col)
    }

    /// `cuTensorMapEncodeIm2col(layout, im2col)`—Creates the map of [`im2col`](Self::im2col) for
    /// the `bytes` bytes at `address`. The driver does not access them. `bytes` may be `None`, as
    /// for [`tiled_raw`](Self::tiled_raw).
    ///
    /// # Errors
    ///
    /// Fails as [`im2col`](Self::im2col) does.
    #[doc(alias = "cuTensorMapEncodeIm2col")]
    pub fn im2col_raw(
        context: &Context,
        address: CUdeviceptr,
        bytes: impl Into<Option<usize>>,
        layout: &TensorLayout,
        im2col: &Im2col<'_>,
    ) -> Result<Self> {
        let mut this = Self::of(context, (address, bytes.into()), layout, 9)?;
        layout.check_im2col(this.address, this.bytes, im2col)?;
        let _current = context.enter()?;
        // SAFETY: as in `tiled`; in addition there must be two offsets less than dimensions for
        // each corner ← `check_im2col` has checked it.
        unsafe {
            call!(
                context.driver(),
                cuTensorMapEncodeIm2col(
                    &raw mut this.raw.0,
                    layout.data_type.raw(),
                    rank(layout),
                    pointer(this.address),
                    layout.dims.as_ptr(),
                    layout.strides.as_ptr(),
                    im2col.lower_corner.as_ptr(),
                    im2col.upper_corner.as_ptr(),
                    im2col.channels_per_pixel,
                    im2col.pixels_per_column,
                    layout.steps.as_ptr(),
                    layout.interleave.raw(),
                    layout.swizzle.raw(),
                    layout.l2_promotion.raw(),
                    layout.fill.raw(),
                )
            )
        }?;
        Ok(this)
    }

    /// `cuTensorMapEncodeIm2colWide(layout, wide)`—Creates a map of images in `memory`, for columns
    /// along the width only. Requires compute capability 10.0 and CUDA 12.8 or later.
    ///
    /// # Errors
    ///
    /// Fails as [`tiled`](Self::tiled) does, with compute capability 10.0 instead of 9.0.
    #[doc(alias = "cuTensorMapEncodeIm2colWide")]
    pub fn im2col_wide<T: DeviceRepr>(
        memory: &DeviceSlice<'_, T>,
        layout: &TensorLayout,
        wide: &Im2colWide,
    ) -> Result<Self> {
        let (context, address) = (memory.context(), memory.as_raw());
        Self::im2col_wide_raw(context, address, memory.bytes(), layout, wide)
    }

    /// `cuTensorMapEncodeIm2colWide(layout, wide)`—Creates the map of
    /// [`im2col_wide`](Self::im2col_wide) for the `bytes` bytes at `address`. The driver does not
    /// access them. `bytes` may be `None`, as for [`tiled_raw`](Self::tiled_raw).
    ///
    /// # Errors
    ///
    /// Fails as [`im2col_wide`](Self::im2col_wide) does.
    #[doc(alias = "cuTensorMapEncodeIm2colWide")]
    pub fn im2col_wide_raw(
        context: &Context,
        address: CUdeviceptr,
        bytes: impl Into<Option<usize>>,
        layout: &TensorLayout,
        wide: &Im2colWide,
    ) -> Result<Self> {
        let mut this = Self::of(context, (address, bytes.into()), layout, 10)?;
        layout.check_im2col_wide(this.address, this.bytes, wide)?;
        let (pixels, mode) = wide.pixels.raw();
        let _current = context.enter()?;
        // SAFETY: as in `tiled`; `check_im2col_wide` has checked the lengths.
        unsafe {
            call!(
                context.driver(),
                cuTensorMapEncodeIm2colWide(
                    &raw mut this.raw.0,
                    layout.data_type.raw(),
                    rank(layout),
                    pointer(this.address),
                    layout.dims.as_ptr(),
                    layout.strides.as_ptr(),
                    wide.lower_corner,
                    wide.upper_corner,
                    wide.channels_per_pixel,
                    pixels,
                    layout.steps.as_ptr(),
                    layout.interleave.raw(),
                    mode,
                    layout.swizzle.raw(),
                    layout.l2_promotion.raw(),
                    layout.fill.raw(),
                )
            )
        }?;
        Ok(this)
    }

    /// `cuTensorMapReplaceAddress(memory)`—Changes the map to the same tensor in other memory,
    /// which needs at least as many bytes.
    ///
    /// # Errors
    ///
    /// [`Error::TensorMap`] if the memory is too short or not aligned. The map is unchanged after
    /// an error.
    #[doc(alias = "cuTensorMapReplaceAddress")]
    pub fn replace_address<T: DeviceRepr>(&mut self, memory: &DeviceSlice<'_, T>) -> Result<()> {
        let (given, given_bytes) = (memory.as_raw(), memory.bytes() as u64);
        if given_bytes < self.bytes {
            return Err(self.other_memory(given, given_bytes));
        }
        if !given.is_multiple_of(self.align) {
            return Err(Error::from(TensorMapError::NotMultiple {
                what: "address",
                dimension: None,
                given,
                of: self.align,
            }));
        }
        let context = memory.memory.owning_stream().context();
        let mut raw = self.raw;
        let _current = context.enter()?;
        // SAFETY: the pointer must be to a map, writable and aligned ← `raw` is a copy of a map
        // that the driver has encoded.
        unsafe {
            call!(
                context.driver(),
                cuTensorMapReplaceAddress(&raw mut raw.0, pointer(given))
            )
        }?;
        self.raw = raw;
        self.address = given;
        Ok(())
    }

    /// Returns the map as an argument of a kernel that only reads the tensor. `memory` is the
    /// memory that the map was made for.
    ///
    /// # Errors
    ///
    /// [`Error::TensorMap`] if `memory` is other memory.
    pub fn reads<'a, T: DeviceRepr>(&self, memory: DeviceSlice<'a, T>) -> Result<TensorMapArg<'a>> {
        let mut bytes = DeviceSlice::new(memory.memory, memory.as_raw(), memory.bytes());
        bytes.access = memory.access;
        self.with(bytes)
    }

    /// Returns the map as an argument of a kernel that writes the tensor. `memory` is the memory
    /// that the map was made for.
    ///
    /// # Errors
    ///
    /// [`Error::TensorMap`] if `memory` is other memory.
    pub fn writes<'a, T: DeviceRepr>(
        &self,
        memory: DeviceSliceMut<'a, T>,
    ) -> Result<TensorMapArg<'a>> {
        let mut bytes = DeviceSlice::new(memory.memory, memory.as_raw(), memory.bytes());
        // The shared view represents the exclusive borrow that was moved into this call, and is
        // never handed out.
        bytes.access = memory.access;
        self.with(bytes)
    }

    /// Returns the map as an argument without its memory, as a `u64` is an address without its
    /// memory. A launch does not order the uses of the tensor: declare its memory with
    /// [`ArgList::uses`](crate::launch::ArgList::uses) or [`Using`](crate::launch::Using).
    #[must_use]
    pub fn untracked(&self) -> RawTensorMap {
        RawTensorMap(self.raw.0.opaque)
    }

    /// The raw map, for calls that this crate does not wrap.
    #[must_use]
    pub fn as_raw(&self) -> &CUtensorMap {
        &self.raw.0
    }

    fn with<'a>(&self, memory: DeviceSlice<'a, u8>) -> Result<TensorMapArg<'a>> {
        let (given, given_bytes) = (memory.as_raw(), memory.bytes() as u64);
        if given != self.address || given_bytes < self.bytes {
            return Err(self.other_memory(given, given_bytes));
        }
        let raw = self.raw.0.opaque;
        Ok(TensorMapArg { raw, memory })
    }

    fn other_memory(&self, given: CUdeviceptr, given_bytes: u64) -> Error {
        Error::from(TensorMapError::OtherMemory {
            map: self.address,
            map_bytes: self.bytes,
            given,
            given_bytes,
        })
    }

    /// Creates a map that is not encoded yet.
    fn of(
        context: &Context,
        (address, bytes): (CUdeviceptr, Option<usize>),
        layout: &TensorLayout,
        major: u32,
    ) -> Result<Self> {
        if context.device().compute_capability()?.major < major {
            return Err(Error::Unsupported {
                what: if major == 9 {
                    "a tensor map on a device below compute capability 9.0; use ordinary copies"
                } else {
                    "a tensor map of wide columns on a device below compute capability 10.0; use \
                     ordinary columns"
                },
            });
        }
        Ok(Self {
            raw: Aligned(CUtensorMap { opaque: [0; 16] }),
            address,
            bytes: bytes.map_or(u64::MAX, |bytes| bytes as u64),
            align: layout.aligned_to(),
        })
    }
}

/// The rank in C's type. The checks keep it small.
fn rank(layout: &TensorLayout) -> u32 {
    u32::try_from(layout.dims.len()).unwrap_or(u32::MAX)
}

fn pointer(address: CUdeviceptr) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

// SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the kernel takes
// the 128 bytes of the map, which point into `memory`, and `tracked` returns that memory, borrowed
// for 'a.
unsafe impl KernelArg for TensorMapArg<'_> {
    type Value = [u64; 16];

    fn value(&self) -> Self::Value {
        self.raw
    }

    fn tracked(&self) -> Option<Tracked<'_>> {
        self.memory.tracked()
    }
}

// SAFETY: `Value` must be what the kernel expects ← the kernel takes the 128 bytes of the map. The
// address in them is ordered by the caller of the launch, like an address that is passed as a
// `u64`.
unsafe impl KernelArg for RawTensorMap {
    type Value = [u64; 16];

    fn value(&self) -> Self::Value {
        self.0
    }
}

// SAFETY: `SIZE` must be the size of the parameter ← it is the size of the map.
unsafe impl KernelParam for TensorMap {
    const SIZE: usize = size_of::<CUtensorMap>();
}

// SAFETY: the sizes must be equal ← the value of the argument has the size of the map.
unsafe impl Accepts<TensorMapArg<'_>> for TensorMap {}

// SAFETY: as above.
unsafe impl Accepts<RawTensorMap> for TensorMap {}

impl fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorMap({:#x}, {})", self.address, self.bytes)
    }
}
