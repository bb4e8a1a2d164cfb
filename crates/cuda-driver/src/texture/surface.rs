//! Surfaces, through which kernels read and write the elements of an array.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::{CUdeviceptr, CUsurfObject};

use crate::launch::ObjectArg;
use crate::memory::Memory;

/// A surface that a kernel reads: an argument for a parameter of the type `cudaSurfaceObject_t`.
///
/// A surface reads elements as they are, at integer positions whose first coordinate is in bytes.
#[derive(Clone, Copy)]
#[doc(alias = "CUsurfObject")]
#[doc(alias = "cudaSurfaceObject_t")]
pub struct Surface<'a> {
    pub(super) handle: CUsurfObject,
    pub(super) memory: &'a Memory,
    /// The number of the array, for accesses.
    pub(super) number: CUdeviceptr,
    pub(super) object: &'a ObjectArg,
}

/// A surface that a kernel reads and writes: an argument for a parameter of the type
/// `cudaSurfaceObject_t`.
///
/// Launches with it are ordered with all other uses of the array, as writes. A launch that also
/// receives a texture of the same array fails.
///
/// ```
/// use cuda_driver::prelude::*;
/// use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let update = Ptx::new(std::fs::read("tests/it/kernels/texture.ptx")?)?;
/// # let update = Module::load(&context, &update)?.function("update")?;
/// let (shape, flags) = (ArrayShape::two_d(2, 2), ArrayFlags::SURFACE);
/// let mut image = Array::from_host_with(&stream, &shape, flags, &[1_u32, 2, 3, 4])?;
/// let config = LaunchConfig::for_num_elems(4)?;
/// // SAFETY: the kernel computes `image[x, y] = 2 * image[x, y] + 1` for 4 words in rows of 2.
/// unsafe { stream.launch(&update, config, (image.surface_mut()?, 2_u32, 4_u32, 1_u32)) }?;
/// assert_eq!(image.to_vec()?, [3, 5, 7, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUsurfObject")]
#[doc(alias = "cudaSurfaceObject_t")]
pub struct SurfaceMut<'a> {
    pub(super) handle: CUsurfObject,
    pub(super) memory: &'a Memory,
    /// The number of the array, for accesses.
    pub(super) number: CUdeviceptr,
    pub(super) object: &'a ObjectArg,
    pub(super) borrow: PhantomData<&'a mut ()>,
}

impl Surface<'_> {
    /// Returns the raw handle. Uses of it are not tracked.
    #[must_use]
    pub fn as_raw(&self) -> CUsurfObject {
        self.handle
    }
}

impl SurfaceMut<'_> {
    /// Returns the raw handle. Uses of it are not tracked.
    #[must_use]
    pub fn as_raw(&self) -> CUsurfObject {
        self.handle
    }
}

impl fmt::Debug for Surface<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surface({:#x})", self.handle)
    }
}

impl fmt::Debug for SurfaceMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SurfaceMut({:#x})", self.handle)
    }
}
