//! What may lie in device memory.

/// A type whose values may lie in device memory and be arguments of kernels.
///
/// Implemented for the integers and floats and arrays of them, for [vectors](crate::vector), and
/// with the feature `half` for `f16` and `bf16`. With the feature `derive`, `#[derive(DeviceRepr)]`
/// does it for a `#[repr(C)]` struct without padding, and checks that it is one. By hand:
///
/// ```
/// use cuda_driver::DeviceRepr;
///
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
///
/// // SAFETY: all fields are floats and there is no padding between them.
/// unsafe impl bytemuck::Zeroable for Particle {}
/// // SAFETY: as above.
/// unsafe impl bytemuck::Pod for Particle {}
/// // SAFETY: `repr(C)`, so the kernel's struct of the same fields has the same layout.
/// unsafe impl DeviceRepr for Particle {}
/// ```
///
/// # Safety
///
/// The type has the same layout on the device as on the host. That any bits are a value of it, and
/// that it has no padding, is what [`bytemuck::Pod`] promises: a kernel may write any bits.
pub unsafe trait DeviceRepr: bytemuck::Pod + Send + Sync {}

macro_rules! device_repr {
    ($($ty:ty),*) => {
        $(
            // SAFETY: layouts must agree ← the CUDA C++ type of this width has the size and
            // alignment of the host's.
            unsafe impl DeviceRepr for $ty {}
        )*
    };
}

device_repr!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64
);

// SAFETY: layouts must agree ← arrays of C and of Rust have their elements one after the other.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] where [T; N]: bytemuck::Pod {}

#[cfg(feature = "half")]
#[diagnostic::do_not_recommend]
// SAFETY: layouts must agree ← 16 bits, aligned to 2 bytes, as `__half`.
unsafe impl DeviceRepr for half::f16 {}

#[cfg(feature = "half")]
#[diagnostic::do_not_recommend]
// SAFETY: layouts must agree ← 16 bits, aligned to 2 bytes, as `__nv_bfloat16`.
unsafe impl DeviceRepr for half::bf16 {}
