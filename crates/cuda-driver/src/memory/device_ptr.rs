//! Typed device addresses, for the fields of structs that are passed to kernels.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, ManagedBuffer};
use crate::types::ArgType;

/// The device address of elements of type `T`: a field of a struct that is passed to a kernel. In
/// CUDA C++ it is a `T *`.
///
/// It is a number with a type. It borrows nothing, and the crate does not order the uses of the
/// memory that it points to: name the buffer with [`Using`](crate::launch::Using) or
/// [`ArgList::uses`](crate::launch::ArgList::uses) in the launch that passes the address.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::DevicePtr;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// /// The kernel's `struct Row { const float *values; float *sum; };`
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Row {
///     values: DevicePtr<f32>,
///     sum: DevicePtr<f32>,
/// }
///
/// let values = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0])?;
/// let row = Row {
///     values: values.slice(1..)?.device_ptr(),
///     sum: DevicePtr::NULL,
/// };
/// assert_eq!(row.values.as_raw(), values.as_raw() + 4);
/// assert!(row.sum.is_null());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUdeviceptr")]
#[repr(transparent)]
pub struct DevicePtr<T> {
    address: CUdeviceptr,
    elements: PhantomData<fn() -> T>,
}

impl<T> DevicePtr<T> {
    /// The null pointer, which is valid as the address of no elements.
    pub const NULL: Self = Self::from_raw(0);

    /// Creates a pointer from an address. Using it in a kernel is as unsafe as the launch of that
    /// kernel.
    #[must_use]
    pub const fn from_raw(address: CUdeviceptr) -> Self {
        Self {
            address,
            elements: PhantomData,
        }
    }

    /// Returns the address.
    #[must_use]
    pub const fn as_raw(self) -> CUdeviceptr {
        self.address
    }

    /// Returns `true` for the null pointer.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.address == 0
    }
}

/// Implements `device_ptr` for a type with the method `as_raw`.
macro_rules! device_ptr {
    ($($ty:ty),*) => {
        $(
            /// The address, for a field of a struct that is passed to a kernel.
            impl<T: DeviceRepr> $ty {
                /// Returns the device address of the first element, with its type.
                #[must_use]
                pub fn device_ptr(&self) -> DevicePtr<T> {
                    DevicePtr::from_raw(self.as_raw())
                }
            }
        )*
    };
}

device_ptr!(
    DeviceBuffer<T>,
    DeviceSlice<'_, T>,
    DeviceSliceMut<'_, T>,
    ManagedBuffer<T>
);

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

// SAFETY: all bits zero must be a valid value ← it is the null pointer.
unsafe impl<T> bytemuck::Zeroable for DevicePtr<T> {}

// SAFETY: any bit pattern must be a valid value, and there must be no padding ← it has the layout
// of an integer, whose value nothing in safe code relies on.
unsafe impl<T: 'static> bytemuck::Pod for DevicePtr<T> {}

#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← a pointer has 64 bits on the device, like `CUdeviceptr`.
unsafe impl<T: 'static> DeviceRepr for DevicePtr<T> {
    const ARG_TYPE: ArgType = ArgType::Address;
}

impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for DevicePtr<T> {}

impl<T> Hash for DevicePtr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.address)
    }
}
