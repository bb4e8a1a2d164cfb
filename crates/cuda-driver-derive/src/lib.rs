//! `#[derive(DeviceRepr)]` of cuda-driver, which exports it with its feature `derive`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Result, Type};

/// Implements `DeviceRepr` for a struct, and what that needs: `bytemuck::Pod` and
/// `bytemuck::Zeroable`.
///
/// The struct is `#[repr(C)]` or `#[repr(transparent)]`, `Copy`, has fields that are all
/// `DeviceRepr`, and no padding: what does not hold is an error of the compiler.
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
            "DeviceRepr is for structs: not any bits are a value of an enum, and of a union nobody knows which",
        ));
    };
    check_repr(input)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "DeviceRepr is not derived for generic structs: whether they have padding depends on the types",
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
            "DeviceRepr needs a field: an empty struct has no bytes in Rust and one in C++",
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
                "a struct for the device has no padding: give the gaps between and behind its fields names"
            );
        };
        // SAFETY: all bits zero must be a value ← they are one of each field.
        unsafe impl ::cuda_driver::derive::Zeroable for #name {}
        // SAFETY: any bits must be a value, without padding ← they are one of each field, and the
        // size was compared.
        unsafe impl ::cuda_driver::derive::Pod for #name {}
        // SAFETY: layouts must agree ← those of the fields do, and they lie as in C.
        unsafe impl ::cuda_driver::DeviceRepr for #name {}
    })
}

/// An error unless the struct lies in memory as in C.
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
                return Err(meta.error("DeviceRepr is not derived for packed structs"));
            }
            // The number of `align(16)`.
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
            "DeviceRepr needs #[repr(C)] or #[repr(transparent)]: Rust orders fields as it likes",
        ))
    }
}
