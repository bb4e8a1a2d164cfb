//! Slices as kernels compiled from Rust take them. C has no such type.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::CUdeviceptr;

use super::args::KernelArg;
use super::tracked::Tracked;
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory};
use crate::tracking::Access;

/// An address and a 64-bit length: the argument for a slice of a kernel that was compiled from
/// Rust.
///
/// As one argument it is a struct of 16 bytes, which is how rustc passes `&[T]` to a `ptx-kernel`
/// function. For compilers that pass two parameters,
/// [`ArgList::push_slice`](super::ArgList::push_slice) appends both, and in a tuple one writes
/// `(&buffer, buffer.len() as u64)`.
///
/// ```
/// use cuda_driver::prelude::*;
///
/// # let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let image = Ptx::new(std::fs::read("tests/it/kernels/rust_slices.ptx")?)?;
/// # let double = Module::load(&context, &image)?.function("double")?;
/// // `unsafe extern "ptx-kernel" fn double(from: &[u32], to: &mut [u32])`
/// let from = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let mut to = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// let args = (from.as_slice().with_len(), to.as_mut_slice().with_len());
/// // SAFETY: the kernel reads the elements of `from`, and writes those of `to`.
/// unsafe { stream.launch(&double, LaunchConfig::for_num_elems(3)?, args) }?;
/// assert_eq!(to.to_vec()?, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SliceArg<'a, T> {
    memory: &'a Memory,
    address: CUdeviceptr,
    len: usize,
    access: Access,
    /// Not `Clone`: the access may be a write.
    elements: PhantomData<&'a mut [T]>,
}

impl<T: DeviceRepr> SliceArg<'_, T> {
    /// Returns the device address of the first element.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the slice has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Arguments of kernels compiled from Rust.
impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Returns an argument with the address and the 64-bit length, for a kernel that takes a
    /// `&[T]`. See [`SliceArg`].
    #[must_use]
    pub fn with_len(self) -> SliceArg<'a, T> {
        SliceArg {
            memory: self.memory,
            address: self.as_raw(),
            len: self.len(),
            access: self.access,
            elements: PhantomData,
        }
    }
}

/// Arguments of kernels compiled from Rust.
impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Returns an argument with the address and the 64-bit length, for a kernel that takes a
    /// `&mut [T]`. See [`SliceArg`].
    #[must_use]
    pub fn with_len(self) -> SliceArg<'a, T> {
        SliceArg {
            memory: self.memory,
            address: self.as_raw(),
            len: self.len(),
            access: self.access,
            elements: PhantomData,
        }
    }
}

// SAFETY: `Value` must be what the kernel expects and `tracked` must cover it ← the kernel takes
// the address and the length; `tracked` returns the memory of these elements, borrowed for 'a.
unsafe impl<T: DeviceRepr> KernelArg for SliceArg<'_, T> {
    type Value = [u64; 2];

    #[inline]
    fn value(&self) -> [u64; 2] {
        [self.address, self.len as u64]
    }

    #[inline]
    fn tracked(&self) -> Option<Tracked<'_>> {
        Some(Tracked {
            memory: Some(self.memory),
            access: self.access,
            address: self.address,
            // This cannot overflow: the elements lie in one allocation.
            bytes: self.len * size_of::<T>(),
            graph: 0,
            argument: 0,
            peer: None,
            kept: None,
            object: None,
        })
    }
}

impl<T> fmt::Debug for SliceArg<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SliceArg({:#x}, {} x {})",
            self.address,
            self.len,
            size_of::<T>()
        )
    }
}
