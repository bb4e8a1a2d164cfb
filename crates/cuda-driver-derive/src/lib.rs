//! The derive macros `DeviceRepr` and `KernelArg` of cuda-driver, which re-exports them.
//!
//! Without the feature `expand`, which the feature `derive` of cuda-driver enables, this crate has
//! no dependencies, and a macro is a compile error that names the feature.

#[cfg(feature = "expand")]
mod expand;

use proc_macro::TokenStream;

/// Implements `DeviceRepr` for a struct, together with its supertraits `bytemuck::Pod` and
/// `bytemuck::Zeroable`.
///
/// The struct must be `#[repr(C)]` or `#[repr(transparent)]` and `Copy`. All its fields must be
/// `DeviceRepr`, and it must not have padding. The compiler reports an error otherwise, which names
/// the fields on both sides of the padding.
#[proc_macro_derive(DeviceRepr)]
pub fn device_repr(input: TokenStream) -> TokenStream {
    #[cfg(feature = "expand")]
    return expand::device_repr(input);
    #[cfg(not(feature = "expand"))]
    missing_feature("DeviceRepr", &input)
}

/// Implements `KernelArg` for a struct that is passed to kernels by value and that may have
/// padding, and `KernelParam` for the signatures of typed kernels.
///
/// The struct must be `#[repr(C)]` or `#[repr(transparent)]` and `Copy`. All its fields must be
/// `DeviceRepr`, or structs that derive `KernelArg` themselves. A launch copies the fields into a
/// block of zero bytes, so it never reads the padding.
///
/// A struct without padding derives `DeviceRepr` instead: it can then also be an element of a
/// buffer.
#[proc_macro_derive(KernelArg)]
pub fn kernel_arg(input: TokenStream) -> TokenStream {
    #[cfg(feature = "expand")]
    return expand::kernel_arg(input);
    #[cfg(not(feature = "expand"))]
    missing_feature("KernelArg", &input)
}

/// Returns a compile error that says how to get the macro.
#[cfg(not(feature = "expand"))]
fn missing_feature(derived: &str, _: &TokenStream) -> TokenStream {
    let text = format!(
        "`#[derive({derived})]` needs the feature `derive` of cuda-driver, which is off: \
         `cargo add cuda-driver --features derive`"
    );
    // It is Rust code, so it can be parsed.
    let error = format!("::core::compile_error!({text:?});");
    error.parse().unwrap_or_default()
}
