//! The vector types of CUDA: two to four numbers with the layout and alignment of CUDA C++.
//!
//! They can be arguments of kernels and elements of buffers. The device reads or writes an aligned
//! vector with one access.

#[cfg(feature = "mint")]
mod mint;

use crate::memory::DeviceRepr;

macro_rules! vectors {
    ($($(#[$cfg:meta])* $name:ident($element:ty, $cxx:literal, align $align:literal) { $($field:ident)* })*) => {
        $(
            #[doc = concat!("`", $cxx, "` of CUDA C++, aligned to ", stringify!($align), " bytes.")]
            $(#[$cfg])*
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            #[repr(C, align($align))]
            pub struct $name {
                $(
                    #[doc = concat!("The component `", stringify!($field), "`.")]
                    pub $field: $element,
                )*
            }

            $(#[$cfg])*
            impl $name {
                /// The number of components.
                const LEN: usize = [$(stringify!($field)),*].len();

                /// Creates a vector from its components.
                #[must_use]
                pub const fn new($($field: $element),*) -> Self {
                    Self { $($field),* }
                }
            }

            $(#[$cfg])*
            const _: () = assert!(size_of::<$name>() == $name::LEN * size_of::<$element>());

            $(#[$cfg])*
            // SAFETY: all bits zero must be a valid value ← this holds for each component.
            unsafe impl bytemuck::Zeroable for $name {}
            $(#[$cfg])*
            // SAFETY: any bit pattern must be a valid value, and there must be no padding ← the
            // former holds for each component, and the assertion above compares the sizes.
            unsafe impl bytemuck::Pod for $name {}
            $(#[$cfg])*
            #[diagnostic::do_not_recommend]
            // SAFETY: the layouts on host and device must agree ← the components are in order, and
            // the alignment is that of the table of built-in vector types in the CUDA C++
            // Programming Guide.
            unsafe impl DeviceRepr for $name {}

            $(#[$cfg])*
            impl From<[$element; $name::LEN]> for $name {
                fn from([$($field),*]: [$element; $name::LEN]) -> Self {
                    Self { $($field),* }
                }
            }

            $(#[$cfg])*
            impl From<$name> for [$element; $name::LEN] {
                fn from(vector: $name) -> Self {
                    [$(vector.$field),*]
                }
            }
        )*
    };
}

vectors! {
    Char2(i8, "char2", align 2) { x y }
    Char3(i8, "char3", align 1) { x y z }
    Char4(i8, "char4", align 4) { x y z w }
    UChar2(u8, "uchar2", align 2) { x y }
    UChar3(u8, "uchar3", align 1) { x y z }
    UChar4(u8, "uchar4", align 4) { x y z w }
    Short2(i16, "short2", align 4) { x y }
    Short3(i16, "short3", align 2) { x y z }
    Short4(i16, "short4", align 8) { x y z w }
    UShort2(u16, "ushort2", align 4) { x y }
    UShort3(u16, "ushort3", align 2) { x y z }
    UShort4(u16, "ushort4", align 8) { x y z w }
    Int2(i32, "int2", align 8) { x y }
    Int3(i32, "int3", align 4) { x y z }
    Int4(i32, "int4", align 16) { x y z w }
    UInt2(u32, "uint2", align 8) { x y }
    UInt3(u32, "uint3", align 4) { x y z }
    UInt4(u32, "uint4", align 16) { x y z w }
    LongLong2(i64, "longlong2", align 16) { x y }
    LongLong3(i64, "longlong3", align 8) { x y z }
    LongLong4(i64, "longlong4_16a", align 16) { x y z w }
    ULongLong2(u64, "ulonglong2", align 16) { x y }
    ULongLong3(u64, "ulonglong3", align 8) { x y z }
    ULongLong4(u64, "ulonglong4_16a", align 16) { x y z w }
    Float2(f32, "float2", align 8) { x y }
    Float3(f32, "float3", align 4) { x y z }
    Float4(f32, "float4", align 16) { x y z w }
    Double2(f64, "double2", align 16) { x y }
    Double3(f64, "double3", align 8) { x y z }
    Double4(f64, "double4_16a", align 16) { x y z w }
    #[cfg(feature = "half")]
    Half2(half::f16, "__half2", align 4) { x y }
    #[cfg(feature = "half")]
    Bf162(half::bf16, "__nv_bfloat162", align 4) { x y }
}
