//! C++ names of Rust types, for name expressions.

/// A type that has the same bits in Rust and in CUDA C++.
///
/// ```
/// use cuda_nvrtc::CppType;
///
/// fn kernel<T: CppType>() -> String {
///     format!("scale<{}>", T::NAME)
/// }
/// assert_eq!(kernel::<u32>(), "scale<unsigned int>");
/// ```
pub trait CppType {
    /// Its name in C++.
    const NAME: &'static str;
}

macro_rules! cpp_types {
    ($($rust:ty => $cpp:literal),* $(,)?) => {
        $(impl CppType for $rust {
            const NAME: &'static str = $cpp;
        })*
    };
}

// The names are those of the fundamental types, because names such as `int64_t` need a header.
cpp_types! {
    bool => "bool",
    i8 => "signed char",
    u8 => "unsigned char",
    i16 => "short",
    u16 => "unsigned short",
    i32 => "int",
    u32 => "unsigned int",
    i64 => "long long",
    u64 => "unsigned long long",
    f32 => "float",
    f64 => "double",
}
