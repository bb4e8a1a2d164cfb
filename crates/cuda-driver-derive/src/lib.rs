//! The derive macro `DeviceRepr` of cuda-driver, which re-exports it if its feature `derive` is on.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Result, Type};

/// Implements `DeviceRepr` for a struct, together with its supertraits `bytemuck::Pod` and
/// `bytemuck::Zeroable`.
///
/// The struct must be `#[repr(C)]` or `#[repr(transparent)]` and `Copy`. All its fields must be
/// `DeviceRepr`, and it must not have padding. The compiler reports an error otherwise.
#[proc_macro_derive(DeviceRepr)]
pub fn device_repr(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(input: &DeriveInput) -> Result<Tokens> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "`DeviceRepr` can only be derived for structs: not every bit pattern is a valid enum, \
             and a union has no active field",
        ));
    };
    check_repr(input)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "`DeviceRepr` cannot be derived for a generic struct: whether it has padding depends \
             on its type arguments",
        ));
    }
    let fields: Vec<&Type> = match &data.fields {
        Fields::Named(fields) => fields.named.iter().map(|field| &field.ty).collect(),
        Fields::Unnamed(fields) => fields.unnamed.iter().map(|field| &field.ty).collect(),
        Fields::Unit => Vec::new(),
    };
    if fields.is_empty() {
        return Err(Error::new(
            input.ident.span(),
            "`DeviceRepr` needs at least one field: the size of an empty struct is 0 in Rust, but \
             1 in C++",
        ));
    }
    let name = &input.ident;
    let are_device_repr = fields.iter().map(|ty| {
        quote_spanned! {ty.span()=> is_device_repr::<#ty>(); }
    });
    Ok(quote! {
        const _: () = {
            fn is_device_repr<T: ::cuda_driver::DeviceRepr>() {}
            fn fields_are_device_repr() {
                #(#are_device_repr)*
            }
            assert!(
                ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#fields>())*,
                "a struct that derives `DeviceRepr` must not have padding: declare fields for the \
                 gaps between and after its fields"
            );
        };
        // SAFETY: all bits zero must be a valid value ← this holds for each field.
        unsafe impl ::cuda_driver::derive::Zeroable for #name {}
        // SAFETY: any bit pattern must be a valid value, and there must be no padding ← the former
        // holds for each field, and the assertion above compares the sizes.
        unsafe impl ::cuda_driver::derive::Pod for #name {}
        // SAFETY: the layouts on host and device must agree ← those of the fields do, and the
        // struct has the layout of C.
        unsafe impl ::cuda_driver::DeviceRepr for #name {}
    })
}

/// Returns an error unless the struct has the layout of C.
fn check_repr(input: &DeriveInput) -> Result<()> {
    let mut is_c = false;
    for attribute in &input.attrs {
        if !attribute.path().is_ident("repr") {
            continue;
        }
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("C") || meta.path.is_ident("transparent") {
                is_c = true;
            } else if meta.path.is_ident("packed") {
                return Err(meta.error("`DeviceRepr` cannot be derived for packed structs"));
            }
            // Skips the argument of `align(16)`.
            if meta.input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in meta.input);
                inside.parse::<Tokens>()?;
            }
            Ok(())
        })?;
    }
    if is_c {
        Ok(())
    } else {
        Err(Error::new(
            input.ident.span(),
            "`DeviceRepr` needs `#[repr(C)]` or `#[repr(transparent)]`: otherwise Rust may \
             reorder the fields",
        ))
    }
}
