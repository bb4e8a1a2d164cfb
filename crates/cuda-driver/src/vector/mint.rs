//! Conversions between vectors of CUDA and those of the crate `mint`, through which libraries for
//! mathematics exchange vectors.

use super::{
    Double2, Double3, Double4, Float2, Float3, Float4, Int2, Int3, Int4, UInt2, UInt3, UInt4,
};

macro_rules! conversions {
    ($($name:ident($element:ty) = $other:ident { $($field:ident)* };)*) => {
        $(
            impl From<::mint::$other<$element>> for $name {
                fn from(vector: ::mint::$other<$element>) -> Self {
                    let ::mint::$other { $($field),* } = vector;
                    Self { $($field),* }
                }
            }

            impl From<$name> for ::mint::$other<$element> {
                fn from(vector: $name) -> Self {
                    let $name { $($field),* } = vector;
                    Self { $($field),* }
                }
            }
        )*
    };
}

conversions! {
    Float2(f32) = Vector2 { x y };
    Float3(f32) = Vector3 { x y z };
    Float4(f32) = Vector4 { x y z w };
    Double2(f64) = Vector2 { x y };
    Double3(f64) = Vector3 { x y z };
    Double4(f64) = Vector4 { x y z w };
    Int2(i32) = Vector2 { x y };
    Int3(i32) = Vector3 { x y z };
    Int4(i32) = Vector4 { x y z w };
    UInt2(u32) = Vector2 { x y };
    UInt3(u32) = Vector3 { x y z };
    UInt4(u32) = Vector4 { x y z w };
}
