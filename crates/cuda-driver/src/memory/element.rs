//! Types of other crates in device memory.

use bytemuck::{Pod, TransparentWrapper, Zeroable};

use super::DeviceRepr;

/// A value of a type of another crate, which implements [`bytemuck::Pod`] but not [`DeviceRepr`].
/// The wrapper implements `DeviceRepr`, so it can be an element of a buffer and an argument of a
/// kernel.
///
/// Slices are converted without a copy, by the methods of [`bytemuck::TransparentWrapper`].
///
/// ```
/// use bytemuck::TransparentWrapper;
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::Element;
/// # /// A type of another crate.
/// # #[derive(Clone, Copy, Debug, PartialEq)]
/// # #[repr(C)]
/// # struct Complex { re: f32, im: f32 }
/// # // SAFETY: all bits zero are a valid value of each field.
/// # unsafe impl bytemuck::Zeroable for Complex {}
/// # // SAFETY: all bit patterns are valid, and there is no padding.
/// # unsafe impl bytemuck::Pod for Complex {}
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // `Complex` belongs to another crate.
/// let numbers = [Complex { re: 1.0, im: 2.0 }, Complex { re: 3.0, im: 4.0 }];
/// let buffer = DeviceBuffer::from_host(&stream, Element::wrap_slice(&numbers))?;
/// let back: Vec<Element<Complex>> = buffer.to_vec()?;
/// assert_eq!(Element::peel_slice(&back), numbers);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The bytes are the same on the host and on the device. The type in the kernel must have the same
/// fields in the same order. Its alignment may be stricter, as that of `float2` is, in kernels that
/// take the address of a whole buffer: buffers are aligned to at least 256 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Element<T>(pub T);

// SAFETY: the layouts must be equal ← the struct is `repr(transparent)`.
unsafe impl<T> TransparentWrapper<T> for Element<T> {}

// SAFETY: all bits zero must be a valid value ← they are one of `T`, the only field.
unsafe impl<T: Zeroable> Zeroable for Element<T> {}

// SAFETY: any bit pattern must be a valid value, and there must be no padding ← both hold for `T`,
// the only field.
unsafe impl<T: Pod> Pod for Element<T> {}

#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← a `Pod` type has the layout of C and no padding, and the device
// lays out numbers and structs of C as the host does.
unsafe impl<T: Pod + Send + Sync> DeviceRepr for Element<T> {}

/// Implements `DeviceRepr` for types of other crates that consist of floats or integers.
#[cfg(any(feature = "glam", feature = "num-complex"))]
macro_rules! device_repr {
    ($($ty:ty),* $(,)?) => {
        $(
            #[diagnostic::do_not_recommend]
            // SAFETY: the layouts must agree ← the type is a `repr(C)` struct of numbers without
            // padding, which its implementation of `Pod` guarantees.
            unsafe impl DeviceRepr for $ty {}
        )*
    };
}

#[cfg(feature = "num-complex")]
device_repr!(num_complex::Complex<f32>, num_complex::Complex<f64>,);

#[cfg(feature = "glam")]
device_repr!(
    glam::Vec2,
    glam::Vec3,
    glam::Vec4,
    glam::Quat,
    glam::Mat2,
    glam::Mat3,
    glam::Mat4,
    glam::DVec2,
    glam::DVec3,
    glam::DVec4,
    glam::DQuat,
    glam::DMat2,
    glam::DMat3,
    glam::DMat4,
    glam::IVec2,
    glam::IVec3,
    glam::IVec4,
    glam::UVec2,
    glam::UVec3,
    glam::UVec4,
);
