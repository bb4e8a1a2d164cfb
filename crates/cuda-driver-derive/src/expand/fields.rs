//! The checks of both derive macros: the layout of a struct must be that of C, and its fields are
//! listed with their names.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Index, Member, Result, Type};

/// A field of the struct.
pub(crate) struct Field<'a> {
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
    /// The place that errors about the field point to.
    pub(crate) span: Span,
}

impl Field<'_> {
    /// Returns the name of the field as it is written in the struct: `weight` or `0`.
    pub(crate) fn name(&self) -> String {
        self.member.to_token_stream().to_string()
    }
}

/// Returns the fields of a struct with the layout of C. `derived` is the name of the trait.
pub(crate) fn fields<'a>(input: &'a DeriveInput, derived: &str) -> Result<Vec<Field<'a>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            format!(
                "`{derived}` can only be derived for structs: not every bit pattern is a valid \
                 enum, and a union has no active field"
            ),
        ));
    };
    check_repr(input, derived)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            format!(
                "`{derived}` cannot be derived for a generic struct: whether it has padding \
                 depends on its type arguments"
            ),
        ));
    }
    let of_syn = match &data.fields {
        Fields::Named(fields) => Some(&fields.named),
        Fields::Unnamed(fields) => Some(&fields.unnamed),
        Fields::Unit => None,
    };
    // Not `Fields::members`, which older versions of syn lack.
    let fields: Vec<_> = of_syn
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, field)| Field {
            member: match &field.ident {
                Some(name) => Member::Named(name.clone()),
                None => Member::Unnamed(Index::from(index)),
            },
            ty: &field.ty,
            span: field.ty.span(),
        })
        .collect();
    if fields.is_empty() {
        return Err(Error::new(
            input.ident.span(),
            format!(
                "`{derived}` needs at least one field: the size of an empty struct is 0 in Rust, \
                 but 1 in C++"
            ),
        ));
    }
    Ok(fields)
}

/// Returns an error unless the struct has the layout of C.
fn check_repr(input: &DeriveInput, derived: &str) -> Result<()> {
    let mut is_c = false;
    for attribute in &input.attrs {
        if !attribute.path().is_ident("repr") {
            continue;
        }
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("C") || meta.path.is_ident("transparent") {
                is_c = true;
            } else if meta.path.is_ident("packed") {
                return Err(meta.error(format!("`{derived}` cannot be derived for packed structs")));
            }
            // Skips the argument of `align(16)`.
            if meta.input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in meta.input);
                inside.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if is_c {
        Ok(())
    } else {
        Err(Error::new(
            input.ident.span(),
            format!(
                "`{derived}` needs `#[repr(C)]` or `#[repr(transparent)]`: otherwise Rust may \
                 reorder the fields"
            ),
        ))
    }
}
