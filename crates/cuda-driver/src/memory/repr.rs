//! The trait for types whose values can be stored in device memory.

use crate::types::ArgType;

/// A type whose values can be stored in device memory and passed to kernels.
///
/// The trait is implemented for integers, floats and arrays of them, for [vectors](crate::vector),
/// with the feature `half` for `f16` and `bf16`, with the feature `float8` for `F8E4M3` and
/// `F8E5M2`, with the feature `glam` for the vectors and matrices of the latest release of that
/// crate, and with the feature `num-complex` for complex numbers. For a type of another crate that
/// implements [`bytemuck::Pod`], use the wrapper [`Element`](crate::memory::Element).
///
/// With the feature `derive`, `#[derive(DeviceRepr)]` implements it for a `#[repr(C)]` struct and
/// checks that the struct has no padding. An implementation by hand looks like this:
///
/// ```
/// use cuda_driver::{DeviceBuffer, DeviceRepr};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
///
/// // SAFETY: all fields are floats, for which zero bits are a valid value.
/// unsafe impl bytemuck::Zeroable for Particle {}
/// // SAFETY: all fields are floats and there is no padding between them.
/// unsafe impl bytemuck::Pod for Particle {}
/// // SAFETY: `repr(C)`, so the kernel's struct of the same fields has the same layout.
/// unsafe impl DeviceRepr for Particle {}
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let particle = Particle { position: [0.0, 1.0, 2.0], mass: 3.0 };
/// let particles = DeviceBuffer::filled(&stream, 100, particle)?;
/// assert_eq!(particles.to_vec()?, [particle; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Safety
///
/// The type must have the same layout on the device as on the host. A kernel may write any bit
/// pattern; [`bytemuck::Pod`] guarantees that every bit pattern is a valid value and that there is
/// no padding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in device memory",
    label = "not a number, an array of numbers, or a `DeviceRepr` struct",
    note = "for a struct of your own: enable the feature `derive` and add `#[derive(Clone, Copy, DeviceRepr)]` and `#[repr(C)]`",
    note = "every bit pattern must be valid: use `u8` for `bool`, and a number for an `Option` or an enum"
)]
pub unsafe trait DeviceRepr: bytemuck::Pod + Send + Sync {
    /// The type of an argument that is passed by value.
    #[doc(hidden)]
    const ARG_TYPE: ArgType = ArgType::Other;
}

macro_rules! device_repr {
    ($($ty:ty: $arg_type:ident),*) => {
        $(
            // SAFETY: the layouts must agree ← the CUDA C++ type of the same width has the size and
            // alignment of the host type.
            unsafe impl DeviceRepr for $ty {
                const ARG_TYPE: ArgType = ArgType::$arg_type;
            }
        )*
    };
}

device_repr!(
    u8: U8, u16: U16, u32: U32, u64: U64, u128: U128, usize: Usize,
    i8: I8, i16: I16, i32: I32, i64: I64, i128: I128, isize: Isize,
    f32: F32, f64: F64
);

// SAFETY: the layouts must agree ← C and Rust both store the elements of an array contiguously.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] where [T; N]: bytemuck::Pod {}

#[cfg(feature = "half")]
#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← `f16` has 16 bits and an alignment of 2 bytes, as `__half` has.
unsafe impl DeviceRepr for half::f16 {}

#[cfg(feature = "half")]
#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← `bf16` has 16 bits and an alignment of 2 bytes, as
// `__nv_bfloat16` has.
unsafe impl DeviceRepr for half::bf16 {}

#[cfg(feature = "float8")]
#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← `F8E4M3` has 8 bits, as `__nv_fp8_e4m3` has.
unsafe impl DeviceRepr for float8::F8E4M3 {}

#[cfg(feature = "float8")]
#[diagnostic::do_not_recommend]
// SAFETY: the layouts must agree ← `F8E5M2` has 8 bits, as `__nv_fp8_e5m2` has.
unsafe impl DeviceRepr for float8::F8E5M2 {}
