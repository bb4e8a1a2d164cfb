//! What the macros expand to.

mod fields;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Error, Result};

use fields::{Field, fields};

pub(crate) fn device_repr(input: TokenStream) -> TokenStream {
    expand_with(input, expand_device_repr)
}

pub(crate) fn kernel_arg(input: TokenStream) -> TokenStream {
    expand_with(input, expand_kernel_arg)
}

fn expand_with(input: TokenStream, expand: fn(&DeriveInput) -> Result<Tokens>) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand_device_repr(input: &DeriveInput) -> Result<Tokens> {
    let fields = fields(input, "DeviceRepr")?;
    let name = &input.ident;
    let are_device_repr = fields.iter().map(|Field { ty, span, .. }| {
        quote_spanned! {*span=> is_device_repr::<#ty>(); }
    });
    let title = name.to_string();
    let gaps = fields.windows(2).map(|pair| {
        let ((before, end), next) = (end_of(name, &pair[0]), &pair[1]);
        let (after, member) = (next.name(), &next.member);
        quote_spanned! {next.span=>
            const _: () = ::cuda_driver::derive::expect_no_gap(
                #title,
                #before,
                #end,
                #after,
                ::core::mem::offset_of!(#name, #member),
            );
        }
    });
    let last = fields.last().map(|last| {
        let (before, end) = end_of(name, last);
        quote_spanned! {last.span=>
            const _: () = ::cuda_driver::derive::expect_no_end_gap(
                #title,
                #before,
                #end,
                ::core::mem::size_of::<#name>(),
            );
        }
    });
    Ok(quote! {
        const _: () = {
            fn is_device_repr<T: ::cuda_driver::DeviceRepr>() {}
            fn fields_are_device_repr() {
                #(#are_device_repr)*
            }
        };
        #(#gaps)*
        #last
        // SAFETY: all bits zero must be a valid value ← this holds for each field.
        unsafe impl ::cuda_driver::derive::Zeroable for #name {}
        // SAFETY: any bit pattern must be a valid value, and there must be no padding ← the former
        // holds for each field; by the assertions above, each field starts where the one before it
        // ends, and the last one ends with the struct.
        unsafe impl ::cuda_driver::derive::Pod for #name {}
        // SAFETY: the layouts on host and device must agree ← those of the fields do, and the
        // struct has the layout of C.
        unsafe impl ::cuda_driver::DeviceRepr for #name {}
    })
}

/// Returns the name of a field and an expression for the offset of its end in the struct `name`.
fn end_of(name: &syn::Ident, field: &Field<'_>) -> (String, Tokens) {
    let Field { member, ty, .. } = field;
    let end = quote! {
        ::core::mem::offset_of!(#name, #member) + ::core::mem::size_of::<#ty>()
    };
    (field.name(), end)
}

fn expand_kernel_arg(input: &DeriveInput) -> Result<Tokens> {
    let fields = fields(input, "KernelArg")?;
    let name = &input.ident;
    let are_by_value = fields.iter().map(|Field { ty, span, .. }| {
        quote_spanned! {*span=> is_by_value::<#ty>(); }
    });
    let copies = fields.iter().map(|Field { member, ty, .. }| {
        quote! {
            // SAFETY: there must be room for the field, which nothing else uses ← `to` has room for
            // the struct, and the offset is that of the field.
            unsafe {
                <#ty as ::cuda_driver::derive::ByValue>::copy_to(
                    &self.#member,
                    to.wrapping_add(::core::mem::offset_of!(#name, #member)),
                )
            };
        }
    });
    Ok(quote! {
        const _: () = {
            fn is_by_value<T: ::cuda_driver::derive::ByValue>() {}
            fn fields_are_by_value() {
                #(#are_by_value)*
            }
        };
        // SAFETY: the bytes of the fields must be written, and no others ← each field writes its
        // own bytes.
        unsafe impl ::cuda_driver::derive::ByValue for #name {
            unsafe fn copy_to(&self, to: *mut u8) {
                #(#copies)*
            }
        }
        // SAFETY: the value must be what the kernel expects ← it has the size, the alignment and
        // the fields of the struct, which has the layout of C. It points to no memory.
        unsafe impl ::cuda_driver::launch::KernelArg for #name {
            type Value = ::cuda_driver::derive::Block<#name, { ::core::mem::size_of::<#name>() }>;

            fn value(&self) -> Self::Value {
                ::cuda_driver::derive::Block::of(self)
            }
        }
        // SAFETY: `SIZE` must be the size of the parameter ← the kernel takes the struct itself.
        unsafe impl ::cuda_driver::launch::KernelParam for #name {
            const SIZE: usize = ::core::mem::size_of::<#name>();
        }
        // SAFETY: the sizes must be equal ← the argument and the parameter have the same type.
        unsafe impl ::cuda_driver::launch::Accepts<#name> for #name {}
    })
}
